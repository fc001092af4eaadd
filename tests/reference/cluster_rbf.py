"""The cluster-shaped kernel as integrals and as explicit inverses, slow and plain."""

import numpy as np
from scipy.stats import multivariate_normal


def mahalanobis(x, y, covariance, gamma):
    """exp(−γ (x − y)ᵀ Σ⁻¹ (x − y)) with an explicit inverse."""
    v = x - y
    return np.exp(-gamma * v @ np.linalg.inv(matrix_of(covariance, len(x))) @ v)


def matrix_of(covariance, d):
    """Return a full matrix from a full, diagonal or radial covariance."""
    covariance = np.asarray(covariance, dtype=np.float64)
    return covariance if covariance.ndim == 2 else covariance * np.eye(d)


def theorem(x, y, Sx, Sy, gamma):
    """Theorem 3.1 with an inverse and a determinant."""
    d, S = len(x), Sx + Sy
    v = x - y
    norm = np.sqrt((np.pi / gamma) ** d * np.linalg.det(S))
    return np.exp(-gamma * v @ np.linalg.inv(S) @ v) / norm


def cluster_rbf(x, y, partition, covariances, gamma, normalization="unit"):
    """K̂, divided by what the normalisation takes off."""
    d = len(x)
    Sx, Sy = (
        matrix_of(np.asarray(covariances)[int(partition(row[None, :])[0])], d)
        for row in (x, y)
    )
    value = theorem(x, y, Sx, Sy, gamma)
    if normalization == "density":
        return value
    if normalization == "determinant":
        return value * np.sqrt((np.pi / gamma) ** d)
    norms = theorem(x, x, Sx, Sx, gamma) * theorem(y, y, Sy, Sy, gamma)
    return value / np.sqrt(norms)


def integral(x, y, Sx, Sy, gamma, n=301):
    """∫ N(x, Σ_x/2γ) N(y, Σ_y/2γ) by the trapezoidal rule, in 1 or 2 dimensions.

    For a Gaussian, whose ends vanish, the rule converges faster than any power.
    """
    width = 8 * np.sqrt(max(Sx.max(), Sy.max()) / gamma)
    axes = [
        np.linspace(min(a, b) - width, max(a, b) + width, n)
        for a, b in zip(x, y, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    densities = [
        multivariate_normal(m, S / (2 * gamma)).pdf(points)
        for m, S in ((x, Sx), (y, Sy))
    ]
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return float(np.sum(densities[0] * densities[1]) * cell)
