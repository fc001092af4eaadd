"""The LS-SVM as the papers print it: one bordered matrix, one general solve.

    [ 0   1ᵀ       ] [ b ]   [ 0 ]
    [ 1   K + I/C  ] [ A ] = [ Y ]

Slow, obvious, and used as the oracle.
"""

import numpy as np


def solve_bordered(K, Y, C, sample_weight=None):
    """Return A (n, t) and b (t,); a weight s puts 1 / (C s) on the diagonal."""
    n = len(K)
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    theta = np.zeros((n + 1, n + 1))
    theta[0, 1:] = theta[1:, 0] = 1.0
    theta[1:, 1:] = K + np.diag(1.0 / (C * s))
    solution = np.linalg.solve(theta, np.vstack([np.zeros((1, Y.shape[1])), Y]))
    return solution[1:], solution[0]


def rbf(X, Z, gamma):
    """Return exp(−gamma ‖x − z‖²), pair by pair."""
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def one_hot(y, classes, low):
    """Return targets of 1 for a row's class and ``low`` for the others."""
    return np.where(np.asarray(y)[:, None] == np.asarray(classes)[None, :], 1.0, low)


def literal_eq_15(K, A, b):
    """Return eq. (15) of Andrecut (2016), letter by letter."""
    g = np.empty((len(K), A.shape[1]))
    for i in range(len(K)):
        for j in range(A.shape[1]):
            g[i, j] = sum(np.exp(K[i, n] * A[n, j] + b[j]) for n in range(len(A)))
        g[i] /= g[i].sum()
    return g
