"""Kernel k-means: on the kernel matrix, and on landmarks."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    budget_to_have,
    few_threads_for,
    format_bytes,
    map_blocks,
    n_workers,
    resolve_budget,
    row_blocks,
)
from kaucus._array.linalg import (
    add_to_diagonal,
    cho_solve,
    cholesky_with_jitter,
    solve_triangular,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import (
    Block,
    Rows,
    as_rows,
    budget_without_buffers,
    shifted_bytes,
)
from kaucus._array.segments import entries_at, random_rows, segment_sum
from kaucus.clustering._kmeans import (
    ClusterSums,
    best_of_starts,
    clearly_less,
    fill_empty,
    kmeans,
    largest_losses,
    reseed_empty,
    rows_to_seed,
    seeds_by_cost,
    updated_sums,
    worst_rows,
)
from kaucus.kernels._kernel import DistanceKernel, Kernel, Laplacian, Precomputed
from kaucus.kernels._matrix import KernelOperator, stored_product

# ----------------------------------------------------------------------------------
# The kernel matrix that kernel k-means works on.
#
# Sums over rows are in float64, whatever the precision of the kernel's entries: they
# decide which cluster a row belongs to.
# ----------------------------------------------------------------------------------

# Arrays of a number for each row and cluster, in float64: products and their parts.
_SUMS = 10
# Bytes for tiles below which a product takes longer to organise than to compute; rows
# of less than so many bytes are computed with any budget.
_LEAST_WORK, _SMALL = 8 * 2**20, 2**20


def make_gram(
    kernel: Kernel,
    X: Array,
    *,
    n_clusters: int = 1,
    memory_budget: int | str | None = None,
) -> KernelOperator:
    """Return the kernel matrix of the rows of ``X`` for kernel k-means.

    It is stored where it fits, and computed again by tiles where not. A quarter of the
    budget, or what the sums of ``n_clusters`` take, is left to these.
    """
    budget = budget_without_buffers(X, memory_budget)
    sums = _SUMS * 8 * X.shape[0] * n_clusters
    budget -= min(max(budget // 4, sums), budget // 2)
    _check_memory(X, budget, sums)
    return KernelOperator(kernel, X, memory_budget=budget, keep="gram")


def _check_memory(X: Array, budget: int, sums: int) -> None:
    """Refuse a budget in which tiles would be so small that a fit crawls."""
    copies = shifted_bytes(X)
    matrix = nx.itemsize(X) * X.shape[0] ** 2
    if copies < _SMALL or matrix <= budget or budget - copies >= _LEAST_WORK:
        return
    wanted = copies + _LEAST_WORK
    wanted = budget_to_have(max(4 * wanted // 3, wanted + sums), X)
    raise MemoryError(
        f"Kernel k-means of {X.shape[0]} rows holds a copy of them, "
        f"{format_bytes(copies)}, and {format_bytes(sums)} of sums; memory_budget "
        f"leaves {format_bytes(max(budget, 0))} for copies and tiles. Pass a "
        f"memory_budget of {format_bytes(wanted)} or more, or fewer rows."
    )


# ----------------------------------------------------------------------------------
# Clusters of rows and their means in the feature space of a kernel.
#
# A mean is known by its sums with all rows. With row weights w and s_c = Σ_{j∈c} w_j:
#
#     D(x_i, m_c) = K_ii − 2 S_ic / s_c + Q_c / s_c²          (Maia & Ara, eq. 7)
#     S_ic = Σ_{j∈c} w_j K_ij          sums of the kernel over a cluster, S = K W Z
#     Q_c  = Σ_{i∈c} w_i S_ic          s_c² times the squared norm of the mean
#
# The third term differs from cluster to cluster; without it another problem is solved.
# The objective Σ w_i D(x_i, m_c(i)) is Σ w_i K_ii − Σ Q_c / s_c.
# ----------------------------------------------------------------------------------

# A gain of so many roundings is a tie, and a tie keeps the label.
_TIE = 8.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A kernel matrix, weights of its rows, and a number of clusters."""

    gram: KernelOperator
    n_clusters: int
    weight: Array
    diagonal: Array
    total: float
    """Σ w_i K_ii."""
    tie: float
    """Difference of scores that counts as none."""


@dataclass(frozen=True, eq=False)
class Run:
    """Clusters between two steps of one start."""

    labels: Array
    sums: Array
    """S, (n, k)."""
    weights: Array
    """s, (k,)."""
    squares: Array
    """Q, (k,)."""
    objective: float
    n_reseeded: int = 0
    n_iter: int = 0
    finished: bool = False
    rose: bool = False


def pose_problem(
    gram: KernelOperator, n_clusters: int, sample_weight: Array | None
) -> Problem:
    """Return the problem in float64."""
    diagonal = nx.astype(gram.diagonal(), "float64")
    xp = nx.array_namespace(diagonal)
    weight = (
        xp.ones_like(diagonal)
        if sample_weight is None
        else nx.astype(sample_weight, "float64")
    )
    total = float(xp.sum(weight * diagonal))
    tie = _TIE * gram.rounding * float(xp.max(xp.abs(diagonal)))
    return Problem(gram, n_clusters, weight, diagonal, total, tie)


def total_scatter(gram: KernelOperator, sample_weight: Array | None = None) -> float:
    """Return Σ w ‖φ(x) − m‖² with the mean m of all rows: the objective for k = 1."""
    return labels_objective(gram, np.zeros(gram.shape[0], np.int64), 1, sample_weight)


def labels_objective(
    gram: KernelOperator,
    labels: Array,
    n_clusters: int,
    sample_weight: Array | None = None,
) -> float:
    """Return the objective of given clusters with their own means."""
    problem = pose_problem(gram, n_clusters, sample_weight)
    return begin_runs(problem, [nx.as_like(labels, problem.weight)])[0].objective


def begin_runs(problem: Problem, starts: Sequence[Array]) -> list[Run]:
    """Sum the kernel over the clusters of each start."""
    sums = full_sums(problem, starts)
    return [run_of(problem, a, S) for a, S in zip(starts, sums, strict=True)]


def run_of(problem: Problem, labels: Array, sums: Array) -> Run:
    """Return the clusters with these labels and sums."""
    xp, k = nx.array_namespace(sums), problem.n_clusters
    weight = problem.weight
    inside = weight * entries_at(sums, labels)  # w_i S_ic of the row's own cluster
    totals = segment_sum(xp.stack([weight, inside], axis=1), labels, k)
    weights, squares = totals[:, 0], totals[:, 1]  # s and Q
    explained = xp.sum(
        xp.where(weights > 0, squares / positive_weights(weights), weights)
    )
    return Run(labels, sums, weights, squares, problem.total - float(explained))


def full_sums(problem: Problem, starts: Sequence[Array]) -> list[Array]:
    """Return S = K W Z of each start, by one product."""
    k, weight = problem.n_clusters, problem.weight
    Z = [indicator(labels, weight, k) for labels in starts]
    product = problem.gram.matmul(nx.array_namespace(weight).concat(Z, axis=1))
    return [product[:, i * k : (i + 1) * k] for i in range(len(starts))]


def indicator(labels: Array, weight: Array, n_clusters: int) -> Array:
    """Return W Z, (n, k): the weight of each row in the column of its cluster."""
    xp = nx.array_namespace(weight)
    clusters = xp.arange(n_clusters, dtype=labels.dtype, device=nx.device_of(labels))
    member = labels[:, None] == clusters[None, :]
    return xp.where(member, weight[:, None], xp.zeros_like(weight)[:, None])


def distances_from_sums(means: Array, diagonal: Array, center_norms: Array) -> Array:
    """Return eq. (7), (n, k), from ⟨φ(x), m⟩, k(x, x) and ‖m‖²; never negative."""
    D = diagonal[:, None] - 2 * means + center_norms[None, :]
    xp = nx.array_namespace(D)
    return xp.maximum(D, xp.zeros_like(D))


def positive_weights(weights: Array) -> Array:
    """Return the weights, with 1 in place of 0, to divide by."""
    xp = nx.array_namespace(weights)
    return xp.where(weights > 0, weights, xp.ones_like(weights))


# ----------------------------------------------------------------------------------
# Kernel k-means: Lloyd's iteration in the feature space of a kernel.
#
# A row belongs to the cluster of the nearest mean in feature space
# (above); S = K W Z are the sums of the kernel over the clusters.
#
# After each step S is corrected by the columns of K of the rows that have moved, which
# are few after the first steps; now and then it is computed anew, so that rounding does
# not build up. Several starts go side by side: while many rows move, K is read once for
# all of them.
#
# With w the degrees of a graph's nodes and K = σ D⁻¹ + D⁻¹ A D⁻¹ the objective is the
# normalised cut up to a constant (I. S. Dhillon, Y. Guan, B. Kulis, KDD 2004).
# ----------------------------------------------------------------------------------

# Where more than this share of the rows has moved, a full product is cheaper.
_MANY = 1 / 3
# Steps after which S is computed anew.
_REFRESH = 32
# A rise of the objective by more than this share is no rounding: K is indefinite.
_RISE = 1e-6
# Blocks as large as S that a start needs at a time.
_SUMS_HELD = 5


@dataclass(frozen=True, eq=False)
class KernelKMeansResult:
    """Outcome of one start of kernel k-means."""

    labels: Array | None
    """The cluster of each row, (n,) integers; None for rows in parts."""
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
    """The means as sums over the landmarks, (m, k); None without landmarks: then
    :func:`mean_shares` has them."""


Made = Callable[[], KernelKMeansResult]


class _Proposal(NamedTuple):
    """Where a step wants the rows to be."""

    labels: Array
    n_reseeded: int
    moved: Array


def kernel_kmeans(
    gram: KernelOperator,
    n_clusters: int,
    *,
    init: str | Array = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 0.0,
    sample_weight: Array | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float, Made], object] | None = None,
) -> list[KernelKMeansResult]:
    """Cluster the rows behind a kernel matrix (Maia & Ara, Algorithm 2).

    Parameters
    ----------
    gram : KernelOperator
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
        ``callback(step, share, made)`` after each step, with the largest share of rows
        that a start has moved, and a function that returns the best of these starts; a
        true result ends them.

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
    """Return the result of least inertia, the first if equal up to rounding."""
    return functools.reduce(
        lambda best, r: r if clearly_less(r.inertia, best.inertia) else best, results
    )


def _best_so_far(runs: Sequence[Run]) -> KernelKMeansResult:
    return best_start([_result(run) for run in runs])


def mean_shares(result: KernelKMeansResult, sample_weight: Array | None) -> Array:
    """Return W Z / s, (n, k): the share of each row in the mean of its cluster."""
    weights = result.weights
    if sample_weight is None:
        sample_weight = nx.array_namespace(weights).ones_like(result.labels)
    weight = nx.astype(sample_weight, "float64")
    return (
        indicator(result.labels, weight, weights.shape[0])
        / positive_weights(weights)[None, :]
    )


def _first_labels(problem: Problem, init, rng: np.random.Generator) -> Array:
    n, k, weight = problem.gram.shape[0], problem.n_clusters, problem.weight
    if not isinstance(init, str):
        return nx.as_like(init, weight, dtype="int64")
    if init == "random":
        return nx.as_like(rng.integers(k, size=n), weight)
    seeds = far_rows(problem, rng)
    return nx.as_like(np.argmin(_costs_with(problem, seeds), axis=1), weight)


def far_rows(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Choose rows far from each other in feature space, as k-means++ does, (k,)."""
    return seeds_by_cost(
        lambda rows: _costs_with(problem, rows),
        problem.n_clusters,
        nx.to_numpy(problem.weight),
        rng,
    )


def _costs_with(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """Return D(x, φ(x_r)) of every row with the given rows as centres, (n, m)."""
    index = nx.as_like(rows, problem.weight)
    norms = nx.take_rows(problem.diagonal, index)
    K = nx.astype(problem.gram.columns(index), "float64")
    return nx.to_numpy(distances_from_sums(K, problem.diagonal, norms))


def _iterate(problem: Problem, runs: list[Run], max_iter, tol, callback) -> list[Run]:
    """Take steps until no start moves."""
    for step in range(1, max_iter + 1):
        active = [i for i, run in enumerate(runs) if not run.finished]
        if not active:
            break
        new, moved = _step(problem, [runs[i] for i in active], tol)
        taken = dict(zip(active, new, strict=True))
        runs = [taken.get(i, run) for i, run in enumerate(runs)]
        made = functools.partial(_best_so_far, runs)
        if callback is not None and callback(step, moved, made):
            break
    return runs


def _step(problem: Problem, runs: list[Run], tol: float):
    """Assign all rows again (Algorithm 2, lines 4-6); return runs and share moved."""
    proposals = [_propose(problem, run) for run in runs]
    xp = nx.array_namespace(problem.weight)
    moved = [int(xp.sum(nx.astype(p.moved, "int64"))) for p in proposals]
    at_work = [i for i, m in enumerate(moved) if m]
    new = [replace(run, n_iter=run.n_iter + 1, finished=True) for run in runs]
    if at_work:
        all_sums = _moved_sums(
            problem, [runs[i] for i in at_work], [proposals[i] for i in at_work]
        )
        for i, S in zip(at_work, all_sums, strict=True):
            new[i] = _accept(problem, runs[i], proposals[i], S, tol)
    return new, max(moved) / problem.gram.shape[0]


def _propose(problem: Problem, run: Run) -> _Proposal:
    """Find the nearest mean of every row; ties keep their label."""
    xp, k = nx.array_namespace(run.sums), problem.n_clusters
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
    rows = [nx.array_namespace(p.moved).nonzero(p.moved)[0] for p in proposals]
    anew = [i for i, moved in enumerate(rows) if moved.shape[0] > limit]
    full = full_sums(problem, [proposals[i].labels for i in anew]) if anew else []
    sums: dict[int, Array] = dict(zip(anew, full, strict=True))
    return [
        sums[i] if i in sums else _corrected(problem, runs[i], proposals[i], rows[i])
        for i in range(len(runs))
    ]


def _corrected(problem: Problem, run: Run, proposal: _Proposal, rows: Array) -> Array:
    """Return S after some rows have moved, from their columns of K."""
    k, weight = problem.n_clusters, nx.take_rows(problem.weight, rows)
    change = indicator(nx.take_rows(proposal.labels, rows), weight, k)
    change = change - indicator(nx.take_rows(run.labels, rows), weight, k)
    return run.sums + problem.gram.columns_matmul(rows, change)


def _accept(problem: Problem, run: Run, proposal: _Proposal, sums, tol) -> Run:
    """Return the proposed state, or the old one where the objective does not fall."""
    new = run_of(problem, proposal.labels, sums)
    n_iter = run.n_iter + 1
    gain = run.objective - new.objective
    if gain <= 0:  # ties at the level of rounding, or an indefinite K
        rose = -gain > _RISE * abs(problem.total)
        return replace(run, n_iter=n_iter, finished=True, rose=rose)
    return replace(
        new,
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


# ----------------------------------------------------------------------------------
# Kernel k-means with means held to the span of landmarks, of rows of every kind.
#
# With landmarks z_1 ... z_m, t(x) = (k(x, z_1), ..., k(x, z_m)) and A = K_mm + λI, the
# mean of a cluster is Σ_q a_q φ(z_q) with a = A⁻¹ t̄, where t̄ is the mean of t over
# its rows: the best one in their span. Distances to such means are true ones, so the
# objective is an upper bound of that of the same clusters with their free means.
#
# Each step is one pass over the rows. Of a block, only sums come back: Σ w t and Σ w of
# each cluster, and Σ w k(x, x), k (m + 2) numbers however many rows there are. The
# means, their norms and the objective of the new clusters follow from these. Of rows in
# memory t is kept, where there is room for it.
# ----------------------------------------------------------------------------------

# Pieces of t within a block: of one size, so that sums do not depend on the memory.
_PIECE_BYTES = 16 * 2**20
# Arrays of t at a time: as computed, in tiles, in float64, and for the sums.
_COPIES = 4
# Of the rows among which k-means++ chooses: as read, put together, shifted, and more.
_SEED_COPIES = 8


class Means(NamedTuple):
    """Means in feature space, as sums over a few points."""

    coef: np.ndarray
    """(q, k)."""
    norms: np.ndarray
    """Their squared norms, (k,); infinite for a cluster without rows."""
    points: Array | None = None
    """(q, d); None: the landmarks."""


class _State(NamedTuple):
    """Clusters between two steps."""

    means: Means
    weights: np.ndarray
    objective: float
    n_reseeded: int = 0


class MeanSums:
    """Sums over the rows of each of k clusters."""

    def __init__(self, n_clusters: int, n_landmarks: int):
        self.sums = ClusterSums(n_clusters, np.zeros(n_landmarks))
        """Σ w t, (k, m)."""
        self.weights: np.ndarray = np.zeros(n_clusters)
        """Σ w."""
        self.held: np.ndarray = np.zeros(n_clusters)
        """Number of rows of positive weight."""
        self.total = 0.0
        """Σ w k(x, x) of all."""

    def merge(self, other: "MeanSums") -> None:
        """Add the sums of other rows."""
        self.sums.merge(other.sums)
        self.weights = self.weights + other.weights
        self.held = self.held + other.held
        self.total += other.total


def kernel_kmeans_on_landmarks(
    kernel: Kernel,
    X: Array,
    landmarks: Array,
    n_clusters: int,
    *,
    init: str | np.ndarray = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 0.0,
    sample_weight: Array | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float, Made], object] | None = None,
) -> KernelKMeansResult:
    """Cluster the rows of ``X``, (n, d), with means in the span of landmarks, (m, d).

    Arguments as of :func:`kernel_kmeans`; of very many rows on the host or in parts,
    "k-means++" chooses among a random part. ``callback(step, gain, made)`` is given the
    share of the objective by which it fell, and a function that returns the result so
    far. The result has ``coef``, and labels of rows that
    are in this process. n m (d + k) multiplications a step.
    """
    rows = as_rows(X, memory_budget)
    _check_parts_memory(rows, landmarks.shape[0], n_clusters)
    steps = _LandmarkSteps(kernel, rows, landmarks, n_clusters, sample_weight)

    def start(start_rng: np.random.Generator) -> KernelKMeansResult:
        return _iterate_sums(steps, init, start_rng, max_iter, tol, callback)

    best = best_of_starts(start, rng.spawn(n_init))
    if not rows.local:
        return best
    return replace(best, labels=steps.labels(best))


def landmark_factor(kernel: Kernel, landmarks: Array, X: Array) -> Array:
    """Return L with L Lᵀ = K_mm + λI, (m, m), float64, on the device of ``X``."""
    K_mm = nx.astype(kernel(landmarks), "float64")
    # What float32 rounds of K_nm must not be blown up by the inverse.
    largest = float(nx.array_namespace(K_mm).max(kernel.diag(landmarks)))
    ridge = landmarks.shape[0] * nx.epsilon(X) * largest
    return cholesky_with_jitter(add_to_diagonal(K_mm, ridge), largest=1e-2).L


def _check_parts_memory(X: Rows, m: int, k: int) -> None:
    """Raise where work on one part has no room for its sums."""
    # The sums of a part and of a block of it, the landmarks, and a few rows at work.
    needed = 8 * (3 * k * m + m * X.shape[1] + 16 * _entries_of_row(m, k))
    if not X.local and needed > X.budget:
        raise MemoryError(
            f"n_landmarks={m} and n_clusters={k} need {format_bytes(needed)} for the "
            f"sums over each part of the rows, and there are {format_bytes(X.budget)}; "
            "lower n_landmarks, raise memory_budget, or use workers with fewer threads "
            "or more memory."
        )


def _iterate_sums(
    steps: "_LandmarkSteps", init, rng, max_iter: int, tol: float, callback
) -> KernelKMeansResult:
    """Take steps from the first clusters until the objective falls no more."""
    state = steps.first(init, rng)
    n_iter, finished = 0, False
    while n_iter < max_iter and not finished:
        new = steps.step(state)
        gain, size = state.objective - new.objective, abs(state.objective)
        finished = gain <= tol * size
        state = new if gain > 0 else state  # ties, at the level of rounding
        n_iter += 1
        share = max(gain, 0.0) / max(size, 1e-300)
        made = functools.partial(_state_result, state, n_iter, finished)
        if callback is not None and callback(n_iter, share, made):
            break
    return _state_result(state, n_iter, finished)


def _state_result(state: _State, n_iter: int, finished: bool) -> KernelKMeansResult:
    """Return the clusters of a step, without labels."""
    norms = np.where(state.weights > 0, state.means.norms, 0.0)
    return KernelKMeansResult(
        labels=None,
        weights=state.weights,
        center_norms=norms,
        inertia=state.objective,
        n_iter=n_iter,
        converged=finished,
        n_reseeded=state.n_reseeded,
        rose=False,  # this matrix of low rank has no negative eigenvalue
        coef=state.means.coef,
    )


class _LandmarkSteps:
    """Assigns the same rows again and again to means that move."""

    def __init__(self, kernel: Kernel, X: Rows, landmarks, n_clusters: int, weight):
        self._kernel, self._landmarks, self._k = kernel, landmarks, n_clusters
        self._weight = None if weight is None else nx.to_numpy(weight)
        self._X = X.attached(None, self._weight)
        self._L = landmark_factor(kernel, landmarks, X)

    def first(self, init: str | np.ndarray, rng: np.random.Generator) -> _State:
        """Return the clusters to begin with."""
        if isinstance(init, str) and init == "k-means++":
            return self._state(self._sums(self._X, self._seeds(rng)))
        n = self._X.shape[0]
        labels = rng.integers(self._k, size=n) if isinstance(init, str) else init
        return self._state(self._sums(self._X.attached(labels, self._weight), None))

    def labels(self, result: KernelKMeansResult) -> np.ndarray:
        """Return the cluster of the nearest mean of each row, (n,)."""
        assert result.coef is not None
        norms = np.where(result.weights > 0, result.center_norms, np.inf)
        arguments = (self._kernel, self._landmarks, Means(result.coef, norms))
        found = self._X.map(labels_of_block, *arguments, label="label-rows")
        return np.concatenate(found)

    def step(self, state: _State) -> _State:
        """Assign all rows; return the new clusters."""
        found = self._sums(self._X, state.means)
        arguments = (self._kernel, self._landmarks, state.means, 2 * self._k)
        n_reseeded = fill_empty(
            found,
            lambda: worst_rows(self._X, worst_of_block, *arguments),
            self._take,
            self._weight,
        )
        return self._state(found)._replace(n_reseeded=state.n_reseeded + n_reseeded)

    def _take(self, numbers: np.ndarray) -> np.ndarray:
        """Return t of rows by their numbers."""
        rows = nx.take_rows(self._X, numbers)
        return nx.to_numpy(self._kernel(rows, nx.as_like(self._landmarks, rows)))

    def _sums(self, X: Rows, means: Means | None) -> MeanSums:
        arguments = (self._kernel, self._landmarks, means, self._k)
        n_bytes = 8 * self._k * self._landmarks.shape[0]
        return X.reduce(assign_block, *arguments, label="assign-rows", n_bytes=n_bytes)

    def _state(self, found: MeanSums) -> _State:
        """Return the means of the sums, and the objective."""
        weights, safe = found.weights, positive_weights(found.weights)
        sums = found.sums.values.T  # (m, k)
        with few_threads_for(self._landmarks.shape[0]):
            coef = nx.to_numpy(cho_solve(self._L, nx.as_like(sums, self._L))) / safe
        norms = np.sum(sums * coef, axis=0) / safe
        objective = found.total - float(weights @ norms)
        norms = np.where(weights > 0, norms, np.inf)
        return _State(Means(coef, norms), weights, objective)

    def _seeds(self, rng: np.random.Generator) -> Means:
        """Return rows far from each other as the first means."""
        n, X, weight = self._X.shape[0], self._X, self._weight
        weight = np.ones(n) if weight is None else weight
        part, some, stays = np.arange(n), X, X.local and not X.lasting
        if not X.lasting:
            most = None if X.local else X.rows_at_once(_SEED_COPIES)
            part = rows_to_seed(n, self._k, weight, rng, most)
            some = nx.rows_in_order(X, part) if stays else nx.take_rows(X, part)
        arguments = (self._kernel, self._k, weight[part], rng)
        if stays:  # on the host: the operator copies blocks of them
            seeds = seeds_of_block(Block(some, (), X.budget), *arguments)
        else:
            some = as_rows(some, X.budget)
            seeds = some.map(seeds_of_block, *arguments, label="choose-rows")[0]
        points = nx.take_rows(some, seeds)
        norms = nx.to_numpy(nx.astype(self._kernel.diag(points), "float64"))
        return Means(np.eye(self._k), norms, points)


# ---- the work on one block -----------------------------------------------------------


def assign_block(
    block: Block, kernel: Kernel, landmarks: Array, means: Means | None, n_clusters: int
) -> MeanSums:
    """Return the sums over the rows of a block that go to the same mean.

    ``means`` is None where their clusters are attached to the rows.
    """
    out = MeanSums(n_clusters, landmarks.shape[0])
    for part in _assigned(block, kernel, landmarks, means, n_clusters):
        labels = nx.to_numpy(part.labels)
        w = np.ones(len(labels)) if part.weight is None else part.weight
        weight, last = nx.as_like(part.weight, part.labels), part.kept.get("sums")
        sums = updated_sums(part.columns, part.labels, weight, n_clusters, last)
        part.kept["sums"] = sums
        out.sums.values += nx.to_numpy(sums.values)
        out.weights += np.bincount(labels, w, minlength=n_clusters)
        out.held += np.bincount(labels, w > 0, minlength=n_clusters)
        out.total += float(w @ nx.to_numpy(part.diagonal))
    return out


def seeds_of_block(block: Block, kernel: Kernel, n_clusters: int, weight, rng):
    """Return the numbers of rows of a block that are far from each other."""
    gram = KernelOperator(kernel, block.rows, memory_budget=block.budget, keep=None)
    weight = nx.as_like(weight, gram.diagonal())
    return far_rows(pose_problem(gram, n_clusters, weight), rng)


def worst_of_block(
    block: Block, kernel: Kernel, landmarks: Array, means: Means, n_rows: int
):
    """Return the rows of a block, and numbers, costs and labels of the worst."""
    losses, labels = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for part in _assigned(block, kernel, landmarks, means, means.coef.shape[1]):
        own = entries_at(part.scores, part.labels)
        costs = np.maximum(nx.to_numpy(part.diagonal - own), 0)
        losses.append(costs if part.weight is None else costs * (part.weight > 0))
        labels.append(nx.to_numpy(part.labels))
    found = np.concatenate(losses)
    worst = largest_losses(found, n_rows)
    return len(found), (worst, found[worst], np.concatenate(labels)[worst])


def labels_of_block(
    block: Block, kernel: Kernel, landmarks: Array, means: Means
) -> np.ndarray:
    """Return the cluster of the nearest mean of each row of a block."""
    parts = _assigned(block, kernel, landmarks, means, means.coef.shape[1])
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *(nx.to_numpy(part.labels) for part in parts)])


def labels_on_landmarks(
    kernel: Kernel, X: Array, landmarks: Array, result: KernelKMeansResult
) -> np.ndarray:
    """Return the cluster of the nearest mean of each row, (n,)."""
    rows, k = as_rows(X), result.weights.shape[0]
    return _LandmarkSteps(kernel, rows, landmarks, k, None).labels(result)


@dataclass(frozen=True)
class _Assigned:
    """Rows with their clusters."""

    columns: Array
    """t, (b, m)."""
    diagonal: Array
    """k(x, x), (b,)."""
    labels: Array
    scores: Array
    """k(x, x) − D(x, m) with each mean, (b, k); empty for given clusters."""
    weight: np.ndarray | None
    kept: dict
    """Results of the last pass over these rows, if they are in memory."""


def _assigned(
    block: Block, kernel: Kernel, landmarks: Array, means: Means | None, k: int
) -> Iterator[_Assigned]:
    """Yield the rows of a block with their nearest means, in pieces, in threads.

    Without ``means`` their clusters are attached to the rows.
    """
    (n, _), m = block.rows.shape, landmarks.shape[0]
    n_bytes = min(_PIECE_BYTES, max(block.budget // 2, 1))
    fits = 2 * n * m * nx.itemsize(block.rows) <= block.budget
    cache = block.cache if fits else None

    def assign(s: slice) -> _Assigned:
        rows, kept = block.rows[s, :], {}
        if cache is not None:
            kept = cache.setdefault(s.start, kept)
        given, weight = (None if v is None else v[s] for v in block.vectors)
        if not kept:
            kept["columns"] = kernel(rows, nx.as_like(landmarks, rows))
            kept["diagonal"] = nx.astype(kernel.diag(rows), "float64")
        columns, diagonal = (
            kept["columns"],
            nx.as_like(kept["diagonal"], kept["columns"]),
        )
        if means is None:
            labels = nx.as_like(given, columns, dtype="int64")
            return _Assigned(columns, diagonal, labels, columns[:, :0], weight, kept)
        near = columns
        if means.points is not None:
            near = kernel(rows, nx.as_like(means.points, rows))
        scores = stored_product(
            near, nx.as_like(2 * means.coef, near), nx.dtype_name(near)
        )
        scores -= nx.as_like(means.norms, near)[None, :]
        labels = nx.array_namespace(scores).argmax(scores, axis=1)
        return _Assigned(columns, diagonal, labels, scores, weight, kept)

    pieces = list(row_blocks(n, 8 * _entries_of_row(m, k), n_bytes))
    workers = min(n_workers(block.rows), len(pieces), block.budget // (2 * n_bytes))
    return map_blocks(assign, pieces, workers=workers)


def _entries_of_row(m: int, k: int) -> int:
    return _COPIES * m + 3 * k


# ----------------------------------------------------------------------------------
# Choose the landmarks of a Nyström approximation.
#
#     "uniform"      random rows
#     "k-means"      centres of euclidean k-means: points where the rows are
#     "rpcholesky"   pivots of a randomly pivoted Cholesky factor of K: rows that are
#                    not represented yet, by the kernel's own measure
#
# The last two scan no more than a random sample of the rows, so that choosing costs
# less than using.
#
# Randomly pivoted Cholesky: K ≈ F Fᵀ, F of shape (n, r). Pivots are drawn with
# probability proportional to the diagonal of what is left of K, a block at a time: rows
# that are well represented already are seldom drawn again. (Y. Chen, E. N. Epperly,
# J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky", arXiv:2207.06503, Algorithm 4;
# as a preconditioner of kernel ridge regression: M. Díaz et al., arXiv:2304.12465.)
# ----------------------------------------------------------------------------------

LANDMARKS = ("k-means", "uniform", "rpcholesky")

# Rows that are looked at, per landmark; k-means gains nothing from more.
_ROWS_EACH = 50
_KMEANS_STEPS = 20
# Of the rows of a source: as read, put together, in order, and at work.
_COPIES = 4
_BLOCKS = 16


def choose_landmarks(
    kernel: Kernel,
    X: Array,
    n_landmarks: int,
    *,
    method: str,
    rng: np.random.Generator,
) -> Array:
    """Return landmarks for the rows of ``X``.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or Rows of shape (n, d)
        Of rows of the host, no more are looked at than fit on their device; of a
        source, than fit into the memory for work on one part.
    n_landmarks : int
        At most n.
    method : {"k-means", "uniform", "rpcholesky"}
        For a precomputed kernel, whose rows are numbers, not "k-means".
    rng : numpy.random.Generator

    Returns
    -------
    array or CSR matrix of shape (m, d)
        m ≤ n_landmarks: fewer where K has a smaller numerical rank ("rpcholesky").
    """
    like = np.empty(0) if nx.is_sparse(X) else X
    size = n_landmarks
    if method != "uniform":
        fit = as_rows(X, 1).rows_at_once(_COPIES)
        size = max(size, min(_ROWS_EACH * size, fit))
    drawn = random_rows(rng, X.shape[0], min(size, X.shape[0]), like)
    sample = nx.take_rows(X, drawn)
    if method == "uniform":
        return sample
    if method == "k-means":
        if isinstance(kernel, Precomputed):
            raise ValueError("Row numbers of a given matrix have no means.")
        return _kmeans_centers(sample, n_landmarks, rng)
    factor = pivoted_factor(
        lambda rows: kernel(sample, nx.take_rows(sample, rows)),
        nx.as_like(kernel.diag(sample), like, dtype=nx.dtype_name(X)),
        rank=n_landmarks,
        rng=rng,
        # The pivots of a block do not know of each other: many small ones.
        block_size=max(1, n_landmarks // _BLOCKS),
    )
    return nx.take_rows(sample, nx.as_like(factor.pivots, like))


def _kmeans_centers(sample: Array, n_landmarks: int, rng) -> Array:
    return kmeans(
        sample,
        n_landmarks,
        metric="euclidean",
        init="random",
        max_iter=_KMEANS_STEPS,
        tol=1e-3,
        rng=rng,
    ).centers


# ---- randomly pivoted Cholesky -------------------------------------------------------


# What is left of the diagonal counts as 0 below this many roundings of its largest.
_ROUNDINGS = 100.0


class PivotedFactor(NamedTuple):
    """A low-rank factor with the pivot rows of K."""

    F: Array
    """(n, r), F Fᵀ ≈ K."""
    pivots: np.ndarray
    """(r,), different row numbers in the order in which they were drawn."""


def pivoted_factor(
    columns: Callable[[Array], Array],
    K_diagonal: Array,
    *,
    rank: int,
    rng: np.random.Generator,
    block_size: int = 128,
) -> PivotedFactor:
    """Return F with F Fᵀ ≈ K from ``rank`` columns of K, and which columns.

    Parameters
    ----------
    columns : callable
        ``columns(rows)`` returns K[:, rows], (n, m), for integer ``rows``, (m,).
    K_diagonal : array of shape (n,)
        In the precision that F is to have.
    rank : int
        Columns to use; fewer are used where K has a smaller numerical rank.
    rng : numpy.random.Generator
    block_size : int, default=128

    Returns
    -------
    PivotedFactor
        With r ≤ rank columns.

    Notes
    -----
    n r columns' entries, n r² multiplications, n r numbers of memory.
    """
    xp = nx.array_namespace(K_diagonal)
    n = K_diagonal.shape[0]
    F = xp.empty((n, rank), dtype=K_diagonal.dtype, device=nx.device_of(K_diagonal))
    left = np.maximum(nx.to_numpy(nx.astype(K_diagonal, "float64")), 0.0)  # (n,)
    # Less than this is rounding of the columns: it has no factor.
    noise = _ROUNDINGS * nx.epsilon(K_diagonal) * left.max()
    done, drawn = 0, []
    while done < rank and left.any():
        size = min(block_size, rank - done, int(np.count_nonzero(left)))
        pivots = rng.choice(n, size=size, replace=False, p=left / left.sum())
        pivots = np.sort(pivots)
        new = _next_columns(F[:, :done], columns, pivots, K_diagonal)
        F[:, done : done + size] = new
        done += size
        drawn.append(pivots)
        left -= nx.to_numpy(xp.sum(new**2, axis=1, dtype=xp.float64))
        left[left <= noise] = 0.0
        left[pivots] = 0.0
    none = np.empty(0, dtype=np.int64)
    return PivotedFactor(F[:, :done], np.concatenate([none, *drawn]))


def _next_columns(F: Array, columns, pivots: np.ndarray, K_diagonal: Array) -> Array:
    """Return the columns that ``pivots`` add to F, (n, m)."""
    xp = nx.array_namespace(F)
    index = nx.as_like(pivots, K_diagonal)
    G = columns(index)  # (n, m)
    if F.shape[1]:
        G = G - F @ nx.take_rows(F, index).T
    square = nx.astype(nx.take_rows(G, index), "float64")
    # Pivots that nearly repeat each other leave this block singular, and what is left
    # of K in it may be no more than rounding, which is indefinite: so that rounding is
    # added. It only changes the preconditioner, never the solution.
    rounding = len(pivots) * nx.epsilon(K_diagonal) * float(xp.max(K_diagonal))
    square = add_to_diagonal((square + square.T) / 2, rounding)
    L = cholesky_with_jitter(square, largest=1e-2, overwrite=True).L
    return nx.astype(solve_triangular(L, nx.astype(G, "float64").T).T, nx.dtype_name(F))


# ----------------------------------------------------------------------------------
# Choose the number of clusters, the first clusters and the width without labels.
#
# Of some points, A_ij is half the number of times that i and j are among each other's
# nearest neighbours, and d_i = Σ_j A_ij. The graph is cut into k parts by the k leading
# eigenvectors of D^(-1/2) A D^(-1/2) (U. von Luxburg, "A tutorial on spectral
# clustering", 2007). The separation of the parts is
#
#     min_c  φ(c) / b(c),    b(c) = Σ_{i∈c, j∉c} A_ij / Σ_{i∈c} d_i,
#
# the least, over the parts, of the conductance φ of a part, that of its best cut in
# two, over the share b of its weights that lead out: large where every part is easier
# to leave alone than to cut. Lines, rings, squares and clouds of up to 20 columns, cut
# into 2 to 10 parts, have less than 2.5.
#
# A width serves where kernel k-means from these parts keeps them.
# ----------------------------------------------------------------------------------

# Nearest neighbours of a point.
_NEIGHBOURS = 8
# Points of the graph; fewer where the memory is small: bytes for each entry of it.
_GRAPH_POINTS, _GRAPH_BYTES = 1000, 128
# Numbers of clusters that are tried; a separation below the least is none, and one
# above the most is as good as that. Settled on 168 generated sets, as the rest here.
_MOST_CLUSTERS, _LEAST_SEPARATION, _MOST_SEPARATION = 20, 2.5, 3.0
# Widths, from half the inverse of the median squared distance to twice the inverse of
# that of the neighbours.
_N_WIDTHS = 9
_CUT_STARTS = 10


@dataclass(frozen=True, eq=False)
class _PointGraph:
    """Different points of the rows, and the graph of their nearest neighbours."""

    points: Array
    D: np.ndarray
    """Distances of the different points, (p, p)."""
    A: np.ndarray
    """Weights of the graph, (p, p), symmetric."""
    degrees: np.ndarray
    vectors: np.ndarray
    """Eigenvectors of D^(-1/2) A D^(-1/2), largest eigenvalue first, (p, p)."""
    weight: np.ndarray
    """Weight of each point, (p,)."""
    rows: np.ndarray | None
    """The point of each row, (n,), where the points are all rows; else None."""


def choose_on_graph(
    kernel: Kernel,
    X: Array,
    sample_weight: Array | None,
    n_clusters: int | None,
    kernel_at: Callable[[float], Kernel] | None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
) -> tuple[int, Kernel, str | np.ndarray, list[tuple]]:
    """Return a number of clusters, a kernel, where to begin, and what was tried.

    The number is chosen where ``n_clusters`` is None, the kernel where ``kernel_at``
    makes one of a gamma, and then the parts of the graph are where to begin.
    """
    weight = None if sample_weight is None else nx.to_numpy(sample_weight)
    budget = resolve_budget(memory_budget)
    graph = _graph_of(kernel, X, weight, n_clusters or 2, budget, rng)
    tried: list[tuple] = []
    if n_clusters is None:
        n_clusters, tried = _count_parts(graph, rng)
    if kernel_at is None:
        return n_clusters, kernel, "k-means++", tried
    kernel, start, widths = _tune_width(kernel_at, kernel, X, graph, n_clusters, rng)
    return n_clusters, kernel, start, tried + widths


def _graph_of(
    kernel: Kernel, X: Array, weight: np.ndarray | None, n_clusters: int, budget, rng
) -> _PointGraph:
    """Return the graph of the rows of positive weight, or of points for many rows."""
    n = X.shape[0]
    present = np.arange(n) if weight is None else np.flatnonzero(weight)
    most = max(_GRAPH_POINTS, 2 * n_clusters)
    most = max(min(most, int((budget / _GRAPH_BYTES) ** 0.5)), n_clusters, 2)
    known = X if len(present) == n else nx.rows_in_order(X, present)
    if len(present) > most:
        how = "uniform" if isinstance(kernel, Precomputed) else "k-means"
        points = choose_landmarks(kernel, known, most, method=how, rng=rng)
        own = np.ones(points.shape[0])
    else:
        points = nx.take_rows(known, np.arange(len(present)))
        own = np.ones(n) if weight is None else weight
        own = own[present].astype(np.float64)
    D = _point_distances(kernel, points)
    first = np.argmax(D <= 0, axis=1)  # of points that are equal
    different, inverse = np.unique(first, return_inverse=True)
    D = D[np.ix_(different, different)]
    A, rows = _neighbour_graph(D), None
    degrees = np.maximum(A.sum(axis=1), 1e-300)
    scale = 1 / np.sqrt(degrees)
    with few_threads_for(len(A)):
        vectors = np.linalg.eigh(A * scale[:, None] * scale[None, :])[1][:, ::-1]
    if len(present) <= most:
        rows = np.zeros(n, np.int64)
        rows[present] = inverse
    points = nx.take_rows(points, nx.as_like(different, points))
    return _PointGraph(points, D, A, degrees, vectors, np.bincount(inverse, own), rows)


def _point_distances(kernel: Kernel, points: Array) -> np.ndarray:
    """Return distances by which a kernel falls, or those of its feature space."""
    if isinstance(kernel, DistanceKernel | Laplacian):
        D = nx.to_numpy(kernel.distances(points)).astype(np.float64)
    else:
        K = nx.to_numpy(kernel(points)).astype(np.float64)
        own = np.diag(K)
        D = np.sqrt(np.maximum(own[:, None] + own[None, :] - K - K.T, 0.0))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0.0)
    return D


def _neighbour_graph(D: np.ndarray) -> np.ndarray:
    """Return A; points as far as the last neighbour are neighbours as well."""
    last = min(_NEIGHBOURS, len(D) - 1)
    near = np.partition(D, last, axis=1)[:, last, None] >= D
    np.fill_diagonal(near, False)
    return (near.astype(np.float64) + near.T) / 2


def _cut_graph(graph: _PointGraph, n_clusters: int, rng: np.random.Generator):
    """Return the part of each point, (p,), of a normalised cut into k parts."""
    p = len(graph.A)
    if n_clusters >= p:
        return np.arange(p)
    V = graph.vectors[:, :n_clusters] / np.sqrt(graph.degrees)[:, None]
    V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
    options = {"metric": "euclidean", "n_init": _CUT_STARTS, "rng": rng}
    return nx.to_numpy(kmeans(V, n_clusters, **options).labels).astype(np.int64)


def _count_parts(graph: _PointGraph, rng: np.random.Generator) -> tuple[int, list]:
    """Return the number of parts of largest separation, and what was tried.

    1 where no cut is separate.
    """
    numbers = range(2, min(_MOST_CLUSTERS, len(graph.A) - 1) + 1)
    found = [_separation(graph.A, _cut_graph(graph, k, rng)) for k in numbers]
    capped = np.minimum([0.0, *found], _MOST_SEPARATION)
    largest = capped.max()
    best = 1 + int(np.flatnonzero(capped == largest)[-1])
    best = best if largest >= _LEAST_SEPARATION else 1
    nan = np.nan
    return best, [
        (k, nan, s, nan, k == best) for k, s in zip(numbers, found, strict=True)
    ]


def _separation(A: np.ndarray, labels: np.ndarray) -> float:
    least = np.inf
    for c in np.unique(labels):
        inside = labels == c
        whole, own = A[inside].sum(), A[np.ix_(inside, inside)]
        border = (whole - own.sum()) / max(whole, 1e-300)
        least = min(least, _inner_conductance(own) / max(border, 1e-9))
    return float(least)


def _inner_conductance(A: np.ndarray) -> float:
    """Return the least conductance of the cuts along the second eigenvector."""
    d = A.sum(axis=1)
    if len(A) < 2 or not d.all():
        return 0.0
    scale = 1 / np.sqrt(d)
    with few_threads_for(len(A)):
        vectors = np.linalg.eigh(A * scale[:, None] * scale[None, :])[1]
    order = np.argsort(vectors[:, -2] * scale, kind="stable")
    before = np.cumsum(d[order])[:-1]
    inside = np.cumsum(2 * np.tril(A[np.ix_(order, order)], -1).sum(axis=1))[:-1]
    least = float(np.min((before - inside) / np.minimum(before, d.sum() - before)))
    return least if least > 1e-9 else 0.0


def _tune_width(
    kernel_at: Callable[..., Kernel],
    kernel: Kernel,
    X: Array,
    graph: _PointGraph,
    n_clusters: int,
    rng: np.random.Generator,
) -> tuple[Kernel, np.ndarray, list]:
    """Return the widest kernel that keeps the most points in their parts of a cut.

    Also the parts of the rows, (n,), and what was tried. ``kernel_at(gamma)`` makes a
    kernel like the given one.
    """
    parts = _cut_graph(graph, n_clusters, rng)
    gammas = _widths(kernel, graph.D)
    found = [(*_kept(kernel_at(g), graph, parts, n_clusters, rng), g) for g in gammas]
    shares = np.asarray([share for share, *_ in found])
    best = int(np.argmax(shares >= shares.max() - 1e-9))
    _, result, gamma = found[best]
    kernel = kernel_at(gamma)
    tried = [
        (n_clusters, g, np.nan, share, i == best)
        for i, (share, _, g) in enumerate(found)
    ]
    if graph.rows is not None:
        return kernel, parts[graph.rows], tried
    return kernel, labels_on_landmarks(kernel, X, graph.points, result), tried


def _widths(kernel: Kernel, D: np.ndarray) -> np.ndarray:
    """Return gammas to try, the widest kernel first."""
    if len(D) < 2:
        return np.ones(1)
    last = min(_NEIGHBOURS, len(D) - 1)
    middle = np.median(D[np.triu_indices(len(D), 1)])
    near = min(np.median(np.partition(D, last, axis=1)[:, last]), middle)
    gammas = np.geomspace(0.5 / middle**2, 2 / near**2, _N_WIDTHS)
    return np.sqrt(gammas) if kernel.of_length else gammas


def _kept(
    kernel: Kernel, graph: _PointGraph, parts: np.ndarray, n_clusters: int, rng
) -> tuple[float, KernelKMeansResult]:
    """Return the share of points that kernel k-means keeps in their parts.

    Each point is assigned by the means of all others. Also the clusters, with ``coef``.
    """
    gram = make_gram(kernel, graph.points)
    weight = nx.as_like(graph.weight, gram.diagonal())
    options = {"init": parts, "sample_weight": weight, "rng": rng}
    best = kernel_kmeans(gram, n_clusters, **options)[0]
    problem = pose_problem(gram, n_clusters, weight)
    run = begin_runs(problem, [best.labels])[0]
    S, s, Q = (nx.to_numpy(v) for v in (run.sums, run.weights, run.squares))
    w, c, every = graph.weight, nx.to_numpy(best.labels), np.arange(len(S))
    mass = np.where(s > 0, s, np.inf)
    scores = 2 * S / mass - np.where(s > 0, Q / mass**2, np.inf)  # K_ii − D
    own, inside, rest = w * nx.to_numpy(problem.diagonal), S[every, c], s[c] - w
    alone = rest <= 1e-9 * s[c]
    rest = np.where(alone, 1.0, rest)
    left = 2 * (inside - own) / rest - (Q[c] - 2 * w * inside + w * own) / rest**2
    scores[every, c] = np.where(alone, -np.inf, left)
    share = float(w @ (scores.argmax(axis=1) == parts) / w.sum())
    return share, replace(best, coef=nx.to_numpy(mean_shares(best, weight)))
