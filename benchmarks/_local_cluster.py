"""Clusters of processes on this machine, and the memory that they take."""

import contextlib
import logging
import resource
import warnings

# Dask's own setting gives every array of more than 128 KiB back to the system at once.
KEEP_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 * 2**20,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
}


@contextlib.contextmanager
def local_cluster(n_workers: int, memory: str):
    """Context manager: a cluster of processes with one thread each, and its client."""
    import dask

    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    options = {"threads_per_worker": 1, "memory_limit": memory, "processes": True}
    with (
        dask.config.set(KEEP_MEMORY),
        LocalCluster(n_workers=n_workers, dashboard_address=":0", **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(_import_kaucus)
        yield client


def _import_kaucus() -> None:
    import kaucus.distributed
    import kaucus.estimators

    assert kaucus.distributed.__name__ < kaucus.estimators.__name__


def peak_of_process() -> int:
    """Return the largest resident set that this process has had, in bytes."""
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
