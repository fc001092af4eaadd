"""Kernels of an unfitted classifier on cells, for a search of C and gamma."""

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from kaucus.backend import to_numpy
from kaucus.estimators._partitioned_svc import GRADIENT, PartitionedSVC
from kaucus.estimators._partitions import SUPERVISED
from kaucus.kernels import Kernel


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
        Numbers of their classes, for cells or metrics that are made with labels.
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
    """Tell whether cells or metrics of a classifier are made with labels."""
    if not isinstance(model, PartitionedSVC):
        raise ValueError(
            f"model={model!r} must be a kernel object, a ClusterRBFSVC or a LocalSVC."
        )
    return model.covariance == GRADIENT or _is_supervised(model.partition)


def _is_supervised(partition) -> bool:
    if isinstance(partition, str):
        return partition in SUPERVISED
    return isinstance(partition, BaseEstimator) and is_classifier(partition)
