"""Least squares of all pictures on the kernel columns of some of them.

For as many pictures as there are: the matrix of all of them is never needed. A half of
the representatives are random pictures, the others those that are hardest, found among
as many pictures as the budget has columns for. With all representatives known, one pass
over all pictures sums the normal equations, block by block; then features of every
picture are made once, whatever their number.
"""

import math
from dataclasses import replace

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    budget_to_have,
    on_gpu,
    resolve_budget,
    rows_in_order,
    take_rows,
)
from kaucus.kernels import (
    KeepingPatchKernel,
    KeptFeatures,
    PatchKernel,
    learn_distances,
)
from kaucus.machines._picture_plan import PictureModel
from kaucus.machines._picture_search import Judge
from kaucus.machines._problem import UNSEEN_ROWS
from kaucus.machines._targets import of_rows
from kaucus.solvers import (
    GrownSolution,
    Hardness,
    columns_bytes,
    columns_can_be_kept,
    rows_of_kept_columns,
    solve_with_hard_rows,
)

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
    if len(candidates) < n and not solution.info.interrupted:
        Z = astype(take_rows(X, rows), kernel.how.dtype)
        try:
            solution = _grow(kernel, judge, Z, 0, np.arange(n), unseen, C).solution
        except KeyboardInterrupt:  # before the first block: the model of some is there
            info = solution.info._replace(interrupted=True, converged=False)
            solution = solution._replace(info=info)
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
    gamma, C = judge.width([D for matrices, _ in found for D in matrices])
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
        loo_rows=where[unseen],
        memory_budget=half,
        callback=judge.plan.progress("picture"),
        **judge.weights_of(rows, X),
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
