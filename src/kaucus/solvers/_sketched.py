"""Least squares on many representatives, without the Gram matrix of all rows.

The system of ``_low_rank``, A a = r with

    A = K̃ᵀ K̃ + K_mm / C,    K̃ = S^½ (K_nm − 1 k̄ᵀ),

costs n m²/2 multiplications to set up. Conjugate gradients need only products with A,
of n m each, and few of them with a preconditioner made of a sketch of the rows,

    P = (Φ K̃)ᵀ (Φ K̃) + K_mm / C,

where Φ, (s, n) with s = 3 m, is a sparse sign embedding: each column has four entries
±½, one in each quarter of the rows. With any centres, P is near A in the sense that all
eigenvalues of P⁻¹A lie within (1 ± √(m/s))⁻² or nearly so: about 17 steps divide the
error by 10⁴. (M. Díaz, E. N. Epperly, Z. Frangella, J. A. Tropp, R. J. Webber, Robust,
randomized preconditioning for kernel ridge regression, arXiv:2304.12465, algorithm 3,
KRILL, there without an intercept or weights.)

The iteration runs on L⁻¹ A L⁻ᵀ with P = L Lᵀ, whose residual is that of A in the norm
of P⁻¹: nearly the error in the norm of A, which is what the fit is judged by.

Leave-one-out values take A⁻¹ of their leverages from P, less what a sketch of s rows
overstates: c A⁻¹ c ≈ (1 − d/s) c P⁻¹ c with d = tr(P⁻¹ (Φ K̃)ᵀ(Φ K̃)), the effective
dimension. They are estimates, good enough for a temperature of probabilities.
"""

import functools
import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    CholeskyFactor,
    RowSource,
    add_gram,
    array_namespace,
    as_like,
    astype,
    cholesky_with_jitter,
    device_of,
    diagonal,
    dtype_name,
    format_bytes,
    itemsize,
    mirror_lower,
    on_gpu,
    random_normal,
    row_blocks,
    solve_triangular,
    take_rows,
    wide_product,
    zero_gram,
)
from kaucus.kernels import KernelOperator
from kaucus.solvers._block_memory import row_copies
from kaucus.solvers._cg import cg_info, conjugate_gradient
from kaucus.solvers._equations import RowData, leave_one_out
from kaucus.solvers._result import CGResult, LSSVMSolution
from kaucus.solvers._sign_embedding import N_ENTRIES, SignEmbedding

# Rows of the sketch for each column of K_nm.
_OVERSAMPLING = 3
# Blocks of K_nm in the first pass.
_BLOCK_BYTES = 256 * 2**20
# Steps that a cost estimate counts on, for a residual of 1e-3.
_EXPECTED_STEPS = 13
# Costs in multiplications of a matrix product: the elementwise part of one kernel
# entry, its part in one step apart from the columns, and one entry of Φ.
_ELEMENTWISE, _READING, _SCATTERING = 60, 200, 60
# The Gram matrix is made unless the iteration costs less than this share of it.
_CLEARLY_LESS = 0.8
_PROBES = 16


class _Problem(NamedTuple):
    """Shifted, weighted kernel columns S^½ (K_nm − k₀) and targets."""

    K_nm: KernelOperator
    Y: Array
    shift: Array
    """k₀, (1, m), float64, as the precision of the rows has it."""
    root: Array
    """S^½, (n, 1), float64, as the precision of the rows has it."""

    def columns(self, rows: slice) -> Array:
        """Return the columns of some rows, in the precision of the rows."""
        K = self.K_nm.rows(np.arange(rows.start, rows.stop))
        K -= astype(self.shift, self.K_nm.dtype)
        K *= astype(self.root[rows, :], self.K_nm.dtype)
        return K


def prefer_sketched(n: int, m: int, d: int, t: int, stored: float) -> bool:
    """Tell whether conjugate gradients clearly cost less than the Gram matrix.

    Multiplications for each of the n m entries of K_nm. The Gram matrix: d and the
    elementwise part for the entry, m/2 for its products, m²/6n for the factor. The
    iteration: the same entry once and, for the share that is not ``stored``, in every
    step; four for the sketch; 2 t and reading in every step; s m/2n for the sketch's
    own Gram matrix.

    >>> prefer_sketched(60_000, 6_000, 784, 10, stored=1.0)
    False
    >>> prefer_sketched(464_810, 14_000, 54, 7, stored=0.1)
    True
    """
    entry = d + _ELEMENTWISE
    factor = m * m / (6 * n)
    direct = entry + m / 2 + factor
    step = 2 * t + _READING + (1 - stored) * entry
    sketch = N_ENTRIES * _SCATTERING + _OVERSAMPLING * m * m / (2 * n)
    sketched = entry + sketch + factor + _EXPECTED_STEPS * step
    return sketched < _CLEARLY_LESS * direct


def choose_sketched(data: RowData, Z: Array, budget: int) -> bool:
    """Tell whether :func:`solve_sketched` costs less, and has the memory it needs.

    Not on a GPU, where products are cheap and scattering rows costs as much as the
    Gram matrix; nor of a row source, which is read once.
    """
    n, m = data.X.shape[0], Z.shape[0]
    if on_gpu(Z) or isinstance(data.X, RowSource):
        return False
    if sketch_bytes(m, Z) > budget // 2:
        return False
    stored = stored_share(n, m, budget, Z)
    return prefer_sketched(n, m, Z.shape[1], data.Y.shape[1], stored)


def sketch_bytes(m: int, Z: Array) -> int:
    """Return the bytes of the sketch and of the matrices of m × m."""
    return (2 * _OVERSAMPLING * itemsize(Z) + 3 * 8) * m * m


def stored_share(n: int, m: int, budget: int, Z: Array) -> float:
    """Return the share of K_nm that the budget can keep."""
    free = budget - sketch_bytes(m, Z) - 3 * min(_BLOCK_BYTES, budget // 8)
    return min(max(free / (n * m * itemsize(Z)), 0.0), 1.0)


def solve_sketched(
    data: RowData,
    Z: Array,
    *,
    C: float,
    loo_rows: np.ndarray | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    budget: int,
    callback: Callable[[int, int], object] | None = None,
) -> LSSVMSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows by conjugate gradients.

    Parameters
    ----------
    data : RowData
        Kernel, rows, targets, weights.
    Z : array of shape (m, d)
        The representatives.
    C : float
    loo_rows : integer array, default=None
        Rows whose leave-one-out decision values are wanted; estimates (see above).
    tol : float, default=1e-3
        Stop when the residual, in the norm of P⁻¹, is this share of the right side's.
        On 30,000 digits and 2,000 representatives 1e-3 took 13 steps and moved the
        decision values of 10,000 others by at most 0.002, 1e-4 took 17 steps.
    max_iter : int, default=200
    budget : int
        Bytes. Holds the sketch, three matrices of m × m, a block of K_nm, and as many
        blocks for the next passes as there is room for; the others are computed again.
    callback : callable, default=None
        ``callback(n_done, n)`` in rows: the first pass and the steps, as many as are
        expected, count alike.

    Returns
    -------
    LSSVMSolution
        Its ``info`` has the steps and the residual. An interrupt keeps the best so far:
        in the first pass the sketch's own solution of the rows seen, later the last
        step's.

    Raises
    ------
    MemoryError
        If the sketch and the matrices of m × m do not fit into the budget.
    """
    m = Z.shape[0]
    needed = sketch_bytes(m, Z)
    if budget - needed < 4 * m * itemsize(Z):
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the sketched least "
            f"squares of all rows, memory_budget allows {format_bytes(budget)}; use "
            "fewer representatives or a larger memory_budget."
        )
    K_mm = data.kernel(astype(Z, "float64"))
    shift = array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
    problem = _pose(data, Z, shift, budget)
    shift = problem.shift[0, :]
    tell = _progress(data.X.shape[0], callback)
    seen = _first_pass(problem, min(_BLOCK_BYTES, budget // 8), tell)
    mean = seen.cross[:, -1] / seen.weight  # k̄ − k₀
    K_mm /= C
    factor, relative_jitter, shrink = _preconditioner(seen, mean, K_mm)
    right = seen.cross[:, :-1] - mean[:, None] @ seen.target_sum[None, :]
    result = _iterate(problem, seen, mean, K_mm, factor.L, right, tol, max_iter, tell)
    coef = solve_triangular(factor.L, result.x, transpose=True)
    target_mean = seen.target_sum / seen.weight
    loo = None
    if loo_rows is not None and len(loo_rows):
        # (1 − d/s) P⁻¹ in place of P⁻¹.
        factor = CholeskyFactor(factor.L * shrink**-0.5, factor.jitter)
        loo = leave_one_out(
            *data.some(loo_rows),
            columns=lambda X: astype(data.kernel(X, Z), "float64") - shift - mean,
            factor=factor,
            coef=coef,
            target_mean=target_mean,
            total=seen.weight,
        )
    info = cg_info(
        result,
        "sketched_cg",
        max_iter,
        precision=dtype_name(data.X),
        jitter=factor.jitter,
        relative_jitter=relative_jitter,
    )
    intercept = target_mean - (mean + shift) @ coef
    return LSSVMSolution(coef, intercept, loo, info)


def _pose(data: RowData, Z: Array, shift: Array, budget: int) -> _Problem:
    """Return the shifted columns, which keep as many rows as the budget allows.

    Shift and weights are rounded once, so that every pass has the same.
    """
    dtype, n = dtype_name(data.X), data.X.shape[0]
    kept = int(stored_share(n, Z.shape[0], budget, Z) * n) * Z.shape[0] * itemsize(Z)
    # Two of the three blocks of memory are for the operator's work.
    work = 2 * min(_BLOCK_BYTES, budget // 8)
    budget = kept + work + row_copies(data.X) + row_copies(Z)
    K_nm = KernelOperator(data.kernel, data.X, Z, memory_budget=budget, keep="rows")
    xp = array_namespace(data.Y)
    weight = data.sample_weight
    if weight is None:
        weight = xp.ones(n, dtype=xp.float64, device=device_of(data.Y))
    root = xp.sqrt(astype(weight, "float64"))
    shift, root = (astype(astype(v, dtype), "float64") for v in (shift, root))
    return _Problem(K_nm, data.Y, shift[None, :], root[:, None])


def _progress(n: int, callback):
    """Return a function that reports passes done, the first being 0, as rows of n."""

    def tell(n_passes: float) -> None:
        if callback is not None:
            share = min(n_passes / (1 + _EXPECTED_STEPS), 1.0)
            callback(min(round(share * n), n), n)

    return tell


# ---- the first pass ------------------------------------------------------------------


class _Sums:
    """Sums over the rows of a problem: the sketch, and the right-hand side."""

    def __init__(self, problem: _Problem) -> None:
        self._problem, Y = problem, problem.Y
        n, m = problem.K_nm.shape
        self._embedding = SignEmbedding(n, _OVERSAMPLING * m, np.random.default_rng(0))
        xp, s = array_namespace(Y), self._embedding.n_rows

        def zeros(*shape: int, dtype: str = "float64") -> Array:
            return xp.zeros(shape, dtype=getattr(xp, dtype), device=device_of(Y))

        self.sketch = zeros(s, m, dtype=problem.K_nm.dtype)  # Φ S^½ (K_nm − k₀)
        self.ones = zeros(s, 1)  # Φ S^½ 1
        self.cross = zeros(m, Y.shape[1] + 1)  # Σ s (k − k₀) [yᵀ, 1]
        self.target_sum = zeros(Y.shape[1])
        self.weight = 0.0
        self.n_seen = 0

    def add(self, K: Array, block: slice) -> None:
        """Add a block of rows with their shifted, weighted columns ``K``."""
        Y = astype(self._problem.Y[block, :], "float64")
        root = self._problem.root[block, :]
        xp = array_namespace(Y)
        targets = xp.concat([Y, xp.ones_like(root)], axis=1) * root
        self.sketch = self._embedding.add(self.sketch, K, block)
        self.ones = self._embedding.add(self.ones, root, block)
        self.cross = self.cross + wide_product(K.T, targets)
        self.target_sum = self.target_sum + xp.sum(Y * root**2, axis=0)
        self.weight += float(xp.sum(root**2))
        self.n_seen = block.stop


def _first_pass(problem: _Problem, block_bytes: int, tell) -> _Sums:
    """Sketch all rows, and sum the right side; after Ctrl-C of the rows so far."""
    n, m = problem.K_nm.shape
    sums = _Sums(problem)
    for block in row_blocks(n, m * itemsize(problem.K_nm.X), block_bytes):
        try:
            K = problem.columns(block)
        except KeyboardInterrupt:
            if sums.n_seen == 0:
                raise
            break
        sums.add(K, block)  # not to be left halfway
        tell(block.stop / n)
    return sums


def _preconditioner(
    seen: _Sums, mean: Array, K_mm: Array
) -> tuple[CholeskyFactor, float, float]:
    """Return the factor of P, its relative jitter, and 1 − d/s."""
    centred = seen.sketch  # Φ K̃, in the memory of the sketch
    centred -= astype(seen.ones @ mean[None, :], dtype_name(centred))
    P = mirror_lower(add_gram(zero_gram(mean.shape[0], mean), centred))
    P += K_mm
    xp = array_namespace(P)
    scale = max(float(xp.mean(diagonal(P))), 1e-300)
    factor = cholesky_with_jitter(P, overwrite=True)
    probes = random_normal(np.random.default_rng(1), (centred.shape[0], _PROBES), mean)
    half = solve_triangular(factor.L, wide_product(centred.T, probes))
    dimension = float(xp.sum(half**2)) / _PROBES
    shrink = max(1 - dimension / centred.shape[0], 0.1)
    return factor, factor.jitter / scale, shrink


# ---- the iteration -------------------------------------------------------------------


def _iterate(
    problem: _Problem, seen: _Sums, mean, K_mm, L, right, tol, max_iter, tell
) -> CGResult:
    """Solve L⁻¹ A L⁻ᵀ y = L⁻¹ r; the sketch's own solution is y = L⁻¹ r."""
    start = solve_triangular(L, right)
    if seen.n_seen < problem.K_nm.shape[0]:
        return CGResult(start, float("nan"), 0, False, True)

    def product(V: Array) -> Array:
        V = solve_triangular(L, V, transpose=True)
        AV = _gram_product(problem, V) + K_mm @ V
        AV = AV - seen.weight * mean[:, None] @ (mean[None, :] @ V)
        return solve_triangular(L, AV)

    try:
        return conjugate_gradient(
            product,
            start,
            tol=tol,
            max_iter=max_iter,
            callback=lambda step, error: tell(1 + step),
        )
    except KeyboardInterrupt:
        return CGResult(start, float("nan"), 0, False, True)


def _gram_product(problem: _Problem, V: Array) -> Array:
    """Return (K_nm − k₀)ᵀ S (K_nm − k₀) V: each panel is used twice while in cache."""
    shift_V = problem.shift @ V  # k₀ᵀ V, (1, t)

    def add(rows: np.ndarray, K: Array) -> Array:
        # In float64: an iteration needs the same matrix in every step.
        T, root = astype(K, "float64"), take_rows(problem.root, as_like(rows, V))
        U = root**2 * (T @ V - shift_V)
        return T.T @ U - problem.shift.T @ array_namespace(U).sum(U, axis=0)[None, :]

    return functools.reduce(operator.add, problem.K_nm.map_panels(add))
