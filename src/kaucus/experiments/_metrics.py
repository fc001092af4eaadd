"""What a cell of a table measures."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Metric(NamedTuple):
    """A function of true and predicted targets, and how to write its value."""

    label: str
    digits: int
    score: Callable[[np.ndarray, np.ndarray], float]


def _error_percent(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(100 * np.mean(np.asarray(y_true) != np.asarray(y_pred)))


def _accuracy_percent(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return 100 - _error_percent(y_true, y_pred)


def _clustering_accuracy(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    from kaucus.evaluation import clustering_accuracy

    return clustering_accuracy(y_true, y_pred)


METRICS: dict[str, Metric] = {
    "error_percent": Metric("test error (%)", 2, _error_percent),
    "accuracy": Metric("accuracy", 3, lambda t, p: _accuracy_percent(t, p) / 100),
    "accuracy_percent": Metric("test accuracy (%)", 2, _accuracy_percent),
    "clustering_accuracy": Metric("accuracy", 3, _clustering_accuracy),
}
