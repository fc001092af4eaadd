"""Least squares of all rows on the kernel columns of a few representatives.

Their normal equations (``_equations``) are summed in one pass over blocks of K_nm, of
which none but one need exist at a time.

They are sums over rows. So where rows come in parts, they can be kept in place of the
rows (:class:`RunningSums`): m × m numbers, however many rows there were, and the
solution is that of all of them at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    Scratch,
    array_namespace,
    as_like,
    astype,
    few_threads_for,
    format_bytes,
    gram_bytes,
    itemsize,
    resolve_budget,
    row_blocks,
    stream_blocks,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._equations import (
    Columns,
    NormalEquations,
    RowData,
    bytes_per_row,
    solve_equations,
)
from kaucus.solvers._part_equations import sum_parts
from kaucus.solvers._result import LSSVMSolution

# Blocks of K_nm: high enough that adding a Gram matrix costs little beside making it.
_BLOCK_BYTES = 1024 * 2**20
# Targets as they are given, those of a block of classes, and weighted ones.
_TARGETS = 2


def solve_on_representatives(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    loo_rows: np.ndarray | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> LSSVMSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
    Y : array of shape (n, t)
        Targets, in the library of ``X`` (NumPy for CSR).
    Z : array of shape (m, d)
        The representatives.
    C : float
    sample_weight : array of shape (n,), default=None
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
    n m d + n m²/2 multiplications, and m³/6 for the solution.
    """
    budget = resolve_budget(memory_budget, Y)
    # The targets of a row source are beside its rows.
    blocks = plan_rows(Y[:0] if isinstance(X, RowSource) else Y, budget, Z)
    data = RowData(kernel, X, Y, sample_weight)
    with few_threads_for(max(X.shape[0], Z.shape[0])):
        K_mm = kernel(astype(Z, "float64"))
        shift = array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
        equations = sum_equations(data, Z, shift, blocks, callback)
        return solve_equations(data, Columns(Z, K_mm, shift, equations), C, loo_rows)


def plan_rows(
    Y: Array, budget: int, Z: Array, *, more_matrices: int = 0
) -> list[slice]:
    """Return the blocks of rows in which K_nm is made, see :func:`block_bytes`."""
    n_bytes = block_bytes(Y, budget, Z, more_matrices=more_matrices)
    return list(row_blocks(Y.shape[0], bytes_per_row(Z.shape[0], Z), n_bytes))


def block_bytes(Y: Array, budget: int, Z: Array, *, more_matrices: int = 0) -> int:
    """Return the bytes for a block of K_nm, or raise where there is no room for one.

    Beside matrices of m × m: three and the kernel's, and as many more as told.
    """
    (n, t), m, row = Y.shape, Z.shape[0], bytes_per_row(Z.shape[0], Z)
    needed = ((3 + more_matrices) * 8 + itemsize(Z)) * m * m + gram_bytes(m, Z)
    rest = budget - needed - _TARGETS * 8 * n * (t + 1)
    if rest < row:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"all rows, memory_budget allows {format_bytes(budget)}; use fewer "
            "representatives, or a larger memory_budget."
        )
    return min(_BLOCK_BYTES, rest)


def sum_equations(
    data: RowData,
    Z: Array,
    shift: Array,
    blocks: list[slice],
    callback: Callable[[int, int], object] | None,
    total: NormalEquations | None = None,
    kept: list[Array] | None = None,
) -> NormalEquations:
    """Sum the normal equations over blocks of rows.

    Parameters
    ----------
    data, Z, shift
        Rows, representatives, and k₀ of their columns.
    blocks : list of slice
        Not used for a row source, which has parts of its own.
    callback : callable or None
        ``callback(n_rows_done, n)`` after each block.
    total : NormalEquations, default=None
        Those of earlier rows, to which these are added; None: there are none.
    kept : list, default=None
        To which the columns of each block are added.
    """
    n = data.X.shape[0]
    if isinstance(data.X, RowSource):
        parts = sum_parts(data, Z, shift)
        if total is not None:
            total.merge(parts)
        if callback is not None:
            callback(n, n)
        return parts if total is None else total
    total = NormalEquations.zeros(Z.shape[0], data.Y) if total is None else total
    rows_of = stream_blocks(data.X, blocks)
    scratch = Scratch() if kept is None else None
    for rows in blocks:
        K = data.columns(next(rows_of), rows, Z, shift, scratch)
        total.add(K, data.targets(rows))
        if kept is not None:
            kept.append(K)
        if callback is not None:
            callback(rows.stop, n)
    return total


# ---- rows that come in parts ---------------------------------------------------------


# Beside those of a fit at once: the sums that were kept, and the copy to be factored.
_MORE_MATRICES = 2


class RunningSums(NamedTuple):
    """Equations of the rows seen so far."""

    shift: Array
    """k₀, (m,), float64; it stays."""
    equations: NormalEquations

    def on_host(self) -> "RunningSums":
        """Return them as NumPy arrays."""
        return RunningSums(to_numpy(self.shift), self.equations.on_host())

    def copied(self, like: Array) -> "RunningSums":
        """Return a copy, which may be used up, in the library and place of ``like``."""
        return RunningSums(as_like(self.shift, like), self.equations.copy(like))


def add_rows(
    data: RowData,
    Z: Array,
    before: RunningSums | None = None,
    *,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> RunningSums:
    """Add rows to the equations of earlier ones.

    Parameters
    ----------
    data : RowData
        Kernel, and the new rows with targets and weights.
    Z : array of shape (m, d)
        The representatives, the same in every call.
    before : RunningSums, default=None
        Of the earlier rows; not changed. None: there are none.
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_rows_done, n)`` after each block.

    Returns
    -------
    RunningSums

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.
    """
    m = Z.shape[0]
    budget = resolve_budget(memory_budget, Z)
    blocks = plan_rows(data.Y, budget, Z, more_matrices=_MORE_MATRICES)
    with few_threads_for(max(data.X.shape[0], m)):
        if before is None:
            K_mm = data.kernel(astype(Z, "float64"))
            shift, total = array_namespace(K_mm).mean(K_mm, axis=0), None
            del K_mm
        else:
            shift, total = before.copied(data.Y)
        equations = sum_equations(data, Z, shift, blocks, callback, total)
    return RunningSums(shift, equations)


def solve_running(
    data: RowData,
    Z: Array,
    sums: RunningSums,
    *,
    C: float,
    loo_rows=None,
) -> LSSVMSolution:
    """Solve for the coefficients of all rows seen so far.

    Parameters
    ----------
    data : RowData
        Kernel, and rows that are among those seen, for ``loo_rows``.
    Z : array of shape (m, d)
    sums : RunningSums
        Not changed.
    C : float
    loo_rows : integer array, default=None
        Rows of ``data`` whose leave-one-out values are wanted.
    """
    with few_threads_for(Z.shape[0]):
        K_mm = data.kernel(astype(Z, "float64"))
        shift, equations = sums.copied(data.Y)
        columns = Columns(Z, K_mm, shift, equations)
        return solve_equations(data, columns, C, loo_rows)
