"""A common scale for the columns of a table, which outliers do not spoil.

    v = (x − median) / (quartile range),   u = v / √(1 + v²/9),   then (u − mean) / std

Where the quartiles are equal, the standard deviation stands in for their range. No
value is further than 3 from the median, so that one entry of 10⁶ does no harm; the
bound is smooth and can be taken back.
"""

import numpy as np
import scipy.sparse

from kaucus.backend import Array, draw_some, is_sparse, take_rows, to_numpy
from kaucus.kernels import RowMap

BOUND = 3.0
# Rows from which quartiles, mean and spread are taken.
_ROWS = 10_000


def scale_maps(
    rows: Array, weight: np.ndarray | None, rng: np.random.Generator
) -> dict[str, RowMap]:
    """Return two maps of rows: to columns of mean 0 and spread 1, and the identity.

    Constant columns become 0. A sparse matrix keeps its zeros: its columns are divided
    by their root mean square.

    Parameters
    ----------
    rows : array, CSR matrix or HostRows of shape (n, d)
    weight : ndarray of shape (n,), or None
        Rows of weight 0 are passed over; other weights do not matter.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        ``"standard"`` and ``"given"``.
    """
    present = np.arange(rows.shape[0]) if weight is None else np.flatnonzero(weight)
    if len(present) > _ROWS:
        present = np.sort(draw_some(rng, present, _ROWS))
    some = take_rows(rows, present)
    if is_sparse(some):
        standard = _of_sparse(some)
        given = RowMap.identity(rows.shape[1], standard.spread)
        return {"standard": standard, "given": given}
    X = to_numpy(some).astype(np.float64)
    low, center, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    spread = high - low
    with np.errstate(over="ignore"):
        spread = np.where(spread > 0, spread, X.std(axis=0))
    usable = (spread > 1e-300) & np.isfinite(spread)
    scale = np.where(usable, 1 / np.where(usable, spread, 1.0), 0.0)
    d = len(center)
    first = RowMap(center, scale, BOUND, np.zeros(d), np.ones(d))
    values = first(X)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    standard = RowMap(center, scale, BOUND, mean, _inverse(spread), spread)
    with np.errstate(over="ignore"):
        return {"standard": standard, "given": RowMap.identity(d, X.std(axis=0))}


def _of_sparse(X) -> RowMap:
    d = X.shape[1]
    squares = np.asarray(scipy.sparse.csr_array(X).power(2).mean(axis=0)).ravel()
    zeros, size = np.zeros(d), np.sqrt(squares)
    return RowMap(zeros, np.ones(d), np.inf, zeros, _inverse(size), size)


def _inverse(spread: np.ndarray) -> np.ndarray:
    """Return 1 / spread; 0 for a column that is constant to rounding."""
    used = spread > 1e-12
    return np.where(used, 1 / np.where(used, spread, 1.0), 0.0)
