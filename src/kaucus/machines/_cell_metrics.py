"""Covariances of the rows of each cell."""

import numpy as np

from kaucus.backend import Array, astype, row_blocks, take_rows, to_numpy

COVARIANCES = ("full", "diag", "radial")
# Bytes of a block of rows on its way through float64.
_BLOCK = 2**24


def cell_covariances(
    X: Array,
    cells: np.ndarray,
    n_cells: int,
    kind: str = "full",
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return Σᵢ = cov(X ∩ Wᵢ) of each cell (Czarnecki & Tabor, Algorithm 1).

    The mean of (x − m)(x − m)ᵀ over the rows of the cell, with their weights: a weight
    of 2 is a row that is there twice. A cell without rows has the covariance 0.

    Parameters
    ----------
    X : array of shape (n, d)
    cells : ndarray of shape (n,)
        The cell of each row.
    n_cells : int
        k.
    kind : {"full", "diag", "radial"}, default="full"
        Whole matrices, their diagonals, or the means of those (Observation 3.3).
    sample_weight : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (k, d, d), (k, d) or (k,)
        In float64.
    """
    covariances = []
    for i in range(n_cells):
        rows = np.flatnonzero(cells == i)
        weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        covariances.append(_covariance(X, rows, weight, full=kind == "full"))
    stacked = np.stack(covariances)
    return stacked.mean(axis=1) if kind == "radial" else stacked


def _covariance(X: Array, rows, weight, *, full: bool) -> np.ndarray:
    """Return one covariance, or its diagonal, in two passes over the rows."""
    d = X.shape[1]
    total = float(weight.sum())
    mean, spread = np.zeros(d), np.zeros((d, d) if full else d)
    if total <= 0:
        return spread
    blocks = list(row_blocks(len(rows), 8 * max(d, 1), _BLOCK))
    for s in blocks:
        mean += weight[s] @ _in_float64(X, rows[s])
    mean /= total
    for s in blocks:
        centred = _in_float64(X, rows[s]) - mean
        weighted = weight[s][:, None] * centred
        spread += weighted.T @ centred if full else (weighted * centred).sum(axis=0)
    return (spread + spread.T) / (2 * total) if full else spread / total


def _in_float64(X: Array, rows: np.ndarray) -> np.ndarray:
    return to_numpy(astype(take_rows(X, rows), "float64"))
