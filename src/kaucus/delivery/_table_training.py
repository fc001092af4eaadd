"""Training tables: columns, target and weights; held-out error; labelled test rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.contract import require
from kaucus.delivery._files import describe
from kaucus.delivery._table_models import (
    Score,
    count_unknown_categories,
    fit_table,
    labels_of,
    make_table_pipeline,
    score_predictions,
    task_of,
)
from kaucus.delivery._table_rows import (
    CHUNK_ROWS,
    UNKNOWN_LABELS,
    Remarks,
    TableError,
    as_kinds,
    column_of,
    kind_of,
    numbers_of,
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
        if target == weights:
            raise TableError(
                f"--weights={weights!r} is the target; expected another column."
            )
        frame, remarks = read_table(path), Remarks(path)
        y = target_of(frame, target, path)
        self.weight = _weight(frame, weights, path)
        X = frame.drop(columns=[target] if weights is None else [target, weights])
        if not X.shape[1] or len(frame) < 2:
            raise TableError(
                f"{path} has {len(frame)} rows and {X.shape[1]} columns beside "
                f"{target!r}; a model needs two rows and a column."
            )
        self.task = task or task_of(y, path)
        self.y = self._targets(y, path)
        if self.task == "classification" and len(np.unique(self.y)) < 2:
            raise TableError(
                f"{path}, column {target!r}: every row is {str(self.y[0])!r}; there "
                "is nothing to learn."
            )
        # Whole numbers and truth values of a typed file are predicted as such.
        is_typed = self.task == "classification" and y.dtype.kind in "iub"
        self.label_type = str(y.dtype) if is_typed else None
        self.kinds = {c: kind_of(column_of(X, c, path), remarks) for c in X.columns}
        self.X = as_kinds(X, self.kinds, remarks)
        remarks.warn()

    def _targets(self, y, path: Path) -> np.ndarray:
        if self.task == "classification":
            return labels_of(y)
        return numbers_of(y, path)

    def others(self, path: Path):
        """Return rows, targets and weights of another table."""
        frame, remarks = read_table(path), Remarks(path)
        y = target_of(frame, self.target, path)
        X, targets = as_kinds(frame, self.kinds, remarks), self._targets(y, path)
        if self.task == "classification":
            remarks.add(y, ~np.isin(targets, self.y), UNKNOWN_LABELS)
        remarks.check()
        remarks.warn()
        return X, targets, _weight(frame, self.weights, path)

    def about(self) -> dict:
        """Return the metadata to write into the model's file."""
        return {
            "task": self.task,
            "target": self.target,
            "weights": self.weights,
            "kinds": self.kinds,
            "rows": len(self.y),
            "label_type": self.label_type,
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
    model = make_table_pipeline(data.task, data.kinds, **options)
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


def model_chunks(
    model: Path, loaded, remarks: Remarks, n_rows: int = CHUNK_ROWS
) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of a model and all columns as they are in the file, in chunks.

    At the end it warns of what the columns have shown. A chunk is read before the one
    before it is used, so that an error of all rows comes first where they are few.
    """
    kinds, held = column_kinds(model, describe(model).about), None
    for frame in filter(len, read_chunks(remarks.path, n_rows=n_rows)):
        if held is not None:
            yield held
        held = as_kinds(frame, kinds, remarks), frame
        count_unknown_categories(loaded, held[0], remarks)
    if held is None:
        raise TableError(f"{remarks.path} has no rows.")
    remarks.check()
    yield held
    remarks.check()
    remarks.warn()


def labelled_chunks(
    model: Path, loaded, rows: Path, target: str | None, weights: str | None
) -> Iterator[tuple[Any, np.ndarray, np.ndarray | None]]:
    """Yield rows, targets and weights of a table, a chunk at a time."""
    target, remarks = target or describe(model).about.get("target", ""), Remarks(rows)
    for X, frame in model_chunks(model, loaded, remarks):
        column = target_of(frame, target, rows)
        if hasattr(loaded, "classes_"):
            y = labels_of(column)
            remarks.add(column, ~np.isin(y, loaded.classes_), UNKNOWN_LABELS)
        else:
            y = numbers_of(column, rows)
        yield X, y, _weight(frame, weights, rows)


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
    values = numbers_of(column_of(frame, name, path), path)
    bad = np.flatnonzero(values < 0)
    if len(bad):
        raise TableError(
            f"{path}, row {frame.index[bad[0]]}, column {name!r}: "
            f"{values[bad[0]]:g} is not a weight; expected zero or more."
        )
    return values
