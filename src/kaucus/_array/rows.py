"""Rows that are not one array: batches, memory maps, and rows bound for a device."""

import abc
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

# ----------------------------------------------------------------------------------
# Rows that are read part by part: partitions of a cluster, or batches of an iterator.
#
# A :class:`RowSource` stands where a matrix would. It has a shape and a precision, and
# gives rows by their numbers (``take_rows``). All rows are never in one place: a
# function of a :class:`Block` goes to each part. Its results are listed
# (:meth:`RowSource.map`); accumulators with ``merge`` are summed, in a fixed order
# (:meth:`RowSource.reduce`).
# ----------------------------------------------------------------------------------

# Accumulators that are merged at a time.
FAN_IN = 8


class Block(NamedTuple):
    """The rows of one part, as a function of a part is given them."""

    rows: Any
    """(b, d): an array or a CSR matrix; a tensor where the source has a device."""
    vectors: tuple[np.ndarray | None, ...]
    """The entries of what the source holds beside its rows, b each."""
    budget: int
    """Bytes that the function may take."""


class Held(NamedTuple):
    """What goes with the rows of one part."""

    n_rows: int
    vectors: tuple[np.ndarray | None, ...] = ()


class Handling(NamedTuple):
    """How the rows of a part are made ready for a function."""

    dtype: Any
    budget: int
    place: Callable[[Any], Any] | None
    changes: tuple[Callable[[Any], Any], ...]

    def call(
        self, function: Callable, rows: Any, held: Held, argument, *, shared: bool
    ) -> Any:
        """Return ``function`` of the rows of a part."""
        for change in self.changes:
            rows = change(rows)
        if rows.dtype != self.dtype:
            rows = rows.astype(self.dtype)
        block = Block(rows, held.vectors, self.budget)
        if self.place is not None and function is not _some_rows:
            block = block._replace(rows=self.place(block.rows))
        return function(block, *argument) if shared else function(block, argument)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSource(abc.ABC):
    """Rows of several parts; subclasses say how a function gets to a part.

    Parameters
    ----------
    like : ndarray of shape (1, d)
        In the precision of the rows.
    held : sequence of Held
        Of each part.
    longest : array or CSR matrix of shape (2, d)
        The row of the largest norm, and one with the largest entry.
    budget : int
        Bytes that the work on one part may take.
    place : callable, default=None
        Brings the rows of a part to the device on which they are worked on.
    changes : tuple of callables, default=()
        What is done to the rows of a part as they are read, see :meth:`mapped`.
    """

    like: np.ndarray
    held: Sequence[Held]
    longest: Any
    budget: int
    place: Callable[[Any], Any] | None = None
    changes: tuple[Callable[[Any], Any], ...] = ()
    sizes: np.ndarray = field(init=False)

    def __post_init__(self):
        sizes = np.asarray([own.n_rows for own in self.held], dtype=np.int64)
        object.__setattr__(self, "sizes", sizes)

    # ---- as a matrix -----------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self.sizes.sum()), self.like.shape[1]

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> Any:
        """Precision of the rows."""
        return self.like.dtype

    @property
    def handling(self) -> Handling:
        """How the rows of a part are made ready."""
        return Handling(self.like.dtype, self.budget, self.place, self.changes)

    def in_kind_of(self, like: np.ndarray) -> "RowSource":
        """Return the same rows in another precision."""
        return replace(self, like=like)

    def mapped(self, function: Callable[[Any], Any]) -> "RowSource":
        """Return the rows as a function of each row by itself makes them.

        It takes and returns NumPy arrays or CSR matrices of several rows, and is
        applied wherever a part is read.
        """
        return replace(
            self,
            like=function(self.like),
            longest=function(self.longest),
            changes=(*self.changes, function),
        )

    def at_rest(self) -> "RowSource":
        """Return the same rows without what was made of them for one fit."""
        return self

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

    # ---- vectors beside it ----------------------------------------------------------

    def holding(self, *vectors: np.ndarray | None) -> "RowSource":
        """Return the rows with vectors beside them, (n, ...) each, which blocks have.

        In place of those that there were.
        """
        parts = [
            [None] * len(self.held) if v is None else self.split(v) for v in vectors
        ]
        held = [
            own._replace(vectors=tuple(_small(part[p]) for part in parts))
            for p, own in enumerate(self.held)
        ]
        return self.with_held(held)

    def with_held(self, held: Sequence[Held]) -> "RowSource":
        """Return the source with something else beside its rows."""
        return replace(self, held=held)

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the entries of a vector, (n, ...), that belong to each part."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    # ---- work ------------------------------------------------------------------------

    def map(self, function: Callable, *common: Any, label: str) -> list:
        """Return ``function(block, *common)`` of every part, in order.

        ``label`` names the work where people look at it, such as "assign-rows".
        """
        every = list(range(len(self.held)))
        return self.each(function, [common] * len(every), every, label, shared=True)

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

    @abc.abstractmethod
    def reduce(
        self, function: Callable, *common: Any, label: str, n_bytes: int = 0
    ) -> Any:
        """Return the merged accumulators ``function(block, *common)`` of all parts.

        ``n_bytes`` is what an accumulator takes, where that is much.
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
        """Return a function of some batches, read up to the last of them."""
        given, call = dict(zip(parts, arguments, strict=True)), self.handling.call
        return [
            call(function, rows, self.held[p], given[p], shared=shared)
            for p, rows in self._batches(max(parts, default=-1) + 1)
            if p in given
        ]

    def reduce(self, function, *common, label, n_bytes=0):
        """Return the accumulators of all batches, merged one after the other."""
        total, call = None, self.handling.call
        for p, rows in self._batches(len(self.held)):
            part = call(function, rows, self.held[p], common, shared=True)
            if total is None:
                total = part
            else:
                total.merge(part)
        return total

    def _batches(self, n_batches: int) -> Iterator[tuple[int, Any]]:
        """Yield the first batches with their numbers; they are what they were."""
        count = 0
        for p, rows in zip(range(n_batches), self.read(), strict=False):
            if rows.shape[0] != self.held[p].n_rows:
                raise ValueError(
                    f"Batch {p} has {rows.shape[0]} rows, and had "
                    f"{self.held[p].n_rows} when it was first read; the batches must "
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
# device and precision that their blocks will have there. What cannot be asked for is
# all of them at once, but blocks (``stream_blocks``), and rows by number
# (``take_rows``).
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HostRows:
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
    """

    values: np.ndarray
    like: Any
    buffer_bytes: int
    order: np.ndarray | None = None
    function: Callable[[Any], Any] | None = None
    width: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n = len(self.values) if self.order is None else len(self.order)
        return n, self.values.shape[1] if self.width is None else self.width

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> Any:
        """Precision of the blocks, in the terms of their library."""
        return self.like.dtype

    @property
    def device(self) -> Any:
        """Where the blocks will be, in the terms of their library."""
        return self.like.device

    def host(self) -> np.ndarray:
        """Return all rows as a NumPy array; a copy if in another order or mapped."""
        values = self.values if self.order is None else self.values[self.order]
        return self.of_block(values)

    def mapped(self, function: Callable[[Any], Any], width: int) -> "HostRows":
        """Return rows whose blocks are mapped where they are copied to."""
        return replace(self, function=function, width=width)

    def of_block(self, block: Any) -> Any:
        """Return a block of rows with ``function``, if there is one, applied to it."""
        return block if self.function is None else self.function(block)

    def part(self, rows: slice | np.ndarray) -> slice | np.ndarray:
        """Return what ``values`` is to be indexed with for these rows."""
        return rows if self.order is None else self.order[rows]

    def in_order(self, order: np.ndarray) -> "HostRows":
        """Return the rows with the given numbers; nothing is copied."""
        return replace(self, order=np.asarray(self.part(order)))

    def in_kind_of(self, like: Any) -> "HostRows":
        """Return the same rows, to be seen in another precision or place."""
        return replace(self, like=like)
