"""Curves of the test error over the steps of one fit.

Cells with ``at_step`` read their number off the history of one fit, which cells that
differ in the step alone share, also across runs of the command.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline

from kaucus.evaluation.clustering import peak_memory, timed
from papers._data import Split


def curve_key(determining: Mapping[str, Any]) -> str:
    """Hash all that determines a fit, but not the step that is read off."""
    rest = {key: value for key, value in determining.items() if key != "at_step"}
    return hash_of(rest)


def hash_of(content: Mapping[str, Any]) -> str:
    """Return a hash of a mapping, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def fit_curve(estimator: Any, split: Split, *, keep_predictions: bool) -> dict:
    """Fit, and return the test error in per cent after each step.

    Parameters
    ----------
    estimator : estimator
        One that has a ``history_``, or a pipeline that ends with one.
    split : Split
    keep_predictions : bool
        Whether to keep the predicted classes, digits, and the confusion matrix.
    """
    before, model = _parts(estimator)
    X_train, X_test = split.X_train, split.X_test
    if before is not None:
        X_train = before.fit_transform(X_train, split.y_train)
        X_test = before.transform(X_test)
    prepared = Split(X_train, split.y_train, X_test, split.y_test)
    with warnings.catch_warnings():
        # The number of steps is what the experiment varies.
        warnings.simplefilter("ignore", ConvergenceWarning)
        validation = {"X_val": X_test, "y_val": split.y_test}
        predicted, record = fit_and_predict(model, prepared, **validation)
    history = model.history_
    if not history or not history["step"]:
        raise ValueError(
            f"{type(model).__name__} with solver {model.solver_!r} has no history; "
            "at_step needs an iterative solver."
        )
    # Shares of some thousand rows: more digits would be those of the multiplication.
    record["errors"] = [round(100 * e, 6) for e in history["validation_error"]]
    record["solver_seconds"] = history["seconds"][-1]
    if keep_predictions:
        record["predictions"] = "".join(map(str, np.asarray(predicted)))
        record["confusion"] = confusion_percent(split.y_test, predicted)
    return record


def fit_and_predict(
    estimator: Any, split: Split, **fit_options: Any
) -> tuple[Any, dict[str, Any]]:
    """Fit and predict once; return the predictions, and time and memory."""
    with peak_memory() as memory:
        train = (split.X_train, split.y_train)
        _, fit_seconds = timed(estimator.fit, *train, **fit_options)
        _, model = _parts(estimator)
        predicted, predict_seconds = timed(estimator.predict, split.X_test)
    n_iter = getattr(model, "n_iter_", None)
    return predicted, {
        "n_train": len(split.X_train),
        "n_test": len(split.X_test),
        "solver": getattr(model, "solver_", None),
        "n_iter": None if n_iter is None else int(np.max(n_iter)),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "peak_memory": memory.rise,
    }


def error_at(record: dict, step: int) -> float:
    """Return the error after a step, or after the last one if there were fewer."""
    errors = record["errors"]
    return float(errors[min(step, len(errors)) - 1])


def confusion_percent(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, Any]:
    """Return the classes and, for each true one, the shares of predicted ones in %."""
    classes = np.unique(y_true)
    shares = 100 * confusion_matrix(y_true, y_pred, labels=classes, normalize="true")
    return {"classes": [str(c) for c in classes], "percent": shares.round(1).tolist()}


def _parts(estimator: Any) -> tuple[Any, Any]:
    """Return the transformers before the model, or None, and the model."""
    if isinstance(estimator, Pipeline):
        return estimator[:-1], estimator[-1]
    return None, estimator
