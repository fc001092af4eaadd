"""Conjugate gradients for many right-hand sides at once.

Solves ``A x = b`` for symmetric positive definite ``A``, known by its action only,
with one scalar step per column; the columns share every product with ``A``.

Reference: M. R. Hestenes, E. Stiefel, J. Res. Nat. Bur. Stand. 49, 409 (1952); the
stopping test is the normwise backward error of J. L. Rigal, J. Gaches, J. ACM 14,
543 (1967).

The LS-SVM system has its intercept eliminated, and its weights are a scaling, as in
``_direct``; the preconditioner is a low-rank factor K ≈ F Fᵀ, by which

    (F Fᵀ + I/C)⁻¹ r = C (r − F (FᵀF + I/C)⁻¹ Fᵀ r)            (Woodbury).

Leave-one-out values need the diagonal of H⁻¹, which an iteration does not have. In
their place some rows are held out: the model without them is a second problem with
the weight 0 for those rows, solved together with the first by the same products.
"""

from collections.abc import Callable

from kaucus._array import namespace as nx
from kaucus._array.blocks import row_blocks
from kaucus._array.linalg import add_to_diagonal, cho_solve, cholesky_with_jitter
from kaucus._array.namespace import Array
from kaucus.solvers._system import (
    CGResult,
    Eliminated,
    LSSVMSolution,
    Recorder,
    ScaledTargets,
    SolveInfo,
    eliminate_intercept,
    scale_problems,
)


def conjugate_gradient(
    matvec: Callable[[Array], Array],
    B: Array,
    *,
    tol: float = 1e-6,
    max_iter: int = 200,
    operator_norm: float = 0.0,
    precondition: Callable[[Array], Array] | None = None,
    callback: Callable[[int, float], object] | None = None,
    observe: Callable[[int, float, Array], object] | None = None,
) -> CGResult:
    """Solve ``A X = B`` given ``V -> A V``.

    Parameters
    ----------
    matvec : callable
        Returns ``A @ V`` for ``V`` of shape (n, t).
    B : array of shape (n, t)
        Right-hand sides. The iteration runs in their precision.
    tol : float, default=1e-6
        Stop when ‖b − A x‖ ≤ tol (‖b‖ + operator_norm ‖x‖) for each column.
    max_iter : int, default=200
    operator_norm : float, default=0.0
        An estimate of ‖A‖. With 0 the test is the relative residual.
    precondition : callable, default=None
        ``R -> M⁻¹ R`` for a symmetric positive definite M near A.
    callback : callable, default=None
        Called as ``callback(step, backward_error)`` after each step; a true result
        ends the iteration.
    observe : callable, default=None
        The same with the iterate: ``observe(step, backward_error, X)``.

    Returns
    -------
    CGResult
        The last iterate.

    Raises
    ------
    ValueError
        If ``max_iter`` is less than 1.
    """
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1.")
    xp = nx.array_namespace(B)
    precondition = precondition or (lambda R: R)
    b_norms = _column_norms(B)
    X, R = xp.zeros_like(B), B
    Z = precondition(R)
    P, rz = Z, xp.sum(R * Z, axis=0)
    error = _backward_error(R, X, b_norms, operator_norm)
    n_iter = 0
    # A step at least, unless B = 0: no solution is worth nothing, whatever tol.
    while (error > tol or n_iter == 0 < error) and n_iter < max_iter:
        AP = matvec(P)
        # A column that is solved has P = 0: its step is 0 / 0, taken as 0.
        alpha = _ratio(rz, xp.sum(P * AP, axis=0))
        X, R, n_iter = X + alpha * P, R - alpha * AP, n_iter + 1
        error = _backward_error(R, X, b_norms, operator_norm)
        if callback is not None and callback(n_iter, error):
            break
        if observe is not None and observe(n_iter, error, X):
            break
        if error <= tol:  # before another use of the preconditioner
            break
        Z = precondition(R)
        rz, rz_old = xp.sum(R * Z, axis=0), rz
        P = Z + _ratio(rz, rz_old) * P
    return CGResult(X, error, n_iter, error <= tol)


def _column_norms(R: Array) -> Array:
    xp = nx.array_namespace(R)
    return xp.linalg.vector_norm(R, axis=0)


def _backward_error(R: Array, X: Array, b_norms: Array, norm: float) -> float:
    xp = nx.array_namespace(R)
    scale = b_norms + norm * _column_norms(X)
    return float(xp.max(_ratio(_column_norms(R), scale)))


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0."""
    xp = nx.array_namespace(a)
    zero = b == 0
    return xp.where(zero, xp.zeros_like(a), a / xp.where(zero, xp.ones_like(b), b))


# ---- a preconditioner of low rank ----------------------------------------------------


# Bytes of one block of the factor's rows.
_BLOCK_BYTES = 4 * 2**20


def low_rank_inverse(F: Array, rho: float, u: Array) -> Callable[[Array], Array]:
    """Return a function that multiplies by (S^½ F Fᵀ S^½ + ρ I)⁻¹, with u = S^½ 1.

    Parameters
    ----------
    F : array of shape (n, r)
    rho : float
    u : array of shape (n, 1)

    Notes
    -----
    By Woodbury's formula, (r − S^½ F (FᵀSF + ρ I)⁻¹ Fᵀ S^½ r) / ρ. S^½ F is never made:
    F may fill most of the memory budget.
    """
    dtype = nx.dtype_name(F)
    small = add_to_diagonal(_weighted_gram(F, u), rho)
    L = cholesky_with_jitter(small, overwrite=True).L

    def solve(R: Array) -> Array:
        inner = cho_solve(L, nx.astype(F.T @ nx.astype(u * R, dtype), "float64"))
        return (R - u * nx.astype(F @ nx.astype(inner, dtype), "float64")) / rho

    return solve


def _weighted_gram(F: Array, u: Array) -> Array:
    """Return Fᵀ S F, (r, r), summed in float64 over blocks of rows."""
    xp = nx.array_namespace(F)
    rank = F.shape[1]
    total = xp.zeros((rank, rank), dtype=xp.float64, device=nx.device_of(F))
    for s in row_blocks(F.shape[0], 8 * rank, _BLOCK_BYTES):
        block = F[s, :] * nx.astype(u[s, :], nx.dtype_name(F))
        total += nx.astype(block.T @ block, "float64")
    return total


# ---- the LS-SVM system ---------------------------------------------------------------


def solve_ls_svm_cg(
    matvec: Callable[[Array], Array],
    Y: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    low_rank_factor: Array | None = None,
    held_out: Array | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callable[[int, float], object] | None = None,
    recorder: Recorder | None = None,
    rows_product: Callable[[Array, Array], Array] | None = None,
) -> LSSVMSolution:
    """Solve the bordered LS-SVM system, given ``V -> K V``.

    Parameters
    ----------
    matvec : callable
        Returns ``K @ V`` for ``V`` of shape (n, s).
    Y : array of shape (n, t)
    C : float
        H = K + I/C.
    sample_weight : array of shape (n,), default=None
    low_rank_factor : array of shape (n, r), default=None
        F of the preconditioner, with F Fᵀ near K.
    held_out : integer array of shape (m,), default=None
        Rows for which decision values of a model fitted without them are wanted, as
        ``loo_decision``. It doubles the right-hand sides.
    tol : float, default=1e-3
        Stop at this relative residual.
    max_iter : int, default=1000
    callback : callable, default=None
        ``callback(step, relative_residual)``; a true result ends the iteration.
    recorder : Recorder, default=None
        Is told of every step, with the coefficients; it may end the iteration too.
    rows_product : callable, default=None
        Returns ``K[rows] @ V``, for ``held_out``; None takes some rows of ``K @ V``.

    Returns
    -------
    LSSVMSolution
    """
    xp = nx.array_namespace(Y)
    problems = scale_problems(Y, sample_weight, held_out)
    B = xp.concat([part for p in problems for part in (p.u, p.Y)], axis=1)
    width = 1 + Y.shape[1]
    roots = xp.concat([p.u for p in problems], axis=1)  # (n, problems)
    masks = xp.astype(roots > 0, xp.float64)
    inverse = None
    if low_rank_factor is not None:
        inverse = low_rank_inverse(low_rank_factor, 1 / C, problems[0].u)
    result = conjugate_gradient(
        lambda V: _times(roots, matvec(_times(roots, V))) + V / C,
        B,
        tol=tol,
        max_iter=max_iter,
        # Held-out rows stay 0: projected, the preconditioner is that of the second
        # problem too.
        precondition=inverse and (lambda R: _times(masks, inverse(_times(masks, R)))),
        callback=callback,
        observe=recorder and _observer(recorder, problems[0], width),
    )
    models: list[Eliminated] = []
    for k, problem in enumerate(problems):
        Z = result.x[:, k * width : (k + 1) * width]
        models.append(eliminate_intercept(problem, Z[:, :1], Z[:, 1:]))
    unseen = None
    if held_out is not None:
        coef, intercept = models[1].dual_coef, models[1].intercept
        if rows_product is None:
            values = nx.take_rows(matvec(coef), held_out)
        else:  # far less than a step, which after Ctrl-C would be waited for
            values = rows_product(held_out, coef)
        unseen = values + intercept[None, :]
    model = models[0]
    stop = "residual" if result.converged else "max_iter"
    if not result.converged and result.n_iter < max_iter:
        stop = "callback"
    _, error, n_iter, converged = result
    info = SolveInfo("cg", "float64", n_iter, error, converged=converged, stop=stop)
    return LSSVMSolution(model.dual_coef, model.intercept, unseen, info)


def _times(factors: Array, V: Array) -> Array:
    """Multiply the columns of each problem in V by the problem's factors of rows."""
    xp = nx.array_namespace(V)
    n, n_problems = factors.shape
    blocks = xp.reshape(V, (n, n_problems, -1)) * factors[:, :, None]
    return xp.reshape(blocks, V.shape)


def _observer(recorder: Recorder, problem: ScaledTargets, width: int):
    """Return a callback for each step that passes the coefficients to the recorder."""

    def observe(step: int, error: float, X: Array) -> bool:
        def coefficients() -> tuple[Array, Array]:
            solved = eliminate_intercept(problem, X[:, :1], X[:, 1:width])
            return solved.dual_coef, solved.intercept

        return recorder.record(step, error, float("nan"), coefficients)

    return observe
