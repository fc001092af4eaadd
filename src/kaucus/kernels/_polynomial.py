"""The polynomial kernel."""

from dataclasses import dataclass

from kaucus.backend import Array, array_namespace, astype, dtype_name
from kaucus.kernels._base import InnerProductKernel
from kaucus.kernels._distances import squared_norms
from kaucus.kernels._names import known_by_name


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
