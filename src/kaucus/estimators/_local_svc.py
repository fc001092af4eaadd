"""One support vector classifier for every cell."""

import numpy as np

from kaucus.backend import take_rows, to_numpy
from kaucus.contract import ExportsONNX
from kaucus.estimators._partitioned_svc import PartitionedSVC, svm_decision_values
from kaucus.kernels import MahalanobisRBF, cell_numbers


class LocalSVC(ExportsONNX, PartitionedSVC):
    """A support vector classifier of its own in every cell, m_k RBF.

    The rows are divided into cells, and in each cell an SVM with the Mahalanobis RBF
    kernel of the cell's covariance is fitted to the rows of that cell alone. A cell
    in which all rows are of one class predicts it. Cheaper than one SVM: k cells
    cost about 1/k of its kernel matrix; but what lies in another cell is not seen.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, as in ``SVC``.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels. ``"scale"`` and ``"auto"`` are 1 / n_features: distances
        are in units of the covariances already.
    n_clusters : int, default=2
        Number of cells, k.
    partition : {"kmeans", "gmm", "dpgmm", "linear", "tree"}, clusterer or callable, \
default="kmeans"
        How the cells are found: k-means (10 starts of k-means++), a Gaussian mixture, a
        Dirichlet process mixture, the classes that a linear classifier predicts, or
        the ``n_clusters`` leaves of a tree; any clusterer or classifier with
        ``predict``, of which a clone is fitted if it is not fitted yet; or a function
        of rows that returns their cells.
    covariance : {"full", "diag", "radial"}, default="full"
        Whole covariances, diagonal ones, or multiples of the identity.
    class_weight : dict or "balanced", default=None
        Weights of the classes; ``"balanced"`` makes them inversely proportional to
        their numbers of rows.
    tol : float, default=1e-3
        Tolerance at which the solver stops, as in ``SVC``.
    max_iter : int, default=1000000
        Most steps of the solver.
    device : str, default=None
        None computes the kernel where ``X`` lives; ``"cuda"`` or ``"cuda:1"`` computes
        it there. Needs torch. Cells and SVMs are always computed on the host.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        A kernel matrix that does not fit is refused before the SVMs are fitted.
    n_jobs : int, default=None
        Cells that are fitted at a time, in threads.
    random_state : int, RandomState or Generator, default=None
        Draws the starts of the partition.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernels_ : list of MahalanobisRBF
        The kernel of each cell.
    partition_ : callable
        Returns the cells of rows, 0 to ``n_cells_`` − 1.
    n_cells_ : int
        Cells that have rows; at most ``n_clusters`` where it is asked for.
    covariances_ : ndarray of shape (n_cells_, n_features, n_features)
        The covariances; (n_cells_, n_features) if diagonal, (n_cells_,) if radial.
    epsilon_ : ndarray of shape (n_cells_,)
        The share of the covariance of all rows that was mixed into a singular one.
    svcs_ : list of SVC or int
        The SVM of each cell, or the number of its only class.
    support_vectors_ : list of ndarray of shape (n_support, n_features)
        The rows of each cell that take part in predictions; None with one class.
    n_iter_ : int
        Most steps of the solver in a cell.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

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
