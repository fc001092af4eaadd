"""Fit on representatives: how many, which, solve, calibrate; more rows later."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import release_freed_memory, resolve_budget
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import Array
from kaucus._array.segments import draw_some
from kaucus.clustering._kmeans import Representatives, represent_classes, with_rows
from kaucus.fitting._problem import (
    NO_ROWS,
    UNSEEN_ROWS,
    ClassTargets,
    Model,
    Plan,
    Problem,
    Targets,
    TargetUnit,
    Unseen,
    calibrated,
    errors_at,
    in_given_columns,
    joined_unseen,
    unseen_values,
    values_of,
)
from kaucus.fitting._search import (
    Choice,
    LeftOutColumns,
    affordable_search,
    better_C,
    enough_rows,
    search_metric,
    tune,
)
from kaucus.kernels._kernel import Kernel
from kaucus.kernels._metric import MappedKernel
from kaucus.solvers._auto import FitResult, fit_ls_svm
from kaucus.solvers._columns import (
    GrownSolution,
    Judge,
    NearBoundary,
    RowData,
    RunningSums,
    add_rows,
    columns_bytes,
    rows_near_boundary,
    solve_on_representatives,
    solve_running,
    solve_with_hard_rows,
)
from kaucus.solvers._system import LSSVMSolution, SolveInfo

# ----------------------------------------------------------------------------------
# How many representatives there are to be, of which group, and what may be added.
#
# With a given number: those, and what ``refine`` adds to them. With a word: every row
# where there are few; else an eighth of the most that the word allows, doubled as long
# as rows held out say that it helps.
# ----------------------------------------------------------------------------------


class Size(NamedTuple):
    """How large a model may become whose size is left open."""

    most: int
    """Representatives in all."""
    least_gain: float
    """A doubling must lessen the loss of rows held out by more than this share."""


SIZES: Mapping[str, Size] = {
    "fast": Size(1000, 0.02),
    "balanced": Size(6000, 0.01),
    "best": Size(12_000, 0.0),
}
_BOTH = ("residual", "random")
_HELD_OUT = 5000
# One of so many rows chooses the votes of a committee, at most.
_VOTERS = 4
# So many of them calibrate, too: the fit has not seen them. Leave-one-out says too much
# of a model whose representatives were chosen among the rows.
_ENOUGH_HELD = 500
# An open number of representatives begins with an eighth of the most, or with a quarter
# where that is no more than this. From an eighth the first round, which tries two ways,
# costs little, and easy rows are done sooner (benchmarks/pace.py); of few
# representatives, those of k-means are worth more than rows that are added.
_FIRST = 750
# Of each class, where the number is left open and representatives alone are fitted.
OPEN_REPRESENTATIVES = 100
# Classes of which the largest has no more than so many times the rows of the smallest
# get equal numbers without a trial.
_ABOUT_EQUAL = 2.0
# What matrices of m × m may take of the budget; the rest is for a block of rows.
_SHARE, _FLOAT32 = 0.85, np.empty((1, 1), np.float32)
# Rows and columns of the trial that decides how numbers are shared out.
_TRIAL = (3000, 300)


@dataclass(frozen=True, eq=False)
class Growth:
    """Growth schedule: first representatives of each group, and additions."""

    numbers: list[int]
    additions: list[int]
    choices: tuple[str, ...] = ()
    """How rows are chosen; of several, rows held out decide."""
    least_gain: float = -math.inf
    n_held_out: int = 0
    order: np.ndarray | None = None
    """Row numbers of the representatives where every row is one: group by group."""


def plan_growth(fit: "Fit", groups: np.ndarray) -> Growth:
    """Return the number of representatives of each group, and how it grows.

    ``groups`` are those of the rows that are clustered apart.
    """
    problem, plan = fit.problem, fit.plan
    weight, size = problem.weight, plan.size
    present = groups if weight is None else groups[weight > 0]
    sizes = np.bincount(present, minlength=problem.targets.n_groups)
    if isinstance(size, str) and plan.fit_on == "representatives":
        size = [OPEN_REPRESENTATIVES] * len(sizes)
    if isinstance(size, int):
        size = allocate(size, sizes, "proportional")
    if not isinstance(size, str):
        rounds = 1 if plan.fit_on == "boundary" else 2
        growth = grow_from(size, len(present), plan.refine, rounds)
        every = weight is None and growth.n_held_out == 0 and np.all(size >= sizes)
        return _of_every_row(groups, sizes) if every else growth
    budget = resolve_budget(plan.memory_budget, problem.rows)
    # Where every row is a representative and weighs the same, their least squares are
    # factored at once; the equations of later rows are not.
    factored = weight is None
    if len(present) <= most_rows(size, budget, factored=factored):
        return _of_every_row(groups, sizes) if factored else Growth(sizes.tolist(), [])
    allocation = "proportional"
    if isinstance(problem.targets, ClassTargets):
        allocation = choose_allocation(fit, groups)
    most = most_representatives(size, budget)
    growth = grow_openly(size, sizes, allocation, most)
    if plan.n_unseen <= UNSEEN_ROWS or not growth.additions:
        return growth
    # Votes of a committee are chosen by the rows held out: 1,000 were too few.
    wanted = min(len(present) // _VOTERS, plan.n_unseen, _HELD_OUT)
    return replace(growth, n_held_out=max(growth.n_held_out, wanted))


def _of_every_row(groups: np.ndarray, sizes: np.ndarray) -> Growth:
    """Return the growth in which every row is a representative.

    Least squares of all rows on all are their LS-SVM, a quarter of the work of normal
    equations.
    """
    return Growth(sizes.tolist(), [], order=np.argsort(groups, kind="stable"))


def grow_from(
    numbers: Sequence[int], n: int, refine: int | str | None, rounds: int
) -> Growth:
    """Return the growth schedule of given representatives with ``refine``.

    Parameters
    ----------
    numbers : sequence of int
        Representatives of each group.
    n : int
        Rows.
    refine : int, "auto" or None
        How many hard rows are added; ``"auto"``: twice as many rows as there are
        representatives, hard ones or any, whichever is better for rows held out.
    rounds : int
        In how many rounds they are added.
    """
    numbers = [int(k) for k in numbers]
    if refine is None:
        return Growth(numbers, [])
    wanted = 2 * sum(numbers) if isinstance(refine, str) else refine
    parts = np.array_split(np.arange(min(wanted, n)), rounds)
    additions = [len(part) for part in parts if len(part)]
    if not isinstance(refine, str):
        return Growth(numbers, additions, ("residual",))
    return Growth(numbers, additions, _BOTH, n_held_out=_n_held_out(n))


def grow_openly(size: str, sizes: Sequence[int], allocation: str, most: int) -> Growth:
    """Return an eighth of the representatives that there may be, and doublings.

    Parameters
    ----------
    size : {"fast", "balanced", "best"}
    sizes : sequence of int
        Rows of each group.
    allocation : {"equal", "proportional", "sqrt"}
        How the first ones are shared out among the groups.
    most : int
        See :func:`most_representatives`.
    """
    first = max(most // 8, min(most // 4, _FIRST), len(sizes))
    first = allocate(first, sizes, allocation)
    additions, total = [], sum(first)
    while total < most:
        additions.append(min(total, most - total))
        total += additions[-1]
    n_held_out = _n_held_out(int(sum(sizes))) if additions else 0
    return Growth(first, additions, _BOTH, SIZES[size].least_gain, n_held_out)


def most_rows(size: str, budget: int, *, factored: bool) -> int:
    """Return up to how many rows every row is a representative, if that is left open.

    Where this is one factorisation of n rows (``factored``), n³/3 multiplications, it
    takes no longer than m representatives of them, n m², up to n = √3 m.
    """
    return int(most_representatives(size, budget) * (3**0.5 if factored else 1))


def most_representatives(size: str, budget: int) -> int:
    """Return the largest number of representatives that a word for a size allows."""
    most = min(SIZES[size].most, int((budget / 2 / 44) ** 0.5))
    # Several threads need more for each, and a block of rows must find room too.
    while most > 1 and columns_bytes(most, _FLOAT32) > _SHARE * budget:
        most = most * 19 // 20
    return max(most, 1)


def _n_held_out(n: int) -> int:
    return min(max(n // 10, 1), _HELD_OUT)


def choose_allocation(fit: "Fit", labels: np.ndarray) -> str:
    """Return the allocation of representatives to classes that leave-one-out prefers.

    Each way is tried with random rows of the classes as columns, on a part of the rows.
    """
    problem, kernel, budget = fit.problem, fit.tuning.kernel, fit.plan.memory_budget
    rows, Y, weight = problem.rows, problem.targets.columns(), problem.fit_weight
    present = problem.present()
    sizes = np.bincount(labels[present])
    sizes = sizes[sizes > 0]
    if sizes.max() <= _ABOUT_EQUAL * sizes.min():
        return "equal"
    order = fit.rng.permutation(present)
    n_rows, n_columns = affordable_search(*_TRIAL, rows.shape[1], Y.shape[1], budget)
    some = order[:n_rows]
    part = nx.take_rows(rows, some)
    counts = np.bincount(labels[order])
    losses = []
    for how in ALLOCATIONS:
        numbers = allocate(min(n_columns, len(order) // 2), counts, how)
        columns = np.concatenate(
            [order[labels[order] == c][:k] for c, k in enumerate(numbers)]
        )
        Z = nx.dense_rows(rows, columns)
        judge = LeftOutColumns(
            *([kernel], part, nx.as_like(Y[some], Z), Z),
            sample_weight=None if weight is None else nx.as_like(weight[some], Z),
            memory_budget=budget,
        )
        losses.append(judge.tried([(kernel, [fit.tuning.C])])[0].loss)
    return ALLOCATIONS[int(np.argmin(losses))]


# ---- shares of the groups ------------------------------------------------------------


ALLOCATIONS = ("equal", "proportional", "sqrt")
_POWERS = {"equal": 0.0, "proportional": 1.0, "sqrt": 0.5}


def allocate(total: int, sizes: Sequence[int], allocation: str) -> list[int]:
    """Share out representatives in proportion to a power of the groups' sizes.

    Parameters
    ----------
    total : int
        How many there are to share out.
    sizes : sequence of int
        Rows of each group.
    allocation : {"equal", "proportional", "sqrt"}
        In proportion to size⁰, size¹ or size^½.

    Returns
    -------
    list of int
        No group gets more than it has rows, nor fewer than one if it has any; what a
        small group cannot take, the others share. The sum is ``total``, where the
        groups have as many rows and ``total`` is at least their number.

    Examples
    --------
    >>> allocate(100, [900, 90, 10], "proportional")
    [90, 9, 1]
    >>> allocate(100, [900, 90, 10], "equal")
    [45, 45, 10]
    """
    rows = np.asarray(sizes, dtype=np.int64)
    given = np.minimum(rows, 1)
    wanted = np.where(rows > 0, rows.astype(float) ** _POWERS[allocation], 0.0)
    full = given >= rows
    # Each turn fills a group for good, or is the last.
    while not full.all():
        shares = np.where(full, 0.0, wanted)
        rest = total - given[full].sum()
        shares *= max(rest, 0) / shares.sum()
        over = ~full & (shares >= rows)
        if not over.any():
            return _rounded(given, shares, full, int(rest)).tolist()
        given[over], full = rows[over], full | over
    return given.tolist()


def _rounded(given, shares, full, rest: int) -> np.ndarray:
    """Round shares to whole numbers of the same sum, none of them below 1."""
    counts = np.where(full, given, np.maximum(np.floor(shares), 1)).astype(np.int64)
    left = rest - int(counts[~full].sum())
    order = np.argsort(np.where(full, np.inf, np.floor(shares) - shares), kind="stable")
    counts[order[: max(left, 0)]] += 1
    while left < 0 and (counts[~full] > 1).any():
        counts[np.argmax(np.where(full, 0, counts))] -= 1
        left += 1
    return counts


# ----------------------------------------------------------------------------------
# Fit a kernel machine on representatives: a problem and a plan in, a model out.
#
#     1  tune        choose kernel, gamma and C by leave-one-out on some rows; or a
#                    metric with them, by held-out rows, in which all else is then done
#     2  choose      cluster each group of rows by k-means: the first representatives
#     3  accumulate  sum the normal equations of all rows on the kernel columns of these
#     4  solve       for the coefficients
#     5  refine      make rows representatives too; go on with 3 while that helps
#     6  calibrate   find decision values of rows by models that have not seen them, and
#                    move the intercept to where their loss is least
#
# Steps 3 to 5 are :func:`~kaucus.solvers.solve_with_hard_rows`. Everything here is a
# function of its arguments; what is told to the user is in the model's ``info``.
# ----------------------------------------------------------------------------------

# Rows that fit_on="boundary" is a fit of: for each representative, and at least.
_ROWS_EACH, _LEAST_ROWS = 5, 10_000
# C is chosen again for a system of more columns than so many times those that chose it.
_MORE = 2
# By exact leave-one-out of so many rows: C is the precision of the targets over that of
# the function, which does not depend on the number of rows.
_JUDGED = 4000
# More on the diagonal than this, relative to its mean, is more than rounding needs.
USUAL_JITTER = {"float64": 1e-9, "float32": 1e-5}


def fit_represented(problem: Problem, plan: Plan, rng: np.random.Generator) -> Model:
    """Fit a kernel machine on representatives of the rows.

    Raises NotPositiveDefiniteError, with its ``C``, where the kernel is indefinite on
    these rows, and MemoryError where the plan does not fit into its budget.
    """
    if plan.metric is None or not enough_rows(problem.n, problem.fit_weight):
        with errors_at(max(plan.Cs)):
            choice = tune(problem, plan, rng)
        return _fit_tuned(problem, plan, choice, rng)
    choice = search_metric(
        problem,
        plan.metric,
        rng,
        callback=plan.progress("stage"),
        memory_budget=plan.memory_budget,
    )
    assert choice.row_map is not None
    mapped = problem.mapped(choice.row_map, plan.memory_budget)
    model = _fit_tuned(mapped, plan, choice, rng)
    chosen = in_given_columns(model, problem, choice.row_map)
    kernel = MappedKernel(choice.kernel, choice.row_map)
    return replace(model, kernel=kernel, representatives=chosen)


def _fit_tuned(problem: Problem, plan: Plan, tuning: Choice, rng) -> Model:
    """Fit with a known kernel and C."""
    fit, targets = Fit(problem, plan, tuning, rng), problem.targets
    groups = targets.clusters(problem.weight)
    growth = plan_growth(fit, groups)
    held = _hold_out(fit, growth)
    chosen = _choose(fit, groups, growth, held)
    with errors_at(tuning.C), nx.products_in(plan.precision):
        if growth.order is not None:
            own = targets.like(targets.values[growth.order])
            model = fit_representatives(fit, chosen, own, growth.order)
        elif plan.fit_on == "representatives":
            model = fit_representatives(fit, chosen, targets.like(chosen.labels))
        else:
            model = fit.least_squares(chosen, groups, growth, held)
        return calibrated(model, problem, plan, rng)


# ---- 2. choose -----------------------------------------------------------------------


def _hold_out(fit: "Fit", growth: Growth) -> np.ndarray:
    """Return the numbers of the rows that are held out while others are added."""
    if growth.n_held_out == 0:
        return NO_ROWS
    weight, n = fit.problem.weight, fit.problem.n
    present = np.arange(n) if weight is None else np.flatnonzero(weight)
    return draw_some(fit.rng, present, growth.n_held_out)


def _choose(fit: "Fit", groups, growth: Growth, held: np.ndarray) -> Representatives:
    """Return representatives of each group, from rows that are not held out."""
    problem, plan, weight = fit.problem, fit.plan, fit.problem.weight
    if growth.order is not None:
        points = nx.dense_rows(problem.rows, growth.order)
        ones = np.ones(problem.n)
        return Representatives(points, groups[growth.order], ones, 0, 0, True)
    chosen = represent_classes(
        problem.rows,
        groups,
        growth.numbers,
        options=plan.kmeans,
        sample_weight=_without(weight, held, problem.n),
        rng=fit.rng,
        memory_budget=plan.memory_budget,
        callback=plan.progress(problem.targets.clustered),
    )
    release_freed_memory()
    row_map = problem.row_map
    if row_map is not None:
        # As they will be when they are given back in the columns of the user.
        points = row_map(row_map.back(chosen.points))
        chosen = replace(chosen, points=points)
    if len(held) == 0:
        return chosen
    # Rows held out are spoken for, too.
    total = problem.n if weight is None else weight.sum()
    return replace(chosen, weights=chosen.weights * total / chosen.weights.sum())


# ---- 3. to 5. accumulate, solve, refine ----------------------------------------------


class Fit(NamedTuple):
    """A problem whose kernel and C are known."""

    problem: Problem
    plan: Plan
    tuning: Choice
    rng: np.random.Generator

    def model(self, chosen: Representatives, solution: LSSVMSolution) -> Model:
        """Return a model without rows among its representatives."""
        kernel, C, results = self.tuning.kernel, self.tuning.C, self.tuning.results
        return Model(kernel, C, results, chosen, solution)

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
        tunings = [self.tuning]

        def choose_C(m: int, loss: Callable[[float], float]) -> float:
            if m > _MORE * self.tuning.n_columns:
                tuning, _ = better_C(self.tuning, m, lambda C: (None, loss(C)))
                tunings.append(tuning)
            return tunings[-1].C

        given = (some, growth, held_inside, inside, first_fit, choose_C)
        found = self.in_enough_precision(
            functools.partial(self.grown_columns, *given), chosen.points
        )
        added = found.rows if part is None else part[found.rows]
        weights = np.ones(problem.n) if weight is None else weight
        points = nx.as_like(nx.dense_rows(problem.rows, added), chosen.points)
        chosen = with_rows(chosen, points, groups[added], weights[added])
        tuned = self._replace(tuning=tunings[-1])
        model = replace(
            tuned.model(chosen, found.solution),
            hard_rows=added,
            refine=growth.choices[found.choice] if len(added) else None,
            fit_rows=part,
        )
        if len(held) >= _ENOUGH_HELD:
            unseen = unseen_values(found.held_out, problem, held)
            return replace(model, unseen=unseen._replace(numbers=held))
        if len(tested) == 0:
            return model
        unseen = unseen_values(found.solution.loo_decision, some, inside)
        if len(outside):
            unseen = joined_unseen(
                unseen, values_of(model, problem, outside, self.plan)
            )
        return replace(model, unseen=unseen)

    def rows_to_leave_out(self, held: np.ndarray) -> np.ndarray:
        """Draw the rows whose leave-one-out values are wanted."""
        wanted = self.plan.calibrates or self.plan.moves_intercept
        if not wanted or len(held) >= _ENOUGH_HELD:
            return NO_ROWS
        if not len(held):
            return draw_some(self.rng, self.problem.n, UNSEEN_ROWS)
        others = np.ones(self.problem.n, dtype=bool)  # no sorting of millions
        others[held] = False
        return draw_some(self.rng, np.flatnonzero(others), UNSEEN_ROWS)

    def grown_columns(
        self, problem: Problem, growth, held, loo_rows, first_fit, choose_C, points
    ) -> GrownSolution:
        """Fit the kernel columns of points, and of rows that are added, to the rows."""
        targets, fit_weight = problem.targets, problem.fit_weight
        weight = _without(fit_weight, held, problem.n)
        data = _row_data(problem, self.tuning.kernel, weight, points)
        options: dict[str, Any] = {
            "C": self.tuning.C,
            "loo_rows": loo_rows,
            "memory_budget": self.plan.memory_budget,
            "callback": self.plan.progress("row"),
        }
        if not growth.additions:
            solution = solve_on_representatives(data, points, **options)
            return GrownSolution(solution, NO_ROWS, 0, [])
        if len(held):
            part = problem.part(held)
            options["judge"] = Judge(
                _row_data(part, self.tuning.kernel, part.fit_weight, points),
                lambda values: targets.score(values, fit_weight, held),
                growth.least_gain,
            )
        ways = targets.hardness(fit_weight, points, self.rng)
        choices = [ways[choice] for choice in growth.choices]
        options |= {"first_fit": first_fit, "choose_C": choose_C}
        grown = (data, points, growth.additions, choices)
        return solve_with_hard_rows(*grown, **options)

    def in_enough_precision(self, fit: Callable[[Array], Any], points: Array) -> Any:
        """Return ``fit(points)``, with float64 points where float32 is not enough.

        That is where the system is indefinite, or needs jitter: with a C and a width
        for which float32 has too few digits, errors on ``wind`` were 3 % larger. Blocks
        of rows are computed in the precision of the points, which is in the solution's
        info. A precision that was asked for stays.
        """
        may_widen = self.plan.precision is None and nx.dtype_name(points) == "float32"
        try:
            found = fit(points)
            if not may_widen or not _is_singular(found):
                return found
        except NotPositiveDefiniteError:
            if not may_widen:
                raise
        return fit(nx.astype(points, "float64"))

    def near_boundary(self, chosen, growth: Growth, held) -> NearBoundary | None:
        """Choose the rows near the boundary; None where all are to be fitted."""
        if self.plan.fit_on != "boundary":
            return None
        problem, kernel = self.problem, self.tuning.kernel
        first = chosen.points.shape[0]
        n_representatives = first + sum(growth.additions)
        n_rows = max(_ROWS_EACH * n_representatives, _LEAST_ROWS)
        weight = _without(problem.fit_weight, held, problem.n)
        if n_rows >= (problem.n if weight is None else np.count_nonzero(weight)):
            return None
        return self.in_enough_precision(
            lambda points: rows_near_boundary(
                _row_data(problem, kernel, weight, points),
                points,
                n_rows,
                # As many entries of the kernel as the fit itself will have.
                n_rough=n_rows * n_representatives // first,
                C=self.tuning.C,
                rng=self.rng,
                memory_budget=self.plan.memory_budget,
            ),
            chosen.points,
        )


def fit_representatives(
    fit: Fit,
    chosen: Representatives,
    targets: Targets,
    order: np.ndarray | None = None,
) -> Model:
    """Fit the LS-SVM of the representatives alone, whose targets are given.

    Where they are most of the rows, leave-one-out values of them are ``unseen``.
    ``order`` has their row numbers where every row is one.
    """
    problem, plan, tuning = fit.problem, fit.plan, fit.tuning
    n, weight = chosen.points.shape[0], targets.fit_weights(None)
    speak_for_others = problem.n >= 2 * n
    wants = (plan.calibrates or plan.moves_intercept) and not speak_for_others
    n_left_out = min(plan.n_unseen, n) if wants else 0

    def solved(C: float, n_left_out: int, rng, points, own: Targets) -> FitResult:
        given = own.columns(), own.fit_weights(None)
        Y, weight = (nx.as_like(part, points) for part in given)
        return fit_ls_svm(
            RowData(tuning.kernel, points, Y, weight),
            C=C,
            memory_budget=plan.memory_budget,
            leave_one_out=n_left_out,
            # What the rounding of the rows themselves comes to.
            refine_tol=nx.epsilon(points),
            rng=rng,
        )

    fitted = None
    if n == problem.n > _MORE * tuning.n_columns:
        points, own = chosen.points, targets
        if n > _JUDGED:
            drawn = draw_some(fit.rng, n, _JUDGED)
            points = nx.take_rows(points, drawn)
            own = targets.like(targets.values[drawn])
        wanted = n_left_out if own is targets and n_left_out else UNSEEN_ROWS
        seed, own_weight = int(fit.rng.integers(2**32)), own.fit_weights(None)

        def judged(C: float) -> tuple[FitResult, float]:
            rng = np.random.default_rng(seed)
            found = solved(C, wanted, rng, points, own)
            values = nx.to_numpy(found.solution.loo_decision)
            return found, -own.score(values, own_weight, found.loo_rows)

        tuning, fitted = better_C(tuning, points.shape[0], judged)
        fit = fit._replace(tuning=tuning)
    if fitted is None or own is not targets:
        fitted = solved(tuning.C, n_left_out, fit.rng, chosen.points, targets)
    model = replace(fit.model(chosen, fitted.solution), order=order)
    if not n_left_out:
        return model
    values = nx.to_numpy(fitted.solution.loo_decision)
    some = fitted.loo_rows
    weight = None if weight is None else weight[some]
    numbers = NO_ROWS if order is None else order[some]
    return replace(model, unseen=Unseen(values, targets.values[some], weight, numbers))


def _is_singular(found: GrownSolution | NearBoundary) -> bool:
    """Return True if float32 needed jitter, which takes directions of small C away."""
    if isinstance(found, NearBoundary):
        return False
    info: SolveInfo = found.solution.info
    return info.relative_jitter > 0


def _without(weight: np.ndarray | None, held: np.ndarray, n: int) -> np.ndarray | None:
    """Return weights that are zero for the rows held out."""
    if len(held) == 0:
        return weight
    without = np.ones(n) if weight is None else weight.copy()
    without[held] = 0.0
    return without


# ----------------------------------------------------------------------------------
# More rows for a fitted model: their normal equations are added to those of the rows
# before, on representatives that stay.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stream:
    """State of ``partial_fit`` between two calls, without the model."""

    sums: RunningSums
    """Normal equations of all rows so far, on the host."""
    total: float
    """Weight of all rows so far."""
    rows: np.ndarray
    """Some rows of the first call, on the host: their held-out values calibrate."""
    targets: np.ndarray
    weight: np.ndarray
    precision: str
    """Of the kernel in the equations."""
    unit: TargetUnit
    """Of the targets of all rows: that of the first."""


def begin_stream(problem: Problem, plan: Plan, model: Model, rng) -> Stream:
    """Return the state after the fit of the first rows."""
    info = model.solution.info
    wide = info.solver == "normal_equations" and info.precision == "float64"
    precision = "float64" if wide else nx.dtype_name(problem.rows)
    sums = _equations(problem, plan, model, precision, None)
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    total = model.representatives.weights.sum()
    some = draw_some(rng, np.flatnonzero(weight), UNSEEN_ROWS)
    rows, values = nx.take_rows(problem.rows, some), problem.targets.values[some]
    host = rows if nx.is_sparse(rows) else nx.to_numpy(rows)
    unit = problem.targets.unit
    return Stream(sums.on_host(), total, host, values, weight[some], precision, unit)


def learn_part(
    stream: Stream, problem: Problem, first: Problem, plan: Plan, model: Model, rng
) -> tuple[Model, Stream]:
    """Add the equations of new rows, and solve for the coefficients.

    ``first`` is the problem of the rows that the stream has of the first call.
    """
    sums = _equations(problem, plan, model, stream.precision, stream.sums)
    total = stream.total + (
        problem.n if problem.weight is None else problem.weight.sum()
    )
    points = nx.astype(model.representatives.points, stream.precision)
    wanted = np.arange(first.n) if plan.calibrates or plan.moves_intercept else None
    with errors_at(model.C), nx.products_in(plan.precision):
        data = _row_data(first, model.kernel, first.fit_weight, points)
        solution = solve_running(data, points, sums, C=model.C, loo_rows=wanted)
    chosen = model.representatives
    chosen = replace(chosen, weights=chosen.weights * (total / stream.total))
    model = replace(
        model, solution=solution, representatives=chosen, fit_rows=None, unseen=None
    )
    if wanted is not None:
        unseen = unseen_values(solution.loo_decision, first, wanted)
        model = replace(model, unseen=unseen)
    stream = replace(stream, sums=sums.on_host(), total=total)
    return calibrated(model, first, plan, rng), stream


def _equations(problem: Problem, plan: Plan, model: Model, precision: str, before):
    """Add rows to the running normal equations."""
    points = nx.astype(model.representatives.points, precision)
    with nx.products_in(plan.precision):
        return add_rows(
            _row_data(problem, model.kernel, problem.fit_weight, points),
            points,
            before,
            memory_budget=plan.memory_budget,
            callback=plan.progress("row"),
        )


def _row_data(problem: Problem, kernel: Kernel, weight, points: Array) -> RowData:
    given = problem.targets.columns(), weight
    return RowData(kernel, problem.rows, *(nx.as_like(v, points) for v in given))
