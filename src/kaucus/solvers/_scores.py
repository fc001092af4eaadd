"""How good leave-one-out decision values are; the larger the better."""

from typing import NamedTuple

import numpy as np
import scipy.special

from kaucus.solvers._calibration import fit_temperature

# Each the half of the one before.
_TEMPERATURES = (0.5, 0.25)


class Score(NamedTuple):
    """A score, and what decides between equal ones."""

    value: float
    tie_break: float


def classification_score(
    decision: np.ndarray,
    labels: np.ndarray,
    scoring: str,
    sample_weight: np.ndarray | None = None,
) -> Score:
    """Judge decision values, (n, k), of which column ``labels`` is right.

    ``scoring`` is "accuracy", "neg_log_loss" (of the softmax with its best temperature)
    or "neg_mean_squared_error" (from the targets ±1, or ±½ for two columns that are
    each other's negative).
    """
    decision, labels, weight = _known(decision, labels, sample_weight)
    k = decision.shape[1]
    size = 0.5 if k == 2 else 1.0
    targets = np.where(labels[:, None] == np.arange(k)[None, :], size, -size)
    squared = ((decision - targets) ** 2).mean(axis=1)
    loss = float(np.average(squared, weights=weight))
    if scoring == "neg_mean_squared_error":
        return Score(-loss, 0.0)
    if scoring == "neg_log_loss":
        scaled = decision / fit_temperature(decision, labels, weight)
        rows = np.arange(len(labels))
        log_loss = -scipy.special.log_softmax(scaled, axis=1)[rows, labels]
        return Score(-float(np.average(log_loss, weights=weight)), -loss)
    hits = np.argmax(decision, axis=1) == labels
    return Score(float(np.average(hits, weights=weight)), -loss)


def log_losses(
    values: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the log-loss of each of c sets of decision values, (c,).

    Of the softmax of ``values``, (n, c, k) for targets ±1, at the better of two
    temperatures, ½ and ¼. k = 1 is for two classes: the other has minus the value.
    """
    if values.shape[2] == 1:
        margins = np.where(labels == 1, 2.0, -2.0)[:, None] * values[:, :, 0]
        lost = np.maximum(-margins, 0.0)
        behind, first = np.abs(margins)[:, :, None], 1.0
    else:
        highest = values.max(axis=2)
        lost = highest - np.take_along_axis(values, labels[:, None, None], 2)[:, :, 0]
        behind, first = highest[:, :, None] - values, 0.0
    shares = np.exp(-behind / _TEMPERATURES[0])
    losses = []
    for temperature in _TEMPERATURES:
        each = np.log(first + shares.sum(axis=2)) + lost / temperature
        losses.append(np.average(each, axis=0, weights=sample_weight))
        shares *= shares  # half of the temperature
    return np.minimum(*losses)


def regression_score(
    predictions: np.ndarray,
    targets: np.ndarray,
    scoring: str,
    sample_weight: np.ndarray | None = None,
) -> Score:
    """Judge predictions, (n, t): "neg_mean_squared_error" or "..._absolute_error"."""
    predictions, targets, weight = _known(predictions, targets, sample_weight)
    errors = np.abs(predictions - targets)
    if scoring == "neg_mean_squared_error":
        errors = errors**2
    return Score(-float(np.average(errors.mean(axis=1), weights=weight)), 0.0)


def _known(values, targets, sample_weight):
    """Take out rows of weight zero, whose leave-one-out values are not defined."""
    weight = np.ones(len(targets)) if sample_weight is None else sample_weight
    known = (weight > 0) & np.isfinite(values).all(axis=1)
    return values[known], targets[known], weight[known]
