"""Spherical k-means and kernel k-means."""

import functools
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus.clustering._kernel_kmeans import (
    LANDMARKS,
    KernelKMeansResult,
    best_start,
    choose_landmarks,
    choose_on_graph,
    distances_from_sums,
    kernel_kmeans,
    kernel_kmeans_on_landmarks,
    labels_objective,
    labels_on_landmarks,
    make_gram,
    mean_shares,
)
from kaucus.clustering._kmeans import KMeansResult, kmeans, part_labels
from kaucus.kernels._kernel import inner_products, unit_rows
from kaucus.kernels._matrix import KernelOperator

# ----------------------------------------------------------------------------------
# What clusterers share: parameters, score, checks, warnings; means of a kernel.
# ----------------------------------------------------------------------------------

INITS = ("k-means++", "random")


class Clusterer(
    base.CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
):
    """Parameters and the score of a clusterer.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    max_iter : int
        Most steps of one start.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each training row.
    n_iter_ : int
        Steps of the best start.
    n_reseeded_ : int
        How often a cluster that had lost all its rows was given the worst represented
        one.
    """

    _parameters: ClassVar = {
        "n_clusters": base.count(),
        "n_init": base.count() | base.one_of("auto"),
        "max_iter": base.count(),
    }
    n_clusters: int
    n_init: int | str
    init: Any
    _row_scores: Any  # a method: minus the cost of each row, (n,)
    _fit: Any  # a method of rows, weights and a monitor

    def _fit_and_tell(self, X, y, sample_weight):
        """Fit; tell scikit-learn's callbacks, if there are any."""
        if base.has_callbacks(self):
            self._fit_told(X, y, sample_weight)
        else:
            self._fit(X, sample_weight)
        return self

    @base.with_callbacks
    def _fit_told(self, X, y, sample_weight) -> None:
        # Batches have been read and are gone: there is nothing to predict.
        monitor = base.FitMonitor(
            self, **({"X": X, "y": y} if hasattr(X, "__len__") else {})
        )
        self._fit(X, sample_weight, monitor)
        monitor.end()

    def _n_starts(self, has_many: bool) -> int:
        """Return the number of starts, by default ten where these differ."""
        if base.is_whole(self.n_init):
            return int(self.n_init)
        return 10 if has_many else 1

    def _check_rows(self, X) -> None:
        if base.is_whole(self.n_clusters) and X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}; "
                "lower n_clusters or pass more rows."
            )

    def _each_step(self, monitor: base.FitMonitor | None, report, attributes):
        """Return what is called after each step: the bar, scikit-learn's callbacks.

        ``attributes`` turns what a step has made into those of a fitted model.
        """
        if monitor is None:
            return report
        monitor.begin()

        def told(step: int, residual: float, made) -> bool:
            if report is not None:
                report(step, residual)
            return monitor.end_step(lambda: attributes(made))

        return told

    def _store(self, result: KMeansResult | KernelKMeansResult) -> None:
        """Store cost and steps; warn where fewer clusters were found."""
        self.inertia_, self.n_iter_ = result.inertia, result.n_iter
        self.n_reseeded_, k = result.n_reseeded, result.weights.shape[0]
        self._n_features_out = k
        if result.labels is None:  # of a row source
            n_found = np.count_nonzero(result.weights)
        else:
            n_found = len(np.unique(nx.to_numpy(result.labels)))
        if n_found < k:
            nx.warn_user(
                f"Only {n_found} of n_clusters={k} have rows: X has too "
                "few different rows. Lower n_clusters.",
                ConvergenceWarning,
            )

    def score(self, X, y=None, sample_weight=None) -> float:
        """Return minus the sum of the costs of rows, as ``inertia_`` counts them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Not a precomputed kernel matrix: k(X, X_fit) does not contain k(x, x).
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        if base.is_dask(X):
            from kaucus.distributed import score_sum

            return score_sum(self, X, sample_weight)
        scores = self._row_scores(X)
        weight = base.check_weights(sample_weight, scores)
        return float(scores.sum() if weight is None else weight @ scores)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# ----------------------------------------------------------------------------------
# k-means in the feature space of a kernel, as a scikit-learn clusterer.
# ----------------------------------------------------------------------------------

# Up to so many rows the exact objective of an approximate fit is computed as well.
EXACT_ROWS = 20_000
# Where a bar of progress is full with tol=0: the last step gains nothing.
_SMALL_GAIN = 1e-12
# Columns of the table of what was tried, and their types.
_TRIED = {
    **{"n_clusters": np.int64, "gamma": np.float64, "separation": np.float64},
    **{"kept": np.float64, "chosen": np.bool_},
}


class KernelKMeans(Clusterer, base.KernelInputMixin, base.FollowsX, BaseEstimator):
    """k-means in the feature space of a kernel.

    Each row belongs to the cluster whose mean, in the space that the kernel stands for,
    is nearest. So clusters may be rings, arms or whatever the kernel can tell apart;
    with a linear kernel it is k-means. Weights make it weighted kernel k-means, of
    which normalised cuts of a graph are a case (see Notes).

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. ``"auto"``: of 1 to 20 the number of largest separation (see
        Notes).
    gamma : {"tune", "scale", "auto", "median"} or float, default="tune"
        Width of the kernel. ``"tune"``, for kernels of distances that are given by
        name: the widest of nine with which kernel k-means keeps the most of the
        clusters that the graph of the nearest neighbours has (see Notes); for other
        kernels that is ``"scale"``, 1 / (n_features X.var()). ``"auto"`` is
        1 / n_features, ``"median"`` is from the median distance between rows (see
        :func:`kaucus.kernels.median_gamma`).
    init : {"auto", "k-means++", "random"} or array-like of shape (n_samples,), \
default="auto"
        Where to begin: rows far from each other in feature space, a random cluster for
        every row (the paper), or these clusters, whole numbers below ``n_clusters``.
        ``"auto"``: the clusters of the graph where gamma is tuned, else
        ``"k-means++"``.
    n_init : "auto" or int, default="auto"
        Starts, of which the best is kept. They share the kernel matrix and go side by
        side, so that ten cost little more than one. ``"auto"``: 10, but 1 for clusters
        that are given or of the graph, and for ``approximation="nystrom"``.
    tol : float, default=0.0
        Stop when a step lowers the objective by no more than this share of it; 0 goes
        on until no row moves.
    approximation : {None, "nystrom"}, default=None
        None is exact; ``"nystrom"`` is for hundreds of thousands of rows and more.
        The exact fit has n² kernel entries, kept where they fit and computed again in
        blocks where not. ``"nystrom"`` holds the centres to the span of ``n_landmarks``
        points: n times ``n_landmarks`` entries. Its rows may be a Dask collection, a
        large memory map or batches (``fit_batches``).
    n_landmarks : int, default=300
        Points for ``"nystrom"``, at most as many as there are rows.
    landmarks : {"k-means", "uniform", "rpcholesky"}, default="k-means"
        How they are chosen: centres of k-means, random rows, or pivots of a randomly
        pivoted Cholesky factor of the kernel matrix.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. ``"tf32"`` is float32
        with faster, coarser products of rows in the kernel on CUDA.
    random_state : int, RandomState or Generator, default=None
        Draws the starts and the landmarks.

    Attributes
    ----------
    inertia_ : float
        Sum of squared distances in feature space of the rows from the means of their
        clusters, with their weights. With ``"nystrom"`` the means are held to the span
        of the landmarks, so that it is an upper bound of ``exact_inertia_``.
    exact_inertia_ : float or None
        The same with the exact means of these clusters; None for an approximate fit of
        more than 20,000 rows, where it would take longer than the fit, of rows that are
        read in parts, or after Ctrl-C.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each training row; a lazy Dask array where ``X`` was one.
    n_clusters_ : int
        The number of clusters that was used.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
    gamma_ : float or None
        The gamma that was used; None for a kernel without one.
    search_results_ : dict of ndarrays
        What was tried, a row for each number of clusters and each width, none where
        both were given: ``n_clusters``, ``gamma``, ``separation``, ``kept``, the share
        of the rows that stay in their clusters, and ``chosen``; NaN for what the row
        does not try. For ``pandas.DataFrame(model.search_results_)``.
    X_fit_ : array or CSR matrix of shape (m, n_features)
        The rows in whose span the means lie: the training rows, or the landmarks.
        Absent with a precomputed kernel.
    center_coef_ : ndarray of shape (m, n_clusters)
        The means as sums over these rows.
    center_norms_ : ndarray of shape (n_clusters,)
        Their squared norms in feature space.

    See Also
    --------
    kaucus.evaluation.compare_kernels : Which kernel, without labels.
    SphericalKMeans : k-means by angle.
    sklearn.cluster.SpectralClustering : Normalised cuts by eigenvectors.

    Notes
    -----
    Eq. (7) of the reference in full: the squared norm of a mean is not the same for all
    clusters, and k(x, x) need not be 1. The objective falls with every step; with a
    kernel that is not positive semidefinite (``"sigmoid"``) it may rise, and then the
    clusters before that are kept, with a warning.

    Without a width or a number of clusters, the graph of the eight nearest neighbours
    of each row is cut by its leading eigenvectors (spectral clustering). The separation
    of a cut is the least, over its clusters, of the conductance of the best cut through
    the cluster over the share of its edges that lead out: large where clusters are
    easier to leave alone than to cut. The number of largest separation is taken, where
    3 is as good as more and the larger number wins a tie, and 1 where all are below
    2.5.

    Nine gammas are tried by kernel k-means from the clusters of the graph; each row is
    counted by the means of the other rows. The model is that of kernel k-means with
    kernel and gamma given, so that new rows go to the nearest mean.

    Of more than 1,000 rows, the graph is of 1,000 centres of k-means, or of fewer where
    ``memory_budget`` is less than 128 MB. A row of weight 0 is no part of it; other
    weights count in the choice of the width alone.

    For a graph of weights A with degrees D, the kernel σ D⁻¹ + D⁻¹ A D⁻¹, with σ large
    enough to make it positive semidefinite, and the degrees as ``sample_weight`` give
    normalised cuts.

    The result does not depend on the number of threads.

    References
    ----------
    M. Maia, A. Ara, "The kernel trick and clustering: the kernel k-means method".

    I. S. Dhillon, Y. Guan, B. Kulis, "Kernel k-means: spectral clustering and
    normalized cuts", KDD 2004.

    U. von Luxburg, "A tutorial on spectral clustering", Statistics and Computing 17,
    395 (2007).

    R. Kannan, S. Vempala, A. Vetta, "On clusterings: good, bad and spectral", Journal
    of the ACM 51, 497 (2004), for clusters by the conductance inside and outside.

    Examples
    --------
    >>> from kaucus import KernelKMeans
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.evaluation import clustering_accuracy
    >>> X, y = make_rings(random_state=0)
    >>> model = KernelKMeans("auto", random_state=0).fit(X)
    >>> model.n_clusters_, clustering_accuracy(y, model.labels_)
    (2, 1.0)
    >>> named = KernelKMeans(2, kernel="exponential", gamma=0.5, random_state=0)
    >>> clustering_accuracy(y, named.fit_predict(X))
    1.0
    """

    fit_batches, to_onnx = base.fit_batches, base.to_onnx
    _parameters: ClassVar = {
        "n_clusters": base.count() | base.one_of("auto"),
        "gamma": base.POSITIVE | base.one_of("tune", "scale", "auto", "median"),
        "init": base.one_of("auto", *INITS) | base.not_text("the cluster of each row"),
        "tol": base.NOT_NEGATIVE,
        "approximation": base.one_of(None, "nystrom"),
        "n_landmarks": base.count(),
        "landmarks": base.one_of(*LANDMARKS),
    }

    @base.stored
    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        kernel: base.KernelLike = "rbf",
        gamma: float | Literal["tune", "scale", "auto", "median"] = "tune",
        degree: int = 3,
        coef0: float = 0.0,
        init: Literal["auto", "k-means++", "random"] | np.ndarray = "auto",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 300,
        tol: float = 0.0,
        approximation: Literal["nystrom"] | None = None,
        n_landmarks: int = 300,
        landmarks: Literal["k-means", "uniform", "rpcholesky"] = "k-means",
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Or the kernel matrix of the rows, with ``kernel="precomputed"``. With
            ``approximation="nystrom"`` also a Dask array or frame.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KernelKMeans
        """
        return self._fit_and_tell(X, y, sample_weight)

    def _fit(self, X, sample_weight, monitor=None) -> None:
        self._check_parameters()
        given, X = X, self._validate(X, reset=True)
        self._check_rows(X)
        weight, rng = (
            base.check_weights(sample_weight, X),
            base.generator_from(self.random_state),
        )
        kernel, rows, init = self._choose(X, weight, rng)
        weight, k = nx.as_like(weight, rows), self.n_clusters_
        options = {
            "init": init,
            "n_init": self._n_starts(isinstance(init, str) and not self.approximation),
            "max_iter": self.max_iter,
            "tol": self.tol,
            "sample_weight": weight,
            "rng": rng,
        }
        base.tell_stage(self.verbose, f"computing the kernel of {X.shape[0]} rows")
        if self.approximation is None:
            best, support = self._fit_exactly(kernel, rows, options, X, monitor), X
        else:
            best, support = self._fit_on_landmarks(kernel, rows, options, X, monitor)
        self._report(best)
        self._store(best)
        base.check_coefficients(best.center_norms, self.kernel)
        vars(self).update(self._means(X, weight, support, best))
        self.exact_inertia_ = best.inertia if self.approximation is None else None
        if base.is_dask(given):
            self.labels_ = self.predict(given)
            return
        labels, in_parts = best.labels, best.labels is None
        if in_parts:
            labels = labels_on_landmarks(kernel, rows, support, best)
        self.labels_ = nx.astype(nx.as_like(labels, X), "int32")
        if self.approximation and not in_parts and X.shape[0] <= EXACT_ROWS:
            exact = self._matrix(kernel, rows)
            self.exact_inertia_ = labels_objective(exact, labels, k, weight)

    def _choose(self, X, weight, rng):
        """Settle the kernel and the number of clusters.

        Return the kernel and the rows to work on, and where to begin.
        """
        given = self.init
        if not isinstance(given, str):
            given = base.check_start_labels(given, X.shape[0], self.n_clusters)
        words = self.n_clusters, self.gamma, self.init
        auto, width, first = (isinstance(word, str) and word for word in words)
        tunes = width == "tune" and isinstance(self.kernel, str)
        tunes = tunes and base.is_of_distances(self.kernel)
        gamma = 1.0 if tunes else "scale" if width == "tune" else None
        self.kernel_ = self._resolve_kernel(X, weight, gamma)
        base.warn_of_one_column(
            X, self.kernel, getattr(self, "feature_names_in_", None)
        )
        kernel, rows = self._kernel_and_rows(self.kernel_, X)
        k, tried, start = self.n_clusters, [], "k-means++"
        if auto or tunes:
            base.tell_stage(self.verbose, "cutting the graph of nearest neighbours")
            at = (lambda g: self._resolve_kernel(X, weight, g)) if tunes else None
            k, kernel, start, tried = choose_on_graph(
                kernel, rows, weight, None if auto else k, at, rng, self.memory_budget
            )
            self.kernel_ = kernel if tunes else self.kernel_
        self.n_clusters_, self.gamma_ = int(k), getattr(self.kernel_, "gamma", None)
        self.search_results_ = {
            name: np.asarray([row[i] for row in tried], dtype)
            for i, (name, dtype) in enumerate(_TRIED.items())
        }
        return kernel, rows, start if first == "auto" else given

    def _fit_exactly(self, kernel, rows, options, X, monitor) -> KernelKMeansResult:
        """Return the best clusters by the full kernel matrix."""
        report = base.step_reporter(
            self.verbose, 0.5 / rows.shape[0], self.max_iter, what="share moved"
        )
        weight = options["sample_weight"]
        attributes = functools.partial(self._means, X, weight, X)
        with nx.products_in(self.precision):  # of a matrix that is computed again
            results = kernel_kmeans(
                self._matrix(kernel, rows),
                self.n_clusters_,
                **options,
                memory_budget=self.memory_budget,
                callback=self._each_step(monitor, report, attributes),
            )
        return best_start(results)

    def _fit_on_landmarks(self, kernel, rows, options, X, monitor):
        """Return clusters with means in the span of landmarks, and the landmarks."""
        n_landmarks = min(self.n_landmarks, rows.shape[0])
        landmarks = choose_landmarks(
            kernel, rows, n_landmarks, method=self.landmarks, rng=options["rng"]
        )
        report = base.step_reporter(
            self.verbose, max(self.tol, _SMALL_GAIN), self.max_iter, what="gain"
        )
        attributes = functools.partial(self._means, X, None, landmarks)
        try:
            with nx.products_in(self.precision):
                best = kernel_kmeans_on_landmarks(
                    kernel,
                    rows,
                    landmarks,
                    self.n_clusters_,
                    **options,
                    memory_budget=self.memory_budget,
                    callback=self._each_step(monitor, report, attributes),
                )
        except NotPositiveDefiniteError as error:
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semidefinite on this data, "
                "and approximation='nystrom' needs that; use another kernel, or, with "
                "all rows in memory, approximation=None."
            ) from error
        return best, landmarks

    @property
    def _dask_fit(self) -> str | None:
        """Whether Dask partitions are possible: with landmarks."""
        takes_parts = self.approximation == "nystrom" and not self._precomputed
        return "rows" if takes_parts else None

    @property
    def _dask_remedy(self) -> str:
        if self._precomputed:
            return (
                "kernel='precomputed' is a matrix of all rows; pass the rows, with a "
                "kernel by name or as a function and approximation='nystrom'."
            )
        return (
            "Pass approximation='nystrom', with which it fits rows in parts; "
            "approximation=None needs the kernel of every row with every other."
        )

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if isinstance(self.n_clusters, str) and not isinstance(self.init, str):
            raise ValueError(
                "init is the cluster of each row, and n_clusters='auto'; pass their "
                "number as n_clusters, or init='auto'."
            )
        if self.approximation is None:
            return
        if self._precomputed and self.landmarks == "k-means":
            raise ValueError(
                "landmarks='k-means' needs rows that can be averaged, and "
                "kernel='precomputed' has none; use 'rpcholesky' or 'uniform'."
            )
        if base.is_whole(self.n_clusters) and self.n_landmarks < self.n_clusters:
            raise ValueError(
                f"n_landmarks={self.n_landmarks} should be >= n_clusters="
                f"{self.n_clusters}; raise n_landmarks."
            )

    def _matrix(self, kernel, rows):
        budget = self.memory_budget
        k = self.n_clusters_
        return make_gram(kernel, rows, n_clusters=k, memory_budget=budget)

    def _report(self, best: KernelKMeansResult) -> None:
        """Warn where kernel k-means has ended early."""
        if best.rose:
            nx.warn_user(
                f"Stopped after {best.n_iter} steps, because the next one would have "
                f"raised the objective: kernel={self.kernel!r} is not positive "
                "semidefinite on this data. The clusters before it are kept; use "
                "another kernel for more.",
                ConvergenceWarning,
            )
        elif not best.converged and best.n_iter >= self.max_iter:
            nx.warn_user(
                f"Kernel k-means stopped after max_iter={self.max_iter} steps while "
                "rows still moved; increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _means(self, X, weight, support, made) -> dict:
        """Return the attributes of the means: Σ coef[i, c] φ(support[i]), and norms."""
        best = made() if callable(made) else made
        coef = mean_shares(best, weight) if best.coef is None else best.coef
        means = {"center_norms_": nx.as_like(best.center_norms, X)}
        if not self._precomputed:
            points = support if nx.is_sparse(support) else nx.as_like(support, X)
            coef = nx.astype(nx.as_like(coef, X), "float64")
            return means | {"center_coef_": coef, "X_fit_": nx.owned(points)}
        if self.approximation is not None:  # landmarks are row numbers
            of_all = np.zeros((X.shape[0], self.n_clusters_))
            of_all[nx.to_numpy(support)[:, 0].astype(np.int64)] = nx.to_numpy(coef)
            coef = of_all
        return means | {"center_coef_": nx.as_like(coef, X)}

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return the cluster of the nearest mean in feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Or k(X, X_fit), with ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        D = self._squared_distances(X)
        return nx.astype(nx.array_namespace(D).argmin(D, axis=1), "int32")

    @base.rowwise
    def transform(self, X) -> np.ndarray:
        """Return the distances from the means in feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Not with a precomputed kernel: k(X, X_fit) does not contain k(x, x).

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        D = self._true_distances(X, "transform")
        return nx.array_namespace(D).sqrt(D)

    def _row_scores(self, X):
        D = nx.to_numpy(self._true_distances(X, "score"))
        return -D.min(axis=1).astype(np.float64)

    def _true_distances(self, X, method: str):
        check_is_fitted(self, "center_coef_")
        if self._precomputed:
            raise ValueError(
                f"{method} needs k(x, x) of the new rows, which a precomputed matrix "
                "k(X, X_fit) does not have; use predict, or give the kernel as an "
                "object or a function."
            )
        return self._squared_distances(X)

    def _squared_distances(self, X):
        """Return eq. (7); for a precomputed kernel without its first term."""
        check_is_fitted(self, "center_coef_")
        X = self._validate(X, reset=False)
        if self._precomputed:
            sums = nx.astype(X, "float64") @ nx.as_like(self.center_coef_, X)
            return base.check_results(
                nx.as_like(self.center_norms_, X)[None, :] - 2 * sums
            )
        D = base.map_rows(self._distances_of_rows, X, self.device, self.memory_budget)
        return base.check_results(nx.astype(D, nx.dtype_name(X)))

    def _distances_of_rows(self, rows):
        """Return eq. (7) for checked rows, on their device."""
        support = base.place_support(self.X_fit_, rows, self.device, self.memory_budget)
        support = nx.astype(support, nx.dtype_name(rows))
        options = {"memory_budget": self.memory_budget, "keep": None}
        operator = KernelOperator(self.kernel_, rows, support, **options)
        with nx.products_in(self.precision):
            sums = operator.matmul(nx.as_like(self.center_coef_, rows))
        own = nx.astype(self.kernel_.diag(rows), "float64")
        return distances_from_sums(sums, own, nx.as_like(self.center_norms_, rows))


# ----------------------------------------------------------------------------------
# k-means on the sphere, as a scikit-learn clusterer.
# ----------------------------------------------------------------------------------


class SphericalKMeans(base.FollowsX, Clusterer, BaseEstimator):
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
        Stop when the centres turn by no more than this.
        It is the alignment deviation δ = 1 − mean⟨new, old⟩ of the centres.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. ``"tf32"`` is float32
        here: on CUDA, rows are assigned by tf32 products where these decide.
    memory_budget : int or str, default=None
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
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

    fit_batches, to_onnx = base.fit_batches, base.to_onnx
    _dask_fit = "rows"
    _parameters: ClassVar = {
        "init": base.one_of(*INITS) | base.not_text("the first centres"),
        "tol": base.POSITIVE,
        "precision": base.PRECISION,
        "memory_budget": base.MEMORY_BUDGET,
        "random_state": base.RANDOM_STATE,
    }

    @base.stored
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Literal["k-means++", "random"] | np.ndarray = "k-means++",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int = 300,
        tol: float = 1e-6,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y=None, sample_weight=None) -> Self:
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
        return self._fit_and_tell(X, y, sample_weight)

    def _fit(self, X, sample_weight, monitor=None) -> None:
        self._check_parameters()
        given, X = X, self._validate(X, reset=True)
        self._check_rows(X)
        weight = base.check_weights(sample_weight, X)
        result = self._kmeans(X, weight, monitor)
        self._store(result)
        if not result.converged and result.n_iter >= self.max_iter:
            nx.warn_user(
                f"k-means stopped after max_iter={self.max_iter} steps before the "
                "centres converged; increase max_iter or tol.",
                ConvergenceWarning,
            )
        self.cluster_centers_ = nx.as_like(result.centers, X)
        if base.is_dask(given):
            self.labels_ = self.predict(given)
            return
        labels = result.labels
        if labels is None:  # rows that are read batch by batch
            labels = part_labels(X, result.centers, "cosine")
        self.labels_ = nx.astype(nx.as_like(labels, X), "int32")

    def _kmeans(self, X, weight, monitor) -> KMeansResult:
        """Cluster on the device, block by block where the rows do not fit there."""
        rows = base.place_rows(X, self.device, self.memory_budget)
        are_random = isinstance(self.init, str) and self.init == "random"
        report = base.step_reporter(self.verbose, self.tol, self.max_iter)
        return kmeans(
            rows,
            self.n_clusters,
            metric="cosine",
            init=self._first_centers(X, rows),
            n_init=self._n_starts(are_random),
            max_iter=self.max_iter,
            tol=self.tol,
            sample_weight=nx.as_like(weight, rows),
            rng=base.generator_from(self.random_state),
            memory_budget=self.memory_budget,
            callback=self._each_step(
                monitor, report, lambda made: {"cluster_centers_": nx.as_like(made, X)}
            ),
        )

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return the cluster of largest cosine.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        cosines = self._cosines(X)
        return nx.astype(nx.array_namespace(cosines).argmax(cosines, axis=1), "int32")

    @base.rowwise
    def transform(self, X) -> np.ndarray:
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
        return nx.to_numpy(self._cosines(X)).max(axis=1).astype(np.float64) - 1

    def _cosines(self, X):
        check_is_fitted(self, "cluster_centers_")
        X = self._validate(X, reset=False)
        return base.map_rows(self._cosines_of_rows, X, self.device, self.memory_budget)

    def _cosines_of_rows(self, rows):
        centers = base.in_precision_of(self.cluster_centers_, rows)
        return inner_products(unit_rows(rows), centers)

    def _validate(self, X, *, reset: bool):
        types = nx.working_types(self.precision)
        X = base.validate_data(self, X, reset=reset, accept_sparse="csr", dtype=types)
        base.check_magnitude(X, fitted=reset)
        return X

    def _first_centers(self, X, rows):
        if isinstance(self.init, str):
            return self.init
        centers = base.on_host(self.init)
        centers = check_array(centers, dtype=nx.dtype_name(X), input_name="init")
        expected = (self.n_clusters, X.shape[1])
        if centers.shape != expected:
            raise ValueError(
                f"init has shape {centers.shape}; expected (n_clusters, n_features) = "
                f"{expected}."
            )
        return nx.as_like(centers, rows)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
