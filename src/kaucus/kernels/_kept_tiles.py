"""Products with a kernel matrix by tiles, of which the first ones are kept."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

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


class _Product(NamedTuple):
    """What one panel of rows adds to K @ V (and, mirrored, to the rows below it)."""

    rows: slice
    values: Array
    mirrored: Array | None
    """Contribution to the rows from ``rows.start`` to the last, or None."""


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
        *,
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
        return self._add_up(self._map(lambda panel: self._panel_product(panel, V)), V)

    def split_matmul(self, V: Array) -> Array:
        """Return K @ V in float64, from float32 products, for two sets of rows.

        V is split into two float32 parts; no tile is widened.
        """
        parts = split_columns(V)
        return self._add_up(self._map(lambda panel: self._split(panel, parts)), V)

    def rmatmul(self, V: Array) -> Array:
        """Return K.T @ V in float64, from products in the precision of ``V``."""
        out = zeros_like_product(self._m, V)
        for parts in self._map(lambda panel: self._transposed(panel, V)):
            for columns, values in parts:
                out[columns, :] += values
        return out

    def _map(self, function):
        return map_blocks(function, self._panels, workers=self._workers)

    def _add_up(self, products: Iterable[_Product], V: Array) -> Array:
        out = zeros_like_product(self._n, V)
        for product in products:
            out[product.rows, :] += product.values
            if product.mirrored is not None:
                out[product.rows.start :, :] += product.mirrored
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

    def _panel_product(self, panel: list[Tile], V: Array) -> _Product:
        rows = panel[0][0]
        start, height = rows.start, rows.stop - rows.start
        values = zeros_like_product(height, V)
        mirrored = zeros_like_product(self._n - start, V) if self._symmetric else None
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

    def _split(self, panel: list[Tile], parts: Array) -> _Product:
        values = sum(
            times_split(T, parts[columns, :]) for (_, columns), T in self._tiles(panel)
        )
        return _Product(panel[0][0], values, None)

    def _transposed(self, panel: list[Tile], V: Array) -> list[tuple[slice, Array]]:
        parts = []
        for (rows, columns), tile in self._tiles(panel):
            T = astype(tile, dtype_name(V))
            parts.append((columns, astype(T.T @ V[rows, :], "float64")))
        return parts


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
