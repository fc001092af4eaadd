"""Least squares on fixed representatives, of rows that come in parts.

The normal equations of ``_low_rank`` are sums over rows. So they can be kept between
parts in place of the rows: m × m numbers, however many rows there were, and the
solution is that of all of them at once.
"""

from collections.abc import Callable
from typing import NamedTuple

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    few_threads_for,
    resolve_budget,
    to_numpy,
)
from kaucus.solvers._equations import (
    Columns,
    NormalEquations,
    RowData,
    solve_equations,
)
from kaucus.solvers._low_rank import plan_rows, sum_equations
from kaucus.solvers._result import LSSVMSolution

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
) -> tuple[RunningSums, bool]:
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
    sums, interrupted
        An interrupt leaves out the rows that were still to come.

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
        equations, interrupted = sum_equations(data, Z, shift, blocks, callback, total)
    return RunningSums(shift, equations), interrupted


def solve_running(
    data: RowData,
    Z: Array,
    sums: RunningSums,
    *,
    C: float,
    loo_rows=None,
    interrupted: bool = False,
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
    interrupted : bool, default=False
        Goes into ``info``.
    """
    with few_threads_for(Z.shape[0]):
        K_mm = data.kernel(astype(Z, "float64"))
        shift, equations = sums.copied(data.Y)
        columns = Columns(Z, K_mm, shift, equations)
        return solve_equations(data, columns, C, loo_rows, interrupted=interrupted)
