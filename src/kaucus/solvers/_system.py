"""The bordered system of a least-squares SVM: results, weights, scores."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from kaucus._array import namespace as nx
from kaucus._array.namespace import Array

# ----------------------------------------------------------------------------------
# What every solver returns, what happens during a fit, and who may watch it.
# ----------------------------------------------------------------------------------


class SolveInfo(NamedTuple):
    """Result of a solver: name, precision, steps, residual."""

    solver: str
    """Solver that ran: ``"cholesky"``, ``"cg"``, ``"eigh"``, ``"normal_equations"``
    or a randomized solver."""
    precision: str = "float64"
    """Of the factorisation: ``"float64"``, or ``"mixed"`` (float32, refined)."""
    n_iter: int = 0
    """Steps of an iterative solver, or of refinement."""
    backward_error: float = math.nan
    """Largest ‖Hz − y‖ / (‖y‖ + ‖H‖ ‖z‖) over the right-hand sides.

    NaN where it was not measured: a factorisation in float64 overwrites H."""
    jitter: float = 0.0
    """Jitter added to the diagonal of H to factor it."""
    relative_jitter: float = 0.0
    """The same over the mean of the diagonal."""
    converged: bool = True
    """Whether the accuracy that was asked for was reached."""
    stop: str = ""
    """Why an iteration ended: ``"residual"``, ``"no change"``, ``"complete"``
    (each row was in a member of the committee), ``"max_iter"`` or
    ``"callback"``."""
    n_fallbacks: int = 0
    """Steps whose pseudo-inverse needed eigenvalues in place of a Cholesky factor."""


class LSSVMSolution(NamedTuple):
    """Coefficients of f(x) = Σᵢ aᵢ k(x, xᵢ) + b for every right-hand side."""

    dual_coef: Array
    """a, of shape (n, t)."""
    intercept: Array
    """b, of shape (t,)."""
    loo_decision: Array | None
    """Decision values of models fitted without the row, for some rows, or None."""
    info: SolveInfo


class CGResult(NamedTuple):
    """Outcome of the conjugate gradient iteration."""

    x: Array
    """The solutions, (n, t)."""
    backward_error: float
    n_iter: int
    converged: bool


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a solver by random blocks, with its best iterate so far.

    Parameters
    ----------
    best : Start or None
        None before the first step.
    """

    def __init__(self, best: Any) -> None:
        super().__init__()
        self.best = best


# ---- step by step --------------------------------------------------------------------


class StepState(NamedTuple):
    """State of an iterative solver after a step, for callbacks."""

    step: int
    """From 1."""
    run: int
    """Number of the run, from 0; see ``n_runs``."""
    residual: float
    """Largest relative residual over the right-hand sides. Of all rows after the step;
    of the block's rows before it for kaczmarz and nystrom."""
    change: float
    """‖W(t) − W(t−1)‖ / ‖W(t)‖; NaN for cg."""
    seconds: float
    """Time of this run so far, without what callbacks and validation took."""
    validation_error: float
    """Error on the validation rows; NaN without any."""
    dual_coef: Array
    """a, of shape (n, t)."""
    intercept: Array
    """b, of shape (t,)."""


Callback = Callable[[int, StepState], object]
"""``callback(step, state)``; a true result ends the fit."""

COLUMNS = ("run", "step", "seconds", "residual", "change", "validation_error")


class Validation(NamedTuple):
    """Rows that are not fitted, and how decision values of theirs are judged."""

    X: Array | None
    """(m, d), or None where ``K`` is given."""
    error: Callable[[Array], float]
    """Takes decision values, (m, t)."""
    K: Array | None = None
    """k(X, X_fit), (m, n), for a precomputed kernel."""


class Watch(NamedTuple):
    """Functions that are called after each step of an iterative solver."""

    callback: Callback | None = None
    validate: Callable[[Array, Array], float] | None = None
    """``validate(dual_coef, intercept)`` returns the error on other rows."""
    progress: Callable[[int, float], object] | None = None
    """``progress(step, residual)``, told of steps only."""


class Recorder:
    """Collects the history of one run, and shows each step to the watch.

    Parameters
    ----------
    watch : Watch
    run : int
    """

    def __init__(self, watch: Watch, run: int) -> None:
        self._watch, self._run = watch, run
        self.rows: list[tuple] = []
        self._seconds, self._clock = 0.0, time.perf_counter()

    def record(
        self,
        step: int,
        residual: float,
        change: float,
        coefficients: Callable[[], tuple[Array, Array]],
    ) -> bool:
        """Add a step; return whether a callback wants to stop.

        ``coefficients`` gives a and b, and is asked only where somebody looks at them.
        """
        self._seconds += time.perf_counter() - self._clock
        watch, error, found, stop = self._watch, float("nan"), (None, None), False
        if watch.callback is not None or watch.validate is not None:
            found = coefficients()
            if watch.validate is not None:
                error = watch.validate(*found)
        seconds = self._seconds
        self.rows.append((self._run, step, seconds, residual, change, error))
        if watch.progress is not None:
            stop = bool(watch.progress(step, residual))
        if watch.callback is not None:
            numbers = (step, self._run, residual, change, seconds, error)
            stop = bool(watch.callback(step, StepState(*numbers, *found))) or stop
        self._clock = time.perf_counter()
        return stop


def history_of(recorders: list[Recorder]) -> dict[str, list]:
    """Return the history as columns, one run after the other."""
    rows = [row for recorder in recorders for row in recorder.rows]
    return {name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)}


# ----------------------------------------------------------------------------------
# Per-row weights as a symmetric scaling of the LS-SVM system.
#
# With weights sᵢ the primal problem
#
#     min ½‖w‖² + ½ C Σᵢ sᵢ εᵢ²     with  ⟨φ(xᵢ), w⟩ + b + εᵢ = yᵢ
#
# leads to K + diag(1 / (C sᵢ)), which is infinite at a weight of zero. With the
# substitution a = S^½ ã it becomes
#
#     [ 0   uᵀ ] [ b ]   [    0   ]
#     [ u   H  ] [ ã ] = [ S^½ Y  ],    H = S^½ K S^½ + I/C,   u = S^½ 1,
#
# which is as well conditioned as the unweighted system, and in which a row of weight
# zero gets the coefficient zero and changes nothing else.
#
# Eliminating the intercept: with H η = u and H ν = S^½ Y,
#
#     b = uᵀν / uᵀη,    ã = ν − η b.
#
# Leave-one-out (G. C. Cawley, IJCNN 2006): with g_i = (H⁻¹)_ii − η_i² / uᵀη, the
# diagonal of the bordered inverse, the model fitted without row i errs at x_i by
#
#     y_i − f⁽⁻ⁱ⁾(x_i) = ã_i / (√s_i g_i).
#
# The whole row is left out, whatever its weight: sᵢ is a precision, not a number of
# rows.
# ----------------------------------------------------------------------------------


class ScaledTargets(NamedTuple):
    """u = S^½ 1 and S^½ Y, in float64."""

    root: Array | None
    """√s, (n,), or None for equal weights."""
    u: Array
    """(n, 1)."""
    Y: Array
    """(n, t)."""


def scale_targets(Y: Array, sample_weight: Array | None) -> ScaledTargets:
    """Scale targets by the square roots of the weights."""
    xp = nx.array_namespace(Y)
    Y = nx.astype(Y, "float64")
    if sample_weight is None:
        u = xp.ones((Y.shape[0], 1), dtype=xp.float64, device=nx.device_of(Y))
        return ScaledTargets(None, u, Y)
    root = xp.sqrt(nx.astype(sample_weight, "float64"))
    return ScaledTargets(root, root[:, None], root[:, None] * Y)


def scale_problems(
    Y: Array, sample_weight: Array | None, held_out: Array | None
) -> list[ScaledTargets]:
    """Return the targets of the model and of a model without held-out rows.

    The second has the weight 0 for these rows; there is none for ``held_out=None``.
    """
    problems = [scale_targets(Y, sample_weight)]
    if held_out is not None:
        weight = np.ones(Y.shape[0])
        weight[nx.to_numpy(held_out)] = 0.0
        without = nx.as_like(weight, Y)
        if sample_weight is not None:
            without = without * nx.astype(sample_weight, "float64")
        problems.append(scale_targets(Y, without))
    return problems


def scale_matrix(K: Array, root: Array | None, *, overwrite: bool = False) -> Array:
    """Return S^½ K S^½ in a new array, or in place on request."""
    xp = nx.array_namespace(K)
    if root is None:
        return K if overwrite else xp.asarray(K, copy=True)
    r = nx.astype(root, nx.dtype_name(K))
    if not overwrite:
        K = K * r[None, :]
    else:
        K *= r[None, :]
    K *= r[:, None]
    return K


class Eliminated(NamedTuple):
    """Coefficients after the intercept has been eliminated."""

    dual_coef: Array
    intercept: Array
    scaled_coef: Array
    """ã, (n, t)."""


def intercept_of(u: Array, eta: Array, nu: Array) -> Array:
    """Return b = uᵀν / uᵀη, (t,); 0 where η is, as in steps on rows of weight 0."""
    xp = nx.array_namespace(eta, nu)
    total = xp.sum(u * eta)
    return xp.sum(u * nu, axis=0) / xp.where(total == 0, xp.ones_like(total), total)


def eliminate_intercept(targets: ScaledTargets, eta: Array, nu: Array) -> Eliminated:
    """Return a and b from the solutions of H η = u and H ν = S^½ Y."""
    b = intercept_of(targets.u, eta, nu)
    scaled = nu - eta * b[None, :]
    dual = scaled if targets.root is None else scaled * targets.root[:, None]
    return Eliminated(dual, b, scaled)


def loo_residuals(
    coef: Eliminated,
    inverse_diagonal: Array,
    eta: Array,
    targets: ScaledTargets,
    *,
    rows: Array | None = None,
) -> Array:
    """Return y_i − f⁽⁻ⁱ⁾(x_i) for some rows, (m, t); NaN at a weight of zero.

    Parameters
    ----------
    coef : Eliminated
    inverse_diagonal : array of shape (m,)
        (H⁻¹)_ii of those rows.
    eta : array of shape (n, 1)
    targets : ScaledTargets
    rows : integer array of shape (m,), default=None
        None means all.
    """
    xp = nx.array_namespace(eta)

    def pick(values: Array) -> Array:
        return values if rows is None else nx.take_rows(values, rows)

    g = inverse_diagonal - pick(eta)[:, 0] ** 2 / xp.sum(targets.u * eta)
    if targets.root is not None:
        root = pick(targets.root)
        g = g * xp.where(root > 0, root, xp.full_like(root, float("nan")))
    return pick(coef.scaled_coef) / g[:, None]


# ----------------------------------------------------------------------------------
# Scores of decision values, and probabilities: softmax with a fitted temperature.
#
#     p(class j | x) = exp(f_j(x) / T) / Σ_k exp(f_k(x) / T)
#
# The temperature T is the one number that makes these probabilities as true as they can
# be on decision values of rows that the model has not seen; here: leave-one-out values.
# It never changes which class is largest; a shift of the decision values, which can be
# fitted to them too, does.
#
# References: C. Guo et al., "On calibration of modern neural networks" (ICML 2017), for
# the temperature; J. Platt (1999), for targets that are not quite 0 and 1, by which T
# stays finite on separable data.
# ----------------------------------------------------------------------------------

_MAX_NEWTON = 30


def softmax(decision: Array, temperature: float) -> Array:
    """Return the softmax of decision values, (n, k), row by row."""
    xp = nx.array_namespace(decision)
    scaled = decision / temperature
    scaled = xp.exp(scaled - xp.max(scaled, axis=1, keepdims=True))
    return scaled / xp.sum(scaled, axis=1, keepdims=True)


def two_columns(decision: Array) -> Array:
    """Return decision values of both classes from the one column of a binary model.

    Half of it for one class, minus half of it for the other: softmax then is the
    logistic function of the column.
    """
    xp = nx.array_namespace(decision)
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
    """Return offsets of the decision values of the classes that minimise the log-loss.

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
    before = _log_likelihood(start, *problem)[0]
    theta, after = _newton(start, *problem)
    if after - before <= k - 1 or theta[0] <= 0:
        return np.zeros(k)
    return (theta[1:] - theta[1:].mean()) / theta[0]


def _newton(theta: np.ndarray, *problem: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (β, c) of the largest log-likelihood and its value (Newton's method)."""
    value, gradient, curvature = _log_likelihood(theta, *problem)
    for _ in range(_MAX_NEWTON):
        # A constant may be added to all of c: one eigenvalue is zero.
        step = np.linalg.pinv(curvature, hermitian=True) @ gradient
        if gradient @ step < 1e-6:
            break
        for _ in range(_MAX_NEWTON):
            new = _log_likelihood(theta + step, *problem)
            if new[0] > value:
                break
            step = step / 2
        else:
            break
        theta, (value, gradient, curvature) = theta + step, new
    return theta, value


def _log_likelihood(theta, decision, targets, weight):
    """Return Σ_i w_i Σ_j t_ij log p_ij with p = softmax(β f + c), and derivatives.

    By β and c: the gradient, (1 + k,), and minus the second ones, (1 + k, 1 + k).
    """
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
    return float(np.sum(weight[:, None] * targets * logs)), gradient, curvature


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


class Score(NamedTuple):
    """A score with a tie-breaker."""

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


def log_losses_of_rows(
    values: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the log-loss of each row and of each of c sets of decision values, (n, c).

    Of the softmax of values (n, c, k) for targets ±1, at two temperatures, ½ and ¼, of
    which the better one counts; k = 1 is for two classes, the other minus the value.
    """
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    terms = np.stack(list(_loss_terms(values, labels)))
    best = np.argmin([weight @ each for each in terms], axis=0)
    return np.take_along_axis(terms, best[None, None, :], axis=0)[0]


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
