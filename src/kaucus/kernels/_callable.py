"""Any function k(X, Y) as a kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    dtype_name,
    is_sparse,
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

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Rows, Rows]:
        x_rows = Rows(X, None)
        return x_rows, x_rows if Y is None else Rows(Y, None)

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
        return astype(K, dtype_name(X))


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))
