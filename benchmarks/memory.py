"""By how much memory rises in a fit and in a prediction, against `memory_budget`.

Each estimator has a process of its own, with one and with two BLAS threads. What is
counted is the rise of resident memory over what is resident when the data is there,
BLAS has taken its buffers, and a fit of a few rows has loaded all libraries: copies of
X count. Solvers that iterate stop after a few steps, which take the memory of all.

    python -m benchmarks.memory [--only TEXT] [--budget 64MiB] [--jobs N] [--write]

`--write` puts the table into benchmarks/results/memory.md.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.linalg

import kaucus
from kaucus._array.blocks import n_workers, parse_bytes, release_freed_memory
from kaucus.evaluation.clustering import format_seconds
from papers import describe_machine, peak_memory, timed
from papers._markdown import markdown_table
from papers._progress import StepProgress

N_ROWS, N_FEATURES, N_CLASSES = 20_000, 200, 10
PICTURE = (12, 12)
THREADS = (1, 2)
SECONDS = 400
FEW_STEPS = {"max_iter": 4}
RESULTS = Path(__file__).parent / "results" / "memory.md"

# Name: class, and parameters; ``parts`` is for partial_fit.
CASES = {
    "KMeansKernelClassifier()": ("KMeansKernelClassifier", {}),
    "KMeansKernelClassifier(50)": ("KMeansKernelClassifier", {"n_representatives": 50}),
    "KMeansKernelClassifier(50, clustering='spherical')": (
        "KMeansKernelClassifier",
        {"n_representatives": 50, "clustering": "spherical"},
    ),
    "KMeansKernelClassifier(30, refine='auto')": (
        "KMeansKernelClassifier",
        {"n_representatives": 30, "refine": "auto"},
    ),
    "KMeansKernelClassifier(fit_on='boundary')": (
        "KMeansKernelClassifier",
        {"fit_on": "boundary"},
    ),
    "KMeansKernelClassifier(fit_on='representatives')": (
        "KMeansKernelClassifier",
        {"fit_on": "representatives"},
    ),
    "KMeansKernelClassifier(50), 10 parts": (
        "KMeansKernelClassifier",
        {"n_representatives": 50, "parts": 10},
    ),
    "KMeansKernelRegressor()": ("KMeansKernelRegressor", {}),
    "KMeansKernelRegressor(500)": ("KMeansKernelRegressor", {"n_representatives": 500}),
    "KMeansKernelRegressor(500), 10 parts": (
        "KMeansKernelRegressor",
        {"n_representatives": 500, "parts": 10},
    ),
    "LSSVMClassifier('auto')": ("LSSVMClassifier", {"C": "auto", "max_iter": 4}),
    "LSSVMClassifier('auto', max_samples=1000)": (
        "LSSVMClassifier",
        {"C": "auto", "max_samples": 1000, "max_iter": 4},
    ),
    "LSSVMRegressor('auto', max_samples=1000)": (
        "LSSVMRegressor",
        {"C": "auto", "max_samples": 1000, "max_iter": 4},
    ),
    "SphericalKMeans(100)": ("SphericalKMeans", {"n_clusters": 100, "max_iter": 10}),
    "KernelKMeans(20)": (
        "KernelKMeans",
        {"n_clusters": 20, "max_iter": 4, "n_init": 1},
    ),
    "KernelKMeans(20, approximation='nystrom')": (
        "KernelKMeans",
        {"n_clusters": 20, "approximation": "nystrom", "max_iter": 4},
    ),
    "ClusterRBFSVC(10)": ("ClusterRBFSVC", {"n_clusters": 10}),
    "LocalSVC(30)": ("LocalSVC", {"n_clusters": 30}),
    "PatchVotingClassifier(), 256MiB": (
        "PatchVotingClassifier",
        {"image_shape": PICTURE, "patch_size": 11, "memory_budget": "256MiB"},
    ),
}
for _solver in (
    "auto",
    "cg",
    "block_descent",
    "nystrom",
    "matching_pursuit",
    "kaczmarz",
):
    for _name in ("LSSVMClassifier", "LSSVMRegressor"):
        CASES[f"{_name}(solver={_solver!r})"] = (
            _name,
            {"solver": _solver, **FEW_STEPS},
        )


def data(name: str):
    """Return rows and targets: labels for a classifier, numbers for a regressor."""
    rng = np.random.default_rng(0)
    shape = (N_CLASSES, N_FEATURES)
    labels = rng.integers(N_CLASSES, size=N_ROWS)
    X = np.empty((N_ROWS, N_FEATURES), np.float32)
    centers = rng.normal(size=shape).astype(np.float32)
    for start in range(0, N_ROWS, 1000):  # no large array but X
        rows = slice(start, start + 1000)
        noise = rng.normal(size=(1000, N_FEATURES)).astype(np.float32)
        X[rows] = centers[labels[rows]] + 3 * noise
    if name.startswith("PatchVoting"):
        X = np.ascontiguousarray(X[:, : PICTURE[0] * PICTURE[1]])
    if "Regressor" in name:
        return X, np.sin(X[:, 0]).astype(np.float64)
    return X, labels


def make(name: str, budget: str):
    kind, parameters = CASES[name]
    parameters = {"memory_budget": budget, "random_state": 0, **parameters}
    parts = parameters.pop("parts", 1)
    if kind == "PatchVotingClassifier":
        del parameters["random_state"]
    return getattr(kaucus, kind)(**parameters), parts


def fit(model, X, y, parts: int):
    if parts == 1:
        return model.fit(X, y)
    for k in range(parts):
        is_classifier = "Classifier" in type(model).__name__
        classes = {"classes": np.arange(N_CLASSES)} if is_classifier else {}
        model.partial_fit(X[k::parts], y[k::parts], **classes)
    return model


def touch_blas_buffers() -> None:
    """Let BLAS take the buffers that it keeps, of every thread that may call it."""
    n_threads = n_workers() + 1
    together = threading.Barrier(n_threads)

    def work(_) -> None:
        for dtype in (np.float32, np.float64):
            together.wait()  # so that no thread uses another's buffers
            A = np.ones((1200, 1200), dtype)
            H = A.T @ A + 3000 * np.eye(1200, dtype=dtype)
            L = scipy.linalg.cholesky(H, lower=True)
            scipy.linalg.solve_triangular(L, A, lower=True)
            scipy.linalg.eigh(H[:400, :400])

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, range(n_threads)))


def measure(name: str, budget: str) -> dict:
    """Return the rises of a fit and of a prediction in this process, in bytes."""
    warnings.simplefilter("ignore")
    X, y = data(name)
    model, parts = make(name, budget)
    touch_blas_buffers()
    few = slice(0, 400)
    fit(make(name, "1GiB")[0], X[few], y[few], parts).predict(X[few])
    release_freed_memory()
    record = {"budget": parse_bytes(model.memory_budget)}
    with peak_memory() as memory:
        try:
            _, record["seconds"] = timed(fit, model, X, y, parts)
        except (MemoryError, ValueError) as error:
            if "memory_budget" not in str(error):
                raise
            return {**record, "refused": str(error)}
    record["fit"] = memory.rise
    release_freed_memory()
    with peak_memory() as memory:
        model.predict(X)
    return {**record, "predict": memory.rise}


def measure_alone(name: str, budget: str, n_threads: int) -> dict:
    """Return the same from a process of its own."""
    names = ("OPENBLAS", "OMP", "MKL")
    threads = {f"{library}_NUM_THREADS": str(n_threads) for library in names}
    command = [sys.executable, __file__, "--one", name, "--budget", budget]
    try:
        run = subprocess.run(
            command,
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {SECONDS} s"}
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1][:200]}
    return json.loads(run.stdout.splitlines()[-1])


def cells(record: dict) -> list[str]:
    """Return the table's entries: rise of the fit, of the prediction, and seconds."""
    if "failed" in record:
        return [record["failed"], "", ""]
    if "refused" in record:
        return ["refused", "", ""]
    budget = record["budget"]
    shown = [
        f"{record[k] / 2**20:.0f} ({record[k] / budget:.0%})"
        for k in ("fit", "predict")
    ]
    return [*shown, format_seconds(record["seconds"])]


def report(rows: list[list[str]], budget: str) -> str:
    headers = ["estimator"]
    for n in THREADS:
        headers += [f"fit, {n} thread{'s' * (n > 1)}", "predict", "time"]
    machine = "\n".join(f"- {k}: {v}" for k, v in describe_machine().items())
    mib = N_ROWS * N_FEATURES * 4 / 2**20
    about = (
        f"`python -m benchmarks.memory --write`: {N_ROWS:,} × {N_FEATURES} float32 "
        "rows "
        f'({mib:.0f} MiB), {N_CLASSES} classes, `memory_budget="{budget}"`. MiB by '
        "which resident memory rises over the data, the loaded libraries and the "
        "buffers of BLAS, and what part of the budget that is; copies of X count. "
        "Refused: an error with numbers, before the work begins. "
        f"PatchVotingClassifier: the first {PICTURE[0] * PICTURE[1]} columns as "
        "pictures. Of iterative solvers: four steps."
    )
    parts = ["# Memory beside the budget", about, markdown_table(headers, rows)]
    return "\n\n".join([*parts, "## Machine", machine]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of an estimator's name")
    parser.add_argument("--budget", default="64MiB")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.budget)))
        return
    names = [name for name in CASES if options.only in name]
    rows = []

    def measure_case(name: str) -> list[dict]:
        return [measure_alone(name, options.budget, n) for n in THREADS]

    pool, progress = ThreadPoolExecutor(options.jobs), StepProgress(len(names))
    with pool, progress:
        for name, records in zip(names, pool.map(measure_case, names), strict=True):
            rows.append([name, *(c for record in records for c in cells(record))])
            refusals = [f"\n    {r['refused']}" for r in records if "refused" in r]
            progress.advance("  ".join(rows[-1]) + "".join(refusals))
    text = report(rows, options.budget)
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
