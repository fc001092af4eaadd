"""Fit a kernel machine on representatives: a problem and a plan in, a model out.

    1  tune        choose kernel, gamma and C by leave-one-out on some rows; or a metric
                   with them, by rows held out, in which everything else is then done
    2  choose      cluster each group of rows by k-means: the first representatives
    3  accumulate  sum the normal equations of all rows on the kernel columns of these
    4  solve       for the coefficients
    5  refine      make rows representatives too; go on with 3 while that helps
    6  calibrate   find decision values of rows by models that have not seen them, and
                   move the intercept to where their loss is least

Steps 3 to 5 are :func:`~kaucus.solvers.solve_with_hard_rows`. Everything here is a
function of its arguments; what is told to the user is in the model's ``info``.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    NotPositiveDefiniteError,
    as_like,
    astype,
    dense_rows,
    draw_some,
    dtype_name,
    epsilon,
    products_in,
    release_freed_memory,
    take_rows,
    to_numpy,
)
from kaucus.kernels import MappedKernel
from kaucus.machines._problem import (
    NO_ROWS,
    UNSEEN_ROWS,
    Model,
    Plan,
    Problem,
    Unseen,
    calibrated,
    errors_at,
    in_given_columns,
    joined_unseen,
    unseen_values,
    values_of,
)
from kaucus.machines._sizes import Growth, plan_growth
from kaucus.machines._targets import Targets
from kaucus.machines._tuning import Tuning, choose_kernel
from kaucus.representatives import (
    Representatives,
    represent_classes,
    with_rows,
)
from kaucus.solvers import (
    GrownSolution,
    Judge,
    LSSVMSolution,
    NearBoundary,
    SolveInfo,
    fit_ls_svm,
    rows_near_boundary,
    solve_on_representatives,
    solve_with_hard_rows,
)

# Rows that fit_on="boundary" is a fit of: for each representative, and at least.
_ROWS_EACH, _LEAST_ROWS = 5, 10_000
# More on the diagonal than this, relative to its mean, is more than rounding needs.
USUAL_JITTER = {"float64": 1e-9, "float32": 1e-5}


def fit_represented(
    problem: Problem,
    plan: Plan,
    rng: np.random.Generator,
    *,
    tuned: Tuning | None = None,
) -> Model:
    """Fit a kernel machine on representatives of the rows.

    Parameters
    ----------
    problem : Problem
    plan : Plan
    rng : numpy.random.Generator
    tuned : Tuning, default=None
        Kernel and C, where they are known.

    Raises
    ------
    NotPositiveDefiniteError
        If the kernel is indefinite on these rows; its ``C`` tells at which C.
    MemoryError
        If the plan does not fit into its memory budget.
    """
    tuning = choose_kernel(problem, plan, rng) if tuned is None else tuned
    if not isinstance(tuning.kernel, MappedKernel):
        return _fit_tuned(problem, plan, tuning, rng)
    kernel, row_map = tuning.kernel.kernel, tuning.kernel.row_map
    mapped = problem.mapped(row_map, plan.memory_budget)
    model = _fit_tuned(mapped, plan, tuning._replace(kernel=kernel), rng)
    chosen = in_given_columns(model, problem, row_map)
    return model._replace(kernel=tuning.kernel, representatives=chosen)


def _fit_tuned(problem: Problem, plan: Plan, tuning: Tuning, rng) -> Model:
    """Fit with a known kernel and C."""
    groups = problem.targets.clusters(problem.weight)
    growth = plan_growth(problem, plan, tuning.kernel, tuning.C, groups, rng)
    held = _hold_out(problem, growth, rng)
    chosen = _choose(problem, plan, groups, growth, held, rng)
    fit = _Fit(problem, plan, tuning, rng)
    targets = fit.targets_of_points(chosen, groups)
    with errors_at(tuning.C), products_in(plan.precision):
        if targets is None:
            model = fit.least_squares(chosen, groups, growth, held)
        else:
            model = fit_representatives(fit, chosen, targets)
        return calibrated(model, problem, plan, rng)


# ---- 2. choose -----------------------------------------------------------------------


def _hold_out(problem: Problem, growth: Growth, rng) -> np.ndarray:
    """Return the numbers of the rows that are held out while others are added."""
    if growth.n_held_out == 0:
        return NO_ROWS
    weight = problem.weight
    present = np.arange(problem.n) if weight is None else np.flatnonzero(weight)
    return draw_some(rng, present, growth.n_held_out)


def _choose(problem: Problem, plan: Plan, groups, growth, held, rng) -> Representatives:
    """Cluster each group of rows by itself, but for those held out."""
    weight = problem.weight
    chosen = represent_classes(
        problem.rows,
        groups,
        growth.numbers,
        options=plan.kmeans,
        sample_weight=_without(weight, held, problem.n),
        rng=rng,
        memory_budget=plan.memory_budget,
        callback=plan.progress(problem.targets.clustered),
    )
    release_freed_memory()
    row_map = problem.row_map
    if row_map is not None and chosen.points.shape[0] < problem.n:
        # As they will be when they are given back in the columns of the user.
        points = row_map(row_map.back(chosen.points))
        chosen = chosen._replace(points=points)
    if len(held) == 0:
        return chosen
    # Rows held out are spoken for, too.
    total = problem.n if weight is None else weight.sum()
    return chosen._replace(weights=chosen.weights * total / chosen.weights.sum())


# ---- 3. to 5. accumulate, solve, refine ----------------------------------------------


class _Fit(NamedTuple):
    """A problem whose kernel and C are known."""

    problem: Problem
    plan: Plan
    tuning: Tuning
    rng: np.random.Generator

    def targets_of_points(self, chosen: Representatives, groups) -> Targets | None:
        """Return targets of the representatives where they alone are fitted."""
        problem, targets = self.problem, self.problem.targets
        if problem.weight is None and chosen.points.shape[0] == problem.n:
            # Least squares of all rows on all rows are the LS-SVM of these, which costs
            # a quarter. Representatives come group by group.
            return targets.like(targets.values[np.argsort(groups, kind="stable")])
        alone = self.plan.fit_on == "representatives"
        return targets.like(chosen.labels) if alone else None

    def model(self, chosen: Representatives, solution: LSSVMSolution) -> Model:
        """Return a model without rows among its representatives."""
        return Model(*self.tuning, chosen, solution)

    def least_squares(
        self, chosen: Representatives, groups, growth: Growth, held: np.ndarray
    ) -> Model:
        """Fit the columns of the representatives, and of rows added, to the rows.

        To all, or to those near the boundary.
        """
        problem, weight = self.problem, self.problem.weight
        near = self.near_boundary(chosen, growth, held)
        tested = self.rows_to_leave_out(held)
        some, first_fit, part = problem, None, None
        inside, outside, held_inside = tested, NO_ROWS, held
        if near is not None:
            part, first_fit = np.union1d(near.rows, held), near.rough
            some, held_inside = problem.part(part), np.searchsorted(part, held)
            known = np.isin(tested, part)
            inside, outside = np.searchsorted(part, tested[known]), tested[~known]
        found = self.in_enough_precision(
            functools.partial(
                self.grown_columns, some, growth, held_inside, inside, first_fit
            ),
            chosen.points,
        )
        added = found.rows if part is None else part[found.rows]
        weights = np.ones(problem.n) if weight is None else weight
        points = as_like(dense_rows(problem.rows, added), chosen.points)
        chosen = with_rows(chosen, points, groups[added], weights[added])
        model = self.model(chosen, found.solution)._replace(
            hard_rows=added,
            refine=growth.choices[found.choice] if len(added) else None,
            fit_rows=part,
        )
        if len(tested) == 0:
            return model
        unseen = unseen_values(found.solution.loo_decision, some, inside)
        if len(outside):
            unseen = joined_unseen(
                unseen, values_of(model, problem, outside, self.plan)
            )
        return model._replace(unseen=unseen)

    def rows_to_leave_out(self, held: np.ndarray) -> np.ndarray:
        """Draw the rows whose leave-one-out values are wanted."""
        if not (self.plan.calibrates or self.plan.moves_intercept):
            return NO_ROWS
        if not len(held):
            return draw_some(self.rng, self.problem.n, UNSEEN_ROWS)
        others = np.ones(self.problem.n, dtype=bool)  # no sorting of millions
        others[held] = False
        return draw_some(self.rng, np.flatnonzero(others), UNSEEN_ROWS)

    def grown_columns(
        self, problem: Problem, growth: Growth, held, loo_rows, first_fit, points: Array
    ) -> GrownSolution:
        """Fit the kernel columns of points, and of rows that are added, to the rows."""
        rows, targets, _, fit_weight, _ = problem
        Y = targets.columns()
        columns = (self.tuning.kernel, rows, as_like(Y, points), points)
        options: dict[str, Any] = {
            "C": self.tuning.C,
            "sample_weight": as_like(_without(fit_weight, held, len(Y)), points),
            "loo_rows": loo_rows,
            "memory_budget": self.plan.memory_budget,
            "callback": self.plan.progress("row"),
        }
        if not growth.additions:
            solution = solve_on_representatives(*columns, **options)
            return GrownSolution(solution, NO_ROWS, 0, [])
        if len(held):
            options["judge"] = Judge(
                take_rows(rows, held),
                as_like(Y[held], points),
                None if fit_weight is None else as_like(fit_weight[held], points),
                lambda values: targets.score(values, fit_weight, held),
                growth.least_gain,
            )
        ways = targets.hardness(fit_weight, points, self.rng)
        choices = [ways[choice] for choice in growth.choices]
        return solve_with_hard_rows(
            *columns, growth.additions, choices, first_fit=first_fit, **options
        )

    def in_enough_precision(self, fit: Callable[[Array], Any], points: Array) -> Any:
        """Return ``fit(points)``, with float64 points where float32 is not enough.

        That is where the system is indefinite, or more singular than usual. Blocks of
        rows are computed in the precision of the points, which is in the solution's
        info. A precision that was asked for stays.
        """
        may_widen = self.plan.precision is None and dtype_name(points) == "float32"
        try:
            found = fit(points)
            if not may_widen or not _is_singular(found):
                return found
        except NotPositiveDefiniteError:
            if not may_widen:
                raise
        return fit(astype(points, "float64"))

    def near_boundary(self, chosen, growth: Growth, held) -> NearBoundary | None:
        """Choose the rows near the boundary; None where all are to be fitted."""
        if self.plan.fit_on != "boundary" or self.plan.streamed:
            return None
        problem, (kernel, C, _) = self.problem, self.tuning
        first = chosen.points.shape[0]
        n_representatives = first + sum(growth.additions)
        n_rows = max(_ROWS_EACH * n_representatives, _LEAST_ROWS)
        Y = problem.targets.columns()
        weight = _without(problem.fit_weight, held, len(Y))
        if n_rows >= (len(Y) if weight is None else np.count_nonzero(weight)):
            return None
        return self.in_enough_precision(
            lambda points: rows_near_boundary(
                kernel,
                problem.rows,
                as_like(Y, points),
                points,
                n_rows,
                # As many entries of the kernel as the fit itself will have.
                n_rough=n_rows * n_representatives // first,
                C=C,
                rng=self.rng,
                sample_weight=weight,
                memory_budget=self.plan.memory_budget,
            ),
            chosen.points,
        )


def fit_representatives(fit: _Fit, chosen: Representatives, targets: Targets) -> Model:
    """Fit the LS-SVM of the representatives alone, whose targets are given.

    Where they are most of the rows, leave-one-out values of them are ``unseen``.
    """
    problem, plan, (kernel, C, _), rng = fit
    points, weight = chosen.points, targets.fit_weights(None)
    speak_for_others = problem.n >= 2 * points.shape[0]
    wants = (plan.calibrates or plan.moves_intercept) and not speak_for_others
    fitted = fit_ls_svm(
        kernel,
        points,
        as_like(targets.columns(), points),
        C=C,
        sample_weight=as_like(weight, points),
        memory_budget=plan.memory_budget,
        leave_one_out=wants,
        # What the rounding of the rows themselves comes to.
        refine_tol=epsilon(points),
        rng=rng,
    )
    model = fit.model(chosen, fitted.solution)
    if not wants:
        return model
    values = to_numpy(fitted.solution.loo_decision)
    some = fitted.loo_rows
    weight = None if weight is None else weight[some]
    return model._replace(unseen=Unseen(values, targets.values[some], weight))


def refit_moved(
    problem: Problem, plan: Plan, model: Model, chosen: Representatives, rng
) -> Model:
    """Fit the LS-SVM of a model's representatives, which have moved."""
    fit = _Fit(problem, plan, Tuning(*model[:3]), rng)
    with errors_at(model.C), products_in(plan.precision):
        targets = problem.targets.like(chosen.labels)
        moved = fit_representatives(fit, chosen, targets)
        return calibrated(moved, problem, plan, rng)


def _is_singular(found: GrownSolution | NearBoundary) -> bool:
    """Tell whether float32 had to be helped by more than is usual."""
    if isinstance(found, NearBoundary):
        return False
    info: SolveInfo = found.solution.info
    return info.relative_jitter > USUAL_JITTER["float32"]


def _without(weight: np.ndarray | None, held: np.ndarray, n: int) -> np.ndarray | None:
    """Return weights that are zero for the rows held out."""
    if len(held) == 0:
        return weight
    without = np.ones(n) if weight is None else weight.copy()
    without[held] = 0.0
    return without
