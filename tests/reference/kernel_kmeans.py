"""Kernel k-means as eq. (7) of Maia & Ara says, one cluster at a time."""

import numpy as np


def distances(K, labels, k, weight=None):
    """Eq. (7), all three terms."""
    w = np.ones(len(K)) if weight is None else weight
    D = np.empty((len(K), k))
    for c in range(k):
        m = labels == c
        share = w[m] / w[m].sum()
        D[:, c] = np.diag(K) - 2 * K[:, m] @ share + share @ K[np.ix_(m, m)] @ share
    return D


def objective(K, labels, k, weight=None):
    w = np.ones(len(K)) if weight is None else weight
    D = np.zeros(len(K))
    for c in np.unique(labels):
        D[labels == c] = distances(K, (labels != c).astype(int), 1, w)[labels == c, 0]
    return w @ D


def lloyd(K, labels, k, *, n_iter, weight=None):
    """So many steps of Algorithm 2, all clusters keeping rows; ties keep the label."""
    for _ in range(n_iter):
        D = distances(K, labels, k, weight)
        own = D[np.arange(len(K)), labels]
        labels = np.where(D.min(axis=1) < own - 1e-12, D.argmin(axis=1), labels)
    return labels
