"""A low-rank factor of a kernel matrix by randomly pivoted Cholesky.

    K ≈ F Fᵀ,   F of shape (n, r)

Pivots are drawn with probability proportional to the diagonal of what is left of K,
a block at a time: rows that are well represented already are seldom drawn again.

Reference: Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted
Cholesky", arXiv:2207.06503, Algorithm 4 (block form); as a preconditioner of kernel
ridge regression: M. Díaz et al., arXiv:2304.12465.
"""

from collections.abc import Callable

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    cholesky_with_jitter,
    device_of,
    dtype_name,
    solve_triangular,
    to_numpy,
)


def randomly_pivoted_cholesky(
    columns: Callable[[Array], Array],
    K_diagonal: Array,
    *,
    rank: int,
    rng: np.random.Generator,
    block_size: int = 128,
) -> Array:
    """Return F with F Fᵀ ≈ K from ``rank`` columns of K.

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
    array of shape (n, r)
        r ≤ rank.

    Notes
    -----
    n r columns' entries, n r² multiplications, n r numbers of memory.
    """
    xp = array_namespace(K_diagonal)
    n = K_diagonal.shape[0]
    F = xp.empty((n, rank), dtype=K_diagonal.dtype, device=device_of(K_diagonal))
    left = np.maximum(to_numpy(astype(K_diagonal, "float64")), 0.0)  # (n,)
    enough = 1e-12 * left.sum()
    done = 0
    while done < rank and left.sum() > enough:
        size = min(block_size, rank - done, int(np.count_nonzero(left)))
        pivots = rng.choice(n, size=size, replace=False, p=left / left.sum())
        new = _next_columns(F[:, :done], columns, as_like(np.sort(pivots), K_diagonal))
        F[:, done : done + size] = new
        done += size
        left -= to_numpy(xp.sum(new**2, axis=1, dtype=xp.float64))
        left = np.maximum(left, 0.0)
        left[pivots] = 0.0
    return F[:, :done]


def _next_columns(F: Array, columns, pivots: Array) -> Array:
    """Return the columns that ``pivots`` add to F, (n, m)."""
    xp = array_namespace(F)
    G = columns(pivots)  # (n, m)
    if F.shape[1]:
        G = G - F @ xp.take(F, pivots, axis=0).T
    square = astype(xp.take(G, pivots, axis=0), "float64")
    # Pivots that nearly repeat each other leave this block singular; the jitter only
    # changes the preconditioner, never the solution.
    L = cholesky_with_jitter((square + square.T) / 2, largest=1e-2).L
    return astype(solve_triangular(L, astype(G, "float64").T).T, dtype_name(F))
