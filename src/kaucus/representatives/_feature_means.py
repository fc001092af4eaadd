"""Clusters of rows and their means in the feature space of a kernel.

A mean is known by its sums with all rows. With row weights w and s_c = Σ_{j∈c} w_j:

    D(x_i, m_c) = K_ii − 2 S_ic / s_c + Q_c / s_c²          (Maia & Ara, eq. 7)
    S_ic = Σ_{j∈c} w_j K_ij          sums of the kernel over a cluster, S = K W Z
    Q_c  = Σ_{i∈c} w_i S_ic          s_c² times the squared norm of the mean

The third term differs from cluster to cluster; without it another problem is solved.
The objective Σ w_i D(x_i, m_c(i)) is Σ w_i K_ii − Σ Q_c / s_c.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    entries_at,
    segment_sum,
)
from kaucus.representatives._gram import KernelMatrix

# A gain of so many roundings is a tie, and a tie keeps the label.
_TIE = 8.0


class Problem(NamedTuple):
    """A kernel matrix, weights of its rows, and a number of clusters."""

    gram: KernelMatrix
    n_clusters: int
    weight: Array
    diagonal: Array
    total: float
    """Σ w_i K_ii."""
    tie: float
    """Difference of scores that counts as none."""


class Run(NamedTuple):
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
    gram: KernelMatrix, n_clusters: int, sample_weight: Array | None
) -> Problem:
    """Return the problem in float64."""
    diagonal = astype(gram.diagonal(), "float64")
    xp = array_namespace(diagonal)
    weight = (
        xp.ones_like(diagonal)
        if sample_weight is None
        else astype(sample_weight, "float64")
    )
    total = float(xp.sum(weight * diagonal))
    tie = _TIE * gram.rounding * float(xp.max(xp.abs(diagonal)))
    return Problem(gram, n_clusters, weight, diagonal, total, tie)


def total_scatter(gram: KernelMatrix, sample_weight: Array | None = None) -> float:
    """Return Σ w ‖φ(x) − m‖² with the mean m of all rows: the objective for k = 1."""
    return labels_objective(gram, np.zeros(gram.shape[0], np.int64), 1, sample_weight)


def labels_objective(
    gram: KernelMatrix,
    labels: Array,
    n_clusters: int,
    sample_weight: Array | None = None,
) -> float:
    """Return the objective of given clusters with their own means."""
    problem = pose_problem(gram, n_clusters, sample_weight)
    return begin_runs(problem, [as_like(labels, problem.weight)])[0].objective


def begin_runs(problem: Problem, starts: Sequence[Array]) -> list[Run]:
    """Sum the kernel over the clusters of each start."""
    sums = full_sums(problem, starts)
    return [run_of(problem, a, S) for a, S in zip(starts, sums, strict=True)]


def run_of(problem: Problem, labels: Array, sums: Array) -> Run:
    """Return the clusters with these labels and sums."""
    xp, k = array_namespace(sums), problem.n_clusters
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
    product = problem.gram.matmul(array_namespace(weight).concat(Z, axis=1))
    return [product[:, i * k : (i + 1) * k] for i in range(len(starts))]


def indicator(labels: Array, weight: Array, n_clusters: int) -> Array:
    """Return W Z, (n, k): the weight of each row in the column of its cluster."""
    xp = array_namespace(weight)
    clusters = xp.arange(n_clusters, dtype=labels.dtype, device=device_of(labels))
    member = labels[:, None] == clusters[None, :]
    return xp.where(member, weight[:, None], xp.zeros_like(weight)[:, None])


def distances_from_sums(means: Array, diagonal: Array, center_norms: Array) -> Array:
    """Return eq. (7), (n, k), from ⟨φ(x), m⟩, k(x, x) and ‖m‖²; never negative."""
    D = diagonal[:, None] - 2 * means + center_norms[None, :]
    xp = array_namespace(D)
    return xp.maximum(D, xp.zeros_like(D))


def positive_weights(weights: Array) -> Array:
    """Return the weights, with 1 in place of 0, to divide by."""
    xp = array_namespace(weights)
    return xp.where(weights > 0, weights, xp.ones_like(weights))
