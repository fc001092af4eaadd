"""Which solver fits rows, in which precision, within which memory.

Cost and memory of the solvers, for n rows, d features, t right-hand sides:

=========== ============================== =======================================
solver      work                           memory beside X
=========== ============================== =======================================
cholesky    n² d + n³/3                    n² numbers (float64: one and a half)
cg          n r d + n r² + s n² (d + t)    n r numbers for the preconditioner, and
                                           as much of n²/2 as there is room for;
                                           what is kept saves the d
block       s (n J (d + t) + J³/3)         n J numbers for a block, J² four times, and
descent                                    as much of n² as there is room for; what
                                           is kept saves the d
others      s (n J (d + t) + n J²/2        the same
            + J³/3)
=========== ============================== =======================================

with r the rank of the preconditioner, J the rows of a block and s the steps. "Others"
are the solvers of Andrecut (2016): nystrom, kaczmarz, matching_pursuit, kaczmarz_mp.
"""

import math
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    budget_to_have,
    copy_buffer_bytes,
    dtype_name,
    format_bytes,
    is_tensor,
    is_torch,
    n_workers,
    on_gpu,
    product_epsilon,
)
from kaucus.solvers._block_memory import plan_blocks, row_copies
from kaucus.solvers._ls_svm import MIXED_FROM
from kaucus.solvers._systems import RANDOMIZED

# Up to so many rows a factorisation is over in seconds, whatever C.
_FEW_ROWS = 10_000
# Blocks of float64 as large as the right-hand sides that conjugate gradients hold; and
# one more for each thread, with a product that is made there.
_CG_VECTORS = 10
# What needs no more than this is let go, whatever the budget.
_LEAST_REFUSED = 16 * 2**20
# For tiles of 64 × 1,024 entries in each thread, and a small preconditioner.
_TILE_ROOM = 12 * 2**20


class Plan(NamedTuple):
    """The solver that was chosen, and why."""

    solver: str
    """``"cholesky"``, ``"cg"`` or a randomized solver."""
    kernel_dtype: str
    """Precision in which the kernel is computed."""
    precision: str
    """Precision of the factorisation, as :func:`solve_ls_svm` takes it."""
    reason: str
    """One sentence for the user."""


def plan_ls_svm(
    X: Array,
    K_largest: float,
    C: float,
    solver: str,
    budget: int,
    *,
    n_columns: int = 22,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Plan:
    """Choose solver and precision by size, conditioning and memory.

    On a GPU, and up to 10,000 rows, a matrix that fits is factored. Else, and where it
    does not fit, the cheaper way is taken. In operations over n², with c columns:

    ============= ==================================================================
    cholesky      n/3
    cg            s (8 c + d₀),    s = 1.5 √(C max k(x, x)) log(2/tol) steps
    block descent d + p (16 c + J²/3n + d₀),    p = (1 + √(n/J)/6) log(2/tol) passes
    ============= ==================================================================

    d₀ is 0 where the matrix can be kept (half of it for cg, all of it for blocks), else
    d. Products with few columns run at a quarter of the speed of a factorisation, and
    those of blocks are in float64: hence 8 and 16 in place of 2. Measured on digits:
    cg, 20,000 rows, C = 100: 114 steps; block descent, 4,000 rows, to 1e-3, J = n/5,
    in 5.6 and 8.2 passes for C = 1 and 100, J = n/20 in 6.2 and 15; on 10,000 rows,
    J = n/5, C = 1e4, to 2e-3 in 8. A matrix that fits is never left to block descent:
    the exact solution is preferred. Nor is one for whose passes ``max_iter`` steps are
    too few.

    Parameters
    ----------
    X : array or HostRows of shape (n, d)
    K_largest : float
        Largest entry of the diagonal of K.
    C : float
    solver : str
        ``"auto"``, ``"cholesky"``, ``"cg"`` or one of :data:`RANDOMIZED`.
    budget : int
        Bytes, as :func:`budget_without_buffers` gives them.
    n_columns : int, default=22
        Right-hand sides of an iterative solver.
    tol : float, default=1e-3
        Of an iterative solver.
    max_iter : int, default=1000
        Of an iterative solver.

    Raises
    ------
    MemoryError
        If ``solver="cholesky"`` was asked for and does not fit into the budget.
    """
    n = X.shape[0]
    dtype = dtype_name(X)
    if dtype == "float32" and not float32_is_enough(X, K_largest, C):
        dtype = "float64"
    matrix = np.dtype(dtype).itemsize * n * n
    gpu = on_gpu(X)
    needed = matrices_held(X, dtype) * matrix
    fits = needed <= budget
    if solver == "cholesky" and not fits:
        raise MemoryError(
            f"solver='cholesky' needs {format_bytes(needed)} for the kernel matrix of "
            f"{n} rows, memory_budget allows {_shown(budget, X)}; use solver='cg', "
            "float32 data, fewer rows, or a larger memory_budget."
        )
    size = f"{n} rows: the kernel matrix takes {format_bytes(matrix)} in {dtype}"
    if isinstance(X, HostRows):
        size += ", the rows stay on the host and are copied in blocks"
    direct = fits and (
        n <= _FEW_ROWS
        or gpu
        or n / 3 <= _cg_work(X, K_largest, C, matrix <= 2 * budget, n_columns, tol)
    )
    cg_fits = _cg_needs(X, n_columns) <= max(budget, _LEAST_REFUSED)
    if solver in RANDOMIZED:
        reason = f"{size}; {solver} was asked for and takes it block by block."
        return Plan(solver, dtype, "auto", reason)
    if solver == "cholesky" or (solver == "auto" and direct):
        precision = _precision(n, dtype, budget, gpu)
        return Plan("cholesky", dtype, precision, f"{size}; it is factored.")
    why = f"; memory_budget is {_shown(budget, X)}" if not fits else ""
    cg = _cg_work(X, K_largest, C, matrix <= 2 * budget, n_columns, tol)
    blocks = _block_work(X, matrix, budget, n_columns, tol, max_iter)
    if solver == "cg" or fits or math.isinf(blocks) or (cg <= blocks and cg_fits):
        _check_cg_memory(X, n_columns, budget)
        reason = f"{size}{why}; products with it are iterated (conjugate gradients)."
        solver = "cg"
    else:
        reason = f"{size}{why}; random blocks of it are taken (block descent)."
        solver = "block_descent"
    return Plan(solver, dtype, "auto", f"{reason} {_compare(n, cg, blocks)}")


def _shown(budget: int, X: Array) -> str:
    """Write a budget for people, with what is taken off for copies of rows."""
    away = copy_buffer_bytes(X)
    beside = f" and {format_bytes(away)} for copies of rows" if away else ""
    return f"{format_bytes(budget)}{beside}"


def _cg_work(X, K_largest: float, C: float, kept: bool, n_columns: int, tol: float):
    """Return the work of conjugate gradients over n², see :func:`plan_ls_svm`."""
    steps = 1.5 * (C * K_largest) ** 0.5 * np.log(2 / tol)
    return steps * (8 * n_columns + (0 if kept else X.shape[1]))


def cg_bytes(X, n_columns: int) -> int:
    """Return what conjugate gradients hold beside tiles of K and copies of the rows."""
    return (_CG_VECTORS + n_workers(X) + 1) * 8 * X.shape[0] * n_columns


def _cg_needs(X, n_columns: int) -> int:
    """Return the bytes below which conjugate gradients do not fit, or crawl.

    Many rows need tiles of K that are not tiny: there are n² entries in every step.
    """
    needed = cg_bytes(X, n_columns) + row_copies(X)
    many = needed > _LEAST_REFUSED
    return needed + (n_workers(X) * _TILE_ROOM if many else 0)


def _check_cg_memory(X, n_columns: int, budget: int) -> None:
    """Raise before a fit by conjugate gradients for which there is no memory."""
    needed = _cg_needs(X, n_columns)
    if needed <= max(budget, _LEAST_REFUSED):
        return
    vectors, rows = cg_bytes(X, n_columns), row_copies(X)
    enough = budget_to_have(1.25 * needed, X)
    raise MemoryError(
        f"solver='cg' holds {format_bytes(vectors)} of vectors for {X.shape[0]} rows "
        f"and {n_columns} right-hand sides, {format_bytes(rows)} of rows, and tiles of "
        "the kernel; "
        f"memory_budget allows {_shown(budget, X)}. Pass a memory_budget of "
        f"{format_bytes(enough)} or more, float32 rows, fewer of "
        "them, or probability=False, which halves the right-hand sides."
    )


def _block_work(
    X, matrix: int, budget: int, n_columns: int, tol: float, max_iter: int
) -> float:
    """Return the work of block descent over n², see :func:`plan_ls_svm`."""
    n, d = X.shape
    try:
        J = plan_blocks(
            X,
            n_targets=n_columns,
            n_problems=1,
            weighted=True,
            block_size=None,
            budget=budget,
        ).block_size
    except MemoryError:
        return math.inf
    passes = (1 + (n / J) ** 0.5 / 6) * max(np.log(2 / tol), 1.0)
    if passes * n / J > max_iter:
        return math.inf
    again = 0 if matrix <= budget else d
    return d + passes * (16 * n_columns + J * J / (3 * n) + again)


def _compare(n: int, cg: float, blocks: float) -> str:
    """Tell the estimates that the choice was made from."""
    return (
        f"Estimated operations over n²: cholesky {n / 3:.0f}, cg {cg:.0f}, "
        f"block_descent {blocks:.0f}."
    )


def matrices_held(X: Array, dtype: str) -> int:
    """Return how many matrices as large as K a factorisation holds at least."""
    if on_gpu(X) and is_torch(X):  # in place; of float32 the copy that is factored
        return 1 if dtype == "float64" else 2
    # Only NumPy's arrays are factored in place on the host, and CuPy's nowhere; a small
    # float32 matrix is factored in a float64 copy.
    small = dtype == "float32" and X.shape[0] < MIXED_FROM
    return 3 if is_tensor(X) or small else 1


def _precision(n: int, dtype: str, budget: int, gpu: bool) -> str:
    """Return the precision of a factorisation for which there is memory."""
    if gpu and (dtype == "float64" or 12 * n * n <= budget):
        # Data-centre GPUs multiply as fast in float64: 60,000 rows took 2.1 s in
        # float64 and 2.4 s in float32 with refinement on an H200.
        return "float64"
    if dtype == "float64":  # float32 needs a copy beside it
        return "auto" if 12 * n * n <= budget else "float64"
    return "auto" if 12 * n * n <= budget else "mixed"  # so does float64


def float32_is_enough(X: Array, K_largest: float, C: float) -> bool:
    """Tell whether the rounding of a float32 kernel stays below the ridge 1/C.

    Rounding is a symmetric random matrix of norm about ε √n max|K|, with ε that of
    float32 or, where products are in it, of tf32; where it exceeds 1/C, H may be
    indefinite, and what is solved is noise.
    """
    return product_epsilon(X) * X.shape[0] ** 0.5 * K_largest * C <= 0.5
