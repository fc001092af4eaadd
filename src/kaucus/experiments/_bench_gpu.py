"""Whole jobs on a GPU, with the rates of the device itself beside them.

Every job runs warm, on data that is on the device already: what is timed is the fit,
and the prediction where it says so. The device's own speed, in products of large
matrices, is measured in the same run, and the parts of the jobs that are matrix
products are given as a share of it.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TextIO

import numpy as np

from kaucus.backend import (
    Array,
    add_gram,
    add_to_diagonal,
    array_namespace,
    as_like,
    astype,
    cholesky,
    device_name,
    mirror_lower,
    on_gpu,
    rough_inner_products,
    synchronize,
    to_device,
    to_numpy,
    zero_gram,
)
from kaucus.evaluation import describe_machine, format_seconds, timed
from kaucus.experiments._bench_files import write_bench
from kaucus.experiments._bench_lssvm import KERNEL
from kaucus.experiments._progress import make_progress

REPEATS = 3
JOB_HEADERS = ("job", "time", "bar", "within", "test error %", "all runs")
RATE_HEADERS = ("what", "precision", "time", "TFLOP/s", "share of product")
ABOUT = (
    "MNIST with unit-norm rows, kernel ⟨x, x'⟩⁴; data on the device. Each job runs "
    f"once to warm up; the time is the median of {REPEATS} more runs, or of the steps "
    "after the first three for spherical k-means. Rates count the operations that the "
    "result needs: half of a symmetric product, a third of n³ for a factor. Share: "
    "over the rate of a product of two large square matrices in that precision."
)


class Sizes(NamedTuple):
    """How large the jobs are."""

    n_train: int | None = None
    representatives: int = 2500
    patch_representatives: int = 5000
    block_size: int = 2000
    n_steps: int = 100
    kmeans_rows: int = 1_000_000
    kmeans_features: int = 128
    kmeans_centres: int = 1024
    clustering_rows: int = 50_000
    product: int = 16_384


QUICK = Sizes(1000, 10, 10, 100, 3, 4000, 16, 32, 500, 512)


class Digits(NamedTuple):
    """Pictures on the device, and their labels on the host."""

    X_train: Array
    y_train: np.ndarray
    X_test: Array
    y_test: np.ndarray
    sides: tuple[int, int] = (28, 28)


class Job(NamedTuple):
    """Something to time."""

    name: str
    bar: float
    """Seconds."""
    run: Callable[[], Any]
    error: Callable[[Any], float] | None = None
    """Test error in per cent, of what ``run`` returns."""
    steps: Callable[[], list[float]] | None = None
    """Seconds of each step, in place of the whole run."""


def bench_gpu(
    output: str | Path,
    *,
    device: str = "cuda",
    quick: bool = False,
    data_home: str | Path | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run all jobs; write ``bench.json`` and ``bench.md``.

    Parameters
    ----------
    output : path
        Folder for the two files.
    device : str, default="cuda"
        Where everything is computed.
    quick : bool, default=False
        Few rows: to see whether it runs.
    data_home : path, default=None
        Folder with MNIST; None takes the environment's ``KAUCUS_DATA``.
    stream : text stream, default=None
        Where progress goes; None is the standard error.

    Returns
    -------
    dict
        ``about``, ``machine``, ``jobs`` and ``rates``.
    """
    sizes = QUICK if quick else Sizes()
    digits = load_digits_to(device, sizes.n_train, data_home)
    machine = describe_machine(gpu=device_name(device))
    content: dict[str, Any] = {"about": ABOUT, "machine": machine, "jobs": []}
    jobs = make_jobs(digits, device, sizes)
    with make_progress(len(jobs) + 1, stream) as progress:
        progress.begin("rates of the device")
        content["rates"] = measure_rates(digits, device, sizes)
        progress.advance("rates of the device measured")
        for job in jobs:
            progress.begin(job.name)
            record = measure_job(job, digits.X_train)
            content["jobs"].append(record)
            progress.advance(f"{job.name}: {format_seconds(record['seconds'])}")
    write_bench(Path(output), "Jobs on a GPU", content, bench_tables(content))
    return content


def load_digits_to(device: str, n_train: int | None, data_home) -> Digits:
    """Load MNIST as float64 tensors on the device."""
    from kaucus.datasets import load_mnist

    mnist = load_mnist(data_home=data_home)
    return Digits(
        tensor(np.asarray(mnist.X_train[:n_train], dtype=np.float64), device),
        np.asarray(mnist.y_train[:n_train]),
        tensor(np.asarray(mnist.X_test[:n_train], dtype=np.float64), device),
        np.asarray(mnist.y_test[:n_train]),
    )


def tensor(X: np.ndarray, device: str) -> Array:
    """Return a tensor on the device, of torch on the host too."""
    return to_device(X, "cpu:0" if device == "cpu" else device)


def make_jobs(digits: Digits, device: str, sizes: Sizes) -> list[Job]:
    """List the jobs; their data is made ready here, before the clock starts."""
    from kaucus import KMeansKernelClassifier, LSSVMClassifier
    from kaucus.preprocessing import UnitNormalizer

    rows = UnitNormalizer().fit_transform(digits.X_train)
    unseen = UnitNormalizer().fit_transform(digits.X_test)
    rows32, unseen32 = astype(rows, "float32"), astype(unseen, "float32")
    y, options = digits.y_train, {**KERNEL, "probability": False, "random_state": 0}

    def exact():
        return LSSVMClassifier(C=1e4, solver="cholesky", **options).fit(rows, y)

    def kmeans_kernel():
        q = sizes.representatives
        return KMeansKernelClassifier(
            q, metric="cosine", fit_on="representatives", C=1e6, **options
        ).fit(rows32, y)

    def pursuit():
        model = LSSVMClassifier(
            C=1e4,
            solver="matching_pursuit",
            block_size=sizes.block_size,
            max_iter=sizes.n_steps,
            tol=1e-9,
            **options,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged after 100 steps, and meant
            return model.fit(rows, y)

    def error_of(model, X):
        labels = to_numpy(model.predict(X))
        return 100 * float(np.mean(labels != digits.y_test))

    n = f"{rows.shape[0]:,} rows"
    return [
        Job(f"exact LS-SVM, {n}, float64", 2.2, exact, lambda m: error_of(m, unseen)),
        Job(
            f"k-means kernel, Q = {sizes.representatives}, raw, float32",
            0.30,
            kmeans_kernel,
            lambda m: error_of(m, unseen32),
        ),
        patch_job(digits, sizes),
        Job(
            f"matching pursuit, J = {sizes.block_size}, {sizes.n_steps} steps, float64",
            1.5,
            pursuit,
            lambda m: error_of(m, unseen),
        ),
        spherical_job(device, sizes),
        kernel_kmeans_job(device, sizes),
    ]


def patch_job(digits: Digits, sizes: Sizes) -> Job:
    """Fit and predict by a vote of patches, from the pictures on."""
    from sklearn.pipeline import make_pipeline

    from kaucus import KMeansKernelClassifier, PatchVotingClassifier
    from kaucus.preprocessing import UnitNormalizer

    train, test = (astype(X, "float32") for X in (digits.X_train, digits.X_test))
    q, side = sizes.patch_representatives, digits.sides[0] - 3

    def run():
        classifier = KMeansKernelClassifier(
            q,
            metric="cosine",
            fit_on="representatives",
            C=1e6,
            probability=False,
            random_state=0,
            **KERNEL,
        )
        model = PatchVotingClassifier(
            make_pipeline(UnitNormalizer(), classifier),
            patch_size=side,
            image_shape=digits.sides,
        ).fit(train, digits.y_train)
        return to_numpy(model.predict(test))

    def error(labels):
        return 100 * float(np.mean(labels != digits.y_test))

    name = f"patches of {side} × {side}, Q = {q}, fit and predict, float32"
    return Job(name, 5.0, run, error)


def spherical_job(device: str, sizes: Sizes) -> Job:
    """Cluster random directions; timed by the step."""
    from kaucus.representatives import kmeans

    n, d, k = sizes.kmeans_rows, sizes.kmeans_features, sizes.kmeans_centres
    rng = np.random.default_rng(0)
    X = tensor(rng.normal(size=(n, d)).astype(np.float32), device)

    def steps():
        ends: list[float] = []

        def end(step, moved):
            synchronize(X)
            ends.append(perf_counter())

        kmeans(
            X,
            k,
            metric="cosine",
            init="random",
            max_iter=20,
            tol=0.0,
            rng=np.random.default_rng(0),
            callback=end,
        )
        return list(np.diff(ends)[2:])

    name = f"spherical k-means, {n:,} × {d}, {k} centres, a step, float32"
    return Job(name, 0.008, steps, None, steps)


def kernel_kmeans_job(device: str, sizes: Sizes) -> Job:
    """Cluster by a Gaussian kernel, 30 steps at most."""
    from kaucus import KernelKMeans
    from kaucus.experiments._bench_kernel_kmeans import GAMMA, make_rows

    n = sizes.clustering_rows
    X = tensor(make_rows(n, "float32"), device)

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged after 30 steps, and meant
            return KernelKMeans(
                10, gamma=GAMMA, init="random", n_init=1, max_iter=30, random_state=0
            ).fit(X)

    return Job(f"kernel k-means, {n:,} rows, 10 clusters, float32", 2.0, run)


def measure_job(job: Job, like: Array) -> dict[str, Any]:
    """Run a job warm; return its times and what came of it."""
    if job.steps is not None:
        job.steps()
        runs = job.steps()
        result = None
    else:
        result = job.run()
        runs = []
        for _ in range(REPEATS):
            _, seconds = timed(_run_to_the_end, job.run, like)
            runs.append(seconds)
    error = None if job.error is None else job.error(result)
    seconds = float(np.median(runs))
    return {
        "job": job.name,
        "seconds": seconds,
        "bar": job.bar,
        "error_percent": error,
        "runs": runs,
    }


def _run_to_the_end(run: Callable[[], Any], like: Array) -> Any:
    result = run()
    synchronize(like)
    return result


def measure_rates(digits: Digits, device: str, sizes: Sizes) -> list[dict[str, Any]]:
    """Measure the device's products, and the parts of the jobs that are products."""
    from kaucus.kernels import Polynomial
    from kaucus.preprocessing import UnitNormalizer

    rows = UnitNormalizer().fit_transform(digits.X_train)
    n, d = rows.shape
    J, p = sizes.block_size, sizes.product
    xp = array_namespace(rows)
    rng = np.random.default_rng(0)
    A = as_like(rng.normal(size=(p, p)), rows)
    A32 = astype(A, "float32")
    rates = [
        _rate("product", "float64", 2 * p**3, lambda: A @ A, A),
        _rate("product", "float32", 2 * p**3, lambda: A32 @ A32, A),
    ]
    if on_gpu(A):
        rates.append(
            _rate(
                "product", "tf32", 2 * p**3, lambda: rough_inner_products(A32, A32), A
            )
        )
    E = as_like(rng.normal(size=(J, n)), rows)

    def gram():
        return mirror_lower(add_gram(zero_gram(J, E), E.T))

    kernel = Polynomial(degree=4)
    rates += [
        _rate("kernel matrix of MNIST", "float64", n * n * d, lambda: kernel(rows), A),
        _rate(f"E Eᵀ of a block, J = {J}", "float64", J * J * n, gram, A),
    ]
    H = add_to_diagonal(kernel(rows), 1.0)

    def factor():
        L = cholesky(xp.asarray(H, copy=True), overwrite=True)
        assert L is not None

    copy = _seconds(lambda: xp.asarray(H, copy=True), H)
    record = _rate(f"factor of {n:,} rows", "float64", n**3 / 3, factor, H)
    record["seconds"] = max(record["seconds"] - copy, 1e-9)
    record["tflops"] = n**3 / 3 / record["seconds"] / 1e12
    return _with_shares([*rates, record])


def _rate(what: str, precision: str, operations: float, run, like: Array) -> dict:
    seconds = _seconds(run, like)
    return {
        "what": what,
        "precision": precision,
        "seconds": seconds,
        "tflops": operations / seconds / 1e12,
    }


def _seconds(run: Callable[[], Any], like: Array) -> float:
    """Return the least of a few times, warm."""
    _run_to_the_end(run, like)
    return min(timed(_run_to_the_end, run, like)[1] for _ in range(REPEATS))


def _with_shares(records: list[dict]) -> list[dict]:
    peak = {r["precision"]: r["tflops"] for r in records if r["what"] == "product"}
    return [{**r, "share": r["tflops"] / peak[r["precision"]]} for r in records]


def bench_tables(content: dict[str, Any]) -> list[tuple[str, tuple, list]]:
    """List each table of a benchmark as title, headers and rows."""
    jobs = [
        [
            record["job"],
            format_seconds(record["seconds"]),
            format_seconds(record["bar"]),
            "yes" if record["seconds"] <= record["bar"] else "no",
            "" if record["error_percent"] is None else f"{record['error_percent']:.2f}",
            ", ".join(format_seconds(s) for s in sorted(record["runs"])[:3]),
        ]
        for record in content["jobs"]
    ]
    rates = [
        [
            record["what"],
            record["precision"],
            format_seconds(record["seconds"]),
            f"{record['tflops']:.1f}",
            f"{100 * record['share']:.0f} %",
        ]
        for record in content["rates"]
    ]
    return [("Jobs", JOB_HEADERS, jobs), ("Rates", RATE_HEADERS, rates)]
