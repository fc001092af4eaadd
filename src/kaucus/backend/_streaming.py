"""Data that does not fit on the device: what stays on the host, and how it travels."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from kaucus.backend._blocks import row_blocks
from kaucus.backend._host_rows import HostRows
from kaucus.backend._memory import resolve_budget
from kaucus.backend._namespace import (
    Array,
    as_like,
    astype,
    dtype_name,
    is_numpy,
    is_sparse,
    is_torch,
    itemsize,
    to_device,
)

Part = TypeVar("Part", slice, np.ndarray, slice | np.ndarray)

# Large enough that the start of a copy costs nothing beside it.
_BLOCK_BYTES = 256 * 2**20
# More room than this for rows on their way makes nothing faster.
_ROOM_BYTES = 8 * _BLOCK_BYTES


def iter_device_blocks(
    X: Array, blocks: Iterable[Part], like: Array
) -> Iterator[tuple[Part, Array]]:
    """Yield blocks of the rows of ``X`` in the library and on the device of ``like``.

    NumPy rows, memory maps among them, go to a torch device through two buffers that
    take turns, the next block being copied while the last one is worked on. Rows that
    are there already are not copied.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    blocks : iterable of slice, or of ndarray of row numbers
        Which rows, in which order.
    like : array

    Yields
    ------
    rows : slice or ndarray
    block : array
        Not to be changed, and to be used up before the next one is asked for: its
        memory is then written to again.
    """
    if is_numpy(X) and is_torch(like):
        from kaucus.backend import _lanes

        yield from _lanes.device_blocks(X, list(blocks), like.device)
        return
    for rows in blocks:
        block = X[rows, :]
        yield rows, block if is_sparse(X) else as_like(block, like)


def travelling_blocks(X: Array, blocks: Sequence[slice]) -> Iterator[Array]:
    """Yield ``X[s, :]`` on its device for each slice; what repeats travels once.

    Parameters
    ----------
    X : array or HostRows of shape (n, d)
    blocks : sequence of slice
        In the order of use. A slice that follows itself is not brought again.

    Yields
    ------
    array
        To be used up before the next one is asked for.
    """
    if not isinstance(X, HostRows):
        yield from (X[s, :] for s in blocks)
        return
    dtype, block = dtype_name(X), None
    changes = [k == 0 or s != blocks[k - 1] for k, s in enumerate(blocks)]
    parts = [X.part(s) for s, new in zip(blocks, changes, strict=True) if new]
    on_their_way = iter_device_blocks(X.values, parts, X.like)
    for new in changes:
        if new:
            block = astype(next(on_their_way)[1], dtype)
        yield block


def device_parts(
    X: Array, device: str | None, memory_budget: int | str | None = None
) -> Iterator[Array]:
    """Yield the rows of ``X`` on the device: as one array, or block by block.

    Parameters
    ----------
    X : array of shape (n, d)
    device : str or None
        None: where ``X`` lives, and all at once.
    memory_budget : int, str or None, default=None
        See :func:`rows_on_device`.

    Yields
    ------
    array
        To be used up before the next one is asked for.
    """
    rows = rows_on_device(X, device, memory_budget)
    if rows is not X or not _travels(X, device):
        yield rows
        return
    like = to_device(X[:1, :], device)
    room = min(resolve_budget(memory_budget, like) // 8, _BLOCK_BYTES)
    blocks = row_blocks(X.shape[0], itemsize(X) * X.shape[1], room)
    for _, block in iter_device_blocks(X, blocks, like):
        yield block


def rows_on_device(
    X: Array, device: str | None, memory_budget: int | str | None = None
) -> Array:
    """Return ``X`` on the device, or ``X`` itself where it does not fit there.

    It fits if it takes no more than half of the budget, which is ``memory_budget``, or
    three quarters of what is free on the device: the work needs room beside it.
    """
    if not _travels(X, device):
        return X if device is None else to_device(X, device)
    budget = resolve_budget(memory_budget, to_device(np.zeros(0), device))
    if 2 * itemsize(X) * X.shape[0] * X.shape[1] > budget:
        return X
    return to_device(X, device)


def rows_seen_from(
    X: Array, device: str | None, memory_budget: int | str | None = None
) -> Array:
    """Return ``X`` on the device, or :class:`HostRows` where it does not fit there.

    What fits is said by :func:`rows_on_device`. An eighth of the budget is for blocks
    on their way, as much again for what is made of them on the spot.
    """
    rows = rows_on_device(X, device, memory_budget)
    if rows is not X or not _travels(X, device):
        return rows
    like = to_device(X[:1, :], device)
    budget = resolve_budget(memory_budget, like)
    return HostRows(X, like, min(budget // 8, _ROOM_BYTES))


def bytes_on_their_way(X: Array) -> int:
    """Return what a budget for work on ``X`` must leave to rows that travel."""
    return 2 * X.room if isinstance(X, HostRows) else 0


def budget_beside(X: Array, memory_budget: int | str | None) -> int:
    """Return the bytes for work on ``X``, without those for rows on their way."""
    return max(resolve_budget(memory_budget, X) - bytes_on_their_way(X), 1)


def _travels(X: Array, device: str | None) -> bool:
    """Tell whether rows are NumPy's and the device is not the host."""
    return is_numpy(X) and device is not None and device != "cpu"
