"""Speed and memory of the exact LS-SVM against its peers, in one run.

MNIST with unit-norm rows and the kernel ⟨x, x'⟩⁴.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._runner import (
    Contender,
    Content,
    Settings,
    Step,
    Table,
    fit_and_predict,
    load_digits,
    ratio,
    result_cells,
    skipped_row,
    unit_rows,
)
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import peak_memory, timed

TITLE = "LS-SVM and its peers"
SIZES = (5000, 20000)
QUICK_SIZES = (2000,)
C_LSSVM, C_SVC = 100.0, 10.0
KERNEL = {"kernel": "poly", "degree": 4, "gamma": 1.0, "coef0": 0.0}
ABOUT = (
    "MNIST, rows minus their mean and divided by their norm, kernel ⟨x, x'⟩⁴. "
    f"LS-SVM C = {C_LSSVM:g}, KernelRidge alpha = 1/C (one ±1 target per class, no "
    f"intercept), SVC C = {C_SVC:g}, cache 1000 MB. Each in its own process; memory is "
    "the rise of resident bytes during fit and predict; predict: 10,000 rows. Ratios: "
    "theirs / kaucus of the same precision."
)
HEADERS = (
    "rows",
    "contender",
    "fit",
    "predict",
    "error %",
    "memory",
    "fit ×",
    "predict ×",
    "memory ×",
)
KERNEL_HEADERS = ("kernel", "precision", "GFLOP/s", "GEMM GFLOP/s", "share of GEMM")
MEMORY_HEADERS = ("rows", "budget", "rise of memory", "fit", "error %", "solver")


class OneHotRidge:
    """KernelRidge as a classifier: a target of ±1 per class, the largest wins."""

    def fit(self, X, y):
        """Fit one ridge regression with a column per class."""
        from sklearn.kernel_ridge import KernelRidge

        self.classes_ = np.unique(y)
        Y = np.where(y[:, None] == self.classes_, 1.0, -1.0).astype(X.dtype)
        self.model_ = KernelRidge(alpha=1 / C_LSSVM, **KERNEL).fit(X, Y)
        return self

    def predict(self, X):
        """Return the class with the largest value."""
        return self.classes_[np.argmax(self.model_.predict(X), axis=1)]


def _kaucus() -> Any:
    from kaucus import LSSVMClassifier

    return LSSVMClassifier(C=C_LSSVM, **KERNEL)


def _svc() -> Any:
    from sklearn.svm import SVC

    return SVC(C=C_SVC, cache_size=1000, **KERNEL)


def _intelex_svc() -> Any:
    from sklearnex.svm import SVC

    return SVC(C=C_SVC, cache_size=1000, **KERNEL)


_PRECISIONS = ("float32", "float64")
CONTENDERS: dict[str, Contender] = {
    f"{name}, {dtype}": Contender(make, (module,), dtype)
    for name, make, module, dtypes in (
        ("kaucus LSSVMClassifier", _kaucus, "kaucus", _PRECISIONS),
        ("KernelRidge", OneHotRidge, "sklearn.kernel_ridge", _PRECISIONS),
        ("SVC", _svc, "sklearn.svm", ("float64",)),  # libsvm knows no other
        ("scikit-learn-intelex SVC", _intelex_svc, "sklearnex.svm", _PRECISIONS),
    )
    for dtype in dtypes
}


def prepare(settings: Settings) -> None:
    """Load the data once: where it is missing, say so at once."""
    load_digits(10, "float32", settings.data_home)


def steps(settings: Settings) -> list[Step]:
    """List every contender with every number of rows, and our kernels."""
    home = settings.data_home
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    found = [
        Step(
            "contenders",
            f"{name}, {n:,} rows",
            measure_contender,
            (name, n, home),
            {"rows": n, "contender": name, "dtype": contender.dtype},
            contender.imports,
        )
        for n in sizes
        for name, contender in CONTENDERS.items()
    ]
    found.append(Step("kernels", "kernel evaluation", measure_kernels))
    if settings.large:
        found.append(Step("memory", "60,000 rows under 2 GiB", measure_memory, (home,)))
    return found


def measure_contender(name: str, n: int, data_home: Any) -> dict[str, Any]:
    """Fit and predict once."""
    contender = CONTENDERS[name]
    return fit_and_predict(contender.make(), load_digits(n, contender.dtype, data_home))


def measure_kernels(n: int = 4000, d: int = 784, repeats: int = 5) -> list[dict]:
    """Compare the rate of k(X, Y) with that of X @ Y.T, both as 2·n·n·d flops."""
    from kaucus.kernels import Gaussian, Polynomial

    kernels = {
        "poly": Polynomial(degree=4, gamma=1.0, coef0=0.0),
        "rbf": Gaussian(gamma=0.05),
    }
    flops = 2.0 * n * n * d
    rng = np.random.default_rng(0)
    records = []
    for dtype in _PRECISIONS:
        X, Y = (unit_rows(rng.normal(size=(n, d)).astype(dtype)) for _ in range(2))
        for name, kernel in kernels.items():
            gemm, seconds = _race(lambda A, B: A @ B.T, kernel, X, Y, repeats)
            records.append(
                {
                    "kernel": name,
                    "dtype": dtype,
                    "flops_per_second": flops / seconds,
                    "gemm_flops_per_second": flops / gemm,
                    "share": gemm / seconds,
                }
            )
    return records


def _race(first, second, X, Y, repeats: int) -> tuple[float, float]:
    """Time two functions in turn, so that a busy machine slows both; keep the best."""
    first(X, Y), second(X, Y)  # threads and pages are there before the clock
    times = [(timed(first, X, Y)[1], timed(second, X, Y)[1]) for _ in range(repeats)]
    return min(a for a, _ in times), min(b for _, b in times)


def measure_memory(data_home: Any, n: int = 60_000, budget: str = "2GiB") -> dict:
    """Fit under a memory budget."""
    from kaucus import LSSVMClassifier

    split = load_digits(n, "float32", data_home)
    # C = 1: memory does not depend on C, but the number of steps does, and each of
    # them computes most of 3.6e9 kernel entries.
    model = LSSVMClassifier(C=1.0, memory_budget=budget, random_state=0, **KERNEL)
    with peak_memory() as memory:
        _, seconds = timed(model.fit, split.X_train, split.y_train)
    predicted = model.predict(split.X_test)
    return {
        "rows": n,
        "budget": budget,
        "memory": memory.rise,
        "fit_seconds": seconds,
        "error_percent": float(100 * np.mean(predicted != split.y_test)),
        "solver": f"{model.solver_}, {model.n_iter_} steps",
    }


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    found = [
        Table("Fit and predict", HEADERS, contender_rows(content["contenders"])),
        Table("Kernel evaluation", KERNEL_HEADERS, kernel_rows(content["kernels"])),
    ]
    if "memory" in content:
        rows = memory_rows(content["memory"])
        found.append(Table("Under a memory budget", MEMORY_HEADERS, rows))
    return found


def contender_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the contenders' records for :data:`HEADERS`."""
    ours = {
        (r["rows"], r["dtype"]): r
        for r in records
        if r["contender"].startswith("kaucus")
    }
    rows = []
    for record in records:
        head = [f"{record['rows']:,}", record["contender"]]
        if "skipped" in record:
            rows.append(skipped_row(head, record, len(HEADERS)))
            continue
        reference = ours.get((record["rows"], record["dtype"]), {})
        keys = ("fit_seconds", "predict_seconds", "memory")
        ratios = [ratio(record[key], reference.get(key)) for key in keys]
        rows.append([*head, *result_cells(record), *ratios])
    return rows


def kernel_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the kernels' rates for :data:`KERNEL_HEADERS`."""
    return [
        [
            record["kernel"],
            record["dtype"],
            f"{record['flops_per_second'] / 1e9:.1f}",
            f"{record['gemm_flops_per_second'] / 1e9:.1f}",
            f"{100 * record['share']:.0f} %",
        ]
        for record in records
    ]


def memory_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the fits under a budget for :data:`MEMORY_HEADERS`."""
    return [
        [
            f"{record['rows']:,}",
            record["budget"],
            format_bytes(record["memory"]),
            format_seconds(record["fit_seconds"]),
            f"{record['error_percent']:.2f}",
            record["solver"],
        ]
        for record in records
    ]
