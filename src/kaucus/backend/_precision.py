"""Precision by name: what rows are cast to, and how products of rows are rounded.

``"tf32"`` is float32 whose matrix products, on CUDA, round their factors to ten bits:
several times as fast. It is asked for by :func:`products_in` and holds for
:func:`product` alone, in this thread alone, until the end of the ``with``; torch's own
setting is changed for the length of one call, and restored. Elsewhere it is float32.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import numpy as np

from kaucus.backend._namespace import Array, epsilon, is_torch

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
    """Write :func:`product` of two tensors into a third one, and return that."""
    from kaucus.backend import _torch

    with _switched_for(X):
        return _torch.product_into(out, X, Y)


def add_product(out: Array, X: Array, Y: Array) -> Array:
    """Return ``out`` + X Yᵀ, in the memory of ``out``; in tf32 as :func:`product`."""
    if is_torch(out):
        from kaucus.backend import _torch

        with _switched_for(X):
            return _torch.add_product(out, X, Y)
    out += X @ Y.T
    return out


def _switched_for(X: Array) -> contextlib.AbstractContextManager[None]:
    """Return what holds torch's switch as products of ``X`` should be."""
    if not _is_rough(X):
        return contextlib.nullcontext()
    from kaucus.backend import _tf32

    return _tf32.tf32_products()


def product_epsilon(x: Array) -> float:
    """Return the relative rounding of the factors of :func:`product`."""
    # Ten bits are kept, and the others may be cut off rather than rounded.
    return 2.0**-10 if _is_rough(x) else epsilon(x)


def _is_rough(x: Array) -> bool:
    if not _rough.get() or not is_torch(x):
        return False
    from kaucus.backend import _tf32

    return _tf32.has_tf32(x)
