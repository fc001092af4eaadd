"""Precision by name: what rows are cast to, and how products of rows are rounded.

``"tf32"`` is float32 whose matrix products, on CUDA, round their factors to ten bits:
several times as fast. It is asked for by :func:`products_in` and holds for
:func:`product` alone, in this thread alone, until the end of the ``with``; torch's own
setting is changed for the length of one call, and restored. Elsewhere it is float32.

A float32 matrix T is multiplied by float64 columns V without being widened. V = H + L
with H the float32 nearest to V and L the float32 nearest to the rest keeps 48 of V's 53
bits, so T V = T [H, L] is a float32 product of twice as many columns: a few beside the
matrix, whose copy in float64 would take twice its own room. Sums over a few columns of
T are in float32, the rest in float64: what that rounds is below what the entries of a
float32 kernel have been rounded already (4.6e-7 in place of 4.4e-7 of the largest
value, for 6,000 columns of a polynomial kernel of degree four).
"""

import contextlib
import contextvars
from collections.abc import Iterator

import numpy as np

from kaucus.backend._namespace import (
    Array,
    astype,
    dtype_name,
    epsilon,
    is_numpy,
    is_torch,
    torch_versions,
)

PRECISIONS = (None, "float64", "float32", "tf32")

_rough: contextvars.ContextVar[bool] = contextvars.ContextVar("_rough", default=False)


def working_types(precision: str | None) -> tuple[type, ...]:
    """Return the NumPy types that rows may have; others are cast to the first."""
    if precision is None:
        return (np.float64, np.float32)
    return (np.float64,) if precision == "float64" else (np.float32,)


@contextlib.contextmanager
def products_in(precision: str | None) -> Iterator[None]:
    """Let :func:`product` work in tf32 where that is the precision asked for."""
    token = _rough.set(precision == "tf32")
    try:
        yield
    finally:
        _rough.reset(token)


def product(X: Array, Y: Array) -> Array:
    """Return X Yᵀ; in tf32 on CUDA, where :func:`products_in` allows it."""
    with _switched_for(X):
        return X @ Y.T


def product_into(out: Array, X: Array, Y: Array) -> Array:
    """Write :func:`product` into a NumPy array or tensor, and return that."""
    if not is_torch(out):
        return np.matmul(X, Y.T, out=out)
    with _switched_for(X):
        return torch_versions().product_into(out, X, Y)


def add_product(out: Array, X: Array, Y: Array) -> Array:
    """Return ``out`` + X Yᵀ, in the memory of ``out``; in tf32 as :func:`product`."""
    if is_torch(out):
        with _switched_for(X):
            return torch_versions().add_product(out, X, Y)
    out += X @ Y.T
    return out


def _switched_for(X: Array) -> contextlib.AbstractContextManager[None]:
    """Return what holds torch's switch as products of ``X`` should be."""
    if not _is_rough(X):
        return contextlib.nullcontext()
    return torch_versions().tf32_products()


def product_epsilon(x: Array) -> float:
    """Return the relative rounding of the factors of :func:`product`."""
    # Ten bits are kept, and the others may be cut off rather than rounded.
    return 2.0**-10 if _is_rough(x) else epsilon(x)


def _is_rough(x: Array) -> bool:
    if not _rough.get() or not is_torch(x):
        return False
    return torch_versions().has_tf32(x)


# ---- a float32 matrix times float64 columns ------------------------------------------


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
