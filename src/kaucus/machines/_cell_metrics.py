"""The learned metric of each cell's rows, in the place of the cell's covariance.

In the coordinates u in which a cell's covariance Σ is the identity, x = L u with
Σ = L Lᵀ, one step of the learned metric gives M, the mean of Σ_j ∇f_j ∇f_jᵀ over the
cell's rows, of trace d. What stands in for Σ is then

    S = L N⁻¹ Lᵀ,   N = ((1 − ρ) M + ρ I) / c,   c such that det N = 1,

so that (x − y)ᵀ S⁻¹ (x − y) counts the directions in which the label changes. S has the
determinant of Σ: the kernel's factors, powers of determinants, keep their size, and C
its meaning. Rows that are mapped linearly have an S that is mapped with them, as Σ is;
and with M = I, S = Σ.
"""

from typing import NamedTuple

import numpy as np

from kaucus.kernels import Gaussian
from kaucus.machines._folds import Family
from kaucus.machines._metric import enough_rows, one_step
from kaucus.machines._metric_search import MetricOptions
from kaucus.machines._problem import Problem
from kaucus.machines._targets import ClassTargets

# What a fit chooses C from.
_CS = 10.0 ** np.arange(-1, 5.1, 0.5)
# ρ: no direction counts less than this share of what it counts in units of Σ. On nine
# tables of 600 rows 0.3 gave a lower error in folds than 0.01, 0.1 or roots of M.
_SHARE = 0.3
# Fewer rows of a second class tell no direction.
_LEAST_OF_CLASS = 5


class CellMetrics(NamedTuple):
    """What stands in for the covariances of cells."""

    covariances: np.ndarray
    """S of each cell, (k, d, d); Σ where nothing was learned."""
    learned: np.ndarray
    """Whether a cell had labels enough, (k,)."""


def gradient_covariances(
    X: np.ndarray,
    labels: np.ndarray,
    cells: np.ndarray,
    covariances: np.ndarray,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> CellMetrics:
    """Return S of each cell: the inverse of its learned metric.

    A cell of fewer than 50 labelled rows, or with fewer than 5 outside its largest
    class, keeps its covariance.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Labelled rows, in float64.
    labels, cells : integer ndarrays of shape (n,)
        Number of the class and of the cell of each row.
    covariances : ndarray of shape (k, d, d)
        Σ of each cell, positive definite. Not changed.
    weight : ndarray of shape (n,)
        Positive.
    rng : numpy.random.Generator
    """
    found, learned = np.array(covariances), np.zeros(len(covariances), dtype=bool)
    for i, Sigma in enumerate(covariances):
        rows = np.flatnonzero(cells == i)
        if not _tells_directions(labels[rows]):
            continue
        root = np.linalg.cholesky(Sigma)
        centred = X[rows] - X[rows].mean(axis=0)
        N = cell_metric(
            np.linalg.solve(root, centred.T).T, labels[rows], weight[rows], rng
        )
        half = np.linalg.solve(np.linalg.cholesky(N), root.T)  # S = halfᵀ half
        found[i], learned[i] = half.T @ half, True
    return CellMetrics(found, learned)


def cell_metric(
    U: np.ndarray, labels: np.ndarray, weight: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return N: the metric after one step with a share of the identity, (d, d)."""
    classes, numbers = np.unique(labels, return_inverse=True)
    targets = ClassTargets(numbers, len(classes), lambda weight, labels: weight)
    options = MetricOptions(
        [Family(Gaussian(), "tune")], _CS, beyond=True, scales=("given",)
    )
    T = one_step(Problem.of(U, targets, weight), options, rng).row_map.weights
    M, identity = T @ T.T, np.eye(U.shape[1])
    mixed = (1 - _SHARE) * M * (len(M) / np.trace(M)) + _SHARE * identity
    return mixed / np.exp(np.linalg.slogdet(mixed)[1] / len(M))


def _tells_directions(labels: np.ndarray) -> bool:
    counts = np.bincount(labels) if len(labels) else np.zeros(1)
    return (
        enough_rows(len(labels), None)
        and counts.sum() - counts.max() >= _LEAST_OF_CLASS
    )
