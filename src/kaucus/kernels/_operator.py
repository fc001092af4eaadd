"""K @ V without K: the kernel matrix as an operator over tiles.

The matrix is cut into tiles. As many tiles as the budget allows are kept after their
first use, the others are computed anew for every product; so the same object is a
stored matrix where there is room, a streamed one where there is none, and anything
in between. A symmetric matrix keeps and computes only its upper half.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    device_of,
    dtype_name,
    is_numpy,
    itemsize,
    map_blocks,
    resolve_budget,
    split_columns,
    symmetric_tiles,
    tiles,
    times_split,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._tiles import Tile, kernel_diagonal, row_pairs


class _Product(NamedTuple):
    """What one panel of rows adds to K @ V (and, mirrored, to the rows below it)."""

    rows: slice
    values: Array
    mirrored: Array | None
    """Contribution to the rows from ``rows.start`` to the last, or None."""


class KernelOperator:
    """The matrix K = k(X, Y) by its products, under a memory budget.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    Y : array, CSR matrix or HostRows of shape (m, d), default=None
        None means ``X``: K is symmetric, and half of it is computed.
    memory_budget : int, str or None, default=None
        Bytes that this object may hold beside ``X`` and ``Y``, shifted copies of them
        included, and beside what ``HostRows`` take on their way; None: three quarters
        of what is free.
    store : bool, default=True
        Whether tiles are kept for the next product as far as the budget goes. Choose
        False for a single product.

    Notes
    -----
    Tiles are multiplied in the precision of ``V`` or of ``X``, whichever is wider; sums
    over tiles are in float64. One exception: K V for float32 rows of two sets and a
    float64 ``V``, both in NumPy, which is what predictions are, splits V into two
    float32 parts in place of widening every tile. A symmetric K, which iterations
    multiply many times, has the same rounding each time.
    A product costs n m (d + t) multiplications for t columns, n m t where all
    tiles are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> operator = KernelOperator(Gaussian(gamma=0.5), X, memory_budget="1MiB")
    >>> V = np.ones((100, 2))
    >>> bool(np.allclose(operator.matmul(V), Gaussian(gamma=0.5)(X) @ V))
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        Y: Array | None = None,
        *,
        memory_budget: int | str | None = None,
        store: bool = True,
    ) -> None:
        self.kernel = kernel
        self.symmetric = Y is None
        self._like = X
        budget = resolve_budget(memory_budget, X)
        self._pairs = row_pairs(kernel, X, Y)
        budget = max(budget - self._pairs.held_bytes, 1)
        self.shape = self._pairs.shape
        # An eighth for the tiles at work, another for the products in flight, the rest
        # for tiles that are kept.
        tile = self._pairs.tile_shape(max(budget // 8, 1))
        blocks = (
            symmetric_tiles(self.shape[0], tile)
            if self.symmetric
            else tiles(self.shape, tile)
        )
        self._panels = _by_rows(blocks)
        room = budget - budget // 4 if store else 0
        self._kept: dict[tuple[int, int], Array | None] = dict.fromkeys(
            _first_that_fit(blocks, room // itemsize(X))
        )

    @property
    def dtype(self) -> str:
        """The precision of the kernel's entries."""
        return dtype_name(self._like)

    @property
    def stored_share(self) -> float:
        """Share of the tiles that are kept between products."""
        n_tiles = sum(len(panel) for panel in self._panels)
        return len(self._kept) / max(n_tiles, 1)

    def diagonal(self) -> Array:
        """Return the diagonal of a symmetric K, (n,)."""
        return kernel_diagonal(self.kernel, self._like)

    def matmul(self, V: Array) -> Array:
        """Return K @ V, (n, t), in the precision of ``V``, (m, t)."""
        if self._splits(V):
            parts = split_columns(V)
            products = self._map(lambda panel: self._split_product(panel, parts))
        else:
            work = astype(V, self._working_dtype(V))
            products = self._map(lambda panel: self._panel_product(panel, work))
        out = self._zeros(self.shape[0], V)
        for product in products:
            out[product.rows, :] += product.values
            if product.mirrored is not None:
                out[product.rows.start :, :] += product.mirrored
        return astype(out, dtype_name(V))

    def rmatmul(self, V: Array) -> Array:
        """Return K.T @ V, (m, t), in the precision of ``V``, (n, t)."""
        if self.symmetric:
            return self.matmul(V)
        work = astype(V, self._working_dtype(V))
        out = self._zeros(self.shape[1], V)
        for parts in self._map(lambda panel: self._transposed_parts(panel, work)):
            for columns, values in parts:
                out[columns, :] += values
        return astype(out, dtype_name(V))

    def _map(self, function):
        return map_blocks(
            function, self._panels, workers=self.kernel.n_workers(self._like)
        )

    def _tiles(self, panel: list[Tile]) -> Iterator[tuple[Tile, Array]]:
        """Yield the tiles of a panel: kept ones, and others as they are computed."""
        missing = [block for block in panel if self._kept.get(_key(block)) is None]
        pairs = self._pairs.iterate(missing)
        for block in panel:
            key = _key(block)
            if (T := self._kept.get(key)) is None:
                T = self.kernel.tile(*next(pairs))
                if key in self._kept:
                    self._kept[key] = T
            yield block, T

    def _panel_product(self, panel: list[Tile], V: Array) -> _Product:
        rows = panel[0][0]
        start, height = rows.start, rows.stop - rows.start
        values = self._zeros(height, V)
        mirrored = self._zeros(self.shape[0] - start, V) if self.symmetric else None
        for (_, columns), tile in self._tiles(panel):
            T = astype(tile, dtype_name(V))
            values += astype(T @ V[columns, :], "float64")
            if mirrored is None:
                continue
            # The square on the diagonal has been counted in full already.
            skip = height if columns.start == start else 0
            below = slice(columns.start + skip - start, columns.stop - start)
            mirrored[below, :] += astype(T[:, skip:].T @ V[rows, :], "float64")
        return _Product(rows, values, mirrored)

    def _splits(self, V: Array) -> bool:
        """Tell whether K V is made of float32 products though ``V`` is float64."""
        dtypes = (self.dtype, dtype_name(V))
        return not self.symmetric and is_numpy(V) and dtypes == ("float32", "float64")

    def _split_product(self, panel: list[Tile], parts: Array) -> _Product:
        values = sum(
            times_split(T, parts[columns, :]) for (_, columns), T in self._tiles(panel)
        )
        return _Product(panel[0][0], values, None)

    def _transposed_parts(self, panel: list[Tile], V: Array):
        parts = []
        for (rows, columns), tile in self._tiles(panel):
            T = astype(tile, dtype_name(V))
            parts.append((columns, astype(T.T @ V[rows, :], "float64")))
        return parts

    def _working_dtype(self, V: Array) -> str:
        return "float64" if "float64" in (self.dtype, dtype_name(V)) else "float32"

    def _zeros(self, n_rows: int, V: Array) -> Array:
        xp = array_namespace(V)
        shape = (n_rows, V.shape[1])
        return xp.zeros(shape, dtype=xp.float64, device=device_of(V))


def _key(block: Tile) -> tuple[int, int]:
    return block[0].start, block[1].start


def _by_rows(blocks: list[Tile]) -> list[list[Tile]]:
    panels: dict[int, list[Tile]] = {}
    for block in blocks:
        panels.setdefault(block[0].start, []).append(block)
    return list(panels.values())


def _first_that_fit(blocks: list[Tile], n_elements: int) -> list[tuple[int, int]]:
    keys = []
    for block in blocks:
        rows, columns = block
        n_elements -= (rows.stop - rows.start) * (columns.stop - columns.start)
        if n_elements < 0:
            break
        keys.append(_key(block))
    return keys
