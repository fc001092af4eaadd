"""AᵀA summed over blocks of rows, by half the multiplications of a product.

A float32 product over many rows loses digits in its own sum: of the Gram matrix of
60,000 rows and 10,000 kernel columns, with a smallest eigenvalue of 2e-4, sums of 8,192
rows made it -1e-2, sums of 256 rows left it at 1.4e-4. So float32 sums are short here,
and the rest is float64.
"""

import numpy as np
import scipy.linalg

from kaucus.backend._blocks import for_each_block, n_workers
from kaucus.backend._linalg import restore_lower
from kaucus.backend._namespace import (
    Array,
    array_namespace,
    astype,
    device_of,
    is_numpy,
    is_torch,
)

# Columns of a tile, and rows of a float32 sum.
_TILE, _SHORT = 512, 256


def zero_gram(m: int, like: Array) -> Array:
    """Return a float64 zero matrix, (m, m), for :func:`add_gram`."""
    if is_numpy(like):
        return np.zeros((m, m), order="F")  # as BLAS has it: no copy
    xp = array_namespace(like)
    return xp.zeros((m, m), dtype=xp.float64, device=device_of(like))


def add_gram(G: Array, A: Array) -> Array:
    """Return G + AᵀA, of which only the lower triangle is defined.

    The product is in the precision of ``A``, the sum in float64. Works in the memory
    of ``G``, which must come from :func:`zero_gram`; use the returned array.

    Parameters
    ----------
    G : float64 array of shape (m, m)
    A : array of shape (n, m)
    """
    if is_numpy(G):
        return _blas_add_gram(G, A)
    if is_torch(G):
        from kaucus.backend import _torch

        return _torch.add_gram(G, A)
    return G + astype(A.T @ A, "float64")


def _blas_add_gram(G: np.ndarray, A: np.ndarray) -> np.ndarray:
    if A.dtype == np.float32:
        return _add_short_sums(G, A)
    # A row-major A is a column-major Aᵀ. NumPy's own A.T @ A is the same routine, but
    # it then copies one triangle to the other, number by number.
    (syrk,) = scipy.linalg.get_blas_funcs(("syrk",), (A,))
    return syrk(1.0, A.T, beta=1.0, c=G, overwrite_c=True, lower=True)


def _add_short_sums(G: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Add a float32 AᵀA by tiles that stay in cache, and sums of a few rows."""
    upper, m = G.T, A.shape[1]  # row-major; its upper triangle is G's lower one
    edges = [slice(i, min(i + _TILE, m)) for i in range(0, m, _TILE)]
    pairs = [(j, i) for i in edges for j in edges if j.start <= i.start]

    def add(tile: tuple[slice, slice]) -> None:
        j, i = tile
        total = np.zeros((j.stop - j.start, i.stop - i.start))
        part = np.empty(total.shape, dtype=A.dtype)
        for start in range(0, A.shape[0], _SHORT):
            rows = A[start : start + _SHORT]
            np.matmul(rows[:, j].T, rows[:, i], out=part)
            total += part
        upper[j, i] += total

    for_each_block(add, pairs, workers=n_workers(A))
    return G


def mirror_lower(G: Array) -> Array:
    """Return the symmetric matrix of a sum made by :func:`add_gram`.

    In the memory of ``G`` where the library allows it.
    """
    if is_numpy(G):
        restore_lower(G.T, np.diagonal(G).copy())  # G's lower is Gᵀ's upper triangle
        return G
    if is_torch(G):
        restore_lower(G.mT, G.diagonal().clone())
        return G
    xp = array_namespace(G)
    lower = xp.tril(G)
    return lower + xp.tril(lower, k=-1).T
