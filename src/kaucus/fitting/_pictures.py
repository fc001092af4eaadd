"""Fit of a patch kernel: plan, search of alternatives, solve."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    budget_to_have,
    n_workers,
    release_freed_memory,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import Array
from kaucus.fitting._problem import (
    UNSEEN_ROWS,
    ClassTargets,
    Problem,
    all_classes,
    of_rows,
    output_spread,
)
from kaucus.fitting._search import RowJudge, Trial, best_of, paired_gain
from kaucus.kernels._patches import (
    FilterBank,
    FilterGroup,
    KeepingPatchKernel,
    KeptFeatures,
    PatchKernel,
    PictureFeatures,
    add_gaussian,
    learn_distances,
)
from kaucus.solvers._columns import (
    GrownSolution,
    Hardness,
    RowData,
    columns_bytes,
    columns_can_be_kept,
    rows_of_kept_columns,
    solve_with_hard_rows,
)
from kaucus.solvers._direct import solve_ls_svm
from kaucus.solvers._system import LSSVMSolution, fit_temperature, softmax

# ----------------------------------------------------------------------------------
# What a machine for pictures is fitted by, and what comes out.
# ----------------------------------------------------------------------------------


class PicturePlan(NamedTuple):
    """How a machine for pictures is to be fitted."""

    how: PictureFeatures
    """Shape, range and precision; what is left to choose stands in ``choices``."""
    banks: list[FilterBank]
    choices: dict[str, Sequence]
    """The values of mirror, threshold, cells and power to choose from."""
    gammas: Sequence[float]
    Cs: Sequence[float]
    combine: str = "sum"
    """"sum": the Gaussian of summed distances; "mean": the mean of Gaussians."""
    n_representatives: int | None = None
    """None: all pictures if their matrix fits, else as many as do."""
    memory_budget: int | str | None = None
    progress: Callable[[str], Callable[[int, int], object] | None] = lambda stage: None


def make_parts(banks: Sequence[FilterBank], cells, combine: str):
    """Return the parts of a kernel: one of all groups, or one of each."""
    grids = cells if isinstance(cells, tuple) else (cells,)
    groups = [FilterGroup(bank, n_cells) for bank in banks for n_cells in grids]
    return (tuple(groups),) if combine == "sum" else tuple((g,) for g in groups)


def features_for(plan: PicturePlan, chosen: dict) -> PictureFeatures:
    """Return the chosen features of pictures."""
    numbers = {name: float(chosen[name]) for name in ("threshold", "power")}
    return plan.how._replace(**numbers, mirror=bool(chosen["mirror"]))


class PictureModel(NamedTuple):
    """A fitted machine, f(x) = Σ_q a_q k(x, z_q) + b, with its search."""

    kernel: PatchKernel
    C: float
    chosen: dict
    """Mirror, threshold, cells and power."""
    results: list[dict]
    """Candidates and their losses."""
    rows: np.ndarray
    """Numbers of the pictures z_q."""
    solution: LSSVMSolution
    unseen_rows: np.ndarray
    """Numbers of the pictures with leave-one-out values."""
    kept: KeptFeatures
    """Features of the pictures z_q, where there was room for them."""


# ----------------------------------------------------------------------------------
# What is left open in a machine for pictures, and how it is chosen.
#
# Mirror images, threshold, cells and power; then γ and C: by the leave-one-out loss of
# some of the training pictures, each in its turn, with the others fixed. Values
# that are known to be good come first, and give way only to what is better by twice the
# standard error of the difference.
# ----------------------------------------------------------------------------------

PICTURE_GAMMAS = (0.125, 0.25, 0.5, 1.0, 2.0)
PICTURE_CS = (10.0, 30.0, 100.0, 300.0, 1000.0)
# What is compared; the search begins with the first of each.
ALTERNATIVES = {
    "mirror": (False, True),
    "threshold": (1.0, 0.5, 1.5),
    "cells": (3, 4, 2),
    "power": (0.5, 0.35, 1.0),
}
FIRST_GAMMA, FIRST_C = 0.25, 100.0
# Standard errors by which an alternative must be better.
_ERRORS = 2.0
# Pictures and filters by which alternatives are compared; pictures for gamma and C.
# With few filters a low threshold looks better than it is in a model of many: more
# responses are above it. On a GPU there is time for as many as most models have.
_SEARCHED_CPU, _SEARCHED_GPU = (1000, 256, 2500), (6000, 3072, 10_000)


# A candidate: distances of some pictures, a matrix for each part of a kernel; a width;
# mirror, threshold, cells and power.
Candidate = tuple[list[Array], float, dict]


class PictureJudge(RowJudge):
    """Leave-one-out losses of some of the pictures, the first of an order."""

    def __init__(self, problem: Problem, plan: PicturePlan, budget: int, order):
        super().__init__(None)
        self.X, self.targets = problem.rows, problem.targets
        self.problem, self.plan = problem, plan
        self.budget, self.order = budget, order
        # A half for the equations on columns, and one for features.
        self.half = budget_to_have(budget // 2, self.X)
        self.few, self.filters, self.many = (
            _SEARCHED_GPU if nx.on_gpu(self.X) else _SEARCHED_CPU
        )
        # Three matrices: distances, the kernel and its factor, in float64 at most.
        most = max(math.isqrt(budget // 48), 20)
        self.few, self.many = (min(k, most, len(order)) for k in (self.few, self.many))

    def structure(self) -> dict:
        """Choose mirror, threshold, cells and power, each in its turn."""
        chosen = {name: values[0] for name, values in self.plan.choices.items()}
        open_ones = {k: v for k, v in self.plan.choices.items() if len(v) > 1}
        if not open_ones:
            return chosen
        gamma = _nearest(self.plan.gammas, FIRST_GAMMA)
        # At the best of three C: at a fixed one, what is smoother would look better.
        Cs = sorted({_nearest(self.plan.Cs, FIRST_C / k) for k in (1, 3, 10)})
        self._count("alternative", open_ones.values(), len(Cs))
        rows = self.order[: self.few]
        self.weight = of_rows(self.problem.fit_weight, rows)
        X = nx.take_rows(self.X, rows)
        some = slice(0, -(-self.filters // len(self.plan.banks)))
        banks = [bank.part(some) for bank in self.plan.banks]

        def tried(chosen: dict) -> Trial:
            how = features_for(self.plan, chosen)
            parts = make_parts(banks, chosen["cells"], self.plan.combine)
            options = {"budget": self.budget, "sample_weight": self.weight}
            D = [learn_distances(X, how, part, **options)[0] for part in parts]
            best = best_of(self.tried(((D, gamma, chosen), [C]) for C in Cs))
            return replace(best, candidate=chosen)  # the distances go

        best, pays = tried(chosen), paired_gain(_ERRORS, self.weight)
        for name, values in open_ones.items():
            for value in values[1:]:
                new = tried({**best.candidate, name: value})
                best = new if pays(new, best) else best
        return best.candidate

    def width(self, distances: list[Array]) -> tuple[float, float]:
        """Choose γ and C by distances of pictures, the first of the order."""
        gammas, Cs = self.plan.gammas, self.plan.Cs
        first = _nearest(gammas, FIRST_GAMMA)
        if len(gammas) * len(Cs) == 1:
            return first, _nearest(Cs, FIRST_C)
        n = min(self.many, distances[0].shape[0])
        D = [part[:n, :n] for part in distances]
        self.weight = of_rows(self.problem.fit_weight, self.order[:n])
        self._count("pair of gamma and C", (gammas, Cs))
        best = best_of(self.tried(((D, first, {}), [C]) for C in Cs))
        others = (gamma for gamma in gammas if gamma != first)
        jobs = (((D, gamma, {}), [best.C]) for gamma in others)
        best = best_of([best, *self.tried(jobs)])
        _, gamma, _ = best.candidate
        return gamma, best.C

    def work(self, job) -> np.ndarray:
        ((D, gamma, _), Cs), found = job, []
        rows, xp = self.order[: D[0].shape[0]], nx.array_namespace(D[0])
        for C in Cs:
            K = None
            for part in D:
                K = add_gaussian(K, xp.asarray(part, copy=True), gamma, len(D))
            fitted = self.solved(K, rows, C, len(rows))
            values, weight = nx.to_numpy(fitted.loo_decision), self.problem.fit_weight
            found.append(_row_losses(self.targets, values, rows, weight))
        return np.stack(found, axis=1)

    def solved(self, K, rows: np.ndarray, C: float, n_unseen: int) -> LSSVMSolution:
        """Return the LS-SVM of some pictures, leaving out the last; overwrites K."""
        return solve_ls_svm(
            K,
            nx.as_like(self.targets.columns()[rows], K),
            C=C,
            sample_weight=nx.as_like(of_rows(self.problem.fit_weight, rows), K),
            n_leave_one_out=n_unseen,
            overwrite_K=True,
        )

    def described(self, candidate: Candidate) -> dict:
        _, gamma, chosen = candidate
        return {**chosen, "gamma": gamma}

    def at_once(self, jobs) -> int:
        # A thread for each: BLAS's own threads wait for each other by spinning.
        (D, *_), _ = jobs[0]
        return min(n_workers(D[0]), len(jobs))

    def _count(self, what: str, choices: Iterable[Sequence], each: int = 1) -> None:
        """Begin the progress of a stage with its number of trials."""
        self.callback, self.n_done = self.plan.progress(what), 0
        self.n_all = each * (1 + sum(len(values) - 1 for values in choices))


def _row_losses(targets, values, rows: np.ndarray, weight=None) -> np.ndarray:
    """Return the loss of each row: log-loss of its class, or squared error."""
    if not isinstance(targets, ClassTargets):
        unit = output_spread(targets.values, weight)
        return np.mean(((values - targets.values[rows]) / unit) ** 2, axis=1)
    decision, labels = all_classes(values), targets.values[rows]
    temperature = fit_temperature(decision, labels, of_rows(weight, rows))
    p = softmax(decision, temperature)
    return -np.log(np.maximum(p[np.arange(len(rows)), labels], 1e-300))


def _nearest(values: Sequence[float], wanted: float) -> float:
    return min(values, key=lambda value: abs(math.log(value / wanted)))


# ----------------------------------------------------------------------------------
# A least-squares SVM with a kernel of patches: choose, then fit.
#
# Two ways, by memory. Where the kernel matrix of all pictures fits, the exact LS-SVM
# with closed-form leave-one-out values. Where it does not, least squares of all
# pictures on the kernel columns of some of them. A half of these representatives are
# random pictures, the others those that are hardest, found among as many pictures as
# the budget has columns for. With all representatives known, one pass over all pictures
# sums the normal equations, block by block: features of every picture are made once,
# whatever their number.
#
# What is left open is chosen first (below).
# ----------------------------------------------------------------------------------

# Bytes of an entry of the kernel matrix with all copies that a solver makes of it.
_ENTRY_CPU, _ENTRY_GPU = 12, 16
# Of the budget, one in so many parts may be features that are kept for predictions.
KEPT_SHARE = 4


def fit_pictures(
    problem: Problem, plan: PicturePlan, rng: np.random.Generator
) -> PictureModel:
    """Search the open parameters, and fit an LS-SVM with a patch kernel.

    Rows are pictures, of numbers of any type; their weights are above zero.
    """
    X = problem.rows
    budget, order = resolve_budget(plan.memory_budget, X), rng.permutation(X.shape[0])
    judge = PictureJudge(problem, plan, budget, order)
    chosen = judge.structure()
    release_freed_memory()
    parts = make_parts(plan.banks, chosen["cells"], plan.combine)
    kernel = PatchKernel(features_for(plan, chosen), parts, 1.0, plan.memory_budget)
    # Columns of all pictures are the exact solution.
    wanted = plan.n_representatives is None or plan.n_representatives >= X.shape[0]
    fits = (_ENTRY_GPU if nx.on_gpu(X) else _ENTRY_CPU) * X.shape[0] ** 2 <= budget
    fit = _fit_exactly if wanted and fits else fit_on_columns
    model = fit(kernel, judge)
    results = [{**row, "loss": -row["score"]} for row in judge.table]
    return model._replace(chosen=chosen, results=results)


def _fit_exactly(kernel: PatchKernel, judge: PictureJudge) -> PictureModel:
    """Solve the LS-SVM of all pictures; leave out the last of the random order."""
    order, budget, parts = judge.order, judge.budget, kernel.parts
    rows = nx.rows_in_order(judge.X, order)
    # Distances of all parts at once, if there is room; else each a second time.
    together = _ENTRY_CPU * len(order) ** 2 * len(parts) <= budget
    n_seen = len(order) if together else judge.many
    seen = rows if together else nx.take_rows(judge.X, order[:n_seen])
    weight = of_rows(judge.problem.fit_weight, order)
    seen_weight = of_rows(weight, np.arange(n_seen))
    kept = KeptFeatures()
    if together and kernel.feature_bytes(len(order)) <= budget // KEPT_SHARE:
        kept.parts = [[] for _ in parts]
    keep = kept.parts or [None] * len(parts)
    callback = _each_percent(judge.plan.progress("picture, for a block of filters"))
    found = [
        learn_distances(seen, kernel.how, part, budget, of_part, callback, seen_weight)
        for part, of_part in zip(parts, keep, strict=True)
    ]
    gamma, C = judge.width([D for D, _ in found])
    kernel, K, learned = replace(kernel, gamma=gamma), None, []
    for part in parts:
        D, with_moments = found.pop(0)
        if not together:
            del D
            D, with_moments = learn_distances(
                rows, kernel.how, part, budget, callback=callback, sample_weight=weight
            )
        K = kernel.add_part(K, D)
        learned.append(with_moments)
    n_unseen = min(len(order), judge.many if nx.on_gpu(K) else UNSEEN_ROWS)
    solution = judge.solved(K, order, C, n_unseen)
    kernel = replace(kernel, parts=tuple(learned))
    unseen = order[-n_unseen:]
    return PictureModel(kernel, C, {}, [], order, solution, unseen, kept)


def _each_percent(report: Callable[[int, int], object] | None):
    """Return a progress callback that reports once for each percent."""
    last = [-1]

    def callback(n_done: int, n_all: int) -> None:
        percent = 100 * n_done // n_all
        if report is not None and percent != last[0]:
            last[0] = percent
            report(n_done, n_all)

    return callback


def picture_decision_values(
    kernel: PatchKernel,
    X: Array,
    Z: Array,
    coef: Array,
    intercept: Array,
    kept: KeptFeatures,
    callback: Callable[[int, int], object] | None = None,
) -> Array:
    """Return f of pictures, (n, t), in float64, by blocks within the kernel's budget.

    The features of Z are kept, where a share of the budget holds them.
    """
    budget, parts = resolve_budget(kernel.memory_budget, X), []
    xp, n, m = nx.array_namespace(X), X.shape[0], Z.shape[0]
    if not kept.are_with(X):
        kept.parts = None
        if kernel.feature_bytes(m) <= budget // KEPT_SHARE:
            kept.parts = list(map(list, kernel.all_blocks_of(Z, budget, m)))
    rest = max(budget - kept.n_bytes(), budget // 4)
    copies = 4 * (1 + (len(kernel.parts) > 1))
    # A row of the matrix, and the features of a picture to a block of filters.
    row_bytes = copies * m + min(kernel.feature_bytes(1), max(rest // 4 // m, 1))
    for rows in row_blocks(n, row_bytes, rest // 4):
        blocks = kept.parts or kernel.all_blocks_of(Z, rest, m)
        K = kernel.of_features(X[rows, :], blocks)
        for some in row_blocks(K.shape[0], 8 * K.shape[1], 2**27):
            parts.append(nx.astype(K[some, :], "float64") @ coef + intercept)
        if callback is not None:
            callback(rows.stop, n)
    return xp.concat(parts)


# ---- fits on columns of some pictures ------------------------------------------------


# Representatives at most, where all pictures are too many.
_MOST_CPU, _MOST_GPU = 8000, 24_000
# Candidates for each representative, at least.
_CANDIDATES = 3


def fit_on_columns(kernel: PatchKernel, judge: PictureJudge) -> PictureModel:
    """Fit all pictures on the kernel columns of random and of hard ones."""
    X, order, n = judge.X, judge.order, judge.X.shape[0]
    m = min(judge.plan.n_representatives or _most_representatives(kernel, judge), n)
    first = order[: max(m // 2, 1)]
    unseen = order[len(first) :][-min(UNSEEN_ROWS, max(n // 10, 20)) :]
    kernel, C = _learn_kernel(kernel, judge, first)
    Z = nx.astype(nx.take_rows(X, first), kernel.how.dtype)
    candidates = _candidates(judge, m, Z, unseen)
    grown = _grow(kernel, judge, Z, m - len(first), candidates, unseen, C)
    rows, solution = np.concatenate([first, candidates[grown.rows]]), grown.solution
    if len(candidates) < n:
        Z = nx.astype(nx.take_rows(X, rows), kernel.how.dtype)
        solution = _grow(kernel, judge, Z, 0, np.arange(n), unseen, C).solution
    return PictureModel(kernel, C, {}, [], rows, solution, unseen, KeptFeatures())


def _most_representatives(kernel: PatchKernel, judge: PictureJudge) -> int:
    """Return the number of representatives whose equations fit half of the budget."""
    most = _MOST_GPU if nx.on_gpu(judge.X) else _MOST_CPU
    room = math.isqrt(judge.budget // (4 * 48))
    like = nx.astype(nx.take_rows(judge.X, np.arange(1)), kernel.how.dtype)
    while columns_bytes(room, like) > 0.8 * (judge.budget // 2):
        room = 9 * room // 10
    return max(min(most, judge.X.shape[0] // 2, room), 2)


def _learn_kernel(kernel: PatchKernel, judge: PictureJudge, rows: np.ndarray):
    """Return the kernel with γ and the moments of some pictures, and C."""
    Z, weight = nx.take_rows(judge.X, rows), of_rows(judge.problem.fit_weight, rows)
    options = {"budget": judge.budget, "sample_weight": weight}
    found = [learn_distances(Z, kernel.how, part, **options) for part in kernel.parts]
    gamma, C = judge.width([D for D, _ in found])
    learned = tuple(part for _, part in found)
    return replace(kernel, parts=learned, gamma=gamma), C


def _candidates(
    judge: PictureJudge, m: int, Z: Array, unseen: np.ndarray
) -> np.ndarray:
    """Return the numbers of the pictures that are candidates for hard ones.

    All, if m columns of all can be kept; else as many as can, with the unseen ones.
    """
    n, budget = judge.X.shape[0], resolve_budget(judge.half, judge.X)
    if columns_can_be_kept(n, m, budget, Z):
        return np.arange(n)
    some = max(rows_of_kept_columns(m, budget, Z) - len(unseen), _CANDIDATES * m)
    if some + len(unseen) >= n:
        return np.arange(n)
    return np.concatenate([judge.order[:some], unseen])


def _grow(
    kernel: PatchKernel,
    judge: PictureJudge,
    Z: Array,
    n_new: int,
    rows: np.ndarray,
    unseen: np.ndarray,
    C: float,
) -> GrownSolution:
    """Fit pictures on the columns of Z and of the pictures of largest error.

    Those that are unseen become no representatives, and have leave-one-out values.
    """
    problem, n, half = judge.problem, len(rows), judge.half
    X = judge.X if n == problem.n else nx.rows_in_order(judge.X, rows)
    where = np.full(problem.n, -1)
    where[rows] = np.arange(n)
    rng = np.random.default_rng(0)  # not used: of the ways, that of residuals is taken
    hardness = problem.targets.hardness(problem.fit_weight, Z, rng)["residual"]
    keeping = KeepingPatchKernel(kernel.how, kernel.parts, kernel.gamma, half)
    Y, weight = problem.targets.columns()[rows], of_rows(problem.fit_weight, rows)
    return solve_with_hard_rows(
        RowData(keeping, X, nx.as_like(Y, X), nx.as_like(weight, X)),
        Z,
        [n_new // 2, n_new - n_new // 2] if n_new > 1 else [],
        _AllBut(where[unseen], n, hardness),
        C=C,
        loo_rows=where[unseen],
        memory_budget=half,
        callback=judge.plan.progress("picture"),
    )


class _AllBut:
    """Row scores of −∞ for held-out rows, which then become no representatives.

    For a row with a kernel column of its own leave-one-out is too optimistic, and if
    the hard ones were all among those, the others would be too easy. It is called for
    all rows in their order, block by block.
    """

    def __init__(self, rows: np.ndarray, n: int, hardness: Hardness):
        self.excluded = np.zeros(n, dtype=bool)
        self.excluded[rows] = True
        self.hardness, self.n_seen = hardness, 0

    def __call__(self, values: Array, targets: Array) -> Array:
        start, stop = self.n_seen, self.n_seen + values.shape[0]
        self.n_seen = stop % len(self.excluded)
        hard, xp = self.hardness(values, targets), nx.array_namespace(values)
        excluded = nx.as_like(self.excluded[start:stop], hard)
        return xp.where(excluded, xp.full_like(hard, -xp.inf), hard)
