"""What every solver returns, what happens during a fit, and who may watch it."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kaucus.backend import Array


class SolveInfo(NamedTuple):
    """How a system was solved; an estimator shows it, and warns where it must."""

    solver: str
    """What ran: ``"cholesky"``, ``"cg"``, ``"eigh"``, ``"normal_equations"``
    or a randomized solver."""
    precision: str = "float64"
    """Of the factorisation: ``"float64"``, or ``"mixed"`` (float32, refined)."""
    n_iter: int = 0
    """Steps of an iterative solver, or of refinement."""
    backward_error: float = math.nan
    """Largest ‖Hz − y‖ / (‖y‖ + ‖H‖ ‖z‖) over the right-hand sides.

    NaN where it was not measured: a factorisation in float64 overwrites H."""
    jitter: float = 0.0
    """What had to be added to the diagonal of H to factor it."""
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
    """What a callback is shown after a step."""

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

    @property
    def watching(self) -> bool:
        """Whether anybody looks at coefficients."""
        return self.callback is not None or self.validate is not None


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
        if watch.watching:
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
