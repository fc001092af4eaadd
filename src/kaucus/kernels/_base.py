"""What a kernel is: k(X, Y), its diagonal, and one block of it at a time.

A kernel object is immutable, knows its parameters and nothing else: no data, no
fitting. A subclass gives ``prepare`` (once per set of rows, where they must be made
ready), ``tile`` (one block of the matrix, from prepared rows) and ``diag``; the rest is
here.

Rows in memory are made ready once, and tiles are computed in threads. Rows of the host
(:class:`~kaucus.backend.HostRows`) are copied to the device for each tile, the next
while the last are worked on, and made ready there: that costs (h + w) d for a tile of
h × w, beside h w d for the tile itself, and nothing of the size of all rows is on the
device.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    for_each_block,
    is_sparse,
    is_torch,
    itemsize,
    mirror_upper,
    n_workers,
    on_gpu,
    product_into,
    resolve_budget,
    row_blocks,
    rows_in_order,
    sqrt,
    stream_blocks,
    symmetric_tiles,
    tile_shape,
    tiles,
)
from kaucus.kernels._distances import (
    Rows,
    inner_products,
    mean_row,
    shifted_rows,
    squared_distances,
)


class Kernel(ABC):
    """A similarity k(x, y) of two rows."""

    name: ClassVar[str]
    """What estimators call it, for example ``"rbf"``."""

    positive_semidefinite: ClassVar[bool] = True
    """Whether every Gram matrix has no negative eigenvalue."""

    thread_safe: ClassVar[bool] = True
    """Whether blocks may be computed in several threads."""

    of_length: ClassVar[bool] = False
    """Whether gamma is an inverse length, as in exp(−γ‖x − y‖), not its square."""

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """Return the kernel matrix of the rows of ``X`` and ``Y``.

        Parameters
        ----------
        X : array, CSR matrix or HostRows of shape (n, d)
        Y : array, CSR matrix or HostRows of shape (m, d), default=None
            None means ``X``: half of the work, and an exactly symmetric matrix.

        Returns
        -------
        array of shape (n, m)
            In the library, device and precision of ``X``.
        """
        symmetric = Y is None
        pairs = row_pairs(self, X, Y)
        shape = pairs.shape
        xp = array_namespace(X)
        out = xp.empty(shape, dtype=_result_dtype(X), device=device_of(X))
        tile = pairs.tile_shape(bytes_for_tiles(out))
        pairs.fill(out, tile, self.tile_into, symmetric=symmetric)
        return out

    @staticmethod
    def distances(X: Array) -> Array:
        """Return the distances, (n, n), from whose median ``gamma`` is taken."""
        rows = shifted_rows(X, None if is_sparse(X) else mean_row(X))
        return sqrt(astype(squared_distances(rows, rows), "float64"))

    def n_workers(self, X: Array) -> int:
        """Return how many threads compute blocks of this kernel on such arrays."""
        return n_workers(X) if self.thread_safe else 1

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Any, Any]:
        """Make both sets of rows ready for :meth:`tile`, once."""
        shift = self.shift_of(X, X if Y is None else Y)
        x_rows = self.prepare(X, shift)
        return x_rows, x_rows if Y is None else self.prepare(Y, shift)

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        """Return what is taken off all rows, (d,), or None."""
        return None

    def prepare(self, X: Array, shift: Array | None) -> Any:
        """Make rows ready for :meth:`tile`; they are as they were, unless told."""
        return Rows(X, None)

    @abstractmethod
    def tile(self, X: Rows, Y: Rows) -> Array:
        """Return one block of the kernel matrix, in memory of its own."""

    def tile_into(self, out: Array, X: Rows, Y: Rows) -> None:
        """Write one block of the kernel matrix where it belongs."""
        out[:, :] = self.tile(X, Y)

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """Return k(x, x) for each row, (n,), without the matrix."""


def _result_dtype(X: Array):
    return getattr(array_namespace(X), dtype_name(X))


class InnerProductKernel(Kernel):
    """A kernel that is a function of ⟨x, y⟩."""

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_inner_products(inner_products(X.values, Y.values))

    def tile_into(self, out: Array, X: Rows, Y: Rows) -> None:
        if not is_torch(out):  # a tile of its own stays in the processor's cache
            super().tile_into(out, X, Y)
            return
        # A GPU is bound by the bytes that it moves: one copy less.
        K = self.of_inner_products(product_into(out, X.values, Y.values))
        if K is not out:
            out[:, :] = K

    @abstractmethod
    def of_inner_products(self, G: Array) -> Array:
        """Turn inner products into the kernel; may overwrite ``G``."""


class UnitDiagonalKernel(Kernel):
    """A kernel with k(x, x) = 1."""

    def diag(self, X: Array) -> Array:
        xp = array_namespace(X)
        return xp.ones(X.shape[0], dtype=_result_dtype(X), device=device_of(X))


class DistanceKernel(UnitDiagonalKernel):
    """A kernel that is a function of ‖x − y‖², and 1 where that is 0."""

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        # A shift would fill a sparse matrix.
        return None if is_sparse(X) or is_sparse(Y) else mean_row(Y)

    def prepare(self, X: Array, shift: Array | None) -> Rows:
        return shifted_rows(X, shift)

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_squared_distances(squared_distances(X, Y))

    @abstractmethod
    def of_squared_distances(self, D: Array) -> Array:
        """Turn squared distances into the kernel; may overwrite ``D``."""


# ---- the rows and columns of tiles ---------------------------------------------------


Tile = tuple[slice, slice]
"""Rows and columns of a tile."""

Write = Callable[[Array, Any, Any], None]
"""``write(tile, x_rows, y_rows)``, with both sets of rows ready for ``kernel.tile``."""

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
        self._rows, self._columns = rows, columns
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
        return ((self._rows.block(i), self._columns.block(j)) for i, j in tiles)

    def fill(self, out: Array, tile, write: Write, *, symmetric: bool = False) -> None:
        """Write the tiles of a matrix, in threads.

        Of a symmetric matrix one half is written so, and copied to the other.
        """

        def fill(block: Tile) -> None:
            rows, columns = block
            write(out[block], self._rows.block(rows), self._columns.block(columns))
            if symmetric:
                _mirror(out, block)

        workers = self._kernel.n_workers(self._like)
        for_each_block(fill, tiles_of(self.shape, tile, symmetric), workers=workers)

    def part(self, rows=None, columns=None) -> "PreparedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        new_rows = self._rows if rows is None else _taken(self._rows, rows)
        new_columns = (
            self._columns if columns is None else _taken(self._columns, columns)
        )
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
            yield self._kernel.prepare_pair(x, y)

    def fill(self, out: Array, tile, write: Write, *, symmetric: bool = False) -> None:
        """Write the tiles of a matrix, one by one; see :class:`PreparedPairs`."""
        blocks = tiles_of(self.shape, tile, symmetric)
        for block, pair in zip(blocks, self.iterate(blocks), strict=True):
            write(out[block], *pair)
            if symmetric:
                _mirror(out, block)

    def part(self, rows=None, columns=None) -> "StreamedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        X = self._X if rows is None else rows_in_order(self._X, rows)
        Y = self._Y if columns is None else rows_in_order(self._Y, columns)
        return StreamedPairs(self._kernel, X, Y)


RowPairs = PreparedPairs | StreamedPairs


def _taken(rows: Any, numbers: np.ndarray) -> Any:
    values = rows.values
    return rows.taken(numbers if is_sparse(values) else as_like(numbers, values))


def copied_bytes(rows: Any) -> int:
    """Return the bytes of a shifted copy of rows, 0 where they were not copied."""
    values = rows.values
    if getattr(rows, "given", None) is None:
        return 0
    return itemsize(values) * values.shape[0] * values.shape[1]


def bytes_for_tiles(out: Array) -> int:
    """Return the bytes for tiles at work: on the host, no more than the matrix has."""
    free = resolve_budget(None, out)
    if on_gpu(out):
        return free
    return min(free, max(itemsize(out) * out.shape[0] * out.shape[1], _LEAST_FOR_TILES))


def row_pairs(kernel: "Kernel", X: Array, Y: Array | None = None) -> RowPairs:
    """Return the rows and columns of the tiles of a kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    Y : array, CSR matrix or HostRows of shape (m, d), default=None
        None means ``X``.

    Returns
    -------
    PreparedPairs or StreamedPairs
        The second where rows stay on the host.
    """
    if isinstance(X, HostRows) or isinstance(Y, HostRows):
        return StreamedPairs(kernel, X, X if Y is None else Y)
    return PreparedPairs(kernel, X, *kernel.prepare_pair(X, Y))


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
