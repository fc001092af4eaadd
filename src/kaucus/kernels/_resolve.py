"""From what an estimator was given, name, object or function, to a kernel."""

import math
from collections.abc import Sequence

import numpy as np

from kaucus.backend import (
    Array,
    Block,
    RowSource,
    array_namespace,
    astype,
    dense_rows,
    is_sparse,
    row_blocks,
    to_numpy,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._callable import CallableKernel
from kaucus.kernels._median import median_gamma
from kaucus.kernels._names import kernel_class, kernel_names, parameters


def resolve_kernel(
    kernel: object, *, also: Sequence[str] = (), **params: float
) -> Kernel:
    """Return the kernel object that ``kernel`` stands for.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name out of :func:`kernel_names`, an object, which is returned as it is, or
        a function ``k(X, Y)``.
    also : sequence of str, default=()
        Words that the caller takes in place of a kernel, for the message.
    **params : float
        ``gamma``, ``degree``, ``coef0``, of which a named kernel takes what it has.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        cls = kernel_class(kernel, also=also)
        known = parameters(cls)
        return cls(**{name: params[name] for name in params if name in known})
    if callable(kernel):
        return CallableKernel(kernel)
    raise ValueError(
        f"kernel={kernel!r} is not a kernel; pass one of {[*kernel_names(), *also]}, "
        "a kernel object or a function k(X, Y)."
    )


def resolve_gamma(
    gamma: float | str,
    X: Array,
    sample_weight: Array | None = None,
    kernel: object = None,
) -> float:
    """Return gamma as a number, as scikit-learn's ``SVC`` does.

    ``"scale"`` is 1 / (d Var(X)), ``"auto"`` is 1 / d; the variance is that of all
    entries (each row counted with its weight), and 1 stands in for 1 / (d Var(X)) where
    all entries are equal. ``"median"`` is :func:`median_gamma`: the width from the
    median distance between rows.

    Parameters
    ----------
    gamma : {"scale", "auto", "median"} or float
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
    kernel : object, default=None
        Whose gamma it is; matters for ``"median"`` alone.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    n_features = X.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    if gamma == "scale":
        variance = _variance(X, sample_weight)
        if not math.isfinite(variance):
            raise ValueError(
                "gamma='scale' is 1 / (n_features X.var()), and the variance of X "
                "overflows; scale X, for example with StandardScaler."
            )
        return _inverse(n_features * variance, X) if variance > 0 else 1.0
    if gamma == "median":
        return median_gamma(X, sample_weight, kernel)
    raise ValueError(
        f"gamma={gamma!r} is not known; expected 'scale', 'auto', 'median' or a "
        "positive number."
    )


def _inverse(value: float, X: Array) -> float:
    """Return 1 / value, or say that the rows differ by too little."""
    if value < 1e-300:
        raise ValueError(
            f"gamma='scale' is 1 / (n_features X.var()), and the variance of X is "
            f"{value / X.shape[1]:.3g}, too small for its inverse; scale X, for "
            "example with StandardScaler."
        )
    return 1.0 / value


def _variance(X: Array, sample_weight: Array | None) -> float:
    """Return the variance of all entries, in float64.

    From row sums of x and of (x − m)², with the first entry for m: taking off a number
    of the data's size keeps the digits, and no second copy of X is made.
    """
    if isinstance(X, RowSource):
        shift = float(dense_rows(X, np.arange(1))[0, 0])
        held = X if sample_weight is None else X.holding(to_numpy(sample_weight))
        return held.reduce(_PartSums, shift, label="measure-rows").variance()
    sums, squares = _row_sums(X, None)
    xp = array_namespace(sums, sample_weight)
    weight = xp.ones_like(sums) if sample_weight is None else sample_weight
    n_entries = float(xp.sum(weight)) * X.shape[1]
    mean = float(xp.sum(weight * sums)) / n_entries
    return float(xp.sum(weight * squares)) / n_entries - mean * mean


class _PartSums:
    """Σ w, Σ w (x − m) and Σ w (x − m)² of the entries of a part of the rows."""

    def __init__(self, block: Block, shift: float):
        rows = block.rows
        sums, squares = (to_numpy(v) for v in _row_sums(rows, shift))
        weight = block.vectors[0] if block.vectors else None
        weight = np.ones(len(sums)) if weight is None else weight
        totals = (weight.sum() * rows.shape[1], weight @ sums, weight @ squares)
        self.totals = np.asarray(totals, dtype=np.float64)

    def merge(self, other: "_PartSums") -> None:
        """Add those of other rows."""
        self.totals = self.totals + other.totals

    def variance(self) -> float:
        """Return the variance of all entries."""
        n_entries, total, squares = (float(v) for v in self.totals)
        return squares / n_entries - (total / n_entries) ** 2


def _row_sums(X: Array, shift: float | None) -> tuple[Array, Array]:
    """Return Σ (x − m) and Σ (x − m)² of each row; m is 0 in a CSR matrix."""
    xp = array_namespace(X)
    if is_sparse(X):
        sums = X.sum(axis=1, dtype="float64")
        squares = X.multiply(X).sum(axis=1, dtype="float64")
        return tuple(xp.reshape(xp.asarray(v), (-1,)) for v in (sums, squares))
    middle = astype(X[:1, :1], "float64") if shift is None else shift
    nothing = astype(X[:0, 0], "float64")
    sums, squares = [nothing], [nothing]
    for s in row_blocks(X.shape[0], 8 * X.shape[1], 2**20):
        block = astype(X[s, :], "float64") - middle
        sums.append(xp.sum(block, axis=1))
        squares.append(xp.sum(block**2, axis=1))
    return xp.concat(sums), xp.concat(squares)
