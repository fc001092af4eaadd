"""Defaults of kaucus, boosting, forests and SVMs on tables, on the same splits.

Tables with one header line and the target in the last column, ``target``: those of a
folder ``tables/develop``, on which defaults were chosen, and of ``tables/judge``, on
which nothing was. Columns of text are one-hot, gaps are filled with the median, and
columns are standardised for all alike, by the training rows. The part ``sets`` has 13
sets of its own and an SVC tuned on each split: :mod:`benchmarks._sets`.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import _sets
from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation.clustering import format_seconds
from papers import timed

TITLE = "Defaults on tables"
REGRESSION = (
    *("cpu_act", "pol", "houses", "puma8nh", "wind", "house_8l", "abalone"),
    *("kin8nm", "bank32nh", "elevators", "bike", "protein", "mv", "ailerons"),
)
PARTS = ("develop", "judge", _sets.SECTION)
N_SPLITS, N_TRAIN, N_TEST = 5, 10_000, 10_000
# A grid of 25 in three folds takes hours on more.
TUNED_ROWS = 5000
ABOUT_TABLES = (
    "Error in percent, or 100 RMSE / standard deviation, of test rows; mean over the "
    "splits. Every contender with its defaults on the same standardised, one-hot "
    "columns; 'tuned SVC' is a grid of 25 in three folds, on the first split and at "
    "most 5,000 rows. 'kaucus, no metric' has learn_metric=False. Ranks are over the "
    "contenders with all splits, mean over tables, 1 is best. Defaults of kaucus were "
    "chosen on 'develop' alone; 'judge' was run for this table."
)


class Split(NamedTuple):
    """Rows to learn from and rows to judge, as numbers."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


# ---- contenders ----------------------------------------------------------------------


def _kaucus(regression: bool, seed: int, **options):
    import kaucus

    kind = kaucus.KMeansKernelRegressor if regression else kaucus.KMeansKernelClassifier
    return kind(random_state=seed, **options)


def _sklearn(module: str, stem: str) -> Callable:
    def make(regression: bool, seed: int):
        import importlib

        library = importlib.import_module(f"sklearn.{module}")
        ending = "Regressor" if regression else "Classifier"
        return getattr(library, stem + ending)(random_state=seed)

    return make


def _svm(regression: bool, seed: int):
    from sklearn.svm import SVC, SVR

    return SVR(C=10) if regression else SVC(C=10)


def _tuned_svm(regression: bool, seed: int):
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, SVR

    return GridSearchCV(SVR() if regression else SVC(), _sets.GRID, cv=3)


def _lightgbm(regression: bool, seed: int):
    import lightgbm

    kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    return kind(random_state=seed, verbose=-1, n_jobs=_threads())


def _catboost(regression: bool, seed: int):
    import catboost

    kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    return kind(
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        thread_count=_threads(),
    )


class _XRFM:
    """xRFM with a fifth of the training rows for its validation, as it needs some."""

    def __init__(self, regression: bool, seed: int):
        from xrfm import xRFM

        metric = "mse" if regression else "accuracy"
        self._model = xRFM(device="cpu", tuning_metric=metric, random_state=seed)
        self._regression, self._seed = regression, seed

    def fit(self, X, y):
        order = np.random.default_rng(self._seed).permutation(len(y))
        validation, learning = order[: len(y) // 5], order[len(y) // 5 :]
        X, y = X.astype(np.float32), np.asarray(y)
        targets = y.astype(np.float32)[:, None] if self._regression else y
        self._model.fit(
            X[learning], targets[learning], X[validation], targets[validation]
        )
        return self

    def predict(self, X):
        return np.ravel(self._model.predict(X.astype(np.float32)))

    def predict_proba(self, X):
        return self._model.predict_proba(X.astype(np.float32))


CONTENDERS: dict[str, Callable] = {
    "kaucus": _kaucus,
    "kaucus, no metric": lambda r, s: _kaucus(r, s, learn_metric=False),
    "HistGradientBoosting": _sklearn("ensemble", "HistGradientBoosting"),
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "RandomForest": _sklearn("ensemble", "RandomForest"),
    "xRFM": _XRFM,
    "SVC, C=10": _svm,
    "tuned SVC": _tuned_svm,
}


def _threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", "2"))


# ---- measuring -----------------------------------------------------------------------


def steps(settings: Settings) -> list[Step]:
    """List every split of every table with every contender; ``--parts`` are groups."""
    groups = settings.parts or PARTS
    if unknown := sorted(set(groups) - set(PARTS)):
        raise FileNotFoundError(f"--parts {unknown}: there are {list(PARTS)}")
    sets = _sets.steps(settings) if _sets.SECTION in groups else []
    return sets + _table_steps(settings, [g for g in groups if g != _sets.SECTION])


def _table_steps(settings: Settings, groups: Sequence[str]) -> list[Step]:
    names = [
        (group, name)
        for group in groups
        for name in table_names(settings.data_home, group)
    ]
    n_train = settings.sizes[0] if settings.sizes else N_TRAIN
    n_splits = 1 if settings.quick else N_SPLITS
    if settings.quick:
        names, n_train = names[:2], min(n_train, 1000)
    found = [
        Step(
            "records",
            f"{contender} on {name}, split {split}",
            measure,
            (contender, group, name, split, n_train, settings.data_home),
            {"contender": contender, "group": group, "table": name, "split": split},
        )
        for split in range(n_splits)
        for group, name in names
        for contender in CONTENDERS
        if contender != "tuned SVC" or split == 0
    ]
    # The longest last: a stop loses them alone.
    return sorted(found, key=lambda step: step.head["contender"] == "tuned SVC")


def table_names(data_home: Any, group: str) -> list[str]:
    """Return the names of the tables in a folder."""
    files = sorted(_folder(data_home, group).glob("*.csv.gz"))
    if not files:
        raise FileNotFoundError(
            f"{_folder(data_home, group)} has no tables; set KAUCUS_DATA or "
            "--data-home to a folder with tables/develop and tables/judge."
        )
    return [file.name.removesuffix(".csv.gz") for file in files]


def _folder(data_home: Any, group: str) -> Path:
    home = data_home or os.environ.get("KAUCUS_DATA", "")
    return Path(home) / "tables" / group


def measure(
    contender: str, group: str, name: str, split: int, n_train: int, data_home: Any
) -> dict[str, Any]:
    """Fit a contender on one split of a table, and judge its predictions."""
    import warnings

    regression = name in REGRESSION
    data = load_split(data_home, group, name, split, n_train)
    if contender == "tuned SVC":
        data = data._replace(X=data.X[:TUNED_ROWS], y=data.y[:TUNED_ROWS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CONTENDERS[contender](regression, split)
        _, fit_seconds = timed(model.fit, data.X, data.y)
        predicted, predict_seconds = timed(model.predict, data.X_test)
    return {
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "error": error(np.ravel(predicted), data.y_test, regression),
        "log_loss": None if regression else _log_loss(model, data),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
    }


def error(predicted: np.ndarray, y: np.ndarray, regression: bool) -> float:
    """Return the error in percent, or 100 RMSE / standard deviation."""
    if regression:
        return float(100 * np.sqrt(np.mean((predicted - y) ** 2)) / y.std())
    return float(100 * np.mean(predicted != y))


def _log_loss(model: Any, data: Split) -> float | None:
    from sklearn.metrics import log_loss

    if not hasattr(model, "predict_proba"):
        return None
    probabilities = np.asarray(model.predict_proba(data.X_test), dtype=np.float64)
    return float(log_loss(data.y_test, probabilities, labels=np.unique(data.y)))


def load_split(
    data_home: Any, group: str, name: str, split: int, n_train: int
) -> Split:
    """Read a table and return one of its fixed splits, one-hot and standardised."""
    import pandas as pd
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.read_csv(_folder(data_home, group) / f"{name}.csv.gz")
    target = frame.pop("target")
    y = target.to_numpy()
    if name not in REGRESSION:
        y = np.unique(target.astype(str), return_inverse=True)[1]
    order = np.random.default_rng(split).permutation(len(y))
    n = min(n_train, int(0.75 * len(y)))
    learning, judging = order[:n], order[n : n + N_TEST]
    numbers = make_column_selector(dtype_include=np.number)
    texts = make_column_selector(dtype_exclude=np.number)
    columns = make_pipeline(
        make_column_transformer(
            (SimpleImputer(strategy="median"), numbers),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        ),
        StandardScaler(),
    )
    X = columns.fit_transform(frame.iloc[learning])
    return Split(X, y[learning], columns.transform(frame.iloc[judging]), y[judging])


# ---- tables --------------------------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return errors, ranks and wins for each group, and times."""
    records = _done(content)
    found = _sets.tables(content)
    for group in dict.fromkeys(r["group"] for r in records):
        some = [r for r in records if r["group"] == group]
        found += [_errors(group, some), _summary(group, some), _losses(group, some)]
    return found


def about(content: Content) -> str:
    """Say what was measured in the parts that were run."""
    parts = {"records": ABOUT_TABLES, _sets.SECTION: _sets.ABOUT}
    return "\n\n".join(text for section, text in parts.items() if section in content)


def _done(content: Content) -> list[dict]:
    return [r for r in content.get("records", ()) if "skipped" not in r]


def means(records: Sequence[dict], key: str) -> dict[tuple[str, str], float]:
    """Return the mean of a number over the splits, by table and contender."""
    groups: dict[tuple[str, str], list[float]] = {}
    for r in records:
        if r[key] is not None:
            groups.setdefault((r["table"], r["contender"]), []).append(r[key])
    return {pair: float(np.mean(values)) for pair, values in groups.items()}


def mean_ranks(errors: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return the mean rank of every contender that has all tables; ties share ranks."""
    from scipy.stats import rankdata

    names = list(dict.fromkeys(table for table, _ in errors))
    every = list(dict.fromkeys(contender for _, contender in errors))
    every = [c for c in every if c != "tuned SVC"]
    every = [c for c in every if all((table, c) in errors for table in names)]
    ranks = np.array([rankdata([errors[t, c] for c in every]) for t in names])
    return dict(zip(every, ranks.mean(axis=0).tolist(), strict=True))


def _errors(group: str, records: Sequence[dict]) -> Table:
    errors = means(records, "error")
    every = [c for c in CONTENDERS if any(c == other for _, other in errors)]
    names = list(dict.fromkeys(table for table, _ in errors))
    rows = [
        [t, *(f"{errors[t, c]:.2f}" if (t, c) in errors else "–" for c in every)]
        for t in names
    ]
    return Table(f"Errors, {group}", ("table", *every), rows)


def _losses(group: str, records: Sequence[dict]) -> Table:
    losses = means(records, "log_loss")
    every = [c for c in CONTENDERS if any(c == other for _, other in losses)]
    names = list(dict.fromkeys(table for table, _ in losses))
    rows = [
        [t, *(f"{losses[t, c]:.3f}" if (t, c) in losses else "–" for c in every)]
        for t in names
    ]
    return Table(f"Log-loss, {group}", ("table", *every), rows)


def _summary(group: str, records: Sequence[dict]) -> Table:
    errors, ranks = means(records, "error"), mean_ranks(means(records, "error"))
    fits, predictions = means(records, "fit_seconds"), means(records, "predict_seconds")
    rows = []
    names = dict.fromkeys(c for _, c in errors)
    for c in sorted(names, key=lambda c: ranks.get(c, np.inf)):
        shared = [t for t, other in errors if other == c and (t, "kaucus") in errors]
        gaps = [errors[t, c] - errors[t, "kaucus"] for t in shared]
        rows.append(
            [
                c,
                f"{ranks[c]:.2f}" if c in ranks else "–",
                f"{sum(g > 0 for g in gaps)} : {sum(g < 0 for g in gaps)}",
                format_seconds(np.median([v for (_, k), v in fits.items() if k == c])),
                format_seconds(
                    np.median([v for (_, k), v in predictions.items() if k == c])
                ),
            ]
        )
    headers = ("contender", "mean rank", "kaucus wins : loses", "fit", "predict")
    return Table(f"Ranks and median times, {group}", headers, rows)


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw mean ranks with the critical difference of Nemenyi's test."""
    if not _done(content):
        return []
    from matplotlib import pyplot as plt
    from scipy.stats import studentized_range

    done, files = _done(content), []
    for group in dict.fromkeys(r["group"] for r in done):
        records = [r for r in done if r["group"] == group]
        ranks = mean_ranks(means(records, "error"))
        if len(ranks) < 2:
            continue
        n, k = len({r["table"] for r in records}), len(ranks)
        quantile = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
        difference = quantile * np.sqrt(k * (k + 1) / (6 * n))
        figure, axes = plt.subplots(figsize=(7, 0.4 * k + 1.2))
        ordered = sorted(ranks.items(), key=lambda pair: -pair[1])
        axes.plot([v for _, v in ordered], range(k), "o", color="#1f6f8b")
        least = min(ranks.values())
        axes.axvspan(least, least + difference, color="#1f6f8b", alpha=0.15)
        axes.set_yticks(range(k), [name for name, _ in ordered])
        axes.set_xlabel(
            f"mean rank over {n} tables (shaded: critical difference, Nemenyi, 5 %)"
        )
        figure.tight_layout()
        files.append(folder / f"ranks-{group}.png")
        figure.savefig(files[-1], dpi=150)
        plt.close(figure)
    return files
