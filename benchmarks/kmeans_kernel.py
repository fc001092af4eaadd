"""Speed, memory and error of the k-means kernel classifier, in one run.

MNIST, pixels of unit norm, the kernel ⟨x, x'⟩⁴.
"""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import lssvm
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
)
from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers import _methods, load_split, timed
from papers._figures import COLOURS, figure_file

TITLE = "The k-means kernel classifier and its peers"
prepare = lssvm.prepare
N_ROWS, QUICK_ROWS = 60_000, 6_000
STEPS = 10
# The paper's is 10⁻⁶; the errors are the same, and float32 kernels are enough for this.
EPSILON = 1e-4
ABOUT = (
    "MNIST, rows minus their mean and divided by their norm, kernel ⟨x, x'⟩⁴, "
    "C = 10⁴, k-means from random rows. Whole job: features, clustering, solution, "
    "prediction of 10,000 rows. Clustering: each class by itself, from the same rows, "
    "the same number of steps, float32. Each in its own process. Ratios: theirs / "
    "kaucus."
)
HEADERS = (
    "contender",
    "points",
    "whole job",
    "fit",
    "predict",
    "error %",
    "memory",
    "model",
    "whole ×",
)
CLUSTER_HEADERS = ("contender", "steps", "seconds", "mean cosine", "×")
GROWTH_HEADERS = ("fit on", "rows", "Q", "fit", "predict a row")


def _ours(fit_on: str) -> Callable[[int], Any]:
    def make(n_representatives: int) -> Any:
        model = _methods.pixel_classifier(
            n_representatives, fit_on=fit_on, C=1 / EPSILON
        )
        model[-1].set_params(random_state=0)
        return model

    return make


def _plain(n_representatives: int) -> Any:
    from tests.reference.kmeans_kernel import PlainKMeansKernel

    return PlainKMeansKernel(n_representatives, epsilon=EPSILON)


def _nystroem(n_representatives: int) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    from kaucus.preprocessing import UnitNormalizer

    columns = Nystroem(
        kernel="poly",
        degree=4,
        gamma=1.0,
        coef0=0.0,
        n_components=10 * n_representatives,
        random_state=0,
    )
    return make_pipeline(UnitNormalizer(), columns, RidgeClassifier(alpha=EPSILON))


KAUCUS = "kaucus, representatives"
CONTENDERS = {
    KAUCUS: Contender(_ours("representatives"), ("kaucus",)),
    "kaucus, all rows": Contender(_ours("all"), ("kaucus",)),
    "plain NumPy, float64": Contender(
        _plain, ("tests.reference.kmeans_kernel",), "float64"
    ),
    "Nystroem + RidgeClassifier": Contender(_nystroem, ("sklearn",)),
}


def steps(settings: Settings) -> list[Step]:
    """List the whole jobs, the clusterings alone, and the fits that show growth."""
    quick, home = settings.quick, settings.data_home
    n, q = (QUICK_ROWS, 100) if quick else (N_ROWS, 1000)
    found = [
        Step(
            "contenders",
            f"{name}, {10 * points:,} points",
            measure_job,
            (name, points, n, home),
            {"contender": name},
            CONTENDERS[name].imports,
        )
        for name, points in contests(quick)
    ]
    found += [
        Step(
            "clustering",
            f"clustering, {name}",
            measure_clustering,
            (name, q, n, home),
            {"contender": name},
            (module,),
        )
        for name, (_, module) in CLUSTERERS.items()
    ]
    return found + [
        Step("growth", f"fit on {job[0]}, {job[1]:,}", measure_growth, (*job, home))
        for job in growth_jobs(n, quick)
    ]


def contests(quick: bool) -> list[tuple[str, int]]:
    """List who runs with how many representatives of each class."""
    jobs = [(name, 100) for name in CONTENDERS]
    if not quick:
        # Nystroem decomposes its landmarks' matrix: 10,000 of them take too long.
        jobs += [(name, 300) for name in CONTENDERS if "NumPy" not in name]
        jobs += [(name, 1000) for name in CONTENDERS if "Nystroem" not in name]
    return jobs


def growth_jobs(n: int, quick: bool) -> list[tuple[str, int, int]]:
    """List what to fit to see how time grows: fit_on, rows, Q."""
    sizes = [n // 8, n // 4, n // 2, n]
    numbers = [50, 100, 200] if quick else [100, 200, 400, 800]
    q = numbers[1]
    jobs = [(on, size, q) for on in ("representatives", "all") for size in sizes[:-1]]
    return jobs + [(on, n, k) for on in ("representatives", "all") for k in numbers]


def measure_job(name: str, q: int, n: int, data_home: Any) -> dict[str, Any]:
    """Fit and predict once, from pixels."""
    contender = CONTENDERS[name]
    split = load_split("mnist", n_train=n, dtype=contender.dtype, data_home=data_home)
    model = contender.make(q)
    record = fit_and_predict(model, split)
    return {"points": 10 * q, **record, "model_bytes": len(pickle.dumps(model))}


def measure_growth(fit_on: str, n: int, q: int, data_home: Any) -> dict[str, Any]:
    """Time one fit and one prediction of 10,000 rows."""
    split = load_digits(n, "float32", data_home)
    model = _ours(fit_on)(q)[-1]
    model.fit(split.X_train[: n // 10], split.y_train[: n // 10])  # warm
    _, seconds = timed(model.fit, split.X_train, split.y_train)
    _, predict_seconds = timed(model.predict, split.X_test)
    per_row = predict_seconds / len(split.X_test)
    return {
        "fit_on": fit_on,
        "rows": n,
        "q": q,
        "fit_seconds": seconds,
        "predict_seconds_per_row": per_row,
    }


# ---- clustering alone ----------------------------------------------------------------


def _cluster_kaucus(X: np.ndarray, first: np.ndarray) -> np.ndarray:
    from kaucus.clustering._kmeans import kmeans

    rng = np.random.default_rng(0)
    options = {"max_iter": STEPS, "tol": 1e-300, "rng": rng}
    return kmeans(X, len(first), metric="cosine", init=first, **options).centers


def _cluster_sklearn(X: np.ndarray, first: np.ndarray) -> np.ndarray:
    import warnings

    from sklearn.cluster import KMeans

    model = KMeans(len(first), init=first, n_init=1, max_iter=STEPS, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged: that is meant
        return model.fit(X).cluster_centers_


def _cluster_faiss(X: np.ndarray, first: np.ndarray) -> np.ndarray:
    import faiss

    model = faiss.Kmeans(
        X.shape[1],
        len(first),
        niter=STEPS,
        spherical=True,
        max_points_per_centroid=len(X),
        min_points_per_centroid=1,
    )
    model.train(X, init_centroids=first)
    return model.centroids


CLUSTERERS = {
    "kaucus": (_cluster_kaucus, "kaucus"),
    "sklearn KMeans": (_cluster_sklearn, "sklearn"),
    "faiss.Kmeans(spherical=True)": (_cluster_faiss, "faiss"),
}


def measure_clustering(name: str, q: int, n: int, data_home: Any) -> dict[str, Any]:
    """Cluster each class from the same first centres."""
    split = load_digits(n, "float32", data_home)
    rng, cluster = np.random.default_rng(0), CLUSTERERS[name][0]
    parts = [split.X_train[split.y_train == c] for c in range(10)]
    firsts = [part[rng.choice(len(part), q, replace=False)] for part in parts]
    cluster(parts[0], firsts[0])  # threads and pages are there before the clock
    seconds, cosines = 0.0, []
    for part, first in zip(parts, firsts, strict=True):
        centers, elapsed = timed(cluster, part, first)
        seconds += elapsed
        unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
        cosines.append(np.max(part @ unit.T, axis=1))
    mean = float(np.mean(np.concatenate(cosines)))
    return {"steps": STEPS, "seconds": seconds, "mean_cosine": mean}


# ---- tables and the figure -----------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return the tables of the records so far."""
    return [
        Table("Whole job", HEADERS, job_rows(content["contenders"])),
        Table("Clustering alone", CLUSTER_HEADERS, cluster_rows(content["clustering"])),
        Table("How fit time grows", GROWTH_HEADERS, growth_rows(content["growth"])),
    ]


def job_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`HEADERS`, times over ours at the same points."""
    ours = {
        r["points"]: _whole(r)
        for r in records
        if r["contender"] == KAUCUS and "skipped" not in r
    }
    rows = []
    for r in records:
        if "skipped" in r:
            rows.append(skipped_row([r["contender"], ""], r, len(HEADERS)))
            continue
        rows.append(
            [
                r["contender"],
                f"{r['points']:,}",
                format_seconds(_whole(r)),
                *result_cells(r),
                format_bytes(r["model_bytes"]),
                ratio(_whole(r), ours.get(r["points"])),
            ]
        )
    return rows


def _whole(record: dict) -> float:
    return record["fit_seconds"] + record["predict_seconds"]


def cluster_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`CLUSTER_HEADERS`."""
    ours = next((r.get("seconds") for r in records if r["contender"] == "kaucus"), None)
    return [
        skipped_row([r["contender"], ""], r, len(CLUSTER_HEADERS))
        if "skipped" in r
        else [
            r["contender"],
            str(r["steps"]),
            format_seconds(r["seconds"]),
            f"{r['mean_cosine']:.4f}",
            ratio(r["seconds"], ours),
        ]
        for r in records
    ]


def growth_rows(records: Sequence[dict]) -> list[list[str]]:
    """Write the records for :data:`GROWTH_HEADERS`."""
    return [
        [
            r["fit_on"],
            f"{r['rows']:,}",
            f"{r['q']:,}",
            format_seconds(r["fit_seconds"]),
            f"{1e6 * r['predict_seconds_per_row']:.0f} µs",
        ]
        for r in records
        if "skipped" not in r
    ]


def fitted_exponent(x: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of the power law seconds ∝ xᵖ of least squares in logarithms.

    >>> round(fitted_exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0])


def draw_growth(records: Sequence[dict], path: Path) -> Path:
    """Draw fit time over rows and over Q, with the fitted exponents."""
    done = [r for r in records if "skipped" not in r]
    largest = max(r["rows"] for r in done)
    fixed = min(r["q"] for r in done if r["rows"] < largest)
    panels = (
        ("rows", "training rows", [r for r in done if r["q"] == fixed]),
        (
            "q",
            "representatives of each class, Q",
            [r for r in done if r["rows"] == largest],
        ),
    )
    with figure_file(path, 10.0, 4.5) as canvas:
        for i, (key, label, chosen) in enumerate(panels):
            axes = canvas.add_subplot(1, 2, i + 1)
            _draw_panel(axes, key, label, chosen)
    return path


def _draw_panel(axes, key: str, label: str, records: Sequence[dict]) -> None:
    from matplotlib.ticker import LogLocator

    for colour, on in zip(COLOURS, ("representatives", "all"), strict=False):
        points = sorted(
            (r[key], r["fit_seconds"]) for r in records if r["fit_on"] == on
        )
        x, seconds = zip(*points, strict=True)
        power = fitted_exponent(x, seconds)
        text = f"fit on {on}: exponent {power:.2f}"
        axes.plot(x, seconds, marker="o", lw=2, color=colour, label=text)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    xs = sorted({r[key] for r in records})
    axes.set_xticks(xs, [f"{value:,}" for value in xs])
    axes.set_xlabel(label)
    axes.set_ylabel("fit time (s)")
    axes.grid(alpha=0.25)
    axes.legend()


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw how fit time grows."""
    return [draw_growth(content["growth"], folder / "growth.png")]
