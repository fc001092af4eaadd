"""Kernels of a distance: Gaussian, exponential, Cauchy, Laplacian."""

from collections.abc import Iterator
from dataclasses import dataclass

from kaucus.backend import Array, array_namespace, exp, sqrt
from kaucus.kernels._base import DistanceKernel, UnitDiagonalKernel
from kaucus.kernels._distances import Rows, manhattan_distances
from kaucus.kernels._resolve import known_by_name


@known_by_name
@dataclass(frozen=True)
class Gaussian(DistanceKernel):
    """k(x, y) = exp(−gamma ‖x − y‖²).

    With a width σ, gamma is 1 / (2σ²).

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """

    gamma: float = 1.0

    name = "rbf"

    def of_squared_distances(self, D: Array) -> Array:
        D *= -self.gamma
        return exp(D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        D = self.of_squared_distances(D)
        D *= -self.gamma
        return D


@known_by_name
@dataclass(frozen=True)
class Exponential(DistanceKernel):
    """k(x, y) = exp(−gamma ‖x − y‖).

    Rougher than the Gaussian at short range, longer in reach. Maia and Ara write
    gamma as 1 / (2σ²).

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Exponential(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    gamma: float = 1.0

    name = "exponential"
    of_length = True

    def of_squared_distances(self, D: Array) -> Array:
        D = sqrt(D)
        D *= -self.gamma
        return exp(D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        # −γ k(d) / 2d; a row that is itself a point has no gradient from it.
        xp = array_namespace(D)
        d = sqrt(D)
        slope = exp(-self.gamma * d)
        slope *= -0.5 * self.gamma
        return xp.where(d > 0, slope / xp.where(d > 0, d, xp.ones_like(d)), 0 * d)


@known_by_name
@dataclass(frozen=True)
class Cauchy(DistanceKernel):
    """k(x, y) = 1 / (1 + gamma ‖x − y‖²).

    Heavy tails: far points still count. Maia and Ara write gamma as 1 / σ.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Cauchy(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3333]])
    """

    gamma: float = 1.0

    name = "cauchy"

    def of_squared_distances(self, D: Array) -> Array:
        D *= self.gamma
        D += 1
        return 1 / D

    def slope_of_squared_distances(self, D: Array) -> Array:
        K = self.of_squared_distances(D)
        K *= K
        K *= -self.gamma
        return K


@known_by_name
@dataclass(frozen=True)
class Laplacian(UnitDiagonalKernel):
    """k(x, y) = exp(−gamma ‖x − y‖₁), with the Manhattan distance.

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

    def tile(self, X: Rows, Y: Rows) -> Array:
        # Differences of coordinates lose nothing: no shift is needed.
        D = manhattan_distances(X.values, Y.values)
        D *= -self.gamma
        return exp(D)

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        xp = array_namespace(X)
        slope = -self.gamma * self(X, Z)
        by_column = []
        for c in range(X.shape[1]):
            signs = xp.sign(X[:, c][:, None] - Z[:, c][None, :])
            by_column.append((slope * signs) @ coef)
        for j in range(coef.shape[1]):
            yield xp.stack([column[:, j] for column in by_column], axis=1)
