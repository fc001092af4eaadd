"""Conjugate gradients for many right-hand sides at once.

Solves ``A x = b`` for symmetric positive definite ``A``, known by its action only,
with one scalar step per column; the columns share every product with ``A``.

Reference: M. R. Hestenes, E. Stiefel, J. Res. Nat. Bur. Stand. 49, 409 (1952); the
stopping test is the normwise backward error of J. L. Rigal, J. Gaches, J. ACM 14,
543 (1967).
"""

from collections.abc import Callable

from kaucus.backend import Array, array_namespace, random_normal
from kaucus.solvers._result import CGResult, SolveInfo


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
        The last iterate. Ctrl-C ends the iteration after its first step and is told
        by ``interrupted``; before that there is nothing to keep, and it is raised.

    Raises
    ------
    ValueError
        If ``max_iter`` is less than 1.
    """
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter} must be at least 1.")
    xp = array_namespace(B)
    precondition = precondition or (lambda R: R)
    b_norms = _column_norms(B)
    X, R = xp.zeros_like(B), B
    Z = precondition(R)
    P, rz = Z, xp.sum(R * Z, axis=0)
    error = _backward_error(R, X, b_norms, operator_norm)
    n_iter, interrupted = 0, False
    # A step at least, unless B = 0: no solution is worth nothing, whatever tol.
    while (error > tol or n_iter == 0 < error) and n_iter < max_iter:
        try:
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
        except KeyboardInterrupt:
            if n_iter == 0:
                raise
            error = _backward_error(R, X, b_norms, operator_norm)
            interrupted = True
            break
    return CGResult(X, error, n_iter, error <= tol, interrupted)


def cg_info(result: CGResult, solver: str, max_iter: int, **more) -> SolveInfo:
    """Return how conjugate gradients ended; ``more`` are other fields of SolveInfo."""
    stop = "residual" if result.converged else "max_iter"
    if result.interrupted:
        stop = "interrupted"
    elif not result.converged and result.n_iter < max_iter:
        stop = "callback"
    return SolveInfo(
        solver,
        n_iter=result.n_iter,
        backward_error=result.backward_error,
        converged=result.converged,
        interrupted=result.interrupted,
        stop=stop,
        **more,
    )


def operator_norm(matvec: Callable[[Array], Array], like: Array, rng) -> float:
    """Estimate ‖A‖ from below by three steps of the power method.

    The start is a constant vector plus noise: kernels are mostly positive, so their
    first eigenvector is nearly constant and three steps come within a few percent.
    """
    xp = array_namespace(like)
    v = xp.ones_like(like[:, :1]) + 0.5 * random_normal(rng, (like.shape[0], 1), like)
    norm = 0.0
    for _ in range(3):
        v = v / xp.linalg.vector_norm(v)
        v = matvec(v)
        norm = max(norm, float(xp.linalg.vector_norm(v)))
        if norm == 0.0:
            break
    return norm


def _column_norms(R: Array) -> Array:
    xp = array_namespace(R)
    return xp.linalg.vector_norm(R, axis=0)


def _backward_error(R: Array, X: Array, b_norms: Array, norm: float) -> float:
    xp = array_namespace(R)
    scale = b_norms + norm * _column_norms(X)
    return float(xp.max(_ratio(_column_norms(R), scale)))


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, and 0 where b is 0."""
    xp = array_namespace(a)
    zero = b == 0
    return xp.where(zero, xp.zeros_like(a), a / xp.where(zero, xp.ones_like(b), b))
