"""The rows and columns of a kernel's tiles: in memory, or streamed from the host.

Rows in memory are made ready once, and tiles are computed in threads. Rows of the host
(:class:`~kaucus.backend.HostRows`) are copied to the device for each tile, the next
while the last are worked on, and made ready there: that costs (h + w) d for a tile of
h × w, beside h w d for the tile itself, and nothing of the size of all rows is on the
device.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    array_namespace,
    as_like,
    is_sparse,
    is_torch,
    itemsize,
    map_blocks,
    mirror_upper,
    on_gpu,
    resolve_budget,
    row_blocks,
    rows_in_order,
    stream_blocks,
    symmetric_tiles,
    tile_shape,
    tiles,
)

if TYPE_CHECKING:
    from kaucus.kernels._base import Kernel

Tile = tuple[slice, slice]
"""Rows and columns of a tile."""

Compute = Callable[[Any, Any], Array]
"""``compute(x_rows, y_rows)`` returns a tile, of rows ready for ``kernel.tile``."""

# What a tile takes for each of its rows and columns, in rows: two being copied, two
# cast, shifted, and with norms added for the product.
_COPIES = 6
# A kernel makes about this many temporaries as large as its tile.
_TEMPORARIES = 4
# Tiles of a small matrix may take as much.
_LEAST_FOR_TILES = 8 * 2**20
# Entries of the largest tile: a square of 8,192. The higher it is, the fewer times all
# columns are copied.
_TILE_ENTRIES = 2**26


class PreparedPairs:
    """Rows and columns of k(X, Y), made ready once.

    ``owned`` are those of them whose copies this object holds; None: both.
    """

    def __init__(
        self, kernel: "Kernel", like: Array, rows: Any, columns: Any, owned=None
    ) -> None:
        self._kernel, self._like = kernel, like
        self.rows, self.columns = rows, columns
        both = (rows,) if columns is rows else (rows, columns)
        self._owned = both if owned is None else owned
        self.shape = (int(rows.values.shape[0]), int(columns.values.shape[0]))

    def tile_shape(self, budget: int) -> tuple[int, int]:
        """Return rows and columns of a tile for which there is memory."""
        return tile_shape(self._like, self.shape[1], budget)

    @property
    def held_bytes(self) -> int:
        """Bytes of copies of the rows, which are held for the tiles."""
        return sum(copied_bytes(rows) for rows in self._owned)

    def iterate(self, tiles: Iterable[Tile]) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and the columns of each tile."""
        return ((self.rows.block(i), self.columns.block(j)) for i, j in tiles)

    def fill(
        self,
        out: Array,
        tile: tuple[int, int],
        compute: Compute | None = None,
        *,
        symmetric: bool = False,
    ) -> None:
        """Write the tiles of a matrix, in threads: those of the kernel, or as told.

        Of a symmetric matrix one half is written so, and copied to the other.
        """
        in_place = compute is None and _writes_in_place(self._kernel, out)
        compute = self._kernel.tile if compute is None else compute

        def fill(block: Tile) -> None:
            rows, columns = self.rows.block(block[0]), self.columns.block(block[1])
            if in_place:
                self._kernel.tile_into(out[block], rows, columns)
            else:
                out[block] = compute(rows, columns)
            if symmetric:
                _mirror(out, block)

        blocks = tiles_of(self.shape, tile, symmetric)
        workers = self._kernel.n_workers(self._like)
        for _ in map_blocks(fill, blocks, workers=workers):
            pass

    def part(self, rows=None, columns=None) -> "PreparedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        new_rows = self.rows if rows is None else _taken(self.rows, rows)
        new_columns = self.columns if columns is None else _taken(self.columns, columns)
        owned = [new_rows] if rows is not None else []
        owned += [new_columns] if columns is not None else []
        pair = (new_rows, new_columns)
        return PreparedPairs(self._kernel, self._like, *pair, owned=owned)


class StreamedPairs:
    """Rows and columns of k(X, Y), copied to the device for each tile."""

    held_bytes = 0

    def __init__(self, kernel: "Kernel", X: Array, Y: Array) -> None:
        self._kernel, self._X, self._Y = kernel, X, Y
        self.shape = (int(X.shape[0]), int(Y.shape[0]))
        self._room = min(x.buffer_bytes for x in (X, Y) if isinstance(x, HostRows))

    def tile_shape(self, budget: int) -> tuple[int, int]:
        """Return rows and columns of a tile for which there is memory.

        As square as possible, with half of the memory for streamed rows for its rows,
        and half for its columns.
        """
        entries = min(budget, self._room) // (_TEMPORARIES * itemsize(self._X))
        entries = max(min(entries, _TILE_ENTRIES), 1)
        most = max(self._room // (2 * _bytes_per_row(self._X)), 1)
        width = max(min(math.isqrt(entries), most, self.shape[1]), 1)
        return max(min(entries // width, most), 1), width

    def iterate(self, tiles: Iterable[Tile]) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and the columns of each tile.

        They are to be used up before the next ones are asked for.
        """
        tiles = list(tiles)
        some_rows = stream_blocks(self._X, [rows for rows, _ in tiles])
        some_columns = stream_blocks(self._Y, [columns for _, columns in tiles])
        for x, y in zip(some_rows, some_columns, strict=True):
            pairs = self._kernel.pairs(x, y)
            assert isinstance(pairs, PreparedPairs)  # of blocks that are there
            yield pairs.rows, pairs.columns

    def fill(
        self, out: Array, tile: tuple[int, int], *, symmetric: bool = False
    ) -> None:
        """Write the tiles of a matrix, one by one; see :class:`PreparedPairs`."""
        blocks = tiles_of(self.shape, tile, symmetric)
        in_place = _writes_in_place(self._kernel, out)
        for block, pair in zip(blocks, self.iterate(blocks), strict=True):
            if in_place:
                self._kernel.tile_into(out[block], *pair)
            else:
                out[block] = self._kernel.tile(*pair)
            if symmetric:
                _mirror(out, block)

    def part(self, rows=None, columns=None) -> "StreamedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        X = self._X if rows is None else rows_in_order(self._X, rows)
        Y = self._Y if columns is None else rows_in_order(self._Y, columns)
        return StreamedPairs(self._kernel, X, Y)


RowPairs = PreparedPairs | StreamedPairs


def _writes_in_place(kernel: "Kernel", out: Array) -> bool:
    """Tell whether tiles are written where they belong, without a copy.

    Of tensors only: a tile of its own stays in the processor's cache, but a GPU is
    bound by the bytes that it moves.
    """
    return is_torch(out) and kernel.tile_into is not None


def _taken(rows: Any, numbers: np.ndarray) -> Any:
    values = rows.values
    return rows.taken(numbers if is_sparse(values) else as_like(numbers, values))


def copied_bytes(rows: Any) -> int:
    """Return the bytes of a shifted copy of rows, 0 where they were not copied."""
    values = rows.values
    if getattr(rows, "given", None) is None:
        return 0
    return itemsize(values) * values.shape[0] * values.shape[1]


def bytes_for_tiles(shape: tuple[int, int], like: Array) -> int:
    """Return the bytes for tiles at work: on the host, no more than the matrix has."""
    if on_gpu(like):
        return resolve_budget(None, like)
    return max(itemsize(like) * shape[0] * shape[1], _LEAST_FOR_TILES)


def fits_into(shape: tuple[int, int], tile: tuple[int, int]) -> bool:
    """Tell whether one tile, as :func:`tiles_of` cuts them, is the whole matrix."""
    return shape[0] <= tile[0] and shape[1] <= tile[1]


def tiles_of(shape: tuple[int, int], tile, symmetric: bool) -> list[Tile]:
    """Return the tiles of a matrix; of a symmetric one, those that are computed."""
    return symmetric_tiles(shape[0], tile) if symmetric else tiles(shape, tile)


def _mirror(out: Array, block: Tile) -> None:
    """Write the mirror image of a tile of :func:`symmetric_tiles`."""
    rows, columns = block
    if columns.start == rows.start:
        mirror_upper(out[rows, rows])
        columns = slice(rows.stop, columns.stop)
    out[columns, rows] = out[rows, columns].T


def kernel_diagonal(kernel: "Kernel", X: Array) -> Array:
    """Return k(x, x) of each row.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)

    Returns
    -------
    array of shape (n,)
        In the precision of ``X``.
    """
    if not isinstance(X, HostRows):
        return kernel.diag(X)
    blocks = list(row_blocks(X.shape[0], _bytes_per_row(X), X.buffer_bytes))
    parts = [kernel.diag(block) for block in stream_blocks(X, blocks)]
    return array_namespace(X).concat(parts)


def _bytes_per_row(X: Array) -> int:
    return _COPIES * itemsize(X) * X.shape[1]
