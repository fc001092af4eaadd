"""Least-squares support vector machines on all rows."""

import contextlib
import functools
import math
import sys
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import (
    as_like,
    astype,
    dtype_name,
    owned,
    products_in,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus._array.segments import generator_from
from kaucus._array.streaming import budget_without_buffers
from kaucus._base import ExportsONNX, FollowsX, on_host
from kaucus._parameters import (
    BOOLEAN,
    NONE,
    POSITIVE,
    SEQUENCE,
    Constraint,
    KernelInputMixin,
    check_coefficients,
    check_weights,
    count,
    map_rows,
    numeric_targets,
    on_device,
    one_of,
    place_rows,
    place_support,
    relative_weights,
    share_reporter,
    step_reporter,
    weights_with_classes,
)
from kaucus.estimators._predict import IntervalPredictions, SetPredictions
from kaucus.estimators.metric import (
    LEARN_METRIC,
    LearnedImportances,
    is_auto,
    metric_options,
    validated_new_rows,
    warn_of_one_column,
)
from kaucus.fitting._problem import (
    NO_UNIT,
    ClassTargets,
    NumberTargets,
    Problem,
    TargetUnit,
    all_classes,
    one_vs_rest_targets,
)
from kaucus.fitting._search import (
    AUTO_KERNELS,
    LOOSearch,
    enough_rows,
    search_by_leave_one_out,
    search_metric,
    search_table,
    warn_at_edge,
)
from kaucus.kernels._kernel import (
    kernel_diagonal,
    kernels_with_gamma,
    median_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.kernels._matrix import kernel_expansion
from kaucus.kernels._metric import MappedKernel
from kaucus.solvers._auto import FitResult, fit_ls_svm, plan_ls_svm
from kaucus.solvers._blocks import RANDOMIZED, Start
from kaucus.solvers._system import (
    Callback,
    Interrupted,
    LSSVMSolution,
    SolveInfo,
    Validation,
    classification_score,
    regression_score,
)

# ----------------------------------------------------------------------------------
# What every LS-SVM estimator shares: rows in, core called, attributes stored.
# ----------------------------------------------------------------------------------

# Of every estimator; those with blocks have more.
SOLVERS = ("auto", "cholesky", "cg")


class LSSVMBase(ExportsONNX, FollowsX, KernelInputMixin, BaseEstimator):
    """Kernel, solver and prediction; subclasses say what the targets are.

    Parameters
    ----------
    precision : {None, "float64", "float32", "tf32"}
        What rows are cast to; None works in their own precision. Results have it, but
        for predictions of numbers, which are float64, as are sums and solves that need
        it. ``"tf32"`` is float32 with faster, coarser products of rows in the kernel
        on CUDA, where C allows it.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_targets,)
        b.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    """

    _parameters: ClassVar = {
        "tol": POSITIVE,
        "max_iter": count(),
        "solver": one_of(*SOLVERS),
    }

    def _fit_core(
        self,
        X,
        Y,
        C,
        sample_weight,
        *,
        leave_one_out: bool,
        kernel=None,
        options=None,
    ) -> FitResult:
        """Solve on the device, and say what ran; ``options`` go to the solver."""
        if kernel is None:
            kernel = self._resolve_kernel(X, sample_weight)
            warn_of_one_column(X, self.kernel, getattr(self, "feature_names_in_", None))
        self.kernel_ = kernel
        kernel, rows = self._kernel_and_rows(self.kernel_, X)
        try:
            with products_in(self.precision):
                fitted = fit_ls_svm(
                    kernel,
                    rows,
                    as_like(Y, rows),
                    C=C,
                    sample_weight=as_like(sample_weight, rows),
                    solver=self.solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    memory_budget=self.memory_budget,
                    leave_one_out=leave_one_out,
                    rng=generator_from(self.random_state),
                    callback=step_reporter(self.verbose, self.tol, self.max_iter),
                    **(options or {}),
                )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, C) from error
        if self.verbose:
            print(f"[kaucus] {fitted.plan.reason}", file=sys.stderr)
        self._report(fitted.solution.info, C)
        return fitted

    def _report(self, info: SolveInfo, C: float) -> None:
        """Store what ran, and warn once where the user must know."""
        self.solver_, self.n_iter_ = info.solver, max(info.n_iter, 1)
        self.solve_info_ = info
        if info.jitter > 0:
            warn_user(
                f"K + I/C is not positive definite in {info.precision} at C={C:g}; "
                f"{info.jitter:.1e} was added to its diagonal. Lower C to at most "
                f"{1 / info.jitter:.0e}, or take out repeated rows.",
                LinAlgWarning,
            )
        if info.n_fallbacks:
            warn_user(
                f"In {info.n_fallbacks} of {info.n_iter} steps rows of the block "
                "repeated each other, and its pseudo-inverse was found by eigenvalues, "
                "which is slower. Take out repeated rows, or lower C.",
                LinAlgWarning,
            )
        if not info.converged and info.stop != "callback":
            warn_user(
                f"{info.solver} stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e} (tol={self.tol:g}). Increase "
                "max_iter, lower C, or use solver='cholesky'.",
                ConvergenceWarning,
            )

    def _store(self, X, solution: LSSVMSolution) -> None:
        check_coefficients(solution.dual_coef, self.kernel)
        vars(self).pop("_iterate", None)
        self.dual_coef_ = as_like(solution.dual_coef, X)
        self.intercept_ = as_like(solution.intercept, X)
        if not self._precomputed:
            self.X_fit_ = owned(X)

    def _support_rows(self):
        """Return the rows whose kernel columns the model is made of."""
        return self.X_fit_

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t), in the kind of ``X``, and its precision or ``dtype``."""
        check_is_fitted(self, "dual_coef_")
        X = validated_new_rows(self, X)
        if self._precomputed:
            values = astype(X, "float64") @ as_like(self.dual_coef_, X)
            values = values + as_like(self.intercept_, X)[None, :]
        else:
            values = map_rows(
                self._values_on_device, X, self.device, self.memory_budget
            )
        return astype(values, dtype_name(X) if dtype is None else dtype)

    def _values_on_device(self, rows):
        """Return f(x) of checked rows on their device, (n, t), in float64."""
        support = place_support(
            self._support_rows(), rows, self.device, self.memory_budget
        )
        with products_in(self.precision):
            sums = kernel_expansion(
                self.kernel_,
                rows,
                support,
                as_like(self.dual_coef_, rows),
                memory_budget=self.memory_budget,
            )
        return sums + as_like(self.intercept_, rows)[None, :]


def indefinite_kernel(kernel, C: float) -> ValueError:
    """Return the error for a kernel matrix that is not positive semidefinite."""
    remedy = (
        "Use a positive semidefinite kernel ('rbf', 'exponential', 'cauchy', "
        "'laplacian', 'linear', 'cosine', 'poly' with coef0 of zero or more), or "
        "lower C."
    )
    if isinstance(kernel, str) and kernel == "precomputed":
        remedy = "Shift its eigenvalues, K + λ I, or lower C."
    return ValueError(
        f"K + I/C is indefinite at C={C:g}: kernel={kernel!r} is not positive "
        f"semidefinite on this data. {remedy}"
    )


# ----------------------------------------------------------------------------------
# What estimators share that can be fitted by random blocks of the kernel matrix.
# ----------------------------------------------------------------------------------


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


# ----------------------------------------------------------------------------------
# The search for C, and gamma if asked, by leave-one-out over all rows.
# ----------------------------------------------------------------------------------

# To the constant at one end and, to rounding, an interpolation at the other: nothing
# is beyond them. Another C costs little.
_DEFAULT_CS = 10.0 ** np.arange(-5, 10)
_AUTO_GAMMAS = 4.0 ** np.arange(-3, 4)


class LeaveOneOutSearch(LearnedImportances, LSSVMBase):
    """The search that classifier and regressor share.

    Parameters
    ----------
    Cs : array-like of float
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto", array-like of float or None
        Values of gamma to choose from. None: ``gamma`` alone. ``"auto"``: with
        ``kernel="auto"`` as wide and as narrow as rows held out say; else ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable
        ``"auto"``: ``"exponential"``, ``"rbf"`` or, up to 64 columns, ``"laplacian"``,
        chosen by rows held out, many times faster than all pairs by leave-one-out.
        Else as in :class:`LSSVMClassifier`, and C and gamma are those of the best
        leave-one-out score; of more than 1,000 rows, models of few kernel columns
        choose three pairs, of which the best by exact leave-one-out is taken.
        ``"auto"`` does that too below 50 rows.
    gamma : {"scale", "auto", "median"} or float
        As in :class:`LSSVMClassifier`; not used with ``kernel="auto"``.
    learn_metric : "auto" or bool
        Whether columns are scaled, weighed and mixed by a metric learned from ``y``, as
        in :class:`KMeansKernelClassifier`. ``"auto"``: with ``kernel="auto"``.
    solver : {"auto", "cholesky", "cg"}
        Of the last fit, where there are more than ``max_samples`` rows.
    tol : float
        Relative residual at which ``"cg"`` stops.
    max_iter : int
        Most steps of ``"cg"``.
    random_state : int, RandomState or Generator
        Draws the rows on which C is chosen, and what the solver draws.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    gamma_ : float or None
        The gamma that was chosen; None for a kernel without one.
    best_score_ : float
        Leave-one-out score of that choice.
    search_results_ : dict of ndarrays
        What was tried, a row for each pair: ``kernel``, ``gamma``, ``C``, ``score``,
        the larger the better, NaN where Ctrl-C came before, and ``n_columns``, the
        kernel columns of the model that was judged: all rows for an exact one. Where
        rows held out judged, the score is minus their loss, and more columns tell of
        the metric, as in :class:`LearnedMetric`. For
        ``pandas.DataFrame(model.search_results_)``.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed. In a learned
        metric, that of rows which ``kernel_.row_map`` maps.
    solver_ : str
        ``"eigh"``, ``"cholesky"``, or the solver of the last fit.
    n_iter_ : int
        Its steps.
    """

    _parameters: ClassVar = {
        "Cs": SEQUENCE | NONE,
        "gammas": one_of("auto") | SEQUENCE | NONE,
        "learn_metric": LEARN_METRIC,
        # One row left out must leave one.
        "max_samples": count(least=2) | NONE,
    }

    _kernel_words = ("precomputed", "auto")

    @property
    def _is_open(self) -> bool:
        """Whether kernel and width are searched by rows held out, with a metric."""
        return self.learn_metric is True or is_auto(self.kernel)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        given = self.gammas is not None and not isinstance(self.gammas, str)
        if is_auto(self.kernel) and not isinstance(self.gammas, str):
            raise ValueError(
                f"gammas={self.gammas!r} are widths of one kernel; kernel='auto' "
                "chooses among several. Use gammas='auto', or name a kernel."
            )
        if is_auto(self.kernel):
            return
        if self.learn_metric is True and given:
            raise ValueError(
                f"gammas={self.gammas!r} are widths for the distances of X; "
                "learn_metric=True changes these. Use gammas='auto', or None and gamma."
            )
        if self.learn_metric is True and self._precomputed:
            raise ValueError(
                "learn_metric=True needs rows; kernel='precomputed' has none. Use "
                "learn_metric=False."
            )
        if given and not self._has_gamma:  # "auto" is for kernels that have one
            raise ValueError(
                f"gammas={self.gammas!r} needs a named kernel that has a gamma, one of "
                f"{kernels_with_gamma()}; kernel={self.kernel!r}. Use gammas=None."
            )

    @property
    def _has_gamma(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in kernels_with_gamma()

    def _grid_of_C(self) -> np.ndarray:
        return _DEFAULT_CS if self.Cs is None else np.ravel(self.Cs).astype(float)

    def _gammas(self, X, sample_weight) -> list:
        """Return the gammas to try, as numbers."""
        if self.gammas is None or not self._has_gamma:
            return [self.gamma]
        if isinstance(self.gammas, str) and self.gammas == "auto":
            weight = as_like(sample_weight, X)
            middle = resolve_gamma(self.gamma, X, weight, self.kernel)
            return [float(g) for g in middle * _AUTO_GAMMAS]
        return np.ravel(self.gammas).astype(float).tolist()

    def _kernels(self, X, weight) -> list:
        """Return the kernels to try on all rows."""
        if not is_auto(self.kernel):
            gammas = self._gammas(X, weight)
            return [self._resolve_kernel(X, weight, gamma) for gamma in gammas]
        return [
            resolve_kernel(name, gamma=float(factor) * median_gamma(X, kernel=name))
            for name in AUTO_KERNELS
            for factor in _AUTO_GAMMAS
        ]

    def _search(self, X, Y, Cs, score, sample_weight) -> LOOSearch:
        """Try every gamma and C, and store what was found."""
        kernels = self._kernels(X, sample_weight)
        warn_of_one_column(X, self.kernel, getattr(self, "feature_names_in_", None))
        pairs = [self._kernel_and_rows(kernel, X) for kernel in kernels]
        rows = pairs[0][1]
        try:
            # Not in tf32: the eigenvalues of K decide, down to 1/C.
            search = search_by_leave_one_out(
                [kernel for kernel, _ in pairs],
                rows,
                as_like(Y, rows),
                Cs,
                score,
                sample_weight=as_like(sample_weight, rows),
                memory_budget=self.memory_budget,
                callback=share_reporter(self.verbose, "pair of gamma and C"),
            )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, max(Cs)) from error
        self.kernel_ = kernels[search.best_kernel]
        self.C_ = search.best_C
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.search_results_ = {
            **search_table(kernels, Cs, search.scores),
            "n_columns": search.n_columns.ravel(),
        }
        self.best_score_ = search.best_score
        self._n_searched = rows.shape[0]
        if self.Cs is not None:
            warn_at_edge("Cs", Cs, search.scores.max(axis=0))
        if self._has_gamma and len(kernels) > 1:
            gammas = [kernel.gamma for kernel in kernels]
            warn_at_edge("gammas", gammas, search.scores.max(axis=1))
        return search

    def explain(self):
        """Say in words what the last fit has chosen, among what, and by what.

        Returns
        -------
        str
        """
        check_is_fitted(self, "search_results_")
        table = self.search_results_
        if "n_steps" in table:
            return self._explain_metric()
        width = "" if self.gamma_ is None else f" and gamma={self.gamma_:.4g}"
        n_widths = len(np.unique(table["gamma"]))
        widths = f" and {n_widths} gammas" if n_widths > 1 else ""
        return (
            f"C={self.C_:g}{width} of {len(np.unique(table['C']))} Cs{widths}, by "
            f"{self.scoring} of {self._n_searched} rows left out one by one "
            f"({self.best_score_:.4g}). solver={self.solver_!r}."
        )

    def _explain_metric(self) -> str:
        how = "in a learned metric" if self._has_metric else "of rows as they are"
        n_tried = len(self.search_results_["score"])
        width = "" if self.gamma_ is None else f" and gamma={self.gamma_:.4g}"
        return (
            f"kernel={self.kernel_.name!r} {how}, C={self.C_:g}{width} of {n_tried} "
            f"pairs, by rows held out; {self.scoring} of {self._n_searched} rows left "
            f"out one by one is {self.best_score_:.4g}. solver={self.solver_!r}."
        )

    def _search_openly(self, X, problem: Problem, data, losses, score):
        """Choose a metric with kernel, width and C by rows held out, and fit all rows.

        Returns
        -------
        solution, loo_rows
            Its leave-one-out values are of these rows.
        """
        options = metric_options(
            X,
            self.kernel,
            self.gamma if self.gammas is None else "tune",
            None if self.Cs is None else self._grid_of_C(),
            degree=self.degree,
            coef0=self.coef0,
        )._replace(losses=losses)
        if self.learn_metric is False:
            warn_of_one_column(X, self.kernel, getattr(self, "feature_names_in_", None))
            options = options._replace(max_steps=0, scales=("given",))
        if self.max_samples is not None:
            options = options._replace(max_samples=self.max_samples)
        found = search_metric(
            problem,
            options,
            generator_from(self.random_state),
            callback=share_reporter(self.verbose, "stage"),
            memory_budget=self.memory_budget,
        )
        self.C_, self.gamma_ = found.C, getattr(found.kernel, "gamma", None)
        self.search_results_ = found.results
        kernel = MappedKernel(found.kernel, found.row_map)
        if self.learn_metric is False:
            kernel = found.kernel
        fitted = self._fit_core(X, C=self.C_, kernel=kernel, leave_one_out=True, **data)
        values, rows = fitted.solution.loo_decision, fitted.loo_rows
        self._n_searched = len(rows)
        self.best_score_ = float(score(to_numpy(values), rows).value)
        return fitted.solution, rows

    def _search_and_fit(self, X, data, Cs, score, rows, *, leave_one_out: bool):
        """Search on ``rows`` (None: all), and fit all.

        Returns
        -------
        solution, loo_rows
            Its leave-one-out values are of these rows.
        """

        def score_part(values):
            return score(values, rows)

        if rows is None:
            solution = self._search(X, Cs=Cs, score=score_part, **data).solution
            self._report(solution.info, self.C_)
            return solution, np.arange(X.shape[0])
        part = {name: picked(values, rows) for name, values in data.items()}
        some = take_rows(X, rows)
        if self._precomputed:
            some = take_rows(some.T, rows).T
        self._search(some, Cs=Cs, score=score_part, **part)
        fitted = self._fit_core(
            X, C=self.C_, kernel=self.kernel_, leave_one_out=leave_one_out, **data
        )
        return fitted.solution, fitted.loo_rows

    def _rows_for_search(self, n_samples: int, groups=None) -> np.ndarray | None:
        """Return some rows, of every group, or None for all of them."""
        if self.max_samples is None or n_samples <= self.max_samples:
            return None
        order = generator_from(self.random_state).permutation(n_samples)
        if groups is None:
            return np.sort(order[: self.max_samples])
        # As many of each class as its share, but at least two.
        share = self.max_samples / n_samples
        members = [order[groups[order] == g] for g in np.unique(groups)]
        chosen = [m[: max(2, round(share * len(m)))] for m in members]
        return np.sort(np.concatenate(chosen))


def picked(values, rows):
    """Return the values of some rows; None stands for no values, or all rows."""
    return values if values is None or rows is None else values[rows]


# ----------------------------------------------------------------------------------
# The least-squares support vector classifier.
# ----------------------------------------------------------------------------------


class LSSVMClassifier(SetPredictions, BlockwiseFit, LSSVMBase):
    """Least-squares support vector classifier.

    Fits f_j(x) = Σᵢ a_ij k(x, xᵢ) + b_j to targets ±1, one column for each class, by
    solving one linear system for all of them:

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ A ] = [ Y ]

    The class is the one of largest f_j. Unlike :class:`~sklearn.svm.SVC` every training
    row takes part in the model, and probabilities are there without another fit.

    Parameters
    ----------
    random_state : int, RandomState or Generator, default=None
        Draws the rows on which the temperature is fitted, where there are more than
        2,000, the preconditioner of ``"cg"`` and the blocks of rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.

    See Also
    --------
    LSSVMClassifierCV : The same with C, and gamma if asked, chosen by leave-one-out.
    LSSVMRegressor : The same for numbers.

    References
    ----------
    J. A. K. Suykens, J. Vandewalle, "Least squares support vector machine classifiers",
    Neural Processing Letters 9, 293 (1999).

    M. Andrecut, "Randomized kernel methods for least-squares support vector machines"
    (2016), Sec. 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifier(C=10).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        class_weight=None,
        probability="softmax",
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        block_size=None,
        n_runs=1,
        warm_start=False,
        callback=None,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.probability = probability
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.block_size = block_size
        self.n_runs = n_runs
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. A factor of
            all weights is one of C; a weight of 0 leaves the row out.
        X_val : array-like or CSR matrix of shape (n_val, n_features), default=None
            Rows that are not fitted, whose error goes into ``history_`` after each
            step of an iterative solver. With ``kernel="precomputed"``: k(X_val, X).
        y_val : array-like, default=None
            Their targets.

        Returns
        -------
        self : LSSVMClassifier
        """
        self._check_parameters()
        C = float(self.C)
        X, indices = self._validate_labels(X, y)
        weight = weights_with_classes(
            check_weights(sample_weight, X), self.class_weight, self.classes_, indices
        )
        Y = one_vs_rest_targets(indices, len(self.classes_))
        unseen = validation_pair(self, X_val, y_val, self._validation_error)
        with self._keeping_iterate():
            fitted = self._fit_core(
                X,
                Y,
                C,
                weight,
                leave_one_out=self.probability == "softmax",
                options=self._block_options(X, Y, unseen),
            )
        self._store(X, fitted.solution)
        self._remember_fit(X, indices, C, weight)
        self._keep_history(fitted)
        if self.probability == "softmax":
            rows = fitted.loo_rows
            self._calibrate(
                fitted.solution.loo_decision,
                indices[rows],
                None if weight is None else weight[rows],
            )
        return self

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        n_classes = 10 if y is None else len(np.unique(on_host(y)))
        n_targets = 1 if n_classes == 2 else n_classes
        return (1 + n_targets) * (2 if self.probability == "softmax" else 1)

    def _validation_error(self, y_val):
        """Return what turns decision values into a share of wrong classes."""
        y_val = np.asarray(y_val)

        def error(decision) -> float:
            values = all_classes(to_numpy(decision))
            return float(np.mean(self.classes_[np.argmax(values, axis=1)] != y_val))

        return error


# ----------------------------------------------------------------------------------
# The least-squares support vector regressor.
# ----------------------------------------------------------------------------------


class LSSVMRegressor(IntervalPredictions, BlockwiseFit, LSSVMBase):
    """Least-squares support vector regressor: kernel ridge with an intercept.

    Fits f(x) = Σᵢ aᵢ k(x, xᵢ) + b by solving

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ a ] = [ y ]

    for all outputs at once. The intercept is not penalised, so that a constant added to
    ``y`` is added to the predictions and changes nothing else.

    Parameters
    ----------
    random_state : int, RandomState or Generator, default=None
        Draws the preconditioner of ``"cg"`` and the blocks of rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.

    See Also
    --------
    LSSVMRegressorCV : The same with C, and gamma if asked, chosen by leave-one-out.
    sklearn.kernel_ridge.KernelRidge : The same without an intercept.

    References
    ----------
    J. A. K. Suykens et al., "Least Squares Support Vector Machines", World Scientific
    (2002).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = LSSVMRegressor(C=100, gamma=1.0).fit(X, np.sin(X[:, 0]) + 10)
    >>> model.predict([[1.5]]).round(2)
    array([11.])
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        block_size=None,
        n_runs=1,
        warm_start=False,
        callback=None,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.block_size = block_size
        self.n_runs = n_runs
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. A factor of
            all weights is one of C; a weight of 0 leaves the row out.
        X_val : array-like or CSR matrix of shape (n_val, n_features), default=None
            Rows that are not fitted, whose error goes into ``history_`` after each
            step of an iterative solver. With ``kernel="precomputed"``: k(X_val, X).
        y_val : array-like, default=None
            Their targets.

        Returns
        -------
        self : LSSVMRegressor
        """
        self._check_parameters()
        C = float(self.C)
        X, Y = self._validate_outputs(X, y)
        weight = check_weights(sample_weight, X)
        unit = TargetUnit.of(Y, weight)
        make_error = functools.partial(self._validation_error, unit=unit)
        unseen = validation_pair(self, X_val, y_val, make_error)
        Z = unit.standard(Y)
        options = self._block_options(X, Z, unseen, unit)
        with self._keeping_iterate(unit):
            fitted = self._fit_core(
                X, Z, C, weight, leave_one_out=False, options=options
            )
        self._store(X, unit.restored(fitted.solution))
        self._remember_fit(X, Z, C, weight, unit)
        self._keep_history(fitted)
        return self

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        return 2 if y is None else 1 + int(np.prod(np.shape(on_host(y))[1:]))

    def _validation_error(self, y_val, unit: TargetUnit):
        """Return a function that gives the root mean squared error of predictions.

        These are in the unit of the fit, the error is in that of ``y``.
        """
        targets = unit.standard(numeric_targets(np.asarray(y_val)))

        def error(predictions) -> float:
            errors = (to_numpy(predictions) - targets) * unit.scale
            return float(np.sqrt(np.mean(errors**2)))

        return error


# ----------------------------------------------------------------------------------
# Least-squares SVMs that choose their kernel, width and C by themselves.
# ----------------------------------------------------------------------------------

CLASSIFIER_SCORES = ("accuracy", "neg_log_loss", "neg_mean_squared_error")
REGRESSOR_SCORES = ("neg_mean_squared_error", "neg_mean_absolute_error")
# Of the targets: rows are not clustered here.
_BINS = 1


class LSSVMClassifierCV(SetPredictions, LeaveOneOutSearch):
    """Least-squares support vector classifier that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, the decision value of each row by the model fitted without that row
    is in closed form too: up to 1,000 rows for every C and width, from one
    eigendecomposition for each width; of more rows for the three pairs that models of
    few kernel columns find best, from one factorisation each.

    Parameters
    ----------
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"}, \
default="accuracy"
        What leave-one-out decision values are judged by, with the weights of rows and
        classes; equal accuracies are decided by the mean squared error.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, by
        class, and the model is then fitted on all rows. None: always all rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.

    See Also
    --------
    LSSVMClassifier : The same with a given C.

    References
    ----------
    G. C. Cawley, "Leave-one-out cross-validation based model selection criteria for
    weighted LS-SVMs", IJCNN (2006).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kaucus import LSSVMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVMClassifierCV(kernel="rbf").fit(X, y)
    >>> round(model.best_score_, 2)
    0.98
    >>> len(model.search_results_["score"])  # 7 gammas, 15 Cs
    105
    """

    _parameters: ClassVar = {"scoring": one_of(*CLASSIFIER_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas="auto",
        kernel="auto",
        gamma="scale",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        class_weight=None,
        scoring="accuracy",
        max_samples=5000,
        probability="softmax",
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.scoring = scoring
        self.max_samples = max_samples
        self.probability = probability
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose C, and gamma if asked, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. Only ratios
            count, as C is chosen for weights of mean 1; a weight of 0 leaves the row
            out.

        Returns
        -------
        self : LSSVMClassifierCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, indices = self._validate_labels(X, y)
        rows_weight = relative_weights(check_weights(sample_weight, X))
        weight = weights_with_classes(
            rows_weight, self.class_weight, self.classes_, indices
        )
        Y = one_vs_rest_targets(indices, len(self.classes_))
        data = {"Y": Y, "sample_weight": weight}

        def score(loo_decision, rows):
            labels, judged = picked(indices, rows), picked(weight, rows)
            values = all_classes(loo_decision)
            return classification_score(values, labels, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            targets = ClassTargets(indices, len(self.classes_), lambda w, labels: w)
            problem = Problem(self._placed(X), targets, rows_weight, weight)
            losses = functools.partial(_class_losses, targets, weight, self.scoring)
            solution, loo_rows = self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0], indices)
            wanted = self.probability == "softmax"
            solution, loo_rows = self._search_and_fit(
                X, data, Cs, score, rows, leave_one_out=wanted
            )
        self._store(X, solution)
        self._remember_fit(X, indices, self.C_, weight)
        if self.probability == "softmax":
            labels, judged = indices[loo_rows], picked(weight, loo_rows)
            self._calibrate(solution.loo_decision, labels, judged)
        return self


def _class_losses(targets: ClassTargets, weight, scoring: str, values, rows):
    """Return the loss of each row and model by a score of classes, (r, c).

    Of equal accuracies the one with less log-loss is better: it is added, tenfold less.
    """
    log_losses = targets.losses(values, weight, rows)
    if scoring == "neg_log_loss":
        return log_losses
    labels = targets.values[rows]
    right = one_vs_rest_targets(labels, targets.n_classes)[:, None, :]
    if scoring == "neg_mean_squared_error":
        return np.mean((values - right) ** 2, axis=2)
    one = values.shape[2] == 1
    guesses = values[:, :, 0] > 0 if one else np.argmax(values, axis=2)
    return (guesses != labels[:, None]) + 0.1 * log_losses


class LSSVMRegressorCV(IntervalPredictions, LeaveOneOutSearch):
    """Least-squares support vector regressor that chooses C by leave-one-out.

    By default, kernel, width, C and a metric of the columns are chosen by rows held
    out; the leave-one-out score of the model of all rows is then in closed form. For a
    named kernel, the prediction for each row by the model fitted without that row is
    in closed form too: up to 1,000 rows for every C and width, from one
    eigendecomposition for each width; of more rows for the three pairs that models of
    few kernel columns find best, from one factorisation each.

    Parameters
    ----------
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error"}, \
default="neg_mean_squared_error"
        What leave-one-out predictions are judged by, averaged over the outputs.
    max_samples : int or None, default=5000
        With more rows than this, C and gamma are chosen on a random part of them, and
        the model is then fitted on all rows. None: always all rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.

    See Also
    --------
    LSSVMRegressor : The same with a given C.

    References
    ----------
    G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines", Neural Networks 17, 1467 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import LSSVMRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 6, 80)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    >>> model = LSSVMRegressorCV(random_state=0).fit(X, y)
    >>> round((-model.best_score_) ** 0.5, 2)
    0.1
    """

    _parameters: ClassVar = {"scoring": one_of(*REGRESSOR_SCORES)}

    def __init__(
        self,
        Cs=None,
        *,
        gammas="auto",
        kernel="auto",
        gamma="scale",
        learn_metric="auto",
        degree=3,
        coef0=0.0,
        scoring="neg_mean_squared_error",
        max_samples=5000,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        device=None,
        precision=None,
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.kernel = kernel
        self.gamma = gamma
        self.learn_metric = learn_metric
        self.degree = degree
        self.coef0 = coef0
        self.scoring = scoring
        self.max_samples = max_samples
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose C, and gamma if asked, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. Only ratios
            count, as C is chosen for weights of mean 1; a weight of 0 leaves the row
            out.

        Returns
        -------
        self : LSSVMRegressorCV
        """
        self._check_parameters()
        Cs = self._grid_of_C()
        X, Y = self._validate_outputs(X, y)
        weight = relative_weights(check_weights(sample_weight, X))
        targets = NumberTargets.of(Y, _BINS, weight)
        Z, unit = targets.columns(), targets.unit
        data = {"Y": Z, "sample_weight": weight}

        def score(loo_decision, rows):  # in the unit of y, but for its offset
            values, judged = loo_decision * unit.scale, picked(weight, rows)
            right = picked(Z, rows) * unit.scale
            return regression_score(values, right, self.scoring, judged)

        if self._is_open and enough_rows(X.shape[0], weight):
            problem = Problem(self._placed(X), targets, weight, weight)
            losses = functools.partial(_number_losses, targets, weight, self.scoring)
            solution, _ = self._search_openly(X, problem, data, losses, score)
        else:
            rows = self._rows_for_search(X.shape[0])
            solution, _ = self._search_and_fit(
                X, data, Cs, score, rows, leave_one_out=False
            )
        self._store(X, unit.restored(solution))
        self._remember_fit(X, Z, self.C_, weight, unit)
        return self


def _number_losses(targets: NumberTargets, weight, scoring: str, values, rows):
    """Return the loss of each row and model by a score of numbers, (r, c)."""
    if scoring == "neg_mean_squared_error":
        return targets.losses(values, weight, rows)
    Y = targets.scaled(weight)
    return np.mean(np.abs(values - Y[rows][:, None, :]), axis=2)
