"""Rows in a learned metric, and kernels of such rows.

A metric (x − y)ᵀ M (x − y) is the distance of mapped rows, z = u T with M = T Tᵀ, where
u are the columns of x on a common scale. So a kernel in the metric is a plain kernel of
mapped rows, and nothing else needs to know of the metric.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from kaucus._array import namespace as nx
from kaucus._array.namespace import Array
from kaucus._array.rows import Rows as AnyRows
from kaucus._array.rows import copy_buffer_bytes
from kaucus.kernels._kernel import Kernel, RowPairs, Rows

# Back from z to x, a scaled column is kept within so much of its bound.
_INSIDE = 1 - 1e-6
# As good as infinite beside a bound.
_LARGEST = 1e6
# Directions of less than this share of the longest are not part of z.
_LEAST_ROOT = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class RowMap:
    """z = (b((x − center) scale) − offset) T, where b keeps values within bounds.

    With v = c + e, where c is v clipped to ±free: b(v) = c + e / √(1 + e²/bound²).

    Parameters
    ----------
    center, scale : ndarrays of shape (d,)
    bound : float
        No scaled value is larger than free + bound; infinity for no bound.
    offset : ndarray of shape (d,)
    weights : ndarray of shape (d,) or (d, r)
        T: a weight for each column, or a matrix.
    spread : ndarray of shape (d,), default=None
        Standard deviations of the scaled columns, for :meth:`importances`; None: 1.
    free : float, default=0.0
        Scaled values up to this stay as they are.
    limits : ndarray of shape (2, d), default=None
        Values of x below and above which :meth:`beyond` counts; None: no such values.

    Examples
    --------
    >>> import numpy as np
    >>> zeros, ones = np.zeros(2), np.ones(2)
    >>> double = RowMap(zeros, ones, np.inf, zeros, np.array([2.0, 0.0]))
    >>> double(np.array([[1.0, 3.0]]))
    array([[2., 0.]])
    """

    center: np.ndarray
    scale: np.ndarray
    bound: float
    offset: np.ndarray
    weights: np.ndarray
    spread: np.ndarray | None = None
    free: float = 0.0
    limits: np.ndarray | None = None

    @classmethod
    def identity(cls, n_features: int, spread: np.ndarray | None = None) -> "RowMap":
        """Return the map that changes nothing."""
        zeros, ones = np.zeros(n_features), np.ones(n_features)
        return cls(zeros, ones, np.inf, zeros, ones, spread)

    @property
    def n_features(self) -> int:
        """Number of columns of x."""
        return len(self.center)

    @property
    def n_components(self) -> int:
        """Number of columns of z."""
        return self.weights.shape[-1]

    def __call__(self, X: Array) -> Array:
        """Return the mapped rows, in the library, device and precision of ``X``."""
        if isinstance(X, AnyRows):
            return X.mapped(self, self.n_components)
        if nx.is_sparse(X):
            return self._sparse(X)
        weights = self._like(self.weights, X)
        values = self.scaled(X)
        return values * weights[None, :] if weights.ndim == 1 else values @ weights

    def scaled(self, X: Array) -> Array:
        """Return the columns on their common scale, before T."""
        values = (X - self._like(self.center, X)[None, :]) * self._like(self.scale, X)
        return self._bounded(values) - self._like(self.offset, X)[None, :]

    def _bounded(self, values: Array) -> Array:
        """Return b(v) of scaled values."""
        if not np.isfinite(self.bound):
            return values
        xp = nx.array_namespace(values)
        kept = xp.clip(values, -self.free, self.free)
        over = xp.clip(values - kept, -_LARGEST, _LARGEST)  # squares overflow
        return kept + over / xp.sqrt(1 + (over / self.bound) ** 2)

    def pulled_back(self, X: Array, G: Array) -> Array:
        """Return gradients by dense rows x, (n, d), of gradients by z, (n, r).

        b'(v) = (1 + e²/bound²)^(−3/2), which is 1 within ±free.
        """
        T, xp = self._like(self.weights, X), nx.array_namespace(X)
        G = G * T[None, :] if T.ndim == 1 else G @ T.T
        if np.isfinite(self.bound):
            v = (X - self._like(self.center, X)[None, :]) * self._like(self.scale, X)
            over = v - xp.clip(v, -self.free, self.free)
            over = xp.clip(over, -_LARGEST, _LARGEST)
            G = G * (1 + (over / self.bound) ** 2) ** -1.5
        return G * self._like(self.scale, X)[None, :]

    def beyond(self, X: Array) -> Array:
        """Return a mask of the values of dense rows beyond the limits, (n, d)."""
        assert self.limits is not None
        low, high = (self._like(limit, X)[None, :] for limit in self.limits)
        return (low > X) | (high < X)

    def metric(self) -> np.ndarray:
        """Return T Tᵀ in columns of spread 1: (d,) for weights, (d, d) for a matrix."""
        spread = np.ones(self.n_features) if self.spread is None else self.spread
        if self.weights.ndim == 1:
            return (self.weights * spread) ** 2
        scaled = self.weights * spread[:, None]
        return scaled @ scaled.T

    def importances(self) -> np.ndarray:
        """Return the diagonal of the metric with the sum 1, (d,)."""
        spread = np.ones(self.n_features) if self.spread is None else self.spread
        weights = self.weights if self.weights.ndim > 1 else self.weights[:, None]
        diagonal = np.sum((weights * spread[:, None]) ** 2, axis=1)
        total = diagonal.sum()
        return diagonal / total if total > 0 else diagonal

    def weighed(self, weights: np.ndarray) -> "RowMap":
        """Return the same scale with another T."""
        return replace(self, weights=weights)

    def back(self, Z: Array) -> Array:
        """Return rows that are mapped to ``Z``: of all that are, the most central.

        Exact where T can be inverted and ``Z`` are means of mapped rows.
        """
        xp = nx.array_namespace(Z)
        if self.weights.ndim == 1:
            used = self.weights != 0
            inverse = np.where(used, 1 / np.where(used, self.weights, 1.0), 0.0)
            values = Z * self._like(inverse, Z)[None, :]
        else:
            values = Z @ self._like(np.linalg.pinv(self.weights), Z)
        values = values + self._like(self.offset, Z)[None, :]
        if np.isfinite(self.bound):
            largest = _INSIDE * self.bound
            kept = xp.clip(values, -self.free, self.free)
            over = xp.clip(values - kept, -largest, largest)
            values = kept + over / xp.sqrt(1 - (over / self.bound) ** 2)
        used = self.scale != 0
        inverse = np.where(used, 1 / np.where(used, self.scale, 1.0), 0.0)
        values = values * self._like(inverse, Z)[None, :]
        return values + self._like(self.center, Z)[None, :]

    def _sparse(self, X):
        """Return sparse rows, or dense ones where zeros do not stay zero."""
        if self.weights.ndim > 1 or self.center.any() or self.offset.any():
            return self(X.toarray())
        mapped = scipy.sparse.csr_array(X, copy=True)
        values = self._bounded(mapped.data * self.scale[mapped.indices])
        mapped.data = (values * self.weights[mapped.indices]).astype(X.dtype)
        return mapped

    @staticmethod
    def _like(values: np.ndarray, X: Array) -> Array:
        return nx.as_like(values, X, dtype=nx.dtype_name(X))

    def _value(self) -> tuple:
        arrays = (self.center, self.scale, self.offset, self.weights)
        bounds = self.bound, self.free
        return *bounds, self.weights.shape, *(a.tobytes() for a in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowMap) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash(self._value())

    def __repr__(self) -> str:
        kind = "diagonal" if self.weights.ndim == 1 else "full"
        return f"RowMap(<{self.n_features} to {self.n_components} columns, {kind}>)"


def metric_root(M: np.ndarray, power: float) -> np.ndarray:
    """Return T of the metric Mᵖ = T Tᵀ, M scaled to the trace d.

    Parameters
    ----------
    M : ndarray of shape (d,) or (d, d)
        The diagonal of a metric, or all of it; positive semidefinite.
    power : float

    Returns
    -------
    ndarray of shape (d,), or (d, r)
        Of a matrix: V Λ^(p/2), with the r directions that are longer than 1e-4 of the
        longest.
    """
    trace = float(np.sum(M if M.ndim == 1 else np.diag(M)))
    if not trace > 0:
        return np.ones(len(M)) if M.ndim == 1 else np.eye(len(M))
    M = M * (len(M) / trace)
    if M.ndim == 1:
        return np.maximum(M, 0.0) ** (power / 2)
    eigenvalues, V = np.linalg.eigh((M + M.T) / 2)
    roots = np.maximum(eigenvalues, 0.0) ** (power / 2)
    kept = roots > _LEAST_ROOT * roots[-1]
    return V[:, kept] * roots[kept]


@dataclass(frozen=True, repr=False)
class MappedKernel(Kernel):
    """k(x, y) of mapped rows: a kernel in a learned metric.

    Parameters
    ----------
    kernel : Kernel
    row_map : RowMap

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> zeros, ones = np.zeros(2), np.ones(2)
    >>> first = RowMap(zeros, ones, np.inf, zeros, np.array([1.0, 0.0]))
    >>> kernel = MappedKernel(Gaussian(), first)
    >>> kernel(np.zeros((1, 2)), np.array([[0.0, 9.0], [1.0, 9.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    kernel: Any
    row_map: RowMap

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the plain kernel."""
        return self.kernel.name

    @property
    def gamma(self) -> float | None:
        """Width of the plain kernel."""
        return getattr(self.kernel, "gamma", None)

    def with_gamma(self, gamma: float) -> "MappedKernel":
        """Return the same kernel with another gamma."""
        return replace(self, kernel=replace(self.kernel, gamma=gamma))

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """Whether every Gram matrix has no negative eigenvalue."""
        return self.kernel.positive_semidefinite

    @property
    def of_length(self) -> bool:  # type: ignore[override]
        """Whether gamma is an inverse length."""
        return self.kernel.of_length

    def pairs(self, X: Array, Y: Array | None = None) -> RowPairs:
        if copy_buffer_bytes(X) or (Y is not None and copy_buffer_bytes(Y)):
            return super().pairs(X, Y)  # which asks for the pairs of each tile
        mapped = None if Y is None else self.row_map(Y)
        return self.kernel.pairs(self.row_map(X), mapped)

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.kernel.tile(X, Y)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(self.row_map(X))

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        mapped, points = self.row_map(X), self.row_map(Z)
        for G in self.kernel.gradients(mapped, points, coef):
            yield self.row_map.pulled_back(X, G)

    def __repr__(self) -> str:
        return f"MappedKernel({self.kernel!r}, {self.row_map!r})"
