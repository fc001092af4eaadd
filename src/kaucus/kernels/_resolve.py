"""From what an estimator was given, name, object or function, to a kernel."""

import math
from collections.abc import Sequence

from kaucus.backend import Array, array_namespace, astype, is_sparse, row_blocks
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
    xp = array_namespace(X, sample_weight)
    if is_sparse(X):
        sums = X.sum(axis=1, dtype="float64")
        squares = X.multiply(X).sum(axis=1, dtype="float64")
        sums, squares = (xp.reshape(xp.asarray(v), (-1,)) for v in (sums, squares))
    else:
        shift = astype(X[:1, :1], "float64")
        sums, squares = [], []
        for s in row_blocks(X.shape[0], 8 * X.shape[1], 2**20):
            block = astype(X[s, :], "float64") - shift
            sums.append(xp.sum(block, axis=1))
            squares.append(xp.sum(block**2, axis=1))
        sums, squares = xp.concat(sums), xp.concat(squares)
    weight = xp.ones_like(sums) if sample_weight is None else sample_weight
    n_entries = float(xp.sum(weight)) * X.shape[1]
    mean = float(xp.sum(weight * sums)) / n_entries
    return float(xp.sum(weight * squares)) / n_entries - mean * mean
