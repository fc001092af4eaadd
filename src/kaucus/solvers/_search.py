"""Choose C, and the kernel, by leave-one-out without a refit.

One eigendecomposition for each kernel; every C then costs n² t (see ``_path``).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    budget_beside,
    few_threads_for,
    format_bytes,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._path import decompose_ls_svm, solve_at
from kaucus.solvers._result import LSSVMSolution
from kaucus.solvers._scores import Score

# K in float64, its eigenvectors, LAPACK's work space of two more, and their squares.
_MATRICES = 5


class LOOSearch(NamedTuple):
    """What was tried, and the best of it."""

    scores: np.ndarray
    """The larger the better, (n_kernels, n_Cs)."""
    best_kernel: int
    best_C: float
    solution: LSSVMSolution
    """With the best kernel and C; its ``loo_decision`` is for all rows."""


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

    Raises
    ------
    MemoryError
        If the decomposition does not fit into the budget.

    Notes
    -----
    About 10 n³ multiplications for each kernel, five n × n matrices of float64.
    """
    _check_memory(X.shape[0], budget_beside(X, memory_budget))
    with few_threads_for(X.shape[0]):
        return _search(kernels, X, Y, Cs, score, sample_weight, left_out)


def _search(kernels, X, Y, Cs, score, sample_weight, left_out) -> LOOSearch:
    scores = np.full((len(kernels), len(Cs)), -np.inf)
    best: tuple[Score, int, float, LSSVMSolution] | None = None
    for g, kernel in enumerate(kernels):
        spectrum = decompose_ls_svm(kernel(X), Y, sample_weight=sample_weight)
        for c, C in enumerate(Cs):
            solution = solve_at(spectrum, float(C), left_out=left_out)
            assert solution.loo_decision is not None
            new = score(to_numpy(solution.loo_decision))
            scores[g, c] = new.value
            if best is None or new > best[0]:
                best = (new, g, float(C), solution)
    assert best is not None
    return LOOSearch(scores, best[1], best[2], best[3])


def _check_memory(n: int, budget: int) -> None:
    needed = _MATRICES * 8 * n * n
    if needed > budget:
        rows = int((budget / (_MATRICES * 8)) ** 0.5)
        raise MemoryError(
            f"Leave-one-out over {n} rows decomposes a kernel matrix and needs "
            f"{format_bytes(needed)}; memory_budget allows {format_bytes(budget)}. Set "
            f"max_samples={rows} or fewer, or a larger memory_budget."
        )
