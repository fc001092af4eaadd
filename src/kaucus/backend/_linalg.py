"""Dense linear algebra that the array API standard lacks, or has too slowly.

Every function has a torch version (``_torch``), a SciPy version for NumPy arrays
and a portable one from the standard alone; the portable ones are slow but short,
and the tests hold the others to them.

SciPy rather than ``numpy.linalg`` for NumPy arrays: the same LAPACK routine, but
it can work in place (one n × n matrix in place of two) and it does not touch the
other triangle.

Factorisations, which take long, are called without Python's global lock (``_lapack``).
"""

import functools
from typing import NamedTuple

import numpy as np
import scipy.linalg

from kaucus.backend._blocks import for_each_block, interruptible, n_workers, row_blocks
from kaucus.backend._gram import restore_lower
from kaucus.backend._lapack import decompose_in_place, factor_in_place
from kaucus.backend._namespace import (
    Array,
    array_namespace,
    device_of,
    epsilon,
    is_numpy,
    is_torch,
    on_gpu,
    torch_versions,
)

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
    """What had to be added to the diagonal; zero in all but degenerate cases."""


def cholesky(H: Array, *, overwrite: bool = False) -> Array | None:
    """Return a lower factor of a symmetric ``H``, or ``None`` if there is none.

    Only the lower triangle of ``H`` is read. Only the lower triangle of the result
    is defined; with ``overwrite=True`` it may share the memory of ``H``. The strict
    upper triangle of ``H`` then survives, which is how :mod:`kaucus.solvers` keeps the
    matrix and its factor in the room of one.
    """
    if is_torch(H):
        return torch_versions().cholesky(H, overwrite=overwrite)
    if not is_numpy(H):
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
    xp = array_namespace(H)
    try:
        L = xp.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return None
    return L if bool(xp.all(xp.isfinite(L))) else None


def cho_solve(L: Array, B: Array) -> Array:
    """Solve ``L @ L.T @ X = B`` for a lower factor ``L``, (n, n), and ``B``, (n, t)."""
    if is_torch(L):
        return torch_versions().cho_solve(L, B)
    if is_numpy(L):
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
    if is_torch(L):
        return torch_versions().solve_triangular(L, B, transpose=transpose)
    if is_numpy(L):
        row_major = bool(L.flags.c_contiguous)
        options = {"trans": int(row_major != transpose), "lower": not row_major}
        A = L.T if row_major else L

        def solve(b: np.ndarray) -> np.ndarray:
            return scipy.linalg.solve_triangular(A, b, check_finite=False, **options)

        return solve(B) if B.ndim == 1 else _by_columns(solve, L, B)
    xp = array_namespace(L, B)
    L = xp.tril(L)
    return xp.linalg.solve(L.T if transpose else L, B)


def inverse_diagonal(L: Array) -> Array:
    """Return the diagonal of ``(L @ L.T)⁻¹`` for a lower factor ``L``, (n,).

    Entry i is the squared norm of column i of L⁻¹: n³/3 multiplications.
    """
    xp = array_namespace(L)
    if is_numpy(L):
        row_major = L.strides[0] > L.strides[1]  # see _lapack_cholesky
        (trtri,) = scipy.linalg.get_lapack_funcs(("trtri",), (L,))
        inverse, info = trtri(L.T if row_major else L, lower=not row_major)
        if info:
            raise NotPositiveDefiniteError(f"L[{info - 1}, {info - 1}] is zero.")
        return _squared_norms_of_columns(inverse.T if row_major else inverse)
    identity = xp.eye(L.shape[0], dtype=L.dtype, device=device_of(L))
    return xp.sum(solve_triangular(L, identity) ** 2, axis=0)


def _squared_norms_of_columns(L: np.ndarray) -> np.ndarray:
    """Return those of a lower triangular matrix, whatever is above its diagonal."""
    n = L.shape[0]
    norms = np.empty(n, dtype=L.dtype)
    for start in range(0, n, _SQUARE):
        s = slice(start, min(start + _SQUARE, n))
        square, below = np.tril(L[s, s]), L[s.stop :, s]
        norms[s] = np.sum(square**2, axis=0) + np.einsum("ij,ij->j", below, below)
    return norms


def eigh(H: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, ascending, and eigenvectors of a symmetric ``H``."""
    decompose = _lapack_eigh if is_numpy(H) else array_namespace(H).linalg.eigh
    decompose = functools.partial(decompose, H)
    if on_gpu(H):  # its work belongs to the stream of this thread
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
    if is_torch(H):
        return torch_versions().add_to_diagonal(H, value)
    if is_numpy(H):
        np.einsum("ii->i", H)[...] += value
        return H
    xp = array_namespace(H)
    identity = xp.eye(H.shape[0], dtype=H.dtype, device=device_of(H))
    return H + identity * value


def diagonal(H: Array) -> Array:
    """Return a copy of the diagonal."""
    xp = array_namespace(H)
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
    scale = max(float(array_namespace(H_diagonal).mean(H_diagonal)), 1e-300)
    first = min(max(epsilon(H_diagonal) * max(n, 8), rounding), largest / 10)
    n_steps = int(np.floor(np.log10(largest / first) + 1e-9)) + 1
    return [0.0] + [scale * first * 10.0**k for k in range(n_steps)]


def cholesky_with_jitter(
    H: Array,
    *,
    largest: float = 1e-4,
    rounding: float = 0.0,
    overwrite: bool = False,
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
    xp = array_namespace(H)
    on_diagonal = diagonal(H)
    steps = jitter_steps(on_diagonal, largest=largest, rounding=rounding)
    for jitter in steps:
        A = add_to_diagonal(H if overwrite else xp.asarray(H, copy=True), jitter)
        if (L := cholesky(A, overwrite=True)) is not None:
            return CholeskyFactor(L, jitter)
        if overwrite:
            _undo(H, on_diagonal)
    raise NotPositiveDefiniteError(
        f"The matrix of shape {tuple(H.shape)} is not positive definite: even "
        f"{steps[-1]:.1e} on its diagonal does not make it so."
    )


def _undo(H: Array, on_diagonal: Array) -> None:
    """Bring back a matrix whose diagonal was changed and whose factoring failed."""
    if is_numpy(H) or is_torch(H):
        restore_lower(H, on_diagonal)
