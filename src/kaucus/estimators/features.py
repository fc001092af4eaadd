"""Kernel columns of a few representatives as features for any estimator."""

from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.blocks import format_bytes, resolve_budget
from kaucus.clustering._kernel_kmeans import LANDMARKS, choose_landmarks
from kaucus.estimators.metric import targets_of
from kaucus.fitting._problem import Problem
from kaucus.fitting._search import metric_options, metric_or_scale
from kaucus.kernels._kernel import dense
from kaucus.kernels._matrix import kernel_expansion
from kaucus.kernels._metric import MappedKernel

# Eigenvalues of K_mm below this share of the largest are rounding.
_SMALLEST = 1e-12
# More below zero than this, relative to the largest, is more than rounding.
_NEGATIVE = 1e-8
# Matrices of m × m that its root needs: K, its eigenvectors, their work and products.
_SQUARES = 5


class RepresentativeFeatures(
    ClassNamePrefixFeaturesOutMixin,
    base.KernelInputMixin,
    base.FollowsX,
    TransformerMixin,
    BaseEstimator,
):
    """Kernel columns of a few representatives, whitened: features for linear models.

    The representatives z_1 .. z_m are centres of k-means, or rows. A row becomes

        φ(x) = K_mm^(−½) [k(x, z_1), .., k(x, z_m)]ᵀ,

    so that ⟨φ(x), φ(y)⟩ is the kernel where x and y are representatives, and its
    Nyström approximation elsewhere. A linear model of φ(x) is a kernel machine of the
    size that you choose. Takes the place of scikit-learn's ``Nystroem``, whose
    representatives are random rows.

    Parameters
    ----------
    n_components : int, default=100
        Representatives, and columns of the result; where there are fewer rows, all.
    landmarks : {"k-means", "uniform", "rpcholesky"} or array, default="k-means"
        How representatives are chosen: centres of k-means; random rows; pivots of a
        randomly pivoted Cholesky factor. Or the representatives, (m, n_features).
    learn_metric : bool, default=False
        Whether columns are scaled and weighed by a metric that is learned from ``y``.
        :class:`LearnedMetric` describes it; ``gamma`` is chosen together with it.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision.
    random_state : int, RandomState or Generator, default=None
        Draws the representatives.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_components, n_features)
        The representatives z_q.
    normalization_ : ndarray of shape (n_components, n_components)
        K_mm^(−½), in float64.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; in a learned metric, that of rows
        which ``kernel_.row_map`` maps.

    See Also
    --------
    KMeansKernelClassifier : Representatives and the linear model in one estimator.
    LearnedMetric : The metric alone.

    Notes
    -----
    n m (d + m) multiplications for n rows. Directions of K_mm that are less than 1e-12
    of the largest are left out: their features are zero.

    References
    ----------
    C. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines"
    (NIPS 2000); K. Zhang, J. Kwok, "Improved Nyström low-rank approximation and error
    analysis" (ICML 2008), for centres of k-means.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from kaucus import RepresentativeFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> features = RepresentativeFeatures(200, gamma=0.001, random_state=0)
    >>> model = make_pipeline(features, LogisticRegression(C=100, max_iter=1000))
    >>> round(model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]), 2)
    0.96
    """

    fit_batches, to_onnx = base.fit_batches, base.to_onnx
    _kernel_words = ()
    _parameters: ClassVar = {
        "n_components": base.count(),
        "landmarks": base.one_of(*LANDMARKS) | base.not_text("the representatives"),
        "learn_metric": base.BOOLEAN,
    }

    @base.stored
    def __init__(
        self,
        n_components: int = 100,
        *,
        landmarks: Literal["k-means", "uniform", "rpcholesky"] | np.ndarray = "k-means",
        kernel: base.KernelLike = "rbf",
        gamma: float | Literal["scale", "auto", "median"] = "median",
        degree: int = 3,
        coef0: float = 0.0,
        learn_metric: bool = False,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y=None) -> Self:
        """Choose the representatives.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Labels or numbers, for ``learn_metric=True``; else ignored.

        Returns
        -------
        self : RepresentativeFeatures
        """
        self._check_parameters()
        if not self.learn_metric:
            X = self._validate(X, reset=True)
            self._warn_of_one_column(X)
        elif y is None:
            raise ValueError(
                "learn_metric=True learns from targets, and y is None; pass y, or "
                "learn_metric=False."
            )
        else:
            base.check_one_label_type(y)
            X, y = self._validate(X, y, reset=True, multi_output=True)
        rng, rows = base.generator_from(self.random_state), self._placed(X)
        self._check_memory(rows, resolve_budget(self.memory_budget, rows))
        if self.learn_metric:
            kernel = self._learned_kernel(X, rows, y, rng)
        else:
            kernel = self._resolve_kernel(X, None)
        points = self._choose(kernel, rows, rng)
        points = dense(points)
        K = nx.to_numpy(kernel(nx.astype(points, "float64")))
        eigenvalues, V = np.linalg.eigh((K + K.T) / 2)
        if eigenvalues[0] < -_NEGATIVE * np.abs(eigenvalues).max():
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semidefinite on this data, so "
                "that its matrix has no root; use another, such as kernel='rbf'."
            )
        kept = eigenvalues > _SMALLEST * eigenvalues[-1]
        roots = np.where(kept, eigenvalues, np.inf) ** -0.5
        self.kernel_ = kernel
        self.representatives_ = nx.owned(nx.as_like(points, X))
        self.normalization_ = nx.as_like((V * roots) @ V.T, X)
        return self

    @base.rowwise
    def transform(self, X) -> np.ndarray:
        """Return the features φ(x) of rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "normalization_")
        X = base.validated_new_rows(self, X)
        found = self._map_rows(self._on_device, X)
        return nx.astype(found, nx.dtype_name(X))

    # ---- parts -----------------------------------------------------------------------

    def _on_device(self, rows):
        """Return φ of checked rows on their device, (n, m), in float64."""
        points, budget = nx.as_like(self.representatives_, rows), self.memory_budget
        roots = nx.as_like(self.normalization_, points)
        return kernel_expansion(self.kernel_, rows, points, roots, memory_budget=budget)

    def _learned_kernel(self, X, rows, y, rng) -> MappedKernel:
        """Return the kernel in a metric that the targets decide."""
        problem = Problem.of(rows, targets_of(y, None), None)
        params = {"degree": self.degree, "coef0": self.coef0}
        options = metric_options(X, self.kernel, "tune", None, **params)
        report, budget = base.share_reporter(self.verbose, "stage"), self.memory_budget
        found = metric_or_scale(
            problem, options, rng, callback=report, memory_budget=budget
        )
        assert found.row_map is not None
        return MappedKernel(found.kernel, found.row_map)

    def _choose(self, kernel, rows, rng):
        """Return the representatives in the columns of the user, (m, d)."""
        if not isinstance(self.landmarks, str):
            given = self._validate(self.landmarks, reset=False)
            return nx.as_like(given, rows, dtype=nx.dtype_name(rows))
        m, by_means = min(self.n_components, rows.shape[0]), self.landmarks == "k-means"
        if m == rows.shape[0]:
            return nx.dense_rows(rows, np.arange(m))
        if not (by_means and isinstance(kernel, MappedKernel)):
            return choose_landmarks(kernel, rows, m, method=self.landmarks, rng=rng)
        mapped = kernel.row_map(rows)
        points = choose_landmarks(kernel.kernel, mapped, m, method="k-means", rng=rng)
        return kernel.row_map.back(dense(points))

    def _check_memory(self, rows, budget: int) -> None:
        """Raise where the matrices of m × m do not fit into the budget."""
        m = min(self.n_components, rows.shape[0])
        if not isinstance(self.landmarks, str):
            m = len(self.landmarks)
        needed = _SQUARES * 8 * m * m
        if needed > budget:
            raise MemoryError(
                f"{m} representatives need {format_bytes(needed)} for the root of "
                f"their kernel matrix, memory_budget allows {format_bytes(budget)}; "
                "lower n_components, or raise memory_budget."
            )

    @property
    def _dask_fit(self) -> str:
        return "rows"

    @property
    def _n_features_out(self) -> int:
        return self.normalization_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False
        tags.target_tags.required = bool(self.learn_metric)
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
