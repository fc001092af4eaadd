"""What each column explains alone: the first metric of a table with many columns.

Of hundreds of columns, of which few matter, distances hardly depend on those few: a
first fit is no better than the mean, and its gradients are noise. What a column
explains by itself can still be seen:

    e_j = Σ_b (W_b / W) ‖ȳ_b − ȳ‖² / (mean of ‖y − ȳ‖²),

where b are bins of neighbouring values of column j, ȳ_b the mean target in a bin and
W_b its weight; less what bins of a column without influence explain by chance.
"""

import numpy as np

from kaucus.backend import Array, to_numpy
from kaucus.kernels import RowMap

# Bins of a column, and standard errors by which it must explain more than chance does.
_BINS, _ERRORS = 16, 3.0
# Entries that are sorted at a time.
_ENTRIES = 4_000_000
# Added to each, as a share of their mean: later steps may find columns that matter
# only together with others.
_FLOOR = 0.02


def screening_product(
    rows: Array, Y: Array, weight: Array | None, scale: RowMap
) -> np.ndarray:
    """Return the diagonal of a metric by which columns weigh what they explain alone.

    Takes the place of the average gradient product before any fit; like it, in the
    columns before the weights of the scale.

    Parameters
    ----------
    rows, Y : arrays of shape (n, d) and (n, t)
    weight : array of shape (n,), or None
    scale : RowMap

    Returns
    -------
    ndarray of shape (d,)
    """
    effects = main_effects(
        to_numpy(rows), to_numpy(Y), None if weight is None else to_numpy(weight)
    )
    return (effects + _FLOOR * (effects.mean() or 1.0)) * scale.weights**2


def main_effects(
    X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the share of the targets' variance that each column explains alone.

    0 for a column that explains no more than chance does. Depends on the order of a
    column's values, not on the values.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
    weight : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (d,)
    """
    (n, d), t = X.shape, Y.shape[1]
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    shares = w / w.sum()
    centred = Y - shares @ Y
    total = float(shares @ np.sum(centred**2, axis=1))
    n_bins = min(_BINS, n)
    if total <= 0 or n_bins < 2:
        return np.zeros(d)
    starts = np.arange(n_bins) * n // n_bins
    step = max(_ENTRIES // (n * (t + 1)), 1)
    parts = [
        _explained(X[:, start : start + step], centred, shares, starts)
        for start in range(0, d, step)
    ]
    explained = np.concatenate(parts) / total if parts else np.zeros(0)
    n_effective = 1 / float(shares @ shares)
    by_chance = (n_bins - 1 + _ERRORS * np.sqrt(2 * (n_bins - 1))) / n_effective
    return np.maximum(explained - by_chance, 0.0)


def _explained(
    X: np.ndarray, centred: np.ndarray, shares: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Return Σ_b (W_b / W) ‖ȳ_b‖² of centred targets for each column, (d,)."""
    order = np.argsort(X, axis=0, kind="stable")  # (n, d)
    of_bins = np.add.reduceat(shares[order], starts, axis=0)  # (b, d)
    sums = np.add.reduceat((shares[:, None] * centred)[order], starts, axis=0)
    squares = np.sum(sums**2, axis=2) / np.where(of_bins > 0, of_bins, 1.0)
    return np.sum(squares, axis=0)
