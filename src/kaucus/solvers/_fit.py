"""Fit a least-squares SVM: from rows to coefficients, by the solver that is planned."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    NotPositiveDefiniteError,
    array_namespace,
    as_like,
    astype,
    budget_without_buffers,
    dtype_name,
    few_threads_for,
    itemsize,
    release_freed_memory,
    rows_in_order,
    take_rows,
)
from kaucus.kernels import Kernel, KernelOperator, kernel_diagonal
from kaucus.representatives import pivoted_factor
from kaucus.solvers._cg import solve_ls_svm_cg
from kaucus.solvers._ls_svm import solve_ls_svm
from kaucus.solvers._plan import Plan, cg_bytes, matrices_held, plan_ls_svm
from kaucus.solvers._randomized import solve_ls_svm_randomized
from kaucus.solvers._result import (
    Callback,
    LSSVMSolution,
    Recorder,
    Validation,
    Watch,
    history_of,
)

# Columns that the preconditioner's factor grows by, at a time; and copies of these.
_STEP, _LEAST_STEP, _FACTOR_COPIES = 128, 8, 8
# Rows whose unseen decision values the temperature of the probabilities is fitted on:
# left out one by one where the factor gives that for nothing, else held out together.
_LOO_ROWS = 2000
_HELD_OUT_ROWS = 2000
_HELD_OUT_SHARE = 0.05


class FitResult(NamedTuple):
    """A solution, and the rows whose unseen decision values it holds."""

    solution: LSSVMSolution
    loo_rows: np.ndarray
    plan: Plan
    history: dict[str, list]
    """Columns over the steps of an iterative solver; empty for a factorisation."""


def fit_ls_svm(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    solver: str = "auto",
    tol: float = 1e-3,
    max_iter: int = 1000,
    memory_budget: int | str | None = None,
    leave_one_out: bool = False,
    refine_tol: float = 0.0,
    rng: np.random.Generator,
    callback: Callable[[int, float], object] | None = None,
    watch: Callback | None = None,
    validation: Validation | None = None,
    **options,
) -> FitResult:
    """Fit a least-squares SVM on the rows of ``X``.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
        Rows of the host travel to their device in blocks, for every tile of the kernel
        matrix that is computed.
    Y : array of shape (n, t)
        Targets, in the library and on the device of ``X`` (NumPy for CSR).
    C : float
        H = K + I/C.
    sample_weight : array of shape (n,), default=None
    solver : str, default="auto"
        ``"auto"``, ``"cholesky"``, ``"cg"`` or one of :data:`RANDOMIZED`.
    tol, max_iter : float, int
        Of the iterative solvers.
    memory_budget : int, str or None, default=None
    leave_one_out : bool, default=False
        Whether decision values of some random rows are wanted as ``loo_decision``: by
        models fitted without each of them (cholesky), or by one model fitted without a
        twentieth of the rows (the others).
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
    budget = budget_without_buffers(X, memory_budget)
    given = X
    K_diagonal = kernel_diagonal(kernel, X)
    K_largest = _largest_entry(K_diagonal, sample_weight)
    n_columns = (1 + Y.shape[1]) * (2 if leave_one_out else 1)
    limits = {"n_columns": n_columns, "tol": tol, "max_iter": max_iter}
    plan = plan_ls_svm(X, K_largest, C, solver, budget, **limits)
    X = astype(X, plan.kernel_dtype)
    if X is not given and not isinstance(X, HostRows):  # a copy of another precision
        budget = max(budget - X.shape[0] * X.shape[1] * itemsize(X), 1)
    direct = plan.solver == "cholesky"
    n = X.shape[0]
    n_unseen = _LOO_ROWS if direct else _n_held_out(n)
    loo_rows = rng.permutation(n)[: n_unseen if leave_one_out else 0]
    shown, free = _watch(kernel, X, validation, watch, callback, budget)
    history: dict[str, list] = {}
    if direct:
        with few_threads_for(n):
            solution, plan = _fit_cholesky_safely(
                kernel, X, Y, C, sample_weight, plan, loo_rows, refine_tol, budget
            )
    elif plan.solver == "cg":
        recorder = Recorder(shown, 0)
        free -= cg_bytes(X, n_columns)
        limits = {"tol": tol, "max_iter": max_iter, "recorder": recorder}
        problem = (kernel, X, Y, C, sample_weight, loo_rows)
        solution = _fit_cg(*problem, K_diagonal, free, rng, limits)
        history = history_of([recorder])
    else:
        with few_threads_for(n):
            solution, history = solve_ls_svm_randomized(
                kernel,
                X,
                Y,
                C=C,
                solver=plan.solver,
                rng=rng,
                memory_budget=free,
                sample_weight=sample_weight,
                held_out=loo_rows if len(loo_rows) else None,
                max_iter=max_iter,
                tol=tol,
                watch=shown,
                **options,
            )
    return FitResult(solution, loo_rows, plan, history)


def _largest_entry(K_diagonal: Array, sample_weight: Array | None) -> float:
    """Return a bound on the entries of S^½ K S^½, from the diagonal of K."""
    xp = array_namespace(K_diagonal)
    largest = float(xp.max(xp.abs(K_diagonal)))
    if not math.isfinite(largest):
        raise ValueError(
            f"The kernel of some row with itself is {largest} in "
            f"{dtype_name(K_diagonal)}; scale the data, for example with "
            "StandardScaler, or use float64."
        )
    if sample_weight is None:
        return largest
    return largest * float(xp.max(sample_weight))


def _n_held_out(n: int) -> int:
    """Return how many of n rows an iterative solver holds out: one at least."""
    return min(_HELD_OUT_ROWS, max(int(_HELD_OUT_SHARE * n), 1))


def _watch(kernel, X, validation, watch, progress, budget: int) -> tuple[Watch, int]:
    """Return who is told of a step, and the memory that validation leaves."""
    if validation is None:
        return Watch(watch, None, progress), budget
    if validation.K is not None:
        K, share = astype(validation.K, "float64"), 0

        def products(V: Array) -> Array:
            return K @ V
    else:
        X_val = astype(validation.X, dtype_name(X))
        # Up to a quarter keeps the kernel of the validation rows between steps.
        whole = np.dtype(dtype_name(X)).itemsize * X.shape[0] * X_val.shape[0]
        share = min(2 * whole, budget // 4)
        operator = KernelOperator(kernel, X_val, X, memory_budget=max(share, 1))

        def products(V: Array) -> Array:
            return operator.matmul(astype(V, "float64"))

    def validate(dual_coef: Array, intercept: Array) -> float:
        return validation.error(products(dual_coef) + intercept[None, :])

    return Watch(watch, validate, progress), budget - share


def _fit_cholesky_safely(
    kernel, X, Y, C, weight, plan: Plan, loo_rows, refine_tol: float, budget: int
) -> tuple[LSSVMSolution, Plan]:
    """Solve directly; in float64 where float32 rounds the kernel to an indefinite one.

    :func:`float32_is_enough` estimates the rounding; that of long inner products on a
    GPU, of a matrix of low rank, was seen to be larger.
    """
    try:
        return _fit_cholesky(kernel, X, Y, C, weight, plan, loo_rows, refine_tol), plan
    except NotPositiveDefiniteError:
        wide = astype(X, "float64")
        matrices = matrices_held(wide, "float64")
        if plan.kernel_dtype == "float64" or matrices * 8 * X.shape[0] ** 2 > budget:
            raise
    plan = plan._replace(
        kernel_dtype="float64",
        reason=f"{plan.reason} Rounded to float32 it is indefinite: it was computed "
        "again in float64.",
    )
    return _fit_cholesky(kernel, wide, Y, C, weight, plan, loo_rows, refine_tol), plan


def _fit_cholesky(
    kernel, X, Y, C, weight, plan: Plan, loo_rows: np.ndarray, refine_tol: float
):
    """Solve directly, with the rows for leave-one-out moved to the end and back."""
    others = np.setdiff1d(np.arange(X.shape[0]), loo_rows, assume_unique=True)
    order = np.concatenate([others, loo_rows])
    moves = not np.array_equal(order, np.arange(len(order)))
    if moves:
        X, Y = rows_in_order(X, order), take_rows(Y, order)
        weight = None if weight is None else take_rows(weight, order)
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
    if not moves:
        return solution
    dual_coef = take_rows(solution.dual_coef, np.argsort(order))
    return solution._replace(dual_coef=dual_coef)


def _fit_cg(
    kernel, X, Y, C, sample_weight, loo_rows, K_diagonal, free: int, rng, limits
) -> LSSVMSolution:
    """Solve by conjugate gradients, with as much of K kept as there is memory for."""
    operator, factor = _operator_and_factor(kernel, X, K_diagonal, free, rng)
    return solve_ls_svm_cg(
        operator.matmul,
        Y,
        C=C,
        sample_weight=sample_weight,
        low_rank_factor=factor,
        held_out=as_like(loo_rows, Y) if len(loo_rows) else None,
        rows_product=lambda rows, V: operator.part(rows=rows).matmul(V),
        **limits,
    )


def _operator_and_factor(kernel, X, K_diagonal, budget: int, rng):
    """Return K and a low-rank factor of it, together within the budget."""
    n = X.shape[0]
    bytes_per_column = np.dtype(dtype_name(X)).itemsize * n
    rank = min(preconditioner_rank(n), max(budget, 0) // 4 // bytes_per_column)

    def columns(rows: Array) -> Array:
        return kernel(X, take_rows(X, rows))

    factor = None
    if rank > 0:
        K_diagonal = astype(K_diagonal, dtype_name(X))
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
