"""The exponential kernel."""

from dataclasses import dataclass

from kaucus.backend import Array, exp, sqrt
from kaucus.kernels._base import DistanceKernel
from kaucus.kernels._names import known_by_name


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
