"""Training tables: columns, target and weights; held-out error; labelled test rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.contract import require
from kaucus.delivery._files import describe
from kaucus.delivery._table_models import (
    Score,
    fit_table,
    labels_of,
    make_table_pipeline,
    score_predictions,
    task_of,
)
from kaucus.delivery._table_rows import (
    TableError,
    as_kinds,
    kind_of,
    read_chunks,
    read_table,
    target_of,
)

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
