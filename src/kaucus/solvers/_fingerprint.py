"""By what a checkpoint knows its fit again, in this process or another."""

import dataclasses
import hashlib
import numbers
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    astype,
    is_sparse,
    product_epsilon,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel

# Rows whose kernel is looked at.
_PROBED = 16


class Fingerprint(NamedTuple):
    """Hashes of data and parameters, and some values of the kernel."""

    marks: dict[str, str]
    probe: np.ndarray
    """k of some rows, float64: a function cannot be hashed, but asked."""
    rounding: float
    """What may lie between two computations of it, relative to its largest value."""

    def same_kernel(self, probe: np.ndarray) -> bool:
        """Tell whether another probe is of the same kernel, up to rounding."""
        size = float(np.max(np.abs(self.probe), initial=0.0))
        return bool(np.all(np.abs(probe - self.probe) <= self.rounding * size))


def fingerprint(kernel: Kernel, X: Array, **parameters: Any) -> Fingerprint:
    """Return the fingerprint of a fit of rows ``X`` with a kernel and parameters."""
    marks = {name: digest(value) for name, value in parameters.items()}
    marks |= {"X": digest(X), "kernel": digest(describe(kernel))}
    some = np.unique(np.linspace(0, X.shape[0] - 1, _PROBED).astype(np.int64))
    K = kernel(take_rows(X, some))
    probe = to_numpy(astype(K, "float64"))
    return Fingerprint(marks, probe, product_epsilon(X) ** 0.5)


def describe(value: Any) -> str:
    """Return a text that is the same for the same kernel in every process.

    Functions and objects of other kinds have an address in their ``repr``; they are
    described by name alone.

    >>> describe(("rbf", 0.5, len))
    "('rbf', 0.5, len)"
    """
    if isinstance(value, numbers.Real | str | None):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    if hasattr(value, "shape"):
        return digest(value)
    if isinstance(value, Kernel):
        known = dataclasses.is_dataclass(value)
        names = [f.name for f in dataclasses.fields(value)] if known else vars(value)
        parts = [f"{name}={describe(getattr(value, name))}" for name in sorted(names)]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return getattr(value, "__qualname__", type(value).__qualname__)


def digest(value: Any) -> str:
    """Return a short hash of an array, a CSR matrix or anything with a ``repr``."""
    hasher = hashlib.sha256()
    if is_sparse(value):
        hasher.update(f"{value.shape} {value.dtype}".encode())
        for part in (value.data, value.indices, value.indptr):
            hasher.update(np.ascontiguousarray(part).tobytes())
    elif hasattr(value, "shape"):
        hasher.update(f"{value.shape} {value.dtype}".encode())
        host = value.values if isinstance(value, HostRows) else to_numpy(value)
        hasher.update(np.ascontiguousarray(host).data)  # no copy of a memory map
    else:
        hasher.update(repr(value).encode())
    return hasher.hexdigest()[:16]
