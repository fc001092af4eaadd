"""Blocks of rows on their way to a device, and a summary of the rows."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kaucus._array.blocks import resolve_budget
from kaucus._array.namespace import (
    Array,
    as_like,
    astype,
    concat_rows,
    dtype_name,
    is_numpy,
    is_sparse,
    is_torch,
    itemsize,
    to_device,
)
from kaucus._array.rows import HostRows, RowSource

# ----------------------------------------------------------------------------------
# Rows for a device: there, where they fit; else on the host, streamed in blocks.
#
# :func:`rows_for_device` decides once, at the edge. Everything below takes its rows by
# :func:`stream_blocks`, ``take_rows`` or ``rows_in_order``, and need not know where
# they are: arrays and CSR matrices are sliced, :class:`HostRows` are copied to their
# device, the next block while the last one is worked on.
# ----------------------------------------------------------------------------------

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
        from kaucus._array.on_torch import device_blocks

        yield from (block for _, block in device_blocks(X, parts, like.device))
        return
    yield from (as_like(X[rows], like) for rows in parts)


def copy_buffer_bytes(X: Array) -> int:
    """Return the bytes on the device that blocks copied from the host may take."""
    return 2 * X.buffer_bytes if isinstance(X, HostRows) else 0


def budget_without_buffers(X: Array, memory_budget: int | str | None) -> int:
    """Return the bytes for work on ``X``, without those for rows that are copied."""
    return max(resolve_budget(memory_budget, X) - copy_buffer_bytes(X), 1)


# ----------------------------------------------------------------------------------
# A first look at rows that are read part by part: how many they are, and finite.
# ----------------------------------------------------------------------------------


class Look(NamedTuple):
    """What is seen of a part of the rows before the work begins."""

    n_rows: int
    extreme: Any
    """(2, d): the row of the largest norm, and one with the largest entry."""
    bad: tuple[int, int, str] | None
    """Row and column of the first entry that is not finite, and what it is."""


def as_matrix(part: Any) -> Any:
    """Return a part of the rows as a NumPy array or a CSR matrix."""
    if is_sparse(part):
        return part.tocsr()
    if not hasattr(part, "to_numpy"):
        return np.asarray(part)
    values = part.to_numpy()  # a frame
    if values.dtype == object:  # of pandas' types with missing values
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def look_at(rows: Any) -> Look:
    """Return what is to be known of a part: a NumPy array or a CSR matrix, (b, d)."""
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.shape[0] == 0:
        return Look(0, None, None)
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum tells it all, without a mask as large as the rows.
        bad = None if np.isfinite(rows.sum()) else _first_bad(rows)
        if bad is not None:
            return Look(rows.shape[0], None, bad)
        largest = abs(rows).max(axis=1)
        if is_sparse(rows):
            norms = rows.multiply(rows).sum(axis=1)
            norms, largest = np.asarray(norms), largest.toarray()
        else:
            norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    two = [int(np.argmax(norms)), int(np.argmax(largest))]
    return Look(rows.shape[0], rows[two], None)


def _first_bad(rows: Any) -> tuple[int, int, str] | None:
    if is_sparse(rows):
        entries = rows.tocoo()
        where = np.flatnonzero(~np.isfinite(entries.data))[:1]
        i, j, values = entries.row[where], entries.col[where], entries.data[where]
    else:
        where = np.argwhere(~np.isfinite(rows))[:1]
        i, j = where[:, 0], where[:, 1]
        values = rows[i, j]
    if len(values) == 0:
        return None
    return int(i[0]), int(j[0]), "NaN" if np.isnan(values[0]) else "infinity"


def check_looks(looks: Sequence[Look], part: str, columns: Sequence, name: str) -> None:
    """Raise where a part has an entry that is not finite; name the part.

    Parameters
    ----------
    looks : sequence of Look
    part : str
        What a part is called: "partition", "batch".
    columns : sequence
        The names of the columns.
    name : str
        The estimator's.
    """
    for p, look in enumerate(looks):
        if look.bad is None:
            continue
        row, column, what = look.bad
        raise ValueError(
            f"Input X contains {what}: {part} {p}, row {row} of it, column "
            f"{columns[column]!r}. {name} needs finite numbers; take such rows out, or "
            "fill them."
        )


def longest_rows(looks: Sequence[Look], like: np.ndarray) -> Any:
    """Return of the extreme rows of all parts the two most extreme, like ``like``."""
    extremes = [look.extreme for look in looks if look.n_rows]
    if not extremes:
        return np.concatenate([like, like])
    rows = functools.reduce(concat_rows, extremes).astype(like.dtype)
    wide = rows.toarray().astype(float) if is_sparse(rows) else rows.astype(float)
    with np.errstate(over="ignore"):
        norms = (wide**2).sum(axis=1)
    return rows[[int(np.argmax(norms)), int(np.argmax(abs(wide).max(axis=1)))]]
