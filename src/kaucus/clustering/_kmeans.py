"""k-means and spherical k-means: seeding, assignment, Lloyd's steps, per class."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    Scratch,
    for_each_block,
    format_bytes,
    in_threads,
    n_workers,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import Block, Rows, as_rows, on_device_if_it_fits
from kaucus._array.segments import (
    best_one,
    best_two,
    count_labels,
    draw_some,
    rough_error,
    rough_inner_products,
    segment_sum,
)
from kaucus.kernels._kernel import inner_products, squared_norms, unit_rows

# ----------------------------------------------------------------------------------
# The two geometries of k-means, written so that one loop serves both.
#
# A row x belongs to the centre c of the largest score
#
#     cosine      ⟨x, c⟩              for rows and centres of unit norm
#     euclidean   ⟨x, c⟩ − ‖c‖²/2     which is (‖x‖² − ‖x − c‖²) / 2
#
# so that either assignment is one matrix product and one arg max. A centre is the mean
# of its rows, scaled to unit norm in the cosine geometry (Andrecut 2020, eq. 25-26).
#
# What a row costs is 1 − ⟨x, c⟩ (cosine) or ‖x − c‖² (euclidean).
#
# Euclidean distances do not change where a point is taken off all rows, but the scores
# of rows far from the origin are differences of large numbers: with a constant column
# of 10⁵, float32 saw no clusters. So a point amid such rows is taken off first, and
# added to the centres that are found. Sparse rows stay as they are.
# ----------------------------------------------------------------------------------

# Rows that tell how far all are from the origin.
_ROWS_OF_SHIFT = 100


class Centers(NamedTuple):
    """Centres with their norms."""

    values: Array
    """(k, d), in the precision of the rows."""
    offsets: Array | None
    """−‖c‖²/2, (k,), or None in the cosine geometry."""


def prepare_rows(X: Array, metric: str, squared: Array | None = None) -> Array:
    """Return the rows, of unit norm for "cosine".

    ``X`` itself where nothing is to do. ``squared`` are the squared norms of the rows,
    where they are known.
    """
    if metric != "cosine":
        return X
    norms = squared_norms(X) if squared is None else squared
    xp = nx.array_namespace(norms)
    all_one = bool(xp.all(xp.abs(norms - 1) <= 8 * nx.epsilon(X)))
    return X if all_one else unit_rows(X, norms)


def common_shift(X: Array, metric: str, rows: np.ndarray) -> np.ndarray | None:
    """Return a point amid rows that are further from the origin than from each other.

    ``rows`` are the numbers of those that count. None where they are nearer, or where a
    shift would change what is clustered.
    """
    if metric == "cosine":
        return None
    some = nx.take_rows(X, nx.as_like(rows[:: max(len(rows) // _ROWS_OF_SHIFT, 1)], X))
    if nx.is_sparse(some):
        return None
    some = nx.to_numpy(some).astype(np.float64)
    center = some.mean(axis=0)
    with np.errstate(over="ignore"):
        far = np.sum(center**2) > np.mean(np.sum((some - center) ** 2, axis=1))
    return center if far else None


def less(point: np.ndarray, X: Array) -> Array:
    """Return rows less a point."""
    return X - nx.as_like(point, X, dtype=nx.dtype_name(X))[None, :]


def make_centers(values: Array, metric: str) -> Centers:
    """Complete centres that are unit rows already ("cosine"), or any ("euclidean")."""
    if metric == "cosine":
        return Centers(values, None)
    offsets = nx.astype(-0.5 * squared_norms(values), nx.dtype_name(values))
    return Centers(values, offsets)


def centers_from_sums(
    sums: Array, weights: Array, old: Centers, metric: str
) -> Centers:
    """Return new centres from the weighted sums of their rows.

    Parameters
    ----------
    sums : array of shape (k, d)
        In float64.
    weights : array of shape (k,)
        Total weights; a centre of weight zero stays where it is.
    old : Centers
    metric : {"cosine", "euclidean"}
    """
    xp = nx.array_namespace(sums)
    alive = weights > 0
    if metric == "cosine":
        # Rows that cancel each other have a sum without direction: stay as well.
        squared = squared_norms(sums)
        means, alive = unit_rows(sums, squared), alive & (squared > 0)
    else:
        means = sums / xp.where(alive, weights, xp.ones_like(weights))[:, None]
    means = nx.astype(means, nx.dtype_name(old.values))
    return make_centers(xp.where(alive[:, None], means, old.values), metric)


def costs_from_scores(scores: Array, squared: Array | None) -> Array:
    """Return the costs of rows from their largest scores, float64.

    ``squared`` is ‖x‖² of the rows in the euclidean geometry, None in the cosine one.
    """
    xp = nx.array_namespace(scores)
    scores = nx.astype(scores, "float64")
    costs = 1 - scores if squared is None else squared - 2 * scores
    return xp.maximum(costs, xp.zeros_like(costs))


def deviation(new: Array, old: Array, metric: str, scale: float) -> float:
    """Return how far the centres moved; the iteration stops below ``tol``.

    cosine: the alignment deviation δ = 1 − mean⟨new, old⟩ (Andrecut 2020, eq. 27), for
    unit rows the same as mean ‖new − old‖²/2, which keeps its digits;
    euclidean: mean ‖new − old‖² over ``scale``, the mean squared distance of the rows
    from their mean.
    """
    xp = nx.array_namespace(new)
    new, old = nx.astype(new, "float64"), nx.astype(old, "float64")
    moved = float(xp.mean(xp.sum((new - old) ** 2, axis=1)))
    return moved / 2 if metric == "cosine" else moved / max(scale, 1e-300)


# ----------------------------------------------------------------------------------
# Assign rows to their best centres, computing only what may have changed.
#
# The scores of a centre that did not move are the same as before. So the matrix of
# scores is kept, where there is room for it, and after each step only the columns of
# the centres that moved are computed again: on MNIST with 1,000 centres a class, ten
# steps cost 2.9 full products in place of 10.
#
# Where the device has fast products of few digits (tf32 on CUDA), these come first: the
# best centre of a row is certain if it leads by more than their error bound, and only
# doubtful rows are scored again in full precision. The labels are the same.
#
# Blocks of rows have a fixed height, whatever the memory and the number of threads, so
# that the result depends on neither.
# ----------------------------------------------------------------------------------

# High enough for an efficient product. Of many rows, blocks are as high as they may be
# to stay in cache: sixteen threads that come for Python's lock after every 1,024 rows
# wait for each other.
_BLOCK_ROWS, _BLOCK_ENTRIES, _MANY_BLOCKS = 1024, 2**21, 128
# Up to so many columns, one more costs less than a pass over the scores.
_FEW_COLUMNS = 256
_SUM_ROWS = 2048
# A GPU wants few and large blocks: scores of one, and rows of one sum.
_BLOCK_ENTRIES_GPU = 2**30
_SUM_ENTRIES_GPU = 2**28
# Where more than this share of the rows has moved, all rows are summed; and after so
# many steps, so that rounding does not build up.
_MANY, _REFRESH = 1 / 3, 32
# Fewer scores than this are not worth a second look at doubtful rows; with a larger
# share of those, one exact look costs less than two.
_MANY_SCORES = 2**26
_MOSTLY_CERTAIN = 0.3


class Assignment(NamedTuple):
    """The best centre of each row."""

    labels: Array
    """(n,) integers."""
    scores: Array
    """Score with that centre, (n,); see :meth:`Assigner.exact_scores`."""


class RoughLook:
    """Decision whether products in low precision are faster."""

    def __init__(self, like: Array, n_scores: int):
        self.pays = n_scores > 0 and n_scores >= _MANY_SCORES and rough_error(like) > 0


class ClusterSums:
    """Σ w x of each cluster, (k, d), in float64; grows by blocks of rows.

    Parameters
    ----------
    n_clusters : int
    like : array of shape (..., d)
        Whose library, device and number of columns the sums have.
    labels : array of shape (n,), default=None
        Of the rows that were added, where they are to be compared with later ones.
    """

    def __init__(self, n_clusters: int, like: Array, labels: Array | None = None):
        xp, shape = nx.array_namespace(like), (n_clusters, like.shape[-1])
        self.values = xp.zeros(shape, dtype=xp.float64, device=nx.device_of(like))
        self.labels, self.age = labels, 0

    def add(
        self, X: Array, labels: Array, weight: Array | None, left: Array | None = None
    ) -> None:
        """Add rows to the sums of their labels; subtract them from labels ``left``.

        Blocks have a fixed height: the order of addition is always the same.
        ``weight`` is None where every row counts as one.
        """
        k, d = self.values.shape
        height = (
            max(_SUM_ENTRIES_GPU // max(d, 1), 1) if nx.on_gpu(labels) else _SUM_ROWS
        )
        for s in row_blocks(X.shape[0], 1, height):
            block = X[s, :] if nx.is_sparse(X) else nx.astype(X[s, :], "float64")
            if weight is not None:
                w = weight[s][:, None]
                block = block.multiply(w).tocsr() if nx.is_sparse(block) else block * w
            before = None if left is None else left[s]
            self.values += segment_sum(block, labels[s], k, before)

    def merge(self, other: "ClusterSums") -> None:
        """Add the sums of other rows."""
        self.values += other.values

    def moved(self, labels: Array) -> "ClusterSums":
        """Return a copy to which rows that changed their cluster can be added."""
        copy = ClusterSums(self.values.shape[0], self.values, labels)
        copy.values, copy.age = self.values * 1, self.age + 1
        return copy


def updated_sums(
    X: Array, labels: Array, weight: Array | None, k: int, old: ClusterSums | None
) -> ClusterSums:
    """Return Σ w x of each cluster, from earlier sums where few rows moved."""
    moved = None
    if old is not None and old.age < _REFRESH:
        (moved,) = nx.array_namespace(labels).nonzero(labels != old.labels)
    if old is None or moved is None or moved.shape[0] > _MANY * labels.shape[0]:
        sums = ClusterSums(k, X[:1].toarray() if nx.is_sparse(X) else X, labels)
        sums.add(X, labels, weight)
        return sums
    sums, left = old.moved(labels), nx.take_rows(old.labels, moved)
    weight = None if weight is None else nx.take_rows(weight, moved)
    sums.add(nx.take_rows(X, moved), nx.take_rows(labels, moved), weight, left)
    return sums


class Assigner:
    """Assigns rows of unit norm ("cosine"), or any, to the best of several centres.

    Scores are kept for the next call where there is ``budget`` for them; ``look`` is
    shared by the blocks of the same rows (None: these are all).
    """

    def __init__(
        self,
        X: Array,
        n_clusters: int,
        budget: int,
        *,
        look: RoughLook | None = None,
        keeps: bool = True,
    ) -> None:
        self._X, self._n_clusters = X, n_clusters
        self.like = X[:1].toarray() if nx.is_sparse(X) else X
        self._xp = nx.array_namespace(self.like)
        n, gpu = X.shape[0], nx.on_gpu(self.like)
        self._look = RoughLook(self.like, n * n_clusters) if look is None else look
        self._keeps = keeps and n * n_clusters * nx.itemsize(X) <= budget
        self._scores: Array | None = None
        self._up_to_date = False  # the scores are those of the last centres
        entries = min(_BLOCK_ENTRIES_GPU, budget // (4 * nx.itemsize(X)))
        height = max(entries // n_clusters, 1) if gpu else _height(n, n_clusters)
        self._blocks = list(row_blocks(n, 1, height))
        self._rough, self._norms = False, None

    def _empty(self, shape: tuple[int, ...]) -> Array:
        like = self.like
        return self._xp.empty(shape, dtype=like.dtype, device=nx.device_of(like))

    def assign(self, centers: Centers, moved: Array | None = None) -> Assignment:
        """Return the best centre of each row.

        Parameters
        ----------
        centers : Centers
        moved : integer array, default=None
            The centres that are not where they were at the last call; None: all.
        """
        xp, n = self._xp, self._X.shape[0]
        labels = xp.empty(n, dtype=xp.int64, device=nx.device_of(self.like))
        best = self._empty((n,))
        self._rough = self._look.pays
        if self._rough:
            self._assign_roughly(centers, labels, best)
            return Assignment(labels, best)

        kept, moved = self._scores_to_keep(moved)
        scratch = Scratch()

        def find_best(rows: slice) -> None:
            scores = self._block_scores(rows, centers, kept, moved, scratch)
            best[rows], labels[rows] = best_one(scores)

        for_each_block(find_best, self._blocks, workers=n_workers(self._X))
        self._up_to_date = kept is not None
        return Assignment(labels, best)

    def _scores_to_keep(self, moved: Array | None) -> tuple[Array | None, Array | None]:
        """Return memory for all scores, and which centres need new ones (None: all).

        No memory as long as most centres move: then none of the scores is used again,
        and those of a block stay in cache.
        """
        up_to_date, self._up_to_date = self._up_to_date, False
        if not self._keeps or moved is None or 2 * moved.shape[0] > self._n_clusters:
            return None, None
        if self._scores is None:
            self._scores = self._empty((self._X.shape[0], self._n_clusters))
        return self._scores, moved if up_to_date else None

    def _block_scores(
        self, rows: slice, centers: Centers, kept, moved, scratch: Scratch
    ) -> Array:
        X = self._X[rows, :]
        if kept is None:
            shape = X.shape[0], centers.values.shape[0]
            out = scratch.empty(shape, X.dtype) if nx.is_numpy(X) else None
            return block_scores(X, centers, out)
        kept = kept[rows, :]
        if moved is not None:
            if moved.shape[0]:
                nx.set_columns(
                    kept, moved, block_scores(X, some_centers(centers, moved))
                )
        elif nx.is_numpy(X):
            block_scores(X, centers, kept)
        else:
            kept[:, :] = block_scores(X, centers)
        return kept

    def _assign_roughly(self, centers: Centers, labels: Array, best: Array) -> None:
        """Write exact labels and approximate scores."""
        xp, n_doubtful = self._xp, 0
        # Each of two scores may be off by as much.
        error = 2 * rough_error(self.like)
        longest = xp.sqrt(xp.max(squared_norms(centers.values)))
        if self._norms is None:
            self._norms = xp.sqrt(squared_norms(self._X))
        for rows in self._blocks:
            X = self._X[rows, :]
            scores = _with_offsets(rough_inner_products(X, centers.values), centers)
            first, labels[rows], second = best_two(scores)
            margin = nx.astype(first - second, "float64")
            (doubtful,) = xp.nonzero(margin <= error * longest * self._norms[rows])
            best[rows] = first
            n_doubtful += doubtful.shape[0]
            if doubtful.shape[0]:
                exact = block_scores(nx.take_rows(X, doubtful), centers)
                labels[rows][doubtful] = xp.argmax(exact, axis=1)
        self._look.pays = n_doubtful <= _MOSTLY_CERTAIN * self._X.shape[0]

    def exact_scores(self, assignment: Assignment, centers: Centers) -> Array:
        """Return the exact scores of rows with their own centres."""
        if not self._rough:
            return assignment.scores
        xp, out = self._xp, self._empty((self._X.shape[0],))
        for rows in self._blocks:
            own = nx.take_rows(centers.values, assignment.labels[rows])
            out[rows] = xp.sum(self._X[rows, :] * own, axis=1)
        if centers.offsets is not None:
            out += nx.take_rows(centers.offsets, assignment.labels)
        return out


def _height(n_rows: int, n_clusters: int) -> int:
    """Return the rows of a block on the host."""
    most = max(_BLOCK_ENTRIES // n_clusters, _BLOCK_ROWS)
    return min(max(n_rows // _MANY_BLOCKS, _BLOCK_ROWS), most)


def some_centers(centers: Centers, which: Array) -> Centers:
    """Return the centres with the given numbers."""
    offsets = centers.offsets
    return Centers(
        nx.take_rows(centers.values, which),
        None if offsets is None else nx.take_rows(offsets, which),
    )


def block_scores(X: Array, centers: Centers, out: Array | None = None) -> Array:
    """Return the scores of a block of rows with all centres, (m, k).

    ``out`` is where NumPy's are written; None: memory of their own.
    """
    if out is None:
        return _with_offsets(inner_products(X, centers.values), centers)
    if centers.offsets is None or X.shape[1] > _FEW_COLUMNS:
        return _with_offsets(nx.product_into(out, X, centers.values), centers)
    left = np.concatenate([X, np.ones((X.shape[0], 1), X.dtype)], axis=1)
    right = np.concatenate([centers.values, centers.offsets[:, None]], axis=1)
    return nx.product_into(out, left, right)


def _with_offsets(products: Array, centers: Centers) -> Array:
    if centers.offsets is not None:
        products += centers.offsets[None, :]
    return products


def cluster_weights(labels: Array, weight: Array | None, n_clusters: int) -> Array:
    """Return Σ w for each cluster, (k,), in float64."""
    if weight is None:
        return nx.astype(count_labels(labels, n_clusters), "float64")
    return segment_sum(weight[:, None], labels, n_clusters)[:, 0]


# ----------------------------------------------------------------------------------
# Where k-means begins: random rows, or rows far from each other.
#
# Reference: D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding"
# (SODA 2007); of several candidates the best is taken, as their Sec. 7 suggests.
# ----------------------------------------------------------------------------------

# Two starts that end in the same clusters differ by the rounding of sums over rows, and
# that differs from one processor, or number of threads, to another.
_ROUNDING = 1e-6
# Rows among which k-means++ chooses where they are read in blocks, for each centre and
# in all: it looks at every row once for every centre, and would read all as often.
_SEED_ROWS, _LEAST_SEED_ROWS = 20, 20_000


def clearly_less(inertia: float, best: float) -> bool:
    """Return True if an inertia is less than the best so far by more than rounding.

    So the first of equal starts is kept on every machine.

    >>> clearly_less(0.9, 1.0), clearly_less(1.0 - 1e-12, 1.0)
    (True, False)
    """
    return inertia < best - _ROUNDING * abs(best)


def random_seeds(
    n_rows: int, n_clusters: int, weight: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Choose different rows of positive weight, each as likely as any other.

    (Andrecut 2020, Sec. 5, step 2.) Where there are too few of them, others follow.
    A weight of None is one of 1 for each row.
    """
    if weight is None or np.all(weight > 0):
        return draw_some(rng, n_rows, n_clusters)
    order = rng.permutation(n_rows)
    return order[np.argsort(weight[order] <= 0, kind="stable")][:n_clusters]


def rows_to_seed(
    n_rows: int,
    n_clusters: int,
    weight: np.ndarray,
    rng: np.random.Generator,
    most: int | None = None,
) -> np.ndarray:
    """Return the numbers of the rows among which k-means++ chooses, ascending.

    All of them, or a random part where there are very many, or more than ``most``.
    """
    n_seeds = max(_SEED_ROWS * n_clusters, _LEAST_SEED_ROWS)
    if most is not None:
        n_seeds = min(n_seeds, max(most, n_clusters))
    if n_seeds >= n_rows:
        return np.arange(n_rows)
    return np.sort(random_seeds(n_rows, n_seeds, weight, rng))


def spare_rows(
    n_wanted: int, counts: np.ndarray, labels: np.ndarray, losses: np.ndarray
) -> np.ndarray:
    """Return the rows of the largest losses that their clusters can spare.

    At most ``n_wanted``; not rows that lose nothing, and of each cluster all but one of
    its ``counts`` rows at most.
    """
    left, rows = counts.copy(), []
    for row in np.argsort(-losses, kind="stable"):
        if len(rows) == n_wanted or losses[row] <= 0:
            break
        if left[labels[row]] > 1:
            left[labels[row]] -= 1
            rows.append(int(row))
    return np.array(rows, dtype=np.int64)


def reseed_empty(
    labels: Array, costs: Array, can_seed: Array | None, n_clusters: int
) -> tuple[Array, int]:
    """Give each cluster without rows the worst represented row that can be spared.

    Rows that cost nothing, cannot seed, or are alone in their cluster are not taken;
    ``can_seed`` is None where all can.

    Returns
    -------
    labels, n_reseeded
    """
    xp = nx.array_namespace(labels)
    n = labels.shape[0]
    usable = np.ones(n, dtype=bool) if can_seed is None else nx.to_numpy(can_seed)
    counts = np.bincount(nx.to_numpy(labels), usable, minlength=n_clusters)
    empty = np.flatnonzero(counts == 0)
    if not empty.size:
        return labels, 0
    new = np.array(nx.to_numpy(labels))
    rows = spare_rows(len(empty), counts, new, nx.to_numpy(costs) * usable)
    new[rows] = empty[: len(rows)]
    return xp.asarray(new, device=nx.device_of(labels)), len(rows)


def kmeans_plus_plus(
    X: Array,
    n_clusters: int,
    *,
    metric: str,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return k-means++ seeds: rows drawn in proportion to their cost.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Rows as :func:`prepare_rows` gives them.
    n_clusters : int
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_clusters,)
        Row numbers.

    Notes
    -----
    With 2 + log k candidates a step, n k d (2 + log k) multiplications.
    """
    squared = squared_norms(X) if metric == "euclidean" else None
    return seeds_by_cost(
        lambda rows: _seed_costs(X, rows, squared, metric), n_clusters, weight, rng
    )


def seeds_by_cost(
    costs_with: Callable[[np.ndarray], np.ndarray],
    n_clusters: int,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return k-means++ seeds for any cost function.

    Parameters
    ----------
    costs_with : callable
        ``costs_with(rows)`` returns what every row costs with each of these rows as its
        centre, (n, m).
    n_clusters : int
    weight : ndarray of shape (n,)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_clusters,)
        Row numbers.
    """
    n_rows, n_candidates = len(weight), 2 + int(np.log(n_clusters))
    chosen = [int(rng.choice(n_rows, p=weight / weight.sum()))]
    costs = costs_with(np.array(chosen))[:, 0]
    while len(chosen) < n_clusters:
        likely = np.cumsum(weight * costs)
        if likely[-1] <= 0:  # every row is a centre already: any other will do
            rest = np.setdiff1d(np.arange(n_rows), chosen)
            chosen += rng.permutation(rest)[: n_clusters - len(chosen)].tolist()
            break
        draws = rng.uniform(size=n_candidates) * likely[-1]
        candidates = np.minimum(np.searchsorted(likely, draws), n_rows - 1)
        new = np.minimum(costs[:, None], costs_with(candidates))
        best = int(np.argmin(weight @ new))
        chosen.append(int(candidates[best]))
        costs = new[:, best]
        costs[chosen] = 0.0  # up to rounding it is; no row is drawn twice
    return np.array(chosen)


def _seed_costs(X: Array, rows: np.ndarray, squared, metric: str) -> np.ndarray:
    """Return the costs of all rows with the given rows as centres, (n, m)."""
    like = X if nx.is_sparse(X) else nx.array_namespace(X).reshape(X[:1, :], (-1,))
    index = rows if nx.is_sparse(like) else nx.as_like(rows, like)
    centers = make_centers(nx.take_rows(X, index), metric)
    scores = inner_products(X, centers.values)
    if centers.offsets is not None:
        scores += centers.offsets[None, :]
    column = None if squared is None else squared[:, None]
    return nx.to_numpy(costs_from_scores(scores, column))


# ----------------------------------------------------------------------------------
# A step of k-means is one pass over the rows, wherever they are.
#
# Of a block, only sums come back: of the rows of each cluster, their weights and their
# costs, k (d + 3) numbers however many rows there are. Groups of rows that are
# clustered apart, such as classes, are served by the same pass.
#
# Rows in memory are one block, of which much is kept: rows of unit norm, scores with
# centres that did not move, and sums, which change by the rows that changed their
# cluster. Other blocks come and go.
# ----------------------------------------------------------------------------------

# Of the rows among which k-means++ chooses: as read, of unit norm, and what is between.
_SEED_COPIES = 8
# No centres.
_NONE = np.empty(0, dtype=np.int64)

Group = int | None
"""The number of a group of rows; None is the group of all."""


class _Moments:
    """Number of rows, Σ ‖x‖² and Σ x of each group of rows."""

    def __init__(self, block: Block, groups: Sequence[Group]):
        self.of = {group: _moments(_group(block, group)[0]) for group in groups}

    def merge(self, other: "_Moments") -> None:
        """Add those of other rows."""
        self.of = {g: self.of[g] + other.of[g] for g in self.of}


def _moments(rows: Array) -> np.ndarray:
    xp = nx.array_namespace(rows)
    wide = {} if nx.is_sparse(rows) else {"dtype": xp.float64}
    total = rows.sum(axis=0) if nx.is_sparse(rows) else xp.sum(rows, axis=0, **wide)
    squares = float(xp.sum(squared_norms(rows))) if rows.shape[0] else 0.0
    return np.concatenate([[rows.shape[0], squares], np.ravel(nx.to_numpy(total))])


def spreads(X: Rows, groups: Sequence[Group]) -> dict[Group, float]:
    """Return the mean squared distance of the rows of each group from their mean."""
    found = X.reduce(_Moments, groups, label="measure-rows").of
    return {
        group: float(squares / n - np.sum((np.asarray(total) / n) ** 2))
        for group, (n, squares, *total) in found.items()
    }


class ClusterTotals:
    """Sums over the rows that were assigned to each of k centres."""

    def __init__(self, n_clusters: int, like: Array):
        xp = nx.array_namespace(like)
        nothing = xp.zeros(n_clusters, dtype=xp.float64, device=nx.device_of(like))
        self.sums = ClusterSums(n_clusters, like)
        self.weights: Array = nothing
        """Σ w."""
        self.held: Array = nothing
        """Number of rows that could be a centre."""
        self.norms: Array = nothing
        """Σ w ‖x‖ of the rows as they were given ("cosine")."""
        self.inertia = 0.0
        self.labels: list[Array] = []
        """Of the rows in their order, where they are wanted."""

    def merge(self, other: "ClusterTotals") -> None:
        """Add those of other rows."""
        self.sums.merge(other.sums)
        self.weights = self.weights + other.weights
        self.held = self.held + other.held
        self.norms = self.norms + other.norms
        self.inertia += other.inertia
        self.labels += other.labels


class GroupTotals:
    """Totals of several groups of rows, each with its own centres."""

    def __init__(self, of: dict[Group, ClusterTotals]):
        self.of = of

    def merge(self, other: "GroupTotals") -> None:
        """Add those of other rows."""
        for group, found in other.of.items():
            self.of[group].merge(found)


@dataclass(frozen=True)
class Step:
    """The work of a pass on a group of rows."""

    metric: str
    n_clusters: int
    look: RoughLook
    centers: Centers
    moved: Array | None = None
    """The centres that are not where they were in the last pass; None: all."""


def _group(block: Block, group: Group) -> tuple[Array, Array | None, np.ndarray | None]:
    """Return the rows of a group, their weights, and their numbers in the block."""
    groups, weight = block.vectors or (None, None)
    if group is None:
        return block.rows, weight, None
    numbers = np.flatnonzero(nx.to_numpy(groups) == group)
    own = None if weight is None else weight[numbers]
    return nx.take_rows(block.rows, numbers), own, numbers


class _Members:
    """The rows of a group in a block, with the values cached between passes."""

    def __init__(self, block: Block, group: Group, step: Step):
        rows, weight, self.numbers = _group(block, group)
        self.n_rows, self.lasting = rows.shape[0], block.cache is not None
        self._metric, self._k = step.metric, step.n_clusters
        self._found: Assignment | None = None
        self._last: ClusterSums | None = None
        if self.n_rows == 0:
            return
        self._norms = squared_norms(rows)
        self.rows = prepare_rows(rows, step.metric, self._norms)
        self.weight = None
        # A row without direction cannot be a centre on the sphere.
        usable = self._norms >= 0 if step.metric == "euclidean" else self._norms > 0
        if weight is not None:
            self.weight = nx.astype(nx.as_like(weight, self._norms), "float64")
            usable = usable & (self.weight > 0)
        every = bool(nx.array_namespace(usable).all(usable))
        self.usable = None if every else usable
        self._assigner = Assigner(
            self.rows, self._k, block.budget, look=step.look, keeps=self.lasting
        )

    @classmethod
    def of(cls, block: Block, group: Group, step: Step) -> "_Members":
        """Return the members of a block, cached if possible."""
        if block.cache is None:
            return cls(block, group, step)
        if group not in block.cache:
            block.cache[group] = cls(block, group, step)
        return block.cache[group]

    def assign(self, step: Step) -> tuple[Array, Centers]:
        """Return the best centre of each row, (n,), and the centres on its device."""
        centers = Centers(*(nx.as_like(part, self._norms) for part in step.centers))
        if self._found is None or step.moved is None or step.moved.shape[0]:
            self._found = self._assigner.assign(centers, step.moved)
            self._last = None if step.moved is None else self._last
        return self._found.labels, centers

    def costs(self, centers: Centers) -> Array:
        """Return the cost of each row with its centre, (n,), in float64."""
        assert self._found is not None
        scores = self._assigner.exact_scores(self._found, centers)
        squared = self._norms if self._metric == "euclidean" else None
        return costs_from_scores(scores, squared)

    def sums(self, labels: Array) -> ClusterSums:
        """Return Σ w x of each cluster, from the last sums where few rows moved."""
        if self._last is None or self._last.labels is not labels:
            sums = updated_sums(self.rows, labels, self.weight, self._k, self._last)
            self._last = sums if self.lasting else None
            return sums
        return self._last

    def totals(self, step: Step, measures: bool, labelled: bool) -> ClusterTotals:
        """Return the sums over the rows that go to the same centre."""
        like, k = step.centers.values, self._k
        out = ClusterTotals(k, like)
        if self.n_rows == 0:
            return out
        labels, centers = self.assign(step)
        out.sums.values = nx.as_like(self.sums(labels).values, like)
        held = weights = cluster_weights(labels, self.weight, k)
        if self.usable is not None:
            held = count_labels(labels, k, self.usable)
        out.weights, out.held = nx.as_like(weights, like), nx.as_like(held, like)
        if labelled:
            out.labels = [labels if self.lasting else nx.to_numpy(labels)]
        if measures:
            xp, costs = nx.array_namespace(labels), self.costs(centers)
            out.inertia = float(xp.sum(_weighted(costs, self.weight)))
            if self._metric == "cosine":
                lengths = _weighted(xp.sqrt(self._norms), self.weight)
                out.norms = nx.as_like(cluster_weights(labels, lengths, k), like)
        return out

    def worst(self, step: Step, n_rows: int):
        """Return numbers, costs and labels of the costliest rows, in their order."""
        if self.n_rows == 0:
            nothing = np.empty(0, dtype=np.int64)
            return nothing, np.empty(0), nothing
        labels, centers = self.assign(step)
        losses = nx.to_numpy(self.costs(centers))
        if self.usable is not None:
            losses = losses * nx.to_numpy(self.usable)
        worst = largest_losses(losses, n_rows)
        of_block = worst if self.numbers is None else self.numbers[worst]
        return of_block, losses[worst], nx.to_numpy(labels)[worst]


def _weighted(values: Array, weight: Array | None) -> Array:
    return values if weight is None else weight * values


def assign_block(
    block: Block, steps: dict[Group, Step], measures: bool, labelled: bool
) -> GroupTotals:
    """Return the sums over the rows of each group that go to the same centre."""
    return GroupTotals(
        {
            group: _Members.of(block, group, step).totals(step, measures, labelled)
            for group, step in steps.items()
        }
    )


def worst_of_block(block: Block, group: Group, step: Step, n_rows: int):
    """Return the rows of a block, and numbers, costs and labels of the worst."""
    members = _Members.of(block, group, step)
    return block.rows.shape[0], members.worst(step, n_rows)


def seeds_of_block(block: Block, group: Group, step: Step, weight: np.ndarray, rng):
    """Return the numbers of the rows of a block that k-means++ chooses."""
    rows = _Members.of(block, group, step).rows
    return kmeans_plus_plus(
        rows, step.n_clusters, metric=step.metric, weight=weight, rng=rng
    )


def worst_rows(X: Rows, function: Callable, *arguments: Any):
    """Return numbers, costs and labels of the rows that cost most, in their order.

    ``function`` returns the number of rows of a block, and those of it. Twice as many
    as there are clusters will do: of those passed over, each is alone in its cluster.
    """
    found = X.map(function, *arguments, label="find-worst-rows")
    starts = np.cumsum([0, *(n for n, _ in found[:-1])])
    of_blocks = [
        (start + numbers, losses, labels)
        for start, (_, (numbers, losses, labels)) in zip(starts, found, strict=True)
    ]
    return tuple(map(np.concatenate, zip(*of_blocks, strict=True)))


def largest_losses(losses: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the numbers of the rows that lose most, ascending."""
    return np.sort(np.argsort(-losses, kind="stable")[:n_rows])


def fill_empty(
    totals: Any, worst: Callable, take: Callable, weight: np.ndarray | None
) -> int:
    """Give each cluster without rows the worst represented row that can be spared.

    Changes ``sums``, ``weights`` and ``held`` of the totals; ``worst()`` returns
    numbers, costs and labels of rows, ``take(numbers)`` rows as they are summed.
    Returns the number of clusters that were filled.
    """
    held = nx.to_numpy(totals.held)
    empty = np.flatnonzero(held == 0)
    if not len(empty):
        return 0
    numbers, losses, labels = worst()
    rows = spare_rows(len(empty), held, labels, losses)
    if len(rows):
        totals.sums = totals.sums.moved(None)  # those of a block that lasts stay
        like, k = totals.sums.values, len(held)
        left, new = labels[rows], empty[: len(rows)]
        w = np.ones(len(rows)) if weight is None else weight[numbers[rows]]
        totals.sums.add(
            take(numbers[rows]), *(nx.as_like(v, like) for v in (new, w, left))
        )
        gain = np.bincount(new, w, minlength=k) - np.bincount(left, w, minlength=k)
        totals.weights = totals.weights + nx.as_like(gain, totals.weights)
    return len(rows)


def part_labels(X: Rows, centers: Array, metric: str) -> np.ndarray:
    """Return the number of the best centre of each row, (n,)."""
    made = make_centers(centers, metric)
    step = Step(metric, centers.shape[0], RoughLook(centers, 0), made)
    arguments = (assign_block, {None: step}, False, True)
    found = X.attached().map(*arguments, label="label-rows")
    return np.concatenate(
        [nx.to_numpy(v) for part in found for v in part.of[None].labels]
    )


# ----------------------------------------------------------------------------------
# k-means by Lloyd's iteration, in the cosine or the euclidean geometry.
#
# The steps of Andrecut (2020), Sec. 5:
#
#     3-4   each row goes to the centre of the largest score          (eq. 23-24)
#     5-6   each centre becomes the mean of its rows, normalised      (eq. 25-26)
#     7     δ = 1 − mean⟨new, old⟩                                     (eq. 27)
#     8-9   again until δ ≤ tol
#
# and what the paper is silent on: a centre that has lost all its rows takes the row
# that is worst represented. A cluster that neither won nor lost rows has the mean it
# had; the sums of the others change by the rows that they won and lost.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """Outcome of k-means."""

    centers: Array
    """(k, d), of unit norm in the cosine geometry."""
    labels: Array | None
    """Which of these centres is best for each row, (n,); None for rows in parts."""
    inertia: float
    """Σ w (1 − ⟨x, c⟩) or Σ w ‖x − c‖²."""
    n_iter: int
    converged: bool
    n_reseeded: int
    """How often a centre without rows was given a new one."""
    weights: np.ndarray
    """Total weight of the rows of each cluster, (k,)."""
    mean_norms: np.ndarray | None
    """Mean norm of the rows of each cluster as they were given, (k,), weighted; None in
    the euclidean geometry."""


@dataclass(frozen=True, eq=False)
class KMeansOptions:
    """How rows are clustered, see :func:`kmeans`."""

    metric: str = "euclidean"
    init: str | Array = "random"
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-6


def kmeans(
    X: Array,
    n_clusters: int,
    *,
    metric: str = "cosine",
    init: str | Array = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-6,
    sample_weight: Array | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float, Array], object] | None = None,
) -> KMeansResult:
    """Find ``n_clusters`` centres that stand for the rows of ``X``, (n, d).

    With "cosine" the rows are scaled to unit norm first. ``init`` is "k-means++",
    "random" or an array (k, d); of ``n_init`` starts the one of least inertia is kept.
    A start ends when the centres deviate by no more than ``tol`` (:func:`deviation`),
    or where ``callback(step, deviation, centers)`` returns true. Scores of rows in
    memory are kept between steps where n k of them fit into the budget. At most n k d
    multiplications a step, fewer as centres come to rest.
    """
    options = KMeansOptions(metric, init, n_init, max_iter, tol)
    k: dict[Group, int] = {None: n_clusters}
    rows = as_rows(X, memory_budget)
    return kmeans_of_groups(rows, k, None, options, sample_weight, [rng], callback)[0]


def kmeans_of_groups(
    X: Rows,
    n_clusters: Mapping[Group, int],
    groups: np.ndarray | None,
    options: KMeansOptions,
    sample_weight: Array | None,
    rngs: Sequence[np.random.Generator],
    callback: Callable[[int, float, Array], object] | None = None,
    ended: Callable[[int], object] | None = None,
) -> list[KMeansResult]:
    """Run k-means in each group of rows, all in the same passes.

    ``groups`` has the number of each row's group, (n,), negative for none; None: all
    rows are one group. ``ended(n)`` is called when so many groups have come to rest.
    """
    if not n_clusters:
        return []
    weight = None if sample_weight is None else nx.astype(sample_weight, "float64")
    host = None if weight is None else nx.to_numpy(weight)
    counted = np.arange(X.shape[0]) if groups is None else np.flatnonzero(groups >= 0)
    if host is not None:
        counted = counted[host[counted] > 0]
    shift, init = common_shift(X, options.metric, counted), options.init
    if not isinstance(init, str):
        init = nx.as_like(init, X)
    if shift is not None:
        X = X.mapped(functools.partial(less, shift))
        init = init if isinstance(init, str) else less(shift, init)
    options = replace(options, init=init)
    lloyd = _Lloyd(X.attached(groups, weight), n_clusters, groups, options, host)
    best: dict[Group, KMeansResult] = {}
    starts = [rng.spawn(options.n_init) for rng in rngs]
    for start in range(options.n_init):
        own = [generators[start] for generators in starts]
        last = ended if start == options.n_init - 1 else None
        for group, new in lloyd.run(own, callback, last).items():
            old = best.get(group)
            if old is None or clearly_less(new.inertia, old.inertia):
                best[group] = new
    found = [best[group] for group in n_clusters]
    if shift is None:
        return found
    return [replace(one, centers=less(-shift, one.centers)) for one in found]


def best_of_starts(
    start: Callable[[np.random.Generator], Any], generators: list[np.random.Generator]
) -> Any:
    """Return the first result of least inertia."""
    best = None
    for rng in generators:
        result = start(rng)
        if best is None or clearly_less(result.inertia, best.inertia):
            best = result
    return best


class _Run:
    """A group between two passes: its centres and their history."""

    def __init__(self, centers: Centers):
        self.centers = centers
        self.moved: Array | None = None
        self.n_iter, self.n_reseeded, self.deviation = 0, 0, np.inf


class _Lloyd:
    """Lloyd's steps of groups of rows, from several starts."""

    def __init__(
        self,
        X: Rows,
        n_clusters: Mapping[Group, int],
        groups: np.ndarray | None,
        options: KMeansOptions,
        weight: np.ndarray | None,
    ):
        self._X, self._k, self._options, self._weight = X, n_clusters, options, weight
        every = np.arange(X.shape[0])
        self._numbers = {
            g: every if groups is None else np.flatnonzero(groups == g)
            for g in n_clusters
        }
        self._looks = {g: RoughLook(X.like, X.shape[0] * k) for g, k in self._k.items()}
        self._scales = dict.fromkeys(n_clusters, 1.0)
        if options.metric == "euclidean":
            self._scales = spreads(X, list(n_clusters))

    def run(self, rngs, callback, ended) -> dict[Group, KMeansResult]:
        """Return the results of a start."""
        options, results = self._options, {}
        runs = dict(zip(self._k, map(_Run, self._first_centers(rngs)), strict=True))
        while runs:
            found = self._assigned(runs, measures=not self._X.lasting)
            for group, totals in found.items():
                run = runs[group]
                converged = run.deviation <= options.tol
                made = run.n_iter, run.deviation, run.centers.values
                stops = callback and run.n_iter and callback(*made)
                if converged or stops or run.n_iter >= options.max_iter:
                    results[group] = self._result(group, run, totals, converged)
                    del runs[group]
                    if ended is not None:
                        ended(len(results))
                else:
                    self._move(group, run, totals)
        return results

    def _step(self, group: Group, centers: Centers, moved: Array | None = None) -> Step:
        moved = moved if self._X.lasting else None
        metric, k = self._options.metric, self._k[group]
        return Step(metric, k, self._looks[group], centers, moved)

    def _assigned(self, runs: dict[Group, _Run], measures: bool):
        """Assign the rows of some groups in one pass; return their totals."""
        steps = {g: self._step(g, run.centers, run.moved) for g, run in runs.items()}
        options = (steps, measures, self._X.local)
        return self._X.reduce(assign_block, *options, label="assign-rows").of

    def _move(self, group: Group, run: _Run, totals: ClusterTotals) -> None:
        """Move the centres to the means of their rows."""
        metric, old = self._options.metric, run.centers
        arguments = (group, self._step(group, old, _NONE), 2 * self._k[group])
        run.n_reseeded += fill_empty(
            totals,
            lambda: worst_rows(self._X, worst_of_block, *arguments),
            self._take,
            self._weight,
        )
        run.centers = centers_from_sums(totals.sums.values, totals.weights, old, metric)
        new, xp = run.centers.values, nx.array_namespace(old.values)
        (moved,) = xp.nonzero(xp.any(new != old.values, axis=1))
        run.moved, run.deviation, run.n_iter = moved, 0.0, run.n_iter + 1
        if moved.shape[0]:
            pair = nx.take_rows(new, moved), nx.take_rows(old.values, moved)
            share = moved.shape[0] / new.shape[0]
            run.deviation = share * deviation(*pair, metric, self._scales[group])

    def _result(self, group: Group, run: _Run, totals: ClusterTotals, converged: bool):
        if self._X.lasting:  # costs are not summed in every step
            run.moved = _NONE
            totals = self._assigned({group: run}, measures=True)[group]
        weights, means = nx.to_numpy(totals.weights), None
        if self._options.metric == "cosine":
            means = nx.to_numpy(totals.norms) / np.where(weights > 0, weights, 1.0)
        labels = totals.labels
        if len(labels) != 1:
            labels = [np.concatenate(labels)] if labels else [None]
        return KMeansResult(
            run.centers.values,
            labels[0],
            totals.inertia,
            run.n_iter,
            converged,
            run.n_reseeded,
            weights,
            means,
        )

    # ---- where to begin --------------------------------------------------------------

    def _take(self, numbers: np.ndarray) -> Array:
        """Return rows by their numbers, dense, of unit norm for "cosine"."""
        return prepare_rows(nx.dense_rows(self._X, numbers), self._options.metric)

    def _first_centers(self, rngs) -> list[Centers]:
        """Return the first centres of each group: given ones, or some of its rows."""
        init, metric = self._options.init, self._options.metric
        if not isinstance(init, str):
            return [make_centers(prepare_rows(init, metric), metric)]
        choose = self._random_rows if init == "random" else self._far_rows
        chosen = [choose(group, rng) for group, rng in zip(self._k, rngs, strict=True)]
        rows = self._take(np.concatenate(chosen))  # of all groups, read at once
        stops = np.cumsum([len(some) for some in chosen])
        return [
            make_centers(rows[stop - len(some) : stop, :], metric)
            for stop, some in zip(stops.tolist(), chosen, strict=True)
        ]

    def _weights(self, group: Group) -> np.ndarray | None:
        weight = self._weight
        return None if weight is None else weight[self._numbers[group]]

    def _random_rows(self, group: Group, rng) -> np.ndarray:
        numbers, k = self._numbers[group], self._k[group]
        return numbers[random_seeds(len(numbers), k, self._weights(group), rng)]

    def _far_rows(self, group: Group, rng) -> np.ndarray:
        """Return the rows that k-means++ chooses, of very many among some."""
        numbers, k, X = self._numbers[group], self._k[group], self._X
        weight, metric = self._weights(group), self._options.metric
        weight = np.ones(len(numbers)) if weight is None else weight
        if X.lasting:
            step = self._step(group, Centers(X.like, None))
            return X.map(seeds_of_block, group, step, weight, rng, label="seeds")[0]
        most = None if X.local else X.rows_at_once(_SEED_COPIES)
        part = rows_to_seed(len(numbers), k, weight, rng, most)
        some = self._take(numbers[part])
        far = kmeans_plus_plus(some, k, metric=metric, weight=weight[part], rng=rng)
        return numbers[part[far]]


# ----------------------------------------------------------------------------------
# A few representatives for each class: k-means within the classes.
#
# Each class is clustered by itself (Andrecut 2020, Sec. 5), and its centres stand for
# it. What the paper is silent on: a class with no more rows than representatives gives
# all of them, and a centre that stands for no row is left out.
#
# Representatives carry the weight of the rows that they stand for.
# ----------------------------------------------------------------------------------

# Numbers of float64 for each row of a class: weights, norms, costs, labels.
_VECTORS = 6
# Budgets below this are too small to be kept.
_LEAST_CHECKED = 2**20


@dataclass(frozen=True, eq=False)
class Representatives:
    """Points that stand for classes of rows."""

    points: Array
    """(m, d), dense, class by class."""
    labels: np.ndarray
    """The number of the class of each, (m,)."""
    weights: np.ndarray
    """Total weight of the rows each stands for, (m,)."""
    n_iter: int
    """Most steps that a class needed."""
    n_reseeded: int
    converged: bool


class _Job(NamedTuple):
    """The rows of one class and its number of representatives."""

    rows: np.ndarray
    n_representatives: int


def represent_classes(
    X: Array,
    labels: np.ndarray,
    n_representatives: Sequence[int],
    *,
    options: KMeansOptions,
    sample_weight: np.ndarray | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> Representatives:
    """Choose at most so many representatives of every class of the rows of ``X``.

    ``labels``, (n,), are the numbers of the rows' classes; rows of weight zero are
    passed over. ``callback(n_done, n_classes)`` is called after each class. Of rows of
    the host each class goes to the device as a whole, or block by block in every step
    where it does not fit there; of rows in parts all classes are clustered in the same
    passes.

    Classes in memory are clustered in parallel where none of them is more than a
    thread's share of the work; else one by one, with all threads on each. The result is
    the same. Ctrl-C is raised after the current step: centres alone are no model.
    """
    budget, rows = resolve_budget(memory_budget, X), as_rows(X, memory_budget)
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    jobs = [
        _Job(np.flatnonzero((labels == c) & (weight > 0)), k)
        for c, k in enumerate(n_representatives)
    ]
    rngs = rng.spawn(len(jobs))
    if not rows.local:
        return _join(_represent_together(rows, jobs, weight, options, rngs, callback))
    copies, workers = 0, 1
    if rows.lasting:
        counted = np.flatnonzero(weight > 0)
        twice = options.metric == "cosine" or (
            common_shift(rows, options.metric, counted) is not None
        )
        copies = _bytes_of_copies(jobs, X, twice)
        _check_memory(copies, budget)
        workers = _parallel_classes(jobs, n_workers(X))
        if workers * copies > budget // 2:  # each at work has copies of its own
            workers = 1
    stop, n_done = threading.Event(), 0

    def leave_if_stopped(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt  # which came in another thread

    def represent(c: int) -> Representatives:
        nonlocal n_done
        numbers, k = jobs[c]
        own = on_device_if_it_fits(nx.rows_in_order(X, numbers), budget)
        w = weight[numbers]
        if len(numbers) <= k:
            found = _rows_of_class(c, own, w)
        else:
            found = _centers_of_class(
                c,
                kmeans(
                    own,
                    k,
                    **vars(options),
                    # Rows that all count as one are counted, not weighed.
                    sample_weight=None if np.all(w == 1) else nx.as_like(w, own),
                    rng=rngs[c],
                    memory_budget=max(budget // workers - copies, 1),
                    callback=leave_if_stopped,
                ),
            )
        n_done += 1
        if callback is not None:
            callback(n_done, len(jobs))
        return found

    if workers > 1:
        return _join(in_threads(represent, len(jobs), workers, stop))
    return _join([represent(c) for c in range(len(jobs))])


def _represent_together(
    rows: Rows, jobs: list[_Job], weight, options: KMeansOptions, rngs, callback
) -> list[Representatives]:
    """Return representatives of the classes of rows in parts, from the same passes."""
    many = [c for c, job in enumerate(jobs) if len(job.rows) > job.n_representatives]
    n_few = len(jobs) - len(many)
    groups = np.full(len(weight), -1, np.int16 if len(jobs) < 2**15 else np.int64)
    for c in many:
        groups[jobs[c].rows] = c
    results = kmeans_of_groups(
        rows,
        {c: jobs[c].n_representatives for c in many},
        groups,
        options,
        None if np.all(weight == 1) else weight,
        [rngs[c] for c in many],
        ended=callback and (lambda n_done: callback(n_few + n_done, len(jobs))),
    )
    found = dict(zip(many, map(_centers_of_class, many, results), strict=True))
    for c, job in enumerate(jobs):
        if c not in found:
            found[c] = _rows_of_class(c, rows.take(job.rows), weight[job.rows])
    return [found[c] for c in range(len(jobs))]


def with_rows(
    chosen: Representatives, points: Array, labels: np.ndarray, weights: np.ndarray
) -> Representatives:
    """Return the representatives followed by some single rows.

    What the others of their class stand for becomes less by as much.
    """
    n_classes = int(max(chosen.labels.max(), labels.max(initial=0))) + 1
    total = np.bincount(chosen.labels, weights=chosen.weights, minlength=n_classes)
    own = np.bincount(labels, weights=weights, minlength=n_classes)
    share = np.maximum(1 - own / np.where(total > 0, total, 1.0), 0.0)
    return replace(
        chosen,
        points=nx.concat_rows(chosen.points, points),
        labels=np.concatenate([chosen.labels, labels]),
        weights=np.concatenate([chosen.weights * share[chosen.labels], weights]),
    )


def _bytes_of_copies(jobs: list[_Job], X: Array, twice: bool) -> int:
    """Return the bytes of the largest class: its copy, and one on the device."""
    n = max(len(job.rows) for job in jobs)
    share = X.nnz / max(X.shape[0] * X.shape[1], 1) * 2 if nx.is_sparse(X) else 1.0
    row = share * nx.itemsize(X) * X.shape[1] * (2 if twice else 1)
    return int(n * (row + _VECTORS * 8))


def _check_memory(copies: int, budget: int) -> None:
    if copies > budget and budget >= _LEAST_CHECKED:
        raise MemoryError(
            f"k-means of the largest class copies its rows, {format_bytes(copies)}; "
            f"memory_budget allows {format_bytes(budget)}. Pass a larger one, float32 "
            "rows, or fewer of them."
        )


def _parallel_classes(jobs: list[_Job], workers: int) -> int:
    """Return how many classes to cluster at a time."""
    work = [len(job.rows) * job.n_representatives for job in jobs]
    balanced = max(work) * workers <= 1.25 * sum(work)
    return min(workers, len(jobs)) if balanced else 1


def _rows_of_class(c: int, rows: Array, weights: np.ndarray) -> Representatives:
    """Return rows that stand for themselves."""
    n = len(weights)
    return Representatives(
        nx.dense_rows(rows, np.arange(n)), np.full(n, c), weights, 0, 0, True
    )


def _centers_of_class(c: int, result: KMeansResult) -> Representatives:
    """Return the centres of a class that have rows."""
    points, weights = _with_norms(result)
    return Representatives(
        points,
        np.full(len(weights), c),
        weights,
        result.n_iter,
        result.n_reseeded,
        result.converged,
    )


def _with_norms(result: KMeansResult) -> tuple[Array, np.ndarray]:
    """Return the centres that have rows, as long as these are, and their weights.

    Centres on the sphere are directions. A representative has the mean norm of its
    rows, which is 1 for unit rows as in the paper.
    """
    points, norms = result.centers, result.mean_norms
    if norms is not None:
        points = (
            points * nx.as_like(norms, points, dtype=nx.dtype_name(points))[:, None]
        )
    alive = np.flatnonzero(result.weights > 0)
    return nx.take_rows(points, alive), result.weights[alive]


def _join(parts: list[Representatives]) -> Representatives:
    xp = nx.array_namespace(*(part.points for part in parts))
    return Representatives(
        xp.concat([part.points for part in parts], axis=0),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
        max(part.n_iter for part in parts),
        sum(part.n_reseeded for part in parts),
        all(part.converged for part in parts),
    )
