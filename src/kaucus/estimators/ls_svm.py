"""Least-squares support vector machines on all rows."""

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.rows import budget_without_buffers
from kaucus.estimators._predict import IntervalPredictions, SetPredictions
from kaucus.fitting._problem import (
    UNSEEN_ROWS,
    ClassTargets,
    NumberTargets,
    Problem,
    TargetUnit,
    all_classes,
    of_rows,
    one_vs_rest_targets,
    output_spread,
)
from kaucus.fitting._search import (
    AUTO_KERNELS,
    enough_rows,
    metric_options,
    search_by_leave_one_out,
    search_metric,
    search_table,
    told_choice,
    warn_at_edge,
)
from kaucus.kernels._kernel import (
    kernel_class,
    kernel_diagonal,
    kernels_with_gamma,
    median_gamma,
)
from kaucus.kernels._matrix import expansion_gradients, kernel_expansion
from kaucus.kernels._metric import MappedKernel
from kaucus.solvers._auto import FitResult, Plan, fit_ls_svm, plan_ls_svm
from kaucus.solvers._blocks import RANDOMIZED, Start
from kaucus.solvers._columns import RowData
from kaucus.solvers._system import (
    Interrupted,
    LSSVMSolution,
    Score,
    SolveInfo,
    Validation,
    classification_score,
    regression_score,
)

# ----------------------------------------------------------------------------------
# What every LS-SVM estimator shares: rows in, core called, attributes stored.
# ----------------------------------------------------------------------------------

# Types of parameters, for type checkers.
Width = float | Literal["scale", "auto", "median", "tune"] | Sequence[Any]
SolverName = Literal[
    "auto",
    "cholesky",
    "cg",
    "nystrom",
    "kaczmarz",
    "matching_pursuit",
    "kaczmarz_mp",
    "block_descent",
]
# Of every estimator; those with blocks have more.
SOLVERS = ("auto", "cholesky", "cg")


class LSSVMBase(base.KernelInputMixin, base.FollowsX, BaseEstimator):
    """Base of LS-SVMs: kernel, solver and prediction.

    Parameters
    ----------
    precision : {None, "float64", "float32", "tf32"}
        What rows are cast to; None works in their own precision. ``"tf32"`` is float32
        with faster, coarser products on CUDA, where C allows it.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_targets,)
        b.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in the learned metric; absent where none was searched.
    """

    to_onnx = base.to_onnx
    _parameters: ClassVar = {
        "tol": base.POSITIVE,
        "max_iter": base.count(),
        "solver": base.one_of(*SOLVERS),
    }

    def _report(self, info: SolveInfo, C: float) -> None:
        """Store the solver's report, and warn of jitter, fallbacks and early stops."""
        self.solver_, self.n_iter_ = info.solver, max(info.n_iter, 1)
        self.solve_info_ = info
        if info.jitter > 0:
            nx.warn_user(
                f"K + I/C is not positive definite in {info.precision} at C={C:g}; "
                f"{info.jitter:.1e} was added to its diagonal. Lower C to at most "
                f"{1 / info.jitter:.0e}, or take out repeated rows.",
                LinAlgWarning,
            )
        if info.n_fallbacks:
            nx.warn_user(
                f"In {info.n_fallbacks} of {info.n_iter} steps rows of the block "
                "repeated each other, and its pseudo-inverse was found by eigenvalues, "
                "which is slower. Take out repeated rows, or lower C.",
                LinAlgWarning,
            )
        if not info.converged and info.stop != "callback":
            nx.warn_user(
                f"{info.solver} stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e} (tol={self.tol:g}). Increase "
                "max_iter, lower C, or use solver='cholesky'.",
                ConvergenceWarning,
            )

    def __setstate__(self, state):
        """Restore a model of a file, if its arrays have the shapes of each other."""
        super().__setstate__(state)
        if not hasattr(self, "dual_coef_"):
            return
        coef, b = self.dual_coef_, self.intercept_
        rows = coef if self._precomputed else self._support_rows()
        shapes = tuple(coef.shape), tuple(b.shape), tuple(rows.shape)
        known = getattr(self, "classes_", None)
        t = len(b) if known is None else len(known) - (len(known) == 2)
        m, width = len(coef), t if rows is coef else self.n_features_in_
        if shapes != ((m, t), (t,), (m, width)):
            raise ValueError(
                f"its coefficients, intercepts and rows are of shapes {shapes}, which "
                f"do not belong together, or to {t} outputs; save the model again."
            )

    def _support_rows(self):
        """Return the rows whose kernel columns the model is made of."""
        return self.X_fit_

    # ---- importances of columns in a learned metric ----------------------------------

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each column in the learned metric, (n_features,); they sum to 1."""
        kernel = getattr(self, "kernel_", None)
        if not isinstance(kernel, MappedKernel):
            raise AttributeError(
                f"{type(self).__name__} has no feature_importances_: no metric was "
                "learned. Fit with learn_metric=True, or with kernel and gamma left to "
                "be searched."
            )
        return nx.as_like(kernel.row_map.importances(), self._support_rows())

    @property
    def _has_metric(self) -> bool:
        return isinstance(self.kernel_, MappedKernel)

    def _metric_text(self) -> str:
        """Return a sentence on the columns that the learned metric weighs most."""
        if not self._has_metric:
            return ""
        shares = self.kernel_.row_map.importances()
        if np.ptp(shares) < 1e-9:
            return "No metric was better than none: all columns count alike."
        first = np.argsort(-shares, kind="stable")[:3]
        numbered = [f"column {c}" for c in range(len(shares))]
        names = getattr(self, "feature_names_in_", numbered)
        most = ", ".join(f"{names[c]} ({100 * shares[c]:.0f} %)" for c in first)
        return f"Metric: {most} count most."

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t), in the kind of ``X``, and its precision or ``dtype``."""
        check_is_fitted(self, "dual_coef_")
        X = base.validated_new_rows(self, X)
        if self._precomputed:
            values = nx.astype(X, "float64") @ nx.as_like(self.dual_coef_, X)
            values = values + nx.as_like(self.intercept_, X)[None, :]
        else:
            values = self._map_rows(self._values_on_device, X)
        return nx.astype(values, nx.dtype_name(X) if dtype is None else dtype)

    def _values_on_device(self, rows):
        """Return f(x) of checked rows on their device, (n, t), in float64."""
        budget, coef = self.memory_budget, nx.as_like(self.dual_coef_, rows)
        support = base.place_support(self._support_rows(), rows, self.device, budget)
        with nx.products_in(self.precision):
            sums = kernel_expansion(
                self.kernel_, rows, support, coef, memory_budget=budget
            )
        return sums + nx.as_like(self.intercept_, rows)[None, :]

    def _gradients_on_device(self, rows):
        """Return the gradients of f_j at dense rows, (n, t, d), in float64."""
        support, budget = self._support_rows(), self.memory_budget
        return expansion_gradients(
            self.kernel_, rows, support, self.dual_coef_, memory_budget=budget
        )

    @base.rowwise
    def gradient(self, X) -> np.ndarray:
        """Gradient of the model's function f by the columns of X.

        f is the prediction of a regressor and the decision function of a classifier:
        how much it changes, near each row, for a small step along each column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, dense.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_outputs, n_features)
            One gradient for each row, where f is one function: one output, or two
            classes; else one for each output or class.

        Notes
        -----
        In closed form, Σ_q a_q ∇k(x, z_q), through the scale and the metric of columns
        if one was learned; n m d multiplications for m rows z_q and each function.
        ``"exponential"`` and ``"laplacian"`` have kinks at the z_q: the gradient from a
        z_q that equals the row counts as zero. Not for ``"cosine"``, ``"precomputed"``
        and functions k(X, Y), whose derivative is not known.
        """
        check_is_fitted(self, "dual_coef_")
        if self._precomputed:
            raise ValueError(
                "kernel='precomputed' has no columns to derive by; fit rows with a "
                "kernel of theirs, such as kernel='rbf'."
            )
        G = base.gradients_at(self, X)
        return G[:, 0, :] if G.shape[1] == 1 else G


def indefinite_kernel(kernel, C: float) -> ValueError:
    """Return the error for a kernel matrix that is not positive semidefinite."""
    remedy = (
        "Use a positive semidefinite kernel ('rbf', 'exponential', 'matern52', "
        "'cauchy', 'laplacian', 'linear', 'cosine', 'poly' with coef0 of zero or "
        "more), or lower C."
    )
    if isinstance(kernel, str) and kernel == "precomputed":
        remedy = "Shift its eigenvalues, K + λ I, or lower C."
    return ValueError(
        f"K + I/C is indefinite at C={C:g}: kernel={kernel!r} is not positive "
        f"semidefinite on this data. {remedy}"
    )


# ----------------------------------------------------------------------------------
# LS-SVMs of all rows: choose what is left open, solve one system, store.
# ----------------------------------------------------------------------------------

# Values of C to choose from: to the constant at one end and, to rounding, an
# interpolation at the other, nothing is beyond them, and another C costs little.
_CS = 10.0 ** np.arange(-5, 10)
# Widths to choose from, times that of the median distance.
_GAMMA_FACTORS = 4.0 ** np.arange(-3, 4)
# Solvers whose solution is that of the search.
_FACTORED = ("auto", "cholesky")


# Where nothing is left to be chosen.
_NOTHING_TRIED = search_table([], [], np.empty(0))


class LSSVMOfAllRows(base.CallbackSupportMixin, LSSVMBase):
    """Parameters, search and fit that classifier and regressor share.

    Subclasses give ``_loo_score`` and ``_losses``, by which choices are judged.

    Parameters
    ----------
    C : float, "auto" or sequence of float
        Inverse strength of the regularisation, H = K + I/C. The papers' γ or 1/ε.
        ``"auto"`` chooses among 1e-5, 1e-4, ..., 1e9; a sequence is what to choose
        from.
    kernel : str, kernel object, callable or list of these
        A name, an object of :mod:`kaucus.kernels`, or a function ``k(X, Y)``.
        Names: ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"matern32"``,
        ``"matern52"``, ``"rational_quadratic"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``. ``"auto"``
        chooses between ``"exponential"`` and ``"rbf"``, in a learned metric and up to
        64 columns among ``"laplacian"`` too; a list is what to choose from.
    gamma : {"scale", "auto", "median", "tune"}, float or sequence of float
        Width of the kernel: ``"scale"`` is 1 / (n_features X.var()) and ``"auto"``
        1 / n_features, as in scikit-learn; ``"median"`` is from the median distance of
        rows (see :func:`kaucus.kernels.median_gamma`). ``"tune"`` chooses among that
        times 4⁻³, 4⁻², ..., 4³; a sequence is what to choose from.
    learn_metric : "auto" or bool
        Whether columns are scaled and weighed by a metric that is learned from ``y``.
        Kernel, width, C and metric are then chosen by rows held out, as in
        :class:`KMeansKernelClassifier`. ``"auto"``: with ``kernel="auto"`` and
        ``gamma="tune"``.
    max_samples : int or None
        Most rows by which kernel, gamma and C are chosen; None: all rows.
        Of more, a random part is drawn, by class for a classifier. The model is then
        fitted on all rows.
    solver : str
        ``"cholesky"`` factors the kernel matrix; ``"cg"`` needs only products with it;
        ``"block_descent"``, ``"nystrom"``, ``"kaczmarz"``, ``"matching_pursuit"`` and
        ``"kaczmarz_mp"`` take random blocks of its rows. ``"auto"`` chooses by a cost
        model; :meth:`explain` names it before a fit, ``solver_`` after.
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
        Runs of a randomized solver, whose weights are averaged.
        They have different blocks, and run in parallel.
    warm_start : bool
        Whether a fit on the same rows begins with the coefficients of the last one.
        After a fit that Ctrl-C ended, with its best ones. For ``"kaczmarz"``,
        ``"matching_pursuit"``, ``"kaczmarz_mp"`` and ``"block_descent"``; others begin
        anew.
    callback : callable
        ``callback(step, state)`` after each step of an iterative solver; ``state`` has
        ``residual``, ``change``, ``seconds``, ``validation_error``, ``dual_coef`` and
        ``intercept``. A true result ends the fit, and what was learned is kept. From
        scikit-learn 1.9 on ``set_callbacks(...)`` takes its callbacks too, such as
        ``ProgressBar`` and ``ScoringMonitor``.
    memory_budget : int or str
        Bytes, or a string such as ``"4GiB"``; None is three quarters of what is free.
        What does not fit is computed in blocks, again for every product.
    random_state : int, RandomState or Generator
        Seed of rows that are drawn. They are those by which choices are made, those
        that fit the temperature of probabilities where there are more than 2,000, the
        preconditioner of ``"cg"`` and the blocks of randomized solvers.
    verbose : int
        1 prints the solver that was chosen and shows progress on a terminal.

    Attributes
    ----------
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed. In a learned
        metric, that of rows which ``kernel_.row_map`` maps.
    C_ : float
        The C that was used.
    gamma_ : float or None
        The gamma that was used; None for a kernel without one.
    best_score_ : float
        Leave-one-out score of the choice; NaN where nothing was chosen.
    search_results_ : dict of ndarrays
        What was tried, a row for each pair, none where all were given: ``kernel``,
        ``gamma``, ``C``, ``score``, the larger the better, ``n_columns``, the kernel
        columns of the model that was judged: all rows for an exact one, and ``chosen``,
        true in the row of the model. Where rows held out judged, the score is minus
        their loss, and more columns describe the metric, as in :class:`LearnedMetric`.
        For
        ``pandas.DataFrame(model.search_results_)``.
    solver_ : str
        The solver that ran; ``"eigh"``, one eigendecomposition for every C.
    n_iter_ : int
        Its steps; 1 for a factorisation without refinement.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution, and why an iteration ended.
    history_ : dict of list
        Of an iterative solver, a value for each step: ``"run"``, ``"step"``,
        ``"seconds"``, ``"residual"``, ``"change"`` and ``"validation_error"``; empty
        for a factorisation.
    """

    _kernel_words = ("precomputed", "auto")
    _calibrates = False
    _parameters: ClassVar = {
        "C": (base.POSITIVE | base.one_of("auto") | base.SEQUENCE).advise(
            "Try 1.0, larger fits closer, or 'auto'."
        ),
        "gamma": base.POSITIVE
        | base.one_of("scale", "auto", "median", "tune")
        | base.SEQUENCE,
        "learn_metric": base.LEARN_METRIC,
        # One row left out must leave one.
        "max_samples": base.count(least=2) | base.NONE,
        "solver": base.one_of(*SOLVERS, *RANDOMIZED),
        "block_size": base.count() | base.NONE,
        "n_runs": base.count(),
        "warm_start": base.BOOLEAN,
        "callback": base.Constraint(callable, "a function of step and state")
        | base.NONE,
    }

    def _check_combinations(self) -> None:
        if not self._named_kernels:
            raise ValueError(
                f"kernel={self.kernel!r} must be at least one kernel; name some, or "
                "use 'auto'."
            )
        for kernel in self._named_kernels:
            if isinstance(kernel, str) and kernel not in self._kernel_words:
                kernel_class(kernel, also=self._kernel_words)
        given = _are_several(self.gamma)
        if given and not any(_has_gamma(name) for name in self._named_kernels):
            raise ValueError(
                f"gamma={self.gamma!r} needs a named kernel that has a gamma, one of "
                f"{kernels_with_gamma()}; kernel={self.kernel!r}. Use gamma='scale'."
            )
        if self.learn_metric is not True:
            return
        if given:
            raise ValueError(
                f"gamma={self.gamma!r} are widths for the distances of X; "
                "learn_metric=True changes these. Use gamma='tune', or one number."
            )
        if self._precomputed or isinstance(self.kernel, list):
            raise ValueError(
                "learn_metric=True needs rows and one kernel or 'auto'; got kernel="
                f"{self.kernel!r}. Name one kernel, or use learn_metric=False."
            )

    # ---- what is chosen --------------------------------------------------------------

    @property
    def _chooses_C(self) -> bool:
        return base.is_auto(self.C) or _are_several(self.C)

    @property
    def _chooses(self) -> bool:
        """Whether kernel, width, C or metric is to be chosen."""
        kernels = base.is_auto(self.kernel) or isinstance(self.kernel, list)
        widths = _are_several(self.gamma) or self.gamma == "tune"
        return self._chooses_C or kernels or widths or self.learn_metric is True

    @property
    def _learns_metric(self) -> bool:
        """Whether kernel, width and C are chosen together with a metric."""
        return base.learns_metric(self.learn_metric, self.kernel, self.gamma)

    @property
    def _named_kernels(self) -> list:
        """The kernels to choose from, as given by the user."""
        if base.is_auto(self.kernel):
            return list(AUTO_KERNELS)
        return self.kernel if isinstance(self.kernel, list) else [self.kernel]

    def _Cs(self) -> np.ndarray:
        return _CS if base.is_auto(self.C) else np.ravel(self.C).astype(float)

    def _gammas(self, X, weight, kernel) -> list:
        """Return the gammas of a kernel to choose from."""
        if not _has_gamma(kernel):
            return ["scale" if isinstance(self.gamma, str) else self.gamma]
        if isinstance(self.gamma, str) and self.gamma == "tune":
            middle = median_gamma(X, nx.as_like(weight, X), kernel)
            return [float(factor * middle) for factor in _GAMMA_FACTORS]
        if isinstance(self.gamma, str):
            return [self.gamma]
        return np.ravel(self.gamma).astype(float).tolist()

    def _choose(self, X, problem: Problem) -> tuple:
        """Return kernel, C, and the search's solution of all rows (or None).

        As given, by leave-one-out, or together with a metric by rows held out.
        """
        weight = problem.fit_weight
        if self._learns_metric and enough_rows(X.shape[0], weight):
            return self._choose_with_metric(X, problem)
        self._warn_of_one_column(X)
        self.search_results_ = dict(_NOTHING_TRIED)
        self.best_score_ = math.nan
        if self._chooses:
            return self._choose_by_leave_one_out(X, problem)
        return self._resolve_kernel(X, weight), float(self.C), None

    def _choose_by_leave_one_out(self, X, problem: Problem) -> tuple:
        """Search kernel, gamma and C by leave-one-out, on all rows or a sample."""
        numbers = self._rows_for_search(problem)
        some, part = X, problem
        if numbers is not None:
            some, part = nx.take_rows(X, numbers), problem.part(numbers)
            some = nx.take_rows(some.T, numbers).T if self._precomputed else some
        Cs, weight = self._Cs(), part.fit_weight
        kernels = [
            self._resolve_kernel(some, weight, gamma, kernel)
            for kernel in self._named_kernels
            for gamma in self._gammas(some, weight, kernel)
        ]
        pairs = [self._kernel_and_rows(kernel, some) for kernel in kernels]
        rows = pairs[0][1]
        try:
            # Not in tf32: the eigenvalues of K decide, down to 1/C.
            search = search_by_leave_one_out(
                [kernel for kernel, _ in pairs],
                rows,
                nx.as_like(part.targets.columns(), rows),
                Cs,
                lambda values: self._loo_score(part, values, slice(None)),
                sample_weight=nx.as_like(weight, rows),
                memory_budget=self.memory_budget,
                callback=base.share_reporter(self.verbose, "pair of gamma and C"),
            )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, max(Cs)) from error
        chosen = np.zeros(search.scores.shape, dtype=bool)
        chosen[search.best_kernel] = Cs == search.best_C
        self.search_results_ = {
            **search_table(kernels, Cs, search.scores),
            "n_columns": search.n_columns.ravel(),
            "chosen": chosen.ravel(),
        }
        self.best_score_, self._n_searched = search.best_score, rows.shape[0]
        # Where a choice is at an end of the values given.
        if not base.is_auto(self.C):
            warn_at_edge("C", Cs, search.scores.max(axis=0))
        if len(self._named_kernels) == 1 and len(kernels) > 1:
            gammas = [kernel.gamma for kernel in kernels]
            warn_at_edge("gamma", gammas, search.scores.max(axis=1))
        whole = numbers is None and self.solver in _FACTORED
        solution = search.solution if whole else None
        return kernels[search.best_kernel], search.best_C, solution

    def _choose_with_metric(self, X, problem: Problem) -> tuple:
        """Choose a metric together with kernel, width and C by rows held out."""
        Cs, params = None, {"degree": self.degree, "coef0": self.coef0}
        if not base.is_auto(self.C):
            Cs = self._Cs()
        options = metric_options(X, self.kernel, self.gamma, Cs, **params)
        options = replace(options, losses=functools.partial(self._losses, problem))
        if self.max_samples is not None:
            options = replace(options, max_samples=self.max_samples)
        found = search_metric(
            replace(problem, rows=self._placed(X)),
            options,
            base.generator_from(self.random_state),
            callback=base.share_reporter(self.verbose, "stage"),
            memory_budget=self.memory_budget,
        )
        self.search_results_ = found.results
        return MappedKernel(found.kernel, found.row_map), found.C, None

    def _rows_for_search(self, problem: Problem) -> np.ndarray | None:
        """Return some rows, of every class, or None for all of them."""
        n = problem.n
        if self.max_samples is None or n <= self.max_samples:
            return None
        order = base.generator_from(self.random_state).permutation(n)
        groups = problem.targets.groups()
        # As many of each class as its share, but at least two.
        share = self.max_samples / n
        members = [order[groups[order] == g] for g in np.unique(groups)]
        least = 2 if len(members) > 1 else 0
        chosen = [m[: max(least, round(share * len(m)))] for m in members]
        return np.sort(np.concatenate(chosen))

    # ---- the fit ---------------------------------------------------------------------

    def _fit_weight(self, sample_weight, X) -> np.ndarray | None:
        """Return the weights of rows: relative to their mean where C is chosen."""
        weight = base.check_weights(sample_weight, X)
        return base.relative_weights(weight) if self._chooses_C else weight

    @property
    def _learner(self):
        """The method that fits: one that tells scikit-learn's callbacks, if any."""
        return self._learn_told if base.has_callbacks(self) else self._learn

    @base.with_callbacks
    def _learn_told(self, X, problem: Problem, unseen) -> FitResult:
        targets, weight = problem.targets, problem.weight
        if isinstance(targets, ClassTargets):
            y = self.classes_[targets.values]
        else:
            y = targets.unit.values(targets.values)
            y = y[:, 0] if self._single_output else y
        metadata = None if weight is None else {"sample_weight": weight}
        monitor = base.FitMonitor(self, X=X, y=y, metadata=metadata)
        fitted = self._learn(X, problem, unseen, monitor)
        monitor.end()
        return fitted

    def _learn(
        self, X, problem: Problem, unseen: Validation | None, monitor=None
    ) -> FitResult:
        """Search the open parameters, fit all rows, store the model."""
        targets, unit = problem.targets, problem.targets.unit
        options = {"start": self._start(targets), "validation": unseen}
        kernel, C, solution = self._choose(X, problem)
        held_out = self._learns_metric and len(self.search_results_["score"]) > 0
        if solution is None:
            wanted = self._calibrates or held_out
            options["leave_one_out"] = UNSEEN_ROWS if wanted else 0
            fitted = self._solve(X, problem, kernel, C, options, monitor)
        else:
            plan = Plan("eigh", "float64", "float64", _OF_THE_SEARCH)
            fitted = FitResult(solution, np.arange(problem.n), plan, {})
            self._report(solution.info, C)
        self.kernel_, self.C_ = kernel, C
        self.gamma_ = getattr(kernel, "gamma", None)
        values, rows = fitted.solution.loo_decision, fitted.loo_rows
        if held_out and values is not None:
            self._n_searched = len(rows)
            judged = self._loo_score(problem, nx.to_numpy(values), rows)
            self.best_score_ = float(judged.value)
        self.history_, self._reason = fitted.history, fitted.plan.reason
        self._store(X, unit.restored(fitted.solution))
        self._remember_fit(X, targets.values, C, problem.fit_weight, unit)
        return fitted

    def _solve(self, X, problem: Problem, kernel, C, options, monitor) -> FitResult:
        """Solve on the device, and report; warm_start keeps the iterate at Ctrl-C."""
        named, unit, callback = kernel, problem.targets.unit, self.callback
        kernel, rows = self._kernel_and_rows(kernel, X)
        given = problem.targets.columns(), problem.fit_weight
        Y, weight = (nx.as_like(part, rows) for part in given)

        def watch(step, state):  # coefficients are shown in the unit of y
            state = unit.restored(state)
            stop = callback is not None and callback(step, state)
            made = functools.partial(self._made, X, state, named)
            return (monitor is not None and monitor.end_step(made)) or stop

        watched = callback is not None or monitor is not None
        if monitor is not None:
            monitor.begin()

        try:
            with nx.products_in(self.precision):
                fitted = fit_ls_svm(
                    RowData(kernel, rows, Y, weight),
                    C=C,
                    solver=self.solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    memory_budget=self.memory_budget,
                    rng=base.generator_from(self.random_state),
                    callback=base.step_reporter(self.verbose, self.tol, self.max_iter),
                    block_size=self.block_size,
                    n_runs=self.n_runs,
                    watch=watch if watched else None,
                    **options,
                )
        except Interrupted as stop:
            if self.warm_start and stop.best is not None:
                best = unit.restored(stop.best)
                kept = Start(nx.to_numpy(best.dual_coef), nx.to_numpy(best.intercept))
                stop.kept = {"_iterate": kept}
            raise
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, C) from error
        if self.verbose:
            print(f"[kaucus] {fitted.plan.reason}", file=sys.stderr)
        self._report(fitted.solution.info, C)
        return fitted

    def _made(self, X, state, kernel) -> dict:
        """Return the attributes of the model that a step has made."""
        rows = {} if self._precomputed else {"X_fit_": X}
        parts = {"dual_coef_": state.dual_coef, "intercept_": state.intercept}
        parts = {name: nx.as_like(part, X) for name, part in parts.items()}
        return rows | parts | {"kernel_": kernel, "temperature_": 1.0}

    def _store(self, X, solution: LSSVMSolution) -> None:
        base.check_coefficients(solution.dual_coef, self.kernel)
        vars(self).pop("_iterate", None)
        self.dual_coef_ = nx.as_like(solution.dual_coef, X)
        self.intercept_ = nx.as_like(solution.intercept, X)
        if not self._precomputed:
            self.X_fit_ = nx.owned(X)

    def _start(self, targets) -> Start | None:
        """Return the coefficients of the last fit, if used, in the unit of the fit."""
        start, shape = vars(self).get("_iterate"), targets.columns().shape
        if start is None and hasattr(self, "dual_coef_"):
            start = Start(self.dual_coef_, self.intercept_)
        if not self.warm_start or start is None:
            return None
        if start.dual_coef.shape != shape:
            raise ValueError(
                f"warm_start=True, but the last fit had coefficients of shape "
                f"{start.dual_coef.shape} and this one needs {shape}: one for each "
                "row and column of targets. Fit the same rows, or set "
                "warm_start=False."
            )
        return targets.unit.standardised(start)

    # ---- explanations ----------------------------------------------------------------

    def explain(self, X=None, y=None) -> str:
        """Return a description of the chosen parameters and of the solver.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Rows that would be fitted: names the solver for them, without a fit. None
            describes the last fit.
        y : array-like, default=None
            Their targets; None counts as 10 classes or 1 output.
            The number of classes or outputs is a part of the cost.

        Returns
        -------
        str
        """
        if X is None:
            check_is_fitted(self, "dual_coef_")
            ran = {"solver": _what_ran(self.solve_info_, self._reason)}
            return self._told(self._choice_parts() | ran)
        self._check_parameters()
        X = clone(self)._validate(X, reset=True)  # remembers nothing in this object
        first = self._named_kernels[0]
        kernel = self._resolve_kernel(X, None, self._gammas(X, None, first)[0], first)
        kernel, rows = self._kernel_and_rows(kernel, X)
        C = 1.0 if self._chooses_C else float(self.C)
        plan = plan_ls_svm(
            rows,
            float(np.max(np.abs(nx.to_numpy(kernel_diagonal(kernel, rows))))),
            C,
            self.solver,
            budget_without_buffers(rows, self.memory_budget),
            n_columns=self._n_columns(y),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        before = f"After the search, with C={C:g}: " if self._chooses else ""
        return self._told({"solver": f"{before}solver={plan.solver!r}: {plan.reason}"})

    def _choice_parts(self) -> dict[str, str]:
        """Return the chosen kernel, gamma and C as text; empty where all were given."""
        table = self.search_results_
        if not len(table["score"]):
            return {}
        name = getattr(self.kernel_, "name", "precomputed")
        width = "" if self.gamma_ is None else f", gamma={self.gamma_:.4g}"
        text = f"kernel={name!r}{width}, C={self.C_:g}"
        if "n_steps" in table:
            how = "in a learned metric" if self._has_metric else "of unscaled rows"
            text += f" {how}, {told_choice(table, 'rows held out')}"
        else:
            sizes = {name: len(np.unique(table[name])) for name in list(table)[:3]}
            several = [f"{k} {name}s" for name, k in sizes.items() if k > 1]
            text += f", of {' and '.join(several) or 'one candidate'}"
        if not math.isnan(self.best_score_):
            text += (
                f"; {self.scoring} of {self._n_searched} rows left out one by one is "
                f"{self.best_score_:.4g}"
            )
        return {"chosen": f"{text}.", "metric": self._metric_text()}


_OF_THE_SEARCH = "The search has solved the system of all rows already."


def _are_several(value: object) -> bool:
    return not isinstance(value, str) and np.ndim(value) > 0


def _has_gamma(kernel: object) -> bool:
    return isinstance(kernel, str) and kernel in kernels_with_gamma()


def _what_ran(info: SolveInfo, reason: str) -> str:
    """Describe a finished fit."""
    steps = f" {info.n_iter} steps" if info.n_iter else " no steps"
    why = f", ended by: {info.stop}" if info.stop else ""
    residual = f"relative residual {info.backward_error:.1e}"
    if math.isnan(info.backward_error):
        residual = "its residual was not measured"
    return f"solver={info.solver!r}: {reason} It took{steps}{why}; {residual}."


def validation_pair(estimator, X_val, y_val, make_error) -> Validation | None:
    """Return the checked validation rows and their error, None without any."""
    if X_val is None and y_val is None:
        return None
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"{missing} is missing: X_val and y_val go together.")
    X_val, y_val = estimator._validate(X_val, reset=False), base.on_host(y_val)
    check_consistent_length(X_val, y_val)
    if estimator._precomputed:
        K_val = base.on_device(X_val, estimator.device)
        return Validation(None, make_error(y_val), K_val)
    rows = estimator._placed(X_val)
    return Validation(rows, make_error(y_val))


# ----------------------------------------------------------------------------------
# The least-squares support vector classifier.
# ----------------------------------------------------------------------------------

# Of the targets: rows are not clustered here.
_BINS = 1


class LSSVMClassifier(SetPredictions, LSSVMOfAllRows):
    """Least-squares support vector classifier.

    Fits f_j(x) = Σᵢ a_ij k(x, xᵢ) + b_j to targets ±1, one column for each class, by
    solving one linear system for all of them:

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ A ] = [ Y ]

    The class is the one of largest f_j. Unlike :class:`~sklearn.svm.SVC` every training
    row takes part in the model, and probabilities are there without another fit.

    What is left open, C, gamma or the kernel, is chosen by leave-one-out, in closed
    form: up to 1,000 rows for every candidate, from one eigendecomposition for each
    kernel; of more rows for the three that models of few kernel columns find best, and
    those beside the best of them.

    Parameters
    ----------
    scoring : {"accuracy", "neg_log_loss", "neg_mean_squared_error"}
        What choices are judged by, with the weights of rows and classes; equal
        accuracies are decided by the mean squared error, with a metric by the log-loss.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        A; n_targets is 1 for two classes, else n_classes.

    See Also
    --------
    LSSVMRegressor : The same for numbers.

    References
    ----------
    J. A. K. Suykens, J. Vandewalle, "Least squares support vector machine classifiers",
    Neural Processing Letters 9, 293 (1999).

    G. C. Cawley, "Leave-one-out cross-validation based model selection criteria for
    weighted LS-SVMs", IJCNN (2006).

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
    >>> tuned = LSSVMClassifier(C="auto", gamma="tune").fit(X, y)
    >>> round(tuned.best_score_, 2)
    0.98
    >>> len(tuned.search_results_["score"])  # 7 gammas, 15 Cs
    105
    """

    _parameters: ClassVar = {
        "scoring": base.one_of("accuracy", "neg_log_loss", "neg_mean_squared_error")
    }

    @base.stored
    def __init__(
        self,
        C: float | Literal["auto"] | Sequence[Any] = 1.0,
        *,
        kernel: base.KernelLike = "rbf",
        gamma: Width = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        learn_metric: bool | Literal["auto"] = "auto",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        scoring: Literal[
            "accuracy", "neg_log_loss", "neg_mean_squared_error"
        ] = "accuracy",
        max_samples: int | None = 5000,
        probability: Literal["softmax", "sum_exp", False] = "softmax",
        solver: SolverName = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        block_size: int | None = None,
        n_runs: int = 1,
        warm_start: bool = False,
        callback: Callable[..., Any] | None = None,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None) -> Self:
        """Search the parameters given as ``"auto"``, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. A factor of
            all weights is one of C, and changes nothing where C is chosen; a weight of
            0 leaves the row out.
        X_val : array-like or CSR matrix of shape (n_val, n_features), default=None
            Rows that are not fitted, for errors in ``history_``.
            An iterative solver adds one after each step. With
            ``kernel="precomputed"``: k(X_val, X).
        y_val : array-like, default=None
            Their targets.

        Returns
        -------
        self : LSSVMClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        rows_weight = self._fit_weight(sample_weight, X)
        classes, balance = self.classes_, self.class_weight
        weight = base.weights_with_classes(rows_weight, balance, classes, indices)
        targets = ClassTargets(indices, len(classes), lambda w, labels: w)
        problem = Problem(X, targets, rows_weight, weight)
        unseen = validation_pair(self, X_val, y_val, self._validation_error)
        fitted = self._learner(X, problem, unseen)
        if self._calibrates:
            rows, values = fitted.loo_rows, fitted.solution.loo_decision
            self._calibrate(values, indices[rows], of_rows(weight, rows))
        return self

    @property
    def _calibrates(self) -> bool:
        return self.probability == "softmax"

    def _loo_score(self, problem: Problem, values, rows) -> Score:
        """Return the score of leave-one-out decision values of some rows, (r, t)."""
        labels, weight = of_rows(problem.targets.values, rows), problem.fit_weight
        judged = of_rows(weight, rows)
        return classification_score(all_classes(values), labels, self.scoring, judged)

    def _losses(self, problem: Problem, values, rows) -> np.ndarray:
        """Return the loss of each row and model by ``scoring``, (r, c).

        Of equal accuracies the one with less log-loss is better: it is added, tenfold
        less.
        """
        targets = problem.targets
        log_losses = targets.losses(values, problem.fit_weight, rows)
        if self.scoring == "neg_log_loss":
            return log_losses
        labels = targets.values[rows]
        right = one_vs_rest_targets(labels, targets.n_classes)[:, None, :]
        if self.scoring == "neg_mean_squared_error":
            return np.mean((values - right) ** 2, axis=2)
        one = values.shape[2] == 1
        guesses = values[:, :, 0] > 0 if one else np.argmax(values, axis=2)
        return (guesses != labels[:, None]) + 0.1 * log_losses

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        n_classes = 10 if y is None else len(np.unique(base.on_host(y)))
        n_targets = 1 if n_classes == 2 else n_classes
        return (1 + n_targets) * (2 if self.probability == "softmax" else 1)

    def _validation_error(self, y_val):
        """Return the error rate as a function of decision values."""
        y_val = np.asarray(y_val)

        def error(decision) -> float:
            values = all_classes(nx.to_numpy(decision))
            return float(np.mean(self.classes_[np.argmax(values, axis=1)] != y_val))

        return error


# ----------------------------------------------------------------------------------
# The least-squares support vector regressor.
# ----------------------------------------------------------------------------------


class LSSVMRegressor(IntervalPredictions, LSSVMOfAllRows):
    """Least-squares support vector regressor: kernel ridge with an intercept.

    Fits f(x) = Σᵢ aᵢ k(x, xᵢ) + b by solving

        [ 0   1ᵀ     ] [ b ]   [ 0 ]
        [ 1   K + I/C ] [ a ] = [ y ]

    for all outputs at once. The intercept is not penalised, so that a constant added to
    ``y`` is added to the predictions and changes nothing else.

    What is left open, C, gamma or the kernel, is chosen by leave-one-out, in closed
    form: up to 1,000 rows for every candidate, from one eigendecomposition for each
    kernel; of more rows for the three that models of few kernel columns find best, and
    those beside the best of them.

    Parameters
    ----------
    scoring : {"neg_mean_squared_error", "neg_mean_absolute_error"}
        What choices are judged by; of several outputs the mean, each in units of its
        spread.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        a.

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : The same without an intercept.

    References
    ----------
    G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse
    least-squares support vector machines", Neural Networks 17, 1467 (2004).

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
    >>> tuned = LSSVMRegressor(C="auto", gamma="tune").fit(X, np.sin(X[:, 0]))
    >>> tuned.predict([[1.5]]).round(2)
    array([1.])
    """

    _parameters: ClassVar = {
        "scoring": base.one_of("neg_mean_squared_error", "neg_mean_absolute_error")
    }

    @base.stored
    def __init__(
        self,
        C: float | Literal["auto"] | Sequence[Any] = 1.0,
        *,
        kernel: base.KernelLike = "rbf",
        gamma: Width = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        learn_metric: bool | Literal["auto"] = "auto",
        scoring: Literal[
            "neg_mean_squared_error", "neg_mean_absolute_error"
        ] = "neg_mean_squared_error",
        max_samples: int | None = 5000,
        solver: SolverName = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        block_size: int | None = None,
        n_runs: int = 1,
        warm_start: bool = False,
        callback: Callable[..., Any] | None = None,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None) -> Self:
        """Search the parameters given as ``"auto"``, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``: k(X, X), (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row: its weight multiplies its squared error. A factor of
            all weights is one of C, and changes nothing where C is chosen; a weight of
            0 leaves the row out.
        X_val : array-like or CSR matrix of shape (n_val, n_features), default=None
            Rows that are not fitted, for errors in ``history_``.
            An iterative solver adds one after each step. With
            ``kernel="precomputed"``: k(X_val, X).
        y_val : array-like, default=None
            Their targets.

        Returns
        -------
        self : LSSVMRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        weight = self._fit_weight(sample_weight, X)
        targets = NumberTargets.of(Y, _BINS, weight)
        make_error = functools.partial(self._validation_error, unit=targets.unit)
        unseen = validation_pair(self, X_val, y_val, make_error)
        self._learner(X, Problem(X, targets, weight, weight), unseen)
        return self

    def _loo_score(self, problem: Problem, values, rows) -> Score:
        """Return the score of leave-one-out predictions of some rows, (r, t).

        In the unit of y; of several outputs, each in units of its spread.
        """
        Y, unit, weight = problem.targets.values, problem.targets.unit, problem.weight
        scale = unit.scale if Y.shape[1] == 1 else 1 / output_spread(Y, weight)
        right, judged = of_rows(Y, rows) * scale, of_rows(weight, rows)
        return regression_score(values * scale, right, self.scoring, judged)

    def _losses(self, problem: Problem, values, rows) -> np.ndarray:
        """Return the loss of each row and model by ``scoring``, (r, c)."""
        targets, weight = problem.targets, problem.fit_weight
        if self.scoring == "neg_mean_squared_error":
            return targets.losses(values, weight, rows)
        Y = targets.scaled(weight)
        return np.mean(np.abs(values - Y[rows][:, None, :]), axis=2)

    def _n_columns(self, y) -> int:
        """Return the right-hand sides of a fit to ``y``."""
        return 2 if y is None else 1 + int(np.prod(np.shape(base.on_host(y))[1:]))

    def _validation_error(self, y_val, unit: TargetUnit):
        """Return a function that gives the root mean squared error of predictions.

        These are in the unit of the fit, the error is in that of ``y``.
        """
        targets = unit.standard(base.numeric_targets(np.asarray(y_val)))

        def error(predictions) -> float:
            errors = (nx.to_numpy(predictions) - targets) * unit.scale
            return float(np.sqrt(np.mean(errors**2)))

        return error
