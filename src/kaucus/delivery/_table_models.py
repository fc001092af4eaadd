"""Pipelines for tables with columns of any kind: make, fit, score, predict, write.

The pipeline is skrub's ``TableVectorizer`` (text, dates, categories), medians for gaps
with a column that tells of them, and a k-means kernel machine that learns a metric.
"""

import os
from typing import Any, NamedTuple

import numpy as np

from kaucus.contract import require
from kaucus.delivery._files import last_step
from kaucus.delivery._table_rows import TableError, table_kind
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
