"""The sigmoid kernel."""

from dataclasses import dataclass

from kaucus.backend import Array, array_namespace, astype, dtype_name
from kaucus.kernels._base import InnerProductKernel
from kaucus.kernels._distances import squared_norms
from kaucus.kernels._names import known_by_name


@known_by_name
@dataclass(frozen=True)
class Sigmoid(InnerProductKernel):
    """k(x, y) = tanh(gamma ⟨x, y⟩ + coef0).

    Not positive semidefinite: a least-squares SVM with it may have no solution, and
    then says so.

    Parameters
    ----------
    gamma : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(gamma=0.5)(np.array([[1.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[0.    , 0.7616]])
    """

    gamma: float = 1.0
    coef0: float = 0.0

    name = "sigmoid"
    positive_semidefinite = False

    def of_inner_products(self, G: Array) -> Array:
        G *= self.gamma
        G += self.coef0
        return array_namespace(G).tanh(G)

    def diag(self, X: Array) -> Array:
        return self.of_inner_products(astype(squared_norms(X), dtype_name(X)))
