"""Dask partitions as rows: tasks, reductions, lazy results.

The only module that imports dask. Tasks go to the current client if there is one, else
to Dask's local scheduler; no cluster is started here.
"""

import contextlib
import copy
import functools
import itertools
import math
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.sizeof import sizeof
from dask.task_spec import Task, TaskRef

from kaucus._array.blocks import (
    format_bytes,
    one_blas_thread,
    parse_bytes,
    resolve_budget,
)
from kaucus._array.namespace import is_sparse, to_device, warn_user
from kaucus._array.rows import (
    FAN_IN,
    Look,
    RowSource,
    as_matrix,
    look_at,
    merged,
    summary_of,
)

# ----------------------------------------------------------------------------------
# Run functions as Dask tasks, and merge their results in a tree of fixed order.
#
# The tree depends on the number of partitions and the size of the results alone. So a
# sum is the same, to the last bit, for any number of workers, whichever of them is
# lost.
# ----------------------------------------------------------------------------------

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
    """Tree of merges: nodes of one height are merged into one of the next."""

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
        """Append a node."""
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
        """Compute the partial sums; release their inputs."""
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
    worker = _worker()
    side_by_side = (_local_threads() if worker is None else worker.state.nthreads) > 1
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


# ----------------------------------------------------------------------------------
# Which worker works on which partition: as many rows for each of their threads.
#
# Dask sends a task to a worker that has the data, and looks only once a second whether
# others are idle. A pass of k-means is shorter than that, and takes as long as the
# worker with the most rows. Where partitions were read quickly, some workers have twice
# as many of them as others. So a few partitions are copied, once, to workers that have
# less.
# ----------------------------------------------------------------------------------


def here() -> str | None:
    """Return the address of the worker on which a task runs; None without workers."""
    worker = _worker()
    return None if worker is None else worker.address


def _worker() -> Any:
    """Return the worker on which a task runs; None for Dask's local scheduler."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):
            return get_worker()
    return None


def even_homes(
    places: Sequence[str], n_rows: Sequence[int], threads: Mapping[str, int]
) -> list[str]:
    """Return the worker of each partition, balanced by rows with few moves.

    One after the other is moved from the worker that has the most rows for each of its
    threads to the one that has the least, as long as the larger number gets smaller.

    >>> even_homes(["a", "a", "a", "b"], [5, 5, 5, 5], {"a": 1, "b": 1})
    ['b', 'a', 'a', 'b']
    """
    threads = {**dict.fromkeys(places, 1), **threads}
    homes, load = list(places), dict.fromkeys(threads, 0.0)
    parts: dict[str, list[int]] = {worker: [] for worker in threads}
    for p, worker in enumerate(places):
        load[worker] += n_rows[p] / threads[worker]
        parts[worker].append(p)
    while True:
        most = max(load, key=load.__getitem__)
        least = min(load, key=load.__getitem__)
        room = (load[most] - load[least]) * threads[least]
        fitting = [p for p in parts[most] if 0 < n_rows[p] < room]
        if not fitting:
            return homes
        part = max(fitting, key=lambda p: n_rows[p])
        homes[part] = least
        parts[most].remove(part)
        parts[least].append(part)
        load[most] -= n_rows[part] / threads[most]
        load[least] += n_rows[part] / threads[least]


def at_home(
    partitions: Sequence[Delayed], places: Sequence[str], homes: Sequence[str]
) -> list[Delayed]:
    """Return the partitions, each on its worker: some are copied there.

    The copies are tasks: where a worker is lost, they are made again.
    """
    away = [p for p in range(len(homes)) if homes[p] != places[p]]
    given = [(partitions[p],) for p in away]
    copies = tasks(_as_it_is, "move-rows", given, [homes[p] for p in away])
    found = list(partitions)
    for p, here in zip(away, persist(copies, wait=False), strict=True):
        found[p] = here
    return found


def _as_it_is(partition: Any) -> Any:
    return partition


# ----------------------------------------------------------------------------------
# Rows in the partitions of a Dask collection.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskRows(RowSource):
    """Rows in the partitions of a Dask array or frame."""

    partitions: Sequence[Delayed]
    """Each a NumPy array, a CSR matrix or a pandas frame."""
    force: Workforce
    homes: Sequence[str] | None = None
    """The preferred worker of each partition; None: any."""
    _given: Sequence[Delayed] | None = field(default=None, repr=False)
    """The partitions before some were copied to their homes; None: none was."""

    def shared_out(
        self, places: Sequence[str], threads: Mapping[str, int]
    ) -> "DaskRows":
        """Return the rows balanced over the threads of the workers.

        ``places`` are the workers that have the partitions; a few are copied to others.
        """
        homes = even_homes(places, self.sizes, threads)
        copied = at_home(self.partitions, places, homes)
        return replace(self, partitions=copied, homes=homes, _given=self.partitions)

    def at_rest(self) -> "DaskRows":
        """Return the rows in their original partitions."""
        given = self.partitions if self._given is None else self._given
        return replace(self, partitions=given, homes=None, _given=None)

    def _with_vectors(self, vectors: Sequence[tuple]) -> "DaskRows":
        """Send the vectors of each partition to its worker, once.

        They stay part of Dask's graph: those of a lost worker are sent again.
        """
        nodes = tasks(_together, "rows-to-use", vectors, self.homes)
        return replace(self, vectors=persist(nodes, wait=False))

    def each(self, function, arguments, parts, label, *, shared=False) -> list:
        """Return a function of some partitions, a task for each."""
        return compute(self._tasks(function, arguments, parts, label, shared))

    def reduce(self, function, *common, label: str, n_bytes: int = 0) -> Any:
        """Return the merged accumulators of all partitions."""
        parts = range(len(self.sizes))
        leaves = self._tasks(function, [common], parts, label, shared=True)
        return reduce_tree(leaves, label, n_bytes=n_bytes, force=self.force)

    def _tasks(self, function, arguments, parts, label: str, shared: bool):
        common = arguments[0] if shared else None
        work = shared_argument((function, self.handling, common), label)
        own = [None] * len(parts) if shared else arguments
        vectors = [()] * len(self.sizes) if self.vectors is None else self.vectors
        given = [
            (work, self.partitions[p], vectors[p], argument)
            for p, argument in zip(parts, own, strict=True)
        ]
        homes = None if self.homes is None else [self.homes[p] for p in parts]
        return tasks(_on_partition, label, given, homes)


def _together(*vectors: Any) -> tuple:
    return vectors


def _on_partition(work: tuple, partition: Any, vectors: tuple, argument: Any) -> Any:
    """Task: return a function of a partition's rows.

    The tasks of a pass share function, handling, and the arguments in common; if these
    are None, each has its own.
    """
    function, handling, common = work
    shared = common is not None
    with alone_on_its_core():
        rows, given = as_matrix(partition), common if shared else argument
        return handling.call(function, rows, vectors, given, shared=shared)


# ----------------------------------------------------------------------------------
# From Dask collections to rows that the core can work on: checked, and counted.
# ----------------------------------------------------------------------------------

# A partition, a copy of it in another order or precision, and what is made of it.
_COPIES = 3
# Constants in Dask's graph that are smaller than this are no rows.
_LARGE = 1000


def partitions_of(X: Any) -> list[Delayed]:
    """Return the partitions of a Dask array or frame, each with all its columns."""
    if not hasattr(X, "chunks") or X.ndim == 1:  # a frame, or a vector
        return list(X.to_delayed())
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return list(X.to_delayed()[:, 0])


def rows_of(
    X: Any,
    types: tuple,
    *,
    memory_budget: int | str | None,
    device: str | None,
    name: str,
    reads_often: bool = True,
) -> DaskRows:
    """Return the rows of a Dask array or frame, checked, in the first of the types.

    ValueError: a partition has an entry that is not finite. MemoryError: a worker has
    no room for a partition and work on it. The budget is each worker's, by default two
    fifths of its memory.
    """
    _check_columns(X, name)
    if device not in (None, "cpu") and is_sparse(getattr(X, "_meta", None)):
        raise ValueError(
            f"device={device!r} takes dense data only; the partitions of X are sparse. "
            "Use device=None, or X.map_blocks(lambda block: block.toarray())."
        )
    force = workforce(memory_budget)
    dtype, d = _dtype_of(X, types), int(X.shape[1])
    # At once where numbers of rows are known.
    known = [n for n in getattr(X, "chunks", ((),))[0] if not math.isnan(n)]
    if known and not is_sparse(X._meta):
        _check_room(max(known), dtype, d, force.task_bytes)
    given = partitions_of(X)
    seen = compute(tasks(_look_at_partition, "look-at-rows", [(p,) for p in given]))
    looks, places = [look for look, _ in seen], [place for _, place in seen]
    like, columns = np.zeros((1, d), dtype), list(getattr(X, "columns", range(d)))
    summary = summary_of(looks, like, "partition", columns, name)
    sizes = summary["sizes"]
    _check_room(max(sizes, default=0), dtype, d, force.task_bytes)
    in_memory, n_bytes = reads_often and _is_in_memory(X), sum(sizes) * like.nbytes
    if reads_often and not in_memory and 2 * n_bytes <= force.memory:
        warn_user(
            "X is not in memory: it is read, made or sent anew in every pass over it, "
            f"of which there are dozens. Its rows take {format_bytes(n_bytes)}, and "
            f"there are {format_bytes(force.memory)}; write X = X.persist() before "
            "fit.",
            UserWarning,
        )
    place = None
    if device not in (None, "cpu"):
        place = functools.partial(to_device, device=device)
    options = {"budget": force.task_bytes, "place": place}
    rows = DaskRows(**summary, **options, partitions=given, force=force)
    if in_memory and force.threads:
        return rows.shared_out(places, force.threads)
    return rows


def values_of(y: Any) -> np.ndarray:
    """Return labels, targets or weights of a Dask collection as a NumPy array."""
    given = [(part,) for part in partitions_of(y)]
    parts = compute(tasks(np.asarray, "gather-values", given))
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


def _look_at_partition(partition: Any) -> tuple[Look, str | None]:
    """Return the summary of a partition, and the worker that holds it."""
    return look_at(as_matrix(partition)), here()


# ---- checks, the cheapest first ------------------------------------------------------


def _check_columns(X: Any, name: str) -> None:
    """Check shape and types, which are known before anything is computed."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D rows, got a Dask collection of {X.ndim} axes. Reshape it: "
            "X.reshape(-1, 1) if it has a single feature."
        )
    if hasattr(X, "columns"):
        kinds = [(str(c), t) for c, t in X.dtypes.items() if not _is_number(t)]
        if kinds:
            shown = ", ".join(f"{c!r} ({t})" for c, t in kinds[:5])
            raise ValueError(
                f"{name} needs numbers; of the columns of X, {shown} are not. Leave "
                "them out, or encode them, for example with X.categorize() and "
                "dask.dataframe.get_dummies."
            )
        return
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} needs numbers; X is of dtype {X.dtype}. Convert it with "
            "X.astype('float64')."
        )


def _is_number(kind: Any) -> bool:
    kind = getattr(kind, "numpy_dtype", kind)  # of pandas' types with missing values
    return getattr(kind, "kind", "O") in "fiub"


def _dtype_of(X: Any, types: tuple) -> np.dtype:
    """Return the precision in which rows are worked on."""
    kinds = X.dtypes.to_list() if hasattr(X, "columns") else [X.dtype]
    found = np.result_type(*(getattr(kind, "numpy_dtype", kind) for kind in kinds))
    return np.dtype(found if found in [np.dtype(t) for t in types] else types[0])


def _check_room(n_rows: int, dtype: np.dtype, d: int, budget: int) -> None:
    """Check that a partition and the work on it fit into a worker's memory."""
    n_bytes = n_rows * d * dtype.itemsize
    if _COPIES * n_bytes <= budget:
        return
    fitting = max(budget // (_COPIES * d * dtype.itemsize), 1)
    raise MemoryError(
        f"A partition of X has {n_rows:,} rows, {format_bytes(n_bytes)}; work on it "
        f"takes {_COPIES} times as much, and a worker has {format_bytes(budget)} for "
        f"each of its threads. Make partitions of at most {fitting:,} rows (X.rechunk, "
        "or repartition of a frame), or use workers with fewer threads, more memory, "
        "or a larger memory_budget."
    )


def _is_in_memory(X: Any) -> bool:
    """Return True if the data behind X is in the memory of the workers.

    Columns chosen from persisted data, or predictions made of it, count as well.
    """
    graph = X.optimize() if hasattr(X, "columns") else X
    nodes = dict(graph.__dask_graph__()).values()
    sources = [node for node in nodes if not getattr(node, "dependencies", ())]
    values = [getattr(node, "value", node) for node in sources]
    kinds = {type(value).__name__ for value in values if not _is_constant(value)}
    if current_client() is not None:
        return kinds <= {"Future"}
    return kinds <= {"ndarray", "csr_array", "csr_matrix", "DataFrame", "Series"}


def _is_constant(value: Any) -> bool:
    """Return True if a value in Dask's graph is a model or a small constant."""
    if hasattr(value, "get_params"):
        return True
    plain = isinstance(value, np.ndarray) or type(value).__module__ == "builtins"
    return plain and sizeof(value) < _LARGE


# ----------------------------------------------------------------------------------
# Methods of fitted models on Dask collections: lazy arrays, and scores that reduce.
# ----------------------------------------------------------------------------------


def lazy_method(
    model: Any, method: str, X: Any, options: Mapping[str, Any] | None = None
) -> da.Array:
    """Return a method of a fitted model on X, lazily: a Dask array in X's chunks."""
    call = functools.partial(_call, method, dict(options or {}))
    # As it is now: the model may be fitted again before the array is asked for.
    model = copy.copy(model)
    model._warnings_left = []  # the row of zeros is none of the user's
    like = call(model, _one_row(X))  # also checks names and columns
    model._warnings_left = [True]  # one for all partitions
    parts, shared = partitions_of(X), shared_argument(model, method)
    sizes = X.chunks[0] if hasattr(X, "chunks") else (math.nan,) * len(parts)
    given = [(shared, call, part, like[:0], p) for p, part in enumerate(parts)]
    nodes = tasks(_on_rows, method, given)
    arrays = [
        da.from_delayed(node, shape=(n, *like.shape[1:]), meta=like[:0])
        for node, n in zip(nodes, sizes, strict=True)
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _one_row(X: Any) -> Any:
    """Return a row of zeros of the kind of X's partitions."""
    if hasattr(X, "columns"):
        return (X._meta_nonempty.iloc[:1] * 0).astype(X._meta.dtypes)
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D rows, got a Dask array of {X.ndim} axes. Reshape it: "
            "X.reshape(-1, 1) if it has a single feature."
        )
    row = np.zeros((1, X.shape[1]), X.dtype)
    return type(X._meta)(row) if is_sparse(X._meta) else row


def _call(method: str, options: dict, model: Any, rows: Any) -> Any:
    return getattr(model, method)(rows, **options)


def _on_rows(model: Any, call: Any, rows: Any, nothing: np.ndarray, number: int) -> Any:
    """Task: return a method of a partition's rows, no results of an empty one."""
    if rows.shape[0] == 0:
        return nothing
    with alone_on_its_core(), _errors_of(number):
        return call(model, rows)


@contextlib.contextmanager
def _errors_of(number: int) -> Iterator[None]:
    """Context manager: name the partition in errors of its rows."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {number} of X: {error}") from error


# ---- scores --------------------------------------------------------------------------


def partition_scores(function: Callable, model: Any, X: Any, *vectors: Any) -> list:
    """Return ``function(model, rows, *vectors)`` of every partition that has rows.

    Vectors that are no Dask collections are cut as X is; None stays None.
    """
    model = copy.copy(model)
    model._warnings_left = [True]  # one for all partitions
    parts, shared = partitions_of(X), shared_argument(model, "score")
    columns = [_parts_of(v, X, parts) for v in vectors]
    pairs = enumerate(zip(parts, *columns, strict=True))
    given = [(shared, function, p, *values) for p, values in pairs]
    nodes = tasks(_score_rows, "score", given)
    return [score for score in compute(nodes) if score is not None]


def _score_rows(model, function, number: int, rows: Any, *vectors: Any) -> Any:
    """Task: return the scores of a partition, None of an empty one."""
    if rows.shape[0] == 0:
        return None
    for values in vectors:
        if values is not None and len(values) != rows.shape[0]:
            raise ValueError(
                f"A partition of X has {rows.shape[0]} rows, that of y or "
                f"sample_weight {len(values)}; partition them alike, for example with "
                "rechunk."
            )
    with alone_on_its_core(), _errors_of(number):
        return function(model, rows, *vectors)


def _parts_of(values: Any, X: Any, parts: list) -> list:
    """Return the part of a vector that belongs to each partition."""
    if values is None:
        return [None] * len(parts)
    if hasattr(values, "__dask_graph__"):
        own = partitions_of(values)
        if len(own) != len(parts):
            raise ValueError(
                f"X has {len(parts)} partitions and y or sample_weight {len(own)}; "
                "partition them alike, for example with rechunk."
            )
        return own
    sizes = compute(tasks(_n_rows, "count-rows", [(part,) for part in parts]))
    values = np.asarray(values)
    if len(values) != sum(sizes):
        raise ValueError(
            f"X has {sum(sizes)} rows, y or sample_weight {len(values)}; expected one "
            "for each row."
        )
    return np.split(values, np.cumsum(sizes)[:-1])


def _n_rows(rows: Any) -> int:
    return rows.shape[0]


def _score(model: Any, rows, weight) -> float:
    """Return the weighted sum of the scores of rows."""
    scores = model._row_scores(rows)
    return float(scores.sum() if weight is None else np.asarray(weight) @ scores)


def _right(model: Any, rows, y, weight) -> tuple[float, float]:
    """Return the weights of the correctly predicted rows and of all rows."""
    weight = np.ones(rows.shape[0]) if weight is None else np.asarray(weight)
    right = np.asarray(model.predict(rows)) == np.ravel(np.asarray(y))
    return float(weight @ right), float(weight.sum())


def _spread(model: Any, rows, y, weight) -> np.ndarray:
    """Return Σ w, the mean of y, Σ w (y − ȳ)² and Σ w (y − f)², (4, t)."""
    weight = np.ones(rows.shape[0]) if weight is None else np.asarray(weight)
    y = np.asarray(y, dtype=np.float64).reshape(rows.shape[0], -1)
    f = np.asarray(model.predict(rows), dtype=np.float64).reshape(y.shape)
    total = max(weight.sum(), 1e-300)
    mean = weight @ y / total
    squares = [weight @ (y - mean) ** 2, weight @ (y - f) ** 2]
    return np.stack([np.full_like(mean, total), mean, *squares])


def score_sum(model: Any, X: Any, sample_weight: Any) -> float:
    """Return the weighted sum of ``model._row_scores`` over all rows."""
    return float(sum(partition_scores(_score, model, X, sample_weight)))


def score_accuracy(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the share of rows whose class is predicted right."""
    found = partition_scores(_right, model, X, y, sample_weight)
    right, total = np.sum(found, axis=0)
    return float(right / total)


def score_r2(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return R², the mean over the outputs."""
    found = partition_scores(_spread, model, X, y, sample_weight)
    n, means, within, residuals = np.moveaxis(np.stack(found), 1, 0)  # (parts, t) each
    mean = (n * means).sum(axis=0) / n.sum(axis=0)
    spread = (within + n * (means - mean) ** 2).sum(axis=0)
    residual = residuals.sum(axis=0)
    share = np.where(residual > 0, 1.0, 0.0)  # of a constant output
    np.divide(residual, spread, out=share, where=spread > 0)
    return float(np.mean(1 - share))
