"""The linear kernel."""

from dataclasses import dataclass

from kaucus.backend import Array, astype, dtype_name
from kaucus.kernels._base import InnerProductKernel
from kaucus.kernels._distances import squared_norms
from kaucus.kernels._names import known_by_name


@known_by_name
@dataclass(frozen=True)
class Linear(InnerProductKernel):
    """k(x, y) = ⟨x, y⟩.

    Examples
    --------
    >>> import numpy as np
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name = "linear"

    def of_inner_products(self, G: Array) -> Array:
        return G

    def diag(self, X: Array) -> Array:
        return astype(squared_norms(X), dtype_name(X))
