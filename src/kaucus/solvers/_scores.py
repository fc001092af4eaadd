"""Scores of decision values, and probabilities: softmax with a fitted temperature.

    p(class j | x) = exp(f_j(x) / T) / Σ_k exp(f_k(x) / T)

The temperature T is the one number that makes these probabilities as true as they can
be on decision values of rows that the model has not seen; here: leave-one-out values.
It never changes which class is largest; a shift of the decision values, which can be
fitted to them too, does.

References: C. Guo et al., "On calibration of modern neural networks" (ICML 2017), for
the temperature; J. Platt (1999), for targets that are not quite 0 and 1, by which T
stays finite on separable data.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from kaucus.backend import Array, array_namespace, row_blocks

_MAX_NEWTON = 30


def softmax(decision: Array, temperature: float) -> Array:
    """Return the softmax of decision values, (n, k), row by row."""
    xp = array_namespace(decision)
    scaled = decision / temperature
    scaled = xp.exp(scaled - xp.max(scaled, axis=1, keepdims=True))
    return scaled / xp.sum(scaled, axis=1, keepdims=True)


def two_columns(decision: Array) -> Array:
    """Return decision values of both classes from the one column of a binary model.

    Half of it for one class, minus half of it for the other: softmax then is the
    logistic function of the column.
    """
    xp = array_namespace(decision)
    return xp.concat([-decision / 2, decision / 2], axis=1)


def fit_temperature(
    decision: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Return the temperature of least log-loss on held-out decision values.

    Parameters
    ----------
    decision : array of shape (n, k)
        Decision values of rows that the model was not fitted on.
    labels : integer array of shape (n,)
        Which column is right.
    sample_weight : array of shape (n,), default=None
        Rows of weight zero are passed over.

    Returns
    -------
    float
        Between 1e-3 and 1e3.
    """
    decision, labels, weight = _known(decision, labels, sample_weight)
    if not len(labels):
        return 1.0
    targets = _smooth_targets(labels, weight, decision.shape[1])
    # Σ_j t_j (f_j β − logsumexp(β f)), with β = 1/T: concave in β. Targets have the sum
    # 1, so the highest f may be taken off all of them.
    decision = decision - decision.max(axis=1, keepdims=True)
    linear = np.average(np.sum(targets * decision, axis=1), weights=weight)

    def loss(log_beta: float) -> float:
        beta = np.exp(log_beta)
        norms = np.log(np.exp(beta * decision).sum(axis=1))
        return float(np.average(norms, weights=weight) - beta * linear)

    best = scipy.optimize.minimize_scalar(
        loss, bounds=(np.log(1e-3), np.log(1e3)), method="bounded"
    )
    return float(np.exp(-best.x))


def fit_shift(
    decision: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return what to add to the decision values of the classes, by the log-loss.

    Least squares put the intercept where the errors of all rows balance; where classes
    are of unequal size or spread, that is not where they meet. With β and c of the
    least log-loss of softmax(β f + c), the shift is c/β.

    Parameters
    ----------
    decision : array of shape (n, k)
        Decision values of rows that the model was not fitted on.
    labels : integer array of shape (n,)
        Which column is right.
    sample_weight : array of shape (n,), default=None
        Rows of weight zero are passed over.

    Returns
    -------
    array of shape (k,)
        Of mean zero. Zeros where c adds less than 1 for each of its k − 1 numbers to
        the log-likelihood (Akaike's criterion), or where the values tell nothing.
    """
    k = decision.shape[1]
    decision, labels, weight = _known(decision, labels, sample_weight)
    if len(np.unique(labels)) < k:
        return np.zeros(k)
    problem = (decision, _smooth_targets(labels, weight, k), weight)
    start = np.zeros(k + 1)
    start[0] = 1 / fit_temperature(decision, labels, weight)
    before = _log_likelihood(start, *problem).value
    theta, after = _newton(start, *problem)
    if after - before <= k - 1 or theta[0] <= 0:
        return np.zeros(k)
    return (theta[1:] - theta[1:].mean()) / theta[0]


class _Likelihood(NamedTuple):
    value: float
    gradient: np.ndarray
    """By β and c, (1 + k,)."""
    curvature: np.ndarray
    """Minus the second derivatives, (1 + k, 1 + k)."""


def _newton(theta: np.ndarray, *problem: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (β, c) of the largest log-likelihood, and this; it is concave."""
    now = _log_likelihood(theta, *problem)
    for _ in range(_MAX_NEWTON):
        # A constant may be added to all of c: one eigenvalue is zero.
        step = np.linalg.pinv(now.curvature, hermitian=True) @ now.gradient
        if now.gradient @ step < 1e-6:
            break
        for _ in range(_MAX_NEWTON):
            new = _log_likelihood(theta + step, *problem)
            if new.value > now.value:
                break
            step = step / 2
        else:
            break
        theta, now = theta + step, new
    return theta, now.value


def _log_likelihood(theta, decision, targets, weight) -> _Likelihood:
    """Return Σ_i w_i Σ_j t_ij log p_ij with p = softmax(β f + c), and derivatives."""
    scaled = theta[0] * decision + theta[1:]
    scaled -= scaled.max(axis=1, keepdims=True)
    p = np.exp(scaled)
    total = p.sum(axis=1, keepdims=True)
    p, logs = p / total, scaled - np.log(total)
    missing = weight[:, None] * (targets - p)
    gradient = np.concatenate([[np.sum(missing * decision)], missing.sum(axis=0)])
    weighted = weight[:, None] * p
    centred = decision - np.sum(p * decision, axis=1, keepdims=True)
    curvature = np.empty((len(theta), len(theta)))
    curvature[0, 0] = np.sum(weighted * centred**2)
    curvature[0, 1:] = curvature[1:, 0] = np.sum(weighted * centred, axis=0)
    curvature[1:, 1:] = np.diag(weighted.sum(axis=0)) - weighted.T @ p
    return _Likelihood(
        float(np.sum(weight[:, None] * targets * logs)), gradient, curvature
    )


def _smooth_targets(
    labels: np.ndarray, weight: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return one-hot targets, a little short of 1: the less so the more rows there are.

    (n_c + 1) / (n_c + 2) for the class c of a row, as Platt has it for two classes; the
    other classes share the rest.
    """
    counts = np.bincount(labels, weights=weight, minlength=n_classes)[labels]
    short = 1.0 / (counts + 2.0)
    targets = np.repeat(short[:, None] / (n_classes - 1), n_classes, axis=1)
    targets[np.arange(len(labels)), labels] = 1.0 - short
    return targets


def sum_of_exponentials(
    K: np.ndarray, dual_coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Return eq. (15) of Andrecut (2016) as printed.

        g_j(x) ∝ Σ_n exp(k(x, x_n) a_nj + b_j)

    The exponential of the sum, eq. (7), is what the derivation gives; the sum of the
    exponentials is offered because it is in print. It is nearly flat over the classes
    when there are many rows, and its largest class can be another one.
    """
    logs = [
        scipy.special.logsumexp(K * a[None, :], axis=1) + b
        for a, b in zip(dual_coef.T, intercept, strict=True)
    ]
    return scipy.special.softmax(np.stack(logs, axis=1), axis=1)


# Each the half of the one before.
_TEMPERATURES = (0.5, 0.25)
# Decision values whose losses are summed at a time.
_BLOCK_BYTES = 32 * 2**20


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


class LogLosses:
    """Log-losses of leave-one-out values, summed over blocks of rows.

    Of the softmax of c sets of decision values for targets ±1, at two temperatures, ½
    and ¼, of which the better one counts. Sums over other rows are merged, in a fixed
    order, so that the result does not depend on who has summed which.
    """

    def __init__(self) -> None:
        self.sums: np.ndarray | float = 0.0  # (temperatures, c)
        self.weight = 0.0

    def add(
        self, values: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None
    ) -> None:
        """Add a block of rows.

        Parameters
        ----------
        values : array of shape (n, c, k)
            k = 1 is for two classes: the other has minus the value.
        labels : integer array of shape (n,)
        sample_weight : array of shape (n,) or None
        """
        weight = np.ones(len(labels)) if sample_weight is None else sample_weight
        self.add_terms(_loss_terms(values, labels), weight)

    def add_terms(self, terms: Iterable[np.ndarray], weight: np.ndarray) -> None:
        """Add the losses of a block of rows, (n, c), at each temperature."""
        self.sums = self.sums + np.stack([weight @ each for each in terms])
        self.weight += float(weight.sum())

    def merge(self, other: "LogLosses") -> None:
        """Add the sums over other rows."""
        self.sums, self.weight = self.sums + other.sums, self.weight + other.weight

    def means(self) -> np.ndarray:
        """Return the loss of each set of values, (c,)."""
        return np.min(self.sums / self.weight, axis=0)

    def best(self) -> np.ndarray:
        """Return the number of the better temperature for each set of values, (c,)."""
        return np.argmin(self.sums, axis=0)


def log_losses(
    values: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the log-loss of each of c sets of decision values, (c,).

    As :class:`LogLosses` has it, of ``values``, (n, c, k), a block of rows at a time.
    """
    losses = LogLosses()
    row_bytes = 8 * values.shape[1] * values.shape[2]
    for s in row_blocks(len(values), row_bytes, _BLOCK_BYTES):
        weight = None if sample_weight is None else sample_weight[s]
        losses.add(values[s], labels[s], weight)
    return losses.means()


def log_losses_of_rows(
    values: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the terms of :func:`log_losses`, one for each row and set, (n, c)."""
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    terms, losses = np.stack(list(_loss_terms(values, labels))), LogLosses()
    losses.add_terms(terms, weight)
    return np.take_along_axis(terms, losses.best()[None, None, :], axis=0)[0]


def _loss_terms(values: np.ndarray, labels: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the log-loss of each row and set, (n, c), at each temperature."""
    if values.shape[2] == 1:
        margins = np.where(labels == 1, 2.0, -2.0)[:, None] * values[:, :, 0]
        lost = np.maximum(-margins, 0.0)
        behind, first = np.abs(margins)[:, :, None], 1.0
    else:
        highest = values.max(axis=2)
        right = np.take_along_axis(values, labels[:, None, None], 2)[:, :, 0]
        lost, behind, first = highest - right, highest[:, :, None] - values, 0.0
    shares = np.exp(-behind / _TEMPERATURES[0])
    for temperature in _TEMPERATURES:
        yield np.log(first + shares.sum(axis=2)) + lost / temperature
        shares *= shares  # half of the temperature


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
    """Take out rows of weight zero, whose leave-one-out values are not defined.

    The weights of the others get the mean 1, as a criterion counts rows.
    """
    weight = np.ones(len(targets)) if sample_weight is None else sample_weight
    known = (weight > 0) & np.isfinite(values).all(axis=1)
    weight = weight[known]
    return (
        values[known],
        targets[known],
        weight * (len(weight) / max(weight.sum(), 1e-300)),
    )
