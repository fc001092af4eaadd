"""A given matrix as a kernel of row numbers."""

from dataclasses import dataclass

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    device_of,
    diagonal,
    dtype_name,
    take_rows,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._distances import Rows


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """k(i, j) = K[i, j]: the entries of a matrix, for rows that are row numbers.

    So whatever takes a kernel and rows takes a given matrix as well.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric; never changed.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> kernel = Precomputed(K)
    >>> kernel(kernel.row_numbers())
    array([[2., 1.],
           [1., 3.]])
    """

    matrix: Array

    name = "precomputed"
    # What the user gave is checked by the estimator.
    positive_semidefinite = False

    def row_numbers(self) -> Array:
        """Return the numbers of all rows, (n, 1), in the precision of the matrix."""
        xp = array_namespace(self.matrix)
        n = self.matrix.shape[0]
        dtype, device = self.matrix.dtype, device_of(self.matrix)
        return xp.arange(n, dtype=dtype, device=device)[:, None]

    def has_rows(self, X: Array) -> bool:
        """Tell whether ``X`` are the numbers of all rows, in order."""
        if X.shape[0] != self.matrix.shape[0]:
            return False
        return bool(array_namespace(X).all(self.row_numbers() == X))

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Rows, Rows]:
        x_rows = Rows(X, None)
        return x_rows, x_rows if Y is None else Rows(Y, None)

    def tile(self, X: Rows, Y: Rows) -> Array:
        xp = array_namespace(self.matrix)
        rows = take_rows(self.matrix, _as_index(X.values))
        return astype(xp.take(rows, _as_index(Y.values), axis=1), dtype_name(X.values))

    def diag(self, X: Array) -> Array:
        values = take_rows(diagonal(self.matrix), _as_index(X))
        return astype(values, dtype_name(X))


def _as_index(row_numbers: Array) -> Array:
    xp = array_namespace(row_numbers)
    return xp.astype(row_numbers[:, 0], xp.int64)
