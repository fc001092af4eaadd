"""The median heuristic: a kernel's width from the distances between the rows."""

import math

import numpy as np

from kaucus.backend import Array, as_like, is_sparse, take_rows, to_numpy
from kaucus.kernels._distances import (
    manhattan_distances,
    mean_row,
    shifted_rows,
    squared_distances,
)

# Half a million pairs: the median is known to a few tenths of a percent.
_ROWS = 1000
# Kernels of the distance itself, not of its square.
_OF_LENGTH = ("exponential", "laplacian")


def median_gamma(
    X: Array, sample_weight: Array | None = None, kernel: object = None
) -> float:
    """Return gamma such that the kernel has a middling value at the median distance.

    With m the median of the distances between different rows,

        exponential, Laplacian   1 / m        k = e⁻¹ there; Manhattan for Laplacian
        all others               1 / (2 m²)   the Gaussian whose σ is m

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Rows of weight 0 are passed over; other weights do not matter.
    kernel : object, default=None
        What :func:`resolve_kernel` takes; its name decides between the two formulas.

    Returns
    -------
    float
        1 where all rows are equal.

    Notes
    -----
    All pairs of at most 1,000 rows at even steps through X: no random numbers, the same
    answer every time. Rows that come in a period of n / 1000 would be sampled badly;
    shuffle those.
    """
    rows = np.arange(X.shape[0])
    if sample_weight is not None:
        rows = rows[to_numpy(sample_weight) > 0]
    if len(rows) > _ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.int64)]
    some = take_rows(X, rows if is_sparse(X) else as_like(rows, X))
    distances = _distances(some, kernel)
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    median = float(np.median(distances))
    if not math.isfinite(median):
        raise ValueError(
            "gamma='median' needs the distances between rows, and they overflow; "
            "scale X, for example with StandardScaler."
        )
    of_length = isinstance(kernel, str) and kernel in _OF_LENGTH
    return 1 / median if of_length else 1 / (2 * median**2)


def _distances(X: Array, kernel: object) -> np.ndarray:
    """Return the distances of all pairs, each once."""
    upper = np.triu_indices(X.shape[0], k=1)
    if isinstance(kernel, str) and kernel == "laplacian":
        return to_numpy(manhattan_distances(X, X))[upper].astype(np.float64)
    rows = shifted_rows(X, None if is_sparse(X) else mean_row(X))
    return np.sqrt(to_numpy(squared_distances(rows, rows))[upper].astype(np.float64))
