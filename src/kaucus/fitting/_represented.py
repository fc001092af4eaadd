"""Fit on representatives: how many, which, solve, calibrate; more rows later."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kaucus._array.blocks import release_freed_memory, resolve_budget
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import (
    Array,
    as_like,
    astype,
    concat_rows,
    dense_rows,
    dtype_name,
    epsilon,
    itemsize,
    products_in,
    take_rows,
    to_numpy,
)
from kaucus._array.segments import draw_some
from kaucus.clustering._kmeans import (
    Representatives,
    represent_classes,
    speak_for,
    with_rows,
)
from kaucus.fitting._problem import (
    NO_ROWS,
    NO_UNIT,
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
from kaucus.fitting._search import Tuning, better_C, choose_kernel
from kaucus.kernels._kernel import Kernel
from kaucus.kernels._matrix import kernel_expansion
from kaucus.kernels._metric import MappedKernel
from kaucus.solvers._auto import fit_ls_svm
from kaucus.solvers._choice import affordable_search, search_on_representatives
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


class Growth(NamedTuple):
    """The first representatives of each group, and what may be added to them."""

    numbers: list[int]
    additions: list[int]
    choices: tuple[str, ...] = ()
    """How rows are chosen; of several, rows held out decide."""
    least_gain: float = -math.inf
    n_held_out: int = 0


def plan_growth(
    problem: Problem,
    plan: Plan,
    kernel: Kernel,
    C: float,
    groups: np.ndarray,
    rng: np.random.Generator,
) -> Growth:
    """Return how many representatives of each group, and what is added to them.

    ``groups`` are those of the rows that are clustered apart; ``kernel`` and ``C`` are
    for a trial of how to share representatives out.
    """
    weight, size = problem.weight, plan.size
    present = groups if weight is None else groups[weight > 0]
    sizes = np.bincount(present, minlength=problem.targets.n_groups)
    if isinstance(size, str) and plan.fit_on == "representatives":
        size = [OPEN_REPRESENTATIVES] * len(sizes)
    if isinstance(size, int):
        size = allocate(size, sizes, "proportional")
    if not isinstance(size, str):
        rounds = 1 if plan.fit_on == "boundary" else 2
        return grow_from(size, len(present), plan.refine, rounds)
    budget = resolve_budget(plan.memory_budget, problem.rows)
    # Where every row is a representative and weighs the same, their least squares are
    # factored at once; the equations of later rows are not.
    factored = weight is None and not plan.streamed
    if len(present) <= most_rows(size, budget, factored=factored):
        return Growth(sizes.tolist(), [])
    allocation = "proportional"
    if isinstance(problem.targets, ClassTargets):
        allocation = choose_allocation(
            kernel,
            C,
            problem.rows,
            problem.targets.columns(),
            groups,
            weight=problem.fit_weight,
            rng=rng,
            memory_budget=plan.memory_budget,
        )
    most = most_representatives(size, budget)
    growth = grow_openly(size, sizes, allocation, most)
    return growth._replace(least_gain=-np.inf) if plan.grows_fully else growth


def grow_from(
    numbers: Sequence[int], n: int, refine: int | str | None, rounds: int
) -> Growth:
    """Return the given representatives, and what ``refine`` adds to them.

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
    n_held_out = _n_held_out(int(sum(sizes)))
    return Growth(first, additions, _BOTH, SIZES[size].least_gain, n_held_out)


def most_rows(size: str, budget: int, *, factored: bool) -> int:
    """Return up to how many rows every row is a representative, if that is left open.

    Where this is one factorisation of n rows (``factored``), n³/3 multiplications, it
    takes no longer than m representatives of them, n m², up to n = √3 m.
    """
    return int(most_representatives(size, budget) * (3**0.5 if factored else 1))


def most_representatives(size: str, budget: int) -> int:
    """Return how many representatives there may be, if that is left open."""
    most = min(SIZES[size].most, int((budget / 2 / 44) ** 0.5))
    # Several threads need more for each, and a block of rows must find room too.
    while most > 1 and columns_bytes(most, _FLOAT32) > _SHARE * budget:
        most = most * 19 // 20
    return max(most, 1)


def _n_held_out(n: int) -> int:
    return min(max(n // 10, 1), _HELD_OUT)


def choose_allocation(
    kernel: Kernel,
    C: float,
    rows,
    Y: np.ndarray,
    labels: np.ndarray,
    *,
    weight: np.ndarray | None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
) -> str:
    """Return how to share out representatives among classes, by leave-one-out.

    Each way is tried with random rows of the classes as columns, on a part of the rows.
    """
    present = np.arange(len(Y)) if weight is None else np.flatnonzero(weight)
    sizes = np.bincount(labels[present])
    sizes = sizes[sizes > 0]
    if sizes.max() <= _ABOUT_EQUAL * sizes.min():
        return "equal"
    order = rng.permutation(present)
    n_rows, n_columns = affordable_search(
        *_TRIAL, rows.shape[1], Y.shape[1], memory_budget
    )
    some = order[:n_rows]
    part = take_rows(rows, some)
    counts = np.bincount(labels[order])
    losses = []
    for how in ALLOCATIONS:
        numbers = allocate(min(n_columns, len(order) // 2), counts, how)
        columns = np.concatenate(
            [order[labels[order] == c][:k] for c, k in enumerate(numbers)]
        )
        Z = dense_rows(rows, columns)
        found = search_on_representatives(
            [kernel],
            part,
            as_like(Y[some], Z),
            Z,
            [C],
            sample_weight=None if weight is None else as_like(weight[some], Z),
            memory_budget=memory_budget,
        )
        losses.append(found.losses[0, 0])
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
#     1  tune        choose kernel, gamma and C by leave-one-out on some rows; or a metric
#                    with them, by rows held out, in which everything else is then done
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


# ----------------------------------------------------------------------------------
# State of ``partial_fit`` between two calls.
# ----------------------------------------------------------------------------------


class KeptRows(NamedTuple):
    """Rows on the host, in the order in which they came."""

    rows: np.ndarray
    """Or a CSR matrix."""
    targets: np.ndarray
    """Labels, (n,), or outputs, (n, t)."""
    weight: np.ndarray
    keys: np.ndarray
    """Random numbers: those of the least are the sample."""

    def joined(self, other: "KeptRows") -> "KeptRows":
        """Return these rows and then the others."""
        rows = concat_rows(self.rows, astype(other.rows, dtype_name(self.rows)))
        pairs = zip(self[1:], other[1:], strict=True)
        return KeptRows(rows, *(np.concatenate(pair) for pair in pairs))

    def sample(self, n: int) -> "KeptRows":
        """Return n rows at random; all where there are fewer."""
        if len(self.keys) <= n:
            return self
        some = np.sort(np.argpartition(self.keys, n)[:n])
        return KeptRows(*(part[some] for part in self))

    def scaled(self, total: float) -> "KeptRows":
        """Return the rows with weights that sum to ``total``."""
        share = total / max(self.weight.sum(), 1e-300)
        return self if share == 1 else self._replace(weight=self.weight * share)


class Stream(NamedTuple):
    """State of ``partial_fit`` between two calls, without the model."""

    kept: KeptRows
    n_seen: int
    total: float
    """Weight of all rows seen."""
    groups: np.ndarray
    """Rows seen of each class; of all, for numbers."""
    rng: np.random.Generator
    """Draws the keys."""
    all_kept: bool
    n_chosen: int = 0
    """Rows seen when the model was chosen."""
    n_tuned: int = 0
    """Rows seen when kernel and C were chosen."""
    n_C: int = 0
    """Rows seen when C was looked at again; 0: it is due as soon as rows are gone."""
    groups_chosen: np.ndarray | None = None
    """``groups`` at that time."""
    sums: RunningSums | None = None
    """Equations of all rows seen; None: to be made of the rows kept."""
    precision: str | None = None
    """Of the kernel in these equations."""
    unit: TargetUnit = NO_UNIT
    """Of the targets of all rows: that of the first."""


def as_rows(
    model: Model, targets: Targets, memory_budget: int | str | None
) -> tuple[Representatives, np.ndarray]:
    """Return the representatives, and targets from which the model is fitted again.

    Least squares of the representatives alone, with targets t and weights W, have
    the solution a, b if K (W (K a + b − t) + a / C) = 0 and 1ᵀ W (K a + b − t) = 0.
    Both hold for t = f(Z) + W⁻¹ a / C where 1ᵀ a = 0, as in a machine of all rows,
    whose targets these are. Else the mean of W⁻¹ a is taken off, for the second.
    """
    chosen, solution = model.representatives, model.solution
    now = kernel_expansion(
        model.kernel,
        chosen.points,
        chosen.points,
        as_like(solution.dual_coef, chosen.points),
        memory_budget=memory_budget,
    )
    now = to_numpy(now) + to_numpy(solution.intercept)
    coef = to_numpy(solution.dual_coef).astype(np.float64)
    weight = chosen.weights
    if targets.n_groups > 1:
        weight = targets.like(chosen.labels).fit_weights(weight)
    assert weight is not None
    pull = coef / np.where(weight > 0, weight, np.inf)[:, None]
    pull = (pull - coef.sum(axis=0) / weight.sum()) / model.C
    return chosen, now + pull


# ----------------------------------------------------------------------------------
# Rows that come in parts: what is kept of them, and when a model is chosen anew.
#
# As long as there are few rows, all are kept. The model is chosen anew from them,
# kernel, C and representatives, whenever there are twice as many as at the last choice:
# together that costs about two fits. In between, and for good when there are too many
# rows to be kept, the representatives stay, and the normal equations of all rows seen
# are kept: the coefficients are those of one fit of all rows on these representatives.
#
# Of many rows a random sample is kept: for the temperature of probabilities, and for a
# class whose rows come late. Such a class has no representatives, and nothing is known
# of their kernel at rows that are gone; then the model is chosen anew from the sample,
# which has the weight of all rows.
# ----------------------------------------------------------------------------------

# Rows that are kept: at least, for each representative that is asked for, and for each
# of the most that there may be. No more than an eighth of the memory budget.
_LEAST_KEPT, _KEPT_EACH, _KEPT_OPEN = 10_000, 10, 2
_KEPT_SHARE = 8
# The model is chosen anew when there are so many times the rows of the last choice;
# where every row of a group was a representative, earlier, unless rows are gone. Fewer
# new rows of a group than this are no reason, unless they are its first.
_ANEW, _ANEW_FEW, _FEW_ROWS = 2.0, 1.5, 10
# C is looked at again, beside its neighbours, when there are so many times the rows.
_C_ANEW = 1.25


class PartialFit(NamedTuple):
    """How parts of the rows are taken in."""

    plan: Plan
    """Its kernels are not used."""
    kernels: Callable[[Array, np.ndarray | None], Sequence[Sequence[Kernel]]]
    """Returns the kernels to choose from, of rows and weights; see ``Plan``."""
    targets: Targets
    """Of any rows; tells their kind."""
    place: Callable[[Array], Array]
    """Brings rows of the host to where the work is."""
    make_rng: Callable[[], np.random.Generator]
    """Draws for a choice of the model."""

    # ---- a stream begins -------------------------------------------------------------

    def begin(self, rows: Array, targets: np.ndarray, rng) -> Stream:
        """Return a stream of no rows; those given tell their kind."""
        nothing = KeptRows(rows[:0], targets[:0], np.empty(0), np.empty(0))
        groups, unit = self._count(targets[:0]), self.targets.unit
        return Stream(nothing, 0, 0.0, groups, rng, all_kept=True, unit=unit)

    def begin_with(self, model: Model, rng) -> Stream:
        """Return a stream in which the model's representatives are the rows seen."""
        chosen, columns = as_rows(model, self.targets, self.plan.memory_budget)
        points, weight, n = chosen.points, chosen.weights, len(chosen.weights)
        numbers = chosen.labels if self.targets.n_groups > 1 else columns
        groups = self._count(numbers)
        stream = Stream(
            KeptRows(to_numpy(points), numbers, weight, rng.random(n)),
            n,
            weight.sum(),
            groups,
            rng,
            all_kept=False,
            n_chosen=n,
            n_tuned=n,
            # Not every row of theirs is a representative.
            groups_chosen=groups + (groups > 0),
            precision=dtype_name(points),
            unit=self.targets.unit,
        )
        if self.plan.fit_on == "representatives":
            return stream
        fit_weight = self.targets.like(numbers).fit_weights(weight)
        data = _row_data(model, points, points, columns, fit_weight)
        sums = add_rows(data, points, memory_budget=self.plan.memory_budget)
        return stream._replace(sums=sums.on_host())

    # ---- a part comes ----------------------------------------------------------------

    def take_in(
        self, stream: Stream, model: Model | None, rows: Array, targets, weight
    ) -> tuple[Model, Stream]:
        """Learn from a part of the rows, which are on the host.

        Parameters
        ----------
        stream : Stream
        model : Model or None
            Of the earlier rows; its points are where the work is.
        rows, targets, weight
            Of the part.

        Returns
        -------
        model, stream
        """
        part = KeptRows(rows, targets, weight, stream.rng.random(len(targets)))
        stream = stream._replace(
            n_seen=stream.n_seen + len(targets),
            total=stream.total + weight.sum(),
            groups=stream.groups + self._count(targets),
        )
        if model is None or self._is_due(stream, model, rows):
            return self._choose_anew(stream, model, part)
        if self.plan.fit_on == "representatives":
            return self._move(stream, model, part)
        return self._go_on(stream, model, part)

    def _count(self, targets: np.ndarray) -> np.ndarray:
        of_rows = self.targets.like(targets)
        return np.bincount(of_rows.groups(), minlength=of_rows.n_groups)

    def _is_due(self, stream: Stream, model: Model, rows: Array) -> bool:
        """Tell whether the model is to be chosen anew."""
        if stream.groups_chosen is None:
            return True
        if self.plan.fit_on == "representatives" and not stream.all_kept:
            return False  # those that move need no rows but their own class's
        last = stream.n_seen > self.most_kept(rows)  # rows will be gone
        wanted = _ANEW_FEW if last else _ANEW
        if stream.all_kept and stream.n_seen >= wanted * stream.n_chosen:
            return True
        # Groups of which every row was a representative, or which were a smaller share.
        then, now = stream.groups_chosen, stream.groups
        have = np.bincount(_group_numbers(self, model), minlength=len(now))
        rose = now * stream.n_chosen >= _ANEW * then * stream.n_seen
        wanted = _ANEW_FEW if stream.all_kept else _ANEW
        many = (now - then >= _FEW_ROWS) | (then == 0)
        more = many & (now >= np.maximum(wanted * then, 1))
        return bool(np.any(((have >= then) | rose) & more))

    def most_kept(self, rows: Array) -> int:
        """Return how many rows are kept."""
        budget, size = resolve_budget(self.plan.memory_budget, rows), self.plan.size
        if isinstance(size, str):
            wanted = _KEPT_OPEN * most_representatives(size, budget)
        else:
            wanted = _KEPT_EACH * int(np.sum(size))
        fit = budget // _KEPT_SHARE // (itemsize(rows) * rows.shape[1])
        return max(min(max(wanted, _LEAST_KEPT), fit), 1)

    def _choose_anew(self, stream: Stream, model: Model | None, part: KeptRows):
        """Fit the rows kept and the new ones; of very many, a sample."""
        before, n_most = stream.kept, self.most_kept(part.rows)
        if not stream.all_kept:
            before = before.scaled(stream.total - part.weight.sum())
        kept = before.joined(part)
        keeps_equations = self.plan.fit_on != "representatives"
        few = kept.sample(2 * n_most) if keeps_equations else kept
        tunes = stream.n_seen >= _ANEW * stream.n_tuned or not stream.all_kept
        problem = self._problem(few.scaled(stream.total))
        tuned = None if tunes or model is None else Tuning(*model[:3])
        plan = self.plan._replace(
            kernels=[] if tuned else self.kernels(few.rows, problem.fit_weight),
            streamed=True,
            # How many representatives help is not told by the first of many rows.
            grows_fully=len(few.keys) > n_most,
        )
        model = fit_represented(problem, plan, self.make_rng(), tuned=tuned)
        stream = stream._replace(
            kept=kept,
            n_chosen=stream.n_seen,
            n_tuned=stream.n_seen if tunes else stream.n_tuned,
            n_C=0,
            groups_chosen=stream.groups,
            sums=None,
            precision=_precision_of_columns(model, part.rows),
        )
        if stream.all_kept and len(kept.keys) <= n_most:
            return model, stream
        stream = stream._replace(kept=kept.sample(n_most), all_kept=False)
        if not keeps_equations:
            return model, stream
        sums = self._add(model, stream, kept, None)
        chosen = model.representatives
        share = stream.total / chosen.weights.sum()  # where it was a sample
        chosen = chosen._replace(weights=chosen.weights * share)
        model = model._replace(representatives=chosen)
        stream = stream._replace(sums=sums.on_host())
        return self._solve(stream, model, sums)

    def _go_on(self, stream: Stream, model: Model, part: KeptRows):
        """Add the equations of new rows to those of the others, and solve."""
        before = stream.sums
        if before is None:
            before = self._add(model, stream, stream.kept, None)
        sums = self._add(model, stream, part, before)
        stream = self._with_part(stream, part)._replace(sums=sums.on_host())
        chosen = speak_for(
            model.representatives,
            self.place(part.rows),
            self.targets.like(part.targets).groups(),
            part.weight,
            metric=self.plan.kmeans.metric,
            memory_budget=self.plan.memory_budget,
        )
        model = model._replace(representatives=chosen)
        return self._solve(stream, model, sums)

    def _with_part(self, stream: Stream, part: KeptRows) -> Stream:
        """Return the stream with as many of the new rows as are kept."""
        kept, n_most = stream.kept.joined(part), self.most_kept(part.rows)
        all_kept = stream.all_kept and len(kept.keys) <= n_most
        return stream._replace(kept=kept.sample(n_most), all_kept=all_kept)

    def _problem(self, kept: KeptRows) -> Problem:
        weight = None if np.all(kept.weight == 1) else kept.weight
        targets = self.targets.like(kept.targets)
        return Problem.of(self.place(kept.rows), targets, weight)

    def _add(self, model: Model, stream: Stream, part: KeptRows, before):
        """Add rows to the running normal equations."""
        targets = self.targets.like(part.targets)
        points = astype(model.representatives.points, stream.precision)
        data = _row_data(
            model,
            points,
            self.place(part.rows),
            targets.columns(),
            targets.fit_weights(part.weight),
        )
        with products_in(self.plan.precision):
            return add_rows(
                data,
                points,
                before,
                memory_budget=self.plan.memory_budget,
                callback=self.plan.progress("row"),
            )

    def _solve(self, stream: Stream, model: Model, sums: RunningSums):
        """Solve for the coefficients, and choose C again when it is due."""
        plan = self.plan
        points = astype(model.representatives.points, stream.precision)
        due = not stream.all_kept and stream.n_seen >= _C_ANEW * stream.n_C
        tunes = due and len(plan.Cs) > 1
        wanted = tunes or plan.calibrates or plan.moves_intercept
        some = stream.kept.sample(UNSEEN_ROWS)
        problem = Problem.of(
            self.place(some.rows), self.targets.like(some.targets), some.weight
        )
        data = _row_data(
            model,
            points,
            problem.rows,
            problem.targets.columns(),
            problem.fit_weight,
        )
        every = np.arange(problem.n)
        loo_rows = every if wanted else None

        def solve(C: float) -> LSSVMSolution:
            return solve_running(data, points, sums, C=C, loo_rows=loo_rows)

        def loss(values: Array) -> float:
            return -problem.targets.score(to_numpy(values), problem.fit_weight, every)

        C = model.C
        with errors_at(C), products_in(plan.precision):
            solution = solve(C)
            if tunes:
                C, solution = better_C(solve, loss, C, solution)
        model = model._replace(C=C, solution=solution, fit_rows=None, unseen=None)
        if wanted:
            unseen = unseen_values(solution.loo_decision, problem, every)
            model = model._replace(unseen=unseen)
        stream = stream._replace(n_C=stream.n_seen if tunes else stream.n_C)
        return calibrated(model, problem, plan, stream.rng), stream

    def _move(self, stream: Stream, model: Model, part: KeptRows):
        """Cluster new rows together with the representatives, and solve for these."""
        rng, old = self.make_rng(), model.representatives
        size, n_classes = self.plan.size, self.targets.n_groups
        wanted = [OPEN_REPRESENTATIVES] * n_classes if isinstance(size, str) else size
        numbers = np.maximum(np.bincount(old.labels, minlength=n_classes), wanted)
        rows = self.place(part.rows)
        chosen = represent_classes(
            rows,
            part.targets,
            numbers.tolist(),
            options=self.plan.kmeans,
            sample_weight=part.weight,
            old=old,
            rng=rng,
            memory_budget=self.plan.memory_budget,
            callback=self.plan.progress(self.targets.clustered),
        )
        labels = np.concatenate([old.labels, part.targets])
        problem = Problem.of(
            self.place(concat_rows(to_numpy(old.points), part.rows)),
            self.targets.like(labels),
            np.concatenate([old.weights, part.weight]),
        )
        model = refit_moved(problem, self.plan, model, chosen, rng)
        return model, self._with_part(stream, part)


def _group_numbers(fit: PartialFit, model: Model) -> np.ndarray:
    """Return the group of each representative."""
    labels = model.representatives.labels
    return labels if fit.targets.n_groups > 1 else np.zeros_like(labels)


def _row_data(model: Model, points, rows, columns, weight) -> RowData:
    given = (as_like(columns, points), as_like(weight, points))
    return RowData(model.kernel, rows, *given)


def _precision_of_columns(model: Model, rows: Array) -> str:
    """Return the precision in which the kernel's columns have to be."""
    info = model.solution.info
    wide = info.solver == "normal_equations" and info.precision == "float64"
    return "float64" if wide else dtype_name(rows)
