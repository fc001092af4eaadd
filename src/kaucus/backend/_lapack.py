"""Routines of BLAS and LAPACK that work in place, without Python's global lock.

SciPy's wrappers hold the global lock: as long as they run, no other thread does, and
Ctrl-C waits. NumPy's release it, but need a matrix more. ``ctypes`` releases it; the
functions are those that SciPy exports for Cython. Two threads that add Gram matrices of
450 columns take 0.9 times the time of one thread by SciPy's ``syrk``, and half of it
without the lock.
"""

import ctypes
import functools

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack

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
