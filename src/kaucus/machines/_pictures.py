"""A least-squares SVM with a kernel of patches: choose, then fit.

Two ways, by memory. Where the kernel matrix of all pictures fits, the exact LS-SVM with
closed-form leave-one-out values. Where it does not, least squares of all pictures on
the kernel columns of some of them (``_picture_columns``).

What is left open is chosen first (``_picture_search``).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    on_gpu,
    release_freed_memory,
    resolve_budget,
    row_blocks,
    rows_in_order,
    take_rows,
)
from kaucus.kernels import KeptFeatures, PatchKernel, learn_distances
from kaucus.machines._picture_columns import fit_on_columns
from kaucus.machines._picture_plan import (
    PictureModel,
    PicturePlan,
    features_for,
    make_parts,
)
from kaucus.machines._picture_search import Judge
from kaucus.machines._problem import UNSEEN_ROWS, Problem
from kaucus.machines._targets import of_rows
from kaucus.solvers import solve_ls_svm

# Bytes of an entry of the kernel matrix with all copies that a solver makes of it.
_ENTRY_CPU, _ENTRY_GPU = 12, 16
# Of the budget, one in so many parts may be features that are kept for predictions.
KEPT_SHARE = 4


def fit_pictures(
    problem: Problem, plan: PicturePlan, rng: np.random.Generator
) -> PictureModel:
    """Choose what is left open, and fit a least-squares SVM with a kernel of patches.

    Parameters
    ----------
    problem : Problem
        Its rows are pictures, of numbers of any type; their weights are above zero.
    plan : PicturePlan
    rng : Generator
    """
    X = problem.rows
    budget, order = resolve_budget(plan.memory_budget, X), rng.permutation(X.shape[0])
    judge = Judge(problem, plan, budget, order)
    chosen = judge.structure()
    release_freed_memory()
    parts = make_parts(plan.banks, chosen["cells"], plan.combine)
    kernel = PatchKernel(features_for(plan, chosen), parts, 1.0, plan.memory_budget)
    # Columns of all pictures are the exact solution.
    wanted = plan.n_representatives is None or plan.n_representatives >= X.shape[0]
    fit = _fit_exactly if wanted and _fits(X, budget) else fit_on_columns
    return fit(kernel, judge)._replace(chosen=chosen, results=judge.results)


def _fits(X: Array, budget: int) -> bool:
    """Tell whether the exact system of all pictures fits the budget."""
    entry = _ENTRY_GPU if on_gpu(X) else _ENTRY_CPU
    return entry * X.shape[0] ** 2 <= budget


def _fit_exactly(kernel: PatchKernel, judge: Judge) -> PictureModel:
    """Solve the LS-SVM of all pictures; leave out the last of the random order."""
    order, budget, parts = judge.order, judge.budget, kernel.parts
    rows = rows_in_order(judge.X, order)
    # Distances of all parts at once, if there is room; else each a second time.
    n_matrices = len(parts) * (1 + kernel.how.paired)
    together = _ENTRY_CPU * len(order) ** 2 * n_matrices <= budget
    n_seen = len(order) if together else judge.many
    seen = rows if together else take_rows(judge.X, order[:n_seen])
    weight = of_rows(judge.problem.fit_weight, order)
    seen_weight = of_rows(weight, np.arange(n_seen))
    kept = KeptFeatures()
    if together and kernel.feature_bytes(len(order)) <= budget // KEPT_SHARE:
        kept.parts = [[] for _ in parts]
    keep = kept.parts or [None] * len(parts)
    tell = _each_percent(judge.plan.progress("picture, for a block of filters"))
    found = [
        learn_distances(seen, kernel.how, part, budget, of_part, tell, seen_weight)
        for part, of_part in zip(parts, keep, strict=True)
    ]
    gamma, C = judge.width([D for matrices, _ in found for D in matrices])
    kernel, K, learned = replace(kernel, gamma=gamma), None, []
    for part in parts:
        matrices, with_moments = found.pop(0)
        if not together:
            del matrices
            matrices, with_moments = learn_distances(
                rows, kernel.how, part, budget, tell=tell, sample_weight=weight
            )
        K = kernel.add_part(K, matrices)
        learned.append(with_moments)
    n_unseen = min(len(order), judge.many if on_gpu(K) else UNSEEN_ROWS)
    Y = as_like(judge.targets.columns()[order], K)
    weights = judge.weights_of(order, K)
    solution = solve_ls_svm(
        K, Y, C=C, n_leave_one_out=n_unseen, overwrite_K=True, **weights
    )
    kernel = replace(kernel, parts=tuple(learned))
    unseen = order[-n_unseen:]
    return PictureModel(kernel, C, {}, [], order, solution, unseen, kept)


def _each_percent(report: Callable[[int, int], object] | None):
    """Return a callback that is passed on once for each percent that is done."""
    last = [-1]

    def tell(n_done: int, n_all: int) -> None:
        percent = 100 * n_done // n_all
        if report is not None and percent != last[0]:
            last[0] = percent
            report(n_done, n_all)

    return tell


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
    xp, n, m = array_namespace(X), X.shape[0], Z.shape[0]
    if not kept.are_with(X):
        kept.parts = None
        if kernel.feature_bytes(m) <= budget // KEPT_SHARE:
            kept.parts = [
                list(kernel.blocks_of(Z, part, budget, m)) for part in kernel.parts
            ]
    rest = max(budget - kept.n_bytes(), budget // 4)
    copies = 4 * (1 + (len(kernel.parts) > 1))
    # A row of the matrix, and the features of a picture to a block of filters.
    row_bytes = copies * m + min(kernel.feature_bytes(1), max(rest // 4 // m, 1))
    for rows in row_blocks(n, row_bytes, rest // 4):
        blocks = kept.parts or [
            kernel.blocks_of(Z, part, rest, m) for part in kernel.parts
        ]
        K = kernel.of_features(X[rows, :], blocks)
        for some in row_blocks(K.shape[0], 8 * K.shape[1], 2**27):
            parts.append(astype(K[some, :], "float64") @ coef + intercept)
        if tell is not None:
            tell(rows.stop, n)
    return xp.concat(parts)
