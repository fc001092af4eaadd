"""The Cauchy kernel."""

from dataclasses import dataclass

from kaucus.backend import Array
from kaucus.kernels._base import DistanceKernel
from kaucus.kernels._names import known_by_name


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
