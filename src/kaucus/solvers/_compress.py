"""Fewer representatives for nearly the same function.

The decision values of some rows are V = K a, with K the columns of m representatives.
Columns that others can stand in for are superfluous. A QR decomposition with pivots
orders the columns, each next one being that which the ones before explain least; with
the first r of them, the best coefficients leave

    V − K_r a_r = (I − Q_r Q_rᵀ) V,

which is known for every r from Qᵀ V, without a fit. So the smallest r is found whose
largest change is within a tolerance. Columns enter with the size of their coefficients,
so that those that hardly count come last.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg


class Compressed(NamedTuple):
    """Which representatives are kept, and their coefficients."""

    kept: np.ndarray
    """(r,), ascending."""
    dual_coef: np.ndarray
    """(r, t)."""
    intercept: np.ndarray
    """(t,)."""
    change: float
    """Largest change of a decision value of the rows, ≤ tol."""


def compress_columns(
    K: np.ndarray, dual_coef: np.ndarray, intercept: np.ndarray, tol: float
) -> Compressed:
    """Drop columns while no decision value of the rows changes by more than ``tol``.

    Parameters
    ----------
    K : array of shape (n, m)
        Kernel columns of the representatives at some rows, n ≥ m for a safe result.
    dual_coef : array of shape (m, t)
    intercept : array of shape (t,)
    tol : float

    Returns
    -------
    Compressed

    Notes
    -----
    2 n m² multiplications, and as many for the largest changes. A constant column, the
    intercept, is always kept.
    """
    m = K.shape[1]
    V = K @ dual_coef  # (n, t)
    size = np.max(np.abs(dual_coef), axis=1)
    # Without the mean of the columns: the intercept takes that over.
    means = K.mean(axis=0)
    scaled = (K - means) * size
    parts = scipy.linalg.qr(scaled, mode="economic", pivoting=True)
    Q, order = np.asarray(parts[0]), np.asarray(parts[2])  # type: ignore[misc]
    r = _fewest(Q, V - V.mean(axis=0), tol)
    while True:
        kept = np.sort(order[:r])
        coef, shift = _refit(K[:, kept], means[kept], V)
        change = float(np.max(np.abs(K[:, kept] @ coef + shift - V), initial=0.0))
        # Where columns depend on each other, rounding may ask for a few more.
        if change <= tol or r >= m:
            break
        r = min(m, r + max(1, m // 50))
    if change > tol:  # all columns, as they were
        return Compressed(np.arange(m), dual_coef, intercept, 0.0)
    return Compressed(kept, coef, intercept + shift, change)


def _fewest(Q: np.ndarray, V: np.ndarray, tol: float) -> int:
    """Return the smallest r for which (I − Q_r Q_rᵀ) V is within ``tol``.

    By bisection over r: the changes become smaller with r in the mean square, and what
    is found is checked by the caller.
    """
    projected = Q.T @ V
    low, high = 0, Q.shape[1]
    while low < high:
        r = (low + high) // 2
        left = V - Q[:, :r] @ projected[:r]
        if np.max(np.abs(left), initial=0.0) <= tol:
            high = r
        else:
            low = r + 1
    return max(low, 1)


def _refit(K: np.ndarray, means: np.ndarray, V: np.ndarray):
    """Return coefficients and constant of the least squares of V on the columns."""
    coef = np.linalg.lstsq(K - means, V - V.mean(axis=0), rcond=1e-12)[0]
    return coef, V.mean(axis=0) - means @ coef
