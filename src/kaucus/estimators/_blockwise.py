"""What estimators share that can be fitted by random blocks of the kernel matrix."""

import contextlib
import math
from typing import ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kaucus.backend import budget_without_buffers, to_numpy
from kaucus.contract import on_host
from kaucus.estimators._base import SOLVERS
from kaucus.estimators._kernel_input import on_device, place_rows
from kaucus.estimators._parameters import (
    BOOLEAN,
    NONE,
    POSITIVE,
    Constraint,
    count,
    one_of,
)
from kaucus.kernels import kernel_diagonal
from kaucus.machines import NO_UNIT, TargetUnit
from kaucus.solvers import (
    RANDOMIZED,
    Callback,
    FitResult,
    Interrupted,
    SolveInfo,
    Start,
    Validation,
    plan_ls_svm,
)


class BlockwiseFit:
    """Parameters of the randomized solvers: checked, handed on, reported.

    Parameters
    ----------
    C : float
        Inverse strength of the regularisation, H = K + I/C. The papers' γ or 1/ε.
    solver : str
        ``"cholesky"`` factors the kernel matrix; ``"cg"`` needs only products with it;
        ``"block_descent"``, ``"nystrom"``, ``"kaczmarz"``, ``"matching_pursuit"`` and
        ``"kaczmarz_mp"`` take random blocks of its rows. ``"auto"`` chooses by a cost
        model; :meth:`explain` tells the choice beforehand, ``solver_`` afterwards.
    tol : float
        Relative residual at which an iterative solver stops; of a regressor, relative
        to the targets less their mean. ``"kaczmarz"`` and ``"nystrom"`` stop where no
        step of a whole pass changes the weights by more than this,
        ``"matching_pursuit"`` and ``"kaczmarz_mp"`` also where a whole pass lowers the
        residual by less.
    max_iter : int
        Most steps of an iterative solver. A ``"nystrom"`` committee is complete after
        n_samples / block_size steps.
    block_size : int
        Rows in a random block, the paper's J; None is 2,000, or as many as
        ``memory_budget`` allows.
    n_runs : int
        Runs of a randomized solver with different blocks, in parallel, whose weights
        are averaged.
    warm_start : bool
        Whether a fit on the same rows begins with the coefficients of the last one, or
        with the best ones of a fit that Ctrl-C ended. For ``"kaczmarz"``,
        ``"matching_pursuit"``, ``"kaczmarz_mp"`` and ``"block_descent"``; others begin
        anew.
    callback : callable
        ``callback(step, state)`` after each step of an iterative solver; ``state`` has
        ``residual``, ``change``, ``seconds``, ``validation_error``, ``dual_coef`` and
        ``intercept``. A true result ends the fit, and what was learned is kept.
    memory_budget : int or str
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.
        What does not fit is computed in blocks, again for every product.
    verbose : int
        1 tells which solver was chosen and shows progress on a terminal.

    Attributes
    ----------
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed.
    solver_ : str
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for a factorisation without refinement.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution, and why an iteration ended.
    history_ : dict of list
        Of an iterative solver, a value for each step: ``"run"``, ``"step"``,
        ``"seconds"``, ``"residual"``, ``"change"`` and ``"validation_error"``; empty
        for a factorisation.
    """

    _parameters: ClassVar = {
        "C": POSITIVE.advise("Try 1.0; larger fits closer."),
        "solver": one_of(*SOLVERS, *RANDOMIZED),
        "block_size": count() | NONE,
        "n_runs": count(),
        "warm_start": BOOLEAN,
        "callback": Constraint(callable, "a function of step and state") | NONE,
    }

    def _block_options(self, X, Y, validation, unit: TargetUnit = NO_UNIT) -> dict:
        """Return what the solvers take beside data whose targets are in ``unit``."""
        start = self._start(X, Y)
        return {
            "block_size": self.block_size,
            "n_runs": self.n_runs,
            "start": None if start is None else unit.standardised(start),
            "watch": self._watch(unit),
            "validation": validation,
        }

    @contextlib.contextmanager
    def _keeping_iterate(self, unit: TargetUnit = NO_UNIT):
        """Context manager: with warm_start, Ctrl-C keeps the best iterate."""
        try:
            yield
        except Interrupted as stop:
            if self.warm_start and stop.best is not None:
                best = unit.restored(stop.best)
                stop.kept = {"_iterate": Start(*map(to_numpy, best))}
            raise

    def _watch(self, unit: TargetUnit) -> Callback | None:
        """Return the callback, which is shown coefficients in the unit of ``y``."""
        callback = self.callback
        if callback is None:
            return None
        return lambda step, state: callback(step, unit.restored(state))

    def _start(self, X, Y) -> Start | None:
        """Return the coefficients of the last fit, if they are to be used."""
        start = vars(self).get("_iterate")
        if start is None and hasattr(self, "dual_coef_"):
            start = Start(self.dual_coef_, self.intercept_)
        if not self.warm_start or start is None:
            return None
        if start.dual_coef.shape != Y.shape:
            raise ValueError(
                f"warm_start=True, but the last fit had coefficients of shape "
                f"{start.dual_coef.shape} and this one needs {Y.shape}: one for each "
                "row and column of targets. Fit the same rows, or set "
                "warm_start=False."
            )
        return start

    def _keep_history(self, fitted: FitResult) -> None:
        self.history_, self._reason = fitted.history, fitted.plan.reason

    def explain(self, X=None, y=None):
        """Say in words which solver is chosen, or was, and why.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Rows that would be fitted: the choice for them, without a fit. None tells
            what the last fit did.
        y : array-like, default=None
            Their targets, for the number of classes or outputs, which is part of the
            cost; None counts as 10 classes or 1 output.

        Returns
        -------
        str
        """
        if X is None:
            check_is_fitted(self, "dual_coef_")
            return _what_ran(self.solve_info_, self._reason)
        self._check_parameters()
        X = clone(self)._validate(X, reset=True)  # remembers nothing in this object
        kernel, rows = self._kernel_and_rows(self._resolve_kernel(X, None), X)
        plan = plan_ls_svm(
            rows,
            float(np.max(np.abs(to_numpy(kernel_diagonal(kernel, rows))))),
            float(self.C),
            self.solver,
            budget_without_buffers(rows, self.memory_budget),
            n_columns=self._n_columns(y),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return f"solver={plan.solver!r}: {plan.reason}"


def _what_ran(info: SolveInfo, reason: str) -> str:
    """Describe a finished fit."""
    steps = f" {info.n_iter} steps" if info.n_iter else " no steps"
    why = f", ended by: {info.stop}" if info.stop else ""
    residual = (
        "its residual was not measured"
        if math.isnan(info.backward_error)
        else f"relative residual {info.backward_error:.1e}"
    )
    return f"solver={info.solver!r}: {reason} It took{steps}{why}; {residual}."


def validation_pair(estimator, X_val, y_val, make_error) -> Validation | None:
    """Check validation rows and targets; return them as the core takes them."""
    if X_val is None and y_val is None:
        return None
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"{missing} is missing: X_val and y_val go together.")
    X_val, y_val = estimator._validate(X_val, reset=False), on_host(y_val)
    check_consistent_length(X_val, y_val)
    if estimator._precomputed:
        K_val = on_device(X_val, estimator.device)
        return Validation(None, make_error(y_val), K_val)
    rows = place_rows(X_val, estimator.device, estimator.memory_budget)
    return Validation(rows, make_error(y_val))
