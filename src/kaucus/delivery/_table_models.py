"""Pipelines for tables with columns of any kind: make, fit, score, predict, write.

The pipeline is skrub's ``TableVectorizer`` (texts, categories) with parts of dates,
medians for gaps with a column that marks them, and a k-means kernel machine that learns
a metric.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from kaucus.contract import require
from kaucus.delivery._files import last_step, replace_file
from kaucus.delivery._table_rows import (
    PACKERS,
    UNKNOWN_CATEGORIES,
    Remarks,
    TableError,
    parse_numbers,
    shown,
    table_kind,
)
from kaucus.estimators import KMeansKernelClassifier, KMeansKernelRegressor

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


def task_of(target, path="the table") -> str:
    """Return "classification" for texts and few whole numbers, else "regression".

    A column of amounts with a word in it is an error.
    """
    numbers = parse_numbers(target)
    is_word = numbers.isna()
    values = np.unique(numbers[~is_word])
    whole = bool(np.all(values == np.round(values)))
    if whole and len(values) <= _MOST_CLASSES:
        return TASKS[0]
    if not is_word.any():
        return TASKS[1]
    if is_word.mean() > 0.5:
        return TASKS[0]
    place = int(np.argmax(is_word))
    raise TableError(
        f"{path}, row {target.index[place]}, column {target.name!r}: "
        f"{shown(target, place)!r} is not a number, and {int((~is_word).sum()):,} of "
        f"{len(target):,} values are; mend it, or pass --task classification."
    )


def labels_of(target) -> np.ndarray:
    """Return a target as classes: its texts, as they are in the file."""
    return target.astype(str).to_numpy(dtype=object).astype(str)


def make_table_pipeline(
    task: str,
    kinds: Mapping[str, str] | None = None,
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
    kinds : mapping, default=None
        Kind of each column, for numbers and dates in float64: skrub's are float32.
    time : {"fast", "balanced", "best"}, default="balanced"
        How much to spend: ``n_representatives``, and with ``"fast"`` standardised
        columns in place of a learned metric.
    device, memory_budget, random_state, verbose
        Of the estimator.
    """
    skrub = require("skrub", "tables")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Not before: scikit-learn's imputers import rich where there is one.
    from kaucus.delivery._table_steps import DateParts, GapFiller

    options: dict[str, Any] = {
        "n_representatives": time,
        "device": device,
        "memory_budget": memory_budget,
        "random_state": random_state,
        "verbose": verbose,
    }
    gaps = GapFiller(strategy="median", add_indicator=True, keep_empty_features=True)
    gaps.set_output(transform="pandas")  # so that the estimator knows the names
    texts = skrub.StringEncoder(random_state=random_state)
    columns = skrub.TableVectorizer(
        cardinality_threshold=_CATEGORIES,
        high_cardinality=texts,
        specific_transformers=[
            ("passthrough" if kind == "number" else DateParts(kind), [name])
            for name, kind in (kinds or {}).items()
            if kind != "text"
        ],
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
    label_type: str | None = None,
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
    label_type : str, default=None
        Type of the labels: whole numbers or ``"bool"``; None: texts.
    """
    pandas = require("pandas", "tables")
    columns = {name: _typed(model.predict(X), label_type)}
    if proba:
        probabilities = model.predict_proba(X)
        columns |= {
            f"p_{label}": probabilities[:, k] for k, label in enumerate(model.classes_)
        }
    if interval is not None:
        bounds = _interval(model, X, interval)
        columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
    return pandas.DataFrame(columns)


def _typed(labels: np.ndarray, label_type: str | None) -> np.ndarray:
    """Return texts of labels as the type that the table of fit had."""
    if label_type == "bool":
        return labels == "True"
    return labels if label_type is None else labels.astype(label_type)


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


def count_unknown_categories(model, X, remarks: Remarks) -> None:
    """Remark on texts for which the one-hot columns of a pipeline are all zero."""
    for name, encoder in model[0].transformers_.items():
        if hasattr(encoder, "categories_"):
            known = X[name].isin(encoder.categories_[0]) | X[name].isna()
            remarks.add(X[name], ~known, UNKNOWN_CATEGORIES)


class TableWriter:
    """Context manager that writes frames to a CSV, TSV or Parquet file in turn.

    The file is there when all is written, and not before.

    Parameters
    ----------
    path : path or text stream
        ``.gz``, ``.bz2`` and ``.xz`` are packed; a stream gets CSV.
    """

    def __init__(self, path):
        self.path, self._is_first, self._writer = path, True, None
        self._is_stream = hasattr(path, "write")
        kind = "" if self._is_stream else table_kind(path)
        packer = "" if self._is_stream else path.suffix.lower()
        if kind not in ("", *_WRITTEN) or packer not in ("", kind, *PACKERS):
            raise TableError(
                f"{path} cannot be written; expected a name that ends in "
                f"{', '.join(_WRITTEN)}, of texts also with {', '.join(PACKERS)} "
                "after it."
            )
        self._is_parquet = kind == ".parquet"
        self._separator = "\t" if kind == ".tsv" else ","
        self._packer = PACKERS.get(packer)
        self._opened = contextlib.ExitStack()

    def add(self, frame) -> None:
        """Append rows."""
        if self._is_parquet:
            self._add_parquet(frame)
        else:
            options = {"sep": self._separator, "header": self._is_first, "index": False}
            mode = "w" if self._is_stream else "wb"
            frame.to_csv(self._file, mode=mode, **options)
        self._is_first = False

    def _add_parquet(self, frame) -> None:
        pyarrow = require("pyarrow", "tables")
        parquet = require("pyarrow.parquet", "tables")
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            writer = parquet.ParquetWriter(self._file, table.schema)
            self._writer = self._opened.enter_context(writer)
        self._writer.write_table(table)

    def __enter__(self) -> "TableWriter":
        self._file: Any = self.path
        if not self._is_stream:
            self._file = self._opened.enter_context(replace_file(self.path))
        if self._packer is not None:
            self._file = self._opened.enter_context(self._packer(self._file, "wb"))
        return self

    def __exit__(self, *error) -> None:
        self._opened.__exit__(*error)
