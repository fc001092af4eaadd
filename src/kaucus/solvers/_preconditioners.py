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
    add_to_diagonal,
    array_namespace,
    as_like,
    astype,
    cholesky_with_jitter,
    device_of,
    dtype_name,
    epsilon,
    solve_triangular,
    to_numpy,
)

# What is left of the diagonal counts as 0 below this many roundings of its largest.
_ROUNDINGS = 100.0


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
    rank : int
        Columns to use; fewer are used where K has a smaller numerical rank.
    rng : numpy.random.Generator
    block_size : int, default=128

    Returns
    -------
    array of shape (n, r)
        r ≤ rank, in the precision of the columns.

    Notes
    -----
    n r columns' entries, n r² multiplications, n r numbers of memory.
    """
    left = np.maximum(to_numpy(astype(K_diagonal, "float64")), 0.0)  # (n,)
    # Less than this is rounding of the columns: it has no factor.
    noise = _ROUNDINGS * epsilon(K_diagonal) * left.max()
    F: Array | None = None
    while (done := 0 if F is None else F.shape[1]) < rank and left.any():
        size = min(block_size, rank - done, int(np.count_nonzero(left)))
        pivots = rng.choice(left.size, size=size, replace=False, p=left / left.sum())
        F, new = _append_block(F, columns, np.sort(pivots), K_diagonal)
        left -= np.sum(to_numpy(astype(new, "float64")) ** 2, axis=1)
        left[left <= noise] = 0.0
        left[pivots] = 0.0
    if F is None:
        xp = array_namespace(K_diagonal)
        return xp.zeros(
            (left.size, 0), dtype=K_diagonal.dtype, device=device_of(K_diagonal)
        )
    return F


def _append_block(F: Array | None, columns, pivots: np.ndarray, like: Array):
    """Return F with the columns of ``pivots`` appended, and those columns alone."""
    xp = array_namespace(like)
    index = as_like(pivots, like)
    G = columns(index)  # (n, m)
    if F is not None:
        G = G - F @ xp.take(F, index, axis=0).T
    square = astype(xp.take(G, index, axis=0), "float64")
    # Pivots that nearly repeat each other leave this block singular, and what is left
    # of K in it may be no more than rounding, which is indefinite: so that rounding is
    # added. It only changes the preconditioner, never the solution.
    rounding = len(pivots) * epsilon(like) * float(xp.max(like))
    square = add_to_diagonal((square + square.T) / 2, rounding)
    L = cholesky_with_jitter(square, largest=1e-2, overwrite=True).L
    new = astype(solve_triangular(L, astype(G, "float64").T).T, dtype_name(G))
    return (new if F is None else xp.concat([F, new], axis=1)), new
