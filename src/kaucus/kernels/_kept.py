"""What is kept of a kernel matrix between products: rows in one array, or tiles."""

import threading
from collections.abc import Callable, Iterator

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    for_each_block,
    map_blocks,
    n_workers,
    on_gpu,
    row_blocks,
    split_columns,
    take_rows,
    times_split,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._tiles import RowPairs, Tile, tiles_of

# A block of a stored matrix is in cache when it is multiplied; a GPU wants more.
_BLOCK_BYTES_CPU = 8 * 2**20
_BLOCK_BYTES_GPU = 256 * 2**20
# Entries of a block of gathered rows: fewer are not worth a thread.
_GATHERED = 2**21

WriteRows = Callable[[Array, np.ndarray], object]
"""``write(out, positions)``: write the rows at these positions into ``out``."""


class KeptRows:
    """Some rows of a matrix of n rows, in the order in which they were added.

    Parameters
    ----------
    values : array of shape (capacity, m)
        Memory for the rows, which is written to; or the matrix itself.
    n_rows : int
        Rows of the matrix.
    whole : bool, default=False
        Whether ``values`` is the matrix itself.

    Notes
    -----
    Several threads may use one object: rows are found once they are written.
    """

    def __init__(self, values: Array, n_rows: int, *, whole: bool = False) -> None:
        self.values = values
        self._n_filled = n_rows if whole else 0
        self._slots = np.arange(n_rows) if whole else np.full(n_rows, -1)
        self._numbers = np.arange(values.shape[0])  # row of values -> row of the matrix
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """Share of the matrix's rows for which there is memory."""
        return self.values.shape[0] / max(len(self._slots), 1)

    def find(self, rows: np.ndarray) -> np.ndarray:
        """Return where in ``values`` each row is; -1 for rows that are not kept."""
        with self._lock:
            return self._slots[rows]

    def snapshot(self) -> tuple[np.ndarray, Array]:
        """Return the numbers of the rows that are kept, (k,), and the rows, (k, m)."""
        with self._lock:
            k = self._n_filled
            return self._numbers[:k].copy(), self.values[:k, :]

    def add(self, rows: np.ndarray, write: WriteRows) -> None:
        """Keep those of the rows that are not kept yet, while memory is left.

        Parameters
        ----------
        rows : integer array of shape (k,)
        write : callable
            Is given the memory and the positions in ``rows`` that it is for.
        """
        with self._lock:
            left = self.values.shape[0] - self._n_filled
            if left == 0:
                return
            first = np.sort(np.unique(rows, return_index=True)[1])
            fresh = first[self._slots[rows[first]] < 0][:left]
            if len(fresh):
                slots = slice(self._n_filled, self._n_filled + len(fresh))
                write(self.values[slots, :], fresh)
                self._slots[rows[fresh]] = np.arange(slots.start, slots.stop)
                self._numbers[slots] = rows[fresh]
                self._n_filled = slots.stop


def stored_product(K: Array, V: Array, dtype: str) -> Array:
    """Return K @ V, (n, t), in float64, multiplied in the given precision.

    K, (n, m), is cast block by block.
    """
    V, size = astype(V, dtype), np.dtype(dtype).itemsize
    out = _empty(K, V)

    def multiply(rows: slice) -> None:
        out[rows, :] = astype(astype(K[rows, :], dtype) @ V, "float64")

    block_bytes = _BLOCK_BYTES_GPU if on_gpu(K) else _BLOCK_BYTES_CPU
    blocks = row_blocks(K.shape[0], size * K.shape[1], block_bytes)
    _in_threads(multiply, list(blocks), K)
    return out


def gathered_product(K: Array, columns: Array, V: Array, dtype: str) -> Array:
    """Return K[:, columns] @ V, (n, t), in float64, for a symmetric K.

    Multiplied in the given precision.
    """
    V, index = astype(V, dtype), as_like(columns, K)
    out = _empty(K, V)

    def multiply(part: slice) -> None:
        # K is symmetric, and gathering rows reads memory in order.
        gathered = astype(take_rows(K[:, part], index), dtype)
        out[part, :] = astype(gathered.T @ V, "float64")

    blocks = row_blocks(K.shape[0], index.shape[0], _GATHERED)
    _in_threads(multiply, list(blocks), K)
    return out


def _empty(K: Array, V: Array) -> Array:
    xp = array_namespace(K)
    shape = (K.shape[0], V.shape[1])
    return xp.empty(shape, dtype=xp.float64, device=device_of(K))


def _in_threads(multiply, blocks: list[slice], K: Array) -> None:
    # To start threads for one block would take longer than the block.
    workers = n_workers(K) if len(blocks) > 1 else 1
    for_each_block(multiply, blocks, workers=workers)


# ---- tiles ---------------------------------------------------------------------------


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
        blocks = tiles_of(pairs.shape, tile, symmetric)
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


def transposed_part(K: Array, rows: np.ndarray, V: Array) -> Array:
    """Return K.T @ V[rows], in float64, multiplied in the precision of ``V``."""
    product = astype(K, dtype_name(V)).T @ take_rows(V, rows)
    return astype(product, "float64")


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
