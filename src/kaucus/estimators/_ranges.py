"""Checks that numbers are of a size that can be computed with.

Squares of very large numbers overflow, squares of very small ones vanish, and what
comes of that is NaN or a wrong model. Here such numbers are refused, with the value,
what was expected, and what to do, before or, at the latest, after the work.
"""

import math

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    array_namespace,
    dtype_name,
    is_sparse,
    to_numpy,
)
from kaucus.kernels import CallableKernel, Kernel

# Sums of squares of numbers up to these stay far from overflow, in any dimension.
_LARGEST = {"float32": 1e15, "float64": 1e100}
# Solvers sum products of kernel values, in float64.
_LARGEST_KERNEL = 1e100
# Square roots of weights and their products with kernel values stay in float32.
_LARGEST_WEIGHT = 1e30


def check_magnitude(X: Array, *, fitted: bool) -> None:
    """Check that squares of the entries neither overflow nor, all of them, vanish.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    fitted : bool
        Whether these rows are fitted; of rows to predict all may be very small.
    """
    largest, dtype = _largest(X), dtype_name(X)
    limit = _LARGEST[dtype]
    unit = _power_of_ten(largest)
    remedy = f"Scale X, for example as X / {unit}"
    if dtype == "float32":
        remedy = f"Pass X as float64, or scale it, for example as X / {unit}"
    if largest > limit:
        raise ValueError(
            f"X has a value of size {largest:.3g}; squares of such {dtype} numbers "
            f"overflow. Expected at most {limit:g}. {remedy}; take the value out if "
            "it is an error."
        )
    if fitted and 0 < largest < 1 / limit:
        raise ValueError(
            f"The largest value of X is of size {largest:.3g}; squares of such {dtype} "
            f"numbers vanish. Expected at least {1 / limit:g}. {remedy}."
        )


def check_targets(Y: np.ndarray) -> None:
    """Check that a regressor's targets, (n, t), are finite and can be squared."""
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"y[{row}] is {Y[row].tolist()}: missing, or not finite; a regressor needs "
            "a number for every row. Take such rows out of X and y."
        )
    if (largest := _largest(Y)) > _LARGEST["float64"]:
        raise ValueError(
            f"y has a value of size {largest:.3g}, whose square overflows; expected at "
            f"most {_LARGEST['float64']:g}. Scale y, for example as y / "
            f"{_power_of_ten(largest)}."
        )


def _largest(X: Array) -> float:
    """Return the largest absolute value, without a copy of X."""
    X = X.longest if isinstance(X, RowSource) else X
    values = X.data if is_sparse(X) else X
    if 0 in values.shape:
        return 0.0
    xp = array_namespace(values)
    return max(float(xp.max(values)), -float(xp.min(values)))


def _power_of_ten(value: float) -> str:
    """Return the power of ten below a positive number, as text."""
    return f"1e{math.floor(math.log10(value))}" if value > 0 else "1"


def check_kernel_values(kernel: Kernel, X: Array) -> None:
    """Check that gamma, and the kernel of each row with itself, can be computed with.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    """
    dtype = dtype_name(X)
    gamma = getattr(kernel, "gamma", None)
    if gamma is not None and not _is_held_by(dtype, gamma):
        raise ValueError(
            f"gamma={gamma:.3g} is out of the range of {dtype}, the precision of X. "
            "Pass X as float64, scale it, or pass another gamma."
        )
    if isinstance(kernel, CallableKernel):  # checks each of its values itself
        return
    with np.errstate(over="ignore", invalid="ignore"):
        rows = X.longest if isinstance(X, RowSource) else X
        on_diagonal = to_numpy(kernel.diag(rows))
    largest = float(np.max(np.abs(on_diagonal)))  # NaN stays NaN
    limit = min(_LARGEST_KERNEL, float(np.finfo(dtype).max))
    if not largest <= limit:
        raise ValueError(
            f"The kernel of some row with itself is {largest:.3g} in {dtype}; expected "
            f"at most {limit:.0e}. Scale the data, for example with "
            "StandardScaler, pass another gamma, or pass X as float64."
        )


def _is_held_by(dtype: str, value: float) -> bool:
    """Tell whether a positive number is neither infinite nor 0 in a precision."""
    with np.errstate(over="ignore", under="ignore"):
        return 0 < np.dtype(dtype).type(value) < np.inf


def check_weight_range(weight: np.ndarray | None) -> None:
    """Check that the largest weight is a number of ordinary size."""
    if weight is None:
        return
    largest = float(weight.max())
    if not 1 / _LARGEST_WEIGHT <= largest <= _LARGEST_WEIGHT:
        raise ValueError(
            f"The largest weight of a row is {largest:.3g} (sample_weight times "
            f"class_weight); expected {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}. "
            "Pass sample_weight / sample_weight.max(); C times that maximum keeps the "
            "fit as it is meant."
        )


def check_coefficients(coef: Array, kernel: object) -> None:
    """Check that a solution is finite."""
    xp = array_namespace(coef)
    if not bool(xp.all(xp.isfinite(coef))):
        n_bad = int((~np.isfinite(to_numpy(coef))).sum())
        raise ValueError(
            f"{n_bad} coefficients are not finite: products of the values of "
            f"kernel={kernel!r}, of y, C and the weights overflow. Scale X and y, for "
            "example with StandardScaler, pass X as float64, or lower C."
        )


def check_results(values: Array) -> Array:
    """Return what was computed for each row of X, (n, t), if it is finite."""
    xp = array_namespace(values)
    if bool(xp.all(xp.isfinite(values))):
        return values
    finite = np.isfinite(to_numpy(values)).all(axis=1)
    row = int(np.argmin(finite))
    found = to_numpy(values)[row].tolist()[:3]
    raise ValueError(
        f"The result for row {row} of X is {found}, because its kernel values "
        "overflow. Scale X as the training rows were scaled, or take "
        "such rows out."
    )
