"""AᵀB summed over blocks of rows, with the care of :mod:`kaucus.backend._gram`.

What two groups of columns add to a Gram matrix that grows: float32 sums are short, the
rest is float64.
"""

import numpy as np

from kaucus.backend._blocks import for_each_block, n_workers, tiles
from kaucus.backend._namespace import Array, astype, is_numpy

# Rows and columns of a tile, and rows of a float32 sum.
_TILE, _SHORT = 512, 256


def add_cross_gram(G: Array, A: Array, B: Array) -> Array:
    """Return G + AᵀB.

    The product is in the precision of ``A`` and ``B``, the sum in float64. May work in
    the memory of ``G``; use the returned array.

    Parameters
    ----------
    G : float64 array of shape (m, k)
    A : array of shape (n, m)
    B : array of shape (n, k)
    """
    if not is_numpy(G):
        return G + astype(A, "float64").T @ astype(B, "float64")
    if A.dtype != np.float32:
        G += A.T @ B
        return G

    def add(tile: tuple[slice, slice]) -> None:
        i, j = tile
        total = np.zeros((i.stop - i.start, j.stop - j.start))
        part = np.empty(total.shape, dtype=A.dtype)
        for start in range(0, A.shape[0], _SHORT):
            rows = slice(start, start + _SHORT)
            np.matmul(A[rows, i].T, B[rows, j], out=part)
            total += part
        G[i, j] += total

    for_each_block(add, tiles(G.shape, (_TILE, _TILE)), workers=n_workers(A))
    return G
