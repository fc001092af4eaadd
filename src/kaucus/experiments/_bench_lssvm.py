"""Speed and memory of the exact LS-SVM against its peers, in one run.

MNIST with unit-norm rows and the kernel ⟨x, x'⟩⁴. Each contender runs in a process
of its own, one after the other, so that none meets another's memory or threads.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from kaucus.evaluation import (
    describe_machine,
    format_bytes,
    format_seconds,
    peak_memory,
    run_isolated,
    timed,
)
from kaucus.experiments._bench_files import write_bench
from kaucus.experiments._data import Split, load_split
from kaucus.experiments._progress import make_progress

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


class Contender(NamedTuple):
    """A library's model: how to make it, its precision, what it imports."""

    make: Callable[[], Any]
    dtype: str
    imports: tuple[str, ...]


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
    f"{name}, {dtype}": Contender(make, dtype, (module,))
    for name, make, module, dtypes in (
        ("kaucus LSSVMClassifier", _kaucus, "kaucus", _PRECISIONS),
        ("KernelRidge", OneHotRidge, "sklearn.kernel_ridge", _PRECISIONS),
        ("SVC", _svc, "sklearn.svm", ("float64",)),  # libsvm knows no other
        ("scikit-learn-intelex SVC", _intelex_svc, "sklearnex.svm", _PRECISIONS),
    )
    for dtype in dtypes
}


def bench_lssvm(
    output: str | Path,
    *,
    sizes: Sequence[int] = SIZES,
    memory: bool = False,
    data_home: str | Path | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run the comparison; write ``bench.json`` and ``bench.md``.

    Parameters
    ----------
    output : path
        Folder for the two files.
    sizes : sequence of int, default=(5000, 20000)
        Numbers of training rows.
    memory : bool, default=False
        Whether to fit all 60,000 rows under a budget of 2 GiB too (minutes).
    data_home : path, default=None
        Folder with the data; None takes the environment's ``KAUCUS_DATA``.
    stream : text stream, default=None
        Where progress goes; None is the standard error.

    Returns
    -------
    dict
        ``machine``, ``contenders`` (a record per size and contender, with
        ``skipped`` and the reason where a library is missing), ``kernels`` and,
        if asked for, ``memory``.
    """
    load_mnist_split(sizes[0], "float32", data_home)  # missing data: say so at once
    content: dict[str, Any] = {"about": ABOUT, "machine": describe_machine()}
    content |= {"contenders": [], "kernels": []}
    steps = len(sizes) * len(CONTENDERS) + 1 + int(memory)
    with make_progress(steps, stream) as progress:
        for n in sizes:
            for name in CONTENDERS:
                progress.begin(f"{name}, {n:,} rows")
                record = run_contender(name, n, data_home)
                content["contenders"].append(record)
                progress.advance(_line(record))
        progress.begin("kernel evaluation")
        content["kernels"] = run_isolated(measure_kernels).result
        progress.advance("kernel evaluation measured")
        if memory:
            progress.begin("60,000 rows under 2 GiB")
            content["memory"] = run_isolated(measure_memory, data_home).result
            progress.advance("60,000 rows under 2 GiB measured")
    _write(Path(output), content)
    return content


def run_contender(name: str, n: int, data_home: Any) -> dict[str, Any]:
    """Run one contender in a process of its own; one that cannot run is recorded."""
    head = {"rows": n, "contender": name, "dtype": CONTENDERS[name].dtype}
    try:
        imports = CONTENDERS[name].imports
        run = run_isolated(measure_contender, name, n, data_home, imports=imports)
    except ModuleNotFoundError as error:
        return {**head, "skipped": str(error)}
    except RuntimeError as error:  # its process died: a crash of its library, or memory
        return {**head, "skipped": f"crashed: {error}"}
    return {**head, **run.result}


def measure_contender(name: str, n: int, data_home: Any) -> dict[str, Any]:
    """Fit and predict once; meant for a process of its own."""
    contender = CONTENDERS[name]
    split = load_mnist_split(n, contender.dtype, data_home)
    model = contender.make()
    with peak_memory() as memory:
        _, fit_seconds = timed(model.fit, split.X_train, split.y_train)
        predicted, predict_seconds = timed(model.predict, split.X_test)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "error_percent": float(100 * np.mean(predicted != split.y_test)),
        "memory": memory.rise,
    }


def load_mnist_split(n: int, dtype: str, data_home: Any) -> Split:
    """Load the first n digits, each with mean zero and norm one."""
    split = load_split("mnist", n_train=n, dtype=dtype, data_home=data_home)
    return split._replace(X_train=_unit(split.X_train), X_test=_unit(split.X_test))


def _unit(X: np.ndarray) -> np.ndarray:
    X = X - X.mean(axis=1, keepdims=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


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
        X, Y = (_unit(rng.normal(size=(n, d)).astype(dtype)) for _ in range(2))
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
    """Fit under a memory budget; meant for a process of its own."""
    from kaucus import LSSVMClassifier

    split = load_mnist_split(n, "float32", data_home)
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
            reason = record["skipped"].split(":")[0]  # the rest is in the JSON file
            rows.append([*head, f"skipped: {reason}", *[""] * 6])
            continue
        reference = ours.get((record["rows"], record["dtype"]), {})
        rows.append([*head, *_values(record), *_ratios(record, reference)])
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


def memory_rows(record: dict) -> list[list[str]]:
    """Write the fit under a budget for :data:`MEMORY_HEADERS`."""
    return [
        [
            f"{record['rows']:,}",
            record["budget"],
            format_bytes(record["memory"]),
            format_seconds(record["fit_seconds"]),
            f"{record['error_percent']:.2f}",
            record["solver"],
        ]
    ]


def bench_tables(content: dict[str, Any]) -> list[tuple[str, tuple, list]]:
    """List each table of a benchmark as title, headers and rows."""
    tables = [
        ("Fit and predict", HEADERS, contender_rows(content["contenders"])),
        ("Kernel evaluation", KERNEL_HEADERS, kernel_rows(content["kernels"])),
    ]
    if "memory" in content:
        rows = memory_rows(content["memory"])
        tables.append(("Under a memory budget", MEMORY_HEADERS, rows))
    return tables


def _values(record: dict) -> list[str]:
    return [
        format_seconds(record["fit_seconds"]),
        format_seconds(record["predict_seconds"]),
        f"{record['error_percent']:.2f}",
        format_bytes(record["memory"]),
    ]


def _ratios(record: dict, reference: dict) -> list[str]:
    """Divide a record's times and memory by ours."""
    keys = ("fit_seconds", "predict_seconds", "memory")
    pairs = ((record[key], reference.get(key)) for key in keys)
    return [f"{value / ours:.2f}" if value and ours else "–" for value, ours in pairs]


def _line(record: dict) -> str:
    """Describe one finished contender for the progress."""
    what = f"{record['contender']}, {record['rows']:,} rows"
    if "skipped" in record:
        return f"{what}: SKIPPED: {record['skipped']}"
    return f"{what}: fit {format_seconds(record['fit_seconds'])}"


def _write(output: Path, content: dict[str, Any]) -> None:
    """Write the two files."""
    write_bench(output, "LS-SVM and its peers", content, bench_tables(content))
