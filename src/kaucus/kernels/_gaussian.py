"""The Gaussian kernel, also called RBF."""

from dataclasses import dataclass

from kaucus.backend import Array, exp
from kaucus.kernels._base import DistanceKernel
from kaucus.kernels._names import known_by_name


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
