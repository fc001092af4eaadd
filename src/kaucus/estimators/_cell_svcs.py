"""Support vector classifiers on cells: one whose kernel knows them, one for each.

Their kernels can be had without a fit, for a search of C and gamma.
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from kaucus.backend import (
    as_like,
    astype,
    few_threads_for,
    row_blocks,
    take_rows,
    to_numpy,
)
from kaucus.contract import ExportsONNX
from kaucus.estimators._parameters import one_of
from kaucus.estimators._partitioned_svc import PartitionedSVC
from kaucus.estimators._partitions import SUPERVISED
from kaucus.estimators._ranges import check_results
from kaucus.kernels import ClusterRBF, Kernel, MahalanobisRBF, cell_numbers


class ClusterRBFSVC(ExportsONNX, PartitionedSVC):
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


class LocalSVC(ExportsONNX, PartitionedSVC):
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
    """Return whether the cells of a classifier are made with labels."""
    if not isinstance(model, PartitionedSVC):
        raise ValueError(
            f"model={model!r} must be a kernel object, a ClusterRBFSVC or a LocalSVC."
        )
    return _is_supervised(model.partition)


def _is_supervised(partition) -> bool:
    if isinstance(partition, str):
        return partition in SUPERVISED
    return isinstance(partition, BaseEstimator) and is_classifier(partition)
