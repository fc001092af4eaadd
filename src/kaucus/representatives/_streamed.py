"""Assign rows that stay on the host: each step is one pass of blocks over a device.

A block goes to the device once for a step: there it is assigned to the centres, and
added to the sums of which the next ones are made. Labels and scores, one number a row,
stay on the host.
"""

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    array_namespace,
    as_like,
    astype,
    itemsize,
    row_blocks,
    stream_blocks,
    take_rows,
    to_numpy,
)
from kaucus.kernels import squared_norms
from kaucus.representatives._assign import Assigner, Assignment, ClusterSums
from kaucus.representatives._geometry import Centers, prepare_rows
from kaucus.representatives._seeding import rows_to_seed

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
