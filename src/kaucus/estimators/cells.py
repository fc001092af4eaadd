"""Support vector machines with kernels shaped by clusters."""

import functools
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import threadpoolctl
from joblib import Parallel, delayed
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    few_threads_for,
    format_bytes,
    interruptible,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import Array
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
    of 2 is a row that is there twice. A cell without rows has the covariance 0. The
    matrices, (k, d, d), their diagonals, (k, d), or the means of those, (k,)
    (Observation 3.3), in float64.
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

    def part(s: slice) -> np.ndarray:
        return nx.to_numpy(nx.astype(nx.take_rows(X, rows[s]), "float64"))

    for s in blocks:
        mean += weight[s] @ part(s)
    mean /= total
    for s in blocks:
        centred = part(s) - mean
        weighted = weight[s][:, None] * centred
        spread += weighted.T @ centred if full else (weighted * centred).sum(axis=0)
    return (spread + spread.T) / (2 * total) if full else spread / total


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
# Rows up to which one thread fits a partition.
_FEW_ROWS = 5000


@dataclass(frozen=True)
class ModelCells:
    """The labels that a fitted model gives to rows, or the leaves of a tree."""

    model: Any
    leaves: bool = False

    def __call__(self, X):
        """Return the labels, or the numbers of the leaves, (n,)."""
        return self.model.apply(X) if self.leaves else self.model.predict(X)


class KnownCells:
    """Cells numbered by the sorted labels of the training rows, (k,).

    A row with another label gets the cell whose mean, of (k, d), is nearest.
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


def fit_partition(
    partition: Any, n_clusters: int, X, y, sample_weight, rng: np.random.Generator
) -> tuple[Any, np.ndarray]:
    """Return a fitted partition, and the cell of each row, (n,); every cell has a row.

    Of an estimator that is not fitted a clone is. The first ``len(y)`` rows are
    labelled, with numbers of classes. ``n_clusters`` is the most cells there can be for
    "dpgmm" and "tree"; "linear" has one for each class.
    """
    seed = int(rng.integers(2**31 - 1))
    # Threads of BLAS and OpenMP wait for each other by spinning: on a busy machine
    # k-means of 300 rows took 2.6 s with two and 0.02 s with one; on an idle one 0.01.
    one_thread = _threads().limit(limits=1) if len(X) <= _FEW_ROWS else nullcontext()
    with one_thread:
        if isinstance(partition, str):
            function = _FITS[partition](n_clusters, X, y, sample_weight, seed)
        elif not isinstance(partition, BaseEstimator) or _is_fitted(partition):
            function = partition if callable(partition) else ModelCells(partition)
        else:
            data = (X[: len(y)], y) if is_classifier(partition) else (X,)
            function = ModelCells(clone(partition).fit(*data))
        return _numbered(function, X)


# Finding the loaded libraries takes milliseconds: once per process.
_threads = functools.cache(threadpoolctl.ThreadpoolController)


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


def _numbered(function: Any, X: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the partition with numbers for the cells that have rows, and the cells."""
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
    return function, cells


# ----------------------------------------------------------------------------------
# Base class of the support vector classifiers on a partition of the rows.
# ----------------------------------------------------------------------------------


class PartitionedSVC(base.FollowsX, ClassifierMixin, BaseEstimator):
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

    to_onnx = base.to_onnx

    score = base.score
    _parameters: ClassVar = {
        "C": base.POSITIVE.advise("Try 1.0; larger fits closer."),
        "gamma": base.POSITIVE | base.one_of("scale", "auto"),
        "n_clusters": base.count(),
        "covariance": base.one_of(*COVARIANCES),
        "tol": base.POSITIVE,
        "max_iter": base.count(most=2**31 - 1),  # libsvm counts steps in 32 bits
        "memory_budget": base.MEMORY_BUDGET,
        "random_state": base.RANDOM_STATE,
    }

    # Whether one SVM sees all rows: its matrix is then checked before clustering.
    _has_one_svm = False

    def fit(self, X, y, sample_weight=None, X_unlabeled=None) -> Self:
        """Find the cells and fit the support vector machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 counts as two equal rows.
        X_unlabeled : array-like of shape (n_unlabeled, n_features), default=None
            Rows without labels that help to find the cells; None: there are none.
            They are in the covariances too, and may be those to be predicted: the
            paper's transductive use.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        X, indices, row_weight, weight, others = self._validated(
            X, y, sample_weight, X_unlabeled
        )
        self._check_memory(X, X.shape[0] if self._has_one_svm else 0)
        cells = self._fit_cells(X, indices, row_weight, others)
        parts = self._kernels_and_rows(cells)
        self._check_memory(X, max(len(rows) for _, rows in parts))
        majority = int(np.argmax(np.bincount(indices, weights=weight)))
        # Around all threads, which share one list of filters; our warning has a remedy.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = Parallel(getattr(self, "n_jobs", None), prefer="threads")(
                delayed(self._fit_svm)(
                    kernel, nx.take_rows(X, rows), indices[rows], weight[rows]
                )
                for kernel, rows in parts
            )
        models, vectors = map(list, zip(*fitted, strict=True))
        models = [majority if model is None else model for model in models]
        self._store_svms([kernel for kernel, _ in parts], models, vectors)
        steps = [np.max(m.n_iter_) for m in models if not isinstance(m, int)]
        self.n_iter_ = int(max(steps, default=1))
        if self.n_iter_ >= self.max_iter:
            nx.warn_user(
                f"The support vector machine stopped after max_iter={self.max_iter} "
                "steps; increase max_iter or tol, lower C, or scale the data.",
                ConvergenceWarning,
            )
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
            K = kernel(base.on_device(X, self.device))
        model = SVC(
            C=self.C,
            kernel="precomputed",
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=200,
        )
        interruptible(model.fit, base.check_results(nx.to_numpy(K)), indices, weight)
        return model, nx.take_rows(X, model.support_)

    def _check_combinations(self) -> None:
        partition = self.partition
        if isinstance(partition, str | type):
            is_good = partition in PARTITIONS
        else:
            is_good = callable(partition) or hasattr(partition, "predict")
        if not is_good:
            raise ValueError(
                f"partition={partition!r} must be one of {list(PARTITIONS)}, a "
                "clusterer (an object, not its class) with predict, or a function of "
                "rows that returns their cell numbers."
            )

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        checked = base.validate_data(
            self, X, y, reset=reset, dtype=np.float64, **options
        )
        rows = checked[0] if isinstance(checked, tuple) else checked
        base.check_magnitude(rows, fitted=reset)
        return checked

    def _validated(self, X, y, sample_weight, X_unlabeled):
        """Return rows of positive weight, class numbers, weights and unlabelled rows.

        A row of weight 0 is a row that is not there.
        """
        base.check_one_label_type(y)
        X, y = self._validate(X, y, reset=True, ensure_min_samples=2)
        self.classes_, indices = base.encode_labels(y)
        if X_unlabeled is not None:
            X_unlabeled = self._validate(X_unlabeled, reset=False)
        row_weight = base.check_weights(sample_weight, X)
        weight = base.weights_with_classes(
            row_weight, self.class_weight, self.classes_, indices
        )
        row_weight = np.ones(X.shape[0]) if row_weight is None else row_weight
        weight = row_weight if weight is None else weight
        kept = np.flatnonzero(weight > 0)
        self._check_clusters(len(kept))
        rows = nx.take_rows(X, kept)
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

    def _fit_cells(self, X, indices, weight, X_unlabeled) -> np.ndarray:
        """Store partition and covariances; return the cell of each labelled row.

        Rows without labels take part in both, with weight 1.
        """
        n, given, X = X.shape[0], X, nx.to_numpy(X)
        if X_unlabeled is not None:
            X_unlabeled = nx.to_numpy(X_unlabeled)
            X = np.concatenate([X, X_unlabeled])
            weight = np.concatenate([weight, np.ones(len(X_unlabeled))])
        rng = base.generator_from(self.random_state)
        self.partition_, cells = fit_partition(
            self.partition, self.n_clusters, X, indices, weight, rng
        )
        self.n_cells_, kind = int(cells.max()) + 1, self.covariance
        of_all = cell_covariances(X, np.zeros(len(X), int), 1, kind, weight)[0]
        covariances = cell_covariances(X, cells, self.n_cells_, kind, weight)
        covariances = fill_constant_columns(covariances, of_all)
        covariances, epsilons = regularise_covariances(covariances, of_all)
        self.covariances_ = nx.as_like(covariances, given)
        self.epsilon_ = nx.as_like(epsilons, given)
        if (epsilons > 0).any():
            nx.warn_user(
                f"{regularisation_text(epsilons)} epsilon_ has the shares. "
                "Fewer clusters, more rows, or covariance='diag' avoid it.",
                LinAlgWarning,
            )
        return cells[:n]

    def _gamma(self, expected_distance: float) -> float:
        """Return gamma as a number.

        ``"scale"`` gives the mean exponent that it has in scikit-learn's ``SVC``, 2.
        """
        if isinstance(self.gamma, str):
            scale = 2.0 / expected_distance
            return scale if self.gamma == "scale" else 1.0 / self.n_features_in_
        return float(self.gamma)

    @base.rowwise
    def decision_function(self, X) -> np.ndarray:
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

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        like, two = self._values(X), len(self.classes_) == 2
        values = nx.to_numpy(like)
        numbers = values[:, 1] > 0 if two else np.argmax(values, axis=1)
        numbers = nx.as_like(numbers.astype(np.int64), like)
        return labels_at(self.classes_, numbers, like)

    def _values(self, X):
        """Check rows, and return their decision values, (n, n_classes)."""
        check_is_fitted(self, "partition_")
        X = self._validate(X, reset=False)
        values = self._map_rows(self._decision_values, X)
        return base.check_results(values)


# ----------------------------------------------------------------------------------
# Support vector classifiers on cells: one whose kernel knows them, one for each.
#
# Their kernels can be had without a fit, for a search of C and gamma.
# ----------------------------------------------------------------------------------


class ClusterRBFSVC(PartitionedSVC):
    """Support vector classifier with the C_k RBF kernel.

    The rows are divided into cells, by default in two by k-means; each
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
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
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
    _parameters: ClassVar = {"normalization": base.one_of(*ClusterRBF.NORMALIZATIONS)}

    @base.stored
    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: float | Literal["scale", "auto"] = "scale",
        n_clusters: int = 2,
        partition: str | Callable[..., Any] = "kmeans",
        covariance: Literal["full", "diag", "radial"] = "full",
        normalization: Literal["unit", "determinant", "density"] = "unit",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        max_iter: int = 1_000_000,
        device: str | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
    ): ...

    def _kernels_and_rows(self, cells: np.ndarray):
        """Return the one kernel, for all rows."""
        # Two rows of one cell are E (x − y)ᵀ (2Σ)⁻¹ (x − y) = d apart.
        gamma = self._gamma(expected_distance=self.n_features_in_)
        kernel = ClusterRBF(
            self.partition_, nx.to_numpy(self.covariances_), gamma, self.normalization
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
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
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

    @base.stored
    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: float | Literal["scale", "auto"] = "scale",
        n_clusters: int = 2,
        partition: str | Callable[..., Any] = "kmeans",
        covariance: Literal["full", "diag", "radial"] = "full",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        max_iter: int = 1_000_000,
        device: str | None = None,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
        random_state: base.Seed = None,
    ): ...

    def _kernels_and_rows(self, cells: np.ndarray):
        """Return the kernel of each cell, and its rows."""
        # Two rows of one cell are E (x − y)ᵀ Σ⁻¹ (x − y) = 2d apart.
        gamma = self._gamma(expected_distance=2 * self.n_features_in_)
        return [
            (MahalanobisRBF(Sigma, gamma), np.flatnonzero(cells == i))
            for i, Sigma in enumerate(nx.to_numpy(self.covariances_))
        ]

    def _store_svms(self, kernels, models, support_vectors) -> None:
        self.kernels_, self.svcs_ = kernels, models
        self.support_vectors_ = support_vectors

    def _decision_values(self, X) -> np.ndarray:
        """Return one column for each class, (n, n_classes)."""
        cells, k = cell_numbers(self.partition_, X, self.n_cells_), len(self.classes_)
        values = np.empty((X.shape[0], k))
        for i in np.unique(cells).tolist():
            rows, model = np.flatnonzero(cells == i), self.svcs_[i]
            if isinstance(model, int):  # the only class of the cell
                values[rows] = 2.0 * (np.arange(k) == model) - 1
            else:
                vectors, part = self.support_vectors_[i], nx.take_rows(X, rows)
                values[rows] = svm_decision_values(
                    model, self.kernels_[i], part, vectors, k
                )
        return values


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
    vectors = nx.astype(nx.as_like(support_vectors, X), "float64")
    parts = []
    for rows in row_blocks(X.shape[0], 8 * n, _BLOCK_BYTES):
        with few_threads_for(X.shape[0]):
            of_support = nx.to_numpy(kernel(nx.astype(X[rows, :], "float64"), vectors))
        # scikit-learn wants a column for each training row, and reads those of support.
        K = np.zeros((len(of_support), n))
        K[:, model.support_] = base.check_results(of_support)
        values = model.decision_function(K)
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


# ---- kernels of an unfitted classifier -----------------------------------------------


def cell_kernels(
    model: PartitionedSVC, X, labels: np.ndarray, train: np.ndarray
) -> list[tuple[Kernel, np.ndarray]]:
    """Return the kernel and the rows of each SVM of an unfitted model.

    All rows shape cells and covariances; cells that are made with labels see those of
    the training rows.
    """
    model = clone(model)
    model._check_parameters()
    X = nx.to_numpy(model._validate(X, reset=True, ensure_min_samples=2))
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
    if isinstance(model.partition, str):
        return model.partition in SUPERVISED
    return isinstance(model.partition, BaseEstimator) and is_classifier(model.partition)
