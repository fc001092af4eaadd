"""Least squares of all rows on the kernel columns of a few representatives.

With representatives z_1 .. z_m, f(x) = Σ_q a_q k(x, z_q) + b is fitted to n rows by

    min  ½ aᵀ K_mm a + ½ C Σ_i s_i (y_i − f(x_i))²,

the least-squares SVM among the functions of the representatives; where these are all
rows, it is the least-squares SVM. With the weighted means k̄ and ȳ, and σ = Σ_i s_i,

    (K_mn S K_nm − σ k̄ k̄ᵀ + K_mm / C) a = K_mn S Y − σ k̄ ȳᵀ,    b = ȳ − k̄ᵀ a.

The left side is a sum over rows: one pass over blocks of K_nm, of which none but one
need exist at a time, and which may as well be the parts of a memory map or of a
cluster. A block is computed in the precision of the rows, and summed in float64.

The columns are taken less a fixed k₀ near their means, which moves k₀ᵀa from f to b and
leaves the rest as it is: wide kernels are nearly constant, and K_mn S K_nm − σ k̄ k̄ᵀ
would lose their digits.

Leave-one-out: with A this matrix, c_i = k_i − k̄ and h_i = s_i (c_iᵀ A⁻¹ c_i + 1/σ),

    y_i − f⁽⁻ⁱ⁾(x_i) = (y_i − f(x_i)) / (1 − p_i h_i),

with p_i the share of its weight that is left out of row i.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    CholeskyFactor,
    add_cross_gram,
    add_gram,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    diagonal,
    dtype_name,
    epsilon,
    few_threads_for,
    format_bytes,
    gram_bytes,
    is_numpy,
    is_sparse,
    itemsize,
    iter_device_blocks,
    mirror_lower,
    resolve_budget,
    row_blocks,
    solve_triangular,
    take_rows,
    zero_gram,
)
from kaucus.kernels import Kernel
from kaucus.solvers._result import LSSVMSolution, SolveInfo

# Blocks of K_nm: high enough that adding a Gram matrix costs little beside making it.
_BLOCK_BYTES = 1024 * 2**20
# Targets as they are given, those of a block of classes, and weighted ones.
_TARGETS = 2
# A strip of rows that are left out one by one, of which there are a handful.
_LEFT_OUT_BYTES = 4 * 2**20
# What the sums of kernel columns are off by, in roundings of an entry. A smaller jitter
# does not outweigh it: three fits of MNIST, before the sums were made with care, had
# 27, 2.8 and 1.6 % test error with 1e-8, 1e-7 and 1e-6 of the diagonal.
_ROUNDINGS = 8
# Strips of m × m matrices that are still in cache when they are read again.
_STRIP_BYTES = 2**20


class NormalEquations(NamedTuple):
    """What one block of rows, or all of them, add to the system; in float64."""

    gram: Array
    """Σ s (k − k₀)(k − k₀)ᵀ, (m, m), of which the lower triangle is defined."""
    cross: Array
    """Σ s (k − k₀) [yᵀ, 1], (m, t + 1)."""
    target_sum: Array
    """Σ s y, (t,)."""
    weight: float
    """Σ s."""


class RowData(NamedTuple):
    """The rows that the columns are fitted to."""

    kernel: Kernel
    X: Array
    Y: Array
    sample_weight: Array | None
    left_out: Array | None
    """Share of each row's weight that its leave-one-out value leaves out."""


class Columns(NamedTuple):
    """The kernel columns of representatives, and the equations of rows on them."""

    Z: Array
    K_mm: Array
    """Of the representatives, (m, m), float64."""
    shift: Array
    """k₀, (m,), float64."""
    equations: NormalEquations


def solve_on_representatives(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    left_out: Array | None = None,
    loo_rows: np.ndarray | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> LSSVMSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
        Targets, in the library of ``X`` (NumPy for CSR).
    Z : array of shape (m, d)
        The representatives.
    C : float
    sample_weight : array of shape (n,), default=None
    left_out : array of shape (n,), default=None
        Share p_i of each row's weight that its leave-one-out value leaves out.
    loo_rows : integer array, default=None
        Rows whose leave-one-out decision values are wanted as ``loo_decision``.
    memory_budget : int, str or None, default=None
        Holds one block of K_nm and four matrices of m × m.
    callback : callable, default=None
        ``callback(n_rows_done, n)`` after each block.

    Returns
    -------
    LSSVMSolution
        ``dual_coef`` has one row for each representative.

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.

    Notes
    -----
    n m d + n m²/2 multiplications, and m³/6 for the solution. An interrupt solves with
    the rows seen so far, and says so in ``info``. Where m is so large that iterating
    clearly costs less than n m²/2, :mod:`kaucus.solvers._sketched` does.
    """
    from kaucus.solvers import _sketched  # which builds on this module

    budget = resolve_budget(memory_budget, Y)
    step = block_bytes(Z.shape[0], Y, budget, Z)
    data = RowData(kernel, X, Y, sample_weight, left_out)
    if _sketched.choose_sketched(data, Z, budget):
        return _sketched.solve_sketched(
            data, Z, C=C, loo_rows=loo_rows, budget=budget, callback=callback
        )
    with few_threads_for(max(X.shape[0], Z.shape[0])):
        K_mm = kernel(astype(Z, "float64"))
        shift = array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
        equations, interrupted = sum_equations(data, Z, shift, step, callback)
        return solve_equations(
            data,
            Columns(Z, K_mm, shift, equations),
            C,
            loo_rows,
            interrupted=interrupted,
        )


def solve_equations(
    data: RowData,
    columns: Columns,
    C: float,
    loo_rows: np.ndarray | None,
    *,
    interrupted: bool,
) -> LSSVMSolution:
    """Solve for the coefficients, and leave out some rows.

    The Gram matrix of ``columns`` is used up.
    """
    Z, K_mm, shift, equations = columns
    rounding = _ROUNDINGS * epsilon(Z)
    factor, relative_jitter, coef, mean = _solve(equations, K_mm, C, rounding)
    intercept = equations.target_sum / equations.weight - mean @ coef
    loo = None
    if loo_rows is not None and len(loo_rows):
        loo = leave_one_out(
            *some_rows(data, loo_rows),
            columns=lambda rows: astype(data.kernel(rows, Z), "float64") - shift - mean,
            factor=factor,
            coef=coef,
            target_mean=equations.target_sum / equations.weight,
            total=equations.weight,
        )
    info = SolveInfo(
        "normal_equations",
        precision=dtype_name(data.X),
        n_iter=1,
        jitter=factor.jitter,
        relative_jitter=relative_jitter,
        converged=not interrupted,
        interrupted=interrupted,
    )
    return LSSVMSolution(coef, intercept - shift @ coef, loo, info)


def block_bytes(
    m: int, Y: Array, budget: int, Z: Array, *, more_matrices: int = 0
) -> int:
    """Return the bytes for a block of K_nm, or raise where the rest does not fit."""
    needed = ((3 + more_matrices) * 8 + itemsize(Z)) * m * m + gram_bytes(m, Z)
    rest = budget - needed - _TARGETS * 8 * Y.shape[0] * (Y.shape[1] + 1)
    if rest < bytes_per_row(m, Z):
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"all rows, memory_budget allows {format_bytes(budget)}; use fewer "
            "representatives, fit_on='representatives', or a larger memory_budget."
        )
    return min(_BLOCK_BYTES, rest)


def bytes_per_row(m: int, Z: Array) -> int:
    """Return what a row of a block takes: kernel columns, tiles of these, its copies.

    A kernel of distances shifts the rows; those of the host are on a device twice.
    """
    return itemsize(Z) * (2 * m + 3 * Z.shape[1])


def rows_beside(X: Array, rows: slice, Z: Array) -> Array:
    """Return a block of rows where ``Z`` is; CSR matrices stay on the host."""
    return X[rows] if is_sparse(X) else as_like(X[rows, :], Z)


def sum_equations(
    data: RowData,
    Z: Array,
    shift: Array,
    block_bytes: int,
    callback,
    total: NormalEquations | None = None,
) -> tuple[NormalEquations, bool]:
    """Sum the normal equations over blocks of rows; tell whether that was cut short.

    ``total`` are those of earlier rows, which are used up; None: there are none.
    """
    kernel, X, Y, weight, _ = data
    n, m = X.shape[0], Z.shape[0]
    total = _no_equations(m, Y) if total is None else total
    shift = astype(shift, dtype_name(X))[None, :]
    blocks = row_blocks(n, bytes_per_row(m, Z), block_bytes)
    columns = ((s, kernel(x, Z)) for s, x in iter_device_blocks(X, blocks, Z))
    while True:
        try:
            rows, K = next(columns, (None, None))
        except KeyboardInterrupt:
            if total.weight == 0:
                raise
            return total, True
        if rows is None:
            return total, False
        K -= shift
        w = None if weight is None else weight[rows]
        total = add_block(total, K, Y[rows, :], w)
        if callback is not None:
            callback(rows.stop, n)


def _no_equations(m: int, Y: Array) -> NormalEquations:
    """Return the equations of no rows."""
    xp, t = array_namespace(Y), Y.shape[1]
    place = {"dtype": xp.float64, "device": device_of(Y)}
    cross, target_sum = xp.zeros((m, t + 1), **place), xp.zeros(t, **place)
    return NormalEquations(zero_gram(m, Y), cross, target_sum, 0.0)


def add_block(
    total: NormalEquations, K: Array, Y: Array, weight: Array | None
) -> NormalEquations:
    """Add one block of rows to the equations.

    Parameters
    ----------
    total : NormalEquations
        Its ``gram`` and ``cross`` are used up.
    K : array of shape (b, m)
        Shifted kernel columns; overwritten where there are weights.
    Y : array of shape (b, t)
    weight : array of shape (b,) or None
    """
    xp = array_namespace(K)
    ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=device_of(Y))
    targets = xp.concat([Y, ones], axis=1)
    s = float(K.shape[0])
    if weight is not None:
        root = xp.sqrt(astype(weight, "float64"))[:, None]
        K *= astype(root, dtype_name(K))
        targets, s = targets * root, float(xp.sum(root**2))
        Y = Y * root**2
    return NormalEquations(
        add_gram(total.gram, K),
        # With the same care: the mean's square is taken off the Gram matrix.
        add_cross_gram(total.cross, K, astype(targets, dtype_name(K))),
        total.target_sum + xp.sum(astype(Y, "float64"), axis=0),
        total.weight + s,
    )


def _solve(
    equations: NormalEquations, K_mm: Array, C: float, rounding: float
) -> tuple[CholeskyFactor, float, Array, Array]:
    """Return the factor of A, its jitter, the coefficients a, and the mean of k − k₀.

    The equations' Gram matrix is used up.

    Where the representatives' columns depend on each other, as with a linear kernel of
    few features, A is singular and so many a give the same f: a jitter of the size of
    rounding picks a short one.
    """
    total = equations.weight
    mean = equations.cross[:, -1] / total
    A = _system(equations.gram, total, mean, K_mm, C)
    right = equations.cross[:, :-1] - mean[:, None] @ equations.target_sum[None, :]
    scale = float(array_namespace(A).mean(diagonal(A)))
    factor = cholesky_with_jitter(A, rounding=rounding, overwrite=True)
    relative = factor.jitter / max(scale, 1e-300)
    return factor, relative, cho_solve(factor.L, right), mean


def _system(gram: Array, total: float, mean: Array, K_mm: Array, C: float) -> Array:
    """Return Σ s k kᵀ − σ k̄ k̄ᵀ + K_mm / C in the memory of the Gram matrix.

    By strips that stay in cache: matrices of m × m would be made and read otherwise.
    """
    A = mirror_lower(gram)
    by_rows = A.T if is_numpy(A) else A  # as it is in memory; A is symmetric
    m = mean.shape[0]
    for rows in row_blocks(m, m * itemsize(A), _STRIP_BYTES):
        strip = K_mm[rows, :] / C
        strip -= total * mean[rows, None] * mean[None, :]
        by_rows[rows, :] += strip
    return A


def some_rows(data: RowData, rows: np.ndarray):
    """Return the given rows, their targets, weights and shares."""
    _, X, Y, weight, left_out = data
    xp = array_namespace(Y)
    there = as_like(rows, Y)
    ones = xp.ones(len(rows), dtype=xp.float64, device=device_of(Y))
    some = take_rows(X, rows if is_sparse(X) else as_like(rows, X))
    return (
        some if is_sparse(X) else as_like(some, Y),
        astype(take_rows(Y, there), "float64"),
        ones if weight is None else astype(take_rows(weight, there), "float64"),
        ones if left_out is None else astype(take_rows(left_out, there), "float64"),
    )


def leave_one_out(
    X, Y, weight, share, *, columns, factor, coef, target_mean, total: float
) -> Array:
    """Return the decision values of rows by models fitted without them, (r, t)."""
    xp, parts = array_namespace(Y), []
    height = max(_LEFT_OUT_BYTES // (8 * coef.shape[0]), 256)
    for rows in row_blocks(Y.shape[0], 1, height):
        centred = columns(X[rows] if is_sparse(X) else X[rows, :])  # c_i, (r, m)
        residuals = Y[rows, :] - target_mean[None, :] - centred @ coef
        half = solve_triangular(factor.L, centred.T)  # L⁻¹ c_i
        leverage = weight[rows] * (xp.sum(half**2, axis=0) + 1 / total)
        kept = 1 - share[rows] * leverage
        kept = xp.maximum(kept, xp.full_like(kept, 1e-12))
        parts.append(Y[rows, :] - residuals / kept[:, None])
    return xp.concat(parts)
