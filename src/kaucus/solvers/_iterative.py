"""The LS-SVM system solved by conjugate gradients: K is known by its products only.

The same elimination of the intercept and the same treatment of weights as in
``_ls_svm``; the preconditioner is a low-rank factor K ≈ F Fᵀ, by which

    (F Fᵀ + I/C)⁻¹ r = C (r − F (FᵀF + I/C)⁻¹ Fᵀ r)            (Woodbury).

Leave-one-out values need the diagonal of H⁻¹, which an iteration does not have. In
their place some rows are held out: the model without them is a second problem with
the weight 0 for those rows, solved beside the first by the same products with K.
"""

from collections.abc import Callable

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    astype,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    dtype_name,
    row_blocks,
    take_rows,
)
from kaucus.solvers._cg import cg_info, conjugate_gradient
from kaucus.solvers._history import Recorder
from kaucus.solvers._result import LSSVMSolution
from kaucus.solvers._scaling import (
    Eliminated,
    ScaledTargets,
    eliminate_intercept,
    scale_targets,
)

# Bytes of one block of the preconditioner's rows.
_BLOCK_BYTES = 4 * 2**20


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
    xp = array_namespace(Y)
    ones = xp.ones(Y.shape[0], dtype=xp.float64, device=device_of(Y))
    weight = ones if sample_weight is None else astype(sample_weight, "float64")
    keep = ones if held_out is None else ones - _indicator(held_out, ones)
    problems = [scale_targets(Y, weight)]
    if held_out is not None:
        problems.append(scale_targets(Y, weight * keep))
    B = xp.concat([part for p in problems for part in (p.u, p.Y)], axis=1)
    width = 1 + Y.shape[1]
    roots = xp.concat([p.u for p in problems], axis=1)  # (n, problems)
    masks = xp.astype(roots > 0, xp.float64)
    inverse = _woodbury(low_rank_factor, problems[0].u, C)
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
            values = take_rows(matvec(coef), held_out)
        else:  # far less than a step, which after Ctrl-C would be waited for
            values = rows_product(held_out, coef)
        unseen = values + intercept[None, :]
    model = models[0]
    info = cg_info(result, "cg", max_iter)
    return LSSVMSolution(model.dual_coef, model.intercept, unseen, info)


def _times(factors: Array, V: Array) -> Array:
    """Multiply the columns of each problem in V by the problem's factors of rows."""
    xp = array_namespace(V)
    n, n_problems = factors.shape
    blocks = xp.reshape(V, (n, n_problems, -1)) * factors[:, :, None]
    return xp.reshape(blocks, V.shape)


def _observer(recorder: Recorder, problem: ScaledTargets, width: int):
    """Return what tells the recorder of a step of conjugate gradients."""

    def observe(step: int, error: float, X: Array) -> bool:
        def coefficients() -> tuple[Array, Array]:
            solved = eliminate_intercept(problem, X[:, :1], X[:, 1:width])
            return solved.dual_coef, solved.intercept

        return recorder.record(step, error, float("nan"), coefficients)

    return observe


def _indicator(rows: Array, like: Array) -> Array:
    """Return 1 for the given rows and 0 for the others, (n,)."""
    xp = array_namespace(like)
    all_rows = xp.arange(like.shape[0], dtype=rows.dtype, device=device_of(like))
    positions = xp.searchsorted(xp.sort(rows), all_rows)
    found = take_rows(xp.sort(rows), xp.clip(positions, max=rows.shape[0] - 1))
    return xp.astype(found == all_rows, like.dtype)


def _woodbury(F: Array | None, u: Array, C: float):
    """Return r -> (S^½ F Fᵀ S^½ + I/C)⁻¹ r with u = S^½ 1, or None without F.

    S^½ F is never made: F may fill most of the memory budget.
    """
    if F is None:
        return None
    dtype = dtype_name(F)
    small = add_to_diagonal(_weighted_gram(F, u), 1 / C)
    L = cholesky_with_jitter(small, overwrite=True).L

    def precondition(R: Array) -> Array:
        inner = cho_solve(L, astype(F.T @ astype(u * R, dtype), "float64"))
        return C * (R - u * astype(F @ astype(inner, dtype), "float64"))

    return precondition


def _weighted_gram(F: Array, u: Array) -> Array:
    """Return Fᵀ S F, (r, r), summed in float64 over blocks of rows."""
    xp = array_namespace(F)
    rank = F.shape[1]
    total = xp.zeros((rank, rank), dtype=xp.float64, device=device_of(F))
    for s in row_blocks(F.shape[0], 8 * rank, _BLOCK_BYTES):
        block = F[s, :] * astype(u[s, :], dtype_name(F))
        total += astype(block.T @ block, "float64")
    return total
