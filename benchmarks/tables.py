"""Defaults of kaucus, boosting, forests and SVMs on tables, on the same splits.

Tables with one header line and the target in the last column, ``target``: those of a
folder ``tables/develop``, on which defaults were chosen, of ``tables/judge``, on which
nothing was, and of ``frames``, with dates and gaps. Contenders that take categories and
gaps get them as they are; for the others columns of text are one-hot, gaps are filled
with the median, and columns are standardised, by the training rows. The part ``sets``
has 13 sets of its own and an SVC tuned on each split: :mod:`benchmarks._sets`.

``--rows`` has numbers of training rows and ``all``: all rows of the tables that have
more than 10,000, for contenders that take frames. With ``--jobs N`` every step is a
process of one thread, N at a time: times are processor seconds, which that leaves about
as they are.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import _sets
from benchmarks._runner import Content, Settings, Step, Table
from kaucus.evaluation.clustering import format_seconds

TITLE = "Defaults on tables"
REGRESSION = (
    *("cpu_act", "pol", "houses", "puma8nh", "wind", "house_8l", "abalone"),
    *("kin8nm", "bank32nh", "elevators", "bike", "protein", "mv", "ailerons"),
    *("ames", "diamonds", "taxis", "videogames"),
)
LARGE = (
    *("adult", "magic", "houses", "house_8l", "pol"),
    *("electricity", "bank_marketing", "bike", "protein", "mv"),
)
PARTS = ("develop", "judge", "frames", _sets.SECTION)
N_SPLITS, N_TRAIN, N_TEST, N_LARGE = 5, 5000, 10_000, 100_000
# A grid of 25 in three folds takes hours on more.
TUNED_ROWS = 5000
ABOUT_TABLES = (
    "Times are processor seconds of all threads. "
    "Loss of test rows, the mean over the splits: 100 (1 - AUC) of two classes, "
    "log-loss of more, 100 RMSE / standard deviation of numbers. Every contender with "
    "its defaults. kaucus Table, CatBoost, LightGBM and HistGradientBoosting take "
    "categories and gaps as they are; the others standardised, one-hot columns. "
    "'tuned SVC' is a grid of 25 in three folds, on the first split and at most 5,000 "
    "rows; 'tuned' boosting has 30 trials of Optuna in three folds, on the first "
    "split. 'kaucus' is the kernel machine alone, 'kaucus, no metric' has "
    "learn_metric=False. Ranks are over the contenders with all splits, mean over "
    "tables, 1 is best; the relative loss is the geometric mean of the loss over "
    "CatBoost's; Elo is that of all pairs of contenders on all tables, 1,000 is the "
    "mean. Defaults of kaucus were chosen on 'develop' and 'frames'; 'judge' was seen "
    "when the members of kaucus Table were chosen."
)


class Split(NamedTuple):
    """Rows to learn from and rows to judge; classes are numbered from zero."""

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

    return SVR(C=10) if regression else SVC(C=10, probability=True, random_state=seed)


def _tuned_svm(regression: bool, seed: int):
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, SVR

    return GridSearchCV(SVR() if regression else SVC(), _sets.GRID, cv=3)


def _table(regression: bool, seed: int):
    import kaucus

    kind = kaucus.TableRegressor if regression else kaucus.TableClassifier
    return kind(random_state=seed)


class _Native:
    """Boosting that gets the columns of a frame in the form that it asks for."""

    def __init__(self, model: Any):
        self._model, self._levels = model, {}

    def __getattr__(self, name: str):
        if name.startswith("_"):  # not there yet
            raise AttributeError(name)
        return getattr(self._model, name)

    def set_params(self, **options):
        self._model.set_params(**options)
        return self

    def fit(self, X, y):
        texts = list(X.select_dtypes(exclude="number")) if hasattr(X, "iloc") else []
        self._levels = {name: X[name].dropna().astype(str).unique() for name in texts}
        self._model.fit(self._in_form(X), y, **self._options(texts))
        return self

    def predict(self, X):
        return self._model.predict(self._in_form(X))

    def predict_proba(self, X):
        return self._model.predict_proba(self._in_form(X))

    def _options(self, texts: list[str]) -> dict:
        return {}

    def _in_form(self, X):
        """Return texts as categories of the training rows, others as they are."""
        import pandas as pd

        if not self._levels:
            return X
        columns = {}
        for name, levels in self._levels.items():
            texts = X[name].astype(object).where(X[name].astype(str).isin(levels), None)
            columns[name] = pd.Categorical(texts.map(str, "ignore"), categories=levels)
        return X.assign(**columns)


class _HistGradientBoosting(_Native):
    """HistGradientBoosting; more than 255 levels, which it refuses, as numbers."""

    def __init__(self, regression: bool, seed: int):
        model = _sklearn("ensemble", "HistGradientBoosting")(regression, seed)
        super().__init__(model)

    def _in_form(self, X):
        X = super()._in_form(X)
        many = [name for name, levels in self._levels.items() if len(levels) > 255]
        return X.assign(**{name: X[name].cat.codes for name in many}) if many else X


class _LightGBM(_Native):
    def __init__(self, regression: bool, seed: int, **options):
        import lightgbm

        kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        options |= {"random_state": seed, "verbose": -1, "n_jobs": _threads()}
        super().__init__(kind(**options))


class _CatBoost(_Native):
    def __init__(self, regression: bool, seed: int, **options):
        import catboost

        kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
        options |= {"random_seed": seed, "thread_count": _threads(), "verbose": False}
        super().__init__(kind(allow_writing_files=False, **options))

    def _options(self, texts: list[str]) -> dict:
        return {"cat_features": texts}

    def _in_form(self, X):
        if not self._levels:
            return X
        texts = {name: X[name].astype(object) for name in self._levels}
        return X.assign(
            **{n: t.where(t.notna(), "gap").astype(str) for n, t in texts.items()}
        )


class _Tuned:
    """Boosting whose parameters are the best of 30 trials of Optuna in three folds."""

    def __init__(self, kind: type, regression: bool, seed: int):
        self._kind, self._regression, self._seed = kind, regression, seed

    def fit(self, X, y):
        import optuna
        from sklearn.model_selection import KFold

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        folds = list(KFold(3, shuffle=True, random_state=self._seed).split(X))

        def loss_of(trial) -> float:
            options, losses = self._sample(trial), []
            for learn, judge in folds:
                model = self._kind(self._regression, self._seed, **options)
                model.fit(_rows(X, learn), y[learn])
                predicted = predictions(model, _rows(X, judge), self._regression)
                losses.append(loss(predicted, y[judge], y, self._regression))
            return float(np.mean(losses))

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self._seed))
        study.optimize(loss_of, n_trials=30)
        options = self._sample(study.best_trial)
        self._model = self._kind(self._regression, self._seed, **options).fit(X, y)
        return self

    def _sample(self, trial) -> dict:
        options = {"learning_rate": trial.suggest_float("rate", 0.01, 0.3, log=True)}
        if self._kind is _CatBoost:
            options["depth"] = trial.suggest_int("depth", 4, 10)
            options["l2_leaf_reg"] = trial.suggest_float("l2", 0.1, 30, log=True)
            return options
        options["n_estimators"] = trial.suggest_int("trees", 50, 1500, log=True)
        options["num_leaves"] = trial.suggest_int("leaves", 7, 127, log=True)
        options["min_child_samples"] = trial.suggest_int("samples", 2, 100, log=True)
        options["colsample_bytree"] = trial.suggest_float("columns", 0.4, 1.0)
        return options

    def predict(self, X):
        return self._model.predict(X)

    def predict_proba(self, X):
        return self._model.predict_proba(X)


def _rows(X, numbers):
    return X.iloc[numbers] if hasattr(X, "iloc") else X[numbers]


def _real_mlp(regression: bool, seed: int):
    import pytabkit

    name = "RealMLP_TD_Regressor" if regression else "RealMLP_TD_Classifier"
    return getattr(pytabkit, name)(random_state=seed, device="cpu")


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
    "kaucus Table": _table,
    "kaucus": _kaucus,
    "kaucus, no metric": lambda r, s: _kaucus(r, s, learn_metric=False),
    "HistGradientBoosting": _HistGradientBoosting,
    "LightGBM": _LightGBM,
    "CatBoost": _CatBoost,
    "RandomForest": _sklearn("ensemble", "RandomForest"),
    "xRFM": _XRFM,
    "RealMLP": _real_mlp,
    "SVC, C=10": _svm,
    "tuned SVC": _tuned_svm,
    "tuned LightGBM": lambda r, s: _Tuned(_LightGBM, r, s),
    "tuned CatBoost": lambda r, s: _Tuned(_CatBoost, r, s),
}
# Those that run unless others are asked for.
DEFAULTS = (
    *("kaucus Table", "kaucus", "CatBoost", "LightGBM", "HistGradientBoosting"),
    *("RandomForest", "xRFM", "SVC, C=10"),
)
# They take hours: on the first split alone.
TUNED = ("tuned SVC", "tuned LightGBM", "tuned CatBoost")
TAKE_FRAMES = {
    *("kaucus Table", "HistGradientBoosting", "LightGBM", "CatBoost"),
    *("tuned LightGBM", "tuned CatBoost"),
}


def _threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", "2"))


# ---- measuring -----------------------------------------------------------------------


def prepare(settings: Settings) -> None:
    """Give every process one thread, where there are several at a time."""
    if settings.jobs > 1:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = "1"


def steps(settings: Settings) -> list[Step]:
    """List every split of every table with every contender; ``--parts`` are groups."""
    groups = settings.parts or PARTS
    _check_known("--parts", groups, PARTS)
    _check_known("--contenders", settings.contenders or (), CONTENDERS)
    _check_known("--rows", settings.rows or (), ("all", *map(str, range(1, N_LARGE))))
    sets = _sets.steps(settings) if _sets.SECTION in groups else []
    return sets + _table_steps(settings, [g for g in groups if g != _sets.SECTION])


def _check_known(option: str, given: Sequence[str], known: Any) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise FileNotFoundError(f"{option} {unknown}: there are {list(known)[:20]}")


def _table_steps(settings: Settings, groups: Sequence[str]) -> list[Step]:
    """List the steps split by split, of which those of all rows come first.

    They take longest; those of tuned contenders, which a stop shall lose alone, last.
    """
    names = [(g, name) for g in groups for name in table_names(settings.data_home, g)]
    if settings.tables:
        _check_known("--tables", settings.tables, [name for _, name in names])
        names = [pair for pair in names if pair[1] in settings.tables]
    sizes = settings.rows or [str(n) for n in settings.sizes or (N_TRAIN,)]
    n_splits = settings.splits or N_SPLITS
    if settings.quick:
        names, sizes, n_splits = names[:2], ["1000"], 1
    found = []
    for split in range(n_splits):
        for size in sorted(sizes, key="all".__ne__):
            for contender in settings.contenders or DEFAULTS:
                for group, name in names:
                    if _takes_part(contender, group, name, size, split):
                        n = N_LARGE if size == "all" else int(size)
                        head = {"contender": contender, "group": group, "table": name}
                        head |= {"split": split, "size": size}
                        args = contender, group, name, split, n, settings.data_home
                        told = f"{contender} on {name}, {size} rows, split {split}"
                        found.append(Step("records", told, measure, args, head))
    return sorted(found, key=lambda step: step.head["contender"] in TUNED)


def _takes_part(contender: str, group: str, name: str, size: str, split: int) -> bool:
    """Return whether a contender runs on a split of a table."""
    if contender in TUNED and split > 0:
        return False
    if size == "all" and group != "frames" and name not in LARGE:
        return False
    return contender in TAKE_FRAMES or (size != "all" and group != "frames")


def table_names(data_home: Any, group: str) -> list[str]:
    """Return the names of the tables of a part."""
    files = sorted(_folder(data_home, group).glob("*.csv.gz"))
    if not files:
        raise FileNotFoundError(
            f"{_folder(data_home, group)} has no tables; set KAUCUS_DATA or "
            "--data-home to a folder with tables/develop and tables/judge."
        )
    return [file.name.removesuffix(".csv.gz") for file in files]


def _folder(data_home: Any, group: str) -> Path:
    home = data_home or os.environ.get("KAUCUS_DATA", "")
    return Path(home) / ("frames" if group == "frames" else f"tables/{group}")


def measure(
    contender: str, group: str, name: str, split: int, n_train: int, data_home: Any
) -> dict[str, Any]:
    """Fit a contender on one split of a table, and judge its predictions."""
    import warnings

    regression = name in REGRESSION
    load = load_frames if contender in TAKE_FRAMES else load_split
    data = load(data_home, group, name, split, n_train)
    if contender == "tuned SVC":
        data = data._replace(X=data.X[:TUNED_ROWS], y=data.y[:TUNED_ROWS])
    classes, y = None, data.y
    if not regression:  # some may have no row to learn from
        classes, y = np.unique(data.y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CONTENDERS[contender](regression, split)
        times = [time.process_time()]
        model.fit(data.X, y)
        times.append(time.process_time())
        predicted = predictions(model, data.X_test, regression)
        fit_seconds, predict_seconds = np.diff([*times, time.process_time()]).tolist()
    if classes is not None:
        predicted = _of_all_classes(predicted, classes, data)
    said = predicted if predicted.ndim == 1 else predicted.argmax(axis=1)
    return {
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "loss": loss(predicted, data.y_test, data.y, regression),
        "error": error(said, data.y_test, regression),
        "log_loss": log_loss(predicted, data.y_test) if predicted.ndim > 1 else None,
        "calibration": calibration(predicted, data.y_test),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
    }


def _of_all_classes(predicted: np.ndarray, classes: np.ndarray, data: Split):
    """Return predictions of the classes that there were to learn, as of all classes."""
    if predicted.ndim == 1:
        return classes[predicted.astype(np.int64)]
    found = np.zeros((len(predicted), 1 + max(data.y.max(), data.y_test.max())))
    found[:, classes] = predicted
    return found


def predictions(model: Any, X: Any, regression: bool) -> np.ndarray:
    """Return probabilities, (n, k), or numbers or classes, (n,)."""
    if regression or not hasattr(model, "predict_proba"):
        return np.ravel(model.predict(X))
    return np.asarray(model.predict_proba(X), dtype=np.float64)


def loss(predicted: np.ndarray, y: np.ndarray, y_train: np.ndarray, regression: bool):
    """Return 100 RMSE / spread, 100 (1 - AUC) or log-loss, None of classes alone."""
    if regression:
        return error(predicted, y, regression)
    if predicted.ndim == 1:
        return None
    if len(np.unique(y_train)) > 2:
        return log_loss(predicted, y)
    from sklearn.metrics import roc_auc_score

    return float(100 * (1 - roc_auc_score(y, predicted[:, 1])))


def log_loss(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the log-loss of probabilities, (n, k)."""
    own = predicted[np.arange(len(y)), y] / predicted.sum(axis=1)
    return float(-np.log(np.maximum(own, 1e-15)).mean())


def calibration(predicted: np.ndarray, y: np.ndarray) -> float | None:
    """Return the expected calibration error in percent, over ten bins."""
    if predicted.ndim == 1:
        return None
    confidence = predicted.max(axis=1)
    right = (predicted.argmax(axis=1) == y).astype(float)
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = np.abs(np.bincount(bins, confidence - right, minlength=10))
    return float(100 * gaps.sum() / len(y))


def error(predicted: np.ndarray, y: np.ndarray, regression: bool) -> float:
    """Return the error in percent, or 100 RMSE / standard deviation."""
    if regression:
        return float(100 * np.sqrt(np.mean((predicted - y) ** 2)) / y.std())
    return float(100 * np.mean(predicted != y))


def load_frames(
    data_home: Any, group: str, name: str, split: int, n_train: int
) -> Split:
    """Read a table and return one of its fixed splits, columns as they are."""
    import pandas as pd

    frame = pd.read_csv(_folder(data_home, group) / f"{name}.csv.gz")
    target = frame.pop("target")
    y = target.to_numpy()
    if name not in REGRESSION:
        y = np.unique(target.astype(str), return_inverse=True)[1]
    order = np.random.default_rng(split).permutation(len(y))
    n = min(n_train, int(0.75 * len(y)))
    learning, judging = order[:n], order[n : n + N_TEST]
    return Split(frame.iloc[learning], y[learning], frame.iloc[judging], y[judging])


def load_split(
    data_home: Any, group: str, name: str, split: int, n_train: int
) -> Split:
    """Read a table and return one of its fixed splits, one-hot and standardised."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = load_frames(data_home, group, name, split, n_train)
    numbers = make_column_selector(dtype_include=np.number)
    texts = make_column_selector(dtype_exclude=np.number)
    columns = make_pipeline(
        make_column_transformer(
            (SimpleImputer(strategy="median"), numbers),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        ),
        StandardScaler(),
    )
    X = columns.fit_transform(data.X)
    return data._replace(X=X, X_test=columns.transform(data.X_test))


# ---- tables --------------------------------------------------------------------------


def tables(content: Content) -> list[Table]:
    """Return errors, ranks and wins for each group, and times."""
    found = _sets.tables(content)
    for group, some in _groups(content).items():
        found.append(_summary(group, some))
        for key, (title, form) in SHOWN.items():
            if means(some, key):
                found.append(_by_table(f"{title}, {group}", some, key, form))
    return found


def _groups(content: Content) -> dict[str, list[dict]]:
    """Return the records of each part and number of rows, by its name."""
    found: dict[str, list[dict]] = {}
    for record in content.get("records", ()):
        if "skipped" not in record:
            name = f"{record['group']}, {record.get('size', 'some')} rows"
            found.setdefault(name, []).append(record)
    return found


def about(content: Content) -> str:
    """Say what was measured in the parts that were run."""
    parts = {"records": ABOUT_TABLES, _sets.SECTION: _sets.ABOUT}
    return "\n\n".join(text for section, text in parts.items() if section in content)


SHOWN = {
    "loss": ("Loss", ".3f"),
    "error": ("Errors", ".2f"),
    "log_loss": ("Log-loss", ".3f"),
    "calibration": ("Calibration error, %", ".2f"),
    "fit_seconds": ("Processor seconds of fit", ".2f"),
    "predict_seconds": ("Processor seconds of predict", ".3f"),
}


def means(records: Sequence[dict], key: str) -> dict[tuple[str, str], float]:
    """Return the mean of a number over the splits, by table and contender."""
    groups: dict[tuple[str, str], list[float]] = {}
    for r in records:
        if r.get(key) is not None:
            groups.setdefault((r["table"], r["contender"]), []).append(r[key])
    return {pair: float(np.mean(values)) for pair, values in groups.items()}


def mean_ranks(errors: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return the mean rank of every contender that has all tables; ties share ranks."""
    from scipy.stats import rankdata

    names = list(dict.fromkeys(table for table, _ in errors))
    every = list(dict.fromkeys(contender for _, contender in errors))
    every = [c for c in every if c not in TUNED]
    every = [c for c in every if all((table, c) in errors for table in names)]
    ranks = np.array([rankdata([errors[t, c] for c in every]) for t in names])
    return dict(zip(every, ranks.mean(axis=0).tolist(), strict=True))


def relative_losses(losses: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return the geometric mean of each contender's loss over CatBoost's."""
    logs: dict[str, list[float]] = {}
    for (table, contender), value in losses.items():
        if (table, "CatBoost") in losses:
            ratio = max(value, 1e-6) / max(losses[table, "CatBoost"], 1e-6)
            logs.setdefault(contender, []).append(float(np.log(ratio)))
    return {c: float(np.exp(np.mean(values))) for c, values in logs.items()}


def elo(losses: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return ratings by all pairs on all tables (Bradley and Terry), mean 1,000."""
    every = [c for c in dict.fromkeys(c for _, c in losses) if c not in TUNED]
    if len(every) < 2:
        return dict.fromkeys(every, 1000.0)
    wins = np.zeros((len(every), len(every)))
    for table in dict.fromkeys(t for t, _ in losses):
        for i, a in enumerate(every):
            for j, b in enumerate(every):
                if i != j and (table, a) in losses and (table, b) in losses:
                    x, y = losses[table, a], losses[table, b]
                    wins[i, j] += 1.0 if x < y else 0.5 * (x == y)
    wins += 0.1 * (1 - np.eye(len(every)))  # who has lost every time is not at -inf
    strength, games = np.ones(len(every)), wins + wins.T
    for _ in range(500):
        against = games / (strength[:, None] + strength[None, :])
        strength = wins.sum(axis=1) / np.maximum(against.sum(axis=1), 1e-300)
        strength = strength / np.exp(np.log(strength).mean())
    return dict(zip(every, 1000 + 400 * np.log10(strength), strict=True))


def _by_table(title: str, records: Sequence[dict], key: str, form: str) -> Table:
    found = means(records, key)
    every = [c for c in CONTENDERS if any(c == other for _, other in found)]
    names = list(dict.fromkeys(table for table, _ in found))
    rows = [
        [t, *(format(found[t, c], form) if (t, c) in found else "–" for c in every)]
        for t in names
    ]
    return Table(title, ("table", *every), rows)


def _summary(group: str, records: Sequence[dict]) -> Table:
    losses = means(records, "loss")
    ranks, ratios, ratings = mean_ranks(losses), relative_losses(losses), elo(losses)
    seconds = [means(records, f"{what}_seconds") for what in ("fit", "predict")]
    rows = []
    names = dict.fromkeys(c for _, c in losses)
    for c in sorted(names, key=lambda c: ranks.get(c, np.inf)):
        both = [t for t, o in losses if o == c and (t, "kaucus Table") in losses]
        gaps = [losses[t, c] - losses[t, "kaucus Table"] for t in both]
        times = [
            np.median([v for (_, o), v in some.items() if o == c]) for some in seconds
        ]
        rows.append(
            [
                c,
                f"{ranks[c]:.2f}" if c in ranks else "–",
                f"{ratios[c]:.3f}" if c in ratios else "–",
                f"{ratings[c]:.0f}" if c in ratings else "–",
                f"{sum(g > 0 for g in gaps)} : {sum(g < 0 for g in gaps)}",
                *map(format_seconds, times),
            ]
        )
    headers = ("contender", "mean rank", "relative loss", "Elo", "wins : loses")
    return Table(f"Ranks, {group}", (*headers, "median fit", "median predict"), rows)


def draw(content: Content, folder: Path) -> list[Path]:
    """Draw mean ranks with the critical difference of Nemenyi's test."""
    groups, files = _groups(content), []
    if not groups:
        return []
    from matplotlib import pyplot as plt
    from scipy.stats import studentized_range

    for group, records in groups.items():
        ranks = mean_ranks(means(records, "loss"))
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
        files.append(folder / f"ranks-{group.replace(', ', '-').split()[0]}.png")
        figure.savefig(files[-1], dpi=150)
        plt.close(figure)
    return files
