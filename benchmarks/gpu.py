"""Whole jobs on a GPU, and the rates of the device itself.

Every job runs warm, on data that is on the device already: what is timed is the fit,
and the prediction where it says so. The device's own speed, in products of large
matrices, is measured in the same run, and the parts of the jobs that are matrix
products are given as a share of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._gpu_jobs import (
    QUICK,
    Digits,
    Job,
    Sizes,
    load_digits_to,
    make_jobs,
)
from benchmarks._runner import Content, Settings, Step, Table
from kaucus._array.linalg import (
    add_gram,
    add_to_diagonal,
    cholesky,
    mirror_lower,
    zero_gram,
)
from kaucus._array.namespace import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_name,
    on_gpu,
    synchronize,
)
from kaucus._array.segments import rough_inner_products
from kaucus.evaluation.clustering import format_seconds
from papers import timed

TITLE = "Jobs on a GPU"
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


def gpu_name(settings: Settings) -> str:
    """Return the name of the device."""
    return device_name(settings.device or "cuda")


def steps(settings: Settings) -> list[Step]:
    """List the rates of the device and every job, on data that is there already."""
    device = settings.device or "cuda"
    sizes = QUICK if settings.quick else Sizes()
    digits = load_digits_to(device, sizes.n_train, settings.data_home)
    rates = Step(
        "rates",
        "rates of the device",
        measure_rates,
        (digits, device, sizes),
        isolated=False,
    )
    return [rates] + [
        Step("jobs", job.name, measure_job, (job, digits.X_train), isolated=False)
        for job in make_jobs(digits, device, sizes)
    ]


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


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
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
    return [Table("Jobs", JOB_HEADERS, jobs), Table("Rates", RATE_HEADERS, rates)]
