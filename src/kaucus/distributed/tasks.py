"""Run functions as Dask tasks, and merge their results in a tree of fixed order.

The tree depends on the number of partitions and the size of the results alone. So a
sum is the same, to the last bit, for any number of workers, whichever of them is lost.
"""

import contextlib
import functools
import itertools
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import dask
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import Task, TaskRef

from kaucus._array.blocks import (
    format_bytes,
    one_blas_thread,
    parse_bytes,
    resolve_budget,
)
from kaucus._array.rows import FAN_IN, merged

# Of a worker's memory: the rest is for its partitions, and for what Dask keeps.
_WORK_SHARE = 0.4
# For the first worker of a cluster that is being started.
_WAIT_SECONDS = 60
# A merge of two has these, and their sum.
_MERGED_AT_LEAST = 3
# Sums that take little are merged so many at a time: each level of the tree is a
# message to the scheduler and back, in which workers wait.
_WIDE_FAN_IN = 32


class Workforce(NamedTuple):
    """Threads and memory of the workers."""

    n_threads: int
    """Tasks that run at a time, on all workers together."""
    task_bytes: int
    """Bytes that one of them may take."""
    memory: int
    """Bytes of all workers together."""
    threads: Mapping[str, int] = {}
    """Of each worker, by its address; empty for Dask's local scheduler."""


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
    """Return the workers, and the memory available to each of their tasks."""
    client = current_client()
    if client is None:
        n_threads = _local_threads()
        memory = resolve_budget(memory_budget)
        return Workforce(n_threads, max(memory // n_threads, 1), memory)
    if not client.scheduler_info()["workers"]:
        client.wait_for_workers(1, timeout=_WAIT_SECONDS)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    shares, memory = [], 0
    for worker in workers.values():
        limit = worker["memory_limit"] or resolve_budget(None)
        own = int(_WORK_SHARE * limit)
        if memory_budget is not None:
            own = min(own, parse_bytes(memory_budget))
        shares.append(own // worker["nthreads"])
        memory += limit
    threads = {address: worker["nthreads"] for address, worker in workers.items()}
    return Workforce(sum(threads.values()), max(min(shares), 1), memory, threads)


def _local_threads() -> int:
    """Return the number of tasks the local scheduler runs at a time."""
    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    from dask.system import CPU_COUNT

    return int(dask.config.get("num_workers", None) or CPU_COUNT)


def shared_argument(value: Any, label: str) -> Delayed:
    """Return a value that many tasks use, and that is sent once to each worker."""
    name = f"{label}-arguments-{uuid.uuid4().hex}"
    return delayed(value, name=name, pure=False, traverse=False)


def tasks(
    function: Callable,
    label: str,
    arguments: Sequence[tuple],
    homes: Sequence[str] | None = None,
) -> list[Delayed]:
    """Return a task for each tuple of arguments, named for the dashboard.

    Arguments are results of other tasks, arrays, numbers, texts or None; homes are the
    addresses of the workers on which the tasks run, as long as these are there.
    """
    name, used, calls = f"{label}-{uuid.uuid4().hex}", [], {}
    for number, given in enumerate(arguments):
        used += [value for value in given if isinstance(value, Delayed)]
        key = (name, number)
        given = [TaskRef(v.key) if isinstance(v, Delayed) else v for v in given]
        calls[key] = Task(key, function, *given)
    return _nodes(name, calls, used, homes)


def _nodes(
    name: str,
    calls: Mapping[tuple, Task],
    used: Iterable[Delayed],
    homes: Sequence[str] | None = None,
) -> list[Delayed]:
    """Return tasks that are one layer of Dask's graph.

    ``delayed`` makes a layer of each call, which takes twice as long to be built and
    sent (80 tasks and their sum: 140 ms in place of 60), and workers wait meanwhile.
    """
    where = None
    if homes is not None:
        home_of = functools.partial(_home_of, homes)
        where = {"workers": home_of, "allow_other_workers": True}
    layer = MaterializedLayer(calls, annotations=where)
    graph = HighLevelGraph.from_collections(name, layer, dependencies=list(used))
    return [Delayed(key, graph, layer=name) for key in calls]


def _home_of(homes: Sequence[str], key: tuple) -> str:
    return homes[key[1]]


def compute(nodes: Sequence[Delayed]) -> list:
    """Return the results of tasks."""
    with _as_errors_of_ours():
        return list(dask.compute(*nodes, traverse=False))


def persist(nodes: Sequence[Delayed], *, wait: bool = True) -> list[Delayed]:
    """Return the tasks with their results kept in the memory of the workers.

    ``wait`` for these; else tasks that use them may be sent after them at once.
    """
    with _as_errors_of_ours():
        kept = list(dask.persist(*nodes, traverse=False))
        if wait and current_client() is not None:
            import distributed

            distributed.wait(kept)
        return kept


def reduce_tree(
    leaves: Sequence[Delayed], label: str, *, n_bytes: int, force: Workforce
) -> Any:
    """Return the accumulators of all leaves, merged in a fixed order.

    An accumulator takes n_bytes, 0 where they are few; no more leaves are in flight
    than have room.
    """
    if _MERGED_AT_LEAST * n_bytes > force.task_bytes:
        raise MemoryError(
            f"Sums of {format_bytes(n_bytes)} are merged two at a time, which takes "
            f"{format_bytes(_MERGED_AT_LEAST * n_bytes)}; a worker has "
            f"{format_bytes(force.task_bytes)} for each of its threads. Use fewer "
            "representatives, workers with fewer threads or more memory, or a larger "
            "memory_budget."
        )
    fan_in, in_flight = _WIDE_FAN_IN, len(leaves)
    if n_bytes:
        fan_in = FAN_IN if (FAN_IN + 1) * n_bytes <= force.task_bytes else 2
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
        self._label, self._fan_in = label, fan_in
        self._levels: list[list[tuple]] = []
        """Keys of the nodes of each height that are not merged yet."""
        self._begin([])

    def _begin(self, known: list[Delayed]) -> None:
        """Begin a layer of merges, of nodes that are known."""
        self._known = {node.key: node for node in known}
        self._name, self._count = f"{self._label}-{uuid.uuid4().hex}", itertools.count()
        self._merges: dict[tuple, Task] = {}

    def add(self, node: Delayed) -> None:
        """Add a node after those before it."""
        self._known[node.key] = node
        self._put(node.key, 0)

    def _put(self, key: tuple, height: int) -> None:
        if len(self._levels) == height:
            self._levels.append([])
        level = self._levels[height]
        level.append(key)
        if len(level) == self._fan_in:
            self._levels[height] = []
            self._put(self._merged(level), height + 1)

    def _merged(self, keys: list[tuple]) -> tuple:
        key = (self._name, next(self._count))
        self._merges[key] = Task(key, _merged_nodes, *map(TaskRef, keys))
        return key

    def settle(self) -> None:
        """Compute the partial sums, and release what they were made of."""
        self._begin(persist(self._nodes([k for level in self._levels for k in level])))

    def root(self) -> Delayed:
        """Return the sum of all nodes: the highest are the first."""
        keys = [key for level in reversed(self._levels) for key in level]
        while len(keys) > 1:
            keys = [*keys[: -self._fan_in], self._merged(keys[-self._fan_in :])]
        return self._nodes(keys)[0]

    def _nodes(self, keys: Sequence[tuple]) -> list[Delayed]:
        nodes = _nodes(self._name, self._merges, self._known.values())
        found = self._known | {node.key: node for node in nodes}
        return [found[key] for key in keys]


def _merged_nodes(*parts: Any) -> Any:
    return merged(parts)


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
    """Context manager: raise MemoryError where workers are lost repeatedly."""
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
