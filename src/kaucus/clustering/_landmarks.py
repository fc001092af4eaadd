"""Choose the landmarks of a Nyström approximation.

    "uniform"      random rows
    "k-means"      centres of euclidean k-means: points where the rows are
    "rpcholesky"   pivots of a randomly pivoted Cholesky factor of K: rows that are not
                   represented yet, by the kernel's own measure

The last two look at no more than a random sample of the rows, so that choosing costs
less than using.

Randomly pivoted Cholesky: K ≈ F Fᵀ, F of shape (n, r). Pivots are drawn with
probability proportional to the diagonal of what is left of K, a block at a time: rows
that are well represented already are seldom drawn again. (Y. Chen, E. N. Epperly, J. A.
Tropp, R. J. Webber, "Randomly pivoted Cholesky", arXiv:2207.06503, Algorithm 4; as a
preconditioner of kernel ridge regression: M. Díaz et al., arXiv:2304.12465.)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus._array.linalg import add_to_diagonal, cholesky_with_jitter, solve_triangular
from kaucus._array.namespace import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    epsilon,
    is_sparse,
    take_rows,
    to_numpy,
)
from kaucus._array.rows import as_rows
from kaucus._array.segments import random_rows
from kaucus.clustering._kmeans import kmeans
from kaucus.kernels._kernel import Kernel, Precomputed

LANDMARKS = ("k-means", "uniform", "rpcholesky")

# Rows that are looked at, per landmark; k-means gains nothing from more.
_ROWS_EACH = 50
_KMEANS_STEPS = 20
# Of the rows of a source: as read, put together, in order, and at work.
_COPIES = 4
_BLOCKS = 16


def choose_landmarks(
    kernel: Kernel,
    X: Array,
    n_landmarks: int,
    *,
    method: str,
    rng: np.random.Generator,
) -> Array:
    """Return landmarks for the rows of ``X``.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or Rows of shape (n, d)
        Of rows of the host, no more are looked at than fit on their device; of a
        source, than fit into the memory for work on one part.
    n_landmarks : int
        At most n.
    method : {"k-means", "uniform", "rpcholesky"}
        For a precomputed kernel, whose rows are numbers, not "k-means".
    rng : numpy.random.Generator

    Returns
    -------
    array or CSR matrix of shape (m, d)
        m ≤ n_landmarks: fewer where K has a smaller numerical rank ("rpcholesky").
    """
    like = np.empty(0) if is_sparse(X) else X
    size = n_landmarks
    if method != "uniform":
        fit = as_rows(X, 1).rows_at_once(_COPIES)
        size = max(size, min(_ROWS_EACH * size, fit))
    drawn = random_rows(rng, X.shape[0], min(size, X.shape[0]), like)
    sample = take_rows(X, drawn)
    if method == "uniform":
        return sample
    if method == "k-means":
        if isinstance(kernel, Precomputed):
            raise ValueError("Row numbers of a given matrix have no means.")
        return _kmeans_centers(sample, n_landmarks, rng)
    factor = pivoted_factor(
        lambda rows: kernel(sample, take_rows(sample, rows)),
        as_like(kernel.diag(sample), like, dtype=dtype_name(X)),
        rank=n_landmarks,
        rng=rng,
        # The pivots of a block do not know of each other: many small ones.
        block_size=max(1, n_landmarks // _BLOCKS),
    )
    return take_rows(sample, as_like(factor.pivots, like))


def _kmeans_centers(sample: Array, n_landmarks: int, rng) -> Array:
    return kmeans(
        sample,
        n_landmarks,
        metric="euclidean",
        init="random",
        max_iter=_KMEANS_STEPS,
        tol=1e-3,
        rng=rng,
    ).centers


# ---- randomly pivoted Cholesky -------------------------------------------------------


# What is left of the diagonal counts as 0 below this many roundings of its largest.
_ROUNDINGS = 100.0


class PivotedFactor(NamedTuple):
    """A low-rank factor, and the rows of K that it was made from."""

    F: Array
    """(n, r), F Fᵀ ≈ K."""
    pivots: np.ndarray
    """(r,), different row numbers in the order in which they were drawn."""


def pivoted_factor(
    columns: Callable[[Array], Array],
    K_diagonal: Array,
    *,
    rank: int,
    rng: np.random.Generator,
    block_size: int = 128,
) -> PivotedFactor:
    """Return F with F Fᵀ ≈ K from ``rank`` columns of K, and which columns.

    Parameters
    ----------
    columns : callable
        ``columns(rows)`` returns K[:, rows], (n, m), for integer ``rows``, (m,).
    K_diagonal : array of shape (n,)
        In the precision that F is to have.
    rank : int
        Columns to use; fewer are used where K has a smaller numerical rank.
    rng : numpy.random.Generator
    block_size : int, default=128

    Returns
    -------
    PivotedFactor
        With r ≤ rank columns.

    Notes
    -----
    n r columns' entries, n r² multiplications, n r numbers of memory.
    """
    xp = array_namespace(K_diagonal)
    n = K_diagonal.shape[0]
    F = xp.empty((n, rank), dtype=K_diagonal.dtype, device=device_of(K_diagonal))
    left = np.maximum(to_numpy(astype(K_diagonal, "float64")), 0.0)  # (n,)
    # Less than this is rounding of the columns: it has no factor.
    noise = _ROUNDINGS * epsilon(K_diagonal) * left.max()
    done, drawn = 0, []
    while done < rank and left.any():
        size = min(block_size, rank - done, int(np.count_nonzero(left)))
        pivots = rng.choice(n, size=size, replace=False, p=left / left.sum())
        pivots = np.sort(pivots)
        new = _next_columns(F[:, :done], columns, pivots, K_diagonal)
        F[:, done : done + size] = new
        done += size
        drawn.append(pivots)
        left -= to_numpy(xp.sum(new**2, axis=1, dtype=xp.float64))
        left[left <= noise] = 0.0
        left[pivots] = 0.0
    none = np.empty(0, dtype=np.int64)
    return PivotedFactor(F[:, :done], np.concatenate([none, *drawn]))


def _next_columns(F: Array, columns, pivots: np.ndarray, K_diagonal: Array) -> Array:
    """Return the columns that ``pivots`` add to F, (n, m)."""
    xp = array_namespace(F)
    index = as_like(pivots, K_diagonal)
    G = columns(index)  # (n, m)
    if F.shape[1]:
        G = G - F @ take_rows(F, index).T
    square = astype(take_rows(G, index), "float64")
    # Pivots that nearly repeat each other leave this block singular, and what is left
    # of K in it may be no more than rounding, which is indefinite: so that rounding is
    # added. It only changes the preconditioner, never the solution.
    rounding = len(pivots) * epsilon(K_diagonal) * float(xp.max(K_diagonal))
    square = add_to_diagonal((square + square.T) / 2, rounding)
    L = cholesky_with_jitter(square, largest=1e-2, overwrite=True).L
    return astype(solve_triangular(L, astype(G, "float64").T).T, dtype_name(F))
