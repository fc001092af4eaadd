"""Which worker works on which partition: as many rows for each of their threads.

Dask sends a task to a worker that has the data, and looks only once a second whether
others are idle. A pass of k-means is shorter than that, and takes as long as the worker
with the most rows. Where partitions were read quickly, some workers have twice as many
of them as others. So a few partitions are copied, once, to workers that have less.
"""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dask.delayed import Delayed

from kaucus.distributed._tasks import persist, tasks


def here() -> str | None:
    """Return the address of the worker on which a task runs; None without workers."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with contextlib.suppress(ValueError):  # no worker: the local scheduler
            return get_worker().address
    return None


def even_homes(
    places: Sequence[str], n_rows: Sequence[int], threads: Mapping[str, int]
) -> list[str]:
    """Return the worker of each partition; as few as possible are not where they are.

    One after the other is moved from the worker that has the most rows for each of its
    threads to the one that has the least, as long as the larger number gets smaller.

    Parameters
    ----------
    places : sequence of str
        The worker that has each partition.
    n_rows : sequence of int
        Of each partition.
    threads : mapping of str to int
        Of each worker.

    Examples
    --------
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
    """Return the partitions with copies of those that are elsewhere.

    The copies are tasks: where a worker is lost, they are made again.
    """
    away = [p for p in range(len(homes)) if homes[p] != places[p]]
    given = [(partitions[p],) for p in away]
    copies = tasks(_as_it_is, "move-rows", given, [homes[p] for p in away])
    found = list(partitions)
    for p, copy in zip(away, persist(copies, wait=False), strict=True):
        found[p] = copy
    return found


def _as_it_is(partition: Any) -> Any:
    return partition
