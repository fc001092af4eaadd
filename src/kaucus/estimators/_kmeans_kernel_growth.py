"""How many representatives there are to be, of which class, and what may be added.

With a given number: those, and what ``refine`` adds to them. With ``"auto"``: every row
where there are few; else a quarter of the most that ``target`` allows, doubled as long
as rows held out say that it helps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import dense_rows, take_rows
from kaucus.estimators._kernel_input import beside
from kaucus.kernels import Kernel
from kaucus.representatives import ALLOCATIONS, allocate
from kaucus.solvers import affordable_search, columns_bytes, search_on_representatives


class Target(NamedTuple):
    """What is asked of a model whose size is left open."""

    most: int
    """Representatives in all."""
    least_gain: float
    """A doubling must lessen the log-loss of rows held out by more than this share."""


TARGETS: Mapping[str, Target] = {
    "fastest": Target(1000, 0.02),
    "balanced": Target(6000, 0.01),
    "best": Target(12_000, 0.0),
}
REFINEMENTS = (None, "residual", "random", "auto")
_BOTH = ("residual", "random")
_HELD_OUT = 5000
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
    numbers: Sequence[int] | None,
    sizes: Sequence[int],
    *,
    allocation: str,
    target: str,
    refine: str | None,
    n_refine: int | None,
    rounds: int,
    budget: int,
    factored: bool = False,
) -> Growth:
    """Return what to begin with and what to add.

    Parameters
    ----------
    numbers : sequence of int, or None
        Representatives of each group; None leaves them open.
    sizes : sequence of int
        Rows of each group.
    allocation, target, refine, n_refine, rounds
        As the estimators have them.
    budget : int
        Bytes; half of them bound the number of representatives.
    factored : bool, default=False
        As in :func:`most_rows`.
    """
    n = int(sum(sizes))
    if numbers is not None:
        return _given(list(numbers), n, refine, n_refine, rounds)
    if n <= most_rows(target, budget, factored=factored):
        return Growth([int(size) for size in sizes], [])
    wanted, most = TARGETS[target], most_representatives(target, budget)
    first = allocate(max(most // 4, len(sizes)), sizes, allocation)
    additions, total = [], sum(first)
    while total < most:
        additions.append(min(total, most - total))
        total += additions[-1]
    choices = _BOTH if refine in (None, "auto") else (refine,)
    return Growth(first, additions, choices, wanted.least_gain, _n_held_out(n))


def most_rows(target: str, budget: int, *, factored: bool) -> int:
    """Return up to how many rows every row is a representative, if that is left open.

    Where this is one factorisation of n rows (``factored``), n³/3 multiplications, it
    takes no longer than m representatives of them, n m², up to n = √3 m.
    """
    return int(most_representatives(target, budget) * (3**0.5 if factored else 1))


def most_representatives(target: str, budget: int) -> int:
    """Return how many representatives there may be, if that is left open."""
    most = min(TARGETS[target].most, int((budget / 2 / 44) ** 0.5))
    # Several threads need more for each, and a block of rows must find room too.
    while most > 1 and columns_bytes(most, _FLOAT32) > _SHARE * budget:
        most = most * 19 // 20
    return max(most, 1)


def _given(numbers, n: int, refine, n_refine, rounds: int) -> Growth:
    if refine is None:
        return Growth(numbers, [])
    wanted = 2 * sum(numbers) if n_refine is None else n_refine
    parts = np.array_split(np.arange(min(wanted, n)), rounds)
    additions = [len(part) for part in parts if len(part)]
    if refine != "auto":
        return Growth(numbers, additions, (refine,))
    return Growth(numbers, additions, _BOTH, n_held_out=_n_held_out(n))


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
    part = take_rows(rows, beside(rows, some))
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
            beside(Z, Y[some]),
            Z,
            [C],
            sample_weight=None if weight is None else beside(Z, weight[some]),
            memory_budget=memory_budget,
        )
        losses.append(found.losses[0, 0])
    return ALLOCATIONS[int(np.argmin(losses))]
