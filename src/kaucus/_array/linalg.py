"""Linear algebra on arrays: factors, solves, Gram sums, LAPACK without the GIL."""

import ctypes
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    Scratch,
    for_each_block,
    interruptible,
    map_blocks,
    n_workers,
    row_blocks,
)
from kaucus._array.namespace import Array
from kaucus._array.segments import random_normal

# ----------------------------------------------------------------------------------
# Routines of BLAS and LAPACK that work in place, without Python's global lock.
#
# SciPy's wrappers hold the global lock: as long as they run, no other thread does, and
# Ctrl-C waits. NumPy's release it, but need a matrix more. ``ctypes`` releases it; the
# functions are those that SciPy exports for Cython. Two threads that add Gram matrices
# of 450 columns take 0.9 times the time of one thread by SciPy's ``syrk``, and half of
# it without the lock.
# ----------------------------------------------------------------------------------

_PREFIXES = {"float32": "s", "float64": "d"}
_N_ARGUMENTS = {"syrk": 10, "potrf": 5, "syevd": 11}


def add_gram_in_place(G: np.ndarray, A: np.ndarray) -> None:
    """Add AᵀA to the lower triangle of a column-major matrix; the other one stays.

    NumPy's ``A.T @ A`` is the same routine, but it then copies one triangle to the
    other, number by number.

    Parameters
    ----------
    G : float32 or float64 array of shape (m, m)
        Column-major. Overwritten.
    A : array of shape (n, m)
        Row-major, with the dtype of ``G``.
    """
    _check_in_place(G)
    (n, m), one = A.shape, np.ones(1, G.dtype)
    if A.dtype != G.dtype or not A.flags.c_contiguous or G.shape != (m, m):
        raise ValueError(
            f"A is {A.dtype} of shape {A.shape} and G {G.dtype} of shape {G.shape}; "
            "pass a row-major A with the dtype of G and as many columns."
        )
    # A row-major A is a column-major Aᵀ of m rows: AᵀA is its product with itself.
    ld = max(m, 1)
    _call("syrk", G, b"L", b"N", m, n, one, A, ld, one, G, ld)


def factor_in_place(A: np.ndarray, *, lower: bool) -> bool:
    """Factor a column-major matrix in one of its triangles; the other one stays.

    Parameters
    ----------
    A : float32 or float64 array of shape (n, n)
        Column-major. Overwritten.
    lower : bool
        Which triangle is read, and holds the factor afterwards.

    Returns
    -------
    bool
        Whether the matrix is positive definite.
    """
    _check_in_place(A)
    n, info = A.shape[0], np.zeros(1, np.intc)
    _call("potrf", A, b"L" if lower else b"U", n, A, max(n, 1), info)
    return info[0] == 0


def decompose_in_place(A: np.ndarray, *, lower: bool) -> np.ndarray:
    """Return the eigenvalues, ascending; the eigenvectors take the place of the matrix.

    Parameters
    ----------
    A : float32 or float64 array of shape (n, n)
        Column-major, symmetric. Overwritten.
    lower : bool
        Which triangle is read.

    Raises
    ------
    LinAlgError
        If the eigenvalues do not converge, or there are more than 32,000.
    """
    _check_in_place(A)
    n, values = A.shape[0], np.empty(A.shape[0], A.dtype)
    info = np.zeros(1, np.intc)
    head = (b"V", b"L" if lower else b"U", n, A, max(n, 1), values)
    sizes = np.zeros(1, A.dtype), np.zeros(1, np.intc)
    # Lengths of −1 ask for the work space.
    _call("syevd", A, *head, sizes[0], -1, sizes[1], -1, info)
    # Of float32 a large number may have been rounded down.
    n_work = max(int(sizes[0][0]), 1 + 6 * n + 2 * n * n)
    if n_work > np.iinfo(np.intc).max:
        raise np.linalg.LinAlgError(f"{n} rows are too many for LAPACK's numbers.")
    work, whole = np.empty(n_work, A.dtype), np.empty(int(sizes[1][0]), np.intc)
    _call("syevd", A, *head, work, n_work, whole, whole.size, info)
    if info[0]:
        raise np.linalg.LinAlgError("The eigenvalues did not converge.")
    return values


def _check_in_place(A: np.ndarray) -> None:
    if not (A.flags.f_contiguous and A.flags.writeable and A.dtype.isnative):
        raise ValueError("A must be a column-major array that can be written.")


def _call(name: str, like: np.ndarray, *arguments: "bytes | int | np.ndarray") -> None:
    """Call a routine in the precision of ``like``, with pointers to its arguments."""
    pointers = [
        ctypes.c_void_p(part.ctypes.data)
        if isinstance(part, np.ndarray)
        else part
        if isinstance(part, bytes)
        else ctypes.byref(ctypes.c_int(part))
        for part in arguments
    ]
    _routine(name, like.dtype.name)(*pointers)


@functools.cache
def _routine(name: str, dtype: str):
    """Return a routine of BLAS or LAPACK; all of its arguments are pointers."""
    modules = scipy.linalg.cython_blas, scipy.linalg.cython_lapack
    functions = {**modules[0].__pyx_capi__, **modules[1].__pyx_capi__}
    capsule = functions[_PREFIXES[dtype] + name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _N_ARGUMENTS[name])
    return kind(pointer_of(capsule, name_of(capsule)))


# ----------------------------------------------------------------------------------
# AᵀA and AᵀB summed over blocks of rows; AᵀA by half the multiplications.
#
# A float32 product over many rows loses digits in its own sum: of the Gram matrix of
# 60,000 rows and 10,000 kernel columns, with a smallest eigenvalue of 2e-4, sums of
# 8,192 rows made it -1e-2, sums of 256 rows left it at 1.4e-4. So float32 sums are
# short here, and the rest is float64.
#
# A sum of r numbers in turn errs by about √r roundings of its size, the total of g such
# sums by √(r/g), to which adding them up in float32 puts √g: little, as long as g² is
# small beside r. So four sums are added in float32 before float64 is touched. On 60,000
# digits and 1,500 kernel columns the error was 5.20e-8 of the matrix for sums of 256
# rows added in float64, 5.26e-8 for four of 512 (which BLAS cuts in two by itself),
# 1.01e-7 for sums of 8,192.
# ----------------------------------------------------------------------------------

# Rows of one float32 sum, and how many such sums are added in float32.
_SHORT, _GROUP = 512, 4
# Multiplications of one call of syrk, twice those that it needs: half a second on a
# slow core.
_GRAM_CALL_WORK = 8 * 10**9
# Columns of a tile at most, and at least so many tiles as keep all threads busy to the
# end. ``benchmarks/gram.py`` tells what they are worth.
_TILE, _LEAST_TASKS = 760, 48


def zero_gram(m: int, like: Array) -> Array:
    """Return a float64 zero matrix, (m, m), for :func:`add_gram`."""
    if nx.is_numpy(like):
        return np.zeros((m, m), order="F")  # as BLAS has it: no copy
    xp = nx.array_namespace(like)
    return xp.zeros((m, m), dtype=xp.float64, device=nx.device_of(like))


def gram_bytes(m: int, like: Array) -> int:
    """Return the bytes of :func:`add_gram` without its m × m sum.

    For float32 rows of NumPy: the tiles that threads work on, and those to be added.
    """
    if not nx.is_numpy(like) or like.dtype != np.float32:
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
    if nx.is_numpy(G):
        return _blas_add_gram(G, A)
    if nx.is_torch(G):
        return nx.torch_versions().add_gram(G, A)
    return G + nx.astype(A.T @ A, "float64")


def _blas_add_gram(G: np.ndarray, A: np.ndarray) -> np.ndarray:
    if A.dtype == np.float32:
        return _add_short_sums(G, A)
    A = np.ascontiguousarray(A)
    # Some rows at a time: Python notices Ctrl-C between two calls.
    for s in row_blocks(A.shape[0], A.shape[1] ** 2, _GRAM_CALL_WORK):
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
    if nx.is_numpy(G):
        restore_lower(G.T, np.diagonal(G).copy())  # G's lower is Gᵀ's upper triangle
        return G
    if nx.is_torch(G):
        restore_lower(G.mT, G.diagonal().clone())
        return G
    xp = nx.array_namespace(G)
    lower = xp.tril(G)
    return lower + xp.tril(lower, k=-1).T


def restore_lower(H: Array, on_diagonal: Array) -> None:
    """Undo ``cholesky(H, overwrite=True)``, of a NumPy array or a tensor."""
    mirror_upper(H)
    if nx.is_torch(H):
        H.diagonal().copy_(on_diagonal)
    else:
        np.einsum("ii->i", H)[...] = on_diagonal


def mirror_upper(H: Array) -> None:
    """Write the strict upper triangle of a square matrix into the lower one."""
    xp = nx.array_namespace(H)
    # Strips that stay in cache; a call of torch costs as much as millions of entries.
    step = 1024 if nx.is_torch(H) else 64
    for start in range(0, H.shape[0], step):
        s = slice(start, min(start + step, H.shape[0]))
        H[s.stop :, s] = H[s, s.stop :].T
        if nx.is_numpy(H):
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
    if not nx.is_numpy(G):
        return G + nx.astype(A, "float64").T @ nx.astype(B, "float64")
    if A.dtype != np.float32:
        G += A.T @ B
        return G

    m, k = G.shape
    pairs = [(i, j) for i in column_tiles(m) for j in column_tiles(k)]
    return add_tiles(G, A, B, pairs)


# ----------------------------------------------------------------------------------
# Dense linear algebra that the array API standard lacks, or has too slowly.
#
# Every function has a torch version (``on_torch``), a SciPy version for NumPy arrays
# and a portable one from the standard alone; the portable ones are slow but short,
# and the tests hold the others to them.
#
# SciPy rather than ``numpy.linalg`` for NumPy arrays: the same LAPACK routine, but
# it can work in place (one n × n matrix in place of two) and it does not touch the
# other triangle.
#
# Factorisations, which take long, are called without Python's global lock
# (below).
# ----------------------------------------------------------------------------------

# SciPy's LAPACK counts entries in 32 bits, and crashes above this many rows.
_LAPACK_ROWS = 46_340
# Columns factored at a time beyond it, and rows of a block below them.
_PANEL, _PANEL_ROWS = 1024, 2048
# Matrices of fewer rows are factored, or decomposed, in much less than a second: of
# these, Ctrl-C may wait.
_LONG_ROWS = 1000
# Multiplications of one call with a triangular matrix: half a second on a slow core.
_CALL_WORK = 4 * 10**9
# Squares on the diagonal of a triangular matrix that are read in full.
_SQUARE = 128


class NotPositiveDefiniteError(ValueError):
    """A matrix that must be positive definite is not, even with jitter."""

    C: float | None = None
    """C of the indefinite matrix K + I/C, if it is known."""


class CholeskyFactor(NamedTuple):
    """A factor ``L`` of ``H + jitter I``."""

    L: Array
    """Lower factor, (n, n). Only its lower triangle may be read."""
    jitter: float
    """Jitter added to the diagonal; zero in all but degenerate cases."""


def cholesky(H: Array, *, overwrite: bool = False) -> Array | None:
    """Return a lower factor of a symmetric ``H``, or ``None`` if there is none.

    Only the lower triangle of ``H`` is read. Only the lower triangle of the result
    is defined; with ``overwrite=True`` it may share the memory of ``H``. The strict
    upper triangle of ``H`` then survives, which is how :mod:`kaucus.solvers` keeps the
    matrix and its factor in the room of one.
    """
    if nx.is_torch(H):
        return nx.torch_versions().cholesky(H, overwrite=overwrite)
    if not nx.is_numpy(H):
        return _portable_cholesky(H)
    if H.shape[0] <= _LAPACK_ROWS:
        return _lapack_cholesky(H, overwrite=overwrite)
    return _blocked_cholesky(H if overwrite and H.flags.c_contiguous else H.copy("C"))


def _lapack_cholesky(H: np.ndarray, *, overwrite: bool) -> np.ndarray | None:
    # LAPACK wants column-major storage: a row-major lower triangle is a
    # column-major upper one, so neither order needs a copy.
    row_major = H.flags.c_contiguous
    A = H.T if row_major else H
    A = np.asfortranarray(A) if overwrite else A.copy(order="F")
    factor = functools.partial(factor_in_place, A, lower=not row_major)
    if not (factor() if len(A) < _LONG_ROWS else interruptible(factor)):
        return None
    return A.T if row_major else A


def _blocked_cholesky(A: np.ndarray) -> np.ndarray | None:
    """Factor a row-major matrix in place, a panel of columns at a time.

    Left-looking: each panel takes in all columns to its left by one long product, in
    blocks of rows in threads, so nearly all work is matrix products.
    """
    n = A.shape[0]
    for start in range(0, n, _PANEL):
        panel = slice(start, min(start + _PANEL, n))
        left = A[panel, :start]  # (width, start), done before
        square = A[panel, panel] - left @ left.T
        L = _lapack_cholesky(square, overwrite=True)
        if L is None:
            return None
        L = np.tril(L)
        A[panel, panel] = np.triu(A[panel, panel], k=1) + L

        def take_in(rows: slice, panel=panel, left=left, L=L) -> None:
            below = A[rows, panel] - A[rows, : panel.start] @ left.T
            A[rows, panel] = solve_triangular(L, below.T).T

        starts = range(panel.stop, n, _PANEL_ROWS)
        blocks = [slice(row, min(row + _PANEL_ROWS, n)) for row in starts]
        for_each_block(take_in, blocks, workers=n_workers(A))
    return A


def _portable_cholesky(H: Array) -> Array | None:
    xp = nx.array_namespace(H)
    try:
        L = xp.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return None
    return L if bool(xp.all(xp.isfinite(L))) else None


def cho_solve(L: Array, B: Array) -> Array:
    """Solve ``L @ L.T @ X = B`` for a lower factor ``L``, (n, n), and ``B``, (n, t)."""
    if nx.is_torch(L):
        return nx.torch_versions().cho_solve(L, B)
    if nx.is_numpy(L):
        # See _lapack_cholesky: no copy of the factor.
        factor = (L.T, False) if L.flags.c_contiguous else (L, True)
        return _by_columns(
            lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False), L, B
        )
    return solve_triangular(L, solve_triangular(L, B), transpose=True)


def _by_columns(solve, L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return ``solve(B)``, some columns at a time, so that no call takes long."""
    columns = list(row_blocks(B.shape[1], L.shape[0] ** 2, _CALL_WORK))
    if len(columns) <= 1:
        return solve(B)
    return np.concatenate([solve(B[:, s]) for s in columns], axis=1)


def solve_triangular(L: Array, B: Array, *, transpose: bool = False) -> Array:
    """Solve ``L @ X = B``, or ``L.T @ X = B``, for a lower triangular ``L``."""
    if nx.is_torch(L):
        return nx.torch_versions().solve_triangular(L, B, transpose=transpose)
    if nx.is_numpy(L):
        row_major = bool(L.flags.c_contiguous)
        options = {"trans": int(row_major != transpose), "lower": not row_major}
        A = L.T if row_major else L

        def solve(b: np.ndarray) -> np.ndarray:
            return scipy.linalg.solve_triangular(A, b, check_finite=False, **options)

        return solve(B) if B.ndim == 1 else _by_columns(solve, L, B)
    xp = nx.array_namespace(L, B)
    L = xp.tril(L)
    return xp.linalg.solve(L.T if transpose else L, B)


def inverse_diagonal(L: Array) -> Array:
    """Return the diagonal of ``(L @ L.T)⁻¹`` for a lower factor ``L``, (n,).

    Entry i is the squared norm of column i of L⁻¹: n³/3 multiplications.
    """
    xp = nx.array_namespace(L)
    if nx.is_numpy(L):
        row_major = L.strides[0] > L.strides[1]  # see _lapack_cholesky
        (trtri,) = scipy.linalg.get_lapack_funcs(("trtri",), (L,))
        inverse, info = trtri(L.T if row_major else L, lower=not row_major)
        if info:
            raise NotPositiveDefiniteError(f"L[{info - 1}, {info - 1}] is zero.")
        return _squared_norms_of_columns(inverse.T if row_major else inverse)
    identity = xp.eye(L.shape[0], dtype=L.dtype, device=nx.device_of(L))
    return xp.sum(solve_triangular(L, identity) ** 2, axis=0)


def _squared_norms_of_columns(L: np.ndarray) -> np.ndarray:
    """Return squared norms of the columns of a lower triangle; the rest is ignored."""
    n = L.shape[0]
    norms = np.empty(n, dtype=L.dtype)
    for start in range(0, n, _SQUARE):
        s = slice(start, min(start + _SQUARE, n))
        square, below = np.tril(L[s, s]), L[s.stop :, s]
        norms[s] = np.sum(square**2, axis=0) + np.einsum("ij,ij->j", below, below)
    return norms


def eigh(H: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, ascending, and eigenvectors of a symmetric ``H``."""
    decompose = _lapack_eigh if nx.is_numpy(H) else nx.array_namespace(H).linalg.eigh
    decompose = functools.partial(decompose, H)
    if nx.on_gpu(H):  # its work belongs to the stream of this thread
        return decompose()
    try:
        return decompose() if H.shape[0] < _LONG_ROWS else interruptible(decompose)
    except np.linalg.LinAlgError:
        # The faster method gives up where entries differ by hundreds of orders of
        # magnitude; the older one does not.
        return scipy.linalg.eigh(H, driver="ev", check_finite=False)


def _lapack_eigh(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    row_major = H.flags.c_contiguous  # see _lapack_cholesky
    A = (H.T if row_major else H).copy(order="F")
    return decompose_in_place(A, lower=not row_major), A


def add_to_diagonal(H: Array, value: Array | float) -> Array:
    """Return ``H`` with a number, or one value per row, added to its diagonal.

    Works in place where the library can; use the returned array in any case.
    """
    if nx.is_torch(H):
        return nx.torch_versions().add_to_diagonal(H, value)
    if nx.is_numpy(H):
        np.einsum("ii->i", H)[...] += value
        return H
    xp = nx.array_namespace(H)
    identity = xp.eye(H.shape[0], dtype=H.dtype, device=nx.device_of(H))
    return H + identity * value


def diagonal(H: Array) -> Array:
    """Return a copy of the diagonal."""
    xp = nx.array_namespace(H)
    return xp.linalg.diagonal(H) * 1


def jitter_steps(
    H_diagonal: Array, *, largest: float = 1e-4, rounding: float = 0.0
) -> list[float]:
    """Return the jitters to try in turn: 0, then growing tenfold.

    The first is the rounding error of a factorisation, ``n eps mean(diag H)``, or
    ``rounding`` times the mean of the diagonal; the last is at most ``largest`` times
    that: a matrix that needs more is not positive semidefinite up to rounding, and the
    caller must hear of it.
    """
    n = H_diagonal.shape[0]
    scale = max(float(nx.array_namespace(H_diagonal).mean(H_diagonal)), 1e-300)
    first = min(max(nx.epsilon(H_diagonal) * max(n, 8), rounding), largest / 10)
    n_steps = int(np.floor(np.log10(largest / first) + 1e-9)) + 1
    return [0.0] + [scale * first * 10.0**k for k in range(n_steps)]


def cholesky_with_jitter(
    H: Array, *, largest: float = 1e-4, rounding: float = 0.0, overwrite: bool = False
) -> CholeskyFactor:
    """Factor ``H + jitter I`` with the smallest jitter of a growing list that works.

    The caller must report a jitter above zero. ``H`` is left as it is unless
    ``overwrite`` allows its memory to be used. ``rounding`` is that of the entries of
    ``H``, relative to its diagonal, where it is more than that of their precision: a
    jitter that barely outweighs it would leave a matrix that is nearly singular.

    Raises
    ------
    NotPositiveDefiniteError
        If even ``largest`` times the mean diagonal does not help.
    """
    xp = nx.array_namespace(H)
    on_diagonal = diagonal(H)
    steps = jitter_steps(on_diagonal, largest=largest, rounding=rounding)
    for jitter in steps:
        A = add_to_diagonal(H if overwrite else xp.asarray(H, copy=True), jitter)
        if (L := cholesky(A, overwrite=True)) is not None:
            return CholeskyFactor(L, jitter)
        if overwrite and (nx.is_numpy(H) or nx.is_torch(H)):
            restore_lower(H, on_diagonal)
    raise NotPositiveDefiniteError(
        f"The matrix of shape {tuple(H.shape)} is not positive definite: even "
        f"{steps[-1]:.1e} on its diagonal does not make it so."
    )


def operator_norm(matvec: Callable[[Array], Array], like: Array, rng) -> float:
    """Estimate ‖A‖ from below by three steps of the power method.

    The start is a constant vector plus noise: kernels are mostly positive, so their
    first eigenvector is nearly constant and three steps come within a few percent.
    """
    xp = nx.array_namespace(like)
    v = xp.ones_like(like[:, :1]) + 0.5 * random_normal(rng, (like.shape[0], 1), like)
    norm = 0.0
    for _ in range(3):
        v = v / xp.linalg.vector_norm(v)
        v = matvec(v)
        norm = max(norm, float(xp.linalg.vector_norm(v)))
        if norm == 0.0:
            break
    return norm
