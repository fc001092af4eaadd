"""`KMeansKernelClassifier` on Dask clusters, beside one process and the Bayes error.

    python -m benchmarks cluster [--quick] [--sizes N ...] [--workers W ...]
                                 [--parts fit growth workers kills covtype gpu overhead]

The largest of `--sizes` is for `fit`, `workers` and `gpu`, all are for `growth`, which
takes the largest from `fit` where both are asked for. Rows are written to the folder of
temporary files, about 160 bytes each.
"""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks._cluster_data import bayes_error, test_rows, write_files
from benchmarks._cluster_overhead import measure_overhead, overhead_table
from benchmarks._local_cluster import (
    local_cluster,
    passes_since,
    peak_of_process,
    peak_of_workers,
    quiet,
)
from benchmarks._runner import Content, Settings, Step, Table, ratio, skipped_row
from benchmarks.kmeans_kernel import fitted_exponent
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import timed
from papers._figures import figure_file

TITLE = "On Dask clusters"
ABOUT = (
    "`python -m benchmarks cluster`: 20 float32 columns and two classes with a known "
    "Bayes error, from Parquet; 1,000 representatives, at most ten steps of k-means; "
    "kernel, gamma and C are given. A LocalCluster whose workers have one thread and "
    "3 GiB each, and keep freed memory (docs/guide/scaling.md); one process reads the "
    "same rows from a memory map, with as many BLAS threads. The time of a fit is what "
    "comes after the rows are in the workers' memory; reading them is told apart. "
    "Busy: the share of it in which a worker is at a task. Memory: the largest "
    "resident set of a worker, or of the process."
)
PARTS = ("fit", "growth", "workers", "kills", "covtype", "gpu", "overhead")
SIZES = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000)
QUICK_SIZES = (50_000, 100_000, 200_000)
WORKERS = (1, 2, 4, 8, 16)
N_KILLS, KILL_ROWS = 20, 20_000
MODEL = {
    "n_representatives": 500,  # of each of the two classes
    "C": 1.0,
    "kernel": "rbf",
    "gamma": 0.3,
    "random_state": 0,
    "kmeans_params": {"max_iter": 10, "tol": 1e-3},
}
WORKER_MEMORY = "3GiB"
N_TEST = 200_000
DASK = ("dask.dataframe", "distributed", "pyarrow", "sklearn", "kaucus.estimators")


def steps(settings: Settings) -> list[Step]:
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    parts = settings.parts or PARTS[:5]
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise FileNotFoundError(f"--parts {unknown}: there are {list(PARTS)}")
    n, workers = max(sizes), settings.workers or WORKERS
    found = []
    if "fit" in parts:
        found += [_cluster_step("fit", n, 2), _process_step("fit", n, 2)]
    if "growth" in parts:
        below = [size for size in sorted(sizes) if size < n or "fit" not in parts]
        found += [_cluster_step("growth", size, 2, of=n) for size in below]
    if "workers" in parts:
        found += [_cluster_step("workers", n, w) for w in workers]
        found.append(_process_step("workers", n, max(workers)))
    if "gpu" in parts:
        found.append(_cluster_step("workers", n, 1, device=settings.device or "cuda"))
    if "overhead" in parts:
        for w in settings.workers or (8,):
            head, label = {"workers": w}, f"{w} workers that wait"
            found.append(Step("overhead", label, fit_waiting, (w,), head, DASK))
    if "kills" in parts:
        n_kills = 3 if settings.quick else N_KILLS
        head = {"what": "kills"}
        found.append(Step("kills", "kills", kill_workers, (n_kills,), head, DASK))
    if "covtype" in parts:
        args = (settings.data_home, 20_000 if settings.quick else None)
        found.append(
            Step("covtype", "covtype", fit_covtype, args, {"what": "covtype"}, DASK)
        )
    return found


def _cluster_step(
    section: str, n: int, n_workers: int, *, of=None, device=None
) -> Step:
    head = {"rows": n, "workers": n_workers, "how": "Dask", "device": device}
    args = (n, of or n, n_workers, device)
    label = f"{n:,} rows, {n_workers} workers"
    return Step(section, label, fit_on_cluster, args, head, DASK)


def _process_step(section: str, n: int, n_threads: int) -> Step:
    head = {"rows": n, "workers": n_threads, "how": "one process", "device": None}
    label = f"{n:,} rows, one process, {n_threads} threads"
    return Step(section, label, fit_in_process, (n, n_threads), head, DASK)


def data_folder() -> Path:
    """Return where rows are written."""
    return Path(tempfile.gettempdir()) / "kaucus-cluster-rows"


# ---- what is measured ----------------------------------------------------------------


def fit_on_cluster(n: int, of: int, n_workers: int, device: str | None) -> dict:
    """Fit the first n of the rows from Parquet, and predict, on a local cluster."""
    import dask.dataframe as dd

    from distributed import wait

    files = write_files(data_folder(), of).parquet
    memory = WORKER_MEMORY if device is None else "64GiB"
    with local_cluster(n_workers, memory, device) as client:
        frame = dd.read_parquet(files[: -(-len(files) * n // of)])
        rows, labels = frame.drop(columns="label"), frame["label"]

        def read():
            kept = rows.to_dask_array(lengths=None).persist(), labels.persist()
            wait(kept)
            return kept

        (rows, labels), read_seconds = timed(read)
        client.get_task_stream(count=1)  # from now on
        start = time.time()
        found = _fit(rows, labels, device=device)
        passes = passes_since(client, start)
        fitting = {
            label: [own for own in passes[label] if own.start < found["fit_seconds"]]
            for label in passes
        }
    return {"read_seconds": read_seconds, **found, "passes": fitting}


def fit_in_process(n: int, n_threads: int) -> dict:
    """Fit the same rows in this process, from a memory map."""
    import threadpoolctl

    files = write_files(data_folder(), n)
    rows, labels = np.load(files.rows, mmap_mode="r"), np.load(files.labels)
    _, read_seconds = timed(lambda: float(rows.sum()))  # into the system's memory
    with threadpoolctl.threadpool_limits(n_threads):
        # As the workers have it: batches, in no more memory than they have together.
        found = _fit(rows, labels, memory_budget=f"{n_threads * 3}GiB")
    return {"read_seconds": read_seconds, **found, "memory": peak_of_process()}


def _fit(rows, labels, **options) -> dict:
    from kaucus import KMeansKernelClassifier

    model = KMeansKernelClassifier(**MODEL, **options)
    with quiet():
        _, fit_seconds = timed(model.fit, rows, labels)
    _, predict_seconds = timed(_predict_all, model, rows)
    X, y = test_rows(N_TEST)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "error_percent": float(100 * np.mean(model.predict(X) != y)),
        "bayes_percent": bayes_error(),
        "memory": peak_of_workers(),
    }


def _predict_all(model, rows) -> float:
    """Predict all rows, and return the share of class 1."""
    predicted = model.predict(rows)
    share = predicted.mean()
    return float(share.compute() if hasattr(share, "compute") else share)


def kill_workers(n_kills: int) -> dict:
    """Kill a worker at random moments of a fit, each time on a new cluster."""
    import dask.array as da

    from distributed import default_client
    from kaucus import KMeansKernelClassifier

    X, y = test_rows(KILL_ROWS)
    X = X.astype(np.float64)
    options = {**MODEL, "n_representatives": 100}
    with quiet():
        expected = KMeansKernelClassifier(**options).fit(X, y)
    rng, differences, usual = np.random.default_rng(0), [], None
    for _ in range(n_kills + 1):  # the first without a kill, for its time
        with local_cluster(2, WORKER_MEMORY), quiet():
            rows = da.from_array(X, chunks=(-(-KILL_ROWS // 10), -1)).persist()
            pids = list(default_client().run(os.getpid).values())
            moment = 0.0 if usual is None else rng.uniform(0, usual)
            timer = threading.Timer(moment, os.kill, (pids[0], signal.SIGKILL))
            if usual is not None:
                timer.start()
            model, seconds = timed(KMeansKernelClassifier(**options).fit, rows, y)
            timer.cancel()
            usual = seconds if usual is None else usual
        size = np.abs(expected.dual_coef_).max()
        differences.append(
            float(np.abs(model.dual_coef_ - expected.dual_coef_).max() / size)
        )
    return {"kills": n_kills, "rows": KILL_ROWS, "difference": max(differences)}


def fit_waiting(n_workers: int) -> dict:
    """Measure what a fit costs beside the work on its rows, of ten steps of k-means."""
    options = {**MODEL, "kmeans_params": {"max_iter": 10, "tol": 1e-9}}
    with quiet():
        cluster = local_cluster(n_workers, "2GiB")
        return measure_overhead(cluster, options, 10 * n_workers)


def fit_covtype(data_home, n_rows: int | None) -> dict:
    """Fit the cover types from Parquet on a cluster, and from memory in one process."""
    import dask.dataframe as dd
    import pandas as pd

    from kaucus import KMeansKernelClassifier
    from papers.datasets import load_covtype

    bunch = load_covtype(data_home=data_home)
    X, y = np.asarray(bunch.X, dtype=np.float32), np.asarray(bunch.y)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)
    order = np.random.default_rng(0).permutation(len(y))[:n_rows]
    test, train = np.split(order, [len(order) // 10])
    options = {"n_representatives": 300, "random_state": 0}
    options["kmeans_params"] = {"max_iter": 10, "tol": 1e-3}
    with quiet():
        one = KMeansKernelClassifier(**options)
        _, one_seconds = timed(one.fit, X[train], y[train])
        with tempfile.TemporaryDirectory() as folder:
            frame = pd.DataFrame(X[train], columns=[f"x{j}" for j in range(X.shape[1])])
            frame["label"] = y[train]
            for k, part in enumerate(np.array_split(np.arange(len(frame)), 32)):
                frame.iloc[part].to_parquet(Path(folder) / f"part-{k:02}.parquet")
            with local_cluster(2, WORKER_MEMORY):
                given = dd.read_parquet(folder)
                rows = given.drop(columns="label").to_dask_array().persist()
                many = KMeansKernelClassifier(**options)
                _, seconds = timed(many.fit, rows, given["label"])
    return {
        "rows": len(train),
        "fit_seconds": seconds,
        "one_seconds": one_seconds,
        "error_percent": float(100 * np.mean(many.predict(X[test]) != y[test])),
        "one_error_percent": float(100 * np.mean(one.predict(X[test]) != y[test])),
    }


# ---- tables and the figure -----------------------------------------------------------

HEADERS = [
    "rows",
    "how",
    "workers",
    "read",
    "fit",
    "predict",
    "speed, first = 1",
    "workers busy %",
    "test error %",
    "Bayes error %",
    "memory of each",
]


def tables(content: Content) -> list[Table]:
    titles = {
        "fit": "Two workers, and one process with two threads",
        "growth": "Growth with the rows, two workers",
        "workers": "Growth with the workers",
    }
    content = {**content, "growth": growth(content)}
    found = [
        Table(title, HEADERS, _rows(content[section]))
        for section, title in titles.items()
        if content.get(section)
    ]
    for record in content.get("kills", []):
        cells = [str(record.get(k)) for k in ("kills", "rows")]
        cells.append(f"{record.get('difference', np.nan):.1e}")
        headers = ["workers killed", "rows", "largest difference of coefficients"]
        found.append(Table("A worker killed at random moments", headers, [cells]))
    for record in content.get("covtype", []):
        found.append(_covtype_table(record))
    if content.get("overhead"):
        found.append(overhead_table(content["overhead"]))
    return found


def growth(content: Content) -> list[dict]:
    """Return the records of growth, and the one that `fit` measured on Dask."""
    records = content.get("growth", [])
    largest = [r for r in content.get("fit", []) if r["how"] == "Dask"]
    return records + largest if records else []


def _rows(records: list[dict]) -> list[list[str]]:
    first = next((r for r in records if "fit_seconds" in r), {})
    rows = []
    for record in records:
        how = record["how"] if record["device"] is None else record["device"]
        head = [f"{record['rows']:,}", how, str(record["workers"])]
        if "skipped" in record:
            rows.append(skipped_row(head, record, len(HEADERS)))
            continue
        times = [record[f"{k}_seconds"] for k in ("read", "fit", "predict")]
        rows.append(
            [
                *head,
                *(format_seconds(t) for t in times),
                ratio(first.get("fit_seconds"), record["fit_seconds"]),
                _busy(record),
                f"{record['error_percent']:.2f}",
                f"{record['bayes_percent']:.2f}",
                format_bytes(record["memory"]),
            ]
        )
    return rows


def _busy(record: dict) -> str:
    """Return the share of a fit in which a worker is at work, in percent."""
    if "passes" not in record:
        return ""
    work = sum(own[2] for passes in record["passes"].values() for own in passes)
    return f"{100 * work / record['workers'] / record['fit_seconds']:.0f}"


def _covtype_table(record: dict) -> Table:
    headers = ["rows", "how", "fit", "test error %"]
    title = "Cover types from Parquet"
    if "skipped" in record:
        return Table(title, headers, [skipped_row(["", "Dask"], record, 4)])
    rows = [
        [
            f"{record['rows']:,}",
            how,
            format_seconds(record[f"{key}_seconds"]),
            f"{record[f'{error}']:.2f}",
        ]
        for how, key, error in (
            ("Dask, two workers", "fit", "error_percent"),
            ("one process, in memory", "one", "one_error_percent"),
        )
    ]
    return Table(title, headers, rows)


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw how the time of a fit grows with the rows."""
    done = [r for r in growth(content) if "fit_seconds" in r]
    if len(done) < 2:
        return []
    n, seconds = zip(*((r["rows"], r["fit_seconds"]) for r in done), strict=True)
    path = folder / "growth.png"
    with figure_file(path, 5.5, 4.0) as canvas:
        axes = canvas.add_subplot(1, 1, 1)
        axes.plot(np.divide(n, 1e6), seconds, marker="o", lw=2)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("million rows")
        axes.set_ylabel("seconds of a fit, two workers")
        axes.set_title(
            f"time grows as rows to the power {fitted_exponent(n, seconds):.2f}"
        )
    return [path]
