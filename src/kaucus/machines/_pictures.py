"""A least-squares SVM with a kernel of patches: choose, then fit.

Two ways, by memory. Where the kernel matrix of all pictures fits, the exact LS-SVM with
closed-form leave-one-out values. Where it does not, least squares of all pictures on
the kernel columns of some of them: random ones first, then those that are hardest.

What is left open (mirror images, threshold, cells, power; then γ and C) is chosen by
the leave-one-out loss of some of the training pictures: each in its turn, with the
others as they are. Values that are known to be good come first, and give way only to
what is better by twice the standard error of the difference.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    budget_to_have,
    is_numpy,
    map_blocks,
    n_workers,
    on_gpu,
    release_freed_memory,
    resolve_budget,
    row_blocks,
    rows_in_order,
    take_rows,
    to_numpy,
)
from kaucus.kernels import (
    FilterGroup,
    KeptFeatures,
    PatchKernel,
    add_gaussian,
    learn_distances,
)
from kaucus.machines._problem import UNSEEN_ROWS
from kaucus.machines._targets import ClassTargets, Targets, all_classes
from kaucus.pictures import FilterBank, PictureFeatures, PixelRange
from kaucus.solvers import (
    LSSVMSolution,
    fit_temperature,
    softmax,
    solve_ls_svm,
    solve_with_hard_rows,
)

GAMMAS = (0.125, 0.25, 0.5, 1.0, 2.0)
CS = (10.0, 30.0, 100.0, 300.0, 1000.0)
# What is compared; the search begins with the first of each.
ALTERNATIVES = {
    "mirror": (False, True),
    "threshold": (1.0, 0.5, 1.5),
    "cells": (3, 4, 2),
    "power": (0.5, 0.35, 1.0),
}
FIRST_GAMMA, FIRST_C = 0.25, 100.0
# Pictures and filters by which alternatives are compared; pictures for gamma and C.
_SEARCHED_CPU, _SEARCHED_GPU = (1000, 256, 2500), (6000, 1024, 10_000)
# Bytes of an entry of the kernel matrix with all copies that a solver makes of it.
_ENTRY_CPU, _ENTRY_GPU = 12, 16
# Of the budget, one in so many parts may be features that are kept for predictions.
KEPT_SHARE = 4
# Representatives at most, where all pictures are too many.
_MOST_CPU, _MOST_GPU = 8000, 24_000


class PicturePlan(NamedTuple):
    """How a machine for pictures is to be fitted."""

    shape: tuple[int, int, int]
    pixels: PixelRange
    banks: list[FilterBank]
    precision: str
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


class PictureModel(NamedTuple):
    """A fitted machine, f(x) = Σ_q a_q k(x, z_q) + b, and how it came about."""

    kernel: PatchKernel
    C: float
    chosen: dict
    """Mirror, threshold, cells and power."""
    results: list[dict]
    """What was tried, and its loss."""
    rows: np.ndarray
    """Numbers of the pictures z_q."""
    solution: LSSVMSolution
    unseen_rows: np.ndarray
    """Numbers of the pictures with leave-one-out values."""
    kept: KeptFeatures
    """Features of the pictures z_q, where there was room for them."""


def fit_pictures(
    X: Array, targets: Targets, plan: PicturePlan, rng: np.random.Generator
) -> PictureModel:
    """Choose what is left open, and fit a least-squares SVM with a kernel of patches.

    Parameters
    ----------
    X : array or HostRows of shape (n, d)
        Pictures, of numbers of any type.
    targets : ClassTargets or NumberTargets
    plan : PicturePlan
    rng : Generator
    """
    budget, order = resolve_budget(plan.memory_budget, X), rng.permutation(X.shape[0])
    judge = _Judge(X, targets, plan, budget, order)
    chosen = judge.structure()
    release_freed_memory()
    parts = make_parts(plan.banks, chosen["cells"], plan.combine)
    kernel = PatchKernel(features_for(plan, chosen), parts, 1.0, plan.memory_budget)
    exact = plan.n_representatives is None and _fits(X, budget)
    fit = _fit_exactly if exact else _fit_on_representatives
    return fit(kernel, judge)._replace(chosen=chosen, results=judge.results)


def make_parts(banks: Sequence[FilterBank], cells, combine: str):
    """Return the parts of a kernel: one of all groups, or one of each."""
    grids = cells if isinstance(cells, tuple) else (cells,)
    groups = [FilterGroup(bank, n_cells) for bank in banks for n_cells in grids]
    return (tuple(groups),) if combine == "sum" else tuple((g,) for g in groups)


def features_for(plan: PicturePlan, chosen: dict) -> PictureFeatures:
    """Return how pictures become features, with what was chosen."""
    return PictureFeatures(
        plan.shape,
        plan.pixels,
        float(chosen["threshold"]),
        float(chosen["power"]),
        chosen["mirror"] is True,
        plan.precision,
        paired=chosen["mirror"] == "rows",
    )


class _Judge:
    """Leave-one-out losses of some of the pictures, and what is chosen by them."""

    def __init__(self, X, targets, plan, budget, order):
        self.X, self.targets, self.plan = X, targets, plan
        self.budget, self.order = budget, order
        self.few, self.filters, self.many = (
            _SEARCHED_GPU if on_gpu(_like(X)) else _SEARCHED_CPU
        )
        # Three matrices: distances, the kernel and its factor, in float64 at most.
        most = max(math.isqrt(budget // 48), 20)
        self.few, self.many = (min(k, most, len(order)) for k in (self.few, self.many))
        self.results: list[dict] = []

    def structure(self) -> dict:
        """Choose mirror, threshold, cells and power, each in its turn."""
        chosen = {name: values[0] for name, values in self.plan.choices.items()}
        open_ones = {k: v for k, v in self.plan.choices.items() if len(v) > 1}
        if not open_ones:
            return chosen
        tell = _counter(self.plan, "alternative", open_ones)
        gamma = _nearest(self.plan.gammas, FIRST_GAMMA)
        # At the best of three C: at a fixed one, what is smoother would look better.
        Cs = sorted({_nearest(self.plan.Cs, FIRST_C / k) for k in (1, 3, 10)})
        X = take_rows(self.X, self.order[: self.few])
        some = slice(0, -(-self.filters // len(self.plan.banks)))
        banks = [bank.part(some) for bank in self.plan.banks]

        def losses(trial: dict) -> np.ndarray:
            how = features_for(self.plan, trial)
            parts = make_parts(banks, trial["cells"], self.plan.combine)
            found = [learn_distances(X, how, part, self.budget)[0] for part in parts]
            D = list(itertools.chain.from_iterable(found))
            tell()
            return min(self._losses(D, [(gamma, C) for C in Cs], trial), key=np.mean)

        least = losses(chosen)
        for name, values in open_ones.items():
            for value in values[1:]:
                trial = {**chosen, name: value}
                if _is_better(found := losses(trial), least):
                    least, chosen = found, trial
        return chosen

    def width(self, distances: list[Array]) -> tuple[float, float]:
        """Choose γ and C by distances of pictures, the first of the order."""
        gammas, Cs = self.plan.gammas, self.plan.Cs
        gamma, C = _nearest(gammas, FIRST_GAMMA), _nearest(Cs, FIRST_C)
        if len(gammas) * len(Cs) == 1:
            return gamma, C
        n = min(self.many, distances[0].shape[0])
        D = [part[:n, :n] for part in distances]
        tell = _counter(self.plan, "pair of gamma and C", {"g": gammas, "C": Cs})
        known: dict[tuple[float, float], float] = {}

        def best(pairs) -> tuple[float, float]:
            new = [pair for pair in pairs if pair not in known]
            for pair, found in zip(new, self._losses(D, new, {}), strict=True):
                known[pair] = float(np.mean(found))
                tell()
            return min(pairs, key=lambda pair: known[pair])

        _, C = best([(gamma, c) for c in Cs])
        return best([(g, C) for g in gammas])

    def _losses(self, D: list[Array], pairs, chosen: dict) -> Iterator[np.ndarray]:
        """Yield the leave-one-out losses of the first pictures, for each γ and C."""
        xp, rows = array_namespace(D[0]), self.order[: D[0].shape[0]]
        columns = self.targets.columns()[rows]

        def left_out(pair: tuple[float, float]) -> np.ndarray:
            K, (gamma, C) = None, pair
            for part in D:
                K = add_gaussian(K, xp.asarray(part, copy=True), gamma, len(D))
            Y, n = as_like(columns, K), len(rows)
            found = solve_ls_svm(K, Y, C=C, n_leave_one_out=n, overwrite_K=True)
            return to_numpy(found.loo_decision)

        # A thread for each: BLAS's own threads wait for each other by spinning.
        workers = min(n_workers(D[0]), len(pairs))
        found = map_blocks(left_out, pairs, workers=workers)
        for (gamma, C), values in zip(pairs, found, strict=True):
            losses = _row_losses(self.targets, values, rows)
            loss = float(np.mean(losses))
            self.results.append({**chosen, "gamma": gamma, "C": C, "loss": loss})
            yield losses


def _row_losses(targets: Targets, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the loss of each row: log-loss of its class, or squared error."""
    if not isinstance(targets, ClassTargets):
        unit = np.maximum(targets.values.std(axis=0), 1e-300)
        return np.mean(((values - targets.values[rows]) / unit) ** 2, axis=1)
    decision, labels = all_classes(values), targets.values[rows]
    p = softmax(decision, fit_temperature(decision, labels))
    return -np.log(np.maximum(p[np.arange(len(rows)), labels], 1e-300))


def _is_better(losses: np.ndarray, than: np.ndarray) -> bool:
    """Tell whether losses of the same rows are less, by twice the standard error."""
    gains = than - losses
    return float(np.mean(gains)) > 2 * float(np.std(gains)) / math.sqrt(len(gains))


def _fits(X: Array, budget: int) -> bool:
    """Tell whether the exact system of all pictures fits the budget."""
    entry = _ENTRY_GPU if on_gpu(_like(X)) else _ENTRY_CPU
    return entry * X.shape[0] ** 2 <= budget


def _fit_exactly(kernel: PatchKernel, judge: _Judge) -> PictureModel:
    """Solve the LS-SVM of all pictures; leave out the last of the random order."""
    order, budget, parts = judge.order, judge.budget, kernel.parts
    rows = rows_in_order(judge.X, order)
    # Distances of all parts at once, if there is room; else each a second time.
    n_matrices = len(parts) * (1 + kernel.how.paired)
    together = _ENTRY_CPU * len(order) ** 2 * n_matrices <= budget
    seen = rows if together else take_rows(judge.X, order[: judge.many])
    kept = KeptFeatures()
    if together and kernel.feature_bytes(len(order)) <= budget // KEPT_SHARE:
        kept.parts = [[] for _ in parts]
    keep = kept.parts or [None] * len(parts)
    found = [
        learn_distances(seen, kernel.how, part, budget, of_part)
        for part, of_part in zip(parts, keep, strict=True)
    ]
    gamma, C = judge.width([D for matrices, _ in found for D in matrices])
    kernel, K, learned = replace(kernel, gamma=gamma), None, []
    for part in parts:
        matrices, with_moments = found.pop(0)
        if not together:
            del matrices
            matrices, with_moments = learn_distances(rows, kernel.how, part, budget)
        K = kernel.add_part(K, matrices)
        learned.append(with_moments)
    n_unseen = min(len(order), judge.many if on_gpu(K) else UNSEEN_ROWS)
    Y = as_like(judge.targets.columns()[order], K)
    solution = solve_ls_svm(K, Y, C=C, n_leave_one_out=n_unseen, overwrite_K=True)
    kernel = replace(kernel, parts=tuple(learned))
    unseen = order[-n_unseen:]
    return PictureModel(kernel, C, {}, [], order, solution, unseen, kept)


def _fit_on_representatives(kernel: PatchKernel, judge: _Judge) -> PictureModel:
    """Fit all pictures on the kernel columns of random and of hard ones."""
    X, order, plan, budget = judge.X, judge.order, judge.plan, judge.budget
    n, like = X.shape[0], _like(X)
    m = min(plan.n_representatives or _most_representatives(n, like, budget), n)
    first, rest = order[: max(m // 2, 1)], m - max(m // 2, 1)
    Z = take_rows(X, first)
    found = [learn_distances(Z, kernel.how, part, budget) for part in kernel.parts]
    gamma, C = judge.width([D for matrices, _ in found for D in matrices])
    learned = tuple(part for _, part in found)
    del found
    # A half of the budget for the features of a block of filters.
    half = budget_to_have(budget // 2, like)
    kernel = replace(kernel, parts=learned, gamma=gamma, memory_budget=half)
    unseen = order[-min(n, UNSEEN_ROWS) :]
    grown = solve_with_hard_rows(
        kernel,
        X,
        as_like(judge.targets.columns(), like),
        astype(Z, kernel.how.dtype),
        [rest // 2, rest - rest // 2] if rest > 1 else [],
        judge.targets.hardness(None, like, np.random.default_rng(0))["residual"],
        C=C,
        loo_rows=unseen,
        memory_budget=half,
        callback=plan.progress("picture"),
    )
    kernel = replace(kernel, memory_budget=plan.memory_budget)
    rows = np.concatenate([first, grown.rows])
    kept = KeptFeatures()
    return PictureModel(kernel, C, {}, [], rows, grown.solution, unseen, kept)


def _most_representatives(n: int, like: Array, budget: int) -> int:
    """Return how many representatives half of the budget has room for."""
    most = _MOST_GPU if on_gpu(like) else _MOST_CPU
    return max(min(most, n // 2, math.isqrt(budget // (4 * 48))), 2)


def picture_decision_values(
    kernel: PatchKernel,
    X: Array,
    Z: Array,
    coef: Array,
    intercept: Array,
    kept: KeptFeatures,
    tell: Callable[[int, int], object] | None = None,
) -> Array:
    """Return f of pictures, (n, t), in float64, by blocks within the kernel's budget.

    Parameters
    ----------
    kernel : PatchKernel
    X : array of shape (n, d)
    Z : array or HostRows of shape (m, d)
    coef : array of shape (m, t)
    intercept : array of shape (1, t)
    kept : KeptFeatures
        Of ``Z``; filled where there are none, and a share of the budget holds them.
    tell : callable, default=None
        ``tell(n_done, n)`` after each block.
    """
    budget, parts = resolve_budget(kernel.memory_budget, X), []
    if not kept.are_with(X):
        kept.parts = None
        if kernel.feature_bytes(Z.shape[0]) <= budget // KEPT_SHARE:
            kept.parts = [list(kernel.blocks_of(Z, p, budget)) for p in kernel.parts]
    xp, n = array_namespace(X), X.shape[0]
    rest = max(budget - kept.n_bytes(), budget // 4)
    copies = 4 * (1 + (len(kernel.parts) > 1))
    for rows in row_blocks(n, copies * Z.shape[0], rest // 4):
        blocks = kept.parts or [kernel.blocks_of(Z, p, rest) for p in kernel.parts]
        K = kernel.of_features(X[rows, :], blocks)
        for some in row_blocks(K.shape[0], 8 * K.shape[1], 2**27):
            parts.append(astype(K[some, :], "float64") @ coef + intercept)
        if tell is not None:
            tell(rows.stop, n)
    return xp.concat(parts)


def _like(X: Array) -> Array:
    return X if is_numpy(X) or not hasattr(X, "like") else X.like


def _nearest(values: Sequence[float], wanted: float) -> float:
    return min(values, key=lambda value: abs(math.log(value / wanted)))


def _counter(plan: PicturePlan, what: str, choices: dict) -> Callable[[], None]:
    """Return a function that counts one trial of a stage."""
    report, done = plan.progress(what), [0]
    total = 1 + sum(len(values) - 1 for values in choices.values())

    def tell() -> None:
        done[0] += 1
        if report is not None:
            report(min(done[0], total), total)

    return tell
