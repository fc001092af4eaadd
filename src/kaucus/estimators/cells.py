"""Support vector machines with kernels shaped by clusters."""

import contextlib
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import threadpoolctl
from joblib import Parallel, delayed
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from kaucus._array.blocks import (
    few_threads_for,
    format_bytes,
    interruptible,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import (
    Array,
    as_like,
    astype,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus._base import FollowsX, rowwise, score, to_onnx, validate_data
from kaucus._parameters import (
    MEMORY_BUDGET,
    POSITIVE,
    RANDOM_STATE,
    check_magnitude,
    check_one_label_type,
    check_results,
    check_weights,
    count,
    encode_labels,
    generator_from,
    map_rows,
    on_device,
    one_of,
    weights_with_classes,
)
from kaucus.estimators._predict import labels_at
from kaucus.kernels._cells import (
    ClusterRBF,
    MahalanobisRBF,
    NearestCenter,
    cell_numbers,
    fill_constant_columns,
    regularisation_text,
    regularise_covariances,
)
from kaucus.kernels._kernel import Kernel

# ----------------------------------------------------------------------------------
# Covariances of the rows of each cell.
# ----------------------------------------------------------------------------------

COVARIANCES = ("full", "diag", "radial")
# Bytes of a block of rows on its way through float64.
_BLOCK = 2**24


def cell_covariances(
    X: Array,
    cells: np.ndarray,
    n_cells: int,
    kind: str = "full",
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return Σᵢ = cov(X ∩ Wᵢ) of each cell (Czarnecki & Tabor, Algorithm 1).

    The mean of (x − m)(x − m)ᵀ over the rows of the cell, with their weights: a weight
    of 2 is a row that is there twice. A cell without rows has the covariance 0.

    Parameters
    ----------
    X : array of shape (n, d)
    cells : ndarray of shape (n,)
        The cell of each row.
    n_cells : int
        k.
    kind : {"full", "diag", "radial"}, default="full"
        Whole matrices, their diagonals, or the means of those (Observation 3.3).
    sample_weight : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (k, d, d), (k, d) or (k,)
        In float64.
    """
    covariances = []
    for i in range(n_cells):
        rows = np.flatnonzero(cells == i)
        weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        covariances.append(_covariance(X, rows, weight, full=kind == "full"))
    stacked = np.stack(covariances)
    return stacked.mean(axis=1) if kind == "radial" else stacked


def _covariance(X: Array, rows, weight, *, full: bool) -> np.ndarray:
    """Return one covariance, or its diagonal, in two passes over the rows."""
    d = X.shape[1]
    total = float(weight.sum())
    mean, spread = np.zeros(d), np.zeros((d, d) if full else d)
    if total <= 0:
        return spread
    blocks = list(row_blocks(len(rows), 8 * max(d, 1), _BLOCK))
    for s in blocks:
        mean += weight[s] @ _in_float64(X, rows[s])
    mean /= total
    for s in blocks:
        centred = _in_float64(X, rows[s]) - mean
        weighted = weight[s][:, None] * centred
        spread += weighted.T @ centred if full else (weighted * centred).sum(axis=0)
    return (spread + spread.T) / (2 * total) if full else spread / total


def _in_float64(X: Array, rows: np.ndarray) -> np.ndarray:
    return to_numpy(astype(take_rows(X, rows), "float64"))


# ----------------------------------------------------------------------------------
# Fit a partition, given as a name, a clusterer or a function, and find its cells.
#
# Unsupervised: k-means, Gaussian mixtures, any clusterer. Supervised, as the paper's
# conclusion proposes: the classes that a linear classifier predicts, or the leaves of a
# small tree.
# ----------------------------------------------------------------------------------

SUPERVISED = ("linear", "tree")
# As in the paper: the best of ten starts of k-means++.
_N_INIT = 10
# See _few_threads.
_FEW_ROWS = 5000


class PartitionedRows(NamedTuple):
    """A partition and the cells of the rows it was fitted on."""

    partition: Any
    """A function of rows that returns cell numbers, 0 to ``n_cells`` − 1."""
    cells: np.ndarray
    """The cell of each row, (n,); every cell has a row."""
    n_cells: int


@dataclass(frozen=True)
class ModelCells:
    """The labels that a fitted model gives to rows, or the leaves of a tree."""

    model: Any
    leaves: bool = False

    def __call__(self, X):
        """Return the labels, or the numbers of the leaves, (n,)."""
        return self.model.apply(X) if self.leaves else self.model.predict(X)


class KnownCells:
    """Cells numbered by the labels that the training rows have.

    Parameters
    ----------
    function : callable
        Returns labels of any one type.
    labels : ndarray of shape (k,)
        The labels that occur, sorted.
    means : ndarray of shape (k, d)
        Means of their rows. A row with another label goes where the mean is nearest.
    """

    def __init__(self, function, labels, means):
        self.function = function
        self.labels = labels
        self.nearest = NearestCenter(means)

    def __call__(self, X):
        """Return the cells of rows, (n,)."""
        found = np.asarray(self.function(X))
        places = np.searchsorted(self.labels, found)
        places = np.minimum(places, len(self.labels) - 1)
        unknown = self.labels[places] != found
        if unknown.any():
            places[unknown] = self.nearest(X[unknown])
        return places


def check_partition_parameter(partition: Any) -> None:
    """Check that a partition is a known name, a function or a clusterer."""
    if isinstance(partition, str | type):
        is_good = partition in PARTITIONS
    else:
        is_good = callable(partition) or hasattr(partition, "predict")
    if not is_good:
        raise ValueError(
            f"partition={partition!r} must be one of {list(PARTITIONS)}, a clusterer "
            "(an object, not its class) with predict, or a function of rows that "
            "returns their cell numbers."
        )


def fit_partition(
    partition: Any,
    n_clusters: int,
    X: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray,
    rng: np.random.Generator,
) -> PartitionedRows:
    """Fit a partition, and number the cells in which there are rows.

    Parameters
    ----------
    partition : str, clusterer or callable
        A name of ``PARTITIONS``; a clusterer or classifier, of which a clone is fitted
        if it is not fitted; or a function of rows.
    n_clusters : int
        Number of cells; the most there can be for ``"dpgmm"`` and ``"tree"``.
        ``"linear"`` has one for each class, an object what it has.
    X : ndarray of shape (n, d)
        All rows; the first ``len(y)`` are labelled.
    y : ndarray of shape (n_labelled,)
        Numbers of their classes, for the supervised partitions.
    sample_weight : ndarray of shape (n,)
        Used by k-means, the tree and the linear classifier.
    rng : Generator
    """
    with _few_threads(len(X)):
        return _fit(partition, n_clusters, X, y, sample_weight, rng)


def _fit(partition, n_clusters, X, y, sample_weight, rng) -> PartitionedRows:
    seed = int(rng.integers(2**31 - 1))
    if isinstance(partition, str):
        fit = _FITS[partition]
        return _numbered(fit(n_clusters, X, y, sample_weight, seed), X)
    if not isinstance(partition, BaseEstimator) or _is_fitted(partition):
        function = partition if callable(partition) else ModelCells(partition)
        return _numbered(function, X)
    model = clone(partition)
    model = model.fit(X[: len(y)], y) if is_classifier(model) else model.fit(X)
    return _numbered(ModelCells(model), X)


@functools.cache
def _threads() -> threadpoolctl.ThreadpoolController:
    # Finding the loaded libraries takes milliseconds: once per process.
    return threadpoolctl.ThreadpoolController()


def _few_threads(n_rows: int) -> contextlib.AbstractContextManager:
    """Hold BLAS and OpenMP to one thread where there is little to share.

    Their threads wait for each other by spinning: on a busy machine k-means of 300 rows
    took 2.6 s with two threads and 0.02 s with one; on an idle one, both 0.01 s.
    """
    return (
        _threads().limit(limits=1) if n_rows <= _FEW_ROWS else contextlib.nullcontext()
    )


# Each returns the function of rows that gives their cells. scikit-learn's models are
# imported where they are used: some import rich where it is installed, which is not for
# everybody who imports kaucus.


def _fit_kmeans(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.cluster import KMeans

    n_different = len(np.unique(X, axis=0)) if len(X) else 0
    k = min(n_clusters, n_different)  # no more cells than there are different rows
    model = KMeans(k, n_init=_N_INIT, random_state=seed)
    return NearestCenter(model.fit(X, sample_weight=sample_weight).cluster_centers_)


def _fit_mixture(n_clusters: int, X, y, sample_weight, seed: int, *, bayesian=False):
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

    make = BayesianGaussianMixture if bayesian else GaussianMixture
    model = make(
        n_components=min(n_clusters, len(X)),
        # In units of the data: scikit-learn's own default knows none.
        reg_covar=1e-6 * max(float(np.var(X, axis=0).mean()), 1e-300),
        max_iter=1000,
        random_state=seed,
    )
    return ModelCells(model.fit(X))


def _fit_linear(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    n = len(y)
    model.fit(X[:n], y, logisticregression__sample_weight=sample_weight[:n])
    return ModelCells(model)


def _fit_tree(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.tree import DecisionTreeClassifier

    leaves, n = max(n_clusters, 2), len(y)
    model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)
    model.fit(X[:n], y, sample_weight=sample_weight[:n])
    return ModelCells(model, leaves=True)


_FITS = {
    "kmeans": _fit_kmeans,
    "gmm": _fit_mixture,
    "dpgmm": functools.partial(_fit_mixture, bayesian=True),  # of a Dirichlet process
    "linear": _fit_linear,
    "tree": _fit_tree,
}
PARTITIONS = tuple(_FITS)


def _is_fitted(model: BaseEstimator) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _numbered(function: Any, X: np.ndarray) -> PartitionedRows:
    """Return the partition with numbers for the cells that have rows."""
    found = np.asarray(function(X))
    if found.shape != (len(X),):
        raise ValueError(
            f"The partition returned shape {found.shape} for {len(X)} rows; expected "
            f"one cell for each row, shape ({len(X)},)."
        )
    labels, cells = np.unique(found, return_inverse=True)
    exact = isinstance(function, NearestCenter) and len(labels) == len(function.centers)
    if not exact:
        means = np.stack([X[cells == i].mean(axis=0) for i in range(len(labels))])
        function = KnownCells(function, labels, means)
    return PartitionedRows(function, cells, len(labels))


# ----------------------------------------------------------------------------------
# Base class of the support vector classifiers on a partition of the rows.
# ----------------------------------------------------------------------------------


class PartitionedSVC(FollowsX, ClassifierMixin, BaseEstimator):
    """Base of ClusterRBFSVC and LocalSVC: fits cells, kernels and SVMs.

    A subclass says which kernel is for which rows (``_kernels_and_rows``), stores the
    SVMs (``_store_svms``) and asks them (``_decision_values``). Kernels are
    computed where the rows are, or on ``device``; the partition and the SVMs, which
    are scikit-learn's, on the host.

    Parameters
    ----------
    C : float
        Inverse strength of the regularisation, as in ``SVC``.
    n_clusters : int
        Number of cells, k.
    partition : {"kmeans", "gmm", "dpgmm", "linear", "tree"}, clusterer or callable
        How the cells are found: k-means (10 starts of k-means++), a Gaussian mixture, a
        Dirichlet process mixture, the classes that a linear classifier predicts, or
        the ``n_clusters`` leaves of a tree; any clusterer or classifier with
        ``predict``, of which a clone is fitted if it is not fitted yet; or a function
        of rows that returns their cells.
    covariance : {"full", "diag", "radial"}
        Whole covariances, diagonal ones, or multiples of the identity.
    class_weight : dict or "balanced"
        Weights of the classes; ``"balanced"`` makes them inversely proportional to
        their numbers of rows.
    tol : float
        Tolerance at which the solver stops, as in ``SVC``.
    max_iter : int
        Most steps of the solver.
    device : str
        None computes the kernel where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes
        it there. Needs torch. Cells and SVMs are always computed on the host.
    random_state : int, RandomState or Generator
        Draws the starts of the partition.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    partition_ : callable
        Returns the cells of rows, 0 to ``n_cells_`` − 1.
    n_cells_ : int
        Cells that have rows; at most ``n_clusters`` where it is asked for.
    covariances_ : ndarray of shape (n_cells, n_features, n_features)
        The covariances; (n_cells, n_features) if diagonal, (n_cells,) if radial.
    epsilon_ : ndarray of shape (n_cells,)
        The share of the covariance of all rows that was mixed into a singular one.
    """

    to_onnx = to_onnx

    score = score
    _parameters: ClassVar = {
        "C": POSITIVE.advise("Try 1.0; larger fits closer."),
        "gamma": POSITIVE | one_of("scale", "auto"),
        "n_clusters": count(),
        "covariance": one_of(*COVARIANCES),
        "tol": POSITIVE,
        "max_iter": count(most=2**31 - 1),  # libsvm counts steps in 32 bits
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    # Whether one SVM sees all rows: its matrix is then checked before clustering.
    _has_one_svm = False

    def fit(self, X, y, sample_weight=None, X_unlabeled=None):
        """Find the cells and fit the support vector machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts as two equal rows.
        X_unlabeled : array-like of shape (n_unlabeled, n_features), default=None
            Rows without labels, such as those to be predicted, that help to find the
            cells and their covariances (the paper's transductive use). None: the
            training rows alone.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        X, indices, row_weight, weight, others = self._validated(
            X, y, sample_weight, X_unlabeled
        )
        self._check_memory(X, X.shape[0] if self._has_one_svm else 0)
        cells = self._fit_cells(X, indices, row_weight, others).cells
        parts = self._kernels_and_rows(cells)
        self._check_memory(X, max(len(rows) for _, rows in parts))
        majority = int(np.argmax(np.bincount(indices, weights=weight)))
        with _no_convergence_warnings():
            fitted = Parallel(getattr(self, "n_jobs", None), prefer="threads")(
                delayed(self._fit_svm)(
                    kernel, take_rows(X, rows), indices[rows], weight[rows]
                )
                for kernel, rows in parts
            )
        models = [majority if model is None else model for model, _ in fitted]
        self._store_svms(
            [kernel for kernel, _ in parts], models, [vectors for _, vectors in fitted]
        )
        self._report_steps(*(m for m in models if not isinstance(m, int)))
        return self

    def _fit_svm(self, kernel: Kernel, X, indices, weight):
        """Return a support vector machine and its support vectors.

        The number of the class in place of an SVM where there is one class, None
        where there is no labelled row.
        """
        present = np.unique(indices)
        if len(present) < 2:
            return (int(present[0]) if len(present) else None), None
        from sklearn.svm import SVC  # not before: it imports rich where there is one

        with few_threads_for(X.shape[0]):
            K = kernel(on_device(X, self.device))
        model = SVC(
            C=self.C,
            kernel="precomputed",
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=200,
        )
        interruptible(model.fit, check_results(to_numpy(K)), indices, weight)
        return model, take_rows(X, model.support_)

    def _check_combinations(self) -> None:
        check_partition_parameter(self.partition)

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        checked = validate_data(self, X, y, reset=reset, dtype=np.float64, **options)
        rows = checked[0] if isinstance(checked, tuple) else checked
        check_magnitude(rows, fitted=reset)
        return checked

    def _validated(self, X, y, sample_weight, X_unlabeled):
        """Return rows of positive weight, class numbers, weights and unlabelled rows.

        A row of weight 0 is a row that is not there.
        """
        check_one_label_type(y)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = encode_labels(y)
        if X_unlabeled is not None:
            X_unlabeled = self._validate(X_unlabeled, reset=False)
        row_weight = check_weights(sample_weight, X)
        weight = weights_with_classes(
            row_weight, self.class_weight, self.classes_, indices
        )
        if weight is None:
            weight = row_weight = np.ones(X.shape[0])
        elif row_weight is None:
            row_weight = np.ones(X.shape[0])
        kept = np.flatnonzero(weight > 0)
        self._check_clusters(len(kept))
        rows = take_rows(X, kept)
        return rows, indices[kept], row_weight[kept], weight[kept], X_unlabeled

    def _check_clusters(self, n_rows: int) -> None:
        if isinstance(self.partition, str) and n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={n_rows} should be >= n_clusters={self.n_clusters}; lower "
                "n_clusters or pass more rows."
            )

    def _check_memory(self, X, n_rows: int) -> None:
        """Refuse a kernel matrix of so many rows that does not fit, before the work."""
        budget, d = resolve_budget(self.memory_budget), X.shape[1]
        # Ours, and the copy that libsvm's wrapper makes.
        matrix = 2 * 8 * n_rows * n_rows
        # Rows in float64 and those of the cells; covariances, their roots and inverses.
        copies = 8 * (2 * X.shape[0] * d + 3 * self.n_clusters * d * d)
        if matrix + copies > budget:
            of_rows = f" of {n_rows:,} rows" if n_rows else ""
            raise ValueError(
                f"{format_bytes(matrix)} are needed for a kernel matrix{of_rows}, "
                f"{format_bytes(copies)} for copies of the rows and covariances; "
                f"memory_budget allows {format_bytes(budget)}. Use fewer rows, a "
                "larger one, or LSSVMClassifier(kernel=ClusterRBF(...)), in blocks."
            )

    def _fit_cells(self, X, indices, weight, X_unlabeled) -> PartitionedRows:
        """Fit the partition, and store cells and covariances.

        Rows without labels take part in both, with weight 1.
        """
        n, given, X = X.shape[0], X, to_numpy(X)
        if X_unlabeled is not None:
            X_unlabeled = to_numpy(X_unlabeled)
            X = np.concatenate([X, X_unlabeled])
            weight = np.concatenate([weight, np.ones(len(X_unlabeled))])
        rng = generator_from(self.random_state)
        fitted = fit_partition(self.partition, self.n_clusters, X, indices, weight, rng)
        k, kind = fitted.n_cells, self.covariance
        of_all = cell_covariances(X, np.zeros(len(X), int), 1, kind, weight)[0]
        covariances = cell_covariances(X, fitted.cells, k, kind, weight)
        covariances = fill_constant_columns(covariances, of_all)
        regular = regularise_covariances(covariances, of_all)
        self.covariances_ = as_like(regular.covariances, given)
        self.epsilon_ = as_like(regular.epsilons, given)
        self.partition_, self.n_cells_ = fitted.partition, k
        self._report_cells(regular.epsilons)
        return fitted._replace(cells=fitted.cells[:n])

    def _report_cells(self, epsilons: np.ndarray) -> None:
        if (epsilons > 0).any():
            warn_user(
                f"{regularisation_text(epsilons)} epsilon_ tells how much of it. "
                "Fewer clusters, more rows, or covariance='diag' avoid it.",
                LinAlgWarning,
            )

    def _gamma(self, expected_distance: float) -> float:
        """Return gamma as a number.

        ``"scale"`` gives the mean exponent that it has in scikit-learn's ``SVC``, 2.
        """
        if isinstance(self.gamma, str):
            scale = 2.0 / expected_distance
            return scale if self.gamma == "scale" else 1.0 / self.n_features_in_
        return float(self.gamma)

    def _report_steps(self, *models: Any) -> None:
        """Store the steps, and warn once where they did not suffice."""
        self.n_iter_ = int(max((np.max(m.n_iter_) for m in models), default=1))
        if self.n_iter_ >= self.max_iter:
            warn_user(
                f"The support vector machine stopped after max_iter={self.max_iter} "
                "steps; increase max_iter or tol, lower C, or scale the data.",
                ConvergenceWarning,
            )

    @rowwise
    def decision_function(self, X):
        """Return the decision values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one value, positive for ``classes_[1]``; else one-vs-rest
            values, as scikit-learn's ``SVC`` makes them.
        """
        values = self._values(X)
        return values[:, 1] if len(self.classes_) == 2 else values

    @rowwise
    def predict(self, X):
        """Return the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        like, two = self._values(X), len(self.classes_) == 2
        values = to_numpy(like)
        numbers = values[:, 1] > 0 if two else np.argmax(values, axis=1)
        numbers = as_like(numbers.astype(np.int64), like)
        return labels_at(self.classes_, numbers, like)

    def _values(self, X):
        """Check rows, and return their decision values, (n, n_classes)."""
        check_is_fitted(self, "partition_")
        X = self._validate(X, reset=False)
        values = map_rows(self._decision_values, X, self.device, self.memory_budget)
        return check_results(values)


@contextlib.contextmanager
def _no_convergence_warnings() -> Iterator[None]:
    """Ignore scikit-learn's own warning of too few steps; ours names a remedy.

    Around all threads, not in each: they share one list of filters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


# ----------------------------------------------------------------------------------
# Support vector classifiers on cells: one whose kernel knows them, one for each.
#
# Their kernels can be had without a fit, for a search of C and gamma.
# ----------------------------------------------------------------------------------


class ClusterRBFSVC(PartitionedSVC):
    """Support vector classifier with the C_k RBF kernel.

    The rows are divided into cells, by k-means into two unless told otherwise; each
    cell has its own covariance, and each row is represented by a Gaussian of its
    cell's shape (:class:`~kaucus.kernels.ClusterRBF`). The SVM is scikit-learn's
    :class:`~sklearn.svm.SVC`; the kernel matrix is computed here, in float64.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernel. ``"scale"`` is 2 / n_features: distances are in units of
        the covariances already. ``"auto"`` is 1 / n_features.
    n_clusters : int, default=2
        Number of cells, k. With 1 it is the Mahalanobis RBF kernel.
    normalization : {"unit", "determinant", "density"}, default="unit"
        Factor of the kernel: ``"unit"`` makes k(x, x) = 1, so that C means what it
        means in ``SVC``; ``"determinant"`` is the paper's Algorithm 1.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        A kernel matrix that does not fit is refused at once.

    Attributes
    ----------
    kernel_ : ClusterRBF
        The kernel, with partition, covariances and gamma.
    svc_ : SVC
        The fitted SVM, on the precomputed matrix of rows with positive weight.
    support_vectors_ : ndarray of shape (n_support, n_features)
        The rows that take part in predictions.
    n_iter_ : int
        Most steps of the solver for a pair of classes.

    See Also
    --------
    LocalSVC : An SVM of its own in every cell.
    kaucus.evaluation.grid_search_gamma_C : C and gamma for one partition.

    Notes
    -----
    Scale the columns first: k-means sees distances. For probabilities wrap the
    classifier in :class:`~sklearn.calibration.CalibratedClassifierCV`.

    References
    ----------
    W. M. Czarnecki, J. Tabor, "Cluster based RBF kernel for support vector machines"
    (2014).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import ClusterRBFSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ClusterRBFSVC(C=10, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> model.kernel_.covariances.shape
    (2, 4, 4)
    """

    _has_one_svm = True
    _parameters: ClassVar = {"normalization": one_of(*ClusterRBF.NORMALIZATIONS)}

    def __init__(
        self,
        C=1.0,
        *,
        gamma="scale",
        n_clusters=2,
        partition="kmeans",
        covariance="full",
        normalization="unit",
        class_weight=None,
        tol=1e-3,
        max_iter=1_000_000,
        device=None,
        memory_budget=None,
        random_state=None,
    ):
        self.C = C
        self.gamma = gamma
        self.n_clusters = n_clusters
        self.partition = partition
        self.covariance = covariance
        self.normalization = normalization
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.memory_budget = memory_budget
        self.random_state = random_state

    def _kernels_and_rows(self, cells: np.ndarray):
        """Return the one kernel, for all rows."""
        # Two rows of one cell are E (x − y)ᵀ (2Σ)⁻¹ (x − y) = d apart.
        gamma = self._gamma(expected_distance=self.n_features_in_)
        kernel = ClusterRBF(
            self.partition_, to_numpy(self.covariances_), gamma, self.normalization
        )
        return [(kernel, np.arange(len(cells)))]

    def _store_svms(self, kernels, models, support_vectors) -> None:
        [self.kernel_], [self.svc_] = kernels, models
        [self.support_vectors_] = support_vectors

    def _decision_values(self, X) -> np.ndarray:
        """Return one column for each class, (n, n_classes)."""
        return svm_decision_values(
            self.svc_, self.kernel_, X, self.support_vectors_, len(self.classes_)
        )


class LocalSVC(PartitionedSVC):
    """A support vector classifier of its own in every cell, m_k RBF.

    The rows are divided into cells, and in each cell an SVM with the Mahalanobis RBF
    kernel of the cell's covariance is fitted to the rows of that cell alone. A cell
    in which all rows are of one class predicts it. Cheaper than one SVM: k cells
    cost about 1/k of its kernel matrix; but what lies in another cell is not seen.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels. ``"scale"`` and ``"auto"`` are 1 / n_features: distances
        are in units of the covariances already.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        A kernel matrix that does not fit is refused before the SVMs are fitted.
    n_jobs : int, default=None
        Cells that are fitted at a time, in threads.

    Attributes
    ----------
    kernels_ : list of MahalanobisRBF
        The kernel of each cell.
    svcs_ : list of SVC or int
        The SVM of each cell, or the number of its only class.
    support_vectors_ : list of ndarray of shape (n_support, n_features)
        The rows of each cell that take part in predictions; None with one class.
    n_iter_ : int
        Most steps of the solver in a cell.

    See Also
    --------
    ClusterRBFSVC : One SVM, whose kernel knows the cells.

    References
    ----------
    W. M. Czarnecki, J. Tabor, "Cluster based RBF kernel for support vector machines"
    (2014), Sec. 5.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LocalSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalSVC(C=10, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    """

    def __init__(
        self,
        C=1.0,
        *,
        gamma="scale",
        n_clusters=2,
        partition="kmeans",
        covariance="full",
        class_weight=None,
        tol=1e-3,
        max_iter=1_000_000,
        device=None,
        memory_budget=None,
        n_jobs=None,
        random_state=None,
    ):
        self.C = C
        self.gamma = gamma
        self.n_clusters = n_clusters
        self.partition = partition
        self.covariance = covariance
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _kernels_and_rows(self, cells: np.ndarray):
        """Return the kernel of each cell, and its rows."""
        # Two rows of one cell are E (x − y)ᵀ Σ⁻¹ (x − y) = 2d apart.
        gamma = self._gamma(expected_distance=2 * self.n_features_in_)
        return [
            (MahalanobisRBF(Sigma, gamma), np.flatnonzero(cells == i))
            for i, Sigma in enumerate(to_numpy(self.covariances_))
        ]

    def _store_svms(self, kernels, models, support_vectors) -> None:
        self.kernels_, self.svcs_ = kernels, models
        self.support_vectors_ = support_vectors

    def _decision_values(self, X) -> np.ndarray:
        """Return one column for each class, (n, n_classes)."""
        cells = cell_numbers(self.partition_, X, self.n_cells_)
        values = np.empty((X.shape[0], len(self.classes_)))
        for i in np.unique(cells):
            rows = np.flatnonzero(cells == i)
            part = take_rows(X, rows)
            values[rows] = self._values_in_cell(int(i), part)
        return values

    def _values_in_cell(self, cell: int, X) -> np.ndarray:
        model, n_classes, m = self.svcs_[cell], len(self.classes_), X.shape[0]
        if isinstance(model, int):
            return np.repeat(2.0 * (np.arange(n_classes) == model)[None] - 1, m, 0)
        return svm_decision_values(
            model, self.kernels_[cell], X, self.support_vectors_[cell], n_classes
        )


# ---- decision values of one support vector machine -----------------------------------

# Decision value of a class of which a support vector machine has seen no row: below
# the least that scikit-learn's one-vs-rest values take, −1/3.
_NEVER = -1.0
# Bytes of one block of kernel values, with a column for each training row.
_BLOCK_BYTES = 2**26


def svm_decision_values(
    model: Any, kernel: Kernel, X, support_vectors, n_classes: int
) -> np.ndarray:
    """Return decision values of one support vector machine, (n, n_classes).

    The kernel is computed in float64 whatever the rows: coefficients as large as C
    cancel, and would multiply what float32 rounds.
    """
    n = model.shape_fit_[0]
    vectors = astype(as_like(support_vectors, X), "float64")
    parts = []
    for rows in row_blocks(X.shape[0], 8 * n, _BLOCK_BYTES):
        with few_threads_for(X.shape[0]):
            K = to_numpy(kernel(astype(X[rows, :], "float64"), vectors))
        values = model.decision_function(_padded_kernel(K, model.support_, n))
        parts.append(_columns_of_classes(model, values, n_classes))
    return np.concatenate(parts)


def _columns_of_classes(model: Any, values: np.ndarray, n_classes: int) -> np.ndarray:
    """Return decision values of one SVM with a column for every class.

    An SVM of two classes gives one value v, which becomes −v and v; a class of which
    it has seen no row is below all others.
    """
    if values.ndim == 1:
        values = np.stack([-values, values], axis=1)
    if len(model.classes_) == n_classes:
        return values
    never = np.minimum(values.min(axis=1, keepdims=True), 0) + _NEVER
    columns = np.repeat(never, n_classes, axis=1)
    columns[:, model.classes_] = values
    return columns


def _padded_kernel(K_support: np.ndarray, support: np.ndarray, n: int) -> np.ndarray:
    """Return k(X, X_fit) with zeros where no support vector is.

    scikit-learn wants a column for each training row, and reads those of the support
    vectors only.
    """
    K = np.zeros((len(K_support), n))
    K[:, support] = check_results(K_support)
    return K


# ---- kernels of an unfitted classifier -----------------------------------------------


def cell_kernels(
    model: PartitionedSVC, X, labels: np.ndarray, train: np.ndarray
) -> list[tuple[Kernel, np.ndarray]]:
    """Return the kernel of each SVM of an unfitted model, and the rows it is for.

    Parameters
    ----------
    model : ClusterRBFSVC or LocalSVC
        Not changed.
    X : array-like of shape (n_samples, n_features)
        Rows that shape cells and covariances.
    labels : integer array of shape (n_samples,)
        Numbers of their classes, for cells that are made with labels.
    train : integer array
        The rows whose labels these see.

    Returns
    -------
    list of (kernel, ndarray)
        One pair for a :class:`ClusterRBFSVC`, one for each cell of a
        :class:`LocalSVC`.
    """
    model = clone(model)
    model._check_parameters()
    X = to_numpy(model._validate(X, reset=True, ensure_min_samples=2))
    model._check_clusters(len(X))
    if sees_labels(model):
        labels = labels[train]
    else:
        train, labels = np.arange(len(X)), labels[:0]
    rest = np.setdiff1d(np.arange(len(X)), train)
    weight = np.ones(len(train))
    model._fit_cells(X[train], labels, weight, X[rest] if len(rest) else None)
    return model._kernels_and_rows(model.partition_(X))


def sees_labels(model) -> bool:
    """Return True if the cells of a classifier are made with labels."""
    if not isinstance(model, PartitionedSVC):
        raise ValueError(
            f"model={model!r} must be a kernel object, a ClusterRBFSVC or a LocalSVC."
        )
    return _is_supervised(model.partition)


def _is_supervised(partition) -> bool:
    if isinstance(partition, str):
        return partition in SUPERVISED
    return isinstance(partition, BaseEstimator) and is_classifier(partition)
