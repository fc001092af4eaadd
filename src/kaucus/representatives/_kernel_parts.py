"""Kernel k-means of rows that are read part by part, with means held to landmarks.

With landmarks z_1 ... z_m, t(x) = (k(x, z_1), ..., k(x, z_m)) and A = K_mm + λI, the
mean of a cluster is Σ_q a_q φ(z_q) with a = A⁻¹ t̄, where t̄ is the mean of t over its
rows: the same means as those of ``NystromGram``.

Each step is one pass over the parts. Of a part, only sums come back: Σ w t and Σ w of
each cluster, and Σ w k(x, x), k (m + 2) numbers however many rows there are. The means,
their norms and the objective of the new clusters follow from these.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    Block,
    RowSource,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    entries_at,
    format_bytes,
    itemsize,
    row_blocks,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel, KernelOperator
from kaucus.representatives._assign import ClusterSums
from kaucus.representatives._feature_means import pose_problem, positive_weights
from kaucus.representatives._gram import landmark_factor
from kaucus.representatives._kernel_kmeans import KernelKMeansResult, far_rows
from kaucus.representatives._lloyd import best_of_starts
from kaucus.representatives._parts import (
    Members,
    fill_empty,
    largest_losses,
    worst_of_parts,
)
from kaucus.representatives._seeding import rows_to_seed

# Blocks of t within a part: of one size, so that sums do not depend on the memory.
_BLOCK_BYTES = 64 * 2**20
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
        """Add those of other rows."""
        self.sums.merge(other.sums)
        self.weights = self.weights + other.weights
        self.held = self.held + other.held
        self.total += other.total


def kernel_kmeans_of_parts(
    kernel: Kernel,
    X: RowSource,
    landmarks: Array,
    n_clusters: int,
    *,
    init: str | np.ndarray = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 0.0,
    sample_weight: np.ndarray | None = None,
    rng: np.random.Generator,
    callback: Callable[[int, float], object] | None = None,
) -> KernelKMeansResult:
    """Cluster rows that are read part by part, with means in the span of landmarks.

    Parameters
    ----------
    kernel : Kernel
    X : RowSource of shape (n, d)
        Read once in every step.
    landmarks : array or CSR matrix of shape (m, d)
    n_clusters : int
        At most n.
    init : {"k-means++", "random"} or integer array of shape (n,), default="k-means++"
        As in :func:`kernel_kmeans`; of very many rows, ``"k-means++"`` chooses among a
        random part.
    n_init : int, default=1
        Starts, of which the one of least inertia is kept.
    max_iter : int, default=300
    tol : float, default=0.0
        Stop when a step lowers the objective by no more than this share of it; 0: when
        no row moves.
    sample_weight : ndarray of shape (n,), default=None
    rng : numpy.random.Generator
    callback : callable, default=None
        ``callback(step, gain)`` after each step, with the share of the objective by
        which it fell; a true result ends the start.

    Returns
    -------
    KernelKMeansResult
        Without labels, see :func:`labels_of_parts`, and with ``coef``.

    Notes
    -----
    n m (d + k) multiplications a step, and 8 k m bytes from each part.
    """
    _check_memory(X, landmarks.shape[0], n_clusters)
    parts = _KernelParts(kernel, X, landmarks, n_clusters, sample_weight)

    def start(start_rng: np.random.Generator) -> KernelKMeansResult:
        state = parts.first(init, start_rng)
        return _iterate(parts, state, max_iter, tol, callback)

    return best_of_starts(start, rng.spawn(n_init))


def _check_memory(X: RowSource, m: int, k: int) -> None:
    """Raise where work on one part has no room for its sums."""
    # The sums of a part and of a block of it, the landmarks, and a few rows at work.
    needed = 8 * (3 * k * m + m * X.shape[1] + 16 * _entries_of_row(m, k))
    if needed > X.budget:
        raise MemoryError(
            f"n_landmarks={m} and n_clusters={k} need {format_bytes(needed)} for the "
            f"sums over each part of the rows, and there are {format_bytes(X.budget)}; "
            "lower n_landmarks, raise memory_budget, or use workers with fewer threads "
            "or more memory."
        )


def _iterate(
    parts: "_KernelParts", state: _State, max_iter: int, tol: float, callback
) -> KernelKMeansResult:
    """Take steps from the given clusters until the objective falls no more."""
    n_iter, finished = 0, False
    while n_iter < max_iter and not finished:
        new = parts.step(state)
        gain, size = state.objective - new.objective, abs(state.objective)
        finished = gain <= tol * size
        state = new if gain > 0 else state  # ties, at the level of rounding
        n_iter += 1
        share = max(gain, 0.0) / max(size, 1e-300)
        if callback is not None and callback(n_iter, share):
            break
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


class _KernelParts:
    """Assigns the rows of a source again and again to means that move."""

    def __init__(
        self, kernel: Kernel, X: RowSource, landmarks, n_clusters: int, weight
    ):
        self._kernel, self._landmarks, self._k = kernel, landmarks, n_clusters
        self._weight = None if weight is None else to_numpy(weight)
        self._X = X.holding(None, self._weight)
        self._L = landmark_factor(kernel, landmarks, X)

    def first(self, init: str | np.ndarray, rng: np.random.Generator) -> _State:
        """Return the clusters to begin with."""
        if isinstance(init, str) and init == "k-means++":
            found = self._sums(self._X, self._seeds(rng))
        else:
            n = self._X.shape[0]
            labels = rng.integers(self._k, size=n) if isinstance(init, str) else init
            found = self._sums(self._X.holding(labels, self._weight), None)
        return self._state(found, Members(found.sums, found.weights, None, 0))

    def step(self, state: _State) -> _State:
        """Assign all rows again; return the clusters that they then form."""
        found = self._sums(self._X, state.means)
        arguments = (self._kernel, self._landmarks, state.means, 2 * self._k)
        members = fill_empty(
            found,
            lambda: worst_of_parts(self._X, worst_rows, *arguments),
            lambda rows: _columns(
                self._kernel, take_rows(self._X, rows), self._landmarks
            ),
            self._weight,
        )
        new = self._state(found, members)
        return new._replace(n_reseeded=state.n_reseeded + members.n_reseeded)

    def _sums(self, X: RowSource, means: Means | None) -> MeanSums:
        arguments = (self._kernel, self._landmarks, means, self._k)
        n_bytes = 8 * self._k * self._landmarks.shape[0]
        return X.reduce(assign_part, *arguments, label="assign-rows", n_bytes=n_bytes)

    def _state(self, found: MeanSums, members: Members) -> _State:
        """Return the means of the sums, and the objective."""
        weights, safe = members.weights, positive_weights(members.weights)
        sums = members.sums.values.T  # (m, k)
        coef = cho_solve(self._L, sums) / safe
        norms = np.sum(sums * coef, axis=0) / safe
        objective = found.total - float(weights @ norms)
        norms = np.where(weights > 0, norms, np.inf)
        return _State(Means(coef, norms), weights, objective)

    def _seeds(self, rng: np.random.Generator) -> Means:
        """Return rows far from each other as the first means."""
        (n, d), weight = self._X.shape, self._weight
        weight = np.ones(n) if weight is None else weight
        most = self._X.budget // (_SEED_COPIES * d * itemsize(self._X))
        part = rows_to_seed(n, self._k, weight, rng, most)
        rows = take_rows(self._X, part)
        gram = KernelOperator(
            self._kernel, rows, memory_budget=self._X.budget, keep=None
        )
        problem = pose_problem(gram, self._k, weight[part])
        seeds = far_rows(problem, rng)
        norms = to_numpy(problem.diagonal)[seeds]
        return Means(np.eye(self._k), norms, take_rows(rows, seeds))


# ---- the work on one part ------------------------------------------------------------


def assign_part(
    block: Block, kernel: Kernel, landmarks: Array, means: Means | None, n_clusters: int
) -> MeanSums:
    """Return the sums over the rows of a part that go to the same mean.

    ``means`` is None where their clusters are beside the rows.
    """
    out = MeanSums(n_clusters, landmarks.shape[0])
    for piece in _pieces(block, landmarks.shape[0], n_clusters):
        part = _assign(piece, kernel, landmarks, means)
        labels = to_numpy(part.labels)
        w = np.ones(len(labels)) if part.weight is None else part.weight
        sums = ClusterSums(n_clusters, part.columns)
        sums.add(part.columns, part.labels, as_like(part.weight, part.labels))
        out.sums.values += to_numpy(sums.values)
        out.weights += np.bincount(labels, w, minlength=n_clusters)
        out.held += np.bincount(labels, w > 0, minlength=n_clusters)
        out.total += float(w @ to_numpy(part.diagonal))
    return out


def worst_rows(
    block: Block, kernel: Kernel, landmarks: Array, means: Means, n_rows: int
):
    """Return numbers, costs and labels of the rows that cost most, in their order."""
    losses, labels = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for piece in _pieces(block, landmarks.shape[0], means.coef.shape[1]):
        part = _assign(piece, kernel, landmarks, means)
        own = entries_at(part.scores, part.labels)
        costs = np.maximum(to_numpy(part.diagonal - own), 0)
        losses.append(costs if part.weight is None else costs * (part.weight > 0))
        labels.append(to_numpy(part.labels))
    found = np.concatenate(losses)
    worst = largest_losses(found, n_rows)
    return worst, found[worst], np.concatenate(labels)[worst]


def labels_of_parts(
    kernel: Kernel, X: RowSource, landmarks: Array, result: KernelKMeansResult
) -> np.ndarray:
    """Return the cluster of the nearest mean of each row, (n,)."""
    assert result.coef is not None
    norms = np.where(to_numpy(result.weights) > 0, result.center_norms, np.inf)
    arguments = (kernel, landmarks, Means(result.coef, norms))
    held = X.holding(None, None)
    return np.concatenate(held.map(labels_of_part, *arguments, label="label-rows"))


def labels_of_part(
    block: Block, kernel: Kernel, landmarks: Array, means: Means
) -> np.ndarray:
    """Return the same of the rows of a part."""
    pieces = _pieces(block, landmarks.shape[0], means.coef.shape[1])
    labels = [to_numpy(_assign(p, kernel, landmarks, means).labels) for p in pieces]
    return np.concatenate([np.empty(0, dtype=np.int64), *labels])


class _Assigned(NamedTuple):
    """Rows with their clusters."""

    columns: Array
    """t, (b, m), in float64."""
    diagonal: Array
    """k(x, x), (b,)."""
    labels: Array
    scores: Array
    """k(x, x) − D(x, m) with each mean, (b, k); empty for given clusters."""
    weight: np.ndarray | None


def _assign(
    block: Block, kernel: Kernel, landmarks: Array, means: Means | None
) -> _Assigned:
    """Find the nearest mean of each row."""
    rows, (given, weight) = block.rows, block.vectors
    columns = _columns(kernel, rows, landmarks)
    diagonal = as_like(astype(kernel.diag(rows), "float64"), columns)
    if means is None:
        labels = as_like(given, columns, dtype="int64")
        return _Assigned(columns, diagonal, labels, columns[:, :0], weight)
    near = columns
    if means.points is not None:
        near = _columns(kernel, rows, means.points)
    scores = 2 * (near @ as_like(means.coef, near)) - as_like(means.norms, near)
    labels = array_namespace(scores).argmax(scores, axis=1)
    return _Assigned(columns, diagonal, labels, scores, weight)


def _columns(kernel: Kernel, rows: Array, points: Array) -> Array:
    """Return k(x, z) of rows and points, where the rows are, in float64."""
    return astype(kernel(rows, as_like(points, rows)), "float64")


def _pieces(block: Block, m: int, k: int) -> Iterator[Block]:
    """Yield a part in blocks for whose work there is room."""
    n_bytes = min(_BLOCK_BYTES, max(block.budget // 2, 1))
    for s in row_blocks(block.rows.shape[0], 8 * _entries_of_row(m, k), n_bytes):
        vectors = tuple(None if v is None else v[s] for v in block.vectors)
        yield block._replace(rows=block.rows[s, :], vectors=vectors)


def _entries_of_row(m: int, k: int) -> int:
    return _COPIES * m + 3 * k
