"""LAPACK's Cholesky factorisation, in place, without Python's global lock.

SciPy's own wrapper holds the lock: as long as it runs, no other thread does, and
Ctrl-C waits. ``ctypes`` releases it. The function is the one that SciPy exports for
Cython, so no other library is loaded.
"""

import ctypes
import functools

import numpy as np
import scipy.linalg.cython_lapack

_ROUTINES = {"float32": "spotrf", "float64": "dpotrf"}


@functools.cache
def _potrf(dtype: str):
    """Return the routine ``(uplo, n, A, lda, info)``; all arguments are pointers."""
    capsule = scipy.linalg.cython_lapack.__pyx_capi__[_ROUTINES[dtype]]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    number = ctypes.POINTER(ctypes.c_int)
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_char_p, number, ctypes.c_void_p, number, number
    )
    return kind(pointer_of(capsule, name_of(capsule)))


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
    if not (A.flags.f_contiguous and A.flags.writeable and A.dtype.isnative):
        raise ValueError("A must be a column-major array that can be written.")
    n, info = ctypes.c_int(A.shape[0]), ctypes.c_int(0)
    pointer = ctypes.c_void_p(A.ctypes.data)
    lda = ctypes.c_int(max(A.shape[0], 1))
    _potrf(A.dtype.name)(b"L" if lower else b"U", n, pointer, lda, info)
    return info.value == 0
