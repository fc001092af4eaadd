"""Accuracy of clusters against known classes."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.validation import check_consistent_length, column_or_1d

from kaucus.contract import on_host


def clustering_accuracy(y_true, labels) -> float:
    """Return the share of rows in the right cluster, for the best one-to-one naming.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes.
    labels : array-like of shape (n_samples,)
        Clusters; their names do not matter.

    Returns
    -------
    float
        From 0 to 1. With k equal classes, chance is not 1/k but somewhat more, because
        the best of all namings is taken.

    Notes
    -----
    Each cluster stands for one class at most: one that is cut in two is half wrong. The
    naming is an assignment problem, solved by SciPy's ``linear_sum_assignment``.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    y_true, labels = column_or_1d(on_host(y_true)), column_or_1d(on_host(labels))
    check_consistent_length(y_true, labels)
    if not len(y_true):
        raise ValueError("y_true is empty; pass one class and one label for each row.")
    counts = np.asarray(contingency_matrix(y_true, labels))
    return float(counts[linear_sum_assignment(-counts)].sum() / len(y_true))
