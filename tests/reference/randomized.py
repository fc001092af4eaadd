"""Steps of Andrecut (2016), Sec. 3, with Θ in full and NumPy's pseudo-inverse."""

import numpy as np


def theta(K, C, sample_weight=None):
    """Return Θ = [0, uᵀ; u, S^½ K S^½ + I/C] with u = S^½ 1."""
    n = len(K)
    u = np.ones(n) if sample_weight is None else np.sqrt(sample_weight)
    T = np.zeros((n + 1, n + 1))
    T[0, 1:] = T[1:, 0] = u
    T[1:, 1:] = u[:, None] * K * u[None, :] + np.eye(n) / C
    return T


def bordered(Y, sample_weight=None):
    """Return Z = [0; S^½ Y]."""
    u = np.ones(len(Y)) if sample_weight is None else np.sqrt(sample_weight)
    return np.vstack([np.zeros((1, Y.shape[1])), u[:, None] * Y])


def with_intercept(rows):
    """Return the rows of Θ that belong to rows of the data, and the intercept's."""
    return np.concatenate([[0], np.asarray(rows) + 1])


def kaczmarz(T, Z, W, rows):
    """Eq. 47."""
    s = with_intercept(rows)
    return W + np.linalg.pinv(T[s]) @ (Z[s] - T[s] @ W)


def matching_pursuit(T, Z, W, rows):
    """Eq. 57-59; returns W and R."""
    s = with_intercept(rows)
    Q = np.linalg.pinv(T[:, s]) @ (Z - T @ W)
    W = W.copy()
    W[s] += Q
    return W, Z - T @ W


def kaczmarz_mp(T, Z, W, rows, safeguard):
    """Sec. 3.4, with the best length of the first half if safe."""
    s = with_intercept(rows)
    step = np.linalg.pinv(T[s]) @ (Z[s] - T[s] @ W)
    R, moved = Z - T @ W, T @ step
    length = (R * moved).sum(0) / (moved**2).sum(0) if safeguard else 1.0
    return matching_pursuit(T, Z, W + length * step, rows)


def nystrom(T, Z, rows):
    """Eq. 27: one member."""
    s = with_intercept(rows)
    return np.linalg.pinv(T[s]) @ T[np.ix_(s, s)] @ np.linalg.pinv(T[:, s]) @ Z
