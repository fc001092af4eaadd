"""Rows of a matrix that are kept in one array, and products with that array."""

import threading
from collections.abc import Callable

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    for_each_block,
    n_workers,
    on_gpu,
    row_blocks,
    take_rows,
)

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
