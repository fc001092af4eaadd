"""Choice of C and width by leave-one-out."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kaucus._array.blocks import (
    few_threads_for,
    format_bytes,
    map_blocks,
    resolve_budget,
)
from kaucus._array.linalg import (
    NotPositiveDefiniteError,
    cholesky_with_jitter,
    eigh,
    solve_triangular,
)
from kaucus._array.namespace import (
    Array,
    array_namespace,
    astype,
    device_of,
    epsilon,
    take_rows,
    to_numpy,
)
from kaucus._array.rows import budget_without_buffers
from kaucus.kernels._cells import matrices_of
from kaucus.kernels._kernel import Kernel
from kaucus.solvers._direct import solve_ls_svm
from kaucus.solvers._system import (
    LSSVMSolution,
    ScaledTargets,
    Score,
    SolveInfo,
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
)

# ----------------------------------------------------------------------------------
# Choose C, and the kernel, of least squares on representatives by leave-one-out.
#
# With K_mm = L Lᵀ and the weighted, centred rows Φ = S^½ (K_nm − 1 k̄ᵀ) L⁻ᵀ, the system
# of ``_columns`` is a ridge regression on Φ. With ΦᵀΦ = V Λ Vᵀ and P = Φ V,
#
#     f_C(x_i) − ȳ = s_i^-½ P_i (Λ + I/C)⁻¹ Pᵀ S^½ (Y − ȳ),
#     h_i(C)       = P_i (Λ + I/C)⁻¹ P_iᵀ + s_i / σ,
#
# and (y_i − f(x_i)) / (1 − h_i) is by how much a model fitted without row i misses it.
# So after one decomposition for each kernel, every C costs n m (t + 1): two products
# for all of them. Kernels of the same distances share these.
# ----------------------------------------------------------------------------------

# Kernels that are decomposed at a time, at most: each holds its matrices.
_WORKERS = 8
# Matrices of n × m and of m × m in float64 that a thread holds.
_TALL, _SQUARE = 5, 4
# Leave-one-out errors that a thread holds at a time, of several Cs, and how many arrays
# of that size there are.
_LOW_RANK_ENTRIES, _ERRORS = 2**23, 6
# Fewer rows or representatives than this tell nothing.
_LEAST = 20


class LowRankSearch(NamedTuple):
    """What was tried, and the best of it."""

    losses: np.ndarray
    """Leave-one-out losses, (n_kernels, n_Cs)."""
    best_kernel: int
    best_C: float


class LowRankSpectrum(NamedTuple):
    """Least squares on representatives, decomposed: everything but C."""

    eigenvalues: Array
    """Λ, (m,)."""
    P: Array
    """(n, m)."""
    projected: Array
    """Pᵀ S^½ (Y − ȳ), (m, t)."""
    residuals: Array
    """Y − ȳ, (n, t)."""
    weight: Array
    """S, (n,)."""
    Y: Array


def search_on_representatives(
    kernels: Sequence[Kernel],
    X: Array,
    Y: Array,
    Z: Array,
    Cs: Sequence[float],
    *,
    loss: Callable[[np.ndarray], np.ndarray] | None = None,
    sample_weight: Array | None = None,
    first_rows: bool = False,
    callback: Callable[[int, int], object] | None = None,
    memory_budget: int | str | None = None,
) -> LowRankSearch:
    """Find the kernel and the C of the least leave-one-out loss.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    Z : array of shape (m, d)
        The representatives.
    Cs : sequence of float
    loss : callable, default=None
        Takes leave-one-out decision values for every C, (n, c, t), NumPy, and returns a
        loss for each, (c,). None is the weighted mean of their squared errors.
    sample_weight : array of shape (n,), default=None
    first_rows : bool, default=False
        Whether ``Z`` are the first rows of ``X``, whose kernel then need not be
        computed again.
    callback : callable, default=None
        ``callback(n_done, n_kernels)`` after each kernel.
    memory_budget : int, str or None, default=None
        Bounds the kernels that are decomposed at a time, and the Cs. One kernel needs
        what :func:`search_bytes` tells.

    Notes
    -----
    About 2.5 n m² + 10 m³ multiplications for each kernel, five n × m matrices of
    float64 in each thread: for a few thousand rows and a few hundred representatives.
    """
    shared, each = search_bytes(X.shape[0], Z.shape[0], X.shape[1], Y.shape[1])
    free = max(resolve_budget(memory_budget, Y) - shared, each)
    X, Z = astype(X, "float64"), astype(Z, "float64")
    of_rows = matrices_of(kernels, X, Z)
    among = None if first_rows else matrices_of(kernels, Z)

    def losses_of(kernel: Kernel) -> np.ndarray:
        K_nm = of_rows(kernel)
        K_mm = K_nm[: Z.shape[0], :] * 1 if among is None else among(kernel)
        spectrum = decompose_low_rank(K_nm, K_mm, Y, sample_weight)
        return np.concatenate([losses_at(spectrum, some) for some in parts])

    def losses_at(spectrum: LowRankSpectrum, Cs: Sequence[float]) -> np.ndarray:
        errors = leave_one_out_errors(spectrum, Cs)
        if loss is None:
            return to_numpy(mean_squares(errors, spectrum.weight))
        return loss(to_numpy(spectrum.Y[:, None, :] - errors))

    # A kernel in each thread: matrices of this size gain little from threads of BLAS.
    workers = min(kernel.n_workers(X) for kernel in kernels)
    workers = min(workers, _WORKERS, max(free // each, 1))
    parts = _parts(Cs, Y, free // workers - each)
    losses = []
    for found in map_blocks(losses_of, kernels, workers=workers, abandon=True):
        losses.append(found)
        if callback is not None:
            callback(len(losses), len(kernels))
    table = np.stack(losses)
    kernel, c = np.unravel_index(np.argmin(table), table.shape)
    return LowRankSearch(table, int(kernel), float(Cs[int(c)]))


def search_bytes(n: int, m: int, d: int, t: int) -> tuple[int, int]:
    """Return what a search holds: for all threads together, and in each of them.

    Rows and representatives in float64, and their distances; the matrices of one
    kernel, and the errors of one C.
    """
    return 8 * ((n + m) * d + n * m), 8 * (
        _TALL * n * m + _SQUARE * m * m + _ERRORS * n * t
    )


def affordable_search(
    n: int, m: int, d: int, t: int, memory_budget: int | str | None
) -> tuple[int, int]:
    """Return at most n rows and m representatives whose search fits into the budget.

    Fewer of both where it is short, in the same proportion.
    """
    budget = resolve_budget(memory_budget)
    while sum(search_bytes(n, m, d, t)) > budget and min(n, m) > _LEAST:
        n, m = max(n * 7 // 8, _LEAST), max(m * 7 // 8, _LEAST)
    return n, m


def _parts(Cs: Sequence[float], Y: Array, free: int) -> list[Sequence[float]]:
    """Return as many Cs at a time as there is room for the errors of all outputs."""
    entries = min(_LOW_RANK_ENTRIES, free // (8 * _ERRORS))
    step = max(1, entries // max(Y.shape[0] * Y.shape[1], 1))
    return [Cs[start : start + step] for start in range(0, len(Cs), step)]


def decompose_low_rank(
    K_nm: Array, K_mm: Array, Y: Array, sample_weight: Array | None = None
) -> LowRankSpectrum:
    """Decompose the least squares of rows on representatives; overwrites the matrices.

    Parameters
    ----------
    K_nm, K_mm : arrays of shape (n, m) and (m, m)
        Kernel of rows and representatives, and of these, in float64.
    Y : array of shape (n, t)
    sample_weight : array of shape (n,), default=None
    """
    Y = astype(Y, "float64")
    xp = array_namespace(Y)
    residuals, Phi = Y - xp.mean(Y, axis=0)[None, :], K_nm
    weight = xp.ones(Y.shape[0], dtype=Y.dtype, device=device_of(Y))
    if sample_weight is None:
        Phi -= xp.mean(Phi, axis=0)[None, :]
    else:
        weight = astype(sample_weight, "float64")
        shares = weight / xp.sum(weight)
        residuals = Y - (shares @ Y)[None, :]
        Phi -= (shares @ Phi)[None, :]
        Phi *= xp.sqrt(weight)[:, None]
    L = cholesky_with_jitter(K_mm, overwrite=True).L
    Phi = solve_triangular(L, Phi.T).T
    eigenvalues, V = eigh(Phi.T @ Phi)
    P = Phi @ V
    return LowRankSpectrum(
        xp.maximum(eigenvalues, xp.zeros_like(eigenvalues)),
        P,
        P.T @ (residuals * xp.sqrt(weight)[:, None]),
        residuals,
        weight,
        Y,
    )


def mean_squares(errors: Array, weight: Array) -> Array:
    """Return the mean over rows, by weight, of squared errors (n, c, t), for each C."""
    xp = array_namespace(errors)
    return weight @ xp.mean(errors**2, axis=2) / xp.sum(weight)


def leave_one_out_errors(spectrum: LowRankSpectrum, Cs: Sequence[float]) -> Array:
    """Return by how much models fitted without a row miss it, (n, c, t), for each C.

    Rows of weight zero, which no model was fitted without, have numbers of no meaning.
    """
    eigenvalues, P, projected, residuals, weight, _ = spectrum
    xp = array_namespace(P)
    (n, m), (c, t) = P.shape, (len(Cs), projected.shape[1])
    ridges = 1 / xp.asarray(Cs, dtype=P.dtype, device=device_of(P))
    inverse = 1 / (eigenvalues[:, None] + ridges[None, :])  # (m, c)
    coef = xp.reshape(inverse[:, :, None] * projected[:, None, :], (m, c * t))
    roots = xp.sqrt(xp.where(weight > 0, weight, xp.ones_like(weight)))
    fitted = xp.reshape(P @ coef, (n, c, t)) / roots[:, None, None]
    leverage = P**2 @ inverse + (weight / xp.sum(weight))[:, None]  # (n, c)
    kept = xp.clip(1 - leverage, min=1e-12)
    return (residuals[:, None, :] - fitted) / kept[:, :, None]


# ----------------------------------------------------------------------------------
# Choose kernel and C of an LS-SVM by exact leave-one-out.
#
# Of up to 1,000 rows every pair: one eigendecomposition for each kernel gives all C. Of
# more rows that takes minutes, so there are two stages:
#
#     1  screen  every kernel and C, by leave-one-out of least squares on the kernel
#                columns of a fifth of the rows: all rows judge, and one decomposition
#                of few columns gives all C
#     2  exact   the best C of the best three kernels, by leave-one-out of the model of
#                all rows: a factorisation and the diagonal of its inverse for each;
#                then kernels and values of C beside the best, while they are better
#
# Few columns favour wide kernels, which the second stage makes up for. On 16 tables of
# 1,600 rows, with 400 columns, 7 widths and 15 values of C, it found the best of all
# 105 pairs on 15, and missed it by 0.06 % of the rows on one, with 5.8 exact models on
# average.
#
# Every C from one decomposition: with S^½ K S^½ = U Λ Uᵀ, H⁻¹ = U (Λ + I/C)⁻¹ Uᵀ. So
# each C costs n² t multiplications, and the leave-one-out decision values (see
# ``_system``) come with it, without a refit. (G. C. Cawley, N. L. C. Talbot, "Fast
# exact leave-one-out cross-validation of sparse least-squares support vector machines",
# Neural Networks 17, 1467 (2004).)
# ----------------------------------------------------------------------------------

# Up to so many rows, every pair has an exact model.
_FEW_ROWS = 1000
# Columns of the screen: a share of the rows, and no fewer than these.
_SHARE, _LEAST_COLUMNS = 5, 400
# Leave-one-out values of several C at a time.
_ENTRIES = 2**23
# Pairs that have an exact model after the screen.
_FINALISTS = 3
# K in float64, its eigenvectors, LAPACK's work space of two more, and their squares.
_MATRICES = 5


class LOOSearch(NamedTuple):
    """What was tried, and the best of it."""

    scores: np.ndarray
    """The larger the better, (n_kernels, n_Cs); NaN for what Ctrl-C left untried."""
    n_columns: np.ndarray
    """Kernel columns of the model that was judged, (n_kernels, n_Cs); all rows for an
    exact one."""
    best_kernel: int
    best_C: float
    best_score: float
    """That of the exact model with them."""
    solution: LSSVMSolution
    """With the best kernel and C; its ``loo_decision`` is for all rows. ``info`` tells
    of Ctrl-C."""


class _Data(NamedTuple):
    """Rows, targets and weights, and how decision values are judged."""

    X: Array
    Y: Array
    weight: Array | None
    score: Callable[[np.ndarray], Score]


def search_by_leave_one_out(
    kernels: Sequence[Kernel],
    X: Array,
    Y: Array,
    Cs: Sequence[float],
    score: Callable[[np.ndarray], Score],
    *,
    sample_weight: Array | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> LOOSearch:
    """Judge every kernel and C, and keep the exact model that scores best.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    Cs : sequence of float
    score : callable
        Takes leave-one-out decision values, (n, t), NumPy, and returns a ``Score``. NaN
        stands at rows of weight zero.
    sample_weight : array of shape (n,), default=None
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_done, n_all)`` before the first kernel and C, and after each.

    Returns
    -------
    LOOSearch

    Raises
    ------
    MemoryError
        If the decomposition does not fit into the budget.

    Notes
    -----
    About 10 n³ multiplications for each kernel up to 1,000 rows. For more rows n³/5 for
    each kernel, and 2/3 n³ for each of three pairs or some more. Five n × n matrices of
    float64.
    """
    n = X.shape[0]
    _check_memory(n, budget_without_buffers(X, memory_budget))
    data = _Data(X, Y, sample_weight, score)
    tried = _Tried((len(kernels), len(Cs)), Cs, callback)
    with few_threads_for(n):
        models = _all_models(kernels, Cs, data)
        if n > _FEW_ROWS:
            for g, c, judged, m in _screen(kernels, Cs, data):
                tried.note(g, c, judged, m)
            models = _best_models(kernels, Cs, data, tried)
        for g, c, solution in models:
            judged = score(to_numpy(solution.loo_decision))
            tried.note(g, c, judged, n, solution)
    assert tried.best is not None
    return tried.best


class _Tried:
    """The table of scores, and the best exact model so far."""

    def __init__(self, shape: tuple[int, int], Cs: Sequence[float], callback):
        self.scores, self.n_columns = np.full(shape, np.nan), np.zeros(shape, dtype=int)
        self.Cs, self.callback = Cs, callback
        self.screened: dict[tuple[int, int], Score] = {}
        self.exact: dict[tuple[int, int], Score] = {}
        self.best: LOOSearch | None = None
        self._tell()

    @property
    def n_done(self) -> int:
        """Number of pairs that were judged."""
        return int(np.sum(~np.isnan(self.scores)))

    def note(self, g: int, c: int, judged: Score, m: int, solution=None) -> None:
        """Write down a score, and the solution where it is exact and the best."""
        self.scores[g, c], self.n_columns[g, c] = judged.value, m
        if solution is None:
            self.screened[g, c] = judged
        else:
            self.exact[g, c] = judged
            if self.best_pair() == (g, c):
                self.best = LOOSearch(
                    self.scores,
                    self.n_columns,
                    g,
                    float(self.Cs[c]),
                    float(judged.value),
                    solution,
                )
        self._tell()

    def best_pair(self) -> tuple[int, int]:
        """Return the first of the best exact models."""
        return max(self.exact, key=lambda pair: self.exact[pair])

    def finalists(self) -> list[tuple[int, int]]:
        """Return the best pair of the best kernels, and more pairs of few kernels."""
        ranked = sorted(self.screened, key=lambda p: self.screened[p], reverse=True)
        of_kernels = list({g: (g, c) for g, c in reversed(ranked)}.values())[::-1]
        others = [pair for pair in ranked if pair not in of_kernels]
        return [*of_kernels, *others][:_FINALISTS]

    def neighbours(self) -> list[tuple[int, int]]:
        """Return the pairs beside the best exact one that have no exact model yet.

        The best C of the kernels beside it; if these have one, the values beside C.
        """
        g, c = self.best_pair()
        n_kernels, n_Cs = self.scores.shape
        near = [k for k in (g - 1, g + 1) if 0 <= k < n_kernels]
        own = ([pair for pair in self.screened if pair[0] == k] for k in near)
        kernels = [max(pairs, key=lambda p: self.screened[p]) for pairs in own]
        values = [(g, k) for k in (c - 1, c + 1) if 0 <= k < n_Cs]
        new = ([p for p in some if p not in self.exact] for some in (kernels, values))
        return next((pairs for pairs in new if pairs), [])

    def _tell(self) -> None:
        if self.callback is not None:
            self.callback(self.n_done, self.scores.size)


def _screen(
    kernels: Sequence[Kernel], Cs: Sequence[float], data: _Data
) -> Iterator[tuple[int, int, Score, int]]:
    """Yield the score of every kernel and C by models of few columns."""
    X, Y, weight = data.X, data.Y, data.weight
    n = X.shape[0]
    present = np.arange(n) if weight is None else np.flatnonzero(to_numpy(weight))
    m = min(max(n // _SHARE, _LEAST_COLUMNS), len(present))
    # The same rows for the same data: a seed of the caller is not needed.
    rng = np.random.default_rng(0)
    some = np.sort(rng.permutation(present)[:m])
    step = max(1, _ENTRIES // (n * Y.shape[1]))
    X = astype(X, "float64")
    Z = astype(take_rows(X, some), "float64")
    for g, kernel in enumerate(kernels):
        spectrum = decompose_low_rank(kernel(X, Z), kernel(Z), Y, weight)
        for start in range(0, len(Cs), step):
            some_Cs = [float(C) for C in Cs[start : start + step]]
            errors = leave_one_out_errors(spectrum, some_Cs)
            values = to_numpy(spectrum.Y[:, None, :] - errors)
            for c in range(len(some_Cs)):
                yield g, start + c, data.score(values[:, c, :]), m


def _all_models(
    kernels: Sequence[Kernel], Cs: Sequence[float], data: _Data
) -> Iterator[tuple[int, int, LSSVMSolution]]:
    """Yield the exact model of every pair: one decomposition for each kernel."""
    for g, kernel in enumerate(kernels):
        spectrum = decompose_ls_svm(kernel(data.X), data.Y, sample_weight=data.weight)
        for c, C in enumerate(Cs):
            yield g, c, solve_at(spectrum, float(C))


def _best_models(
    kernels: Sequence[Kernel], Cs: Sequence[float], data: _Data, tried: _Tried
) -> Iterator[tuple[int, int, LSSVMSolution]]:
    """Yield exact models of the best pairs, and of those beside the best of them.

    ``tried`` must know the score of each model before the next is asked for.
    """
    pairs = tried.finalists()
    while pairs:
        for g, c in pairs:
            yield g, c, _factored_model(kernels[g], float(Cs[c]), data)
        pairs = tried.neighbours()


def _factored_model(kernel: Kernel, C: float, data: _Data) -> LSSVMSolution:
    """Return the model of all rows, with its leave-one-out decision values.

    Where rounding leaves a factor no positive diagonal, by eigenvalues.
    """
    try:
        solution = solve_ls_svm(
            kernel(data.X),
            data.Y,
            C=C,
            sample_weight=data.weight,
            n_leave_one_out=data.X.shape[0],
            precision="float64",
            overwrite_K=True,
        )
        if solution.info.jitter == 0:
            return solution
    except NotPositiveDefiniteError:
        pass
    spectrum = decompose_ls_svm(kernel(data.X), data.Y, sample_weight=data.weight)
    return solve_at(spectrum, C)


def _check_memory(n: int, budget: int) -> None:
    needed = _MATRICES * 8 * n * n
    if needed > budget:
        rows = int((budget / (_MATRICES * 8)) ** 0.5)
        raise MemoryError(
            f"Leave-one-out over {n} rows decomposes a kernel matrix and needs "
            f"{format_bytes(needed)}; memory_budget allows {format_bytes(budget)}. Set "
            f"max_samples={rows} or fewer, or a larger memory_budget."
        )


# ---- every C from one eigendecomposition ---------------------------------------------


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


def solve_at(spectrum: LSSVMSpectrum, C: float) -> LSSVMSolution:
    """Solve for one C; leave-one-out decision values of all rows are included."""
    inverse = 1 / (spectrum.eigenvalues + 1 / C)  # (n,)
    U, targets = spectrum.eigenvectors, spectrum.targets
    Z = U @ (inverse[:, None] * spectrum.projected)  # H⁻¹ [u, S^½ Y]
    eta, nu = Z[:, :1], Z[:, 1:]
    coef = eliminate_intercept(targets, eta, nu)
    inverse_diagonal = (U**2) @ inverse
    residuals = loo_residuals(coef, inverse_diagonal, eta, targets)
    return LSSVMSolution(
        coef.dual_coef, coef.intercept, spectrum.Y - residuals, SolveInfo("eigh")
    )
