"""AᵀA and AᵀB summed over blocks of rows; AᵀA by half the multiplications.

A float32 product over many rows loses digits in its own sum: of the Gram matrix of
60,000 rows and 10,000 kernel columns, with a smallest eigenvalue of 2e-4, sums of 8,192
rows made it -1e-2, sums of 256 rows left it at 1.4e-4. So float32 sums are short here,
and the rest is float64.

A sum of r numbers in turn errs by about √r roundings of its size, the total of g such
sums by √(r/g), to which adding them up in float32 puts √g: little, as long as g² is
small beside r. So four sums are added in float32 before float64 is touched. On 60,000
digits and 1,500 kernel columns the error was 5.20e-8 of the matrix for sums of 256 rows
added in float64, 5.26e-8 for four of 512 (which BLAS cuts in two by itself), 1.01e-7
for sums of 8,192.
"""

import functools
import itertools

import numpy as np

from kaucus.backend._blocks import Scratch, map_blocks, n_workers, row_blocks
from kaucus.backend._lapack import add_gram_in_place
from kaucus.backend._namespace import (
    Array,
    array_namespace,
    astype,
    device_of,
    is_numpy,
    is_torch,
    torch_versions,
)

# Rows of one float32 sum, and how many such sums are added in float32.
_SHORT, _GROUP = 512, 4
# Multiplications of one call of syrk, twice those that it needs: half a second on a
# slow core.
_CALL_WORK = 8 * 10**9
# Columns of a tile at most, and at least so many tiles as keep all threads busy to the
# end. ``benchmarks/gram.py`` tells what they are worth.
_TILE, _LEAST_TASKS = 760, 48


def zero_gram(m: int, like: Array) -> Array:
    """Return a float64 zero matrix, (m, m), for :func:`add_gram`."""
    if is_numpy(like):
        return np.zeros((m, m), order="F")  # as BLAS has it: no copy
    xp = array_namespace(like)
    return xp.zeros((m, m), dtype=xp.float64, device=device_of(like))


def gram_bytes(m: int, like: Array) -> int:
    """Return what :func:`add_gram` takes beside the sum of m × m.

    For float32 rows of NumPy: the tiles that threads work on, and those to be added.
    """
    if not is_numpy(like) or like.dtype != np.float32:
        return 0
    workers = n_workers(like)
    width = min(m, -(-m // max(-(-m // _TILE), 1)))
    return (16 * workers + 8 * (workers + 1)) * width * width


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
        return torch_versions().add_gram(G, A)
    return G + astype(A.T @ A, "float64")


def _blas_add_gram(G: np.ndarray, A: np.ndarray) -> np.ndarray:
    if A.dtype == np.float32:
        return _add_short_sums(G, A)
    A = np.ascontiguousarray(A)
    # Some rows at a time: Python notices Ctrl-C between two calls.
    for s in row_blocks(A.shape[0], A.shape[1] ** 2, _CALL_WORK):
        add_gram_in_place(G, A[s])
    return G


def _add_short_sums(G: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Add a float32 AᵀA, on the tiles of one triangle."""
    edges = column_tiles(A.shape[1])
    pairs = [(j, i) for i in edges for j in edges if j.start <= i.start]
    add_tiles(G.T, A, A, pairs)  # row-major; its upper triangle is G's lower one
    return G


def column_tiles(m: int) -> list[slice]:
    """Cut m columns into tiles of nearly equal width."""
    return _even_slices(m, -(-m // _TILE)) if m else []


def add_tiles(
    G: np.ndarray, A: np.ndarray, B: np.ndarray, pairs: list[tuple[slice, slice]]
) -> np.ndarray:
    """Add the given tiles of a float32 AᵀB to ``G``, by sums of a few rows."""
    n = A.shape[0]
    if n == 0 or not pairs:
        return G
    n_parts = min(-(-_LEAST_TASKS // len(pairs)), -(-n // (_SHORT * _GROUP)))
    parts = _even_slices(n, n_parts)
    tasks = [(rows, j, i) for rows in parts for j, i in pairs]
    scratch = Scratch()

    def product(task: tuple[slice, slice, slice]):
        rows, j, i = task
        return j, i, _short_sums(A[rows, j], B[rows, i], scratch)

    # Sums come back in order: their rounding does not depend on the threads.
    for j, i, part in map_blocks(product, tasks, workers=n_workers(A)):
        G[j, i] += part
    return G


def _short_sums(P: np.ndarray, Q: np.ndarray, scratch: Scratch) -> np.ndarray:
    """Return PᵀQ in float64, from float32 sums of a few rows."""
    shape = (P.shape[1], Q.shape[1])
    total = np.zeros(shape)
    part, group = scratch.empty((2, *shape), P.dtype)
    for start in range(0, P.shape[0], _SHORT * _GROUP):
        stop = min(start + _SHORT * _GROUP, P.shape[0])
        for s in range(start, stop, _SHORT):
            e = min(s + _SHORT, stop)
            np.matmul(P[s:e].T, Q[s:e], out=group if s == start else part)
            if s > start:
                group += part
        total += group
    return total


def _even_slices(n: int, n_slices: int) -> list[slice]:
    """Cut ``range(n)`` into slices of nearly equal length.

    >>> _even_slices(10, 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    edges = [n * k // n_slices for k in range(n_slices + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


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


def restore_lower(H: Array, on_diagonal: Array) -> None:
    """Undo ``cholesky(H, overwrite=True)``, of a NumPy array or a tensor."""
    mirror_upper(H)
    if is_torch(H):
        H.diagonal().copy_(on_diagonal)
    else:
        np.einsum("ii->i", H)[...] = on_diagonal


def mirror_upper(H: Array) -> None:
    """Write the strict upper triangle of a square matrix into the lower one."""
    xp = array_namespace(H)
    # Strips that stay in cache; a call of torch costs as much as millions of entries.
    step = 1024 if is_torch(H) else 64
    for start in range(0, H.shape[0], step):
        s = slice(start, min(start + step, H.shape[0]))
        H[s.stop :, s] = H[s, s.stop :].T
        if is_numpy(H):
            np.copyto(H[s, s], H[s, s].T, where=_below_diagonal(s.stop - start))
        else:
            square = xp.triu(H[s, s])
            H[s, s] = square + xp.triu(square, k=1).T


@functools.cache
def _below_diagonal(n: int) -> np.ndarray:
    return np.tri(n, k=-1, dtype=bool)


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
