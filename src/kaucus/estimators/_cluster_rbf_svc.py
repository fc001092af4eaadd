"""A support vector classifier whose kernel has the shape of the clusters."""

from typing import ClassVar

import numpy as np

from kaucus.backend import to_numpy
from kaucus.contract import ExportsONNX
from kaucus.estimators._parameters import one_of
from kaucus.estimators._partitioned_svc import PartitionedSVC, svm_decision_values
from kaucus.kernels import ClusterRBF


class ClusterRBFSVC(ExportsONNX, PartitionedSVC):
    """Support vector classifier with the C_k RBF kernel.

    The rows are divided into cells, by k-means into two unless told otherwise; each
    cell has its own covariance, and each row is represented by a Gaussian of its
    cell's shape (:class:`~kaucus.kernels.ClusterRBF`). The SVM is scikit-learn's
    :class:`~sklearn.svm.SVC`; the kernel matrix is computed here, in float64.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, as in ``SVC``.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernel. ``"scale"`` is 2 / n_features: distances are in units of
        the covariances already. ``"auto"`` is 1 / n_features.
    n_clusters : int, default=2
        Number of cells, k. With 1 it is the Mahalanobis RBF kernel.
    partition : {"kmeans", "gmm", "dpgmm", "linear", "tree"}, clusterer or callable, \
default="kmeans"
        How the cells are found: k-means (10 starts of k-means++), a Gaussian mixture, a
        Dirichlet process mixture, the classes that a linear classifier predicts, or
        the ``n_clusters`` leaves of a tree; any clusterer or classifier with
        ``predict``, of which a clone is fitted if it is not fitted yet; or a function
        of rows that returns their cells.
    covariance : {"full", "diag", "radial"}, default="full"
        Whole covariances, diagonal ones, or multiples of the identity.
    normalization : {"unit", "determinant", "density"}, default="unit"
        Factor of the kernel: ``"unit"`` makes k(x, x) = 1, so that C means what it
        means in ``SVC``; ``"determinant"`` is the paper's Algorithm 1.
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
        A kernel matrix that does not fit is refused at once.
    random_state : int, RandomState or Generator, default=None
        Draws the starts of the partition.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : ClusterRBF
        The kernel, with partition, covariances and gamma.
    partition_ : callable
        Returns the cells of rows, 0 to ``n_cells_`` − 1.
    n_cells_ : int
        Cells that have rows; at most ``n_clusters`` where it is asked for.
    covariances_ : ndarray of shape (n_cells_, n_features, n_features)
        The covariances; (n_cells_, n_features) if diagonal, (n_cells_,) if radial.
    epsilon_ : ndarray of shape (n_cells_,)
        The share of the covariance of all rows that was mixed into a singular one.
    svc_ : SVC
        The fitted SVM, on the precomputed matrix of rows with positive weight.
    support_vectors_ : ndarray of shape (n_support, n_features)
        The rows that take part in predictions.
    n_iter_ : int
        Most steps of the solver for a pair of classes.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had names that are all strings.

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
