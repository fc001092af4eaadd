"""Rows for a device: there, where they fit; else on the host, streamed in blocks.

:func:`rows_for_device` decides once, at the edge. Everything below takes its rows by
:func:`stream_blocks`, ``take_rows`` or ``rows_in_order``, and need not know where they
are: arrays and CSR matrices are sliced, :class:`HostRows` are copied to their device,
the next block while the last one is worked on.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from kaucus.backend._host_rows import HostRows
from kaucus.backend._memory import resolve_budget
from kaucus.backend._namespace import (
    Array,
    as_like,
    astype,
    dtype_name,
    is_numpy,
    is_torch,
    itemsize,
    to_device,
)
from kaucus.backend._row_source import RowSource

# Large enough that the start of a copy costs nothing beside it, eight times.
_BUFFER_BYTES = 2**31


def rows_for_device(
    X: Array, device: str | None, memory_budget: int | str | None = None
) -> Array:
    """Return ``X`` on the device, or :class:`HostRows` where it does not fit there.

    Parameters
    ----------
    X : array or RowSource of shape (n, d)
        A NumPy array may be a memory map. The parts of a source find their device by
        themselves.
    device : str or None
        None: where ``X`` is.
    memory_budget : int, str or None, default=None
        Bytes on the device; None is three quarters of what is free there. Rows fit if
        they take no more than half of it: the work needs memory beside them. Of rows
        that do not, an eighth of it is for blocks being copied, as much again for what
        is made of them on the spot.
    """
    if isinstance(X, RowSource):
        return X
    if device is None or device == "cpu" or not is_numpy(X):
        return to_device(X, device)
    like = to_device(X[:1, :], device)
    budget = resolve_budget(memory_budget, like)
    rows = HostRows(X, like, min(budget // 8, _BUFFER_BYTES))
    return on_device_if_it_fits(rows, budget)


def on_device_if_it_fits(X: Array, budget: int) -> Array:
    """Return rows of the host on their device, if they take half of the budget."""
    if not isinstance(X, HostRows) or 2 * itemsize(X) * math.prod(X.shape) > budget:
        return X
    return as_like(X.host(), X.like, dtype=dtype_name(X))


def stream_blocks(X: Array, blocks: Sequence[slice]) -> Iterator[Array]:
    """Yield ``X[s, :]`` on its device for each slice; what repeats is copied once.

    Parameters
    ----------
    X : array, CSR matrix or HostRows of shape (n, d)
    blocks : sequence of slice
        In the order of use. A slice that follows itself is not copied again.

    Yields
    ------
    array
        Not to be changed, and to be used up before the next one is asked for: its
        memory is then written to again.
    """
    if not isinstance(X, HostRows):
        yield from (X[s, :] for s in blocks)
        return
    dtype, block = dtype_name(X), None
    changes = [k == 0 or s != blocks[k - 1] for k, s in enumerate(blocks)]
    parts = [X.part(s) for s, new in zip(blocks, changes, strict=True) if new]
    copies = _copied_ahead(X.values, parts, X.like)
    for new in changes:
        if new:
            block = X.of_block(astype(next(copies), dtype))
        yield block


def _copied_ahead(
    X: np.ndarray, parts: list[slice | np.ndarray], like: Array
) -> Iterator[Array]:
    """Yield parts of rows on the device of ``like``, each copied one ahead of its use.

    To a torch device through two buffers that take turns.
    """
    if is_torch(like):
        from kaucus.backend._lanes import device_blocks

        yield from (block for _, block in device_blocks(X, parts, like.device))
        return
    yield from (as_like(X[rows], like) for rows in parts)


def copy_buffer_bytes(X: Array) -> int:
    """Return the bytes on the device that blocks copied from the host may take."""
    return 2 * X.buffer_bytes if isinstance(X, HostRows) else 0


def budget_without_buffers(X: Array, memory_budget: int | str | None) -> int:
    """Return the bytes for work on ``X``, without those for rows that are copied."""
    return max(resolve_budget(memory_budget, X) - copy_buffer_bytes(X), 1)
