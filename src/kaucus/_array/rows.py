"""Rows in memory, on the host for a device, in batches or in partitions.

A pass over rows is a function of a :class:`Block`: :meth:`Rows.map` lists its results,
:meth:`Rows.reduce` merges accumulators in a fixed order. Rows in memory are one block,
whose ``cache`` stays from pass to pass.
"""

import abc
import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from kaucus._array import namespace as nx
from kaucus._array.blocks import resolve_budget, row_blocks
from kaucus._array.namespace import Array

# Accumulators that are merged at a time.
FAN_IN = 8
# Rows of the host that are copied to their device for one step of a pass.
_BLOCK_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Block:
    """Rows that are worked on together."""

    rows: Any
    """(b, d): an array or a CSR matrix; a tensor where the rows have a device."""
    vectors: tuple[Any, ...]
    """The entries of the attached vectors, b each; NumPy but for rows in memory."""
    budget: int
    """Bytes that the work on the block may take."""
    cache: dict | None = None
    """Results of earlier passes over this block; None where it is made anew."""


class Rows(abc.ABC):
    """Rows of shape (n, d), to be worked on block by block.

    ``like``, (1, d), has the library, device and precision of the blocks; ``budget``
    are bytes that the work on one may take.
    """

    like: Any
    budget: Any
    ndim = 2
    lasting = False
    """Whether blocks stay, and with them their caches."""
    local = False
    """Whether a pass may return an entry for each row: all are in this process."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, d)."""

    @property
    def dtype(self) -> Any:
        """Precision of the blocks, in the terms of their library."""
        return self.like.dtype

    @abc.abstractmethod
    def in_kind_of(self, like: Any) -> "Rows":
        """Return the same rows in another precision or place."""

    @abc.abstractmethod
    def mapped(self, function: Callable, width: int | None = None) -> "Rows":
        """Apply a row-wise function lazily; ``width`` is its number of columns."""

    @abc.abstractmethod
    def attached(self, *vectors: Any) -> "Rows":
        """Attach vectors, (n, ...) or None, in place of earlier ones."""

    @abc.abstractmethod
    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers, in their order."""

    def in_order(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers, however many."""
        return self.take(numbers)

    def with_budget(self, budget: int | str | None) -> "Rows":
        """Return the rows with bytes for the work on a block; parts have their own."""
        return self

    def rows_at_once(self, copies: int) -> int:
        """Return the number of rows of which so many copies fit into memory."""
        return self.shape[0]

    def at_rest(self) -> "Rows":
        """Return the same rows without copies that were made for one fit."""
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks in order."""
        raise NotImplementedError

    def map(self, step: Callable, *common: Any, label: str) -> list:
        """Return ``step(block, *common)`` of every block, in order.

        ``label`` names the work on a cluster's dashboard, such as "assign-rows".
        """
        return [step(block, *common) for block in self.blocks()]

    def reduce(self, step: Callable, *common: Any, label: str, n_bytes: int = 0) -> Any:
        """Return the merged accumulators ``step(block, *common)`` of all blocks.

        ``n_bytes`` is the size of an accumulator, where it is large.
        """
        total = None
        for block in self.blocks():
            part = step(block, *common)
            if total is None:
                total = part
            elif part is not total:  # to which the step has added the block
                total.merge(part)
        return total


@nx.example_of.register
def _(x: Rows) -> Any:
    return x.like


@nx.astype.register
def _(x: Rows, dtype: str) -> Rows:
    same = nx.dtype_name(x) == dtype  # else cast block by block
    return x if same else x.in_kind_of(nx.astype(x.like, dtype))


@nx.take_rows.register
def _(X: Rows, rows: Any) -> Any:
    return X.take(nx.to_numpy(rows))


@nx.rows_in_order.register
def _(X: Rows, order: Any) -> Any:
    return X.in_order(nx.to_numpy(order))


@nx.owned.register
def _(X: Rows) -> Rows:
    return X.at_rest()


def as_rows(X: Any, budget: int | str | None = None) -> Rows:
    """Return an array, a CSR matrix or rows of any kind as :class:`Rows`.

    ``budget`` are bytes for the work on them; rows in parts have a budget of their own.
    """
    if isinstance(X, Rows):
        return X.with_budget(budget)
    return ArrayRows(X, resolve_budget(budget, X))


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """Rows of an array or a CSR matrix: one block."""

    values: Any
    budget: int
    vectors: tuple[Any, ...] = ()
    cache: dict = field(default_factory=dict)

    lasting = local = True

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return tuple(self.values.shape)

    @property
    def like(self) -> Any:
        """The first row, dense."""
        first = self.values[:1, :]
        return first.toarray() if nx.is_sparse(first) else first

    def in_kind_of(self, like: Any) -> "ArrayRows":
        """Return the same rows in another precision."""
        values = nx.astype(self.values, nx.dtype_name(like))
        return replace(self, values=values, cache={})

    def mapped(self, function: Callable, width: int | None = None) -> "ArrayRows":
        """Apply a row-wise function."""
        return replace(self, values=function(self.values), cache={})

    def attached(self, *vectors: Any) -> "ArrayRows":
        """Attach vectors, and forget the results of earlier passes."""
        return replace(self, vectors=vectors, cache={})

    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers."""
        return nx.rows_in_order(self.values, numbers)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows."""
        yield Block(self.values, self.vectors, self.budget, self.cache)


# ----------------------------------------------------------------------------------
# Rows that are read part by part: partitions of a cluster, or batches of an iterator.
#
# All rows are never in one place: a function of a :class:`Block` goes to each part.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Handling:
    """Precision, place and row-wise functions of the blocks of a part."""

    dtype: Any
    budget: int
    place: Callable[[Any], Any] | None
    changes: tuple[Callable[[Any], Any], ...]

    def call(
        self, function: Callable, rows: Any, vectors: tuple, argument, *, shared: bool
    ) -> Any:
        """Return ``function`` of the rows of a part."""
        for change in self.changes:
            rows = change(rows)
        if rows.dtype != self.dtype:
            rows = rows.astype(self.dtype)
        if self.place is not None and function is not _some_rows:
            rows = self.place(rows)
        block = Block(rows, vectors, self.budget)
        return function(block, *argument) if shared else function(block, argument)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSource(Rows):
    """Rows of several parts; subclasses say how a function gets to a part.

    Parameters
    ----------
    like : ndarray of shape (1, d)
        In the precision of the rows.
    sizes : sequence of int
        Rows of each part.
    longest : array or CSR matrix of shape (2, d)
        The row of the largest norm, and one with the largest entry.
    budget : int
        Bytes that the work on one part may take.
    place : callable, default=None
        Brings the rows of a part to the device on which they are worked on.
    changes : tuple of callables, default=()
        Row-wise functions of the rows of a part, see :meth:`mapped`.
    vectors : sequence of tuples, default=None
        The attached vectors of each part.
    """

    like: np.ndarray
    sizes: Sequence[int]
    longest: Any
    budget: int
    place: Callable[[Any], Any] | None = None
    changes: tuple[Callable[[Any], Any], ...] = ()
    vectors: Sequence[Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(sum(self.sizes)), self.like.shape[1]

    @property
    def handling(self) -> Handling:
        """Precision, place and row-wise functions of the blocks."""
        return Handling(self.like.dtype, self.budget, self.place, self.changes)

    def in_kind_of(self, like: np.ndarray) -> "RowSource":
        """Return the same rows in another precision."""
        return replace(self, like=like)

    def mapped(self, function: Callable, width: int | None = None) -> "RowSource":
        """Apply a row-wise function of NumPy arrays or CSR matrices lazily."""
        return replace(
            self,
            like=function(self.like),
            longest=function(self.longest),
            changes=(*self.changes, function),
        )

    def attached(self, *vectors: np.ndarray | None) -> "RowSource":
        """Attach vectors, of which each block has its entries."""
        parts = [
            [None] * len(self.sizes) if v is None else self.split(nx.to_numpy(v))
            for v in vectors
        ]
        of_parts = [
            tuple(_small(part[p]) for part in parts) for p in range(len(self.sizes))
        ]
        return self._with_vectors(of_parts)

    def _with_vectors(self, vectors: Sequence[tuple]) -> "RowSource":
        return replace(self, vectors=vectors)

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the entries of a vector, (n, ...), that belong to each part."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers, in their order."""
        numbers = np.asarray(numbers)
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        part = np.searchsorted(edges, numbers, side="right") - 1
        order = np.argsort(part, kind="stable")
        cuts = np.cumsum(np.bincount(part, minlength=len(self.sizes)))[:-1]
        local = np.split((numbers - edges[part])[order], cuts)
        asked = [p for p, some in enumerate(local) if len(some)]
        found = self.each(_some_rows, [local[p] for p in asked], asked, "take-rows")
        if not found:
            return self.like[:0]
        rows = _stacked(found)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return rows[back]

    def rows_at_once(self, copies: int) -> int:
        """Return the number of rows of which so many copies fit into memory."""
        return self.budget // (copies * self.shape[1] * nx.itemsize(self))

    def map(self, step: Callable, *common: Any, label: str) -> list:
        """Return ``step(block, *common)`` of every part, in order."""
        every = list(range(len(self.sizes)))
        return self.each(step, [common] * len(every), every, label, shared=True)

    @abc.abstractmethod
    def each(
        self,
        function: Callable,
        arguments: Sequence,
        parts: Sequence[int],
        label: str,
        *,
        shared: bool = False,
    ) -> list:
        """Return ``function(block, argument)`` of some parts, each with its argument.

        With ``shared`` the arguments are one tuple for all, ``function(block, *it)``.
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchRows(RowSource):
    """Rows that an iterator gives, batch by batch, anew for every pass.

    Parameters
    ----------
    read : callable
        Returns an iterable of the batches, arrays or CSR matrices of shape (b, d); the
        same ones in every call.
    """

    read: Callable[[], Iterable]

    def each(self, function, arguments, parts, label, *, shared=False) -> list:
        """Return results of a function for some batches, reading no further."""
        given, call = dict(zip(parts, arguments, strict=True)), self.handling.call
        return [
            call(function, rows, self._own(p), given[p], shared=shared)
            for p, rows in self._batches(max(parts, default=-1) + 1)
            if p in given
        ]

    def blocks(self) -> Iterator[Block]:
        """Yield the batches as blocks."""
        call = self.handling.call
        for p, rows in self._batches(len(self.sizes)):
            yield call(_itself, rows, self._own(p), (), shared=True)

    def _own(self, p: int) -> tuple:
        return () if self.vectors is None else self.vectors[p]

    def _batches(self, n_batches: int) -> Iterator[tuple[int, Any]]:
        """Yield the first batches with their numbers, checked for their sizes."""
        count = 0
        for p, rows in zip(range(n_batches), self.read(), strict=False):
            if rows.shape[0] != self.sizes[p]:
                raise ValueError(
                    f"Batch {p} has {rows.shape[0]} rows, and had "
                    f"{self.sizes[p]} when it was first read; the batches must "
                    "be the same in every pass."
                )
            yield p, rows
            count = p + 1
        if count < n_batches:
            raise ValueError(
                f"There are {count} batches, and were {n_batches} when they were first "
                "read. Pass a function that begins anew at every call, for example "
                "lambda: (load(name) for name in names)."
            )


def merged(parts: Sequence[Any]) -> Any:
    """Return the accumulators as one, from the first to the last; none is changed."""
    total = copy.deepcopy(parts[0])
    for part in parts[1:]:
        total.merge(part)
    return total


def _some_rows(block: Block, numbers: np.ndarray) -> Any:
    return block.rows[numbers]


def _itself(block: Block) -> Block:
    return block


def _stacked(parts: list) -> Any:
    """Return the rows of several arrays, or CSR matrices, as one."""
    if any(scipy.sparse.issparse(part) for part in parts):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
    return np.concatenate(parts)


def _small(values: np.ndarray | None) -> np.ndarray | None:
    """Return whole numbers, such as targets of ±1, in one byte each."""
    if values is None or values.dtype == np.int8 or values.size == 0:
        return values
    if np.abs(values).max() > 127:
        return values
    small = values.astype(np.int8)
    return small if np.array_equal(small, values) else values


# ----------------------------------------------------------------------------------
# Rows that stay on the host while the work on them is on a device.
#
# To the core they look like a matrix on the device: they have a shape, and the library,
# device and precision that their blocks will have there.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HostRows(Rows):
    """A NumPy matrix whose rows are copied to a device in blocks.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Also a memory map; never changed.
    like : array
        Whose library, device and precision the blocks have.
    buffer_bytes : int
        Bytes that blocks being copied may take on the device, and as many again what
        is made of them on the spot.
    order : ndarray of shape (m,), default=None
        Which rows of ``values`` these are, in which order; None means all.
    function : callable, default=None
        What blocks are mapped by on the device, row by row, to ``width`` columns.
    width : int, default=None
    budget : int, default=None
        Bytes for the work on a block; None: as many as for copying.
    vectors : tuple of ndarrays, default=()
        Attached to the rows.
    """

    values: np.ndarray
    like: Any
    buffer_bytes: int
    order: np.ndarray | None = None
    function: Callable[[Any], Any] | None = None
    width: int | None = None
    budget: int | None = None
    vectors: tuple[np.ndarray | None, ...] = ()

    local = True

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n = len(self.values) if self.order is None else len(self.order)
        return n, self.values.shape[1] if self.width is None else self.width

    @property
    def device(self) -> Any:
        """Where the blocks will be, in the terms of their library."""
        return self.like.device

    def host(self) -> np.ndarray:
        """Return all rows as a NumPy array; a copy if in another order or mapped."""
        values = self.values if self.order is None else self.values[self.order]
        return self.of_block(values)

    def with_budget(self, budget: int | str | None) -> "HostRows":
        """Return the same rows with bytes for the work on a block."""
        if budget is None:
            return self
        return replace(self, budget=resolve_budget(budget, self.like))

    def mapped(self, function: Callable, width: int | None = None) -> "HostRows":
        """Return rows whose blocks are mapped on the device."""
        width = self.width if width is None else width
        first = self.function
        both = function if first is None else lambda block: function(first(block))
        return replace(self, function=both, width=width)

    def of_block(self, block: Any) -> Any:
        """Return a block of rows after ``function``, if given."""
        return block if self.function is None else self.function(block)

    def part(self, rows: slice | np.ndarray) -> slice | np.ndarray:
        """Return the index into ``values`` for these rows."""
        return rows if self.order is None else self.order[rows]

    def in_order(self, numbers: np.ndarray) -> "HostRows":
        """Return the rows with the given numbers; nothing is copied."""
        return replace(self, order=np.asarray(self.part(numbers)))

    def take(self, numbers: np.ndarray) -> Any:
        """Return the rows with the given numbers, on the device."""
        some = np.asarray(self.values[self.part(numbers)])
        some = nx.as_like(some, self.like, dtype=nx.dtype_name(self.like))
        return self.of_block(some)

    def rows_at_once(self, copies: int) -> int:
        """Return the number of rows for one copy to the device."""
        return self.buffer_bytes // (nx.itemsize(self) * self.shape[1])

    def attached(self, *vectors: Any) -> "HostRows":
        """Attach vectors, which stay on the host."""
        on_host = tuple(None if v is None else nx.to_numpy(v) for v in vectors)
        return replace(self, vectors=on_host)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows block by block on their device."""
        row_bytes = nx.itemsize(self) * max(self.values.shape[1], self.shape[1])
        most = min(self.buffer_bytes, _BLOCK_BYTES)
        slices = list(row_blocks(self.shape[0], row_bytes, most))
        budget = self.buffer_bytes if self.budget is None else self.budget
        for s, rows in zip(slices, stream_blocks(self, slices), strict=True):
            own = tuple(None if v is None else v[s] for v in self.vectors)
            yield Block(rows, own, budget)

    def in_kind_of(self, like: Any) -> "HostRows":
        """Return the same rows, to be seen in another precision or place."""
        return replace(self, like=like)


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
    """Return ``X`` on the device, or :class:`HostRows` if it does not fit.

    Parameters
    ----------
    X : array or Rows of shape (n, d)
        A NumPy array may be a memory map. Rows in parts find their device by
        themselves.
    device : str or None
        None: where ``X`` is.
    memory_budget : int, str or None, default=None
        Bytes on the device; None is three quarters of what is free there. Rows fit if
        they take no more than half of it: the work needs memory beside them. Of rows
        that do not, an eighth of it is for blocks being copied, as much again for what
        is made of them on the spot.
    """
    if isinstance(X, Rows):
        return X
    if device is None or device == "cpu" or not nx.is_numpy(X):
        return nx.to_device(X, device)
    like = nx.to_device(X[:1, :], device)
    budget = resolve_budget(memory_budget, like)
    rows = HostRows(X, like, min(budget // 8, _BUFFER_BYTES))
    return on_device_if_it_fits(rows, budget)


def on_device_if_it_fits(X: Array, budget: int) -> Array:
    """Return host rows on their device if they fit into half of the budget."""
    if not isinstance(X, HostRows) or 2 * nx.itemsize(X) * math.prod(X.shape) > budget:
        return X
    return nx.as_like(X.host(), X.like, dtype=nx.dtype_name(X))


def stream_blocks(X: Array, blocks: Sequence[slice]) -> Iterator[Array]:
    """Yield ``X[s, :]`` on its device for each slice; repeated slices are copied once.

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
    dtype, block = nx.dtype_name(X), None
    changes = [k == 0 or s != blocks[k - 1] for k, s in enumerate(blocks)]
    parts = [X.part(s) for s, new in zip(blocks, changes, strict=True) if new]
    copies = _copied_ahead(X.values, parts, X.like)
    for new in changes:
        if new:
            block = X.of_block(nx.astype(next(copies), dtype))
        yield block


def _copied_ahead(
    X: np.ndarray, parts: list[slice | np.ndarray], like: Array
) -> Iterator[Array]:
    """Yield parts of rows on the device of ``like``, each copied one ahead of its use.

    To a torch device through two buffers that take turns.
    """
    if nx.is_torch(like):
        from kaucus._array.on_torch import device_blocks

        yield from (block for _, block in device_blocks(X, parts, like.device))
        return
    yield from (nx.as_like(X[rows], like) for rows in parts)


@functools.singledispatch
def streaming_bytes(X: Array) -> float:
    """Return the bytes for blocks being copied; infinity for rows that are there."""
    return math.inf


@nx.as_like.register
def _(x: HostRows, like: Any, *, dtype: Any = None) -> Any:
    return nx.as_like(x.host(), like, dtype=dtype) if nx.is_numpy(like) else x


@streaming_bytes.register
def _(X: HostRows) -> float:
    return X.buffer_bytes


def copy_buffer_bytes(X: Array) -> int:
    """Return the bytes on the device that blocks copied from the host may take."""
    n_bytes = streaming_bytes(X)
    return 0 if math.isinf(n_bytes) else int(2 * n_bytes)


@functools.singledispatch
def resident_bytes(X: Array) -> int:
    """Return the bytes that rows take on the device of the work."""
    return X.data.nbytes if nx.is_sparse(X) else nx.itemsize(X) * math.prod(X.shape)


@resident_bytes.register
def _(X: Rows) -> int:
    return 0


def shifted_bytes(X: Array) -> int:
    """Return the bytes of a shifted copy of all rows, as a kernel of distances has."""
    return 0 if nx.is_sparse(X) else resident_bytes(X)


@functools.singledispatch
def longest_rows(X: Array) -> Array:
    """Return rows with the largest norm and entry of all: two, of rows in parts."""
    return X


@longest_rows.register
def _(X: RowSource) -> Any:
    return X.longest


def budget_without_buffers(X: Array, memory_budget: int | str | None) -> int:
    """Return the budget for work on ``X``, less the buffers for copied rows."""
    return max(resolve_budget(memory_budget, X) - copy_buffer_bytes(X), 1)


# ----------------------------------------------------------------------------------
# A first look at rows that are read part by part: how many they are, and finite.
# ----------------------------------------------------------------------------------


class Look(NamedTuple):
    """Summary of a partition: size, extreme rows, first entry that is not finite."""

    n_rows: int
    extreme: Any
    """(2, d): the row of the largest norm, and one with the largest entry."""
    bad: tuple[int, int, str] | None
    """Row and column of the first entry that is not finite, and what it is."""


def as_matrix(part: Any) -> Any:
    """Return a part of the rows as a NumPy array or a CSR matrix."""
    if nx.is_sparse(part):
        return part.tocsr()
    if not hasattr(part, "to_numpy"):
        return np.asarray(part)
    values = part.to_numpy()  # a frame
    if values.dtype == object:  # of pandas' types with missing values
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def look_at(rows: Any) -> Look:
    """Return the summary of a partition, a NumPy array or CSR matrix, (b, d)."""
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
        if nx.is_sparse(rows):
            norms = rows.multiply(rows).sum(axis=1)
            norms, largest = np.asarray(norms), largest.toarray()
        else:
            norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    two = [int(np.argmax(norms)), int(np.argmax(largest))]
    return Look(rows.shape[0], rows[two], None)


def _first_bad(rows: Any) -> tuple[int, int, str] | None:
    if nx.is_sparse(rows):
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


def summary_of(
    looks: Sequence[Look], like: np.ndarray, part: str, columns: Sequence, name: str
) -> dict[str, Any]:
    """Return the rows of each partition and the longest rows, for :class:`RowSource`.

    Raise where an entry is not finite: of which ``part`` ("partition", "batch"), which
    of the ``columns``, for the estimator of this ``name``.
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
    return {
        "like": like,
        "sizes": [look.n_rows for look in looks],
        "longest": _longest_rows(looks, like),
    }


def _longest_rows(looks: Sequence[Look], like: np.ndarray) -> Any:
    """Return of the extreme rows of all parts the two most extreme, like ``like``."""
    extremes = [look.extreme for look in looks if look.n_rows]
    if not extremes:
        return np.concatenate([like, like])
    rows = functools.reduce(nx.concat_rows, extremes).astype(like.dtype)
    wide = rows.toarray().astype(float) if nx.is_sparse(rows) else rows.astype(float)
    with np.errstate(over="ignore"):
        norms = (wide**2).sum(axis=1)
    return rows[[int(np.argmax(norms)), int(np.argmax(abs(wide).max(axis=1)))]]
