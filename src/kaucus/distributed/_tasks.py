"""Run functions as Dask tasks, and merge their results in a tree of fixed order.

The tree depends on the number of partitions and the size of the results alone. So a
sum is the same, to the last bit, for any number of workers, whichever of them is lost.
"""

import contextlib
import itertools
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import dask
from dask.delayed import Delayed, delayed

from kaucus.backend import (
    FAN_IN,
    format_bytes,
    merged,
    one_blas_thread,
    parse_bytes,
    resolve_budget,
)

# Of a worker's memory: the rest is for its partitions, and for what Dask keeps.
_WORK_SHARE = 0.4
# For the first worker of a cluster that is being started.
_WAIT_SECONDS = 60
# A merge of two has these, and their sum.
_MERGED_AT_LEAST = 3


class Workforce(NamedTuple):
    """Who runs the tasks."""

    n_threads: int
    """Tasks that run at a time, on all workers together."""
    task_bytes: int
    """Bytes that one of them may take."""
    memory: int
    """Bytes of all workers together."""


def current_client() -> Any:
    """Return the client that tasks go to; None for Dask's local scheduler."""
    if "distributed" not in sys.modules:  # then nobody has made one
        return None
    asked_for = dask.config.get("scheduler", None)
    if asked_for not in (None, "dask.distributed", "distributed"):
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def workforce(memory_budget: int | str | None) -> Workforce:
    """Return who runs the tasks, where each worker may take ``memory_budget`` bytes."""
    client = current_client()
    if client is None:
        n_threads = _local_threads()
        memory = resolve_budget(memory_budget)
        return Workforce(n_threads, max(memory // n_threads, 1), memory)
    if not client.scheduler_info()["workers"]:
        client.wait_for_workers(1, timeout=_WAIT_SECONDS)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    shares, memory, n_threads = [], 0, 0
    for worker in workers:
        limit = worker["memory_limit"] or resolve_budget(None)
        own = int(_WORK_SHARE * limit)
        if memory_budget is not None:
            own = min(own, parse_bytes(memory_budget))
        shares.append(own // worker["nthreads"])
        memory, n_threads = memory + limit, n_threads + worker["nthreads"]
    return Workforce(n_threads, max(min(shares), 1), memory)


def _local_threads() -> int:
    """Return how many tasks the local scheduler runs at a time."""
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    from dask.system import CPU_COUNT

    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def shared_argument(value: Any, label: str) -> Delayed:
    """Return a value that many tasks use, and that is sent once to each worker."""
    name = f"{label}-arguments-{uuid.uuid4().hex}"
    return delayed(value, name=name, pure=False, traverse=False)


def tasks(function: Callable, label: str, arguments: Sequence[tuple]) -> list[Delayed]:
    """Return a task for each tuple of arguments, named for the dashboard."""
    name, call = f"{label}-{uuid.uuid4().hex}", delayed(function, pure=False)
    return [
        call(*given, dask_key_name=(name, number))
        for number, given in enumerate(arguments)
    ]


def compute(nodes: Sequence[Delayed]) -> list:
    """Return the results of tasks."""
    with _as_errors_of_ours():
        return list(dask.compute(*nodes, traverse=False))


def persist(nodes: Sequence[Delayed]) -> list[Delayed]:
    """Return the tasks with their results kept where they are; wait for these."""
    with _as_errors_of_ours():
        kept = list(dask.persist(*nodes, traverse=False))
        if current_client() is not None:
            from distributed import wait

            wait(kept)
        return kept


def reduce_tree(
    leaves: Sequence[Delayed], label: str, *, n_bytes: int, force: Workforce
) -> Any:
    """Return the accumulators of all leaves as one, merged in an order of their own.

    Parameters
    ----------
    leaves : sequence of Delayed
        Each an accumulator with ``merge``.
    label : str
        Names the merging tasks.
    n_bytes : int
        Bytes of an accumulator; no more leaves are in flight than have room.
    force : Workforce
    """
    if _MERGED_AT_LEAST * n_bytes > force.task_bytes:
        raise MemoryError(
            f"Sums of {format_bytes(n_bytes)} are merged two at a time, which takes "
            f"{format_bytes(_MERGED_AT_LEAST * n_bytes)}; a worker has "
            f"{format_bytes(force.task_bytes)} for each of its threads. Use fewer "
            "representatives, workers with fewer threads or more memory, or a larger "
            "memory_budget."
        )
    fan_in = FAN_IN if (FAN_IN + 1) * n_bytes <= force.task_bytes else 2
    in_flight = len(leaves)
    if n_bytes:
        in_flight = force.n_threads * max(force.task_bytes // (2 * n_bytes), 1)
    tree = _Tree(f"merge-{label}", fan_in)
    for count, leaf in enumerate(leaves, 1):
        tree.add(leaf)
        if count % in_flight == 0 and count < len(leaves):
            tree.settle()
    return compute([tree.root()])[0]


class _Tree:
    """Merges nodes as they come: so many of one height become one of the next."""

    def __init__(self, label: str, fan_in: int):
        self._name, self._count = f"{label}-{uuid.uuid4().hex}", itertools.count()
        self._fan_in = fan_in
        self._levels: list[list[Delayed]] = []

    def add(self, node: Delayed, height: int = 0) -> None:
        """Add a node after those before it."""
        if len(self._levels) == height:
            self._levels.append([])
        level = self._levels[height]
        level.append(node)
        if len(level) == self._fan_in:
            self._levels[height] = []
            self.add(self._merged(level), height + 1)

    def settle(self) -> None:
        """Compute what is known, and forget what it was made of."""
        settled = iter(persist([node for level in self._levels for node in level]))
        self._levels = [[next(settled) for _ in level] for level in self._levels]

    def root(self) -> Delayed:
        """Return the sum of all nodes: the highest are the first."""
        nodes = [node for level in reversed(self._levels) for node in level]
        while len(nodes) > 1:
            nodes = [*nodes[: -self._fan_in], self._merged(nodes[-self._fan_in :])]
        return nodes[0]

    def _merged(self, nodes: list[Delayed]) -> Delayed:
        key = (self._name, next(self._count))
        return delayed(merged, pure=False)(nodes, dask_key_name=key)


@contextlib.contextmanager
def alone_on_its_core() -> Iterator[None]:
    """Context manager of a task: BLAS has one thread where tasks run side by side."""
    side_by_side = _local_threads() > 1
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):  # no worker: the local scheduler
            side_by_side = get_worker().state.nthreads > 1
    with one_blas_thread() if side_by_side else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _as_errors_of_ours() -> Iterator[None]:
    """Context manager: a worker that is lost again and again is a lack of memory."""
    quiet = contextlib.nullcontext()
    if current_client() is not None:
        # Labels and weights of the rows are part of the graph, on purpose: what a lost
        # worker had can be made again.
        option = "distributed.admin.large-graph-warning-threshold"
        quiet = dask.config.set({option: "1TiB"})
    try:
        with quiet:
            yield
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise MemoryError(
            f"Workers were lost again and again at the same work ({error}), which is "
            "most often a lack of memory. Use smaller partitions, fewer "
            "representatives, workers with fewer threads or more memory, or a smaller "
            "memory_budget."
        ) from error
