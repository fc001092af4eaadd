"""LAPACK in place, without Python's global lock.

SciPy's own wrappers hold the lock: as long as they run, no other thread does, and
Ctrl-C waits. NumPy's release it, but need a matrix more. ``ctypes`` releases it. The
functions are those that SciPy exports for Cython, so no other library is loaded.
"""

import ctypes
import functools

import numpy as np
import scipy.linalg.cython_lapack

_PREFIXES = {"float32": "s", "float64": "d"}
_N_ARGUMENTS = {"potrf": 5, "syevd": 11}


@functools.cache
def _routine(name: str, dtype: str):
    """Return a routine of LAPACK; all of its arguments are pointers."""
    capsule = scipy.linalg.cython_lapack.__pyx_capi__[_PREFIXES[dtype] + name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _N_ARGUMENTS[name])
    return kind(pointer_of(capsule, name_of(capsule)))


def _call(name: str, A: np.ndarray, *arguments: "bytes | int | np.ndarray") -> int:
    """Call a routine; return its ``info``, the last argument."""
    info = ctypes.c_int(0)
    pointers = [
        ctypes.c_void_p(part.ctypes.data)
        if isinstance(part, np.ndarray)
        else part
        if isinstance(part, bytes)
        else ctypes.byref(ctypes.c_int(part))
        for part in arguments
    ]
    _routine(name, A.dtype.name)(*pointers, ctypes.byref(info))
    return info.value


def _check_in_place(A: np.ndarray) -> None:
    if not (A.flags.f_contiguous and A.flags.writeable and A.dtype.isnative):
        raise ValueError("A must be a column-major array that can be written.")


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
    n = A.shape[0]
    return _call("potrf", A, b"L" if lower else b"U", n, A, max(n, 1)) == 0


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
    head = (b"V", b"L" if lower else b"U", n, A, max(n, 1), values)
    sizes = np.zeros(1, A.dtype), np.zeros(1, np.intc)
    _call("syevd", A, *head, sizes[0], -1, sizes[1], -1)  # asks for the work space
    # Of float32 a large number may have been rounded down.
    n_work = max(int(sizes[0][0]), 1 + 6 * n + 2 * n * n)
    if n_work > np.iinfo(np.intc).max:
        raise np.linalg.LinAlgError(f"{n} rows are too many for LAPACK's numbers.")
    work, whole = np.empty(n_work, A.dtype), np.empty(int(sizes[1][0]), np.intc)
    if _call("syevd", A, *head, work, n_work, whole, whole.size):
        raise np.linalg.LinAlgError("The eigenvalues did not converge.")
    return values
