"""Assign rows that are read part by part: each step is one pass over the parts.

Of a part, only sums come back: of the rows of each cluster, their weights and their
costs, k (d + 3) numbers however many rows there are. Labels are never in one place.
Groups of rows that are clustered apart, such as classes, are served by the same pass.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    take_rows,
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

Groups = Sequence[int | None]
"""Numbers of groups of rows; None is the group of all."""


class _Moments:
    """Number of rows, Σ x and Σ ‖x‖² of each group of rows."""

    def __init__(self, block: Block, groups: Groups):
        self.of = {group: _moments(_group(block, group)[0].rows) for group in groups}

    def merge(self, other: "_Moments") -> None:
        """Add those of other rows."""
        self.of = {g: self.of[g] + other.of[g] for g in self.of}


def _moments(rows: Array) -> np.ndarray:
    xp = array_namespace(rows)
    wide = rows if is_sparse(rows) else astype(rows, "float64")
    total = rows.sum(axis=0) if is_sparse(rows) else xp.sum(wide, axis=0)
    squares = float(xp.sum(squared_norms(rows))) if rows.shape[0] else 0.0
    return np.concatenate([[rows.shape[0], squares], np.ravel(to_numpy(total))])


def spreads(X: RowSource, groups: Sequence[int] | None) -> dict[int | None, float]:
    """Return the mean squared distance of the rows of each group from their mean.

    ``groups`` are numbers of groups, of a source :func:`with_groups`; None: all rows
    are one group, whose key is None.
    """
    asked: Groups = [None] if groups is None else groups
    found = X.reduce(_Moments, asked, label="measure-rows").of
    return {group: _spread(moments) for group, moments in found.items()}


def _spread(moments: np.ndarray) -> float:
    n, squares, total = moments[0], moments[1], moments[2:]
    return float(squares / n - np.sum((total / n) ** 2))


def with_groups(
    X: RowSource, groups: np.ndarray | None, weight: np.ndarray | None
) -> RowSource:
    """Return the rows with the numbers of their groups and their weights beside them.

    Rows of a negative number are in no group; None: all are in one, of weight one.
    """
    return X.holding(groups, weight)


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


class JointAssignment:
    """Assignments of several groups of rows, each to its own centres."""

    def __init__(self, of: dict[int | None, PartAssignment]):
        self.of = of

    def merge(self, other: "JointAssignment") -> None:
        """Add those of other rows."""
        for group, found in other.of.items():
            self.of[group].merge(found)


def assign_groups(
    X: RowSource, centers: dict[int | None, Centers], metric: str
) -> dict[int | None, PartAssignment]:
    """Assign the rows of each group to its centres, all groups in one pass.

    ``X`` is a source :func:`with_groups`; the group None is all rows.
    """
    return X.reduce(assign_part, centers, metric, label="assign-rows").of


class PartAssigner:
    """Assigns the rows of a source again and again to centres that move.

    Parameters
    ----------
    X : RowSource of shape (n, d)
        See :func:`with_groups`.
    n_clusters : int
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,) or None
    group : int, default=None
        The rows of which group; None: all.
    numbers : ndarray of shape (n_group,), default=None
        Which rows these are.
    """

    def __init__(
        self,
        X: RowSource,
        n_clusters: int,
        metric: str,
        weight: np.ndarray | None,
        group: int | None = None,
        numbers: np.ndarray | None = None,
    ):
        self._X, self._k, self._metric, self._weight = X, n_clusters, metric, weight
        self._group, self._numbers = group, numbers

    def take(self, rows: np.ndarray) -> Array:
        """Return a few rows of the group, dense, as the geometry wants them."""
        return self._take(rows if self._numbers is None else self._numbers[rows])

    def _take(self, numbers: np.ndarray) -> Array:
        return prepare_rows(dense_rows(self._X, numbers), self._metric)

    def rows_to_seed(self, weight: np.ndarray, rng) -> tuple[np.ndarray, Array]:
        """Return numbers and rows among which k-means++ chooses: some of very many."""
        most = self._X.budget // (_SEED_COPIES * self._X.shape[1] * itemsize(self._X))
        part = rows_to_seed(len(weight), self._k, weight, rng, most)
        return part, self.take(part)

    def assign(self, centers: Centers, moved: Array | None = None) -> PartAssignment:
        """Assign all rows, and sum those that go to the same centre."""
        group = self._group
        return assign_groups(self._X, {group: centers}, self._metric)[group]

    def members(self, found: PartAssignment, centers: Centers) -> Members:
        """Return the sums of each cluster; one without rows takes the worst of all."""
        arguments = (self._group, centers, self._metric, 2 * self._k)
        return fill_empty(
            found,
            lambda: worst_of_parts(self._X, worst_rows, *arguments),
            self._take,
            self._weight,
        )


def fill_empty(found: Any, worst: Callable, take: Callable, weight) -> Members:
    """Return the sums of each cluster; one without rows takes the worst of all.

    Parameters
    ----------
    found : accumulator
        With ``sums``, ``weights`` and ``held`` of each cluster; not changed.
    worst : callable
        Returns numbers, costs and labels of the rows that cost most.
    take : callable
        Returns rows by their numbers as they are summed.
    weight : ndarray of shape (n,) or None
    """
    empty = np.flatnonzero(found.held == 0)
    if not len(empty):
        return Members(found.sums, found.weights, None, 0)
    numbers, losses, labels = worst()
    rows = spare_rows(len(empty), found.held, labels, losses)
    new, sums, weights = empty[: len(rows)], found.sums.moved(None), found.weights
    if len(rows):
        left, k = labels[rows], len(found.held)
        w = np.ones(len(rows)) if weight is None else weight[numbers[rows]]
        sums.add(take(numbers[rows]), new, w, left)
        weights = weights + np.bincount(new, w, minlength=k)
        weights = weights - np.bincount(left, w, minlength=k)
    return Members(sums, weights, None, len(rows))


def worst_of_parts(X: RowSource, function: Callable, *arguments: Any):
    """Return numbers, costs and labels of the rows that cost most, in their order.

    ``function`` returns those of a part. Twice as many as there are clusters will do:
    of those that are passed over, each is alone in its cluster.
    """
    found = X.map(function, *arguments, label="find-worst-rows")
    starts = np.cumsum(X.sizes) - X.sizes
    numbers = [start + part[0] for start, part in zip(starts, found, strict=True)]
    return (
        np.concatenate(numbers),
        np.concatenate([part[1] for part in found]),
        np.concatenate([part[2] for part in found]),
    )


def _group(block: Block, group: int | None) -> tuple[Block, np.ndarray | None]:
    """Return the rows of a group with their weights, and their numbers in the block."""
    weight = block.vectors[1] if block.vectors else None
    if group is None:
        return block._replace(vectors=(weight,)), None
    numbers = np.flatnonzero(block.vectors[0] == group)
    own = None if weight is None else weight[numbers]
    rows = take_rows(block.rows, numbers)
    return block._replace(rows=rows, vectors=(own,)), numbers


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


def assign_part(
    block: Block, centers: dict[int | None, Centers], metric: str
) -> JointAssignment:
    """Return the sums over the rows of a part that go to the same centre, by groups."""
    return JointAssignment(
        {
            group: _assign_group(_group(block, group)[0], own, metric)
            for group, own in centers.items()
        }
    )


def _assign_group(block: Block, centers: Centers, metric: str) -> PartAssignment:
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
    return to_numpy(_assign(_group(block, None)[0], centers, metric).labels)


def worst_rows(
    block: Block, group: int | None, centers: Centers, metric: str, n_rows: int
):
    """Return numbers, costs and labels of the rows that cost most, in their order."""
    block, numbers = _group(block, group)
    if block.rows.shape[0] == 0:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, np.empty(0), nothing
    part = _assign(block, centers, metric)
    losses = part.costs * part.usable
    worst = largest_losses(losses, n_rows)
    of_block = worst if numbers is None else numbers[worst]
    return of_block, losses[worst], to_numpy(part.labels)[worst]


def largest_losses(losses: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the numbers of the rows that lose most, ascending."""
    return np.sort(np.argsort(-losses, kind="stable")[:n_rows])


def _assign(block: Block, centers: Centers, metric: str) -> _Assigned:
    (weight,), squared = block.vectors, squared_norms(block.rows)
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
