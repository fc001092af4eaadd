"""Values of a fitted function, Σᵢ aᵢ k(x, yᵢ), in the precision its coefficients need.

An entry of a float32 kernel matrix is rounded by about ε = 6e-8 of its size. A sum of
entries times coefficients is rounded by ε times the *norm* of the coefficients, and
these may be thousands of times larger than the sum, which is what remains when they
cancel: large C, few features, data far from the origin. Then a float32 prediction is
noise, though the fit was right.

How much is lost depends on the kernel, the coefficients and the rows, and a bound of
all three is either dear or far too careful. So it is measured: some rows are computed
in both precisions. Sums of float32 entries are kept where these agree; else all rows
are computed in float64, block by block. The law, checked in the tests:

    |f32(x) − f64(x)| ≤ 2⁻⁸ (s + |f64(x) − m|),

with m the median and s the spread of f over the rows (see :func:`_allowed`), beside
what float64 itself rounds, and kernel values below float32's smallest, 2⁻¹²⁶.

For n rows, m points and d features the check costs 32 m d float64 multiplications
beside n m d in float32; up to 64 rows are computed in float64 at once.
"""

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    array_namespace,
    astype,
    dtype_name,
    epsilon,
    itemsize,
    product_epsilon,
    resolve_budget,
    row_blocks,
    take_rows,
    to_numpy,
)
from kaucus.kernels._base import Kernel
from kaucus.kernels._distances import squared_norms
from kaucus.kernels._operator import KernelOperator

# Rows that are computed in both precisions: as many evenly spaced as of largest norm.
_EVENLY_SPACED = 16
_OF_LARGEST_NORM = 16
# Up to so many rows a check would cost as much as the float64 result.
_FEW_ROWS = 64
# Largest error, in units of the spread of the values.
_TOLERANCE = 2.0**-8
_TF32_TOLERANCE = 2.0**-5
# Rows that were not checked may be this much worse than those that were.
_MARGIN = 4.0
# Bytes of the rows, and of the points, that are widened at a time.
_BLOCK_BYTES = 64 * 2**20


def kernel_expansion(
    kernel: Kernel,
    X: Array,
    Y: Array,
    coef: Array,
    *,
    memory_budget: int | str | None = None,
) -> Array:
    """Return Σᵢ aᵢ k(x, yᵢ) for each row x, in the precision that ``coef`` needs.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array, CSR matrix or HostRows of shape (m, d)
        The points of the expansion.
    coef : array of shape (m, t)
        One column of coefficients for each function.
    memory_budget : int, str or None, default=None

    Returns
    -------
    array of shape (n, t)
        In float64.
    """
    coef = astype(coef, "float64")
    if dtype_name(X) == "float32" and _float32_suffices(
        kernel, X, Y, coef, memory_budget
    ):
        return _sums(kernel, X, Y, coef, memory_budget)
    return _sums_in_float64(kernel, X, Y, coef, memory_budget)


def _float32_suffices(kernel, X, Y, coef, memory_budget) -> bool:
    """Tell whether some rows come out alike in float32 and in float64."""
    n = X.shape[0]
    if n <= _FEW_ROWS:
        return False
    spaced = np.linspace(0, n - 1, _EVENLY_SPACED).astype(np.int64)
    largest = np.argpartition(to_numpy(squared_norms(X)), -_OF_LARGEST_NORM)
    numbers = np.concatenate([spaced, largest[-_OF_LARGEST_NORM:]])
    some = take_rows(X, numbers)
    rough = to_numpy(_sums(kernel, some, Y, coef, memory_budget))
    exact = to_numpy(_sums_in_float64(kernel, some, Y, coef, memory_budget))
    rounds_to_tf32 = product_epsilon(X) > epsilon(X)
    tolerance = _TF32_TOLERANCE if rounds_to_tf32 else _TOLERANCE
    allowed = tolerance / _MARGIN * _allowed(exact, exact[: len(spaced)])
    with np.errstate(invalid="ignore"):  # inf - inf: NaN is not within the bound
        return bool(np.all(np.abs(rough - exact) <= allowed))


def _allowed(values: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Return s + |f(x) − m| for the ``values`` f(x), (n, t).

    m is the median of the ``typical`` values, (k, t), s the 90 % quantile of their
    distance from it: neither is moved by a few huge rows. An offset that all rows
    share does not count, since it tells nothing about a row.
    """
    with np.errstate(invalid="ignore"):
        m = np.median(typical, axis=0)
        s = np.quantile(np.abs(typical - m), 0.9, axis=0)
        return s + np.abs(values - m)


def _sums(kernel, X, Y, coef, memory_budget) -> Array:
    """Return the sums of kernel entries in the precision of ``X``."""
    Y = astype(Y, dtype_name(X))
    operator = KernelOperator(kernel, X, Y, memory_budget=memory_budget, keep=None)
    return operator.matmul(coef)


def _sums_in_float64(kernel, X, Y, coef, memory_budget) -> Array:
    """Return the sums of float64 kernel entries; rows are widened block by block."""
    n_bytes = min(resolve_budget(memory_budget, X) // 8, _BLOCK_BYTES)
    parts = []
    for rows in _blocks(X, n_bytes):
        x = astype(X[rows, :], "float64")
        total = 0.0
        for points in _blocks(Y, n_bytes):
            y = Y if isinstance(Y, HostRows) else Y[points, :]
            total = total + _sums(kernel, x, y, coef[points, :], memory_budget)
        parts.append(total)
    return parts[0] if len(parts) == 1 else array_namespace(coef).concat(parts)


def _blocks(X: Array, n_bytes: int) -> list[slice]:
    """Return slices of rows that take at most ``n_bytes`` bytes in float64."""
    # Rows that stay on the host are widened where they arrive; float64 rows are here.
    if isinstance(X, HostRows) or itemsize(X) == 8:
        return [slice(0, X.shape[0])]
    return list(row_blocks(X.shape[0], 8 * X.shape[1], n_bytes)) or [slice(0, 0)]
