"""Every kernel as a double loop over rows, in float64."""

import math

import numpy as np

from tests.reference.cluster_rbf import cluster_rbf, mahalanobis

__all__ = ["cluster_rbf", "mahalanobis"]  # found by the registry by their names


def matrix(function, X, Y):
    """Return ``function`` of all pairs of rows."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    K = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            K[i, j] = function(x, y)
    return K


def squared_distance(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def inner_product(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def linear(x, y):
    return inner_product(x, y)


def poly(x, y, degree, gamma, coef0):
    return (gamma * inner_product(x, y) + coef0) ** degree


def rbf(x, y, gamma):
    return math.exp(-gamma * squared_distance(x, y))


def exponential(x, y, gamma):
    return math.exp(-gamma * math.sqrt(squared_distance(x, y)))


def cauchy(x, y, gamma):
    return 1 / (1 + gamma * squared_distance(x, y))


def matern32(x, y, gamma):
    r = math.sqrt(3 * squared_distance(x, y)) * gamma
    return (1 + r) * math.exp(-r)


def matern52(x, y, gamma):
    r = math.sqrt(5 * squared_distance(x, y)) * gamma
    return (1 + r + r**2 / 3) * math.exp(-r)


def rational_quadratic(x, y, gamma, alpha):
    return (1 + gamma * squared_distance(x, y) / alpha) ** -alpha


def sigmoid(x, y, gamma, coef0):
    return math.tanh(gamma * inner_product(x, y) + coef0)


def cosine(x, y):
    norms = math.sqrt(inner_product(x, x) * inner_product(y, y))
    return inner_product(x, y) / norms if norms else 0.0


def laplacian(x, y, gamma):
    return math.exp(-gamma * sum(abs(a - b) for a, b in zip(x, y, strict=True)))


def long_squared_distances(X, Y):
    """Return ‖x − y‖² of all pairs in the longest floating-point type there is."""
    X, Y = np.asarray(X, dtype=np.longdouble), np.asarray(Y, dtype=np.longdouble)
    return np.stack([np.sum((Y - x) ** 2, axis=1) for x in X])
