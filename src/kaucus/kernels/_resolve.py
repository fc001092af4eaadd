"""From what users write, names, objects or functions, to a kernel and its gamma.

A kernel is known by its name once :func:`known_by_name` decorates it. A subclass of
``Kernel`` that does not ask for that, a user's own for instance, changes nothing here.
"""

import difflib
import math
from collections.abc import Sequence
from dataclasses import fields

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
    take_rows,
    to_numpy,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._given import CallableKernel

_KERNELS: dict[str, type[Kernel]] = {}


def known_by_name(kernel: type[Kernel]) -> type[Kernel]:
    """Class decorator: estimators take this kernel by its ``name``.

    For dataclasses whose fields are numbers, out of gamma, degree and coef0.

    Parameters
    ----------
    kernel : type of Kernel

    Raises
    ------
    ValueError
        If another kernel has the name.

    Examples
    --------
    A name must be new:

    >>> from kaucus.kernels import Linear
    >>> @known_by_name
    ... class Squared(Linear):
    ...     name = "rbf"
    Traceback (most recent call last):
    ...
    ValueError: The kernel name 'rbf' belongs to Gaussian; give Squared another.
    """
    owner = _KERNELS.setdefault(kernel.name, kernel)
    if owner is not kernel:
        raise ValueError(
            f"The kernel name {kernel.name!r} belongs to {owner.__name__}; give "
            f"{kernel.__name__} another."
        )
    return kernel


def kernel_names() -> list[str]:
    """Return the names by which estimators know the kernels.

    Examples
    --------
    >>> "rbf" in kernel_names()
    True
    """
    return sorted(_KERNELS)


def kernels_with_gamma() -> list[str]:
    """Return the names of the kernels that have a width ``gamma``."""
    return [name for name in kernel_names() if "gamma" in parameters(_KERNELS[name])]


def parameters(cls: type[Kernel]) -> set[str]:
    """Return the names of a kernel's parameters."""
    return {field.name for field in fields(cls)}  # type: ignore[arg-type]


def kernel_class(name: str, *, also: Sequence[str] = ()) -> type[Kernel]:
    """Return the class of the kernel of that name.

    Parameters
    ----------
    name : str
    also : sequence of str, default=()
        Words that the caller takes in place of a kernel, for the message.

    Raises
    ------
    ValueError
        With the names that there are, and the one that was probably meant.
    """
    if name in _KERNELS:
        return _KERNELS[name]
    known = [*kernel_names(), *also]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"kernel={name!r} is not known; expected one of {known}, a kernel object or a "
        f"function.{hint}"
    )


# ---- kernels and gammas --------------------------------------------------------------


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

    Examples
    --------
    >>> resolve_kernel("rbf", gamma=0.5)
    Gaussian(gamma=0.5)
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


# ---- the median heuristic ------------------------------------------------------------


# Half a million pairs: the median is known to a few tenths of a percent.
_ROWS = 1000


def median_gamma(
    X: Array, sample_weight: Array | None = None, kernel: object = None
) -> float:
    """Return gamma by the median heuristic: from the median distance of rows.

    With m the median of the distances between different rows,

        exponential, Laplacian   1 / m        k = e⁻¹ there; Manhattan for Laplacian
        all others               1 / (2 m²)   the Gaussian whose σ is m

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Rows of weight 0 are passed over; other weights do not matter.
    kernel : object, default=None
        What :func:`resolve_kernel` takes; its name decides between the two formulas.

    Returns
    -------
    float
        1 where all rows are equal.

    Notes
    -----
    All pairs of at most 1,000 rows at even steps through X: no random numbers, the same
    answer every time. Rows that come in a period of n / 1000 would be sampled badly;
    shuffle those.

    Examples
    --------
    >>> import numpy as np
    >>> median_gamma(np.array([[0.0], [1.0], [2.0]]))
    0.5
    """
    rows = np.arange(X.shape[0])
    if sample_weight is not None:
        rows = rows[to_numpy(sample_weight) > 0]
    if len(rows) > _ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.int64)]
    some = take_rows(X, rows)
    cls: type[Kernel] = Kernel
    if isinstance(kernel, str) and kernel in kernel_names():
        cls = kernel_class(kernel)
    distances = to_numpy(cls.distances(some)).astype(np.float64)
    distances = distances[np.triu_indices(len(rows), k=1)]  # each pair once
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    median = float(np.median(distances))
    if not math.isfinite(median):
        raise ValueError(
            "gamma='median' needs the distances between rows, and they overflow; "
            "scale X, for example with StandardScaler."
        )
    unit = median if cls.of_length else 2 * median**2
    if unit < 1e-300:
        raise ValueError(
            f"gamma='median' needs the distances between rows, and their median, "
            f"{median:.3g}, is too small; scale X, for example with StandardScaler."
        )
    return 1 / unit
