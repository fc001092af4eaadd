"""What every solver returns."""

import math
from typing import NamedTuple

from kaucus.backend import Array


class SolveInfo(NamedTuple):
    """How a system was solved; an estimator shows it, and warns where it must."""

    solver: str
    """What ran: ``"cholesky"``, ``"cg"``, ``"eigh"``, ``"normal_equations"``,
    ``"sketched_cg"`` or a randomized solver."""
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
    interrupted: bool = False
    """Whether Ctrl-C ended the iteration."""
    stop: str = ""
    """Why an iteration ended: ``"residual"``, ``"no change"``, ``"complete"``
    (each row was in a member of the committee), ``"max_iter"``, ``"callback"`` or
    ``"interrupted"``."""
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
    interrupted: bool
