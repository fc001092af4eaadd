"""k-means on the sphere, as a scikit-learn clusterer."""

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from kaucus.backend import (
    array_namespace,
    as_like,
    astype,
    dtype_name,
    generator_from,
    to_numpy,
    working_types,
)
from kaucus.contract import (
    ExportsONNX,
    FitsBatches,
    FollowsX,
    is_dask,
    on_host,
    rowwise,
    validate_data,
)
from kaucus.estimators._clusters import INITS, Clusterer, check_rows, report_kmeans
from kaucus.estimators._kernel_input import in_precision_of, map_rows, place_rows
from kaucus.estimators._parameters import (
    MEMORY_BUDGET,
    POSITIVE,
    PRECISION,
    RANDOM_STATE,
    ChecksParameters,
    is_whole,
    not_text,
    one_of,
)
from kaucus.estimators._progress import step_reporter
from kaucus.estimators._ranges import check_magnitude
from kaucus.estimators._validation import check_weights
from kaucus.kernels import inner_products, unit_rows
from kaucus.representatives import KMeansResult, kmeans, part_labels


class SphericalKMeans(
    ExportsONNX,
    FitsBatches,
    FollowsX,
    Clusterer,
    ChecksParameters,
    BaseEstimator,
):
    """k-means by the angle between rows.

    Rows are scaled to unit norm, and each belongs to the centre with which its cosine
    is largest; a centre is the mean of its rows, scaled to unit norm. The right k-means
    for texts, spectra, embeddings, and for pictures whose brightness does not matter.

    Parameters
    ----------
    init : {"k-means++", "random"} or array-like of shape (n_clusters, n_features), \
default="k-means++"
        Where to begin: rows far from each other, random rows (the paper), or these
        centres.
    n_init : "auto" or int, default="auto"
        Starts, of which the best is kept. ``"auto"``: 10 for ``"random"``, else 1.
    tol : float, default=1e-6
        Stop when the alignment deviation δ = 1 − mean⟨new, old⟩ of the centres is no
        larger.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. ``"tf32"`` is float32
        here: on CUDA, rows are assigned by tf32 products where these decide.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        Cosines are kept between steps where they fit, which saves most of the work.
    random_state : int, RandomState or Generator, default=None
        Draws the first centres.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres of unit norm.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each training row; a lazy Dask array where ``X`` was one.
    inertia_ : float
        Sum of 1 − cosine over the training rows, with their weights.

    See Also
    --------
    sklearn.cluster.KMeans : k-means by the distance between rows.

    Notes
    -----
    The result depends on ``random_state`` alone, not on the number of threads.

    References
    ----------
    I. S. Dhillon, D. S. Modha, "Concept decompositions for large sparse text data using
    clustering", Machine Learning 42, 143 (2001).

    M. Andrecut, "K-means kernel classifier" (2020), Sec. 5.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import SphericalKMeans
    >>> X = np.array([[1, 0.1], [5, 0.2], [0.1, 2], [0.3, 9]])
    >>> SphericalKMeans(n_clusters=2, random_state=0).fit_predict(X)
    array([1, 1, 0, 0], dtype=int32)
    """

    _dask_fit = "rows"
    _parameters: ClassVar = {
        "init": one_of(*INITS) | not_text("the first centres"),
        "tol": POSITIVE,
        "precision": PRECISION,
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        init="k-means++",
        n_init="auto",
        max_iter=300,
        tol=1e-6,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None):
        """Find the clusters.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : SphericalKMeans
        """
        self._check_parameters()
        n_init, given = self._n_starts(), X
        X = self._validate(X, reset=True)
        check_rows(X, self.n_clusters)
        weight = check_weights(sample_weight, X)
        result = self._kmeans(X, weight, n_init)
        report_kmeans(result, self.n_clusters, self.max_iter)
        self.cluster_centers_ = as_like(result.centers, X)
        self.inertia_, self.n_iter_ = result.inertia, result.n_iter
        self.n_reseeded_ = result.n_reseeded
        self._n_features_out = self.n_clusters
        if is_dask(given):
            self.labels_ = self.predict(given)
            return self
        labels = result.labels
        if labels is None:  # rows that are read batch by batch
            labels = part_labels(X, result.centers, "cosine")
        self.labels_ = astype(as_like(labels, X), "int32")
        return self

    def _kmeans(self, X, weight, n_init: int) -> KMeansResult:
        """Cluster on the device, block by block where the rows do not fit there."""
        rows = place_rows(X, self.device, self.memory_budget)
        return kmeans(
            rows,
            self.n_clusters,
            metric="cosine",
            init=self._first_centers(X, rows),
            n_init=n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            sample_weight=as_like(weight, rows),
            rng=generator_from(self.random_state),
            memory_budget=self.memory_budget,
            callback=step_reporter(self.verbose, self.tol, self.max_iter),
        )

    @rowwise
    def predict(self, X):
        """Return the cluster of largest cosine.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        cosines = self._cosines(X)
        return astype(array_namespace(cosines).argmax(cosines, axis=1), "int32")

    @rowwise
    def transform(self, X):
        """Return the cosines with the centres.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        return self._cosines(X)

    def _row_scores(self, X):
        return to_numpy(self._cosines(X)).max(axis=1).astype(np.float64) - 1

    def _cosines(self, X):
        check_is_fitted(self, "cluster_centers_")
        X = self._validate(X, reset=False)
        return map_rows(self._cosines_of_rows, X, self.device, self.memory_budget)

    def _cosines_of_rows(self, rows):
        centers = in_precision_of(self.cluster_centers_, rows)
        return inner_products(unit_rows(rows), centers)

    def _validate(self, X, *, reset: bool):
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=working_types(self.precision),
        )
        check_magnitude(X, fitted=reset)
        return X

    def _n_starts(self) -> int:
        """Return the number of starts, by default ten where they are random."""
        if is_whole(self.n_init):
            return int(self.n_init)
        return 10 if isinstance(self.init, str) and self.init == "random" else 1

    def _first_centers(self, X, rows):
        if isinstance(self.init, str):
            return self.init
        centers = on_host(self.init)
        centers = check_array(centers, dtype=dtype_name(X), input_name="init")
        expected = (self.n_clusters, X.shape[1])
        if centers.shape != expected:
            raise ValueError(
                f"init has shape {centers.shape}; expected (n_clusters, n_features) = "
                f"{expected}."
            )
        return as_like(centers, rows)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
