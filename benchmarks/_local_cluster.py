"""Clusters of processes on this machine, and the memory that they take."""

import contextlib
import logging
import resource
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

# Dask's own setting gives every array of more than 128 KiB back to the system at once.
KEEP_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 * 2**20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
}


@contextlib.contextmanager
def local_cluster(n_workers: int, memory: str, device: str | None = None):
    """Context manager: a cluster of processes with one thread each, and its client.

    Workers and client have imported what they need, and know their ``device``.
    """
    import dask

    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    options = {"threads_per_worker": 1, "memory_limit": memory, "processes": True}
    with (
        dask.config.set(KEEP_MEMORY),
        LocalCluster(n_workers=n_workers, dashboard_address=":0", **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(_prepare, device)
        _prepare(device)
        yield client


def _prepare(device: str | None) -> None:
    """Import kaucus; multiply on the device, which takes seconds the first time."""
    import kaucus.distributed
    import kaucus.estimators

    assert kaucus.distributed.__name__ < kaucus.estimators.__name__
    if device is not None:
        import torch

        ones = torch.ones((2, 2), device=device)
        assert float((ones @ ones).sum()) == 8.0


class Pass(NamedTuple):
    """The tasks of one pass over the partitions, in seconds since some moment."""

    start: float
    """Of the first of them."""
    end: float
    """Of the last."""
    work: float
    """Of all of them together."""


def passes_since(client: Any, start: float) -> dict[str, list[Pass]]:
    """Return the passes over partitions since a moment of ``time.time``, by name.

    ``client.get_task_stream(count=1)`` must have been called before that moment.
    """
    times = defaultdict(list)
    for task in client.get_task_stream(start=start):
        if isinstance(task["key"], tuple):
            times[task["key"][0]] += [
                (own["start"] - start, own["stop"] - start)
                for own in task["startstops"]
                if own["action"] == "compute"
            ]
    passes = defaultdict(list)
    for name, own in times.items():
        starts, ends = zip(*own, strict=True)
        work = sum(ends) - sum(starts)
        passes[name.rpartition("-")[0]].append(Pass(min(starts), max(ends), work))
    return {label: sorted(found) for label, found in passes.items()}


def peak_of_process() -> int:
    """Return the largest resident set that this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # where ru_maxrss begins with that of the parent
        lines = status.read_text().splitlines()
        return 1024 * int(next(line for line in lines if "VmHWM" in line).split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_of_workers() -> int | None:
    """Return the largest resident set of a worker, None without a cluster."""
    from distributed import default_client

    try:
        return max(default_client().run(peak_of_process).values())
    except ValueError:
        return None


@contextlib.contextmanager
def quiet():
    """Context manager without warnings: k-means is stopped after ten steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
