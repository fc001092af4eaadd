"""Covariances of the rows of each cell, and learned metrics in their place.

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

from kaucus.backend import Array, astype, row_blocks, take_rows, to_numpy
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


# ---- covariances of rows -------------------------------------------------------------


COVARIANCES = ("full", "diag", "radial")
# Bytes of a block of rows on its way through float64.
_BLOCK = 2**24


def cell_covariances(
    X: Array,
    cells: np.ndarray,
    n_cells: int,
    kind: str = "full",
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return Σᵢ = cov(X ∩ Wᵢ) of each cell (Czarnecki & Tabor, Algorithm 1).

    The mean of (x − m)(x − m)ᵀ over the rows of the cell, with their weights: a weight
    of 2 is a row that is there twice. A cell without rows has the covariance 0.

    Parameters
    ----------
    X : array of shape (n, d)
    cells : ndarray of shape (n,)
        The cell of each row.
    n_cells : int
        k.
    kind : {"full", "diag", "radial"}, default="full"
        Whole matrices, their diagonals, or the means of those (Observation 3.3).
    sample_weight : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (k, d, d), (k, d) or (k,)
        In float64.
    """
    covariances = []
    for i in range(n_cells):
        rows = np.flatnonzero(cells == i)
        weight = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        covariances.append(_covariance(X, rows, weight, full=kind == "full"))
    stacked = np.stack(covariances)
    return stacked.mean(axis=1) if kind == "radial" else stacked


def _covariance(X: Array, rows, weight, *, full: bool) -> np.ndarray:
    """Return one covariance, or its diagonal, in two passes over the rows."""
    d = X.shape[1]
    total = float(weight.sum())
    mean, spread = np.zeros(d), np.zeros((d, d) if full else d)
    if total <= 0:
        return spread
    blocks = list(row_blocks(len(rows), 8 * max(d, 1), _BLOCK))
    for s in blocks:
        mean += weight[s] @ _in_float64(X, rows[s])
    mean /= total
    for s in blocks:
        centred = _in_float64(X, rows[s]) - mean
        weighted = weight[s][:, None] * centred
        spread += weighted.T @ centred if full else (weighted * centred).sum(axis=0)
    return (spread + spread.T) / (2 * total) if full else spread / total


def _in_float64(X: Array, rows: np.ndarray) -> np.ndarray:
    return to_numpy(astype(take_rows(X, rows), "float64"))
