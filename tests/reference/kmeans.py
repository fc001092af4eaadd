"""k-means as the paper's steps say, one row at a time."""

import numpy as np


def unit(X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)


def spherical_lloyd(X, centers, *, tol=1e-6, max_iter=300, weight=None):
    """Steps 3-9 of Andrecut (2020), Sec. 5, from given centres."""
    X, centers = unit(X), unit(centers)
    weight = np.ones(len(X)) if weight is None else weight
    n_iter, deviation = 0, np.inf
    while deviation > tol and n_iter < max_iter:
        n_iter += 1
        labels = np.array([int(np.argmax([x @ c for c in centers])) for x in X])
        new = centers.copy()
        for q in range(len(centers)):
            total = sum(
                w * x for x, w, k in zip(X, weight, labels, strict=True) if k == q
            )
            if np.linalg.norm(total) > 0:
                new[q] = total / np.linalg.norm(total)
        deviation = 1 - np.mean([a @ b for a, b in zip(new, centers, strict=True)])
        centers = new
    labels = np.array([int(np.argmax([x @ c for c in centers])) for x in X])
    return centers, labels, n_iter


def euclidean_lloyd(X, centers, *, n_iter):
    """So many steps of k-means from given centres, all clusters keeping rows."""
    for _ in range(n_iter):
        distances = ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)
        centers = np.array([X[labels == q].mean(axis=0) for q in range(len(centers))])
    distances = ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    return centers, distances.argmin(axis=1)
