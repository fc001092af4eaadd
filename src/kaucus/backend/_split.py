"""A float32 matrix times float64 columns, without widening the matrix.

V = H + L with H the float32 nearest to V and L the float32 nearest to the rest keeps 48
of V's 53 bits, so T V = T [H, L] is a float32 product of twice as many columns: a few
beside the matrix, whose copy in float64 would take twice its own room. Sums over a
few columns of T are in float32, the rest in float64: what that rounds is below what the
entries of a float32 kernel have been rounded already (4.6e-7 in place of 4.4e-7 of the
largest value, for 6,000 columns of a polynomial kernel of degree four).
"""

import numpy as np

from kaucus.backend._namespace import Array, astype, dtype_name, is_numpy

# Columns of one float32 sum.
_SHORT = 256


def split_columns(V: np.ndarray) -> np.ndarray:
    """Return [H, L] in float32, (m, 2t), with H + L near the float64 ``V``, (m, t)."""
    high = V.astype(np.float32)
    low = (V - high).astype(np.float32)
    return np.concatenate([high, low], axis=1)


def times_split(T: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Return T V in float64, (n, t).

    Parameters
    ----------
    T : float32 array of shape (n, m)
    parts : array of shape (m, 2t)
        V as :func:`split_columns` returns it.
    """
    t = parts.shape[1] // 2
    total = np.zeros((T.shape[0], 2 * t))
    for start in range(0, T.shape[1], _SHORT):
        columns = slice(start, start + _SHORT)
        total += T[:, columns] @ parts[columns]
    return total[:, :t] + total[:, t:]


def wide_product(T: Array, V: Array) -> Array:
    """Return T V in float64 for a float64 ``V``, in any library."""
    if is_numpy(T) and dtype_name(T) == "float32":
        return times_split(T, split_columns(V))
    return astype(T, "float64") @ V
