"""A support vector classifier that measures distances by the covariance of the rows."""

import numpy as np

from kaucus.estimators._cluster_rbf_svc import ClusterRBFSVC


def _one_cell(X):
    return np.zeros(len(X), dtype=np.int64)


class MahalanobisSVC(ClusterRBFSVC):
    """Support vector classifier with the Mahalanobis RBF kernel.

    exp(−γ (x − y)ᵀ (2Σ)⁻¹ (x − y)) with Σ the covariance of all rows: columns need no
    scaling, and those that go together count once. It is :class:`ClusterRBFSVC` with
    one cell.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the regularisation, as in ``SVC``.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernel. ``"scale"`` is 2 / n_features, ``"auto"`` 1 / n_features.
    covariance : {"full", "diag", "radial"}, default="full"
        The whole covariance, its diagonal, or a multiple of the identity.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    tol : float, default=1e-9
        Tolerance at which the solver stops: two equal rows are one of weight 2.
    max_iter : int, default=1000000
        Most steps of the solver.
    memory_budget : int or str, default=None
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : ClusterRBF
        The kernel, with the covariance and gamma.
    partition_ : callable
        Returns 0 for every row.
    n_cells_ : int
        1.
    covariances_ : ndarray of shape (1, n_features, n_features)
        The covariance; (1, n_features) if diagonal, (1,) if radial.
    epsilon_ : ndarray of shape (1,)
        The share of the identity that was mixed into a singular one.
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
    ClusterRBFSVC : A covariance for every cell.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import MahalanobisSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> round(MahalanobisSVC(C=10).fit(X, y).score(X, y), 2)
    0.99
    """

    n_clusters, normalization, device, random_state = 1, "unit", None, None
    partition = staticmethod(_one_cell)

    def __init__(
        self,
        C=1.0,
        *,
        gamma="scale",
        covariance="full",
        class_weight=None,
        tol=1e-9,
        max_iter=1_000_000,
        memory_budget=None,
    ):
        self.C = C
        self.gamma = gamma
        self.covariance = covariance
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
