"""The kernel matrix of rows: products, rows and diagonal within a memory budget."""

import functools
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    for_each_block,
    format_bytes,
    map_blocks,
    n_workers,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import copy_buffer_bytes
from kaucus.kernels._kernel import (
    Kernel,
    Precomputed,
    RowPairs,
    Tile,
    dense,
    fill_tiles,
    kernel_diagonal,
    squared_norms,
    tiles_of,
)

# ----------------------------------------------------------------------------------
# What is kept of a kernel matrix between products: rows in one array, or tiles.
# ----------------------------------------------------------------------------------

# A block of a stored matrix is in cache when it is multiplied; a GPU wants more.
_BLOCK_BYTES_CPU = 8 * 2**20
_BLOCK_BYTES_GPU = 256 * 2**20
# Bytes of the kernel's slopes at a block of rows, and arrays as large as these.
_GRADIENT_BYTES, _GRADIENT_ARRAYS = 64 * 2**20, 6
# Entries of a block of gathered rows: fewer are not worth a thread.
_GATHERED = 2**21

WriteRows = Callable[[Array, np.ndarray], object]
"""``write(out, positions)``: write the rows at these positions into ``out``."""


class KeptRows:
    """Cache of some rows of a matrix of n rows.

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
        """Return the place of each row in ``values``; -1 for rows not cached."""
        with self._lock:
            return self._slots[rows]

    def snapshot(self) -> tuple[np.ndarray, Array]:
        """Return the numbers of the cached rows, (k,), and the rows, (k, m)."""
        with self._lock:
            k = self._n_filled
            return self._numbers[:k].copy(), self.values[:k, :]

    def add(self, rows: np.ndarray, write: WriteRows) -> None:
        """Add rows that are not cached yet, while memory is left.

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
    V, size = nx.astype(V, dtype), np.dtype(dtype).itemsize
    out = _empty(K, V)

    def multiply(rows: slice) -> None:
        out[rows, :] = nx.astype(nx.astype(K[rows, :], dtype) @ V, "float64")

    block_bytes = _BLOCK_BYTES_GPU if nx.on_gpu(K) else _BLOCK_BYTES_CPU
    blocks = row_blocks(K.shape[0], size * K.shape[1], block_bytes)
    _in_threads(multiply, list(blocks), K)
    return out


def gathered_product(K: Array, columns: Array, V: Array, dtype: str) -> Array:
    """Return K[:, columns] @ V, (n, t), in float64, for a symmetric K.

    Multiplied in the given precision.
    """
    V, index = nx.astype(V, dtype), nx.as_like(columns, K)
    out = _empty(K, V)

    def multiply(part: slice) -> None:
        # K is symmetric, and gathering rows reads memory in order.
        gathered = nx.astype(nx.take_rows(K[:, part], index), dtype)
        out[part, :] = nx.astype(gathered.T @ V, "float64")

    blocks = row_blocks(K.shape[0], index.shape[0], _GATHERED)
    _in_threads(multiply, list(blocks), K)
    return out


def _empty(K: Array, V: Array) -> Array:
    xp = nx.array_namespace(K)
    shape = (K.shape[0], V.shape[1])
    return xp.empty(shape, dtype=xp.float64, device=nx.device_of(K))


def _in_threads(multiply, blocks: list[slice], K: Array) -> None:
    # To start threads for one block would take longer than the block.
    workers = n_workers(K) if len(blocks) > 1 else 1
    for_each_block(multiply, blocks, workers=workers)


# ---- tiles ---------------------------------------------------------------------------


Parts = list[tuple[slice, Array]]
"""Contribution of a panel of tiles to some rows of a product."""


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
        """Share of the tiles that are cached between products."""
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
        parts = nx.split_columns(V)
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
        """Yield the tiles of a panel, cached or computed."""
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
            values += nx.astype(
                nx.astype(T, nx.dtype_name(V)) @ V[columns, :], "float64"
            )
        return [(rows, values)]

    def _mirrored_product(self, panel: list[Tile], V: Array) -> Parts:
        """Return the products of a panel and of its mirror image."""
        rows = panel[0][0]
        start, height = rows.start, rows.stop - rows.start
        values = zeros_like_product(height, V)
        below = zeros_like_product(self._n - start, V)
        for (_, columns), tile in self._tiles(panel):
            T = nx.astype(tile, nx.dtype_name(V))
            values += nx.astype(T @ V[columns, :], "float64")
            # The square on the diagonal has been counted in full already.
            skip = height if columns.start == start else 0
            part = slice(columns.start + skip - start, columns.stop - start)
            below[part, :] += nx.astype(T[:, skip:].T @ V[rows, :], "float64")
        return [(rows, values), (slice(start, self._n), below)]

    def _split_product(self, panel: list[Tile], parts: Array) -> Parts:
        values = sum(
            nx.times_split(T, parts[columns, :])
            for (_, columns), T in self._tiles(panel)
        )
        return [(panel[0][0], values)]

    def _transposed(self, panel: list[Tile], V: Array) -> Parts:
        return [
            (
                columns,
                nx.astype(nx.astype(T, nx.dtype_name(V)).T @ V[rows, :], "float64"),
            )
            for (rows, columns), T in self._tiles(panel)
        ]


def zeros_like_product(n_rows: int, V: Array) -> Array:
    """Return float64 zeros for a product with ``V``, (n_rows, t)."""
    xp = nx.array_namespace(V)
    shape = (n_rows, V.shape[1])
    return xp.zeros(shape, dtype=xp.float64, device=nx.device_of(V))


def transposed_part(K: Array, rows: np.ndarray, V: Array) -> Array:
    """Return K.T @ V[rows], in float64, multiplied in the precision of ``V``."""
    product = nx.astype(K, nx.dtype_name(V)).T @ nx.take_rows(V, rows)
    return nx.astype(product, "float64")


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


# ----------------------------------------------------------------------------------
# The kernel matrix: products, rows and columns of it, whether it fits or not.
#
# Who uses the matrix says what is kept after its first use, as far as the budget goes;
# everything else is computed again when it is needed.
#
#     tiles   for products; of a symmetric matrix only the upper half is kept
#     rows    for rows that are drawn again and again
#     gram    the whole matrix where it fits, for everything; else tiles
# ----------------------------------------------------------------------------------

Result = TypeVar("Result")

_KEEP = ("tiles", "rows", "gram", None)
# Bytes of kept rows that are copied at a time.
_CHUNK_BYTES = 64 * 2**20
# What work on tiles of drawn rows takes in one thread where there is memory enough, and
# what it may take where there is none: too little to count.
_WORK_OF_THREAD, _LEAST_WORK = 2**26, 2**20


class KernelOperator:
    """The matrix K = k(X, Y) by its products, rows and columns, in a memory budget.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    Y : array, CSR matrix or HostRows of shape (m, d), default=None
        None means ``X``: K is symmetric, and half of it is computed.
    memory_budget : int, str or None, default=None
        Bytes that this object may hold: shifted copies of the rows are counted, ``X``,
        ``Y`` and blocks of ``HostRows`` that are being copied are not. None: three
        quarters of what is free.
    keep : {"tiles", "rows", "gram", None}, default="tiles"
        What is kept as far as the budget goes: tiles of K for the next product; rows,
        in the order in which they are first drawn; the whole matrix if it fits, and
        tiles if not; nothing, for a single product.
    widen : bool, default=True
        Whether float32 entries are widened for a float64 ``V``. False rounds ``V`` to
        the precision of the entries: twice as fast, for iterations.

    Notes
    -----
    Tiles are multiplied in the precision of ``V`` or of ``X``, whichever is wider; sums
    over tiles are in float64. One exception: K V for float32 rows of two sets and a
    float64 ``V``, both in NumPy, which is what predictions are, splits V into two
    float32 parts in place of widening every tile. A symmetric K, which iterations
    multiply many times, has the same rounding each time.
    A product costs n m (d + t) multiplications for t columns, n m t where all
    tiles are kept.

    Several threads may draw rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> operator = KernelOperator(Gaussian(gamma=0.5), X, memory_budget="1MiB")
    >>> V = np.ones((100, 2))
    >>> bool(np.allclose(operator.matmul(V), Gaussian(gamma=0.5)(X) @ V))
    True
    >>> operator.rows(np.array([7, 2])).shape
    (2, 100)
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        Y: Array | None = None,
        *,
        memory_budget: int | str | None = None,
        keep: str | None = "tiles",
        widen: bool = True,
    ) -> None:
        if keep not in _KEEP:
            raise ValueError(f"keep={keep!r} must be one of {_KEEP}.")
        self.kernel, self.X, self.symmetric = kernel, X, Y is None
        self._Y = X if Y is None else Y
        self.shape = (int(X.shape[0]), int(self._Y.shape[0]))
        self._budget = resolve_budget(memory_budget, X)
        self._keep, self._widen = keep, widen
        if keep == "gram" and not self._fits:
            self._keep = "tiles"
        self._kept_rows = self._make_kept_rows()
        self._kept_tiles = self._make_kept_tiles()

    @property
    def dtype(self) -> str:
        """The precision of the kernel's entries."""
        return nx.dtype_name(self.X)

    @property
    def rounding(self) -> float:
        """Relative rounding error of a product with a float64 ``V``."""
        return float(np.finfo("float64" if self._widen else self.dtype).eps)

    @property
    def stored_share(self) -> float:
        """Share of the matrix that is cached once computed."""
        return (self._kept_tiles or self._kept_rows).share

    # ---- entries ---------------------------------------------------------------------

    def diagonal(self) -> Array:
        """Return the diagonal of a symmetric K, (n,)."""
        return kernel_diagonal(self.kernel, self.X)

    def gram(self) -> Array:
        """Return the whole matrix, (n, m); not to be changed.

        Raises
        ------
        MemoryError
            If it does not fit into the budget.
        """
        if self._given is not None:
            return self._given
        if self._keep == "gram":
            return self._kept_rows.values
        if not self._fits:
            raise MemoryError(
                f"The kernel matrix of {self.shape[0]} x {self.shape[1]} rows takes "
                f"{format_bytes(self._n_bytes)}, memory_budget allows "
                f"{format_bytes(self._budget)}; use its products and rows, or a larger "
                "memory_budget."
            )
        return self._compute_all()

    def rows(self, rows: Array) -> Array:
        """Return K[rows, :], (k, m), for row numbers of shape (k,)."""
        rows = nx.to_numpy(rows)
        out = self.empty((len(rows), self.shape[1]))
        order = self.fill_rows(out, rows)
        if np.array_equal(order, np.arange(len(rows))):
            return out
        return nx.take_rows(out, nx.as_like(np.argsort(order), out))

    def columns(self, columns: Array) -> Array:
        """Return K[:, columns], (n, k), for column numbers of shape (k,)."""
        if self.symmetric and self._keep == "gram":
            K = self._kept_rows.values
            return nx.take_rows(K, columns).T
        if self.symmetric and self._keep == "rows":
            return self.rows(columns).T
        Y = self._Y
        index = columns if nx.is_sparse(Y) else nx.as_like(columns, Y)
        return self.kernel(self.X, nx.take_rows(Y, index))

    def fill_rows(self, out: Array, rows: np.ndarray) -> np.ndarray:
        """Write K[rows, :] into ``out``, (k, m), in the order that copies least.

        Parameters
        ----------
        out : array of shape (k, m)
        rows : integer ndarray of shape (k,)

        Returns
        -------
        ndarray of shape (k,)
            The order: ``out[j, :]`` is the row with the number ``rows[order[j]]``.
        """
        kept = self._kept_rows
        slots = kept.find(rows)
        known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        for s in row_blocks(len(known), nx.itemsize(out) * out.shape[1], _CHUNK_BYTES):
            out[s, :] = nx.take_rows(kept.values, nx.as_like(slots[known[s]], out))
        if len(new):
            block = out[len(known) :, :]
            self._compute(block, rows[new])
            kept.add(rows[new], functools.partial(_copy_rows, block))
        return np.concatenate([known, new])

    def empty(self, shape: tuple[int, int]) -> Array:
        """Return memory in the library, device and precision of the entries."""
        xp = nx.array_namespace(self.X)
        return xp.empty(
            shape, dtype=getattr(xp, self.dtype), device=nx.device_of(self.X)
        )

    # ---- products --------------------------------------------------------------------

    def matmul(self, V: Array) -> Array:
        """Return K @ V, (n, t), in the precision of ``V``, (m, t)."""
        dtype = self._working_dtype(V)
        if self._kept_tiles is None:
            product = self._matmul_by_rows(V, dtype)
        elif nx.is_numpy(V) and dtype != self.dtype and not self.symmetric:
            product = self._kept_tiles.split_matmul(V)
        else:
            product = self._kept_tiles.matmul(nx.astype(V, dtype))
        return nx.astype(product, nx.dtype_name(V))

    def rmatmul(self, V: Array) -> Array:
        """Return K.T @ V, (m, t), in the precision of ``V``, (n, t)."""
        if self.symmetric:
            return self.matmul(V)
        work = nx.astype(V, self._working_dtype(V))
        if self._kept_tiles is not None:
            product = self._kept_tiles.rmatmul(work)
        else:
            product = zeros_like_product(self.shape[1], V)
            for part in self.map_panels(lambda rows, K: transposed_part(K, rows, work)):
                product += part
        return nx.astype(product, nx.dtype_name(V))

    def columns_matmul(self, columns: Array, V: Array) -> Array:
        """Return K[:, columns] @ V, (n, t), in the precision of ``V``, (k, t)."""
        if self._keep != "gram" or not self.symmetric:
            return self.part(columns=columns).matmul(V)
        K, dtype = self._kept_rows.values, self._working_dtype(V)
        return nx.astype(gathered_product(K, columns, V, dtype), nx.dtype_name(V))

    def part(
        self, rows: Array | None = None, columns: Array | None = None
    ) -> "KernelOperator":
        """Return the operator of some rows and columns of K, which keeps nothing.

        Parameters
        ----------
        rows, columns : integer array, default=None
            Their numbers; None means all.
        """
        rows, columns = (None if i is None else nx.to_numpy(i) for i in (rows, columns))
        pairs = self._pairs.part(rows, columns)
        X = self.X if rows is None else nx.rows_in_order(self.X, rows)
        Y = self._Y if columns is None else nx.rows_in_order(self._Y, columns)
        part = KernelOperator.__new__(KernelOperator)
        part.kernel, part.X, part.symmetric, part._Y = self.kernel, X, False, Y
        part.shape, part._budget = pairs.shape, max(self._budget // 4, 1)
        part._keep, part._widen, part._pairs = None, self._widen, pairs
        part._kept_rows = part._make_kept_rows()
        part._kept_tiles = part._make_kept_tiles()
        return part

    def map_panels(
        self, function: Callable[[np.ndarray, Array], Result]
    ) -> Iterator[Result]:
        """Yield ``function(rows, K[rows, :])`` for panels of a few rows, in threads.

        The panels cover all rows, those that are kept first. Results come in the order
        of the panels; a panel is not to be changed.
        """
        numbers, values = self._kept_rows.snapshot()
        missing = self._others(numbers)
        height = max(self._tile[0] * self._tile[1] // self.shape[1], 1)
        here = row_blocks(len(numbers), 1, height)
        panels = [(numbers[s], values[s, :]) for s in here]
        panels += [(missing[s], None) for s in row_blocks(len(missing), 1, height)]

        def apply(panel: tuple[np.ndarray, Array | None]) -> Result:
            rows, K = panel
            if K is None:
                K = self.empty((len(rows), self.shape[1]))
                self._compute(K, rows)
            return function(rows, K)

        return map_blocks(apply, panels, workers=self.kernel.n_workers(self.X))

    def _matmul_by_rows(self, V: Array, dtype: str) -> Array:
        """Return K @ V in float64, with as many cached rows as memory allows."""
        kept = self._kept_rows
        if self._keep == "gram":
            return stored_product(kept.values, V, dtype)
        kept.add(np.arange(self.shape[0]), self._compute)
        numbers, values = kept.snapshot()
        missing, work = self._others(numbers), nx.astype(V, dtype)
        parts = [stored_product(values, V, dtype)]
        for s in self._row_chunks(len(missing)):
            pairs = self._pairs.part(missing[s])
            parts.append(self._tiles_of(pairs, symmetric=False).matmul(work))
        order = np.argsort(np.concatenate([numbers, missing]))
        return nx.take_rows(
            nx.array_namespace(V).concat(parts, axis=0), nx.as_like(order, V)
        )

    def _working_dtype(self, V: Array) -> str:
        """Return the dtype of products (default: the wider one)."""
        wide = self._widen and nx.dtype_name(V) == "float64"
        return "float64" if wide else self.dtype

    # ---- what is kept, and how the rest is computed ----------------------------------

    def _make_kept_rows(self) -> KeptRows:
        n, m = self.shape
        if self._keep == "gram":
            K = self._compute_all() if self._given is None else self._given
            return KeptRows(K, n, whole=True)
        capacity = 0
        if self._keep == "rows":
            n_bytes = self._free - self._for_work
            capacity = min(n_bytes // (nx.itemsize(self.X) * m), n)
        return KeptRows(self.empty((capacity, m)), n)

    def _make_kept_tiles(self) -> KeptTiles | None:
        if self._keep in ("rows", "gram"):
            return None
        n_bytes = 0 if self._keep is None else self._free - self._for_work
        return self._tiles_of(
            self._pairs, self.symmetric, n_bytes // nx.itemsize(self.X)
        )

    def _tiles_of(self, pairs: RowPairs, symmetric: bool, n_kept: int = 0) -> KeptTiles:
        workers = self.kernel.n_workers(self.X)
        return KeptTiles(self.kernel, pairs, self._tile, symmetric, n_kept, workers)

    @functools.cached_property
    def _given(self) -> Array | None:
        """The matrix of a precomputed kernel, if all of it is asked for."""
        if not (isinstance(self.kernel, Precomputed) and self.symmetric):
            return None
        return self.kernel.matrix if self.kernel.has_rows(self.X) else None

    @property
    def _n_bytes(self) -> int:
        return nx.itemsize(self.X) * self.shape[0] * self.shape[1]

    @property
    def _fits(self) -> bool:
        return self._given is not None or self._n_bytes <= self._budget

    @functools.cached_property
    def _pairs(self) -> RowPairs:
        return self.kernel.pairs(self.X, None if self.symmetric else self._Y)

    @property
    def _free(self) -> int:
        """Bytes of the budget that shifted copies of the rows leave."""
        return max(self._budget - self._pairs.held_bytes, 1)

    @functools.cached_property
    def _tile(self) -> tuple[int, int]:
        least = _LEAST_WORK if self._keep == "rows" else 1
        return self._pairs.tile_shape(max(self._for_work // 2, least))

    @property
    def _for_work(self) -> int:
        """Bytes for tiles that are being computed, half, and for products in flight."""
        enough = _WORK_OF_THREAD * self.kernel.n_workers(self.X)
        return min(self._free // 4, enough) if self._keep == "rows" else self._free // 4

    def _others(self, numbers: np.ndarray) -> np.ndarray:
        return np.setdiff1d(np.arange(self.shape[0]), numbers, assume_unique=True)

    def _compute_all(self) -> Array:
        return self.kernel(self.X, None if self.symmetric else self._Y)

    def _compute(self, out: Array, rows: np.ndarray) -> None:
        """Write K[rows, :] into ``out``, tile by tile."""
        for s in self._row_chunks(len(rows)):
            fill_tiles(self._pairs.part(rows[s]), out[s, :], self._tile)

    def _row_chunks(self, n: int) -> list[slice]:
        """Return slices of rows of X that are copied together: a few tiles at least."""
        row_bytes = nx.itemsize(self.X) * max(self.shape[1], 2 * self.X.shape[1])
        few = 2 * self.kernel.n_workers(self.X) * self._tile[0]
        return list(row_blocks(n, 1, max(self._for_work // 4 // row_bytes, few)))


def _copy_rows(block: Array, out: Array, positions: np.ndarray) -> None:
    everything = len(positions) == block.shape[0]
    out[:, :] = block if everything else nx.take_rows(block, positions)


# ----------------------------------------------------------------------------------
# Values of a fitted function, Σᵢ aᵢ k(x, yᵢ), in the precision its coefficients need.
#
# An entry of a float32 kernel matrix is rounded by about ε = 6e-8 of its size. A sum of
# entries times coefficients is rounded by ε times the *norm* of the coefficients, and
# these may be thousands of times larger than the sum, which is what remains when they
# cancel: large C, few features, data far from the origin. Then a float32 prediction is
# noise, though the fit was right.
#
# How much is lost depends on the kernel, the coefficients and the rows, and a bound of
# all three is either dear or far too careful. So it is measured: some rows are computed
# in both precisions. Sums of float32 entries are kept where these agree; else all rows
# are computed in float64, block by block. The law, checked in the tests:
#
#     |f32(x) − f64(x)| ≤ 2⁻⁸ (s + |f64(x) − m|),
#
# with m the median and s the spread of f over the rows (see :func:`_allowed`), beside
# what float64 itself rounds, and kernel values below float32's smallest, 2⁻¹²⁶.
#
# For n rows, m points and d features the check costs 32 m d float64 multiplications
# beside n m d in float32; up to 64 rows are computed in float64 at once.
# ----------------------------------------------------------------------------------

# Rows that are computed in both precisions: as many evenly spaced as of largest norm.
_EVENLY_SPACED = 16
_OF_LARGEST_NORM = 16
# Up to so many rows a check would cost as much as the float64 result.
_FEW_ROWS = 64
# Largest error, in units of the spread of the values.
_TOLERANCE = 2.0**-8
_TF32_TOLERANCE = 2.0**-5
# Rows that were not checked may be this much worse than those that were.
_MARGIN = 4.0
# Entries of the kernel and of the points that no budget is too small for, in float64.
_FEW_ENTRIES = 2**17
# Bytes of the rows, and of the points, that are widened at a time.
_BLOCK_BYTES = 64 * 2**20


def kernel_expansion(
    kernel: Kernel,
    X: Array,
    Y: Array,
    coef: Array,
    *,
    memory_budget: int | str | None = None,
) -> Array:
    """Return Σᵢ aᵢ k(x, yᵢ) for each row x, in the precision that ``coef`` needs.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array, CSR matrix or HostRows of shape (m, d)
        The points of the expansion.
    coef : array of shape (m, t)
        One column of coefficients for each function.
    memory_budget : int, str or None, default=None

    Returns
    -------
    array of shape (n, t)
        In float64.
    """
    coef = nx.astype(coef, "float64")
    (n, d), m = X.shape, Y.shape[0]
    small = n <= _FEW_ROWS and m * (n + d) <= _FEW_ENTRIES
    if small and nx.is_numpy(X) and nx.is_numpy(Y):
        # To ask how much memory is free would take longer.
        return kernel(nx.astype(X, "float64"), nx.astype(Y, "float64")) @ coef
    if nx.dtype_name(X) == "float32" and _float32_suffices(
        kernel, X, Y, coef, memory_budget
    ):
        return _sums(kernel, X, Y, coef, memory_budget)
    return _sums_in_float64(kernel, X, Y, coef, memory_budget)


def expansion_gradients(
    kernel: Kernel,
    X: Array,
    Y: Array,
    coef: Array,
    *,
    memory_budget: int | str | None = None,
) -> Array:
    """Return the gradients of Σᵢ aᵢ k(x, yᵢ) at dense rows x, (n, t, d), in float64."""
    Y, coef = (nx.astype(nx.as_like(part, X), "float64") for part in (dense(Y), coef))
    xp, parts = nx.array_namespace(coef), []
    budget = resolve_budget(memory_budget, X) // _GRADIENT_ARRAYS
    row_bytes = 8 * (Y.shape[0] + coef.shape[1] * Y.shape[1])
    for s in row_blocks(X.shape[0], row_bytes, min(budget, _GRADIENT_BYTES)):
        found = list(kernel.gradients(nx.astype(X[s, :], "float64"), Y, coef))
        parts.append(xp.stack(found, axis=1))
    return xp.concat(parts)


def _float32_suffices(kernel, X, Y, coef, memory_budget) -> bool:
    """Return True if some rows come out alike in float32 and in float64."""
    n = X.shape[0]
    if n <= _FEW_ROWS:
        return False
    spaced = np.linspace(0, n - 1, _EVENLY_SPACED).astype(np.int64)
    largest = np.argpartition(nx.to_numpy(squared_norms(X)), -_OF_LARGEST_NORM)
    numbers = np.concatenate([spaced, largest[-_OF_LARGEST_NORM:]])
    some = nx.take_rows(X, numbers)
    rough = nx.to_numpy(_sums(kernel, some, Y, coef, memory_budget))
    exact = nx.to_numpy(_sums_in_float64(kernel, some, Y, coef, memory_budget))
    rounds_to_tf32 = nx.product_epsilon(X) > nx.epsilon(X)
    tolerance = _TF32_TOLERANCE if rounds_to_tf32 else _TOLERANCE
    allowed = tolerance / _MARGIN * _allowed(exact, exact[: len(spaced)])
    with np.errstate(invalid="ignore"):  # inf - inf: NaN is not within the bound
        return bool(np.all(np.abs(rough - exact) <= allowed))


def _allowed(values: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Return s + |f(x) − m| for the ``values`` f(x), (n, t).

    m is the median of the ``typical`` values, (k, t), s the 90 % quantile of their
    distance from it: neither is moved by a few huge rows. An offset that all rows
    share does not count, since it tells nothing about a row.
    """
    with np.errstate(invalid="ignore"):
        m = np.median(typical, axis=0)
        s = np.quantile(np.abs(typical - m), 0.9, axis=0)
        return s + np.abs(values - m)


def _sums(kernel, X, Y, coef, memory_budget) -> Array:
    """Return the sums of kernel entries in the precision of ``X``."""
    Y = nx.astype(Y, nx.dtype_name(X))
    operator = KernelOperator(kernel, X, Y, memory_budget=memory_budget, keep=None)
    return operator.matmul(coef)


def _sums_in_float64(kernel, X, Y, coef, memory_budget) -> Array:
    """Return the sums of float64 kernel entries; rows are widened block by block."""
    n_bytes = min(resolve_budget(memory_budget, X) // 8, _BLOCK_BYTES)
    parts = []
    for rows in _blocks(X, n_bytes):
        x = nx.astype(X[rows, :], "float64")
        total = 0.0
        for points in _blocks(Y, n_bytes):
            y = Y if points.stop - points.start == Y.shape[0] else Y[points, :]
            total = total + _sums(kernel, x, y, coef[points, :], memory_budget)
        parts.append(total)
    return nx.joined(parts)


def _blocks(X: Array, n_bytes: int) -> list[slice]:
    """Return slices of rows that take at most ``n_bytes`` bytes in float64."""
    # Rows that stay on the host are widened where they arrive; float64 rows are here.
    if copy_buffer_bytes(X) or nx.itemsize(X) == 8:
        return [slice(0, X.shape[0])]
    return list(row_blocks(X.shape[0], 8 * X.shape[1], n_bytes)) or [slice(0, 0)]
