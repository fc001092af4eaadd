"""The kernel matrix: products, rows and columns of it, whether it fits or not.

Who uses the matrix says what is kept after its first use, as far as the budget goes;
everything else is computed again when it is needed.

    tiles   for products; of a symmetric matrix only the upper half is kept and computed
    rows    for rows that are drawn again and again
    gram    the whole matrix where it fits, for everything; else tiles
"""

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    format_bytes,
    is_numpy,
    is_sparse,
    itemsize,
    map_blocks,
    resolve_budget,
    row_blocks,
    rows_in_order,
    take_rows,
    to_numpy,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._given import Precomputed
from kaucus.kernels._kept import (
    KeptRows,
    KeptTiles,
    gathered_product,
    stored_product,
    transposed_part,
    zeros_like_product,
)
from kaucus.kernels._tiles import RowPairs, kernel_diagonal

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
        return dtype_name(self.X)

    @property
    def rounding(self) -> float:
        """Relative rounding error of a product with a float64 ``V``."""
        return float(np.finfo("float64" if self._widen else self.dtype).eps)

    @property
    def stored_share(self) -> float:
        """Share of the matrix, in tiles or rows, that is kept once it is computed."""
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
        rows = to_numpy(rows)
        out = self.empty((len(rows), self.shape[1]))
        order = self.fill_rows(out, rows)
        if np.array_equal(order, np.arange(len(rows))):
            return out
        return take_rows(out, as_like(np.argsort(order), out))

    def columns(self, columns: Array) -> Array:
        """Return K[:, columns], (n, k), for column numbers of shape (k,)."""
        if self.symmetric and self._keep == "gram":
            K = self._kept_rows.values
            return take_rows(K, columns).T
        if self.symmetric and self._keep == "rows":
            return self.rows(columns).T
        Y = self._Y
        index = columns if is_sparse(Y) else as_like(columns, Y)
        return self.kernel(self.X, take_rows(Y, index))

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
        for s in row_blocks(len(known), itemsize(out) * out.shape[1], _CHUNK_BYTES):
            out[s, :] = take_rows(kept.values, as_like(slots[known[s]], out))
        if len(new):
            block = out[len(known) :, :]
            self._compute(block, rows[new])
            kept.add(rows[new], functools.partial(_copy_rows, block))
        return np.concatenate([known, new])

    def empty(self, shape: tuple[int, int]) -> Array:
        """Return memory in the library, device and precision of the entries."""
        xp = array_namespace(self.X)
        return xp.empty(shape, dtype=getattr(xp, self.dtype), device=device_of(self.X))

    # ---- products --------------------------------------------------------------------

    def matmul(self, V: Array) -> Array:
        """Return K @ V, (n, t), in the precision of ``V``, (m, t)."""
        dtype = self._working_dtype(V)
        if self._kept_tiles is None:
            product = self._matmul_by_rows(V, dtype)
        elif is_numpy(V) and dtype != self.dtype and not self.symmetric:
            product = self._kept_tiles.split_matmul(V)
        else:
            product = self._kept_tiles.matmul(astype(V, dtype))
        return astype(product, dtype_name(V))

    def rmatmul(self, V: Array) -> Array:
        """Return K.T @ V, (m, t), in the precision of ``V``, (n, t)."""
        if self.symmetric:
            return self.matmul(V)
        work = astype(V, self._working_dtype(V))
        if self._kept_tiles is not None:
            product = self._kept_tiles.rmatmul(work)
        else:
            product = zeros_like_product(self.shape[1], V)
            for part in self.map_panels(lambda rows, K: transposed_part(K, rows, work)):
                product += part
        return astype(product, dtype_name(V))

    def columns_matmul(self, columns: Array, V: Array) -> Array:
        """Return K[:, columns] @ V, (n, t), in the precision of ``V``, (k, t)."""
        if self._keep != "gram" or not self.symmetric:
            return self.part(columns=columns).matmul(V)
        K, dtype = self._kept_rows.values, self._working_dtype(V)
        return astype(gathered_product(K, columns, V, dtype), dtype_name(V))

    def part(
        self, rows: Array | None = None, columns: Array | None = None
    ) -> "KernelOperator":
        """Return the operator of some rows and columns of K, which keeps nothing.

        Parameters
        ----------
        rows, columns : integer array, default=None
            Their numbers; None means all.
        """
        rows, columns = (None if i is None else to_numpy(i) for i in (rows, columns))
        pairs = self._pairs.part(rows, columns)
        X = self.X if rows is None else rows_in_order(self.X, rows)
        Y = self._Y if columns is None else rows_in_order(self._Y, columns)
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
        """Return K @ V in float64, from as many kept rows as there is memory for."""
        kept = self._kept_rows
        if self._keep == "gram":
            return stored_product(kept.values, V, dtype)
        kept.add(np.arange(self.shape[0]), self._compute)
        numbers, values = kept.snapshot()
        missing, work = self._others(numbers), astype(V, dtype)
        parts = [stored_product(values, V, dtype)]
        for s in self._row_chunks(len(missing)):
            pairs = self._pairs.part(missing[s])
            parts.append(self._tiles_of(pairs, symmetric=False).matmul(work))
        order = np.argsort(np.concatenate([numbers, missing]))
        return take_rows(array_namespace(V).concat(parts, axis=0), as_like(order, V))

    def _working_dtype(self, V: Array) -> str:
        """Return the precision of products: the wider one, unless told otherwise."""
        wide = self._widen and dtype_name(V) == "float64"
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
            capacity = min(n_bytes // (itemsize(self.X) * m), n)
        return KeptRows(self.empty((capacity, m)), n)

    def _make_kept_tiles(self) -> KeptTiles | None:
        if self._keep in ("rows", "gram"):
            return None
        n_bytes = 0 if self._keep is None else self._free - self._for_work
        return self._tiles_of(self._pairs, self.symmetric, n_bytes // itemsize(self.X))

    def _tiles_of(self, pairs: RowPairs, symmetric: bool, n_kept: int = 0) -> KeptTiles:
        workers = self.kernel.n_workers(self.X)
        return KeptTiles(self.kernel, pairs, self._tile, symmetric, n_kept, workers)

    @functools.cached_property
    def _given(self) -> Array | None:
        """The matrix behind a precomputed kernel, where it is asked for as a whole."""
        if not (isinstance(self.kernel, Precomputed) and self.symmetric):
            return None
        return self.kernel.matrix if self.kernel.has_rows(self.X) else None

    @property
    def _n_bytes(self) -> int:
        return itemsize(self.X) * self.shape[0] * self.shape[1]

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
            pairs = self._pairs.part(rows[s])
            pairs.fill(out[s, :], self._tile)

    def _row_chunks(self, n: int) -> list[slice]:
        """Return slices of rows of X that are copied together: a few tiles at least."""
        row_bytes = itemsize(self.X) * max(self.shape[1], 2 * self.X.shape[1])
        few = 2 * self.kernel.n_workers(self.X) * self._tile[0]
        return list(row_blocks(n, 1, max(self._for_work // 4 // row_bytes, few)))


def _copy_rows(block: Array, out: Array, positions: np.ndarray) -> None:
    everything = len(positions) == block.shape[0]
    out[:, :] = block if everything else take_rows(block, positions)
