"""Rows in the partitions of a Dask collection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dask.delayed import Delayed

from kaucus.backend import Handling, Held, RowSource, as_matrix
from kaucus.distributed._homes import at_home, even_homes
from kaucus.distributed._tasks import (
    Workforce,
    alone_on_its_core,
    compute,
    persist,
    reduce_tree,
    shared_argument,
    tasks,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskRows(RowSource):
    """Rows in the partitions of a Dask array or frame.

    Parameters
    ----------
    partitions : sequence of Delayed
        Each a NumPy array, a CSR matrix or a pandas frame.
    force : Workforce
        Who runs the tasks.
    homes : sequence of str, default=None
        The worker that works on each partition, as long as it is there; None: any.
    """

    partitions: Sequence[Delayed]
    force: Workforce
    homes: Sequence[str] | None = None
    _given: Sequence[Delayed] | None = field(default=None, repr=False)
    """The partitions before some were copied to their homes; None: none was."""
    _beside: Sequence[Delayed] | None = field(default=None, repr=False)
    """What is held beside each partition, sent there once."""

    def shared_out(
        self, places: Sequence[str], threads: Mapping[str, int]
    ) -> "DaskRows":
        """Return the rows with as many for each thread of each worker.

        ``places`` are the workers that have the partitions; a few are copied to others.
        """
        homes = even_homes(places, self.sizes.tolist(), threads)
        copied = at_home(self.partitions, places, homes)
        return replace(self, partitions=copied, homes=homes, _given=self.partitions)

    def at_rest(self) -> "DaskRows":
        """Return the rows without the copies on other workers."""
        given = self.partitions if self._given is None else self._given
        return replace(self, partitions=given, homes=None, _given=None)

    def with_held(self, held: Sequence[Held]) -> "DaskRows":
        """Return the rows with something else beside them, which goes to the workers.

        It stays part of Dask's graph: what a lost worker had is made again.
        """
        given = [(own.n_rows, *own.vectors) for own in held]
        nodes = tasks(_hold, "rows-to-use", given, self.homes)
        return replace(self, held=held, _beside=persist(nodes, wait=False))

    def each(
        self,
        function: Callable,
        arguments: Sequence,
        parts: Sequence[int],
        label: str,
        *,
        shared: bool = False,
    ) -> list:
        """Return a function of some partitions, a task for each."""
        return compute(self._tasks(function, arguments, parts, label, shared))

    def reduce(
        self, function: Callable, *common: Any, label: str, n_bytes: int = 0
    ) -> Any:
        """Return the merged accumulators of all partitions."""
        parts = range(len(self.held))
        leaves = self._tasks(function, [common], parts, label, shared=True)
        return reduce_tree(leaves, label, n_bytes=n_bytes, force=self.force)

    def _tasks(self, function, arguments, parts, label: str, shared: bool):
        common = arguments[0] if shared else None
        work = shared_argument(_Work(function, self.handling, common), label)
        own = [None] * len(parts) if shared else arguments
        beside = [None] * len(self.held) if self._beside is None else self._beside
        return tasks(
            _on_partition,
            label,
            [
                (work, self.partitions[p], beside[p], argument)
                for p, argument in zip(parts, own, strict=True)
            ],
            None if self.homes is None else [self.homes[p] for p in parts],
        )


class _Work(NamedTuple):
    """What all tasks of a pass have in common."""

    function: Callable
    handling: Handling
    common: tuple | None
    """Arguments of every call; None: each has its own."""


def _hold(n_rows: int, *vectors: Any) -> Held:
    return Held(n_rows, vectors)


def _on_partition(work: _Work, partition: Any, held: Held | None, argument: Any) -> Any:
    """Return a function of a partition's rows: the task."""
    function, handling, common = work
    shared = common is not None
    with alone_on_its_core():
        rows, given = as_matrix(partition), common if shared else argument
        held = Held(rows.shape[0]) if held is None else held
        return handling.call(function, rows, held, given, shared=shared)
