"""How many representatives there are to be, of which group, and what may be added.

With a given number: those, and what ``refine`` adds to them. With a word: every row
where there are few; else an eighth of the most that the word allows, doubled as long as
rows held out say that it helps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import as_like, dense_rows, resolve_budget, take_rows
from kaucus.kernels import Kernel
from kaucus.machines._problem import Plan, Problem
from kaucus.machines._targets import ClassTargets
from kaucus.solvers import affordable_search, columns_bytes, search_on_representatives


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
