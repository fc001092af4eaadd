"""The LS-SVM system solved by conjugate gradients: K is known by its products only.

The same elimination of the intercept and the same treatment of weights as in
``_ls_svm``; the preconditioner is a low-rank factor K ≈ F Fᵀ, by which

    (F Fᵀ + I/C)⁻¹ r = C (r − F (FᵀF + I/C)⁻¹ Fᵀ r)            (Woodbury).
"""

from collections.abc import Callable

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    dtype_name,
)
from kaucus.solvers._cg import conjugate_gradient
from kaucus.solvers._result import LSSVMSolution, SolveInfo
from kaucus.solvers._scaling import eliminate_intercept, loo_residuals, scale_targets


def solve_ls_svm_cg(
    matvec: Callable[[Array], Array],
    Y: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    low_rank_factor: Array | None = None,
    leave_one_out: Array | None = None,
    left_out: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    callback: Callable[[int, float], object] | None = None,
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
    leave_one_out : integer array of shape (m,), default=None
        Rows whose leave-one-out decision values are wanted; each is one more
        right-hand side.
    left_out : array of shape (n,), default=None
        Share of each row's weight that is left out; None means all of it.
    tol : float, default=1e-6
        Stop at this relative residual.
    max_iter : int, default=1000
    callback : callable, default=None
        ``callback(step, relative_residual)``; a true result ends the iteration.

    Returns
    -------
    LSSVMSolution
    """
    xp = array_namespace(Y)
    targets = scale_targets(Y, sample_weight)
    root = targets.root
    columns = [targets.u, targets.Y]
    if leave_one_out is not None:
        columns.append(_unit_columns(leave_one_out, targets.u))

    def scaled(V: Array) -> Array:
        return V if root is None else V * root[:, None]

    result = conjugate_gradient(
        lambda V: scaled(matvec(scaled(V))) + V / C,
        xp.concat(columns, axis=1),
        tol=tol,
        max_iter=max_iter,
        precondition=_woodbury(low_rank_factor, root, C),
        callback=callback,
    )
    n_targets = Y.shape[1]
    eta, nu = result.x[:, :1], result.x[:, 1 : 1 + n_targets]
    coef = eliminate_intercept(targets, eta, nu)
    loo = None
    if leave_one_out is not None:
        unit_solutions = xp.take(result.x[:, 1 + n_targets :], leave_one_out, axis=0)
        residuals = loo_residuals(
            coef,
            xp.linalg.diagonal(unit_solutions),
            eta,
            targets,
            C=C,
            rows=leave_one_out,
            left_out=left_out,
        )
        loo = astype(xp.take(Y, leave_one_out, axis=0), "float64") - residuals
    info = SolveInfo(
        "cg",
        n_iter=result.n_iter,
        backward_error=result.backward_error,
        converged=result.converged,
        interrupted=result.interrupted,
    )
    return LSSVMSolution(coef.dual_coef, coef.intercept, loo, info)


def _unit_columns(rows: Array, like: Array) -> Array:
    """Return the columns of the identity that belong to ``rows``, (n, m)."""
    xp = array_namespace(like)
    all_rows = xp.arange(like.shape[0], dtype=rows.dtype, device=device_of(like))
    return xp.astype(all_rows[:, None] == rows[None, :], like.dtype)


def _woodbury(F: Array | None, root: Array | None, C: float):
    """Return r -> (S^½ F Fᵀ S^½ + I/C)⁻¹ r, or None without a factor."""
    if F is None:
        return None
    xp = array_namespace(F)
    dtype = dtype_name(F)
    if root is not None:
        F = F * as_like(root, F, dtype=dtype)[:, None]
    small = astype(F.T @ F, "float64")  # (r, r)
    L = cholesky_with_jitter(add_to_diagonal(xp.asarray(small, copy=True), 1 / C)).L

    def precondition(R: Array) -> Array:
        inner = cho_solve(L, astype(F.T @ astype(R, dtype), "float64"))
        return C * (R - astype(F @ astype(inner, dtype), "float64"))

    return precondition
