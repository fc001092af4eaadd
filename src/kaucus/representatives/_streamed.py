"""k-means of rows that stay on the host: each step is one pass of blocks over a device.

The iteration is that of ``_lloyd``. A block goes to the device once for a step: there
it is assigned to the centres, and added to the sums of which the next ones are made.
Labels and scores, one number a row, stay on the host.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    dtype_name,
    itemsize,
    iter_device_blocks,
    resolve_budget,
    row_blocks,
    segment_sum,
    to_numpy,
)
from kaucus.kernels import squared_norms
from kaucus.representatives._assign import Assigner
from kaucus.representatives._geometry import (
    Centers,
    centers_from_sums,
    costs_from_scores,
    deviation,
    make_centers,
    prepare_rows,
)
from kaucus.representatives._lloyd import KMeansResult, best_of_starts, reseed_empty
from kaucus.representatives._seeding import kmeans_plus_plus, random_seeds

# Rows among which k-means++ chooses, for each centre and in all: it looks at every row
# once for every centre, and would send all of them to the device as often.
_SEED_ROWS, _LEAST_SEED_ROWS = 20, 20_000
_BLOCK_BYTES = 256 * 2**20


class _Pass(NamedTuple):
    """What one look at all rows tells."""

    labels: np.ndarray
    scores: np.ndarray
    """With the best centre, (n,), in float64."""
    sums: Array
    """Σ w x of each cluster, (k, d), float64, on the device."""
    weights: Array
    """Σ w of each cluster, (k,), float64, on the device."""


class StreamedRows:
    """Rows of the host that are looked at block by block on a device.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Also a memory map.
    like : array
        Whose library and device the work has.
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,)
    n_clusters : int
    budget : int
        Bytes; an eighth of it for a block and its scores.
    """

    def __init__(self, X, like, metric: str, weight, n_clusters: int, budget: int):
        self.X, self.like, self.metric, self.weight = X, like, metric, weight
        self.n_clusters, self._n_looked_at = n_clusters, len(X)
        per_row = (2 * X.shape[1] + 2 * n_clusters) * itemsize(X)
        room = min(budget // 8, _BLOCK_BYTES)
        self.blocks = list(row_blocks(X.shape[0], per_row, room))
        norms = [to_numpy(squared_norms(x)) for _, x in self.on_device()]
        self.norms = np.concatenate(norms)
        self.squared = self.norms if metric == "euclidean" else None

    def on_device(self):
        """Yield slices and the rows as they are given."""
        return iter_device_blocks(self.X, self.blocks, self.like)

    def some(self, rows: np.ndarray) -> Array:
        """Return a few rows on the device, as the geometry wants them."""
        return prepare_rows(as_like(self.X[rows], self.like), self.metric)

    def assign(self, centers: Centers) -> _Pass:
        """Assign all rows, and sum those that go to the same centre."""
        xp, k = array_namespace(centers.values), self.n_clusters
        sums = astype(xp.zeros_like(centers.values), "float64")
        weights = sums[:, 0]
        labels, scores = [], []
        for s, given in self.on_device():
            rows = prepare_rows(given, self.metric)
            best, found = self._best(rows, centers)
            w = as_like(self.weight[s], self.like)[:, None]
            sums = sums + segment_sum(astype(rows, "float64") * w, best, k)
            weights = weights + segment_sum(w, best, k)[:, 0]
            labels.append(to_numpy(best))
            scores.append(to_numpy(found))
        numbers = np.concatenate(scores).astype(np.float64)
        return _Pass(np.concatenate(labels), numbers, sums, weights)

    def _best(self, rows: Array, centers: Centers) -> tuple[Array, Array]:
        """Return the best centre of each row of a block, and the score with it."""
        k = self.n_clusters
        room = 4 * itemsize(rows) * rows.shape[0] * k  # the whole block at once
        assigner = Assigner(rows, k, room, n_rows=self._n_looked_at)
        found = assigner.assign(centers)
        if not assigner.looks_twice:  # nor is the next block worth it
            self._n_looked_at = 0
        return found.labels, assigner.exact_scores(found, centers)

    def reseeded(self, last: _Pass) -> tuple[_Pass, int]:
        """Give each cluster without rows the worst represented one."""
        can_seed = self.weight > 0
        if self.metric == "cosine":  # a row without direction cannot be a centre
            can_seed = can_seed & (self.norms > 0)
        costs = costs_from_scores(last.scores, self.squared)
        labels, n = reseed_empty(last.labels, costs, can_seed, self.n_clusters)
        if n == 0:
            return last, 0
        rows = np.flatnonzero(labels != last.labels)
        w = as_like(self.weight[rows], self.like)[:, None]
        x = astype(self.some(rows), "float64") * w
        old, new = (as_like(v[rows], self.like) for v in (last.labels, labels))
        k = self.n_clusters
        sums = last.sums + segment_sum(x, new, k) - segment_sum(x, old, k)
        moved = segment_sum(w, new, k) - segment_sum(w, old, k)
        return _Pass(labels, last.scores, sums, last.weights + moved[:, 0]), n

    def spread(self) -> float:
        """Return the mean squared distance of the rows from their mean (euclidean)."""
        if self.squared is None:
            return 1.0
        mean = np.mean(self.X, axis=0, dtype=np.float64)
        return float(np.mean(self.squared) - np.sum(mean**2))


def streamed_kmeans(
    X: np.ndarray,
    n_clusters: int,
    *,
    like: Array,
    metric: str = "cosine",
    init: str | Array = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-6,
    sample_weight: np.ndarray | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> KMeansResult:
    """Find centres as :func:`kmeans` does, for rows that do not fit on the device.

    Parameters are those of :func:`kmeans`, but for ``like``, an array on the device.
    From the same first centres the result is the same to rounding; ``"k-means++"``
    chooses them among a random part of the rows where there are very many.

    Returns
    -------
    KMeansResult
        Centres on the device, labels on the host.
    """
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    budget = resolve_budget(memory_budget, like)
    rows = StreamedRows(X, like, metric, weight, n_clusters, budget)

    def start(start_rng: np.random.Generator) -> KMeansResult:
        first = _first_centers(rows, init, start_rng)
        return _iterate(rows, first, max_iter, tol, callback)

    return best_of_starts(start, rng.spawn(n_init))


def _first_centers(rows: StreamedRows, init, rng) -> Centers:
    k, metric = rows.n_clusters, rows.metric
    if not isinstance(init, str):
        return make_centers(prepare_rows(as_like(init, rows.like), metric), metric)
    if init == "random":
        chosen = random_seeds(len(rows.X), k, rows.weight, rng)
        return make_centers(rows.some(chosen), metric)
    n_seeds = min(max(_SEED_ROWS * k, _LEAST_SEED_ROWS), len(rows.X))
    part = np.arange(len(rows.X))
    if n_seeds < len(rows.X):
        part = np.sort(random_seeds(len(rows.X), n_seeds, rows.weight, rng))
    some = rows.some(part)
    weight = rows.weight[part]
    chosen = kmeans_plus_plus(some, k, metric=metric, weight=weight, rng=rng)
    return make_centers(rows.some(part[chosen]), metric)


def _iterate(
    rows: StreamedRows, centers: Centers, max_iter: int, tol: float, callback
) -> KMeansResult:
    """Iterate from given centres."""
    scale, last = rows.spread(), rows.assign(centers)
    n_iter, n_reseeded, converged, interrupted = 0, 0, False, False
    while n_iter < max_iter and not converged:
        try:
            seeded, reseeded = rows.reseeded(last)
            new = centers_from_sums(seeded.sums, seeded.weights, centers, rows.metric)
            moved = deviation(new.values, centers.values, rows.metric, scale)
            found = rows.assign(new)
            centers, last, n_iter = new, found, n_iter + 1
            n_reseeded, converged = n_reseeded + reseeded, moved <= tol
            if callback is not None and callback(n_iter, moved):
                break
        except KeyboardInterrupt:
            interrupted = True
            break
    inertia = float(rows.weight @ costs_from_scores(last.scores, rows.squared))
    return KMeansResult(
        astype(centers.values, dtype_name(rows.like)),
        last.labels,
        inertia,
        n_iter,
        converged,
        n_reseeded,
        interrupted,
        rows.norms,
    )
