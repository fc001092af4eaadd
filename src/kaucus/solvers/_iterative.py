"""The LS-SVM system solved by conjugate gradients: K is known by its products only.

The same elimination of the intercept and the same treatment of weights as in
``_ls_svm``; the preconditioner is a low-rank factor K ≈ F Fᵀ, by which

    (F Fᵀ + I/C)⁻¹ r = C (r − F (FᵀF + I/C)⁻¹ Fᵀ r)            (Woodbury).

Leave-one-out values need the diagonal of H⁻¹, which an iteration does not have. In
their place some rows are held out: the model without them is a second problem with
the weight 0 for those rows, solved together with the first by the same products.
"""

from collections.abc import Callable

from kaucus.backend import (
    Array,
    array_namespace,
    take_rows,
)
from kaucus.solvers._cg import cg_info, conjugate_gradient
from kaucus.solvers._history import Recorder
from kaucus.solvers._result import LSSVMSolution
from kaucus.solvers._scaling import (
    Eliminated,
    ScaledTargets,
    eliminate_intercept,
    scale_problems,
)
from kaucus.solvers._woodbury import low_rank_inverse


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
    """Return a callback for each step that passes the coefficients to the recorder."""

    def observe(step: int, error: float, X: Array) -> bool:
        def coefficients() -> tuple[Array, Array]:
            solved = eliminate_intercept(problem, X[:, :1], X[:, 1:width])
            return solved.dual_coef, solved.intercept

        return recorder.record(step, error, float("nan"), coefficients)

    return observe
