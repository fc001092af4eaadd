"""A least-squares SVM with a kernel of patches: choose, then fit.

Two ways, by memory. Where the kernel matrix of all pictures fits, the exact LS-SVM with
closed-form leave-one-out values. Where it does not, least squares of all pictures on
the kernel columns of some of them. A half of these representatives are random pictures,
the others those that are hardest, found among as many pictures as the budget has
columns for. With all representatives known, one pass over all pictures sums the normal
equations, block by block: features of every picture are made once, whatever their
number.

What is left open is chosen first (``_picture_search``).
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    budget_to_have,
    on_gpu,
    release_freed_memory,
    resolve_budget,
    row_blocks,
    rows_in_order,
    take_rows,
)
from kaucus.kernels import (
    KeepingPatchKernel,
    KeptFeatures,
    PatchKernel,
    learn_distances,
)
from kaucus.machines._picture_plan import (
    PictureModel,
    PicturePlan,
    features_for,
    make_parts,
)
from kaucus.machines._picture_search import Judge
from kaucus.machines._problem import UNSEEN_ROWS, Problem
from kaucus.machines._targets import of_rows
from kaucus.solvers import (
    GrownSolution,
    Hardness,
    columns_bytes,
    columns_can_be_kept,
    rows_of_kept_columns,
    solve_ls_svm,
    solve_with_hard_rows,
)

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
    together = _ENTRY_CPU * len(order) ** 2 * len(parts) <= budget
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
    gamma, C = judge.width([D for D, _ in found])
    kernel, K, learned = replace(kernel, gamma=gamma), None, []
    for part in parts:
        D, with_moments = found.pop(0)
        if not together:
            del D
            D, with_moments = learn_distances(
                rows, kernel.how, part, budget, tell=tell, sample_weight=weight
            )
        K = kernel.add_part(K, D)
        learned.append(with_moments)
    n_unseen = min(len(order), judge.many if on_gpu(K) else UNSEEN_ROWS)
    Y = as_like(judge.targets.columns()[order], K)
    solution = solve_ls_svm(
        K,
        Y,
        C=C,
        sample_weight=as_like(weight, K),
        n_leave_one_out=n_unseen,
        overwrite_K=True,
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


# ---- fits on columns of some pictures ------------------------------------------------


# Representatives at most, where all pictures are too many.
_MOST_CPU, _MOST_GPU = 8000, 24_000
# So many pictures are looked at, at least, for each representative.
_CANDIDATES = 3


def fit_on_columns(kernel: PatchKernel, judge: Judge) -> PictureModel:
    """Fit all pictures on the kernel columns of random and of hard ones."""
    X, order, n = judge.X, judge.order, judge.X.shape[0]
    m = min(judge.plan.n_representatives or _most_representatives(kernel, judge), n)
    first = order[: max(m // 2, 1)]
    unseen = order[len(first) :][-min(UNSEEN_ROWS, max(n // 10, 20)) :]
    kernel, C = _learn_kernel(kernel, judge, first)
    Z = astype(take_rows(X, first), kernel.how.dtype)
    candidates = _candidates(judge, m, Z, unseen)
    grown = _grow(kernel, judge, Z, m - len(first), candidates, unseen, C)
    rows, solution = np.concatenate([first, candidates[grown.rows]]), grown.solution
    if len(candidates) < n:
        Z = astype(take_rows(X, rows), kernel.how.dtype)
        solution = _grow(kernel, judge, Z, 0, np.arange(n), unseen, C).solution
    return PictureModel(kernel, C, {}, [], rows, solution, unseen, KeptFeatures())


def _most_representatives(kernel: PatchKernel, judge: Judge) -> int:
    """Return for how many representatives half of the budget holds the equations."""
    most = _MOST_GPU if on_gpu(judge.X) else _MOST_CPU
    room = math.isqrt(judge.budget // (4 * 48))
    like = astype(take_rows(judge.X, np.arange(1)), kernel.how.dtype)
    while columns_bytes(room, like) > 0.8 * (judge.budget // 2):
        room = 9 * room // 10
    return max(min(most, judge.X.shape[0] // 2, room), 2)


def _half(judge: Judge) -> int:
    """Return the budget of the equations, and that of features: a half for each."""
    return budget_to_have(judge.budget // 2, judge.X)


def _learn_kernel(kernel: PatchKernel, judge: Judge, rows: np.ndarray):
    """Return the kernel with γ and the moments of some pictures, and C."""
    Z, weight = take_rows(judge.X, rows), of_rows(judge.problem.fit_weight, rows)
    options = {"budget": judge.budget, "sample_weight": weight}
    found = [learn_distances(Z, kernel.how, part, **options) for part in kernel.parts]
    gamma, C = judge.width([D for D, _ in found])
    learned = tuple(part for _, part in found)
    return replace(kernel, parts=learned, gamma=gamma), C


def _candidates(judge: Judge, m: int, Z: Array, unseen: np.ndarray) -> np.ndarray:
    """Return the numbers of the pictures among which hard ones are looked for.

    All, if m columns of all can be kept; else as many as can, with the unseen ones.
    """
    n, budget = judge.X.shape[0], resolve_budget(_half(judge), judge.X)
    if columns_can_be_kept(n, m, budget, Z):
        return np.arange(n)
    some = max(rows_of_kept_columns(m, budget, Z) - len(unseen), _CANDIDATES * m)
    if some + len(unseen) >= n:
        return np.arange(n)
    return np.concatenate([judge.order[:some], unseen])


def _grow(
    kernel: PatchKernel,
    judge: Judge,
    Z: Array,
    n_new: int,
    rows: np.ndarray,
    unseen: np.ndarray,
    C: float,
) -> GrownSolution:
    """Fit some of the pictures on the columns of Z and of the hardest of them.

    Those that are unseen become no representatives, and have leave-one-out values.
    """
    problem, n, half = judge.problem, len(rows), _half(judge)
    X = judge.X if n == problem.n else rows_in_order(judge.X, rows)
    where = np.full(problem.n, -1)
    where[rows] = np.arange(n)
    rng = np.random.default_rng(0)  # not used: of the ways, that of residuals is taken
    hardness = problem.targets.hardness(problem.fit_weight, Z, rng)["residual"]
    keeping = KeepingPatchKernel(kernel.how, kernel.parts, kernel.gamma, half)
    return solve_with_hard_rows(
        keeping,
        X,
        as_like(problem.targets.columns()[rows], X),
        Z,
        [n_new // 2, n_new - n_new // 2] if n_new > 1 else [],
        _AllBut(where[unseen], n, hardness),
        C=C,
        sample_weight=as_like(of_rows(problem.fit_weight, rows), X),
        loo_rows=where[unseen],
        memory_budget=half,
        callback=judge.plan.progress("picture"),
    )


class _AllBut:
    """A hardness that passes over some rows, so that these become no representatives.

    Of a row with a kernel column of its own, leave-one-out tells too little; and if the
    hard ones were all among those, the others would tell too much. It is asked for all
    rows in their order, block by block.
    """

    def __init__(self, rows: np.ndarray, n: int, hardness: Hardness):
        self.excluded = np.zeros(n, dtype=bool)
        self.excluded[rows] = True
        self.hardness, self.n_seen = hardness, 0

    def __call__(self, values: Array, targets: Array) -> Array:
        start, stop = self.n_seen, self.n_seen + values.shape[0]
        self.n_seen = stop % len(self.excluded)
        hard, xp = self.hardness(values, targets), array_namespace(values)
        excluded = as_like(self.excluded[start:stop], hard)
        return xp.where(excluded, xp.full_like(hard, -xp.inf), hard)
