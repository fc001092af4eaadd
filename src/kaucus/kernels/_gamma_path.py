"""One stored matrix of distances, and from it the kernel matrix for every gamma.

Of k(x, y) = n exp(−γ D) only the exponent depends on γ. The paper converts one kernel
matrix into another by a logarithm (Czarnecki & Tabor, Sec. 4); where the first has
underflowed to zero nothing can be converted, so here the distances themselves are kept.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    device_of,
)
from kaucus.kernels._base import DistanceKernel, Kernel
from kaucus.kernels._cluster_rbf import CellRows, ClusterRBF, by_pairs_of_cells
from kaucus.kernels._distances import squared_distances
from kaucus.kernels._tiles import PreparedPairs, bytes_for_tiles


@dataclass(frozen=True)
class GammaPath:
    """The distances behind a kernel matrix, made by :func:`gamma_path`.

    Attributes
    ----------
    kernel : DistanceKernel or ClusterRBF
        The kernel, whose own gamma plays no part.
    distances : array of shape (n, m)
        Squared distances in the metric of the kernel; never changed.
    row_cells, column_cells : ndarray of shape (n,) and (m,), or None
        The cells of rows and columns, for a :class:`ClusterRBF`.
    n_features : int
        Number of features of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> path = gamma_path(Gaussian(), np.array([[0.0], [1.0]]))
    >>> [path.matrix(gamma)[0, 1].round(2).item() for gamma in (0.1, 1.0)]
    [0.9, 0.37]
    """

    kernel: Any
    distances: Array
    row_cells: np.ndarray | None
    column_cells: np.ndarray | None
    n_features: int

    def matrix(self, gamma: float) -> Array:
        """Return the kernel matrix for one gamma, (n, m): one exponential an entry."""
        D = array_namespace(self.distances).asarray(self.distances, copy=True)
        kernel = with_gamma(self.kernel, gamma)
        if isinstance(kernel, ClusterRBF):
            return self._of_cells(kernel, D)
        return kernel.of_squared_distances(D)

    def _of_cells(self, kernel: ClusterRBF, D: Array) -> Array:
        xp = array_namespace(D)
        D *= -kernel.gamma
        K = xp.exp(D)
        n = kernel.factors_in(D, self.n_features)
        rows, columns = n[self.row_cells, :], np.eye(kernel.n_cells)[self.column_cells]
        K *= xp.asarray(rows @ columns.T, dtype=D.dtype, device=device_of(D))
        return K


def gamma_path(kernel: Kernel, X: Array, Y: Array | None = None) -> GammaPath:
    """Compute the distances behind k(X, Y) once, for any number of gammas.

    Parameters
    ----------
    kernel : DistanceKernel or ClusterRBF
        ``Gaussian``, ``Exponential``, ``Cauchy``, ``MahalanobisRBF`` or ``ClusterRBF``.
    X : array or CSR matrix of shape (n, d)
    Y : array or CSR matrix of shape (m, d), default=None
        None means ``X``: half of the work, and an exactly symmetric matrix.

    Returns
    -------
    GammaPath
        Its ``matrix(gamma)`` is what the kernel with that gamma would give.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(5, 2))
    >>> path = gamma_path(Gaussian(), X)
    >>> bool(np.allclose(path.matrix(3.0), Gaussian(gamma=3.0)(X)))
    True
    """
    if not isinstance(kernel, DistanceKernel | ClusterRBF):
        raise ValueError(
            f"kernel={kernel!r} is not a function of a distance and gamma; pass a "
            "Gaussian, Exponential, Cauchy, MahalanobisRBF or ClusterRBF."
        )
    pairs = kernel.pairs(X, Y)
    assert isinstance(pairs, PreparedPairs)  # of rows that are there
    like = pairs.rows.values
    xp = array_namespace(like)
    D = xp.empty(pairs.shape, dtype=like.dtype, device=device_of(like))
    tile = pairs.tile_shape(bytes_for_tiles(pairs.shape, D))
    compute = functools.partial(_distances, kernel)
    pairs.fill(D, tile, compute, symmetric=Y is None)
    cells = [getattr(rows, "cells", None) for rows in (pairs.rows, pairs.columns)]
    return GammaPath(kernel, D, *cells, n_features=X.shape[1])


def _distances(kernel: Kernel, X, Y) -> Array:
    if not isinstance(kernel, ClusterRBF):
        return squared_distances(X, Y)
    scales = kernel.distance_scales()

    def scaled(D: Array, i: int, j: int) -> Array:
        D *= float(scales[i, j])
        return D

    assert isinstance(X, CellRows)
    return by_pairs_of_cells(X, Y, kernel.n_cells, scaled)


def matrices_of(
    kernels: Sequence[Kernel], X: Array, Y: Array | None = None
) -> Callable[[Kernel], Array]:
    """Return a function that computes k(X, Y) for each of several kernels.

    Those that are functions of ‖x − y‖² alone, as ``Gaussian``, ``Exponential`` and
    ``Cauchy``, share one matrix of distances.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array or CSR matrix of shape (m, d), default=None
        None means ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Exponential, Gaussian
    >>> kernels = [Gaussian(gamma=0.5), Exponential(gamma=0.5)]
    >>> matrix = matrices_of(kernels, np.array([[0.0], [2.0]]))
    >>> for kernel in kernels:
    ...     print(matrix(kernel)[0].round(4))
    [1.     0.1353]
    [1.     0.3679]
    """
    plain = [kernel for kernel in kernels if _is_of_plain_distances(kernel)]
    shared = gamma_path(plain[0], X, Y).distances if plain else None

    def matrix(kernel: Kernel) -> Array:
        if shared is None or not _is_of_plain_distances(kernel):
            return kernel(X, Y)
        D = array_namespace(shared).asarray(shared, copy=True)
        return cast(DistanceKernel, kernel).of_squared_distances(D)

    return matrix


def _is_of_plain_distances(kernel: Kernel) -> bool:
    """Tell whether a kernel is a function of the plain ‖x − y‖²."""
    return (
        type(kernel).prepare is DistanceKernel.prepare
        and type(kernel).tile is DistanceKernel.tile
    )


def with_gamma(kernel: Any, gamma: float) -> Any:
    """Return the kernel with another gamma.

    Parameters
    ----------
    kernel : kernel object
        One that has a ``gamma``.
    gamma : float
    """
    if hasattr(kernel, "with_gamma"):
        return kernel.with_gamma(gamma)
    return type(kernel)(gamma=gamma)
