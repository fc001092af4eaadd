"""k-means and spherical k-means: seeding, assignment, Lloyd's steps, per class."""

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kaucus._array.blocks import (
    Scratch,
    for_each_block,
    format_bytes,
    n_workers,
    one_blas_thread,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import (
    Array,
    array_namespace,
    as_like,
    astype,
    concat_rows,
    dense_rows,
    device_of,
    dtype_name,
    epsilon,
    is_numpy,
    is_sparse,
    itemsize,
    on_gpu,
    product_into,
    rows_in_order,
    set_columns,
    take_rows,
    to_numpy,
)
from kaucus._array.rows import Block, HostRows, RowSource
from kaucus._array.segments import (
    best_one,
    best_two,
    count_labels,
    draw_some,
    rough_error,
    rough_inner_products,
    segment_sum,
)
from kaucus._array.streaming import on_device_if_it_fits, stream_blocks
from kaucus.kernels._kernel import inner_products, squared_norms, unit_rows
from kaucus.kernels._metric import RowMap

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

METRICS = ("cosine", "euclidean")
# Rows that tell how far all are from the origin.
_ROWS_OF_SHIFT = 100


class Centers(NamedTuple):
    """Centres with what the scores need."""

    values: Array
    """(k, d), in the precision of the rows."""
    offsets: Array | None
    """−‖c‖²/2, (k,), or None in the cosine geometry."""


def prepare_rows(X: Array, metric: str, squared: Array | None = None) -> Array:
    """Return the rows as the geometry wants them: of unit norm for "cosine".

    ``X`` itself where nothing is to do. ``squared`` are the squared norms of the rows,
    where they are known.
    """
    if metric != "cosine":
        return X
    norms = squared_norms(X) if squared is None else squared
    xp = array_namespace(norms)
    all_one = bool(xp.all(xp.abs(norms - 1) <= 8 * epsilon(X)))
    return X if all_one else unit_rows(X, norms)


def common_shift(X: Array, metric: str, rows: np.ndarray) -> np.ndarray | None:
    """Return a point amid rows that are further from the origin than from each other.

    None where they are not, or where a shift would change what is clustered.

    Parameters
    ----------
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
    metric : {"cosine", "euclidean"}
    rows : integer array
        Numbers of the rows that count.
    """
    if metric == "cosine" or is_sparse(getattr(X, "like", X)):
        return None
    step = max(len(rows) // _ROWS_OF_SHIFT, 1)
    some = to_numpy(dense_rows(X, rows[::step])).astype(np.float64)
    center = some.mean(axis=0)
    with np.errstate(over="ignore"):
        far = np.sum(center**2) > np.mean(np.sum((some - center) ** 2, axis=1))
    return center if far else None


def shifted(X: Array, shift: np.ndarray | None) -> Array:
    """Return rows less a point; ``X`` itself where there is none."""
    if shift is None:
        return X
    if isinstance(X, HostRows | RowSource):
        move = replace(RowMap.identity(len(shift)), center=shift)
        return move(X)
    return X - as_like(shift, X, dtype=dtype_name(X))[None, :]


def make_centers(values: Array, metric: str) -> Centers:
    """Complete centres that are unit rows already ("cosine"), or any ("euclidean")."""
    if metric == "cosine":
        return Centers(values, None)
    offsets = astype(-0.5 * squared_norms(values), dtype_name(values))
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
    xp = array_namespace(sums)
    alive = weights > 0
    if metric == "cosine":
        # Rows that cancel each other have a sum without direction: stay as well.
        squared = squared_norms(sums)
        means, alive = unit_rows(sums, squared), alive & (squared > 0)
    else:
        means = sums / xp.where(alive, weights, xp.ones_like(weights))[:, None]
    means = astype(means, dtype_name(old.values))
    return make_centers(xp.where(alive[:, None], means, old.values), metric)


def costs_from_scores(scores: Array, squared: Array | None) -> Array:
    """Return what rows cost, in float64, from their largest scores.

    ``squared`` is ‖x‖² of the rows in the euclidean geometry, None in the cosine one.
    """
    xp = array_namespace(scores)
    scores = astype(scores, "float64")
    costs = 1 - scores if squared is None else squared - 2 * scores
    return xp.maximum(costs, xp.zeros_like(costs))


def deviation(new: Array, old: Array, metric: str, scale: float) -> float:
    """Return how far the centres moved; the iteration stops below ``tol``.

    cosine: the alignment deviation δ = 1 − mean⟨new, old⟩ (Andrecut 2020, eq. 27), for
    unit rows the same as mean ‖new − old‖²/2, which keeps its digits;
    euclidean: mean ‖new − old‖² over ``scale``, the mean squared distance of the rows
    from their mean.
    """
    xp = array_namespace(new)
    new, old = astype(new, "float64"), astype(old, "float64")
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
    """Which centre each row belongs to."""

    labels: Array
    """(n,) integers."""
    scores: Array
    """Score with that centre, (n,); see :meth:`Assigner.exact_scores`."""


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
        xp, shape = array_namespace(like), (n_clusters, like.shape[-1])
        self.values = xp.zeros(shape, dtype=xp.float64, device=device_of(like))
        self.labels, self.age = labels, 0

    def add(
        self, X: Array, labels: Array, weight: Array | None, left: Array | None = None
    ) -> None:
        """Add rows with their labels; with ``left``, take them from where they were.

        Blocks have a fixed height: the order of addition is always the same.
        ``weight`` is None where every row counts as one.
        """
        k, d = self.values.shape
        height = max(_SUM_ENTRIES_GPU // max(d, 1), 1) if on_gpu(labels) else _SUM_ROWS
        for s in row_blocks(X.shape[0], 1, height):
            block = X[s, :] if is_sparse(X) else astype(X[s, :], "float64")
            if weight is not None:
                w = weight[s][:, None]
                block = block.multiply(w).tocsr() if is_sparse(block) else block * w
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


class Assigner:
    """Assigns the same rows again and again to centres that move.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Rows as :func:`prepare_rows` gives them.
    n_clusters : int
    budget : int
        Bytes that the kept scores may take.
    n_rows : int, default=None
        Of how many rows in all these are a block, to be looked at once; 0: not roughly.
        None: these are all, again and again.
    weight : array of shape (n,), default=None
        For :meth:`sum_again`.
    """

    def __init__(
        self,
        X: Array,
        n_clusters: int,
        budget: int,
        *,
        n_rows: int | None = None,
        weight: Array | None = None,
    ) -> None:
        self._X, self._weight, self._n_clusters = X, weight, n_clusters
        self._like = X[:1].toarray() if is_sparse(X) else X
        self._xp = array_namespace(self._like)
        n, gpu = X.shape[0], on_gpu(self._like)
        n_scores = (n if n_rows is None else n_rows) * n_clusters
        worth_it = n_scores > 0 and n_scores >= _MANY_SCORES
        self._rough = worth_it and rough_error(self._like) > 0
        fits = n * n_clusters * itemsize(X) <= budget
        self._keeps = n_rows is None and fits and not self._rough
        self._scores: Array | None = None
        self._up_to_date = False  # the scores are those of the last centres
        entries = min(_BLOCK_ENTRIES_GPU, budget // (4 * itemsize(X)))
        height = max(entries // n_clusters, 1) if gpu else _height(n, n_clusters)
        self._blocks = list(row_blocks(n, 1, height))
        self._norms = self._xp.sqrt(squared_norms(X)) if self._rough else None

    @property
    def looks_twice(self) -> bool:
        """Whether the next rows are worth a rough look first."""
        return self._rough

    def _empty(self, shape: tuple[int, ...]) -> Array:
        like = self._like
        return self._xp.empty(shape, dtype=like.dtype, device=device_of(like))

    def assign(self, centers: Centers, moved: Array | None = None) -> Assignment:
        """Return the best centre of each row.

        Parameters
        ----------
        centers : Centers
        moved : integer array, default=None
            The centres that are not where they were at the last call; None: all.
        """
        xp, n = self._xp, self._X.shape[0]
        labels = xp.empty(n, dtype=xp.int64, device=device_of(self._like))
        best = self._empty((n,))
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
            out = scratch.empty(shape, X.dtype) if is_numpy(X) else None
            return block_scores(X, centers, out)
        kept = kept[rows, :]
        if moved is not None:
            if moved.shape[0]:
                set_columns(kept, moved, block_scores(X, some_centers(centers, moved)))
        elif is_numpy(X):
            block_scores(X, centers, kept)
        else:
            kept[:, :] = block_scores(X, centers)
        return kept

    def _assign_roughly(self, centers: Centers, labels: Array, best: Array) -> None:
        """Write labels that are those of exact scores, and scores that are rough."""
        xp, n_doubtful = self._xp, 0
        # Each of two scores may be off by as much.
        error = 2 * rough_error(self._like)
        longest = xp.sqrt(xp.max(squared_norms(centers.values)))
        assert self._norms is not None
        for rows in self._blocks:
            X = self._X[rows, :]
            scores = _with_offsets(rough_inner_products(X, centers.values), centers)
            first, labels[rows], second = best_two(scores)
            margin = astype(first - second, "float64")
            (doubtful,) = xp.nonzero(margin <= error * longest * self._norms[rows])
            best[rows] = first
            n_doubtful += doubtful.shape[0]
            if doubtful.shape[0]:
                exact = block_scores(take_rows(X, doubtful), centers)
                labels[rows][doubtful] = xp.argmax(exact, axis=1)
        self._rough = n_doubtful <= _MOSTLY_CERTAIN * self._X.shape[0]

    def exact_scores(self, assignment: Assignment, centers: Centers) -> Array:
        """Return the scores of rows with their centres, whatever the products were."""
        if self._norms is None:
            return assignment.scores
        xp, out = self._xp, self._empty((self._X.shape[0],))
        for rows in self._blocks:
            own = take_rows(centers.values, assignment.labels[rows])
            out[rows] = xp.sum(self._X[rows, :] * own, axis=1)
        if centers.offsets is not None:
            out += take_rows(centers.offsets, assignment.labels)
        return out

    def take(self, rows: np.ndarray) -> Array:
        """Return some of the rows, dense."""
        return dense_rows(self._X, rows)

    def rows_to_seed(self, weight, rng) -> tuple[np.ndarray, Array]:
        """Return numbers and rows among which k-means++ chooses: all of them."""
        return np.arange(self._X.shape[0]), self._X

    def sum_again(
        self, labels: Array, old: ClusterSums | None
    ) -> tuple[ClusterSums, Array | None]:
        """Return the sums of clusters, and which of them changed (None: maybe all)."""
        xp, k = self._xp, 0 if old is None else old.values.shape[0]
        moved = None
        if old is not None and old.age < _REFRESH:
            (moved,) = xp.nonzero(labels != old.labels)
        if old is None or moved is None or moved.shape[0] > _MANY * labels.shape[0]:
            sums = ClusterSums(self._n_clusters, self._like, labels)
            sums.add(self._X, labels, self._weight)
            return sums, None
        to, left = take_rows(labels, moved), take_rows(old.labels, moved)
        w = None if self._weight is None else take_rows(self._weight, moved)
        sums = old.moved(labels)
        sums.add(take_rows(self._X, moved), to, w, left)
        counts = count_labels(xp.concat([to, left]), k)
        (changed,) = xp.nonzero(counts > 0)
        return sums, changed


def _height(n_rows: int, n_clusters: int) -> int:
    """Return the rows of a block on the host."""
    most = max(_BLOCK_ENTRIES // n_clusters, _BLOCK_ROWS)
    return min(max(n_rows // _MANY_BLOCKS, _BLOCK_ROWS), most)


def some_centers(centers: Centers, which: Array) -> Centers:
    """Return the centres with the given numbers."""
    offsets = centers.offsets
    return Centers(
        take_rows(centers.values, which),
        None if offsets is None else take_rows(offsets, which),
    )


def block_scores(X: Array, centers: Centers, out: Array | None = None) -> Array:
    """Return the scores of a block of rows with all centres, (m, k).

    ``out`` is where NumPy's are written; None: memory of their own.
    """
    if out is None:
        return _with_offsets(inner_products(X, centers.values), centers)
    if centers.offsets is None or X.shape[1] > _FEW_COLUMNS:
        return _with_offsets(product_into(out, X, centers.values), centers)
    left = np.concatenate([X, np.ones((X.shape[0], 1), X.dtype)], axis=1)
    right = np.concatenate([centers.values, centers.offsets[:, None]], axis=1)
    return product_into(out, left, right)


def _with_offsets(products: Array, centers: Centers) -> Array:
    if centers.offsets is not None:
        products += centers.offsets[None, :]
    return products


def cluster_weights(labels: Array, weight: Array | None, n_clusters: int) -> Array:
    """Return Σ w for each cluster, (k,), in float64."""
    if weight is None:
        return astype(count_labels(labels, n_clusters), "float64")
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
    """Tell whether an inertia is less than the best so far by more than rounding.

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
    xp = array_namespace(labels)
    n = labels.shape[0]
    usable = np.ones(n, dtype=bool) if can_seed is None else to_numpy(can_seed)
    counts = np.bincount(to_numpy(labels), usable, minlength=n_clusters)
    empty = np.flatnonzero(counts == 0)
    if not empty.size:
        return labels, 0
    new = np.array(to_numpy(labels))
    rows = spare_rows(len(empty), counts, new, to_numpy(costs) * usable)
    new[rows] = empty[: len(rows)]
    return xp.asarray(new, device=device_of(labels)), len(rows)


def kmeans_plus_plus(
    X: Array,
    n_clusters: int,
    *,
    metric: str,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose rows one after the other, those far from the chosen ones more likely.

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
    """Choose rows as k-means++ does, whatever the geometry.

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
    like = X if is_sparse(X) else array_namespace(X).reshape(X[:1, :], (-1,))
    index = rows if is_sparse(like) else as_like(rows, like)
    centers = make_centers(take_rows(X, index), metric)
    scores = inner_products(X, centers.values)
    if centers.offsets is not None:
        scores += centers.offsets[None, :]
    column = None if squared is None else squared[:, None]
    return to_numpy(costs_from_scores(scores, column))


# ----------------------------------------------------------------------------------
# Assign rows that stay on the host: each step is one pass of blocks over a device.
#
# A block goes to the device once for a step: there it is assigned to the centres, and
# added to the sums of which the next ones are made. Labels and scores, one number a
# row, stay on the host.
# ----------------------------------------------------------------------------------

_BLOCK_BYTES = 256 * 2**20


class StreamedAssigner:
    """Assigns rows of the host, block by block; as :class:`Assigner` to its user.

    Parameters
    ----------
    X : HostRows of shape (n, d)
    n_clusters : int
    budget : int
        Bytes; an eighth of it for a block and its scores.
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,) or None
    """

    def __init__(self, X: HostRows, n_clusters: int, budget: int, metric: str, weight):
        self._X, self._metric = X, metric
        self._weight = None if weight is None else to_numpy(weight)
        self._k, self._n_looked_at = n_clusters, X.shape[0]
        per_row = (2 * X.shape[1] + 2 * n_clusters) * itemsize(X)
        fit = min(budget // 8, _BLOCK_BYTES)
        self._blocks = list(row_blocks(X.shape[0], per_row, fit))
        self._last: tuple[Array, ClusterSums] | None = None

    def norms_and_spread(self) -> tuple[np.ndarray, float]:
        """Return ‖x‖² of the rows, (n,), and their mean squared distance from the mean.

        The second is 1 in the cosine geometry.
        """
        norms, total = [], 0.0
        for rows in stream_blocks(self._X, self._blocks):
            norms.append(to_numpy(squared_norms(rows)))
            xp = array_namespace(rows)
            total = total + to_numpy(xp.sum(astype(rows, "float64"), axis=0))
        squared = np.concatenate(norms)
        if self._metric == "cosine":
            return squared, 1.0
        mean = total / self._X.shape[0]
        return squared, float(np.mean(squared) - np.sum(mean**2))

    def take(self, rows: np.ndarray) -> Array:
        """Return a few rows on the device, as the geometry wants them."""
        return prepare_rows(take_rows(self._X, rows), self._metric)

    def rows_to_seed(
        self, weight: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, Array]:
        """Return numbers and rows among which k-means++ chooses: some of very many."""
        part = rows_to_seed(self._X.shape[0], self._k, weight, rng)
        return part, self.take(part)

    def assign(self, centers: Centers, moved: Array | None = None) -> Assignment:
        """Assign all rows, and sum those that go to the same centre."""
        sums = ClusterSums(self._k, centers.values)
        labels, scores = [], []
        for s, given in zip(
            self._blocks, stream_blocks(self._X, self._blocks), strict=True
        ):
            rows = prepare_rows(given, self._metric)
            best, found = self._best(rows, centers)
            w = None if self._weight is None else as_like(self._weight[s], rows)
            sums.add(rows, best, w)
            labels.append(to_numpy(best))
            scores.append(to_numpy(found))
        numbers = np.concatenate(scores).astype(np.float64)
        assignment = Assignment(np.concatenate(labels), numbers)
        self._last = assignment.labels, sums
        return assignment

    def _best(self, rows: Array, centers: Centers) -> tuple[Array, Array]:
        """Return the best centre of each row of a block, and the score with it."""
        fit = 4 * itemsize(rows) * rows.shape[0] * self._k  # the whole block at once
        assigner = Assigner(rows, self._k, fit, n_rows=self._n_looked_at)
        found = assigner.assign(centers)
        if not assigner.looks_twice:  # nor is the next block worth it
            self._n_looked_at = 0
        return found.labels, assigner.exact_scores(found, centers)

    def exact_scores(self, assignment: Assignment, centers: Centers) -> np.ndarray:
        """Return the scores of rows with their centres."""
        return assignment.scores

    def sum_again(self, labels: np.ndarray, old: ClusterSums | None):
        """Return the sums of clusters, and which of them changed: None, maybe all.

        Those of the last assignment, but for the few rows that have another label now.
        """
        assert self._last is not None
        last, sums = self._last
        rows = np.flatnonzero(labels != last)
        if len(rows):
            x = self.take(rows)
            w = None if self._weight is None else as_like(self._weight[rows], x)
            sums.add(x, as_like(labels[rows], x), w, as_like(last[rows], x))
            self._last = labels, sums
        return sums, None


# ----------------------------------------------------------------------------------
# Assign rows that are read part by part: each step is one pass over the parts.
#
# Of a part, only sums come back: of the rows of each cluster, their weights and their
# costs, k (d + 3) numbers however many rows there are. Labels are never in one place.
# Groups of rows that are clustered apart, such as classes, are served by the same pass.
# ----------------------------------------------------------------------------------

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
    return {group: _spread_of_moments(moments) for group, moments in found.items()}


def _spread_of_moments(moments: np.ndarray) -> float:
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


class KMeansResult(NamedTuple):
    """Outcome of k-means."""

    centers: Array
    """(k, d), of unit norm in the cosine geometry."""
    labels: Array | None
    """Which of these centres is best for each row, (n,); None for a row source."""
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


class KMeansProblem(NamedTuple):
    """What does not change from step to step."""

    n_clusters: int
    weight: Array | None
    """None: every row counts as one."""
    metric: str
    squared: Array | None
    """‖x‖² in the euclidean geometry."""
    can_seed: Array | None
    """Rows that may become a centre; None: all."""
    scale: float
    assigner: Assigner | StreamedAssigner | PartAssigner


class _State(NamedTuple):
    """Between two steps: where the centres are, and whose rows they have."""

    centers: Centers
    assignment: Assignment | PartAssignment
    sums: ClusterSums | None = None
    """Of which the centres are the means; None: of no rows."""


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
    callback: Callable[[int, float], object] | None = None,
) -> KMeansResult:
    """Find ``n_clusters`` centres that stand for the rows of ``X``.

    Parameters
    ----------
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        Rows of the host go to their device once in every step, those of a source are
        read once; ``"k-means++"`` chooses first centres among a random part of either
        where there are very many.
    n_clusters : int
        At most n.
    metric : {"cosine", "euclidean"}, default="cosine"
        With "cosine" the rows are scaled to unit norm first.
    init : {"k-means++", "random"} or array of shape (k, d), default="k-means++"
    n_init : int, default=1
        Starts, of which the one of least inertia is kept.
    max_iter : int, default=300
    tol : float, default=1e-6
        Stop when the centres deviate from the last ones by no more (see
        :func:`deviation`).
    sample_weight : array of shape (n,), default=None
    rng : numpy.random.Generator
    memory_budget : int, str or None, default=None
        Scores are kept between steps where n k of them fit into it.
    callback : callable, default=None
        ``callback(step, deviation)`` after each step; a true result ends the start.

    Returns
    -------
    KMeansResult

    Notes
    -----
    At most n k d multiplications a step; fewer as centres come to rest.
    """
    counted = np.arange(X.shape[0])
    if sample_weight is not None:
        counted = np.flatnonzero(to_numpy(sample_weight) > 0)
    shift = common_shift(X, metric, counted)
    X = shifted(X, shift)
    if not isinstance(init, str):
        init = shifted(as_like(init, X), shift)
    problem, norms = _pose(X, n_clusters, metric, sample_weight, memory_budget)

    def start(start_rng: np.random.Generator) -> KMeansResult:
        first = first_centers(problem, init, X.shape[0], X, start_rng)
        steps = lloyd_steps(problem, first, max_iter, tol, norms, callback)
        return run_steps(steps, problem.assigner.assign)

    return _at_home(best_of_starts(start, rng.spawn(n_init)), shift)


def _at_home(result: KMeansResult, shift: np.ndarray | None) -> KMeansResult:
    """Return a result of shifted rows for the rows as they were given."""
    if shift is None:
        return result
    return result._replace(centers=shifted(result.centers, -shift))


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


def _pose(X, n_clusters: int, metric: str, sample_weight, memory_budget):
    """Return the problem, and ‖x‖² of the rows as they were given."""
    weight = None if sample_weight is None else astype(sample_weight, "float64")
    budget = resolve_budget(memory_budget, X)
    if isinstance(X, RowSource):
        weight = None if weight is None else to_numpy(weight)
        assigner = PartAssigner(
            with_groups(X, None, weight), n_clusters, metric, weight
        )
        scale = 1.0 if metric == "cosine" else spreads(X, None)[None]
        problem = KMeansProblem(n_clusters, weight, metric, None, None, scale, assigner)
        return problem, None
    if isinstance(X, HostRows):
        weight = None if weight is None else to_numpy(weight)
        assigner = StreamedAssigner(X, n_clusters, budget, metric, weight)
        norms, scale = assigner.norms_and_spread()
    else:
        norms = squared_norms(X)
        rows = prepare_rows(X, metric, norms)
        assigner = Assigner(rows, n_clusters, budget, weight=weight)
        scale = 1.0 if metric == "cosine" else _spread(rows, norms)
    squared = norms if metric == "euclidean" else None
    # A row without direction cannot be a centre on the sphere.
    can_seed = norms >= 0 if metric == "euclidean" else norms > 0
    if weight is not None:
        can_seed = can_seed & (weight > 0)
    can_seed = None if bool(array_namespace(norms).all(can_seed)) else can_seed
    problem = KMeansProblem(
        n_clusters, weight, metric, squared, can_seed, scale, assigner
    )
    return problem, norms


def first_centers(problem: KMeansProblem, init, n: int, like: Array, rng) -> Centers:
    """Return where to begin, of n rows: given centres, or some of the rows."""
    assigner, metric, k = problem.assigner, problem.metric, problem.n_clusters
    if not isinstance(init, str):
        return make_centers(prepare_rows(as_like(init, like), metric), metric)
    weight = np.ones(n) if problem.weight is None else to_numpy(problem.weight)
    if init == "random":
        return make_centers(assigner.take(random_seeds(n, k, weight, rng)), metric)
    part, rows = assigner.rows_to_seed(weight, rng)
    some = kmeans_plus_plus(rows, k, metric=metric, weight=weight[part], rng=rng)
    return make_centers(assigner.take(part[some]), metric)


Steps = Generator[tuple[Centers, Array | None], Any, KMeansResult]
"""Yields centres, and which of them moved (None: all); is sent the assignment of the
rows to them; returns the result."""


def run_steps(steps: Steps, assign: Callable[..., Any]) -> KMeansResult:
    """Return the result of steps whose rows are assigned by a function."""
    try:
        request = next(steps)
        while True:
            request = steps.send(assign(*request))
    except StopIteration as end:
        return end.value


def lloyd_steps(
    problem: KMeansProblem, centers: Centers, max_iter: int, tol: float, norms, callback
) -> Steps:
    """Iterate from given centres."""
    state = _State(centers, (yield centers, None))
    n_iter, n_reseeded, converged = 0, 0, False
    while n_iter < max_iter and not converged:
        new = _moved_centers(problem, state)
        assignment = yield new.centers, new.moved
        state = _State(new.centers, assignment, new.sums)
        n_iter, n_reseeded = n_iter + 1, n_reseeded + new.n_reseeded
        converged = new.deviation <= tol
        if callback is not None and callback(n_iter, new.deviation):
            break
    return KMeansResult(
        state.centers.values,
        n_iter=n_iter,
        converged=converged,
        n_reseeded=n_reseeded,
        **_outcome(problem, state, norms),
    )


def _outcome(
    problem: KMeansProblem, state: _State, norms: Array | None
) -> dict[str, Any]:
    """Return labels, inertia, weights and mean norms of the clusters."""
    found, k = state.assignment, problem.n_clusters
    if isinstance(found, PartAssignment):
        labels, inertia, weights = None, found.inertia, found.weights
        norm_sums = found.norms
    else:
        labels, costs = found.labels, _costs(problem, state)
        weighted = costs if problem.weight is None else problem.weight * costs
        inertia = float(array_namespace(costs).sum(weighted))
        weights = to_numpy(cluster_weights(labels, problem.weight, k))
        norm_sums = None
        if problem.metric == "cosine":
            lengths = array_namespace(norms).sqrt(norms)
            weight = lengths if problem.weight is None else problem.weight * lengths
            norm_sums = to_numpy(cluster_weights(labels, weight, k))
    means = None
    if problem.metric == "cosine":
        means = norm_sums / np.where(weights > 0, weights, 1.0)
    return {
        "labels": labels,
        "inertia": inertia,
        "weights": weights,
        "mean_norms": means,
    }


def _costs(problem: KMeansProblem, state: _State) -> Array:
    """Return what each row costs, (n,), in float64."""
    assert not isinstance(problem.assigner, PartAssigner)
    assert isinstance(state.assignment, Assignment)
    scores = problem.assigner.exact_scores(state.assignment, state.centers)
    return costs_from_scores(scores, problem.squared)


class _Moved(NamedTuple):
    """Centres after a step."""

    centers: Centers
    moved: Array
    """The numbers of those that are not where they were."""
    sums: ClusterSums
    n_reseeded: int
    deviation: float


def _moved_centers(problem: KMeansProblem, state: _State) -> _Moved:
    """Move the centres to the means of their rows."""
    k = state.centers.values.shape[0]
    sums, weights, changed, n_reseeded = _members(problem, state)
    weights = as_like(weights, sums.values)
    old = state.centers if changed is None else some_centers(state.centers, changed)
    new = _means(sums.values, weights, old, changed, problem.metric)
    n_new = new.values.shape[0]  # the others did not move
    deviated = n_new and n_new / k * deviation(
        new.values, old.values, problem.metric, problem.scale
    )
    centers, moved = _replace_centers(state.centers, old, new, changed, problem.metric)
    return _Moved(centers, moved, sums, n_reseeded, deviated)


def _members(problem: KMeansProblem, state: _State) -> Members:
    """Return the sums of each cluster; one without rows takes the worst of all."""
    assigner, found = problem.assigner, state.assignment
    if isinstance(assigner, PartAssigner):
        assert isinstance(found, PartAssignment)
        return assigner.members(found, state.centers)
    assert isinstance(found, Assignment)
    k, labels, n_reseeded = problem.n_clusters, found.labels, 0
    weights = cluster_weights(labels, problem.weight, k)
    can_seed = problem.can_seed
    held = weights if can_seed is None else count_labels(labels, k, can_seed)
    if bool(array_namespace(held).any(held == 0)):
        costs = _costs(problem, state)
        labels, n_reseeded = reseed_empty(labels, costs, can_seed, k)
        weights = cluster_weights(labels, problem.weight, k)
    sums, changed = assigner.sum_again(labels, state.sums)
    return Members(sums, weights, changed, n_reseeded)


def _means(sums: Array, weights: Array, old: Centers, changed, metric) -> Centers:
    """Return the means of the changed clusters; without rows, where they were."""
    if changed is not None:
        sums, weights = take_rows(sums, changed), take_rows(weights, changed)
    return centers_from_sums(sums, weights, old, metric)


def _replace_centers(
    centers: Centers, old: Centers, new: Centers, changed, metric: str
) -> tuple[Centers, Array]:
    """Return all centres, with the new ones put in, and the numbers of those moved."""
    xp = array_namespace(new.values)
    if changed is None:
        (moved,) = xp.nonzero(xp.any(new.values != old.values, axis=1))
        return new, moved
    values = xp.asarray(centers.values, copy=True)
    set_columns(values.T, changed, new.values.T)
    return make_centers(values, metric), changed


def _spread(rows: Array, squared: Array) -> float:
    """Return the mean squared distance of the rows from their mean (euclidean)."""
    xp = array_namespace(squared)
    mean = rows.mean(axis=0) if is_sparse(rows) else xp.mean(rows, axis=0)
    mean = astype(xp.reshape(xp.asarray(mean), (-1,)), "float64")
    return float(xp.mean(squared)) - float(xp.sum(mean**2))


# ----------------------------------------------------------------------------------
# k-means of several groups of rows that are read part by part, all in step.
#
# Each group is clustered by itself, as :func:`kmeans` would; but one pass over the rows
# assigns those of all groups.
# ----------------------------------------------------------------------------------


def kmeans_of_groups(
    X: RowSource,
    groups: Sequence[np.ndarray],
    n_clusters: Sequence[int],
    *,
    metric: str,
    init: str,
    n_init: int,
    max_iter: int,
    tol: float,
    sample_weight: np.ndarray | None,
    rngs: Sequence[np.random.Generator],
    callback: Callable[[int], object] | None = None,
) -> list[KMeansResult]:
    """Cluster each group of rows by itself.

    Parameters
    ----------
    X : RowSource of shape (n, d)
    groups : sequence of integer arrays
        The numbers of the rows of each group.
    n_clusters : sequence of int
        Of each group, less than it has rows.
    metric, init, n_init, max_iter, tol
        As in :func:`kmeans`.
    sample_weight : array of shape (n,) or None
    rngs : sequence of numpy.random.Generator
        One for each group.
    callback : callable, default=None
        ``callback(n_done)`` when groups have ended.
    """
    if not groups:
        return []
    shift = common_shift(X, metric, np.sort(np.concatenate(groups)))
    X = shifted(X, shift)
    number = np.full(X.shape[0], -1, dtype=np.int16 if len(groups) < 2**15 else int)
    for group, rows in enumerate(groups):
        number[rows] = group
    rows_of = with_groups(X, number, sample_weight)
    every = range(len(groups))
    scales = dict.fromkeys(every, 1.0)
    if metric == "euclidean":
        scales = spreads(rows_of, list(every))
    problems = [
        KMeansProblem(
            n_clusters[g],
            None if sample_weight is None else sample_weight[groups[g]],
            metric,
            None,
            None,
            scales[g],
            PartAssigner(rows_of, n_clusters[g], metric, sample_weight, g, groups[g]),
        )
        for g in every
    ]
    starts = [rng.spawn(n_init) for rng in rngs]
    best: list[KMeansResult] = []
    for start in range(n_init):
        own_rngs = [generators[start] for generators in starts]
        firsts = _first_centers(X, groups, problems, init, own_rngs)
        steps: dict[int | None, Steps] = {
            g: lloyd_steps(problems[g], firsts[g], max_iter, tol, None, None)
            for g in every
        }
        tell = callback if start == n_init - 1 else None
        found = _in_step(rows_of, steps, metric, tell)
        best = [
            new if old is None or clearly_less(new.inertia, old.inertia) else old
            for old, new in zip(best or [None] * len(found), found, strict=True)
        ]
    return [_at_home(result, shift) for result in best]


def _first_centers(
    X: RowSource, groups, problems: list[KMeansProblem], init: str, rngs
) -> list[Centers]:
    """Return where each group begins; random rows of all groups are read at once."""
    each = list(zip(problems, groups, rngs, strict=True))
    if init != "random":
        return [first_centers(p, init, len(own), X, rng) for p, own, rng in each]
    chosen = [own[_random_rows(p, len(own), rng)] for p, own, rng in each]
    metric, edges = problems[0].metric, np.cumsum([len(some) for some in chosen])
    rows = prepare_rows(dense_rows(X, np.concatenate(chosen)), metric)
    return [make_centers(own, metric) for own in np.split(rows, edges[:-1])]


def _random_rows(problem: KMeansProblem, n: int, rng) -> np.ndarray:
    """Return the numbers of random rows, of n, one for each centre."""
    weight = None if problem.weight is None else to_numpy(problem.weight)
    return random_seeds(n, problem.n_clusters, weight, rng)


def _in_step(
    X: RowSource, steps: dict[int | None, Steps], metric: str, callback
) -> list[KMeansResult]:
    """Run the steps of all groups: each pass takes all that are still moving."""
    asked: dict[int | None, Centers] = {g: next(own)[0] for g, own in steps.items()}
    results: dict[int | None, KMeansResult] = {}
    while asked:
        for group, found in assign_groups(X, asked, metric).items():
            try:
                asked[group] = steps[group].send(found)[0]
            except StopIteration as end:
                results[group] = end.value
                del asked[group]
        if callback is not None:
            callback(len(results))
    return [results[group] for group in steps]


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


class Representatives(NamedTuple):
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


class _OneClass(NamedTuple):
    points: Array
    weights: np.ndarray
    n_iter: int = 0
    n_reseeded: int = 0
    converged: bool = True


class _Job(NamedTuple):
    """The rows of one class, and how many are to stand for them."""

    rows: np.ndarray
    n_representatives: int


class KMeansOptions(NamedTuple):
    """How each class is clustered, as :func:`kmeans` takes it."""

    metric: str = "euclidean"
    init: str = "random"
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-6


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
    """Choose representatives of every class.

    Parameters
    ----------
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        Of rows of the host each class goes to the device as a whole, or block by block
        in every step where it does not fit there. A source is read once in every step,
        for all classes.
    labels : integer array of shape (n,)
        The number of each row's class.
    n_representatives : sequence of int
        How many each class is to have at most.
    options : KMeansOptions
    sample_weight : array of shape (n,), default=None
        Rows of weight zero are passed over.
    rng : numpy.random.Generator
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_done, n_classes)`` after each class.

    Notes
    -----
    Classes are clustered in parallel where none of them is more than a thread's share
    of the work; else one by one, with all threads on each. The result is the same.
    Ctrl-C is raised after the current step: centres alone are no model.
    """
    budget = resolve_budget(memory_budget, X)
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    jobs = [
        _Job(np.flatnonzero((labels == c) & (weight > 0)), k)
        for c, k in enumerate(n_representatives)
    ]
    rngs = rng.spawn(len(jobs))
    if isinstance(X, RowSource):
        return _join(_represent_parts(X, jobs, sample_weight, options, rngs, callback))
    copies, workers = 0, 1
    if not isinstance(X, HostRows):
        counted = np.flatnonzero(weight > 0)
        twice = options.metric == "cosine" or (
            common_shift(X, options.metric, counted) is not None
        )
        copies = _bytes_of_copies(jobs, X, twice)
        _check_memory(copies, budget)
        workers = _parallel_classes(jobs, n_workers(X))
        if workers * copies > budget // 2:  # each at work has copies of its own
            workers = 1
    stop, n_done = threading.Event(), 0

    def represent(c: int) -> _OneClass:
        nonlocal n_done
        rows = jobs[c].rows
        result = _represent(
            on_device_if_it_fits(rows_in_order(X, rows), budget),
            weight[rows],
            jobs[c].n_representatives,
            options=options,
            rng=rngs[c],
            budget=max(budget // workers - copies, 1),
            stop=stop,
        )
        n_done += 1
        if callback is not None:
            callback(n_done, len(jobs))
        return result

    if workers > 1:
        return _join(_in_threads(represent, len(jobs), workers, stop))
    return _join([represent(c) for c in range(len(jobs))])


def with_rows(
    chosen: Representatives, points: Array, labels: np.ndarray, weights: np.ndarray
) -> Representatives:
    """Return the representatives and, after them, rows that stand for themselves.

    What the others of their class stand for becomes less by as much.
    """
    n_classes = int(max(chosen.labels.max(), labels.max(initial=0))) + 1
    total = np.bincount(chosen.labels, weights=chosen.weights, minlength=n_classes)
    own = np.bincount(labels, weights=weights, minlength=n_classes)
    share = np.maximum(1 - own / np.where(total > 0, total, 1.0), 0.0)
    return chosen._replace(
        points=concat_rows(chosen.points, points),
        labels=np.concatenate([chosen.labels, labels]),
        weights=np.concatenate([chosen.weights * share[chosen.labels], weights]),
    )


def _bytes_of_copies(jobs: list[_Job], X: Array, twice: bool) -> int:
    """Return what the rows of the largest class take: copied, and perhaps moved."""
    n = max(len(job.rows) for job in jobs)
    share = X.nnz / max(X.shape[0] * X.shape[1], 1) * 2 if is_sparse(X) else 1.0
    row = share * itemsize(X) * X.shape[1] * (2 if twice else 1)
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


def _in_threads(function, n_classes: int, workers: int, stop: threading.Event):
    """Call a function on every class; an interrupt lets those begun end early."""
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(function, c) for c in range(n_classes)]
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _represent(
    rows: Array,
    weight: np.ndarray,
    k: int,
    *,
    options: KMeansOptions,
    rng: np.random.Generator,
    budget: int,
    stop: threading.Event,
) -> _OneClass:
    """Return at most k points for rows."""
    n = rows.shape[0]
    if n <= k:
        every = np.arange(n)
        streamed = is_sparse(rows) or isinstance(rows, HostRows)
        return _OneClass(dense_rows(rows, every) if streamed else rows, weight)
    like = dense_rows(rows, np.arange(1))

    def leave_if_stopped(step: int, moved: float) -> None:
        if stop.is_set():
            raise KeyboardInterrupt  # which came in another thread

    result = kmeans(
        rows,
        k,
        metric=options.metric,
        init=options.init,
        n_init=options.n_init,
        max_iter=options.max_iter,
        tol=options.tol,
        # Rows that all count as one are counted, not weighed.
        sample_weight=None if np.all(weight == 1) else as_like(weight, like),
        rng=rng,
        memory_budget=budget,
        callback=leave_if_stopped,
    )
    points, weights = _with_norms(result)
    return _OneClass(
        points,
        weights,
        result.n_iter,
        result.n_reseeded,
        result.converged,
    )


def _represent_parts(
    X: RowSource, jobs: list[_Job], weight, options: KMeansOptions, rngs, callback
) -> list[_OneClass]:
    """Return points for the classes of rows that are read part by part."""
    unit = weight is None or bool(np.all(weight == 1))
    many = [c for c, job in enumerate(jobs) if len(job.rows) > job.n_representatives]
    n_few = len(jobs) - len(many)
    results = kmeans_of_groups(
        X,
        [jobs[c].rows for c in many],
        [jobs[c].n_representatives for c in many],
        **options._asdict(),
        sample_weight=None if unit else weight,
        rngs=[rngs[c] for c in many],
        callback=callback and (lambda n_done: callback(n_few + n_done, len(jobs))),
    )
    found = {
        c: _OneClass(*_with_norms(r), r.n_iter, r.n_reseeded, r.converged)
        for c, r in zip(many, results, strict=True)
    }
    for c in sorted(set(range(len(jobs))) - set(many)):
        rows = jobs[c].rows
        own = np.ones(len(rows)) if weight is None else weight[rows]
        found[c] = _OneClass(dense_rows(X, rows), own)
    return [found[c] for c in range(len(jobs))]


def _with_norms(result: KMeansResult) -> tuple[Array, np.ndarray]:
    """Return the centres that have rows, as long as these are, and their weights.

    Centres on the sphere are directions. A representative has the mean norm of its
    rows, which is 1 for unit rows as in the paper.
    """
    points, norms = result.centers, result.mean_norms
    if norms is not None:
        points = points * as_like(norms, points, dtype=dtype_name(points))[:, None]
    alive = np.flatnonzero(result.weights > 0)
    return take_rows(points, alive), result.weights[alive]


def _join(parts: list[_OneClass]) -> Representatives:
    xp = array_namespace(*(part.points for part in parts))
    sizes = [part.points.shape[0] for part in parts]
    return Representatives(
        xp.concat([part.points for part in parts], axis=0),
        np.repeat(np.arange(len(parts)), sizes),
        np.concatenate([part.weights for part in parts]),
        max(part.n_iter for part in parts),
        sum(part.n_reseeded for part in parts),
        all(part.converged for part in parts),
    )
