"""Assign rows that are read part by part: each step is one pass over the parts.

Of a part, only sums come back: of the rows of each cluster, their weights and their
costs, k (d + 3) numbers however many rows there are. Labels are never in one place.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    Block,
    RowSource,
    array_namespace,
    as_like,
    astype,
    dense_rows,
    is_sparse,
    itemsize,
    to_numpy,
)
from kaucus.kernels import squared_norms
from kaucus.representatives._assign import Assigner, ClusterSums
from kaucus.representatives._geometry import (
    Centers,
    costs_from_scores,
    make_centers,
    prepare_rows,
)
from kaucus.representatives._seeding import rows_to_seed, spare_rows

# Of the rows among which k-means++ chooses: as read, of unit norm, and what is between.
_SEED_COPIES = 8


class Moments:
    """Number of rows, Σ x and Σ ‖x‖²; grows by blocks of rows."""

    def __init__(self, block: Block):
        rows = block.rows
        xp = array_namespace(rows)
        total = rows if is_sparse(rows) else astype(rows, "float64")
        total = total.sum(axis=0) if is_sparse(rows) else xp.sum(total, axis=0)
        self.n, self.total = rows.shape[0], np.ravel(to_numpy(total))
        self.squares = float(xp.sum(squared_norms(rows)))

    def merge(self, other: "Moments") -> None:
        """Add those of other rows."""
        self.n += other.n
        self.total = self.total + other.total
        self.squares += other.squares

    def spread(self) -> float:
        """Return the mean squared distance of the rows from their mean."""
        return self.squares / self.n - float(np.sum((self.total / self.n) ** 2))


class PartAssignment:
    """Sums over the rows that were assigned to each of k centres."""

    def __init__(self, n_clusters: int, like: np.ndarray):
        self.sums = ClusterSums(n_clusters, like)
        self.weights: np.ndarray = np.zeros(n_clusters)
        """Σ w."""
        self.held: np.ndarray = np.zeros(n_clusters)
        """Number of rows that could be a centre."""
        self.norms: np.ndarray = np.zeros(n_clusters)
        """Σ w ‖x‖ of the rows as they were given."""
        self.inertia = 0.0

    def merge(self, other: "PartAssignment") -> None:
        """Add those of other rows."""
        self.sums.merge(other.sums)
        self.weights = self.weights + other.weights
        self.held = self.held + other.held
        self.norms = self.norms + other.norms
        self.inertia += other.inertia


class Members(NamedTuple):
    """Sums of which new centres are made."""

    sums: ClusterSums
    weights: Array
    changed: Array | None
    """Clusters of which they changed; None: maybe all."""
    n_reseeded: int


class PartAssigner:
    """Assigns the rows of a source again and again to centres that move.

    Parameters
    ----------
    X : RowSource of shape (n, d)
    n_clusters : int
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,) or None
    """

    def __init__(self, X: RowSource, n_clusters: int, metric: str, weight):
        self._X = X if weight is None and not _has_vectors(X) else X.holding(weight)
        self._k, self._metric, self._weight = n_clusters, metric, weight

    def spread(self) -> float:
        """Return the mean squared distance of the rows from their mean."""
        return self._X.reduce(Moments, label="measure-rows").spread()

    def take(self, rows: np.ndarray) -> Array:
        """Return a few rows, dense, as the geometry wants them."""
        return prepare_rows(dense_rows(self._X, rows), self._metric)

    def rows_to_seed(self, weight: np.ndarray, rng) -> tuple[np.ndarray, Array]:
        """Return numbers and rows among which k-means++ chooses: some of very many."""
        n, d = self._X.shape
        most = self._X.budget // (_SEED_COPIES * d * itemsize(self._X))
        part = rows_to_seed(n, self._k, weight, rng, most)
        return part, self.take(part)

    def assign(self, centers: Centers, moved: Array | None = None) -> PartAssignment:
        """Assign all rows, and sum those that go to the same centre."""
        arguments = (centers, self._metric)
        return self._X.reduce(assign_part, *arguments, label="assign-rows")

    def members(self, found: PartAssignment, centers: Centers) -> Members:
        """Return the sums of each cluster; one without rows takes the worst of all."""
        n_empty = int(np.sum(found.held == 0))
        if n_empty == 0:
            return Members(found.sums, found.weights, None, 0)
        numbers, losses, labels = self._worst_rows(centers)
        rows = spare_rows(n_empty, found.held, labels, losses)
        new = np.flatnonzero(found.held == 0)[: len(rows)]
        sums, weights = found.sums.moved(None), found.weights.copy()
        if len(rows):
            x, left = self.take(numbers[rows]), labels[rows]
            w = np.ones(len(rows))
            w = w if self._weight is None else self._weight[numbers[rows]]
            sums.add(x, new, w, left)
            weights += np.bincount(new, w, minlength=self._k)
            weights -= np.bincount(left, w, minlength=self._k)
        return Members(sums, weights, None, len(rows))

    def _worst_rows(self, centers: Centers):
        """Return numbers, costs and labels of the rows that cost most, in order.

        Twice as many as there are clusters: of those that are passed over, each is
        alone in its cluster.
        """
        arguments = (centers, self._metric, 2 * self._k)
        found = self._X.map(worst_rows, *arguments, label="find-worst-rows")
        starts = np.cumsum(self._X.sizes) - self._X.sizes
        numbers = [start + part[0] for start, part in zip(starts, found, strict=True)]
        return (
            np.concatenate(numbers),
            np.concatenate([part[1] for part in found]),
            np.concatenate([part[2] for part in found]),
        )


def _has_vectors(X: RowSource) -> bool:
    return any(held.vectors for held in X.held)


class _Assigned(NamedTuple):
    """A part whose rows were assigned."""

    rows: Array
    """As the geometry wants them."""
    weight: np.ndarray | None
    norms: np.ndarray
    labels: Array
    costs: np.ndarray
    usable: np.ndarray
    """Which rows could be a centre."""


def assign_part(block: Block, centers: Centers, metric: str) -> PartAssignment:
    """Return the sums over the rows of a part that go to the same centre."""
    k = centers.values.shape[0]
    out = PartAssignment(k, centers.values)
    if block.rows.shape[0] == 0:
        return out
    part = _assign(block, centers, metric)
    weight, labels = part.weight, to_numpy(part.labels)
    sums = ClusterSums(k, as_like(centers.values, part.rows))
    on_device = None if weight is None else as_like(weight, part.labels)
    sums.add(part.rows, part.labels, on_device)
    out.sums.values = to_numpy(sums.values)
    w = np.ones(len(labels)) if weight is None else weight
    out.weights = np.bincount(labels, w, minlength=k)
    out.held = np.bincount(labels, part.usable, minlength=k)
    out.norms = np.bincount(labels, w * part.norms, minlength=k)
    out.inertia = float(w @ part.costs)
    return out


def part_labels(X: RowSource, centers: Array, metric: str) -> np.ndarray:
    """Return the number of the best centre of each row, (n,)."""
    made = make_centers(centers, metric)
    return np.concatenate(X.map(labels_of_part, made, metric, label="label-rows"))


def labels_of_part(block: Block, centers: Centers, metric: str) -> np.ndarray:
    """Return the same of the rows of a part."""
    if block.rows.shape[0] == 0:
        return np.empty(0, dtype=np.int64)
    return to_numpy(_assign(block, centers, metric).labels)


def worst_rows(block: Block, centers: Centers, metric: str, n_rows: int):
    """Return numbers, costs and labels of the rows that cost most, in their order."""
    if block.rows.shape[0] == 0:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, np.empty(0), nothing
    part = _assign(block, centers, metric)
    losses = part.costs * part.usable
    worst = np.sort(np.argsort(-losses, kind="stable")[:n_rows])
    return worst, losses[worst], to_numpy(part.labels)[worst]


def _assign(block: Block, centers: Centers, metric: str) -> _Assigned:
    weight = block.vectors[0] if block.vectors else None
    squared = squared_norms(block.rows)
    rows = prepare_rows(block.rows, metric, squared)
    here = Centers(*(as_like(part, rows) for part in centers))
    assigner = Assigner(rows, centers.values.shape[0], block.budget, n_rows=0)
    found = assigner.assign(here)
    scores = to_numpy(assigner.exact_scores(found, here))
    squared = to_numpy(squared)
    # A row without direction cannot be a centre on the sphere.
    usable = squared >= 0 if metric == "euclidean" else squared > 0
    usable = usable if weight is None else usable & (weight > 0)
    costs = costs_from_scores(scores, squared if metric == "euclidean" else None)
    return _Assigned(rows, weight, np.sqrt(squared), found.labels, costs, usable)
