"""Table models of the command line."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus._base import require
from kaucus.estimators.kmeans_kernel import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
)
from kaucus.export.files import describe, last_step

# ----------------------------------------------------------------------------------
# Read table files, whole or in chunks, with columns of the types that fit has seen.
#
# CSV and TSV, plain or compressed, Parquet and Feather. A column is ``"number"``,
# ``"text"`` or ``"date"``; in fit that is found out, later it is held to, so that a
# chunk without a letter in it does not turn a column of texts into numbers.
# ----------------------------------------------------------------------------------

CHUNK_ROWS = 20_000
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": None}
_ARROW = (".feather", ".arrow")
_KINDS = (*_SEPARATORS, ".parquet", *_ARROW)
_TRUE_FALSE = {"true": 1.0, "false": 0.0}


class TableError(ValueError):
    """A table that cannot be read or used: which file, which column, which row."""


def read_table(
    path, kinds: Mapping[str, str] | None = None, *, target: str | None = None
) -> Any:
    """Return a table as a pandas frame whose columns are numbers, texts and dates.

    Parameters
    ----------
    path : str or path
    kinds : mapping, default=None
        What each column is to be; None: as it looks.
    target : str, default=None
        A column whose true and false stay words, as they are to be predicted.
    """
    pandas = require("pandas", "tables")
    parts = list(read_chunks(path, kinds, n_rows=None, target=target))
    return parts[0] if len(parts) == 1 else pandas.concat(parts)


def read_chunks(
    path,
    kinds: Mapping[str, str] | None,
    *,
    n_rows: int | None = CHUNK_ROWS,
    target: str | None = None,
) -> Iterator[Any]:
    """Yield a table as frames of at most ``n_rows`` rows; None: in one piece.

    Columns that ``kinds`` does not name are left out, those that it names and the file
    does not have are an error. The index of the frames is the number of the row, from
    1 on.
    """
    pandas = require("pandas", "tables")
    path, first = Path(path), 1
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    for frame in _raw_chunks(path, kinds, n_rows):
        frame.columns = [str(name) for name in frame.columns]
        if kinds is None:
            kinds = {name: kind_of(frame[name]) for name in frame.columns}
            if target in kinds and frame[target].dtype.kind == "b":
                kinds[target] = "text"
        frame.index = pandas.RangeIndex(first, first + len(frame))
        yield as_kinds(frame, kinds, path)
        first += len(frame)


def kind_of(column) -> str:
    """Return whether a column is of numbers, dates or texts."""
    if column.dtype.kind in "iufb":
        return "number"
    if column.dtype.kind == "M":
        return "date"
    values = column.dropna()
    numbers = len(values) and _numbers(values).notna().all()
    return "number" if numbers else "text"


def as_kinds(frame, kinds: Mapping[str, str], path):
    """Return the columns that are asked for, each of its kind.

    Parameters
    ----------
    frame : DataFrame
        Its index is the number of each row, for errors.
    kinds : mapping
        ``"number"``, ``"text"`` or ``"date"`` of each column.
    path : path
        For errors.
    """
    pandas = require("pandas", "tables")
    missing = [name for name in kinds if name not in frame.columns]
    if missing:
        raise TableError(
            f"{path} has no column {missing[0]!r}; expected the columns "
            f"{', '.join(kinds)}, got {', '.join(map(str, frame.columns))}."
        )
    columns = {name: _as_kind(frame[name], kind, path) for name, kind in kinds.items()}
    return pandas.DataFrame(columns, index=frame.index)


# ---- columns -------------------------------------------------------------------------


def _as_kind(column, kind: str, path):
    pandas = require("pandas", "tables")
    if kind == "number":
        values = column if column.dtype.kind in "iufb" else _numbers(column)
        _check_converted(column, values, path, "is not a number")
        return values.astype(np.float64)
    if kind == "date":
        values = column
        if column.dtype.kind != "M":
            values = pandas.to_datetime(column, errors="coerce", format="mixed")
        _check_converted(column, values, path, "is not a date")
        return values
    gaps = column.isna()
    return column.astype(str).astype(object).where(~gaps, None)


def _numbers(column):
    """Return texts as numbers, NaN where they are none; true and false are 1 and 0."""
    pandas = require("pandas", "tables")
    texts = column.astype(str).str.strip()
    numbers = pandas.to_numeric(texts, errors="coerce")
    return numbers.fillna(texts.str.lower().map(_TRUE_FALSE)).where(column.notna())


def _check_converted(column, values, path, problem: str) -> None:
    """Raise an error that names the first value that was not converted."""
    lost = np.flatnonzero((column.notna() & values.isna()).to_numpy())
    if len(lost):
        place = lost[0]
        raise TableError(
            f"{path}, row {column.index[place]}, column {column.name!r}: "
            f"{column.iloc[place]!r} {problem}; mend it, or leave it empty."
        )


# ---- files ---------------------------------------------------------------------------


def table_kind(path: Path) -> str:
    """Return the suffix that tells how a file is read, without a packer's."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in _KINDS:
        raise TableError(
            f"{path} is of no known kind; expected a name that ends in "
            f"{', '.join(_KINDS)}, of texts also with {', '.join(_PACKED)} after it."
        )
    return kind


def _raw_chunks(path: Path, kinds, n_rows: int | None) -> Iterator[Any]:
    kind = table_kind(path)
    try:
        if kind in _SEPARATORS:
            yield from _text_chunks(path, kind, kinds, n_rows)
        else:
            yield from _arrow_chunks(path, kind, n_rows)
    except TableError:
        raise
    except (ValueError, OSError, EOFError, UnicodeDecodeError) as error:
        raise TableError(f"{path} cannot be read: {_first_line(error)}") from error


def _text_chunks(path: Path, kind: str, kinds, n_rows: int | None) -> Iterator[Any]:
    pandas = require("pandas", "tables")
    separator = _SEPARATORS[kind]
    texts = [name for name, what in (kinds or {}).items() if what == "text"]
    options: dict[str, Any] = {"dtype": dict.fromkeys(texts, str)}
    if separator is None:
        options |= {"sep": None, "engine": "python"}  # it looks for the separator
    else:
        options |= {"sep": separator, "low_memory": False}
    if n_rows is None:
        yield pandas.read_csv(path, **options)
        return
    with pandas.read_csv(path, chunksize=n_rows, **options) as reader:
        yield from reader


def _arrow_chunks(path: Path, kind: str, n_rows: int | None) -> Iterator[Any]:
    if kind in _ARROW:
        feather = require("pyarrow.feather", "tables")
        table = feather.read_table(path, memory_map=True)
        batches = table.to_batches(max_chunksize=n_rows)
    else:
        parquet = require("pyarrow.parquet", "tables")
        if n_rows is None:
            yield parquet.read_table(path).to_pandas()
            return
        batches = parquet.ParquetFile(path).iter_batches(n_rows)
    for batch in batches:
        yield batch.to_pandas()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)


def target_of(frame, name: str, path) -> Any:
    """Return the column of a name without gaps, or an error that names the row."""
    if name not in frame.columns:
        near: Sequence[str] = [c for c in frame.columns if c.lower() == name.lower()]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise TableError(
            f"{path} has no column {name!r}; it has {', '.join(frame.columns)}.{hint}"
        )
    column = frame[name]
    gaps = np.flatnonzero(column.isna().to_numpy())
    if len(gaps):
        raise TableError(
            f"{path}, row {column.index[gaps[0]]}, column {name!r}: the value is "
            f"missing, here and in {len(gaps) - 1} more rows; take them out."
        )
    return column


# ----------------------------------------------------------------------------------
# Pipelines for tables with columns of any kind: make, fit, score, predict, write.
#
# The pipeline is skrub's ``TableVectorizer`` (text, dates, categories), medians for
# gaps with a column that tells of them, and a k-means kernel machine that learns a
# metric.
# ----------------------------------------------------------------------------------

TASKS = ("classification", "regression")
TIMES = ("fast", "balanced", "best")
# Whole numbers of more different values are amounts, not classes.
_MOST_CLASSES = 20
# Texts of more different values are cut into pieces. States and countries are fewer:
# one-hot they say more, and have a form in ONNX.
_CATEGORIES = 60
_WRITTEN = (".csv", ".tsv", ".parquet")


class Score(NamedTuple):
    """An error on rows that the model has not seen."""

    name: str
    """``"error"``, the share of wrong rows in per cent, or ``"RMSE"``."""
    value: float
    low: float
    """Of the 95 % interval."""
    high: float
    n_rows: int

    def __str__(self) -> str:
        unit = " %" if self.name == "error" else ""
        value, low, high = (f"{v:.4g}" for v in self[1:4])
        return f"{value}{unit} (95 % interval {low} to {high})"


def task_of(target) -> str:
    """Return "classification" for texts and few whole numbers, else "regression"."""
    if target.dtype.kind not in "iuf":
        return "classification"
    values = np.unique(target.to_numpy())
    whole = bool(np.all(values == np.round(values)))
    return TASKS[0] if whole and len(values) <= _MOST_CLASSES else TASKS[1]


def labels_of(target):
    """Return a target as classes: whole numbers as such, all else as texts."""
    values = target.to_numpy()
    if target.dtype.kind in "iuf" and np.all(values == np.round(values)):
        return values.astype(np.int64)
    return target.astype(str).to_numpy(dtype=object).astype(str)


def make_table_pipeline(
    task: str,
    *,
    time: str = "balanced",
    device: str | None = None,
    memory_budget: str | None = None,
    random_state: int = 0,
    verbose: int = 0,
):
    """Return the pipeline for a table, not fitted.

    Parameters
    ----------
    task : {"classification", "regression"}
    time : {"fast", "balanced", "best"}, default="balanced"
        How much to spend: ``n_representatives``, and with ``"fast"`` standardised
        columns in place of a learned metric.
    device, memory_budget, random_state, verbose
        Of the estimator.
    """
    skrub = require("skrub", "tables")
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    options: dict[str, Any] = {
        "n_representatives": time,
        "device": device,
        "memory_budget": memory_budget,
        "random_state": random_state,
        "verbose": verbose,
    }
    gaps = SimpleImputer(
        strategy="median", add_indicator=True, keep_empty_features=True
    )
    gaps.set_output(transform="pandas")  # so that the estimator knows the names
    texts = skrub.StringEncoder(random_state=random_state)
    columns = skrub.TableVectorizer(
        cardinality_threshold=_CATEGORIES, high_cardinality=texts
    )
    steps: list[Any] = [columns, gaps]
    if time == "fast":
        steps.append(StandardScaler().set_output(transform="pandas"))
        options["learn_metric"] = False
    kind = KMeansKernelRegressor if task == "regression" else KMeansKernelClassifier
    return make_pipeline(*steps, kind(**options))


def fit_table(model, X, y, weight=None):
    """Fit a pipeline to a frame, with weights of the rows where there are any."""
    name = model.steps[-1][0]
    weights = {} if weight is None else {f"{name}__sample_weight": weight}
    return model.fit(X, y, **weights)


def score_of(model, X, y, weight=None) -> Score:
    """Return the error on a table: wrong rows in per cent, or the RMSE.

    Parameters
    ----------
    model : estimator
    X : DataFrame or array
    y : array of shape (n,)
    weight : array of shape (n,), default=None
    """
    return score_predictions(model, y, model.predict(X), weight)


def score_predictions(model, y, predicted, weight=None) -> Score:
    """Return the error of predictions, with its 95 % interval.

    Wilson's of a share, which is never empty; of a root mean square, that of the mean
    of the squares.
    """
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    w = w / w.sum()
    n = 1 / np.sum(w**2)  # as many rows of equal weight tell as much
    if hasattr(model, "classes_"):
        wrong = np.asarray(predicted) != np.asarray(y)
        p = float(np.sum(w * wrong))
        z = 1.96**2 / n
        middle, half = p + z / 2, np.sqrt(z * p * (1 - p) + z * z / 4)
        bounds = (100 * float((middle + s * half) / (1 + z)) for s in (-1, 1))
        return Score("error", 100 * p, *bounds, len(w))
    squares = (np.asarray(predicted) - np.asarray(y)) ** 2
    squares = squares.reshape(len(w), -1).mean(axis=1)  # of several outputs
    mean = float(np.sum(w * squares))
    half = 1.96 * float(np.sqrt(np.sum(w * (squares - mean) ** 2) / n))
    low, high = np.sqrt(max(mean - half, 0.0)), np.sqrt(mean + half)
    return Score("RMSE", float(np.sqrt(mean)), float(low), float(high), len(w))


def class_rows(classes, y, predicted) -> list[list]:
    """Return for each class its rows, the share found, and the share of hits.

    A row is ``[name, number of rows, recall, precision]``, the last two as texts.
    """
    rows = []
    for label in classes:
        truly, said = y == label, predicted == label
        right = int(np.sum(truly & said))
        shares = (f"{100 * right / max(n.sum(), 1):.1f} %" for n in (truly, said))
        rows.append([str(label), int(truly.sum()), *shares])
    return rows


def prediction_frame(
    model,
    X,
    *,
    name: str = "prediction",
    proba: bool = False,
    interval: float | None = None,
):
    """Return the predictions of a frame as columns.

    Parameters
    ----------
    model : pipeline or estimator
    X : DataFrame
    name : str, default="prediction"
        Of the column of predictions.
    proba : bool, default=False
        Whether to add the probability of each class, ``p_LABEL``.
    interval : float, default=None
        Confidence level of an interval to add, ``lower`` and ``upper``.
    """
    pandas = require("pandas", "tables")
    columns = {name: model.predict(X)}
    if proba:
        probabilities = model.predict_proba(X)
        columns |= {
            f"p_{label}": probabilities[:, k] for k, label in enumerate(model.classes_)
        }
    if interval is not None:
        bounds = _interval(model, X, interval)
        columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
    return pandas.DataFrame(columns)


def check_outputs(model, *, proba: bool, interval: float | None) -> None:
    """Raise if the model has no probabilities or intervals that were asked for."""
    if proba and not hasattr(model, "predict_proba"):
        raise TableError(
            f"--proba needs a classifier with probabilities; this is a {_last(model)}."
        )
    if interval is None:
        return
    if not 0 < interval < 1:
        raise TableError(f"--interval={interval} must be between 0 and 1, such as 0.9.")
    if not hasattr(last_step(model), "predict_interval"):
        raise TableError(
            f"--interval needs a regressor with predict_interval; {_last(model)} has "
            "none."
        )
    if not last_step(model).is_conformalized_:
        raise TableError(
            "--interval needs residuals of rows held out, and this model has none; fit "
            "it with `kaucus fit` and without --no-holdout, or with --test."
        )


def _interval(model, X, level: float) -> np.ndarray:
    """Return lower and upper bounds, (n, 2)."""
    rows = model[:-1].transform(X) if hasattr(model, "steps") else X
    bounds = last_step(model).predict_interval(
        rows, confidence_level=level, method="split"
    )
    return np.asarray(bounds).reshape(len(X), 2, -1)[:, :, 0]


def _last(model) -> str:
    return type(last_step(model)).__name__


class TableWriter:
    """Writes frames to a CSV, TSV or Parquet file, one after the other.

    The file is there when all is written, and not before.

    Parameters
    ----------
    path : path or text stream
        ``.gz`` is packed; a stream gets CSV.
    """

    def __init__(self, path):
        self.path, self._n, self._writer = path, 0, None
        self._is_stream = hasattr(path, "write")
        kind = "" if self._is_stream else table_kind(path)
        if kind not in ("", *_WRITTEN):
            raise TableError(
                f"{path} cannot be written; expected a name that ends in "
                f"{', '.join(_WRITTEN)}, of texts also with .gz after it."
            )
        self._is_parquet = kind == ".parquet"
        self._separator = "\t" if kind == ".tsv" else ","
        self._part = path if self._is_stream else path.with_name(f".part-{path.name}")

    def add(self, frame) -> None:
        """Append rows."""
        if self._is_parquet:
            self._add_parquet(frame)
        else:
            first = self._n == 0
            mode = {} if self._is_stream else {"mode": "w" if first else "a"}
            options = {"sep": self._separator, "header": first, "index": False}
            frame.to_csv(self._part, **options, **mode)
        self._n += len(frame)

    def _add_parquet(self, frame) -> None:
        pyarrow = require("pyarrow", "tables")
        parquet = require("pyarrow.parquet", "tables")
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._part, table.schema)
        self._writer.write_table(table)

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind, *_) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._is_stream:
            return
        if kind is None and self._n:
            os.replace(self._part, self.path)
        else:
            self._part.unlink(missing_ok=True)


# ----------------------------------------------------------------------------------
# Training tables: columns, target and weights; held-out error; labelled test rows.
# ----------------------------------------------------------------------------------

# Of the rows, to measure the error where no test table is given, and at most so many.
_HELD_OUT, _MOST_HELD_OUT = 0.2, 20_000


class TrainingTable:
    """A training table: columns and their types, target, weights and task.

    Parameters
    ----------
    path : path
    target : str
        The column to predict.
    weights : str or None
        The column of the weights.
    task : {"classification", "regression"} or None
        None: as the target looks.
    """

    def __init__(self, path: Path, target: str, weights: str | None, task: str | None):
        self.path, self.target, self.weights = path, target, weights
        frame = read_table(path, target=target)
        y = target_of(frame, target, path)
        self.task = task or task_of(y)
        self.y = self._targets(y, path)
        self.weight = _weight(frame, weights, path)
        self.X = frame.drop(columns=[c for c in (target, weights) if c is not None])
        if not self.X.shape[1] or len(frame) < 2:
            raise TableError(
                f"{path} has {len(frame)} rows and {self.X.shape[1]} columns beside "
                f"{target!r}; a model needs two rows and a column."
            )
        self.kinds = {name: kind_of(self.X[name]) for name in self.X.columns}

    def _targets(self, y, path: Path) -> np.ndarray:
        if self.task == "classification":
            labels = labels_of(y)
            if len(np.unique(labels)) < 2:
                raise TableError(
                    f"{path}, column {self.target!r}: every row is {str(labels[0])!r}; "
                    "there is nothing to learn."
                )
            return labels
        numbers = as_kinds(y.to_frame(), {self.target: "number"}, path)
        return numbers[self.target].to_numpy()

    def others(self, path: Path):
        """Return rows, targets and weights of another table."""
        frame = read_table(path, self._all_kinds())
        y = self._targets(target_of(frame, self.target, path), path)
        return frame[list(self.kinds)], y, _weight(frame, self.weights, path)

    def _all_kinds(self) -> dict[str, str]:
        number = "number" if self.y.dtype.kind in "iuf" else "text"
        weights = {} if self.weights is None else {self.weights: "number"}
        return self.kinds | {self.target: number} | weights

    def about(self) -> dict:
        """Return the metadata to write into the model's file."""
        return {
            "task": self.task,
            "target": self.target,
            "weights": self.weights,
            "kinds": self.kinds,
            "rows": len(self.y),
            "numbers": self.y.dtype.kind in "iuf",
        }


class HeldOut(NamedTuple):
    """Rows that a model of the others was judged by."""

    score: Score
    X: Any
    y: np.ndarray
    predictions: np.ndarray
    """By the model that was not fitted to them."""


def judge_held_out(data: TrainingTable, options: dict[str, Any], seed: int) -> HeldOut:
    """Return the error of a model of four fifths of the rows on the others."""
    from sklearn.model_selection import train_test_split

    n = len(data.y)
    size = min(int(np.ceil(_HELD_OUT * n)), _MOST_HELD_OUT)
    classes = data.y if data.task == "classification" else None
    try:
        rest, some = train_test_split(
            np.arange(n), test_size=size, random_state=seed, stratify=classes
        )
    except ValueError:  # a class of one row
        rest, some = train_test_split(np.arange(n), test_size=size, random_state=seed)
    model = make_table_pipeline(data.task, **options)
    X, y, weight = data.X, data.y, data.weight
    fit_table(model, X.iloc[rest], y[rest], None if weight is None else weight[rest])
    weight = None if weight is None else weight[some]
    predicted = model.predict(X.iloc[some])
    score = score_predictions(model, y[some], predicted, weight)
    return HeldOut(score, X.iloc[some], y[some], predicted)


def calibrate_intervals(model, X, y, predictions=None) -> None:
    """Keep the residuals of rows that were not fitted, where a regressor takes them.

    A file of a model does not have its training rows, so intervals come from these. A
    model of all rows takes the predictions of one of four fifths of them: their
    residuals are a little larger than its own, so intervals err on the safe side.
    """
    if hasattr(model[-1], "predict_interval"):
        model[-1].conformalize(model[:-1].transform(X), y, predictions)


def labelled_chunks(
    model: Path, loaded, rows: Path, target: str | None, weights: str | None
) -> Iterator[tuple[Any, np.ndarray, np.ndarray | None]]:
    """Yield rows, targets and weights of a table, a chunk at a time."""
    about = describe(model).about
    kinds = column_kinds(model, about)
    target = target or about["target"]
    asked = kinds | {target: "number" if about["numbers"] else "text"}
    asked |= {} if weights is None else {weights: "number"}
    n_rows = 0
    for frame in filter(len, read_chunks(rows, asked)):
        y = target_of(frame, target, rows)
        y = labels_of(y) if hasattr(loaded, "classes_") else y.to_numpy()
        n_rows += len(frame)
        yield frame[list(kinds)], y, _weight(frame, weights, rows)
    if not n_rows:
        raise TableError(f"{rows} has no rows.")


def labelled_predictions(model: Path, loaded, rows: Path, target, weights):
    """Return targets, predictions and weights of a table, read in chunks."""
    chunks = labelled_chunks(model, loaded, rows, target, weights)
    parts = [(y, loaded.predict(X), weight) for X, y, weight in chunks]
    return tuple(map(_joined, zip(*parts, strict=True)))


def labelled_rows(model: Path, loaded, rows: Path, target, weights):
    """Return rows, targets and weights of a whole table."""
    pandas = require("pandas", "tables")
    parts = list(labelled_chunks(model, loaded, rows, target, weights))
    X, y, weight = zip(*parts, strict=True)
    return pandas.concat(X), _joined(y), _joined(weight)


def _joined(parts) -> np.ndarray | None:
    return None if parts[0] is None else np.concatenate(parts)


def column_kinds(model: Path, about: dict) -> dict[str, str]:
    """Return the kind of each column of a model, from its file."""
    if "kinds" not in about:
        raise TableError(
            f"{model} was not written by `kaucus fit`, and does not tell what its "
            "columns are; load it with kaucus.persistence.load."
        )
    return about["kinds"]


def _weight(frame, name: str | None, path: Path) -> np.ndarray | None:
    if name is None:
        return None
    column = target_of(frame, name, path)
    values = as_kinds(column.to_frame(), {name: "number"}, path)[name]
    bad = np.flatnonzero(~(values >= 0))
    if len(bad):
        raise TableError(
            f"{path}, row {column.index[bad[0]]}, column {name!r}: "
            f"{values.iloc[bad[0]]:g} is not a weight; expected zero or more."
        )
    return values.to_numpy()
