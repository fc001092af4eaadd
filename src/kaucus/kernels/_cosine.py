"""The cosine kernel."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    dtype_name,
    is_sparse,
)
from kaucus.kernels._base import InnerProductKernel
from kaucus.kernels._distances import Rows, squared_norms
from kaucus.kernels._names import known_by_name


@known_by_name
@dataclass(frozen=True)
class Cosine(InnerProductKernel):
    """k(x, y) = ⟨x, y⟩ / (‖x‖ ‖y‖), and 0 where a row is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Cosine()(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [3.0, 3.0]])).round(4)
    array([[1.    , 0.7071]])
    """

    name = "cosine"

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Rows, Rows]:
        x_rows = Rows(unit_rows(X), None)
        return x_rows, x_rows if Y is None else Rows(unit_rows(Y), None)

    def of_inner_products(self, G: Array) -> Array:
        return G

    def diag(self, X: Array) -> Array:
        xp = array_namespace(X)
        has_direction = xp.sqrt(squared_norms(X)) > _shortest(X)
        return xp.astype(has_direction, getattr(xp, dtype_name(X)))


def _shortest(X: Array) -> float:
    """Return the length up to which a row counts as zero: its inverse overflows."""
    return 4 * float(np.finfo(dtype_name(X)).tiny)


def unit_rows(X: Array, squared: Array | None = None) -> Array:
    """Return the rows divided by their norms; zero rows stay zero.

    So do, to rounding, rows so short that the inverse of their norm overflows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    squared : array of shape (n,), default=None
        ‖x‖² of the rows in float64, where it is known.

    Returns
    -------
    array or CSR matrix of shape (n, d)
        In the precision of ``X``.
    """
    xp = array_namespace(X)
    norms = xp.sqrt(squared_norms(X) if squared is None else squared)
    lengths = xp.where(norms > _shortest(X), norms, xp.ones_like(norms))
    scale = astype(1 / lengths, dtype_name(X))
    if is_sparse(X):
        return scipy.sparse.csr_array(scipy.sparse.diags_array(np.asarray(scale)) @ X)
    return X * scale[:, None]
