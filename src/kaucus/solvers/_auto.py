"""The choice of a solver, and the fit by it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    budget_to_have,
    few_threads_for,
    format_bytes,
    n_workers,
    release_freed_memory,
)
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import Array
from kaucus._array.rows import (
    budget_without_buffers,
    copy_buffer_bytes,
    resident_bytes,
    shifted_bytes,
)
from kaucus.clustering._kernel_kmeans import pivoted_factor
from kaucus.kernels._kernel import kernel_diagonal
from kaucus.kernels._matrix import KernelOperator
from kaucus.solvers._blocks import RANDOMIZED, plan_blocks, solve_ls_svm_randomized
from kaucus.solvers._cg import solve_ls_svm_cg
from kaucus.solvers._columns import RowData
from kaucus.solvers._direct import MIXED_FROM, solve_ls_svm
from kaucus.solvers._system import (
    Callback,
    LSSVMSolution,
    Recorder,
    Validation,
    Watch,
    history_of,
)

# ----------------------------------------------------------------------------------
# Which solver fits rows, in which precision, within which memory.
#
# Cost and memory of the solvers, for n rows, d features, t right-hand sides:
#
# =========== ============================== =======================================
# solver      work                           memory beside X
# =========== ============================== =======================================
# cholesky    n² d + n³/3                    n² numbers (float64: one and a half)
# cg          n r d + n r² + s n² (d + t)    n r numbers for the preconditioner, and
#                                            as much of n²/2 as there is room for;
#                                            what is kept saves the d
# block       s (n J (d + t) + J³/3)         n J numbers for a block, J² four times, and
# descent                                    as much of n² as there is room for; what
#                                            is kept saves the d
# others      s (n J (d + t) + n J²/2        the same
#             + J³/3)
# =========== ============================== =======================================
#
# with r the rank of the preconditioner, J the rows of a block and s the steps. "Others"
# are the solvers of Andrecut (2016): nystrom, kaczmarz, matching_pursuit, kaczmarz_mp.
# ----------------------------------------------------------------------------------

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
    dtype = nx.dtype_name(X)
    if dtype == "float32" and not float32_is_enough(X, K_largest, C):
        dtype = "float64"
    matrix = np.dtype(dtype).itemsize * n * n
    gpu = nx.on_gpu(X)
    needed = matrices_held(X, dtype) * matrix
    fits = needed <= budget
    if solver == "cholesky" and not fits:
        raise MemoryError(
            f"solver='cholesky' needs {format_bytes(needed)} for the kernel matrix of "
            f"{n} rows, memory_budget allows {_shown(budget, X)}; use solver='cg', "
            "float32 data, fewer rows, or a larger memory_budget."
        )
    size = f"{n} rows: the kernel matrix takes {format_bytes(matrix)} in {dtype}"
    if copy_buffer_bytes(X):
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
    compared = (
        f"Estimated operations over n²: cholesky {n / 3:.0f}, cg {cg:.0f}, "
        f"block_descent {blocks:.0f}."
    )
    return Plan(solver, dtype, "auto", f"{reason} {compared}")


def _shown(budget: int, X: Array) -> str:
    """Return a budget as text, less the bytes of copied rows."""
    away = copy_buffer_bytes(X)
    beside = f" and {format_bytes(away)} for copies of rows" if away else ""
    return f"{format_bytes(budget)}{beside}"


def _cg_work(X, K_largest: float, C: float, kept: bool, n_columns: int, tol: float):
    """Return the work of conjugate gradients over n², see :func:`plan_ls_svm`."""
    steps = 1.5 * (C * K_largest) ** 0.5 * np.log(2 / tol)
    return steps * (8 * n_columns + (0 if kept else X.shape[1]))


def cg_bytes(X, n_columns: int) -> int:
    """Return the bytes of conjugate gradients without tiles of K and copies of rows."""
    return (_CG_VECTORS + n_workers(X) + 1) * 8 * X.shape[0] * n_columns


def _cg_needs(X, n_columns: int) -> int:
    """Return the bytes below which conjugate gradients do not fit, or crawl.

    Many rows need tiles of K that are not tiny: there are n² entries in every step.
    """
    needed = cg_bytes(X, n_columns) + shifted_bytes(X)
    many = needed > _LEAST_REFUSED
    return needed + (n_workers(X) * _TILE_ROOM if many else 0)


def _check_cg_memory(X, n_columns: int, budget: int) -> None:
    """Raise before a fit by conjugate gradients for which there is no memory."""
    needed = _cg_needs(X, n_columns)
    if needed <= max(budget, _LEAST_REFUSED):
        return
    vectors, rows = cg_bytes(X, n_columns), shifted_bytes(X)
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


def matrices_held(X: Array, dtype: str) -> int:
    """Return the least number of n × n matrices that a factorisation takes."""
    if nx.on_gpu(X) and nx.is_torch(X):  # in place; of float32 a copy is factored
        return 1 if dtype == "float64" else 2
    # Only NumPy's arrays are factored in place on the host, and CuPy's nowhere; a small
    # float32 matrix is factored in a float64 copy.
    small = dtype == "float32" and X.shape[0] < MIXED_FROM
    return 3 if nx.is_tensor(X) or small else 1


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
    """Return True if the rounding of a float32 kernel stays below the ridge 1/C.

    Rounding is a symmetric random matrix of norm about ε √n max|K|, with ε that of
    float32 or, where products are in it, of tf32; where it exceeds 1/C, H may be
    indefinite, and what is solved is noise.
    """
    return nx.product_epsilon(X) * X.shape[0] ** 0.5 * K_largest * C <= 0.5


# ----------------------------------------------------------------------------------
# Fit a least-squares SVM: from rows to coefficients, by the solver that is planned.
# ----------------------------------------------------------------------------------

# Columns that the preconditioner's factor grows by, at a time; and copies of these.
_STEP, _LEAST_STEP, _FACTOR_COPIES = 128, 8, 8
# Rows that an iterative solver holds out, together.
_HELD_OUT_ROWS = 2000
_HELD_OUT_SHARE = 0.05


class FitResult(NamedTuple):
    """A solution with the numbers of its held-out rows."""

    solution: LSSVMSolution
    loo_rows: np.ndarray
    plan: Plan
    history: dict[str, list]
    """Columns over the steps of an iterative solver; empty for a factorisation."""


def fit_ls_svm(
    data: RowData,
    *,
    C: float,
    solver: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    memory_budget: int | str | None = None,
    leave_one_out: int = 0,
    refine_tol: float = 0.0,
    rng: np.random.Generator,
    callback: Callable[[int, float], object] | None = None,
    watch: Callback | None = None,
    validation: Validation | None = None,
    **options,
) -> FitResult:
    """Fit a least-squares SVM of rows, with each of them as a column.

    Parameters
    ----------
    data : RowData
        Rows of the host travel to their device in blocks, for every tile of the kernel
        matrix that is computed.
    C : float
        H = K + I/C.
    solver : str, default="auto"
        ``"auto"``, ``"cholesky"``, ``"cg"`` or one of :data:`RANDOMIZED`.
    tol, max_iter : float, int
        Of the iterative solvers.
    memory_budget : int, str or None, default=None
    leave_one_out : int, default=0
        Of how many random rows decision values are wanted as ``loo_decision``: by
        models fitted without each of them (cholesky), or by one model fitted without a
        twentieth of the rows, at most 2,000 (the others).
    refine_tol : float, default=0.0
        Backward error with which a factorisation in float32 may be content.
    rng : numpy.random.Generator
        Draws those rows, the preconditioner's pivots and the blocks.
    callback : callable, default=None
        ``callback(step, relative_residual)`` after each step of an iterative solver.
    watch : callable, default=None
        ``watch(step, state)`` with a :class:`StepState`; a true result ends the fit.
    validation : Validation, default=None
        Rows whose error goes into the history of an iterative solver.
    **options
        Of :func:`solve_ls_svm_randomized`: ``block_size``, ``n_runs``, ``start``,
        ``safeguard``. Other solvers have no use for them.
    """
    kernel, given, Y, weight = data
    budget = budget_without_buffers(given, memory_budget)
    K_diagonal = kernel_diagonal(kernel, given)
    K_largest = _largest_entry(K_diagonal, weight)
    n_columns = (1 + Y.shape[1]) * (2 if leave_one_out else 1)
    limits = {"n_columns": n_columns, "tol": tol, "max_iter": max_iter}
    plan = plan_ls_svm(given, K_largest, C, solver, budget, **limits)
    X = nx.astype(given, plan.kernel_dtype)
    if X is not given:  # a copy of another precision
        budget = max(budget - resident_bytes(X), 1)
    data = data._replace(X=X)
    direct = plan.solver == "cholesky"
    n = X.shape[0]
    n_unseen = leave_one_out if direct else min(_n_held_out(n), leave_one_out)
    loo_rows = rng.permutation(n)[:n_unseen]
    shown, free = _watch(kernel, X, validation, watch, callback, budget)
    history: dict[str, list] = {}
    if direct:
        with few_threads_for(n):
            solution, plan = _fit_cholesky(data, C, plan, loo_rows, refine_tol, budget)
    elif plan.solver == "cg":
        recorder = Recorder(shown, 0)
        free -= cg_bytes(X, n_columns)
        operator, factor = _operator_and_factor(kernel, X, K_diagonal, free, rng)
        solution = solve_ls_svm_cg(
            operator.matmul,
            Y,
            C=C,
            sample_weight=weight,
            low_rank_factor=factor,
            held_out=nx.as_like(loo_rows, Y) if len(loo_rows) else None,
            rows_product=lambda rows, V: operator.part(rows=rows).matmul(V),
            tol=tol,
            max_iter=max_iter,
            recorder=recorder,
        )
        history = history_of([recorder])
    else:
        with few_threads_for(n):
            solution, history = solve_ls_svm_randomized(
                data,
                C=C,
                solver=plan.solver,
                rng=rng,
                memory_budget=free,
                held_out=loo_rows if len(loo_rows) else None,
                max_iter=max_iter,
                tol=tol,
                watch=shown,
                **options,
            )
    return FitResult(solution, loo_rows, plan, history)


def _largest_entry(K_diagonal: Array, sample_weight: Array | None) -> float:
    """Return a bound on the entries of S^½ K S^½, from the diagonal of K."""
    xp = nx.array_namespace(K_diagonal)
    largest = float(xp.max(xp.abs(K_diagonal)))
    if not math.isfinite(largest):
        raise ValueError(
            f"The kernel of some row with itself is {largest} in "
            f"{nx.dtype_name(K_diagonal)}; scale the data, for example with "
            "StandardScaler, or use float64."
        )
    if sample_weight is None:
        return largest
    return largest * float(xp.max(sample_weight))


def _n_held_out(n: int) -> int:
    """Return the number of rows an iterative solver holds out of n, at least one."""
    return min(_HELD_OUT_ROWS, max(int(_HELD_OUT_SHARE * n), 1))


def _watch(kernel, X, validation, watch, progress, budget: int) -> tuple[Watch, int]:
    """Return the history recorder of the steps, and the memory left by validation."""
    if validation is None:
        return Watch(watch, None, progress), budget
    if validation.K is not None:
        K, share = nx.astype(validation.K, "float64"), 0

        def products(V: Array) -> Array:
            return K @ V
    else:
        X_val = nx.astype(validation.X, nx.dtype_name(X))
        # Up to a quarter keeps the kernel of the validation rows between steps.
        whole = np.dtype(nx.dtype_name(X)).itemsize * X.shape[0] * X_val.shape[0]
        share = min(2 * whole, budget // 4)
        operator = KernelOperator(kernel, X_val, X, memory_budget=max(share, 1))

        def products(V: Array) -> Array:
            return operator.matmul(nx.astype(V, "float64"))

    def validate(dual_coef: Array, intercept: Array) -> float:
        return validation.error(products(dual_coef) + intercept[None, :])

    return Watch(watch, validate, progress), budget - share


def _fit_cholesky(
    data: RowData, C: float, plan: Plan, loo_rows, refine_tol: float, budget: int
) -> tuple[LSSVMSolution, Plan]:
    """Solve directly; in float64 where float32 rounds the kernel to an indefinite one.

    :func:`float32_is_enough` estimates the rounding; that of long inner products on a
    GPU, of a matrix of low rank, was seen to be larger. The rows for leave-one-out are
    moved to the end, and their coefficients back.
    """
    kernel, X, Y, weight = data
    others = np.setdiff1d(np.arange(X.shape[0]), loo_rows, assume_unique=True)
    order = np.concatenate([others, loo_rows])
    moves = not np.array_equal(order, np.arange(len(order)))
    if moves:
        X, Y = nx.rows_in_order(X, order), nx.take_rows(Y, order)
        weight = None if weight is None else nx.take_rows(weight, order)
    solution = None
    while solution is None:
        try:
            solution = solve_ls_svm(
                kernel(X),
                Y,
                C=C,
                sample_weight=weight,
                n_leave_one_out=len(loo_rows),
                precision=plan.precision,
                refine_tol=refine_tol,
                overwrite_K=True,
            )
        except NotPositiveDefiniteError:
            n_bytes = 8 * X.shape[0] ** 2 * matrices_held(X, "float64")
            if plan.kernel_dtype == "float64" or n_bytes > budget:
                raise
            X = nx.astype(X, "float64")
            reason = (
                f"{plan.reason} Rounded to float32 it is indefinite: it was computed "
                "again in float64."
            )
            plan = plan._replace(kernel_dtype="float64", reason=reason)
    if moves:
        dual_coef = nx.take_rows(solution.dual_coef, np.argsort(order))
        solution = solution._replace(dual_coef=dual_coef)
    return solution, plan


def _operator_and_factor(kernel, X, K_diagonal, budget: int, rng):
    """Return K and a low-rank factor, together within the budget."""
    n = X.shape[0]
    bytes_per_column = np.dtype(nx.dtype_name(X)).itemsize * n
    rank = min(preconditioner_rank(n), max(budget, 0) // 4 // bytes_per_column)

    def columns(rows: Array) -> Array:
        return kernel(X, nx.take_rows(X, rows))

    factor = None
    if rank > 0:
        K_diagonal = nx.astype(K_diagonal, nx.dtype_name(X))
        # A step holds its columns, copies of them in float64, and shifted rows.
        left = max(budget, 0) - rank * bytes_per_column
        step = min(max(left // (_FACTOR_COPIES * 8 * n), _LEAST_STEP), _STEP)
        factor = pivoted_factor(
            columns, K_diagonal, rank=rank, rng=rng, block_size=step
        ).F
        release_freed_memory()
    # An eighth is for what is not counted; however little is left: tile by tile.
    rest = max(budget - budget // 8 - rank * bytes_per_column, 1)
    # In the kernel's own precision: a relative residual of 1e-3 needs no more.
    operator = KernelOperator(kernel, X, memory_budget=rest, widen=False)
    return operator, factor


def preconditioner_rank(n: int) -> int:
    """Return the rank of the preconditioner for n rows.

    A tenth of the rows, at most 5,000: on 10,000 digits at C = 1e4, 800 / 2,000 / 4,000
    columns took 286 / 190 / 177 steps to a residual of 1e-2, and a step costs n² t
    where a column costs n r.
    """
    return min(n, max(64, min(n // 10, 5000)))
