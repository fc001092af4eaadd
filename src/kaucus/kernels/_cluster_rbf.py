"""Gaussians whose shape depends on the cell a row lies in: the C_k RBF kernel.

Every row x stands for the normal density N(x, Σ_x / 2γ), where Σ_x is the covariance
of x's cell, and the kernel is the scalar product of two densities in L² (Czarnecki &
Tabor, Theorem 3.1):

    K̂(x, y) = (π/γ)^(−d/2) det(Σ_x + Σ_y)^(−1/2) exp(−γ ‖x − y‖²_{Σ_x + Σ_y}),

with ‖v‖²_Σ = vᵀ Σ⁻¹ v. So it is positive semidefinite whatever the partition.

Within a tile the rows are grouped by cell: for each pair of cells (i, j) both groups,
whitened by the Cholesky factor of Σᵢ + Σⱼ, have one matrix product.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    device_of,
    dtype_name,
    exp,
    take_rows,
    to_numpy,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._distances import (
    Rows,
    dense,
    mean_row,
    shifted_rows,
    squared_distances,
    squared_norms,
)
from kaucus.kernels._mahalanobis import (
    FactoredOnce,
    check_gamma,
    check_width,
    checked_covariances,
    factor,
    store,
    whiten,
)
from kaucus.kernels._partition import cell_numbers, check_partition


class CellRows(NamedTuple):
    """Rows ready for :class:`ClusterRBF`; slicing gives a block of them."""

    values: Array
    """The rows as they were given, (n, d)."""
    cells: np.ndarray
    """The cell of each row, (n,)."""
    by_partner: tuple[Rows, ...]
    """For each cell j: every row x whitened by the factor of Σ_x + Σⱼ."""

    def block(self, rows: slice) -> "CellRows":
        """Return the rows of a slice."""
        parts = tuple(part.block(rows) for part in self.by_partner)
        return CellRows(self.values[rows, :], self.cells[rows], parts)

    def taken(self, rows: Array) -> "CellRows":
        """Return the rows of the given numbers."""
        parts = tuple(part.taken(rows) for part in self.by_partner)
        values = take_rows(self.values, rows)
        return CellRows(values, self.cells[to_numpy(rows)], parts)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRBF(FactoredOnce, Kernel):
    """The RBF kernel with a covariance for every cell of a partition, C_k RBF.

    With Σ_x the covariance of the cell of x,

        k(x, y) = n(x, y) exp(−gamma (x − y)ᵀ (Σ_x + Σ_y)⁻¹ (x − y)).

    Where all Σ are the identity this is ``Gaussian(gamma / 2)``, where all are Σ it is
    ``MahalanobisRBF(Σ, gamma / 2)``, up to a constant factor that is 1 with
    ``normalization="unit"``.

    Parameters
    ----------
    partition : callable or object with ``predict``
        Returns for rows the numbers of their cells, 0 to k − 1. The kernel does not
        cluster: fit a clusterer, or use :class:`~kaucus.kernels.NearestCenter`.
    covariances : array of shape (k, d, d), (k, d) or (k,)
        Σ of each cell: matrices, the variances of diagonal ones, or σ² of σ² I. A
        singular one is mixed with a little of their mean, and a warning tells.
    gamma : float, default=1.0
    normalization : {"unit", "determinant", "density"}, default="unit"
        The factor n(x, y). ``"density"``: that of Theorem 3.1, K̂. ``"determinant"``:
        det(Σ_x + Σ_y)^(−1/2), without the powers of π and gamma (Algorithm 1);
        its size depends on the units of the data, and C must follow. ``"unit"``: K̂
        divided by the norms of both densities, so that k(x, x) = 1.

    See Also
    --------
    MahalanobisRBF : One covariance for all rows.

    Notes
    -----
    Preparing n rows costs k n d² multiplications and k copies of them; after that a
    block costs what it costs the Gaussian kernel. The k² factors, d × d, are computed
    once.

    References
    ----------
    W. M. Czarnecki, J. Tabor, "Cluster based RBF kernel for support vector machines"
    (2014), Theorem 3.1 and Algorithm 1, whose last line lacks the differences.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> kernel = ClusterRBF(lambda X: (X[:, 0] > 0).astype(int), [1.0, 4.0], gamma=1.0)
    >>> kernel(X).round(3)
    array([[1.   , 0.359, 0.294],
           [0.359, 1.   , 0.882],
           [0.294, 0.882, 1.   ]])
    """

    partition: Any
    covariances: Any
    gamma: float = 1.0
    normalization: str = "unit"

    name = "cluster_rbf"
    NORMALIZATIONS: ClassVar = ("unit", "determinant", "density")

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_partition(self.partition)
        if self.normalization not in self.NORMALIZATIONS:
            raise ValueError(
                f"normalization={self.normalization!r} must be one of "
                f"{self.NORMALIZATIONS}."
            )
        given = np.asarray(to_numpy(self.covariances), dtype=np.float64)
        Sigma = checked_covariances(given, "covariances")
        store(self, "covariances", Sigma)
        factors = [[factor(A + B) for B in Sigma] for A in Sigma]
        store(self, "_roots", [[f.root for f in row] for row in factors])
        halves = np.array([[f.half_log_det for f in row] for row in factors])
        store(self, "_half_log_dets", halves)

    @property
    def n_cells(self) -> int:
        """Number of cells, k."""
        return len(self.covariances)

    @property
    def n_features(self) -> int | None:
        """Number of features of the rows; None where any will do (radial)."""
        return None if self.covariances.ndim == 1 else self.covariances.shape[-1]

    def log_normalizers(self, n_features: int) -> np.ndarray:
        """Return log n for each pair of cells, (k, k).

        Parameters
        ----------
        n_features : int
            d, which a radial covariance does not know: its determinant is (σ²)^d,
            a power that Observation 3.3 lacks in print.
        """
        power = n_features if self.n_features is None else 1
        logs = -power * self._half_log_dets  # type: ignore[attr-defined]
        if self.normalization == "unit":
            own = np.diagonal(logs)
            return logs - (own[:, None] + own[None, :]) / 2
        if self.normalization == "density":
            return logs + n_features / 2 * math.log(self.gamma / math.pi)
        return logs

    def distance_scales(self) -> np.ndarray:
        """Return the factor of the squared distances of each pair of cells, (k, k)."""
        if self.n_features is not None:
            return np.ones((self.n_cells, self.n_cells))
        return 1 / (self.covariances[:, None] + self.covariances[None, :])

    def shift_of(self, X: Array, Y: Array) -> Array:
        check_width(X, self.n_features)
        return mean_row(dense(Y))

    def prepare(self, X: Array, shift: Array | None) -> CellRows:
        cells = cell_numbers(self.partition, X, self.n_cells)
        X = dense(X)
        if self.n_features is None:  # distances are scaled in place of rows
            return CellRows(X, cells, (shifted_rows(X, shift),) * self.n_cells)
        members = [_numbers(cells == i, X) for i in range(self.n_cells)]
        order = np.argsort(np.concatenate([to_numpy(m) for m in members]))
        parts = []
        for j in range(self.n_cells):
            white = [
                whiten(self._roots[i][j], take_rows(X, rows), shift)  # type: ignore[attr-defined]
                for i, rows in enumerate(members)
            ]
            xp = array_namespace(X)
            values = take_rows(xp.concat(white), as_like(order, X))
            parts.append(Rows(values, squared_norms(values)))
        return CellRows(X, cells, tuple(parts))

    def tile(self, X: CellRows, Y: CellRows) -> Array:
        n = self.factors_in(X.values, X.values.shape[1])
        scales = -self.gamma * self.distance_scales()

        def of_distances(D: Array, i: int, j: int) -> Array:
            D *= float(scales[i, j])
            K = exp(D)
            K *= float(n[i, j])
            return K

        return by_pairs_of_cells(X, Y, self.n_cells, of_distances)

    def diag(self, X: Array) -> Array:
        check_width(X, self.n_features)
        cells = cell_numbers(self.partition, X, self.n_cells)
        own = np.diagonal(self.factors_in(X, X.shape[1]))[cells]
        like = dense(X[:1, :])
        return as_like(own.copy(), like, dtype=dtype_name(like))

    def factors_in(self, like: Array, n_features: int) -> np.ndarray:
        """Return n for each pair of cells, (k, k), if the precision can hold it."""
        logs = self.log_normalizers(n_features)
        largest = math.log(float(np.finfo(dtype_name(like)).max))
        if logs.max() >= largest:
            raise ValueError(
                f"normalization={self.normalization!r} makes kernel values of "
                f"10^{logs.max() / math.log(10):.0f}, beyond {dtype_name(like)}; use "
                "normalization='unit', or scale the data."
            )
        return np.exp(logs)

    def __hash__(self) -> int:
        return hash(self._value()[1:])  # a partition may have no hash

    def _value(self) -> tuple:
        Sigma = self.covariances
        numbers = (self.gamma, self.normalization, Sigma.shape, Sigma.tobytes())
        return self.partition, *numbers

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.covariances.shape))
        return (
            f"ClusterRBF(partition={self.partition!r}, covariances=<{shape}>, "
            f"gamma={self.gamma!r}, normalization={self.normalization!r})"
        )


def by_pairs_of_cells(X: CellRows, Y: CellRows, n_cells: int, function) -> Array:
    """Return a tile from ``function(D, i, j)`` of the distances of each pair of cells.

    Rows and columns are grouped by cell, and brought back into their order at the end.
    """
    xp = array_namespace(X.values)
    x_groups, y_groups = _groups(X, n_cells), _groups(Y, n_cells)
    panels = []
    for i, x_rows in x_groups:
        blocks = [
            function(
                squared_distances(
                    _take(X.by_partner[j], x_rows), _take(Y.by_partner[i], y_rows)
                ),
                i,
                j,
            )
            for j, y_rows in y_groups
        ]
        panels.append(xp.concat(blocks, axis=1) if len(blocks) > 1 else blocks[0])
    T = xp.concat(panels, axis=0) if len(panels) > 1 else panels[0]
    return _ungrouped(_ungrouped(T, X.cells, 0), Y.cells, 1)


def _groups(rows: CellRows, n_cells: int) -> list[tuple[int, Array | None]]:
    """Return the cells that have rows, with the numbers of those (None: all)."""
    counts = np.bincount(rows.cells, minlength=n_cells)
    if counts.max() == len(rows.cells):
        return [(int(counts.argmax()), None)]
    cells = np.flatnonzero(counts).tolist()
    return [(i, _numbers(rows.cells == i, rows.values)) for i in cells]


def _take(rows: Rows, numbers: Array | None) -> Rows:
    return rows if numbers is None else rows.taken(numbers)


def _numbers(mask: np.ndarray, like: Array) -> Array:
    """Return the row numbers of a mask, on the device of ``like``."""
    xp = array_namespace(like)
    return xp.asarray(np.flatnonzero(mask), device=device_of(like))


def _ungrouped(T: Array, cells: np.ndarray, axis: int) -> Array:
    """Return rows that were grouped by cell in their original order."""
    order = np.argsort(cells, kind="stable")  # the place of each grouped row
    if np.array_equal(order, np.arange(len(order))):
        return T
    places = np.argsort(order)
    xp = array_namespace(T)
    return xp.take(T, xp.asarray(places, device=device_of(T)), axis=axis)
