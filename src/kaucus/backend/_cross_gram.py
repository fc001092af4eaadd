"""AᵀB summed over blocks of rows, with the care of :mod:`kaucus.backend._gram`.

What two groups of columns add to a Gram matrix that grows: float32 sums are short, the
rest is float64.
"""

import numpy as np

from kaucus.backend._gram import add_tiles, column_tiles
from kaucus.backend._namespace import Array, astype, is_numpy


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

    m, k = G.shape
    pairs = [(i, j) for i in column_tiles(m) for j in column_tiles(k)]
    return add_tiles(G, A, B, pairs)
