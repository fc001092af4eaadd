"""Outliers among rows of one class: a kernel density beside forest, LOF and SVM.

The largest class of a set is the inliers; as many rows of the other classes are mixed
in that they are a twentieth. Half of the rows are fitted, without labels.
"""

from time import process_time
from typing import Any

import numpy as np

from benchmarks._runner import Content, Settings, Step, Table
from papers import datasets

TITLE = "Outliers"
ABOUT = (
    "100 AUC of outliers, the mean over draws: of the fitted rows (ranking what was "
    "given) and of rows not seen. The largest class of each set are the inliers, 5 % "
    "are rows of other classes. All with their defaults; LocalOutlierFactor and "
    "OneClassSVM on standardised columns. Empty: more rows than it was given "
    "(OneClassSVM 20,000, LocalOutlierFactor 50,000). Seconds are of processor time, "
    "one thread: the fit, and the scores of all rows. The 'million' rows are normal, "
    "with 20 columns, float32. No choice was made on these sets."
)
UCI = (
    *("breast_cancer_wisconsin", "banknote", "climate_crashes"),
    *("diabetes_pima", "heart_statlog"),
)
SETS = ("mnist", "pendigits", "satimage", "covtype", "a9a", *UCI)
SHARE, N_DRAWS = 0.05, 5
LARGE = ("mnist", "covtype", "a9a")
MOST_ROWS = {"OneClassSVM": 20_000, "LocalOutlierFactor": 50_000}
MILLION, WIDTH = 1_000_000, 20


def _make(name: str, seed: int):
    """Return a contender with its defaults."""
    if name == "kaucus":
        from kaucus import KernelOutlierDetector

        return KernelOutlierDetector(random_state=seed)
    if name == "IsolationForest":
        from sklearn.ensemble import IsolationForest

        return IsolationForest(random_state=seed)
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.svm import OneClassSVM

    if name == "OneClassSVM":
        return OneClassSVM()
    return LocalOutlierFactor(novelty=True)


CONTENDERS = ("kaucus", "IsolationForest", "LocalOutlierFactor", "OneClassSVM")


def load(name: str, data_home: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a set, dense, and their classes."""
    options = {"data_home": data_home, "return_X_y": True}
    if name in UCI:
        return datasets.load_uci(name, **options)
    parts = getattr(datasets, f"load_{name}")(**options)
    X = [x.toarray() if hasattr(x, "toarray") else x for x in parts[::2]]
    return np.concatenate(X), np.concatenate(parts[1::2])


def mixed(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the largest class and some others, and who is an outlier."""
    rng, (classes, counts) = np.random.default_rng(seed), np.unique(y, return_counts=1)
    largest = classes[np.argmax(counts)]
    inliers, others = np.flatnonzero(y == largest), np.flatnonzero(y != largest)
    wanted = round(SHARE / (1 - SHARE) * len(inliers))
    others = rng.permutation(others)[:wanted]
    rows = rng.permutation(np.concatenate([inliers, others]))
    return X[rows], y[rows] != largest


def steps(settings: Settings) -> list[Step]:
    """List every contender on every draw of every set, and on a million rows."""
    names = settings.parts or SETS
    draws = 1 if settings.quick else N_DRAWS
    if settings.quick:
        names = names[-1:]
    found = [
        Step(
            "records",
            f"{contender}, {name}, draw {draw}",
            measure,
            (contender, name, draw, settings.data_home),
            {"contender": contender, "set": name, "draw": draw},
        )
        for name in names
        for draw in range(1 if name in LARGE else draws)
        for contender in CONTENDERS
    ]
    if settings.large:
        found += [
            Step("million", f"{c}, a million rows", million, (c,), {"contender": c})
            for c in CONTENDERS[:2]
        ]
    return found


def measure(contender: str, name: str, draw: int, data_home: Any) -> dict[str, Any]:
    """Fit half of the rows; return both AUC and seconds."""
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import StandardScaler

    X, outlier = mixed(*load(name, data_home), draw)
    n = len(X) // 2
    if n > MOST_ROWS.get(contender, n):
        return {"skipped": f"{n} rows"}
    if contender in MOST_ROWS:
        X = StandardScaler().fit(X[:n]).transform(X)
    model, start = _make(contender, draw), process_time()
    model.fit(X[:n])
    seconds = process_time() - start
    seen = model.score_samples(X[:n])
    if contender == "LocalOutlierFactor":
        seen = model.negative_outlier_factor_
    unseen = model.score_samples(X[n:])
    return {
        "rows": n,
        "fitted": 100 * roc_auc_score(outlier[:n], -seen),
        "unseen": 100 * roc_auc_score(outlier[n:], -unseen),
        "fit_seconds": seconds,
        "seconds": process_time() - start,
    }


def million(contender: str) -> dict[str, Any]:
    """Fit and score a million rows; return processor seconds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((MILLION, WIDTH), dtype=np.float32)
    model, start = _make(contender, 0), process_time()
    model.fit(X)
    seconds = process_time() - start
    model.predict(X)
    return {"fit_seconds": seconds, "seconds": process_time() - start}


def tables(content: Content) -> list[Table]:
    """Return AUC of fitted and of unseen rows, and seconds."""
    records, found = content["records"], []
    for key, title in (
        ("fitted", "100 AUC of fitted rows"),
        ("unseen", "100 AUC of unseen rows"),
        ("seconds", "Seconds of fit and scores"),
    ):
        names = list(dict.fromkeys(r["set"] for r in records))
        rows = [
            [name, *(_mean(records, key, set=name, contender=c) for c in CONTENDERS)]
            for name in names
        ]
        full = [r for r in rows if all(v is not None for v in r[1:])]
        means = [
            [f"mean of {len(some)}", *(np.mean(v) for v in zip(*some, strict=True))]
            for some in ([r[1:] for r in full],)
            if some
        ]
        shown = [[r[0], *map(_shown, r[1:])] for r in rows + means]
        found.append(Table(title, ["set", *CONTENDERS], shown))
    rows = [
        [r["contender"], f"{r['fit_seconds']:.1f}", f"{r['seconds']:.1f}"]
        for r in content.get("million", [])
        if "seconds" in r
    ]
    if rows:
        headers = ["contender", "fit", "fit and predict"]
        found.append(Table("Seconds, a million rows", headers, rows))
    return found


def _mean(records: list[dict], key: str, **head) -> float | None:
    """Return the mean of a number over draws; None where there is none."""
    some = [r for r in records if all(r[k] == v for k, v in head.items())]
    values = [r[key] for r in some if key in r]
    return float(np.mean(values)) if values else None


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
