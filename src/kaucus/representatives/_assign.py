"""Assign rows to their best centres, computing only what may have changed.

The scores of a centre that did not move are the same as before. So the matrix of
scores is kept, where there is room for it, and after each step only the columns of
the centres that moved are computed again: on MNIST with 1,000 centres a class, ten
steps cost 2.9 full products in place of 10.

Where the device has fast products of few digits (tf32 on CUDA), these come first: the
best centre of a row is certain if it leads by more than their error bound, and only
doubtful rows are scored again in full precision. The labels are the same.

Blocks of rows have a fixed height, whatever the memory and the number of threads, so
that the result depends on neither.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    Scratch,
    array_namespace,
    astype,
    best_one,
    best_two,
    count_labels,
    dense_rows,
    device_of,
    for_each_block,
    is_numpy,
    is_sparse,
    itemsize,
    n_workers,
    on_gpu,
    product_into,
    rough_error,
    rough_inner_products,
    row_blocks,
    segment_sum,
    set_columns,
    take_rows,
)
from kaucus.kernels import inner_products, squared_norms
from kaucus.representatives._geometry import Centers

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
