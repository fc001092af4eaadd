"""Partitions of space: functions of rows that return the cell of each.

A partition is any function of rows, or any object with ``predict``, such as a fitted
clusterer, that returns whole numbers from 0 to k − 1. Kernels are given one; they make
none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    dtype_name,
    row_blocks,
    to_numpy,
)
from kaucus.kernels._distances import dense, shifted_rows, squared_distances

Partition = Callable[[Any], Any] | Any
"""A function of rows, or an object with ``predict``."""

# Rows looked at together, so that their distances from the centres stay small.
_ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class NearestCenter:
    """The cells of k-means: a row belongs to the centre nearest to it.

    Works on arrays of every library, on their device.

    Parameters
    ----------
    centers : array of shape (k, d)
        Kept as a NumPy array in float64.

    Examples
    --------
    >>> import numpy as np
    >>> NearestCenter([[0.0, 0.0], [4.0, 4.0]])(np.array([[1.0, 1.0], [3.0, 3.0]]))
    array([0, 1])
    """

    centers: Any

    def __post_init__(self) -> None:
        centers = np.array(to_numpy(self.centers), dtype=np.float64)
        if centers.ndim != 2 or 0 in centers.shape or not np.isfinite(centers).all():
            raise ValueError(
                f"centers has shape {centers.shape}; expected finite numbers of shape "
                "(n_cells, n_features)."
            )
        centers.flags.writeable = False
        object.__setattr__(self, "centers", centers)

    def __call__(self, X: Array) -> Array:
        """Return the number of the nearest centre of each row, (n,)."""
        xp = array_namespace(X)
        wanted = dtype_name(X)
        parts = []
        for rows in row_blocks(X.shape[0], 1, _ROWS):
            block = dense(X[rows, :])
            centers = as_like(self.centers, block, dtype=wanted)
            shift = centers[0, :]
            D = squared_distances(
                shifted_rows(block, shift), shifted_rows(centers, shift)
            )
            parts.append(xp.argmin(D, axis=1))
        return xp.concat(parts) if len(parts) > 1 else parts[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NearestCenter):
            return NotImplemented
        return np.array_equal(self.centers, other.centers)

    def __hash__(self) -> int:
        return hash((self.centers.shape, self.centers.tobytes()))

    def __repr__(self) -> str:
        k, d = self.centers.shape
        return f"NearestCenter(<{k} centers of {d} features>)"


def cell_numbers(partition: Partition, X: Array, n_cells: int) -> np.ndarray:
    """Return the cell of each row, checked.

    A :class:`NearestCenter` sees the rows where they are, any other partition sees them
    as NumPy arrays (or CSR matrices) in float64.

    Parameters
    ----------
    partition : callable or object with ``predict``
    X : array or CSR matrix of shape (n, d)
    n_cells : int
        k.

    Returns
    -------
    ndarray of shape (n,)
        Integers from 0 to k − 1; anything else is a ValueError.
    """
    if X.shape[0] == 0:
        return np.zeros(0, dtype=np.intp)
    if isinstance(partition, NearestCenter):
        return to_numpy(partition(X)).astype(np.intp)
    function = partition if callable(partition) else partition.predict
    rows = X if hasattr(X, "tocsr") else to_numpy(X)
    cells, n_rows = np.asarray(function(astype(rows, "float64"))), X.shape[0]
    if cells.shape != (n_rows,) or cells.dtype.kind not in "iub":
        raise ValueError(
            f"The partition returned shape {cells.shape} of dtype {cells.dtype} for "
            f"{n_rows} rows; expected one whole number for each row, shape ({n_rows},)."
        )
    cells = cells.astype(np.intp)
    if cells.min() < 0 or cells.max() >= n_cells:
        raise ValueError(
            f"The partition returned cells from {cells.min()} to {cells.max()}; "
            f"expected 0 to {n_cells - 1}, one for each of the {n_cells} covariances."
        )
    return cells


def check_partition(partition: Partition) -> None:
    """Check that a partition is callable or has ``predict``."""
    if not callable(partition) and not callable(getattr(partition, "predict", None)):
        raise ValueError(
            f"partition={partition!r} is not callable and has no predict; pass a "
            "function of rows that returns their cell numbers, or a fitted clusterer."
        )
