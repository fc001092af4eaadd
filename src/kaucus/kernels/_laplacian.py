"""The Laplacian kernel."""

from dataclasses import dataclass

from kaucus.backend import Array, exp
from kaucus.kernels._base import UnitDiagonalKernel
from kaucus.kernels._distances import Rows, manhattan_distances
from kaucus.kernels._names import known_by_name


@known_by_name
@dataclass(frozen=True)
class Laplacian(UnitDiagonalKernel):
    """k(x, y) = exp(−gamma Σ |x − y|), with the Manhattan distance.

    Cannot be written as a matrix product, so it costs several times a Gaussian.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> Laplacian(gamma=0.5)(X, Y).round(4)
    array([[1.    , 0.3679]])
    """

    gamma: float = 1.0

    name = "laplacian"
    of_length = True

    @staticmethod
    def distances(X: Array) -> Array:
        return manhattan_distances(X, X)

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Rows, Rows]:
        # Differences of coordinates lose nothing: no shift is needed.
        x_rows = Rows(X, None)
        return x_rows, x_rows if Y is None else Rows(Y, None)

    def tile(self, X: Rows, Y: Rows) -> Array:
        D = manhattan_distances(X.values, Y.values)
        D *= -self.gamma
        return exp(D)
