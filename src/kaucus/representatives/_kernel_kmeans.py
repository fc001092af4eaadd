"""Kernel k-means: Lloyd's iteration in the feature space of a kernel.

A row belongs to the cluster of the nearest mean in feature space (``_feature_means``);
S = K W Z are the sums of the kernel over the clusters.

After each step S is corrected by the columns of K of the rows that have moved, which
are few after the first steps; now and then it is computed anew, so that rounding does
not build up. Several starts go side by side: while many rows move, K is read once for
all of them.

With w the degrees of a graph's nodes and K = σ D⁻¹ + D⁻¹ A D⁻¹ the objective is the
normalised cut up to a constant (I. S. Dhillon, Y. Guan, B. Kulis, KDD 2004).
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    entries_at,
    few_threads_for,
    resolve_budget,
    segment_sum,
    take_rows,
    to_numpy,
)
from kaucus.representatives._feature_means import (
    Problem,
    Run,
    begin_runs,
    distances_from_sums,
    full_sums,
    indicator,
    pose_problem,
    positive_weights,
    run_of,
)
from kaucus.representatives._gram import KernelMatrix
from kaucus.representatives._seeding import clearly_less, reseed_empty, seeds_by_cost

# Where more than this share of the rows has moved, a full product is cheaper.
_MANY = 1 / 3
# Steps after which S is computed anew.
_REFRESH = 32
# A rise of the objective by more than this share is no rounding: K is indefinite.
_RISE = 1e-6
# Blocks as large as S that a start needs at a time.
_SUMS_HELD = 5


class KernelKMeansResult(NamedTuple):
    """Outcome of one start of kernel k-means."""

    labels: Array | None
    """The cluster of each row, (n,) integers; None for a row source."""
    weights: Array
    """Total weight of each cluster, (k,), float64."""
    center_norms: Array
    """Squared norm of each mean in feature space, (k,), float64; 0 for no rows."""
    inertia: float
    """Σ w D(x, m) with the means of these very clusters."""
    n_iter: int
    converged: bool
    """Whether no further step lowers the objective (by more than ``tol``)."""
    n_reseeded: int
    """How often a cluster without rows was given the worst represented one."""
    rose: bool
    """Whether the last step would have raised the objective: K is indefinite."""
    coef: np.ndarray | None = None
    """The means as sums over the landmarks, (m, k), of a row source: else
    :func:`mean_shares` has them."""


class _Proposal(NamedTuple):
    """Where a step wants the rows to be."""

    labels: Array
    n_reseeded: int
    moved: Array


def kernel_kmeans(
    gram: KernelMatrix,
    n_clusters: int,
    *,
    init: str | Array = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 0.0,
    sample_weight: Array | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> list[KernelKMeansResult]:
    """Cluster the rows behind a kernel matrix (Maia & Ara, Algorithm 2).

    Parameters
    ----------
    gram : KernelOperator or NystromGram
        The kernel matrix of n rows.
    n_clusters : int
        At most n.
    init : {"k-means++", "random"} or integer array of shape (n,), default="k-means++"
        Rows far from each other in feature space, a random cluster for every row (the
        paper), or these clusters.
    n_init : int, default=1
        Starts.
    max_iter : int, default=300
        Most steps of a start.
    tol : float, default=0.0
        Stop when a step lowers the objective by no more than this share of it; 0: when
        no row moves.
    sample_weight : array of shape (n,), default=None
    rng : numpy.random.Generator
    memory_budget : int, str or None, default=None
        So many starts go side by side as fit into a quarter of it.
    callback : callable, default=None
        ``callback(step, share)`` after each step, with the largest share of rows that a
        start has moved; a true result ends these starts.

    Returns
    -------
    list of KernelKMeansResult
        One for each start; :func:`best_start` chooses. After Ctrl-C those that there
        are, the last ones as far as they came.

    Notes
    -----
    The objective falls with every step, and a step that would not lower it is not
    taken. With m rows moved, a step costs n m k multiplications and n m reads.
    """
    problem = pose_problem(gram, n_clusters, sample_weight)
    budget = resolve_budget(memory_budget, problem.weight)
    per_start = _SUMS_HELD * 8 * gram.shape[0] * n_clusters
    at_a_time = max(1, min(n_init, budget // 4 // per_start))
    with few_threads_for(gram.shape[0]):
        return _starts(
            problem, init, rng.spawn(n_init), at_a_time, max_iter, tol, callback
        )


def _starts(
    problem: Problem, init, generators, at_a_time: int, max_iter, tol, callback
) -> list[KernelKMeansResult]:
    """Run the starts, so many side by side."""
    results: list[KernelKMeansResult] = []
    for first in range(0, len(generators), at_a_time):
        labels = [
            _first_labels(problem, init, g)
            for g in generators[first : first + at_a_time]
        ]
        runs = begin_runs(problem, labels)
        results += map(_result, _iterate(problem, runs, max_iter, tol, callback))
    return results


def best_start(results: Sequence[KernelKMeansResult]) -> KernelKMeansResult:
    """Return the result of least inertia, the first of those equal but for rounding."""
    return functools.reduce(
        lambda best, r: r if clearly_less(r.inertia, best.inertia) else best, results
    )


def mean_shares(result: KernelKMeansResult, sample_weight: Array | None) -> Array:
    """Return W Z / s, (n, k): the share of each row in the mean of its cluster."""
    weights = result.weights
    if sample_weight is None:
        sample_weight = array_namespace(weights).ones_like(result.labels)
    weight = astype(sample_weight, "float64")
    return (
        indicator(result.labels, weight, weights.shape[0])
        / positive_weights(weights)[None, :]
    )


def _first_labels(problem: Problem, init, rng: np.random.Generator) -> Array:
    n, k, weight = problem.gram.shape[0], problem.n_clusters, problem.weight
    if not isinstance(init, str):
        return as_like(init, weight, dtype="int64")
    if init == "random":
        return as_like(rng.integers(k, size=n), weight)
    seeds = far_rows(problem, rng)
    return as_like(np.argmin(_costs_with(problem, seeds), axis=1), weight)


def far_rows(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Choose rows far from each other in feature space, as k-means++ does, (k,)."""
    return seeds_by_cost(
        lambda rows: _costs_with(problem, rows),
        problem.n_clusters,
        to_numpy(problem.weight),
        rng,
    )


def _costs_with(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return D(x, φ(x_r)) of every row with the given rows as centres, (n, m)."""
    index = as_like(rows, problem.weight)
    norms = take_rows(problem.diagonal, index)
    K = astype(problem.gram.columns(index), "float64")
    return to_numpy(distances_from_sums(K, problem.diagonal, norms))


def _iterate(problem: Problem, runs: list[Run], max_iter, tol, callback) -> list[Run]:
    """Take steps until no start moves."""
    for step in range(1, max_iter + 1):
        active = [i for i, run in enumerate(runs) if not run.finished]
        if not active:
            break
        new, moved = _step(problem, [runs[i] for i in active], tol)
        taken = dict(zip(active, new, strict=True))
        runs = [taken.get(i, run) for i, run in enumerate(runs)]
        if callback is not None and callback(step, moved):
            break
    return runs


def _step(problem: Problem, runs: list[Run], tol: float):
    """Assign all rows again (Algorithm 2, lines 4-6); return runs and share moved."""
    proposals = [_propose(problem, run) for run in runs]
    xp = array_namespace(problem.weight)
    moved = [int(xp.sum(astype(p.moved, "int64"))) for p in proposals]
    at_work = [i for i, m in enumerate(moved) if m]
    new = [run._replace(n_iter=run.n_iter + 1, finished=True) for run in runs]
    if at_work:
        all_sums = _moved_sums(
            problem, [runs[i] for i in at_work], [proposals[i] for i in at_work]
        )
        for i, S in zip(at_work, all_sums, strict=True):
            new[i] = _accept(problem, runs[i], proposals[i], S, tol)
    return new, max(moved) / problem.gram.shape[0]


def _propose(problem: Problem, run: Run) -> _Proposal:
    """Find the nearest mean of every row; ties keep their label."""
    xp, k = array_namespace(run.sums), problem.n_clusters
    empty = run.weights <= 0
    safe = positive_weights(run.weights)
    offsets = xp.where(empty, xp.full_like(safe, xp.inf), run.squares / safe**2)
    scores = run.sums * (2 / safe)[None, :] - offsets[None, :]  # K_ii − D
    nearest = xp.argmax(scores, axis=1)
    best, own = entries_at(scores, nearest), entries_at(scores, run.labels)
    labels = xp.where(best > own + problem.tie, nearest, run.labels)
    held = segment_sum(problem.weight[:, None], labels, k)[:, 0]
    n_reseeded = 0
    if bool(xp.any(held <= 0)):
        costs = problem.diagonal - best
        labels, n_reseeded = reseed_empty(
            labels, xp.maximum(costs, xp.zeros_like(costs)), problem.weight > 0, k
        )
    return _Proposal(labels, n_reseeded, labels != run.labels)


def _moved_sums(problem: Problem, runs: list[Run], proposals) -> list[Array]:
    """Return S of the proposed clusters: anew where many rows moved, in one product."""
    refresh = (runs[0].n_iter + 1) % _REFRESH == 0
    limit = -1.0 if refresh else _MANY * problem.gram.shape[0]
    rows = [array_namespace(p.moved).nonzero(p.moved)[0] for p in proposals]
    anew = [i for i, moved in enumerate(rows) if moved.shape[0] > limit]
    full = full_sums(problem, [proposals[i].labels for i in anew]) if anew else []
    sums: dict[int, Array] = dict(zip(anew, full, strict=True))
    return [
        sums[i] if i in sums else _corrected(problem, runs[i], proposals[i], rows[i])
        for i in range(len(runs))
    ]


def _corrected(problem: Problem, run: Run, proposal: _Proposal, rows: Array) -> Array:
    """Return S after some rows have moved, from their columns of K."""
    k, weight = problem.n_clusters, take_rows(problem.weight, rows)
    change = indicator(take_rows(proposal.labels, rows), weight, k)
    change = change - indicator(take_rows(run.labels, rows), weight, k)
    return run.sums + problem.gram.columns_matmul(rows, change)


def _accept(problem: Problem, run: Run, proposal: _Proposal, sums, tol) -> Run:
    """Return the proposed state, or the old one where the objective does not fall."""
    new = run_of(problem, proposal.labels, sums)
    n_iter = run.n_iter + 1
    gain = run.objective - new.objective
    if gain <= 0:  # ties at the level of rounding, or an indefinite K
        rose = -gain > _RISE * abs(problem.total)
        return run._replace(n_iter=n_iter, finished=True, rose=rose)
    return new._replace(
        n_iter=n_iter,
        n_reseeded=run.n_reseeded + proposal.n_reseeded,
        finished=gain <= tol * abs(run.objective),
    )


def _result(run: Run) -> KernelKMeansResult:
    return KernelKMeansResult(
        labels=run.labels,
        weights=run.weights,
        center_norms=run.squares / positive_weights(run.weights) ** 2,
        inertia=run.objective,
        n_iter=run.n_iter,
        converged=run.finished and not run.rose,
        n_reseeded=run.n_reseeded,
        rose=run.rose,
    )
