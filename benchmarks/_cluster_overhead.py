"""What a fit on a cluster costs beside the work on its rows.

Tasks on partitions wait for as long as the work on 25,000 rows would take, in place of
doing it. So workers need no cores of their own, and what is measured is all the rest:
graphs, messages, sums that are merged, uneven shares, and the client's own work for
representatives (not for rows: there are few).
"""

import time
from typing import Any

import numpy as np

from benchmarks._local_cluster import passes_since
from benchmarks._runner import Table, skipped_row

# Rows of a partition, and the fits of which the quickest counts.
N_ROWS, N_FITS = 250, 4
STEP, EQUATIONS = "assign-rows", "add-normal-equations"
# Seconds of a task, as 25,000 rows of 20 columns take them on one core.
SECONDS = {STEP: 0.013, EQUATIONS: 0.22}
_FUNCTIONS = {"assign_part": SECONDS[STEP], "add_part": SECONDS[EQUATIONS]}
HEADERS = [
    "workers",
    "partitions",
    "work of each, s",
    "fit, s",
    "before k-means, s",
    "beside the work of a step, s",
    "beside that of the equations, s",
    "after them, s",
]


def measure_overhead(cluster: Any, options: dict, n_parts: int) -> dict:
    """Fit with workers that wait, and return where the time of the quickest fit went.

    Parameters
    ----------
    cluster : context manager
        Gives the client.
    options : dict
        Of the classifier.
    n_parts : int
        Partitions.
    """
    import dask.array as da

    from distributed import wait

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(N_ROWS * n_parts, 20)).astype(np.float32)
    y = (np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(np.int8)
    with cluster as client:
        n_workers = len(client.run(_wait_in_tasks))
        rows = da.from_array(X, chunks=(N_ROWS, 20)).map_blocks(np.copy).persist()
        labels = da.from_array(y, chunks=N_ROWS).persist()
        wait([rows, labels])
        client.get_task_stream(count=1)  # from now on
        fits = [_fit(client, options, rows, labels) for _ in range(N_FITS)]
    seconds, passes = min(fits, key=lambda fit: fit[0])
    steps, (equations,) = passes[STEP], passes[EQUATIONS]
    shares = {label: s * n_parts / n_workers for label, s in SECONDS.items()}
    period = (equations.start - steps[0].start) / len(steps)
    return {
        "partitions": n_parts,
        "work_seconds": len(steps) * shares[STEP] + shares[EQUATIONS],
        "fit_seconds": seconds,
        "start_seconds": steps[0].start,
        "step_seconds": period - shares[STEP],
        "equations_seconds": equations.end - equations.start - shares[EQUATIONS],
        "end_seconds": seconds - equations.end,
    }


def _fit(client: Any, options: dict, rows, labels):
    """Return the seconds of a fit, and its passes by their names."""
    from kaucus import KMeansKernelClassifier

    start = time.time()
    KMeansKernelClassifier(**options).fit(rows, labels)
    seconds = time.time() - start
    return seconds, passes_since(client, start)


def _wait_in_tasks() -> None:
    """Let the tasks of this worker take as long as larger partitions would."""
    from kaucus import distributed

    work_on_partition = distributed._on_partition

    def _on_partition(work, *arguments):
        start = time.perf_counter()
        found = work_on_partition(work, *arguments)
        wanted = _FUNCTIONS.get(getattr(work.function, "__name__", ""), 0.0)
        time.sleep(max(start + wanted - time.perf_counter(), 0.0))
        return found

    distributed._on_partition = _on_partition


def overhead_table(records: list[dict]) -> Table:
    """Return the table of what comes beside the work."""
    names = ("work", "fit", "start", "step", "equations", "end")
    rows = []
    for record in records:
        head = [str(record["workers"])]
        if "skipped" in record:
            rows.append(skipped_row(head, record, len(HEADERS)))
            continue
        seconds = [f"{record[f'{name}_seconds']:.2f}" for name in names]
        rows.append([*head, str(record["partitions"]), *seconds])
    title = f"Beside the work: workers that wait, quickest of {N_FITS} fits"
    return Table(title, HEADERS, rows)
