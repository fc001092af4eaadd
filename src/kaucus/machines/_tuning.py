"""Choose kernel, gamma and C by leave-one-out on some of the rows.

The columns are those of rows drawn at random, not of centres: a centre of a class's few
rows knows the label of the row that is left out, and leave-one-out would then choose
models that learn by heart. On four UCI sets with 100 centres a class, C and gamma found
on the centres gave 85.7 % of the test rows, those found on random rows 86.8 %.

Kernels are first compared with half of the columns, which costs less than a quarter;
the best two or three then with all. Classifiers are compared by the log-loss: the
squared error counts it against a model that some values are on the right side by more
than 1. What else was tried: docs/theory/kmeans-kernel.md.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    as_like,
    dense_rows,
    draw_some,
    release_freed_memory,
    take_rows,
    warn_user,
)
from kaucus.kernels import Kernel, MappedKernel
from kaucus.machines._metric import enough_rows, search_metric
from kaucus.machines._problem import Plan, Problem, errors_at
from kaucus.solvers import affordable_search, search_on_representatives

# By so much, relative to its own size, the score must still rise towards an end of the
# grid before it is worth a word.
_RISE = 0.01


def search_table(
    kernels: Sequence[Kernel | None], Cs: Sequence[float], scores: np.ndarray
) -> dict[str, np.ndarray]:
    """Return a row for every kernel and C, as columns that pandas takes.

    Parameters
    ----------
    kernels : sequence of Kernel, or None for a given matrix
    Cs : sequence of float
    scores : ndarray of shape (n_kernels, n_Cs)
        The larger the better; NaN for what was not tried.

    Returns
    -------
    dict
        ``kernel``, ``gamma`` (NaN for a kernel without one), ``C`` and ``score``.
    """
    pairs = [(kernel, C) for kernel in kernels for C in Cs]
    return {
        "kernel": np.asarray([_name(kernel) for kernel, _ in pairs], dtype=object),
        "gamma": np.asarray([gamma_of(kernel) for kernel, _ in pairs], dtype=float),
        "C": np.asarray([C for _, C in pairs], dtype=float),
        "score": np.asarray(scores, dtype=float).ravel(),
    }


def join_tables(tables: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return one table with the rows of several."""
    tables = [search_table([], [], np.empty(0)), *tables]
    return {key: np.concatenate([t[key] for t in tables]) for key in tables[0]}


def gamma_of(kernel: Any) -> float:
    """Return the width of a kernel, NaN if it has none."""
    gamma = getattr(kernel, "gamma", None)
    return np.nan if gamma is None else float(gamma)


def _name(kernel: Any) -> str:
    return "precomputed" if kernel is None else getattr(kernel, "name", repr(kernel))


def warn_at_edge(name: str, values: Sequence[float], scores: np.ndarray) -> None:
    """Warn where the best of some values is an end of them, and the score still rises.

    Parameters
    ----------
    name : str
        Of the parameter that lists the values.
    values : sequence of float
    scores : ndarray of shape (n_values,)
        The best score of each.
    """
    side = rising_end(values, scores)
    if side == 0:
        return
    best = min(values) if side < 0 else max(values)
    end = "least" if side < 0 else "largest"
    warn_user(
        f"The best of {name}, {best:g}, is the {end} that was tried (score "
        f"{np.nanmax(scores):.4g}); a value beyond it may be better. Pass {name} that "
        f"go on to {best * 10.0**side:g} and further.",
        UserWarning,
    )


def rising_end(values: Sequence[float], scores: np.ndarray) -> int:
    """Return −1 or 1 where the score clearly rises to the least or largest value.

    0 where the best is inside, or hardly better than its neighbour.

    >>> rising_end([1, 10, 100], np.array([0.5, 0.7, 0.9]))
    1
    """
    order = np.argsort(values)
    scores = np.asarray(scores, dtype=float)[order]
    best = int(np.nanargmax(scores))
    if len(order) < 2 or best not in (0, len(order) - 1):
        return 0
    neighbour = scores[1] if best == 0 else scores[-2]
    if not scores[best] - neighbour > _RISE * abs(neighbour):
        return 0
    return -1 if best == 0 else 1


CS = 10.0 ** np.arange(-2, 4.1, 0.5)
"""What ``C="auto"`` chooses from."""
GAMMA_FACTORS = 4.0 ** np.arange(-2, 3)
"""``gamma="tune"`` chooses from these times that of ``"scale"``."""
AUTO_KERNELS = ("exponential", "rbf")
"""What ``kernel="auto"`` chooses from."""
# So many kernels, the best by half of the columns, are compared by all of them; and the
# best of each name.
_FINALISTS = 2
_C_STEP = float(CS[1] / CS[0])
# The least and the largest gamma are tried where the one next to them has less than
# this share of the loss of the one in the middle.
_OUTWARDS = 0.9
# Steps beyond the end of a grid, at most, and by what share each must lessen the loss.
_MOST_BEYOND, _LEAST_FALL = 4, 0.01


class _Size(NamedTuple):
    """Rows and columns of a search."""

    below: float
    """For so many rows, all in all."""
    rows: int
    columns: int
    handicap: float
    """By which losses of the Gaussian are multiplied before they are compared.

    Few columns do it more justice than kernels that are rough. On labels of random
    decision trees, 2,200 and 4,500 rows, its loss was 0.98 to 1.005 times that of the
    exponential kernel and its accuracy less by 0.6 on average; where it is better, its
    loss is less by more.
    """


# The more rows there are, the narrower is the best kernel, and few columns do not show
# it.
_SIZES = (
    _Size(2000, 1000, 200, 1.0),
    _Size(50_000, 3000, 800, 1.02),
    _Size(math.inf, 5000, 1000, 1.02),
)


class Tuning(NamedTuple):
    """What was chosen, and what was tried."""

    kernel: Kernel
    C: float
    results: dict[str, np.ndarray]
    """A row for every kernel and C (see ``_search_table``); the score is minus the
    leave-one-out loss, in which the Gaussian has its handicap."""


def choose_kernel(problem: Problem, plan: Plan, rng: np.random.Generator) -> Tuning:
    """Choose kernel and C by leave-one-out, or with a metric by rows held out."""
    if plan.metric is not None and enough_rows(problem.n, problem.fit_weight):
        found = search_metric(
            problem,
            plan.metric,
            rng,
            callback=plan.progress("stage"),
            memory_budget=plan.memory_budget,
        )
        release_freed_memory()
        kernel = MappedKernel(found.kernel, found.row_map)
        return Tuning(kernel, found.C, found.results)
    if len(plan.Cs) == 1 and [len(path) for path in plan.kernels] == [1]:
        return Tuning(plan.kernels[0][0], float(plan.Cs[0]), join_tables([]))
    Y, loss = problem.targets.search(problem.fit_weight)
    with errors_at(max(plan.Cs)):
        found = tune(
            plan.kernels,
            plan.Cs,
            problem.rows,
            Y,
            loss=loss,
            weight=problem.fit_weight,
            rng=rng,
            callback=plan.progress("kernel"),
            memory_budget=plan.memory_budget,
        )
    release_freed_memory()
    return found


def tune(
    paths: Sequence[Sequence[Kernel]],
    Cs: np.ndarray,
    rows,
    Y: np.ndarray,
    *,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    weight: np.ndarray | None,
    rng: np.random.Generator,
    callback: Callable[[int, int], object] | None = None,
    memory_budget: int | str | None = None,
) -> Tuning:
    """Choose the kernel and C of the least leave-one-out loss.

    Parameters
    ----------
    paths : sequence of sequences of Kernel
        In each, kernels that differ by gamma, in its order.
    Cs : array of float
    rows : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    loss : callable, or None
        Takes leave-one-out decision values for every C, (r, c, t), and the numbers of
        their rows; None is for squared errors.
    weight : array of shape (n,), or None
    rng : numpy.random.Generator
        Draws the rows.
    callback : callable, default=None
        ``callback(n_done, n_kernels)`` after each kernel of a round.
    memory_budget : int, str or None, default=None
        Where it is short, fewer rows and columns are looked at.
    """
    kernels = [kernel for path in paths for kernel in path]
    present = np.arange(len(Y)) if weight is None else np.flatnonzero(weight)
    size = next(size for size in _SIZES if len(present) < size.below)
    n_rows, n_columns = affordable_search(
        size.rows, size.columns, rows.shape[1], Y.shape[1], memory_budget
    )
    size = size._replace(rows=n_rows, columns=n_columns)
    some = draw_some(rng, present, size.rows)
    Z = dense_rows(rows, some[: size.columns])
    part = take_rows(rows, some)

    tables = []

    def search(kernels: Sequence[Kernel], n_columns: int, Cs=Cs) -> np.ndarray:
        found = search_on_representatives(
            kernels,
            part,
            as_like(Y[some], Z),
            Z[:n_columns, :],
            Cs,
            loss=None if loss is None else lambda values: loss(values, some),
            sample_weight=None if weight is None else as_like(weight[some], Z),
            first_rows=True,
            callback=callback,
            memory_budget=memory_budget,
        )
        smooth = np.asarray([kernel.name == "rbf" for kernel in kernels])
        losses = found.losses * np.where(smooth, size.handicap, 1.0)[:, None]
        if n_columns == Z.shape[0]:  # by fewer columns other losses are found
            tables.append(search_table(kernels, Cs, -losses))
        return losses

    if len(kernels) > _FINALISTS:
        # Where all rows can be columns, they are in both rounds: that costs little.
        all_are = len(some) <= size.columns
        first = len(some) if all_are else size.columns // 2
        kernels = _finalists(paths, lambda k: search(k, first).min(axis=1))
    losses = search(kernels, Z.shape[0])
    k, c = np.unravel_index(np.argmin(losses), losses.shape)
    best = _Best(kernels[int(k)], float(Cs[c]), float(losses[k, c]))
    best = _widened(best, paths, Cs, lambda one, C: search([one], Z.shape[0], [C]))
    return Tuning(best.kernel, best.C, join_tables(tables))


class _Best(NamedTuple):
    kernel: Any
    C: float
    loss: float


def _widened(best: _Best, paths, Cs, search) -> _Best:
    """Go on beyond the ends of the grid, as long as the loss falls.

    ``search(kernel, C)`` returns the loss.
    """
    for path in paths:
        if len(path) > 1 and best.kernel in (path[0], path[-1]):
            step = path[1].gamma / path[0].gamma
            by = step if best.kernel == path[-1] else 1 / step
            best = _further(best, search, gamma_by=by)
    if len(Cs) > 1 and best.C in (Cs[0], Cs[-1]):
        step = Cs[1] / Cs[0]
        best = _further(best, search, C_by=step if Cs[-1] == best.C else 1 / step)
    return best


def _further(best: _Best, search, *, gamma_by=1.0, C_by=1.0) -> _Best:
    """Take steps from the best, while they clearly lessen the loss."""
    for _ in range(_MOST_BEYOND):
        kernel, C = best.kernel, float(C_by * best.C)
        if gamma_by != 1:
            kernel = replace(kernel, gamma=float(gamma_by * kernel.gamma))
        loss = float(search(kernel, C)[0, 0])
        if not loss < (1 - _LEAST_FALL) * best.loss:
            break
        best = _Best(kernel, C, loss)
    return best


def better_C(solve, loss, C: float, solution):
    """Return the C of less loss, the given one or one of its neighbours, and its fit.

    Parameters
    ----------
    solve : callable
        Gives the solution for a C.
    loss : callable
        Of the solution's leave-one-out values.
    C : float
    solution : LSSVMSolution
        For the given C.
    """
    best, best_C, least = solution, C, loss(solution.loo_decision)
    grid = [c for c in (C / _C_STEP, C * _C_STEP) if CS[0] * 0.99 < c < CS[-1] * 1.01]
    for other in grid:
        new = solve(other)
        if (value := loss(new.loo_decision)) < least:
            best, best_C, least = new, other, value
            break  # losses have one minimum or nearly so
    return best_C, best


def _finalists(
    paths: Sequence[Sequence[Kernel]], look: Callable[[list[Kernel]], np.ndarray]
) -> list[Kernel]:
    """Return the best kernels by ``look``, which tells their losses; the best first.

    The ends of a path are looked at only where it falls towards them.
    """
    tried = [(p, kernel) for p, path in enumerate(paths) for kernel in _inner(path)]
    losses = look([kernel for _, kernel in tried])
    of_path = np.asarray([p for p, _ in tried])
    ends = []
    for p, path in enumerate(paths):
        inner = losses[of_path == p]
        best = int(np.argmin(inner))
        falls = inner[best] < _OUTWARDS * inner[len(inner) // 2]
        if len(inner) < len(path) and falls and best in (0, len(inner) - 1):
            ends.append((p, path[0] if best == 0 else path[-1]))
    if ends:
        more = look([kernel for _, kernel in ends])
        tried, losses = tried + ends, np.concatenate([losses, more])
    order = [tried[k] for k in np.argsort(losses, kind="stable")]
    firsts = [next(one for one in order if one[0] == p) for p in range(len(paths))]
    return [one[1] for k, one in enumerate(order) if k < _FINALISTS or one in firsts]


def _inner(path: Sequence[Kernel]) -> Sequence[Kernel]:
    return path[1:-1] if len(path) >= 5 else path
