"""The bordered LS-SVM matrix Θ by blocks of its rows, made on the fly or kept.

    Θ = [ 0   uᵀ ]        Θ W = Z,    W = [ b ]    Z = [   0   ]
        [ u   H  ],                       [ ã ],       [ S^½ Y ],

H = S^½ K S^½ + I/C and u = S^½ 1 (Andrecut 2016, eq. 16-19 with γ = C; ``_scaling`` has
the weights). Θ is symmetric: a block of its rows is a block of its columns.

Every block that is drawn here has the row of the intercept in it. The paper draws that
row like any other, once in a pass; beside thousands of rows it costs nothing, and
1ᵀa = 0 holds, or is fitted, from the first step on.
"""

import threading
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    add_gram,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    is_torch,
    itemsize,
    map_blocks,
    mirror_lower,
    n_workers,
    on_gpu,
    reduce_blocks,
    row_blocks,
    set_entries,
    take_rows,
    tiles,
    zero_gram,
)
from kaucus.kernels import Kernel, row_pairs
from kaucus.solvers._scaling import ScaledTargets

# Bytes of one float64 piece of a block: in cache for products with few columns, larger
# for a Gram matrix, which is added to for every piece. On a GPU, and in float64 where
# nothing is copied, as large as there is room for.
_PRODUCT_BYTES = 4 * 2**20
_GRAM_BYTES = 32 * 2**20
_WHOLE_BYTES = 2**32
# Bytes of the rows of K that are copied, or multiplied, at a time.
_CHUNK_BYTES = 64 * 2**20
# Entries of a line of memory on a GPU.
_LINE = 16


class KernelRows:
    """Rows of K = k(X, X), computed once and kept as far as the budget goes.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    budget : int
        Bytes for rows that are kept.

    Notes
    -----
    Rows are kept in the order in which they are first drawn, so that nothing is
    computed that is not used. Several threads may draw at a time.
    """

    def __init__(self, kernel: Kernel, X: Array, budget: int) -> None:
        self.kernel = kernel
        self._pairs, self._travels = row_pairs(kernel, X), isinstance(X, HostRows)
        diagonal = kernel.diag(take_rows(X, as_like(np.arange(1), X)))
        self._like = diagonal  # dense, also where X is sparse
        self.n = X.shape[0]
        self._tile = self._pairs.tile_shape(max(budget // 8, 2**20))
        capacity = min(max(budget, 0) // (itemsize(X) * self.n), self.n)
        self._kept = self.empty((capacity, self.n))
        self._slots = np.full(self.n, -1)  # row of K -> row of _kept
        self._filled = 0
        self._lock = threading.Lock()

    @property
    def dtype(self) -> str:
        """The precision of the entries."""
        return dtype_name(self._like)

    @property
    def on_gpu(self) -> bool:
        """Whether the entries live on an accelerator."""
        return on_gpu(self._like)

    @property
    def stored_share(self) -> float:
        """Share of the rows for which there is room."""
        return self._kept.shape[0] / self.n

    def empty(self, shape: tuple[int, int]) -> Array:
        """Return memory in the library, device and precision of the entries."""
        xp = array_namespace(self._like)
        return xp.empty(shape, dtype=self._like.dtype, device=device_of(self._like))

    def index(self, rows: np.ndarray) -> Array:
        """Return row numbers in the library and on the device of the entries."""
        return as_like(rows, self._like)

    def fill(self, out: Array, rows: np.ndarray) -> np.ndarray:
        """Write K[rows, :] into ``out``, (m, n), in an order of its own; return it."""
        with self._lock:
            slots = self._slots[rows]
        kept, new = rows[slots >= 0], rows[slots < 0]
        there = slots[slots >= 0]
        for s in row_blocks(len(kept), itemsize(out) * self.n, _CHUNK_BYTES):
            out[s, :] = take_rows(self._kept, self.index(there[s]))
        if len(new):
            block = out[len(kept) :, :]
            self._compute(block, new)
            self._keep(block, new)
        return np.concatenate([kept, new])

    def matmul(self, V: Array) -> Array:
        """Return K @ V, (n, t), in float64, for ``V`` of shape (n, t)."""
        xp = array_namespace(V)
        work = astype(V, self.dtype)
        with self._lock:
            filled, slots = self._filled, self._slots.copy()
        known, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        parts = []
        if filled:
            product = self._kept[:filled, :] @ work
            parts.append(take_rows(product, self.index(slots[known])))
        if len(new):
            product = self._product_by_tiles if self._travels else self._product_by_rows
            parts.append(product(new, work))
        back = self.index(np.argsort(np.concatenate([known, new])))
        return astype(take_rows(xp.concat(parts, axis=0), back), "float64")

    def _product_by_rows(self, rows: np.ndarray, V: Array) -> Array:
        """Return K[rows, :] @ V from whole rows, which are kept where there is room."""
        parts = []
        step = max(1, _CHUNK_BYTES // (itemsize(self._like) * self.n))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            block = self.empty((len(some), self.n))
            self._compute(block, some)
            self._keep(block, some)
            parts.append(block @ V)
        return array_namespace(V).concat(parts, axis=0)

    def _product_by_tiles(self, rows: np.ndarray, V: Array) -> Array:
        """Return K[rows, :] @ V without whole rows: X travels less often."""
        xp = array_namespace(V)
        out = xp.zeros((len(rows), V.shape[1]), dtype=xp.float64, device=device_of(V))

        def add(block: tuple[slice, slice], left: Any, right: Any) -> None:
            i, j = block
            T = self.kernel.tile(left, right)
            out[i, :] += astype(T @ V[j, :], "float64")

        blocks = tiles((len(rows), self.n), self._tile)
        self._pairs.with_rows(rows).for_each(add, blocks)
        return astype(out, dtype_name(V))

    def _compute(self, out: Array, rows: np.ndarray) -> None:
        """Write K[rows, :] into ``out``, tile by tile."""

        def fill(block: tuple[slice, slice], left: Any, right: Any) -> None:
            out[block] = self.kernel.tile(left, right)

        blocks = tiles((len(rows), self.n), self._tile)
        self._pairs.with_rows(rows).for_each(fill, blocks)

    def _keep(self, block: Array, rows: np.ndarray) -> None:
        """Keep rows that another thread has not kept meanwhile, where there is room."""
        with self._lock:
            room = self._kept.shape[0] - self._filled
            fresh = np.flatnonzero(self._slots[rows] < 0)[:room]
            if not len(fresh):
                return
            slots = slice(self._filled, self._filled + len(fresh))
            whole = len(fresh) == len(rows)
            self._kept[slots, :] = (
                block if whole else take_rows(block, self.index(fresh))
            )
            self._slots[rows[fresh]] = np.arange(slots.start, slots.stop)
            self._filled = slots.stop


class Block(NamedTuple):
    """Some rows of Θ, the first of them that of the intercept."""

    rows: Array
    """Their numbers in W and Z, (j + 1,)."""
    E: Array
    """Θ[rows, :], (j + 1, n + 1), in the precision of the kernel."""


def bordered(targets: ScaledTargets) -> Array:
    """Return Z = [0; S^½ Y], (n + 1, t), in float64 (eq. 19)."""
    xp = array_namespace(targets.Y)
    return xp.concat([xp.zeros_like(targets.Y[:1, :]), targets.Y], axis=0)


def draw_block(kernel_rows: KernelRows, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return K[rows, :] with room for the border, (j + 1, n + 1), and the rows."""
    # Rows of a tensor begin at whole lines of memory: products are faster by a third.
    width = kernel_rows.n + 1
    padded = -(-width // _LINE) * _LINE if kernel_rows.on_gpu else width
    E = kernel_rows.empty((len(rows) + 1, padded))[:, :width]
    return E, kernel_rows.fill(E[1:, 1:], rows)


def theta_block(
    E: Array, rows: np.ndarray, targets: ScaledTargets, C: float, *, overwrite: bool
) -> Block:
    """Turn what :func:`draw_block` gives into rows of Θ."""
    xp = array_namespace(E)
    index = as_like(rows, E)
    u = astype(targets.u[:, 0], dtype_name(E))  # (n,)
    E = E if overwrite else xp.asarray(E, copy=True)
    if targets.root is not None:
        E[1:, 1:] *= u[None, :]
        E[1:, 1:] *= take_rows(u, index)[:, None]
    E[0, 0] = 0.0
    E[0, 1:] = u
    E[1:, 0] = take_rows(u, index)
    i = xp.arange(len(rows), dtype=index.dtype, device=device_of(E)) + 1
    on_diagonal = _entries(E, i, index + 1)
    set_entries(E, i, index + 1, on_diagonal + 1 / C)
    zero = xp.zeros(1, dtype=index.dtype, device=device_of(E))
    return Block(xp.concat([zero, index + 1]), E)


def _entries(E: Array, i: Array, j: Array) -> Array:
    """Return E[i, j], (m,)."""
    xp = array_namespace(E)
    width = E.shape[1]
    try:
        return E[i, j]
    except IndexError:  # a library that has the standard and nothing more
        return take_rows(xp.reshape(E, (-1,)), i * width + j)


def _chunks(E: Array, n_bytes: int) -> list[slice]:
    """Return slices of columns in which a float64 copy of ``E`` stays small."""
    if dtype_name(E) == "float64" or on_gpu(E):
        n_bytes = _WHOLE_BYTES
    return list(row_blocks(E.shape[1], 8 * E.shape[0], n_bytes))


def product(E: Array, V: Array) -> Array:
    """Return E V in float64, (j + 1, t), for ``V`` of shape (n + 1, t)."""
    return reduce_blocks(
        lambda s: astype(E[:, s], "float64") @ V[s, :],
        _chunks(E, _PRODUCT_BYTES),
        lambda a, b: a + b,
        workers=n_workers(E),
    )


def transposed_product(E: Array, Q: Array) -> Array:
    """Return Eᵀ Q in float64, (n + 1, t), for ``Q`` of shape (j + 1, t)."""
    xp = array_namespace(E)
    parts = map_blocks(
        lambda s: astype(E[:, s], "float64").T @ Q,
        _chunks(E, _PRODUCT_BYTES),
        workers=n_workers(E),
    )
    return xp.concat(list(parts), axis=0)


def gram(E: Array) -> Array:
    """Return E Eᵀ in float64, (j + 1, j + 1).

    In float64 whatever the precision of E: it squares the condition of the block.
    """
    if is_torch(E):  # half of the product, where it costs more than the mirror image
        return mirror_lower(add_gram(zero_gram(E.shape[0], E), E.T))
    xp = array_namespace(E)
    G = xp.zeros((E.shape[0], E.shape[0]), dtype=xp.float64, device=device_of(E))
    # Pieces also where nothing is copied: Ctrl-C need not wait for the whole product.
    whole = _WHOLE_BYTES if on_gpu(E) else _GRAM_BYTES
    for s in row_blocks(E.shape[1], 8 * E.shape[0], whole):
        piece = astype(E[:, s], "float64")
        G += piece @ piece.T
    return G


def theta_product(
    kernel_rows: KernelRows, targets: ScaledTargets, C: float, W: Array
) -> Array:
    """Return Θ W, (n + 1, t), in float64: a product with all of K."""
    xp = array_namespace(W)
    a = W[1:, :]
    lower = targets.u * kernel_rows.matmul(targets.u * a) + a / C
    top = xp.sum(targets.u * a, axis=0)[None, :]
    return xp.concat([top, lower + targets.u * W[:1, :]], axis=0)
