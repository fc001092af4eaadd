"""Predictions by onnxruntime: our graph, our ``predict``, and SVC's export.

Rows of a generator that needs no download. Every contender is fitted to the same rows;
fits are not measured. onnxruntime has as many threads as BLAS has.
"""

import time
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table, skipped_row
from kaucus.evaluation.clustering import format_seconds

TITLE = "Predictions by onnxruntime"
OURS, OURS_SMALL = "KMeansKernelClassifier, rbf", "KMeansKernelClassifier, exponential"
EXACT, SVC = "LSSVMClassifier, rbf", "SVC, rbf"
CONTENDERS = (OURS, OURS_SMALL, EXACT, SVC)
N_COLUMNS, N_CLASSES, N_ROWS = 50, 5, 10_000
SIZES, QUICK_SIZES = (4000,), (1000,)
REPEATS = 5
HEADERS = ("model", "points", "way", "1 row", f"{N_ROWS:,} rows", "differs by")
ABOUT = (
    f"{N_COLUMNS} columns, {N_CLASSES} classes (make_classification), float32 rows; "
    "labels and probabilities (SVC: labels and decision values). 1 row: median of 200 "
    f"calls; {N_ROWS:,} rows: best of {REPEATS}. Differs by: the largest difference of "
    "probabilities (decision values) from those of the model's own method on float64 "
    "rows. SVC is exported by skl2onnx as it does by default, the SVM operator."
)


def steps(settings: Settings) -> list[Step]:
    """List every contender at every size."""
    sizes = settings.sizes or (QUICK_SIZES if settings.quick else SIZES)
    return [
        Step("predictions", f"{name}, {n} rows", measure, (name, n), {"model": name})
        for n in sizes
        for name in CONTENDERS
    ]


def make_model(name: str) -> Any:
    from sklearn.svm import SVC as LibSVM

    from kaucus import KMeansKernelClassifier, LSSVMClassifier

    few = {"random_state": 0, "learn_metric": False, "C": 10.0}
    if name == OURS:
        return KMeansKernelClassifier(200, kernel="rbf", gamma="scale", **few)
    if name == OURS_SMALL:
        return KMeansKernelClassifier(200, kernel="exponential", gamma=0.1, **few)
    return LSSVMClassifier() if name == EXACT else LibSVM()


def measure(name: str, n_train: int) -> list[dict[str, Any]]:
    """Fit one model; measure its own predictions and those of its graph."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_train + N_ROWS,
        N_COLUMNS,
        n_informative=20,
        n_classes=N_CLASSES,
        random_state=0,
    )
    X = X.astype(np.float32)
    model = make_model(name).fit(X[:n_train], y[:n_train])
    rows = X[n_train:]
    exact = _values(model, rows.astype(np.float64))
    ways = {"predict": lambda Z: (model.predict(Z), _values(model, Z))}
    ways["onnxruntime"] = _session(model, rows)
    n_points = len(model.dual_coef_) if name != SVC else len(model.support_)
    return [
        {
            "points": n_points,
            "way": way,
            "one_seconds": _median_of_one(run, rows),
            "seconds": _best_of_all(run, rows),
            "difference": float(np.abs(run(rows)[1] - exact).max()),
        }
        for way, run in ways.items()
    ]


def _values(model: Any, X: np.ndarray) -> np.ndarray:
    has = hasattr(model, "predict_proba")
    return (model.predict_proba if has else model.decision_function)(X)


def _session(model: Any, rows: np.ndarray):
    import onnxruntime
    import skl2onnx
    import threadpoolctl

    ours = hasattr(model, "to_onnx")
    options = None if ours else {"raw_scores": True, "zipmap": False}
    proto = (
        model.to_onnx()
        if ours
        else skl2onnx.to_onnx(model, rows[:1], options={id(model): options})
    )
    settings = onnxruntime.SessionOptions()
    pools = threadpoolctl.threadpool_info()
    settings.intra_op_num_threads = max(p["num_threads"] for p in pools)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    values = "probabilities" if "probabilities" in names else names[-1]
    return lambda Z: session.run(["label", values], {"X": Z})


def _median_of_one(run, rows: np.ndarray) -> float:
    return float(np.median([_seconds(run, rows[i : i + 1]) for i in range(200)]))


def _best_of_all(run, rows: np.ndarray) -> float:
    return min(_seconds(run, rows) for _ in range(REPEATS))


def _seconds(run, rows: np.ndarray) -> float:
    start = time.perf_counter()
    run(rows)
    return time.perf_counter() - start


def tables(content: Content) -> list[Table]:
    """Return the table of the records so far."""
    rows = [
        skipped_row([r["model"]], r, len(HEADERS))
        if "skipped" in r
        else [
            r["model"],
            f"{r['points']:,}",
            r["way"],
            format_seconds(r["one_seconds"]),
            format_seconds(r["seconds"]),
            f"{r['difference']:.1e}",
        ]
        for r in content["predictions"]
    ]
    return [Table("One row, and many", HEADERS, rows)]
