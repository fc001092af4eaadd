"""Every C from one eigendecomposition, with leave-one-out values in closed form.

With S^½ K S^½ = U Λ Uᵀ,  H⁻¹ = U (Λ + I/C)⁻¹ Uᵀ for every C: after one decomposition,
each C costs n² t multiplications, and the leave-one-out decision values (see
``_scaling``) come with it, without a refit.

Reference: G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of
sparse least-squares support vector machines", Neural Networks 17, 1467 (2004).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    NotPositiveDefiniteError,
    array_namespace,
    astype,
    budget_without_buffers,
    eigh,
    epsilon,
    few_threads_for,
    format_bytes,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._result import LSSVMSolution, SolveInfo
from kaucus.solvers._scaling import (
    ScaledTargets,
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
)
from kaucus.solvers._scores import Score


class LSSVMSpectrum(NamedTuple):
    """An LS-SVM problem, decomposed: everything but C."""

    eigenvalues: Array
    """Λ, ascending, (n,)."""
    eigenvectors: Array
    """U, (n, n)."""
    projected: Array
    """Uᵀ [u, S^½ Y], (n, 1 + t)."""
    targets: ScaledTargets
    Y: Array


def decompose_ls_svm(
    K: Array, Y: Array, *, sample_weight: Array | None = None
) -> LSSVMSpectrum:
    """Decompose an LS-SVM problem in float64.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric positive semidefinite kernel matrix.
    Y : array of shape (n, t)
    sample_weight : array of shape (n,), default=None

    Raises
    ------
    NotPositiveDefiniteError
        If an eigenvalue is negative by more than the rounding of ``K``.
    """
    xp = array_namespace(K, Y)
    targets = scale_targets(Y, sample_weight)
    H = scale_matrix(astype(K, "float64"), targets.root)
    eigenvalues, U = eigh(H)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -10 * K.shape[0] * epsilon(K) * abs(largest):
        raise NotPositiveDefiniteError(
            f"The kernel matrix has the eigenvalue {smallest:.3e} (the largest is "
            f"{largest:.3e}); a least-squares SVM needs a positive semidefinite one."
        )
    eigenvalues = xp.maximum(eigenvalues, xp.zeros_like(eigenvalues))
    projected = U.T @ xp.concat([targets.u, targets.Y], axis=1)
    return LSSVMSpectrum(eigenvalues, U, projected, targets, astype(Y, "float64"))


def solve_at(
    spectrum: LSSVMSpectrum, C: float, *, left_out: Array | None = None
) -> LSSVMSolution:
    """Solve for one C; leave-one-out decision values of all rows are included.

    ``left_out`` is the share of each row's weight that is left out, (n,); None means
    all of it.
    """
    inverse = 1 / (spectrum.eigenvalues + 1 / C)  # (n,)
    U, targets = spectrum.eigenvectors, spectrum.targets
    Z = U @ (inverse[:, None] * spectrum.projected)  # H⁻¹ [u, S^½ Y]
    eta, nu = Z[:, :1], Z[:, 1:]
    coef = eliminate_intercept(targets, eta, nu)
    inverse_diagonal = (U**2) @ inverse
    residuals = loo_residuals(
        coef, inverse_diagonal, eta, targets, C=C, left_out=left_out
    )
    return LSSVMSolution(
        coef.dual_coef, coef.intercept, spectrum.Y - residuals, SolveInfo("eigh")
    )


# ---- the best kernel and C -----------------------------------------------------------


# K in float64, its eigenvectors, LAPACK's work space of two more, and their squares.
_MATRICES = 5


class LOOSearch(NamedTuple):
    """What was tried, and the best of it."""

    scores: np.ndarray
    """The larger the better, (n_kernels, n_Cs); NaN for what Ctrl-C left untried."""
    best_kernel: int
    best_C: float
    solution: LSSVMSolution
    """With the best kernel and C; its ``loo_decision`` is for all rows. ``info`` tells
    of Ctrl-C."""


def search_by_leave_one_out(
    kernels: Sequence[Kernel],
    X: Array,
    Y: Array,
    Cs: Sequence[float],
    score: Callable[[np.ndarray], Score],
    *,
    sample_weight: Array | None = None,
    left_out: Array | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> LOOSearch:
    """Solve for every kernel and C, and keep what scores best.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    Cs : sequence of float
    score : callable
        Takes leave-one-out decision values, (n, t), NumPy, and returns a ``Score``. NaN
        stands at rows of weight zero.
    sample_weight, left_out : arrays of shape (n,), default=None
        See :func:`kaucus.solvers.solve_ls_svm`.
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_done, n_all)`` before the first kernel and C, and after each.

    Returns
    -------
    LOOSearch
        After Ctrl-C the best so far; before the first C is through it is raised.

    Raises
    ------
    MemoryError
        If the decomposition does not fit into the budget.

    Notes
    -----
    About 10 n³ multiplications for each kernel, five n × n matrices of float64.
    """
    _check_memory(X.shape[0], budget_without_buffers(X, memory_budget))
    with few_threads_for(X.shape[0]):
        pairs = _solutions(kernels, X, Y, Cs, sample_weight, left_out)
        return _best(pairs, (len(kernels), len(Cs)), Cs, score, callback)


def _solutions(
    kernels, X, Y, Cs, sample_weight, left_out
) -> Iterator[tuple[int, int, LSSVMSolution]]:
    """Yield the solution of every kernel and C, with their numbers."""
    for g, kernel in enumerate(kernels):
        spectrum = decompose_ls_svm(kernel(X), Y, sample_weight=sample_weight)
        for c, C in enumerate(Cs):
            yield g, c, solve_at(spectrum, float(C), left_out=left_out)


def _best(pairs, shape: tuple[int, int], Cs, score, callback) -> LOOSearch:
    """Judge the solutions as they come, and keep the best."""
    scores = np.full(shape, np.nan)
    best: tuple[Score, LOOSearch] | None = None
    tell = callback or (lambda n_done, n_all: None)
    try:
        tell(0, scores.size)
        for g, c, solution in pairs:
            new = score(to_numpy(solution.loo_decision))
            scores[g, c] = new.value
            if best is None or new > best[0]:
                best = (new, LOOSearch(scores, g, float(Cs[c]), solution))
            tell(g * shape[1] + c + 1, scores.size)
    except KeyboardInterrupt:
        if best is None:
            raise
        return _cut_short(best[1], int(np.sum(~np.isnan(scores))))
    assert best is not None
    return best[1]


def _cut_short(found: LOOSearch, n_tried: int) -> LOOSearch:
    info = found.solution.info._replace(
        n_iter=n_tried, interrupted=True, converged=False, stop="interrupted"
    )
    return found._replace(solution=found.solution._replace(info=info))


def _check_memory(n: int, budget: int) -> None:
    needed = _MATRICES * 8 * n * n
    if needed > budget:
        rows = int((budget / (_MATRICES * 8)) ** 0.5)
        raise MemoryError(
            f"Leave-one-out over {n} rows decomposes a kernel matrix and needs "
            f"{format_bytes(needed)}; memory_budget allows {format_bytes(budget)}. Set "
            f"max_samples={rows} or fewer, or a larger memory_budget."
        )
