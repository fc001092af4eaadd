"""Products with a kernel matrix by tiles, of which the first ones are kept."""

from collections.abc import Callable, Iterator

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    device_of,
    dtype_name,
    map_blocks,
    split_columns,
    symmetric_tiles,
    tiles,
    times_split,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._tiles import RowPairs, Tile

Parts = list[tuple[slice, Array]]
"""What a panel of tiles adds to some rows of a product."""


class KeptTiles:
    """K V and Kᵀ V over the tiles of a kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    pairs : RowPairs
        The rows and columns of the tiles.
    tile : tuple of int
        Rows and columns of a tile.
    symmetric : bool
        Whether K is symmetric: the upper half of it is computed and kept.
    n_entries : int
        Entries for which there is memory between products; 0 keeps nothing.
    workers : int
        Threads.
    """

    def __init__(
        self,
        kernel: Kernel,
        pairs: RowPairs,
        tile: tuple[int, int],
        symmetric: bool,
        n_entries: int,
        workers: int,
    ) -> None:
        self._kernel, self._pairs, self._workers = kernel, pairs, workers
        self._n, self._m = pairs.shape
        self._symmetric = symmetric
        blocks = (
            symmetric_tiles(self._n, tile) if symmetric else tiles(pairs.shape, tile)
        )
        self._panels = _by_rows(blocks)
        self._kept: dict[tuple[int, int], Array | None] = dict.fromkeys(
            _first_that_fit(blocks, n_entries)
        )

    @property
    def share(self) -> float:
        """Share of the tiles that are kept between products."""
        n_tiles = sum(len(panel) for panel in self._panels)
        return len(self._kept) / max(n_tiles, 1)

    def matmul(self, V: Array) -> Array:
        """Return K @ V in float64, from products in the precision of ``V``."""
        product = self._mirrored_product if self._symmetric else self._product
        return self._sum(lambda panel: product(panel, V), self._n, V)

    def split_matmul(self, V: Array) -> Array:
        """Return K @ V in float64, from float32 products, for two sets of rows.

        V is split into two float32 parts; no tile is widened.
        """
        parts = split_columns(V)
        return self._sum(lambda panel: self._split_product(panel, parts), self._n, V)

    def rmatmul(self, V: Array) -> Array:
        """Return K.T @ V in float64, from products in the precision of ``V``."""
        return self._sum(lambda panel: self._transposed(panel, V), self._m, V)

    def _sum(self, function: Callable[[list[Tile]], Parts], n: int, V: Array) -> Array:
        """Add up the parts of all panels, computed in threads, in their order."""
        out = zeros_like_product(n, V)
        for parts in map_blocks(function, self._panels, workers=self._workers):
            for rows, values in parts:
                out[rows, :] += values
        return out

    def _tiles(self, panel: list[Tile]) -> Iterator[tuple[Tile, Array]]:
        """Yield the tiles of a panel: kept ones, and others as they are computed."""
        missing = [block for block in panel if self._kept.get(_key(block)) is None]
        pairs = self._pairs.iterate(missing)
        for block in panel:
            key = _key(block)
            if (T := self._kept.get(key)) is None:
                T = self._kernel.tile(*next(pairs))
                if key in self._kept:
                    self._kept[key] = T
            yield block, T

    def _product(self, panel: list[Tile], V: Array) -> Parts:
        rows = panel[0][0]
        values = zeros_like_product(rows.stop - rows.start, V)
        for (_, columns), T in self._tiles(panel):
            values += astype(astype(T, dtype_name(V)) @ V[columns, :], "float64")
        return [(rows, values)]

    def _mirrored_product(self, panel: list[Tile], V: Array) -> Parts:
        """Return the product of a panel, and that of its mirror image below it."""
        rows = panel[0][0]
        start, height = rows.start, rows.stop - rows.start
        values = zeros_like_product(height, V)
        below = zeros_like_product(self._n - start, V)
        for (_, columns), tile in self._tiles(panel):
            T = astype(tile, dtype_name(V))
            values += astype(T @ V[columns, :], "float64")
            # The square on the diagonal has been counted in full already.
            skip = height if columns.start == start else 0
            part = slice(columns.start + skip - start, columns.stop - start)
            below[part, :] += astype(T[:, skip:].T @ V[rows, :], "float64")
        return [(rows, values), (slice(start, self._n), below)]

    def _split_product(self, panel: list[Tile], parts: Array) -> Parts:
        values = sum(
            times_split(T, parts[columns, :]) for (_, columns), T in self._tiles(panel)
        )
        return [(panel[0][0], values)]

    def _transposed(self, panel: list[Tile], V: Array) -> Parts:
        return [
            (columns, astype(astype(T, dtype_name(V)).T @ V[rows, :], "float64"))
            for (rows, columns), T in self._tiles(panel)
        ]


def zeros_like_product(n_rows: int, V: Array) -> Array:
    """Return float64 zeros for a product with ``V``, (n_rows, t)."""
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


def _first_that_fit(blocks: list[Tile], n_entries: int) -> list[tuple[int, int]]:
    keys = []
    for block in blocks:
        rows, columns = block
        n_entries -= (rows.stop - rows.start) * (columns.stop - columns.start)
        if n_entries < 0:
            break
        keys.append(_key(block))
    return keys
