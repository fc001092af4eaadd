"""Kernels that are given: a function of rows, or a matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    diagonal,
    dtype_name,
    is_sparse,
    take_rows,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._distances import Rows


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A kernel given by a function of two sets of rows.

    Parameters
    ----------
    function : callable
        ``function(X, Y)`` takes arrays of shape (n, d) and (m, d) and returns one of
        shape (n, m), as the callables of scikit-learn's ``SVC`` do. It is called on
        blocks of rows, from one thread. It sees rows of the library and device that
        the data is of; what it returns is brought there.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import chi2_kernel
    >>> CallableKernel(chi2_kernel)(np.eye(2)).shape
    (2, 2)
    """

    function: Callable[[Any, Any], Any]

    name = "callable"
    # Nothing is known of the function: neither its matrix nor its threads.
    positive_semidefinite = False
    thread_safe = False

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self._checked(X.values, Y.values)

    def diag(self, X: Array) -> Array:
        xp = array_namespace(X)
        rows = [X[i : i + 1, :] for i in range(X.shape[0])]
        return xp.concat([xp.reshape(self._checked(row, row), (1,)) for row in rows])

    def _checked(self, X: Array, Y: Array) -> Array:
        expected = (X.shape[0], Y.shape[0])
        K = self.function(X, Y)
        shape = getattr(K, "shape", None)
        if shape is None or tuple(shape) != expected:
            got = f"a {type(K).__name__}" if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"The kernel {_name(self.function)} returned {got} for "
                f"{expected[0]} and {expected[1]} rows; expected {expected}. It must "
                "take two sets of rows and return the matrix of all pairs, an array."
            )
        K = as_like(K.toarray() if is_sparse(K) else K, X)
        xp = array_namespace(K)
        if not bool(xp.all(xp.isfinite(K))):
            raise ValueError(
                f"The kernel {_name(self.function)} returned NaN or infinity; "
                "every entry must be finite. Scale the data or change the kernel."
            )
        # A copy: what the user's function returns may be the user's.
        return xp.asarray(K, dtype=getattr(xp, dtype_name(X)), copy=True)


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


# ---- a matrix ------------------------------------------------------------------------


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
