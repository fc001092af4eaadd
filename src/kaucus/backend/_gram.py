"""AᵀA summed over blocks of rows, by half the multiplications of a product."""

import numpy as np
import scipy.linalg

from kaucus.backend._linalg import restore_lower
from kaucus.backend._namespace import (
    Array,
    array_namespace,
    astype,
    device_of,
    is_numpy,
    is_torch,
)


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
    # A row-major A is a column-major Aᵀ. NumPy's own A.T @ A is the same routine, but
    # it then copies one triangle to the other, number by number.
    (syrk,) = scipy.linalg.get_blas_funcs(("syrk",), (A,))
    if A.dtype == np.float64:
        return syrk(1.0, A.T, beta=1.0, c=G, overwrite_c=True, lower=True)
    G += syrk(1.0, A.T, lower=True)
    return G


def mirror_lower(G: Array) -> Array:
    """Return the symmetric matrix whose lower triangle is that of ``G``.

    In the memory of ``G`` where the library allows it.
    """
    if is_numpy(G):
        restore_lower(G.T, np.diagonal(G).copy())  # G's lower is Gᵀ's upper triangle
        return G
    xp = array_namespace(G)
    lower = xp.tril(G)
    return lower + xp.tril(lower, k=-1).T
