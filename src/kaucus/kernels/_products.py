"""Kernels of an inner product: linear, polynomial, sigmoid, cosine."""

from dataclasses import dataclass, replace

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
from kaucus.kernels._resolve import known_by_name


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

    def slope_of_inner_products(self, G: Array) -> Array:
        return array_namespace(G).ones_like(G)

    def diag(self, X: Array) -> Array:
        return astype(squared_norms(X), dtype_name(X))


@known_by_name
@dataclass(frozen=True)
class Polynomial(InnerProductKernel):
    """k(x, y) = (gamma ⟨x, y⟩ + coef0)^degree.

    The kernel of the papers on digits is ``Polynomial(degree=4)`` on rows of unit
    norm (Andrecut 2016, eq. 64).

    Parameters
    ----------
    degree : int, default=3
    gamma : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2, coef0=1.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[144.]])
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0

    name = "poly"

    def __post_init__(self) -> None:
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(
                f"degree={self.degree!r} must be a whole number, 1 or more: other "
                "powers of a negative number are not defined."
            )

    def of_inner_products(self, G: Array) -> Array:
        if self.gamma != 1:
            G *= self.gamma
        if self.coef0 != 0:
            G += self.coef0
        return _power(G, int(self.degree))

    def slope_of_inner_products(self, G: Array) -> Array:
        if self.degree == 1:
            return self.gamma * array_namespace(G).ones_like(G)
        lower = replace(self, degree=int(self.degree) - 1)
        return self.gamma * self.degree * lower.of_inner_products(G)

    def diag(self, X: Array) -> Array:
        return self.of_inner_products(astype(squared_norms(X), dtype_name(X)))


def _power(G: Array, degree: int) -> Array:
    """Raise to a whole power by squaring: many times faster than ``G**degree``.

    In the memory of ``G``; an odd power keeps a copy beside it.
    """
    if degree == 1:
        return G
    odd = array_namespace(G).asarray(G, copy=True) if degree % 2 else None
    G *= G
    G = _power(G, degree // 2)
    if odd is not None:
        G *= odd
    return G


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

    def slope_of_inner_products(self, G: Array) -> Array:
        K = self.of_inner_products(G)
        return self.gamma * (1 - K * K)

    def diag(self, X: Array) -> Array:
        return self.of_inner_products(astype(squared_norms(X), dtype_name(X)))


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

    def prepare(self, X: Array, shift: Array | None) -> Rows:
        return Rows(unit_rows(X), None)

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
