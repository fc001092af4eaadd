"""Elementwise functions that may reuse the memory of their argument.

A kernel's tile is a temporary of its own; overwriting it keeps the working set of a
thread at one tile, which is what makes it stay in cache.
"""

import numpy as np

from kaucus.backend._namespace import Array, array_namespace, is_numpy, is_torch


def exp(x: Array) -> Array:
    """Return exp(x); ``x`` may be overwritten."""
    return _unary(x, "exp")


def sqrt(x: Array) -> Array:
    """Return the square root of x; ``x`` may be overwritten."""
    return _unary(x, "sqrt")


def not_negative(x: Array) -> Array:
    """Return max(x, 0); ``x`` may be overwritten."""
    if is_numpy(x):
        return np.maximum(x, 0, out=x)
    return x.clamp_(min=0) if is_torch(x) else array_namespace(x).clip(x, min=0)


def _unary(x: Array, name: str) -> Array:
    if is_numpy(x):
        return getattr(np, name)(x, out=x)
    if is_torch(x):
        return getattr(x, name + "_")()
    return getattr(array_namespace(x), name)(x)
