"""Coverage and size of prediction intervals and sets, and the time they take.

Three parts: ``regression``, 14 tables; ``classification``, five tables and MNIST;
``time``, exact jackknife+ in closed form beside MAPIE's n refits, on the same rows.
MAPIE is asked for the same model; it is skipped where it is not installed
(``pip install mapie``).
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables as _tables
from benchmarks._runner import Content, Settings, Step, Table, load_digits
from kaucus.evaluation import CoverageDisplay
from kaucus.evaluation.clustering import format_seconds
from papers import timed

TITLE = "Prediction intervals and sets"
PARTS = ("regression", "classification", "time")
LEVELS = (0.8, 0.9, 0.95)
N_SPLITS, N_TRAIN, N_TEST = 5, 4000, 4000
CLASSES = ("waveform_21", "segmentation", "splice", "optdigits", "page_blocks")
N_DIGITS, DIGITS_EACH = 10_000, 60
# For the times: rows, and rows that are predicted.
TIMED_TABLE, TIMED_ROWS, TIMED_TEST = "kin8nm", 2000, 1000
# A share of the rows is held out for split conformal.
HELD_OUT = 0.2
ABOUT = (
    "Share of test rows whose target is in the interval or set, in percent, mean over "
    "the splits, and in brackets the mean width over the targets' standard deviation, "
    "or the mean number of classes. 4,000 training rows (10,000 of MNIST) unless "
    "--sizes says otherwise, at most 4,000 test rows. Every model with its defaults: "
    "C, kernel, metric and representatives are chosen on all training rows, which the "
    "guarantee of the leave-one-out methods does not cover. kaucus and MAPIE have the "
    "same model, KMeansKernelRegressor or KMeansKernelClassifier, but for "
    "LSSVMRegressor. 'split' holds out a fifth of the training rows; MAPIE's cross "
    "conformal has five folds, method 'plus'. MNIST has 60 representatives of each "
    "digit and a polynomial kernel, given."
)


# ---- measuring -----------------------------------------------------------------------


def steps(settings: Settings) -> list[Step]:
    """List the steps of each part; ``--parts`` are those above."""
    parts = settings.parts or PARTS
    make = {
        "regression": _regression_steps,
        "classification": _class_steps,
        "time": _time_steps,
    }
    unknown = set(parts) - set(make)
    if unknown:
        raise FileNotFoundError(f"no part {sorted(unknown)}; there are {PARTS}")
    return [step for part in parts for step in make[part](settings)]


def _sizes(settings: Settings) -> tuple[int, int]:
    """Return training rows and splits."""
    if settings.quick:
        return 200, 1
    return settings.sizes[0] if settings.sizes else N_TRAIN, N_SPLITS


def _table_steps(
    settings: Settings, section: str, names: Sequence[str], contenders, function
) -> list[Step]:
    n_train, n_splits = _sizes(settings)
    groups = {
        name: group
        for group in ("develop", "judge")
        for name in _tables.table_names(settings.data_home, group)
    }
    found = [name for name in names if name in groups]
    return [
        Step(
            section,
            f"{contender} on {name}, split {split}",
            function,
            (contender, groups[name], name, split, n_train, settings.data_home),
            {"contender": contender, "table": name, "split": split},
        )
        for split in range(n_splits)
        for name in (found[:2] if settings.quick else found)
        for contender in contenders
    ]


def _regression_steps(settings: Settings) -> list[Step]:
    names = _tables.REGRESSION
    return _table_steps(settings, "intervals", names, REGRESSORS, measure_intervals)


def _class_steps(settings: Settings) -> list[Step]:
    steps = _table_steps(settings, "sets", CLASSES, CLASSIFIERS, measure_sets)
    n, n_splits = _sizes(settings)
    n = n if settings.quick else N_DIGITS
    return steps + [
        Step(
            "sets",
            f"{contender} on MNIST, split {split}",
            measure_digits,
            (contender, split, n, settings.data_home),
            {"contender": contender, "table": "MNIST", "split": split},
        )
        for split in range(n_splits)
        for contender in CLASSIFIERS
    ]


def _time_steps(settings: Settings) -> list[Step]:
    n = 200 if settings.quick else TIMED_ROWS
    return [
        Step("times", f"{n} rows", measure_times, (n, settings.data_home), {"rows": n})
    ]


def _kaucus(kind: str, seed: int, **options):
    import kaucus

    return getattr(kaucus, kind)(random_state=seed, **options)


def _held_out(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows to learn from, and of those held out."""
    order = np.random.default_rng(seed).permutation(n)
    return order[int(HELD_OUT * n) :], order[: int(HELD_OUT * n)]


def _fit(model, X, y, seed: int, split: bool):
    """Fit all rows, or all but those that a split conformal method compares with."""
    if not split:
        return model.fit(X, y)
    learning, held = _held_out(len(y), seed)
    return model.fit(X[learning], y[learning]).conformalize(X[held], y[held])


def measure_intervals(
    contender: str, group: str, name: str, split: int, n_train: int, data_home: Any
) -> list[dict[str, Any]]:
    """Return coverage, mean width and times of a contender's intervals."""
    data = _tables.load_split(data_home, group, name, split, n_train)
    data = data._replace(X_test=data.X_test[:N_TEST], y_test=data.y_test[:N_TEST])
    return _quietly(REGRESSORS[contender], data, split)


def measure_sets(
    contender: str, group: str, name: str, split: int, n_train: int, data_home: Any
) -> list[dict[str, Any]]:
    """Return coverage, mean size and times of a contender's sets."""
    data = _tables.load_split(data_home, group, name, split, n_train)
    data = data._replace(X_test=data.X_test[:N_TEST], y_test=data.y_test[:N_TEST])
    return _quietly(CLASSIFIERS[contender], data, split)


def measure_digits(
    contender: str, split: int, n: int, data_home: Any
) -> list[dict[str, Any]]:
    """Return the same for digits, drawn from all: other people wrote the test part."""
    digits = load_digits(60_000, "float32", data_home)
    X = np.concatenate([digits.X_train, digits.X_test])
    y = np.concatenate([digits.y_train, digits.y_test])
    order = np.random.default_rng(split).permutation(len(y))
    learning, judging = order[:n], order[n : n + N_TEST]
    data = _tables.Split(X[learning], y[learning], X[judging], y[judging])
    given = {"kernel": "poly", "degree": 4, "gamma": 1.0, "C": 100.0}
    options = {"n_representatives": DIGITS_EACH, **given}
    return _quietly(CLASSIFIERS[contender], data, split, **options)


def _quietly(measure: Callable, *args, **options) -> list[dict[str, Any]]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measure(*args, **options)


# ---- contenders ----------------------------------------------------------------------


def _ours(kind: str, ways: dict[str, dict[str, str]], *, split=False) -> Callable:
    """Return a function that measures one fit of kaucus in several ways."""

    def measure(data, seed: int, **options) -> list[dict[str, Any]]:
        model = _kaucus(kind, seed, **options)
        _, fit_seconds = timed(_fit, model, data.X, data.y, seed, split)
        unit = 1.0 if hasattr(model, "predict_set") else float(np.std(data.y_test))
        records = []
        for name, way in ways.items():
            display, seconds = timed(
                CoverageDisplay.from_estimator,
                model,
                data.X_test,
                data.y_test,
                confidence_levels=LEVELS,
                plot=False,
                **way,
            )
            sizes = display.sizes / unit
            found = _record(display.coverages, sizes, fit_seconds, seconds)
            records.append({"contender": name, **found})
        return records

    return measure


def _record(coverages, sizes, fit_seconds: float, seconds: float) -> dict[str, Any]:
    return {
        "coverage": [float(v) for v in coverages],
        "size": [float(v) for v in sizes],
        "fit_seconds": fit_seconds,
        "seconds": seconds,
    }


def _mapie_regression(cross: bool) -> Callable:
    def measure(data, seed: int) -> list[dict[str, Any]]:
        from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

        model = _kaucus("KMeansKernelRegressor", seed)
        if cross:
            judge = CrossConformalRegressor(
                model, confidence_level=list(LEVELS), cv=5, random_state=seed
            )
            _, fit_seconds = timed(judge.fit_conformalize, data.X, data.y)
        else:
            learning, held = _held_out(len(data.y), seed)
            _, fit_seconds = timed(model.fit, data.X[learning], data.y[learning])
            judge = SplitConformalRegressor(model, confidence_level=list(LEVELS))
            judge.conformalize(data.X[held], data.y[held])
        (_, ends), seconds = timed(judge.predict_interval, data.X_test)
        y = data.y_test[:, None]
        held = (ends[:, 0] <= y) & (y <= ends[:, 1])
        widths = (ends[:, 1] - ends[:, 0]).mean(axis=0) / np.std(data.y_test)
        return [_record(held.mean(axis=0), widths, fit_seconds, seconds)]

    return measure


def _mapie_classes(data, seed: int, **options) -> list[dict[str, Any]]:
    from mapie.classification import CrossConformalClassifier

    judge = CrossConformalClassifier(
        _kaucus("KMeansKernelClassifier", seed, **options),
        confidence_level=list(LEVELS),
        cv=5,
        random_state=seed,
    )
    _, fit_seconds = timed(judge.fit_conformalize, data.X, data.y)
    (_, sets), seconds = timed(judge.predict_set, data.X_test)
    numbers = np.searchsorted(np.unique(data.y), data.y_test)
    held = sets[np.arange(len(numbers)), numbers]
    sizes = sets.sum(axis=1).mean(axis=0)
    return [_record(held.mean(axis=0), sizes, fit_seconds, seconds)]


REGRESSORS: dict[str, Callable] = {
    "kaucus": _ours(
        "KMeansKernelRegressor",
        {
            f"kaucus, {method}": {"method": method}
            for method in ("plus", "naive", "minmax")
        },
    ),
    "kaucus, split": _ours(
        "KMeansKernelRegressor", {"kaucus, split": {"method": "split"}}, split=True
    ),
    "LSSVMRegressor": functools.partial(
        _ours("LSSVMRegressor", {"LSSVMRegressor, plus": {}}),
        **{"C": "auto", "kernel": "auto", "gamma": "tune"},
    ),
    "MAPIE cross": _mapie_regression(cross=True),
    "MAPIE split": _mapie_regression(cross=False),
}
CLASSIFIERS: dict[str, Callable] = {
    "kaucus": _ours(
        "KMeansKernelClassifier",
        {f"kaucus, {score}": {"score": score} for score in ("lac", "aps")},
    ),
    "kaucus, split": _ours(
        "KMeansKernelClassifier",
        {
            f"kaucus, {score}, split": {"score": score, "method": "split"}
            for score in ("lac", "aps")
        },
        split=True,
    ),
    "MAPIE cross, lac": _mapie_classes,
}


def measure_times(n: int, data_home: Any) -> list[dict[str, Any]]:
    """Time jackknife+ in closed form and by MAPIE's n refits; compare their ends."""
    import kaucus

    data = _tables.load_split(data_home, "judge", TIMED_TABLE, 0, n)
    X, y, new = data.X, data.y, data.X_test[:TIMED_TEST]
    model = kaucus.LSSVMRegressor(C=10.0)
    model.gamma = float(1 / X.shape[1])  # the same for every refit
    _, fit_seconds = timed(model.fit, X, y)
    ours, seconds = timed(model.predict_interval, new, list(LEVELS))
    again, later = timed(model.predict_interval, new, list(LEVELS))
    assert np.array_equal(ours, again)
    records = [
        {"contender": "LSSVMRegressor.fit", "seconds": fit_seconds},
        {"contender": "kaucus: predict_interval, first call", "seconds": seconds},
        {"contender": "kaucus: predict_interval, later calls", "seconds": later},
    ]
    try:
        from mapie.regression import CrossConformalRegressor
        from sklearn.base import clone
        from sklearn.model_selection import LeaveOneOut
    except ModuleNotFoundError as error:
        return [*records, {"contender": "MAPIE", "skipped": str(error)}]
    judge = CrossConformalRegressor(
        clone(model), confidence_level=list(LEVELS), cv=LeaveOneOut(), n_jobs=1
    )
    _, fits = timed(judge.fit_conformalize, X, y)
    (_, theirs), predictions = timed(judge.predict_interval, new)
    return [
        *records,
        {"contender": f"MAPIE: {n} fits", "seconds": fits},
        {"contender": "MAPIE: predict_interval", "seconds": predictions},
        {
            "contender": "largest difference of the ends, over the spread of y",
            "difference": float(np.max(np.abs(ours - theirs)) / np.std(y)),
        },
    ]


# ---- tables --------------------------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return coverage and size at each level, times, and the closed form's gain."""
    found = []
    for section, size in (("intervals", "width"), ("sets", "classes in a set")):
        records = [r for r in content.get(section, []) if "skipped" not in r]
        if records:
            found += [_coverages(section, size, records, k) for k in range(len(LEVELS))]
            found.append(_summary(section, records))
    if content.get("times"):
        found.append(_times(content["times"]))
    return found


def _mean(records: Sequence[dict], table: str | None, contender: str, k: int):
    some = [
        (r["coverage"][k], r["size"][k])
        for r in records
        if r["contender"] == contender and table in (None, r["table"])
    ]
    return np.mean(some, axis=0) if some else None


def _coverages(section: str, size: str, records: Sequence[dict], k: int) -> Table:
    every = list(dict.fromkeys(r["contender"] for r in records))
    names = list(dict.fromkeys(r["table"] for r in records))
    rows = []
    for name in names:
        cells = [_mean(records, name, contender, k) for contender in every]
        texts = ["–" if c is None else f"{100 * c[0]:.1f} ({c[1]:.2f})" for c in cells]
        rows.append([name, *texts])
    title = f"{section.capitalize()} at {100 * LEVELS[k]:g} %: held in % ({size})"
    return Table(title, ("table", *every), rows)


def _summary(section: str, records: Sequence[dict]) -> Table:
    """Return mean and worst coverage over the tables, and median times."""
    every = list(dict.fromkeys(r["contender"] for r in records))
    names = list(dict.fromkeys(r["table"] for r in records))
    rows = []
    for contender in every:
        cells = [contender]
        for k in range(len(LEVELS)):
            means = [_mean(records, name, contender, k) for name in names]
            held = [100 * m[0] for m in means if m is not None]
            cells.append(f"{np.mean(held):.1f} ({min(held):.1f})")
        own = [r for r in records if r["contender"] == contender]
        for key in ("fit_seconds", "seconds"):
            cells.append(format_seconds(float(np.median([r[key] for r in own]))))
        rows.append(cells)
    levels = [f"{100 * level:g} %: mean (worst table)" for level in LEVELS]
    headers = ("contender", *levels, "fit", "predict")
    return Table(f"{section.capitalize()}: held in %, and median times", headers, rows)


def _times(records: Sequence[dict]) -> Table:
    ours = next(r["seconds"] for r in records if "first call" in r["contender"])
    theirs = sum(r["seconds"] for r in records if r["contender"].startswith("MAPIE: "))
    rows = []
    for r in records:
        if "skipped" in r:
            value = f"skipped: {r['skipped']}"
        elif "difference" in r:
            value = f"{r['difference']:.1e}"
        else:
            value = format_seconds(r["seconds"])
        rows.append([r["contender"], value])
    if theirs:
        rows.append(["MAPIE over our first call", f"{theirs / ours:.0f} times"])
    n = records[0]["rows"]
    title = f"Jackknife+ of {n} rows, {TIMED_TEST} rows predicted"
    return Table(title, ("", "time"), rows)


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw the mean coverage against the level, one line for each contender."""
    from matplotlib import pyplot as plt

    files = []
    for section in ("intervals", "sets"):
        records = [r for r in content.get(section, []) if "skipped" not in r]
        if not records:
            continue
        figure, axes = plt.subplots(figsize=(6, 4.5))
        for contender in dict.fromkeys(r["contender"] for r in records):
            held = [_mean(records, None, contender, k)[0] for k in range(len(LEVELS))]
            CoverageDisplay(LEVELS, held, name=contender).plot(ax=axes)
        figure.tight_layout()
        files.append(folder / f"coverage-{section}.png")
        figure.savefig(files[-1], dpi=150)
        plt.close(figure)
    return files
