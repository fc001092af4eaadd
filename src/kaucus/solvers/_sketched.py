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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    CholeskyFactor,
    add_gram,
    array_namespace,
    as_like,
    astype,
    cholesky_with_jitter,
    device_of,
    diagonal,
    dtype_name,
    format_bytes,
    is_sparse,
    itemsize,
    map_blocks,
    mirror_lower,
    n_workers,
    on_gpu,
    random_normal,
    row_blocks,
    segment_sum,
    solve_triangular,
    tile_shape,
    wide_product,
    zero_gram,
)
from kaucus.solvers._cg import conjugate_gradient
from kaucus.solvers._equations import RowData, leave_one_out
from kaucus.solvers._result import CGResult, LSSVMSolution, SolveInfo

# Rows of the sketch for each column, and entries in each column of Φ.
_OVERSAMPLING, _ENTRIES = 3, 4
# Blocks of K_nm in the first pass.
_BLOCK_BYTES = 256 * 2**20
# Steps that a cost estimate counts on, for a residual of 1e-3.
_EXPECTED_STEPS = 13
# Costs in multiplications of a matrix product: the elementwise part of one kernel
# entry, its part in one step apart from the columns, and one entry of Φ.
_ELEMENTWISE, _READING, _SCATTERING = 60, 200, 60
# The direct road is taken unless this one costs less than this share.
_CLEARLY_LESS = 0.8
_PROBES = 16


class _Rows(NamedTuple):
    """Shifted, weighted kernel columns S^½ (K_nm − k₀), by blocks of rows."""

    data: RowData
    Z: Array
    shift: Array
    """k₀ in the precision of the rows, (1, m)."""
    root: Array | None
    """S^½ in the precision of the rows, (n, 1), or None."""
    prepared: tuple
    """Rows and representatives, made ready for tiles of the kernel."""

    def columns(self, rows: slice) -> Array:
        """Return the columns of many rows, in memory of their own."""
        X = self.data.X
        K = self.data.kernel(X[rows] if is_sparse(X) else X[rows, :], self.Z)
        return self._finish(K, rows)

    def tile(self, rows: slice) -> Array:
        """Return the columns of a few rows, from within a thread."""
        x_rows, z_rows = self.prepared
        return self._finish(self.data.kernel.tile(x_rows.block(rows), z_rows), rows)

    def _finish(self, K: Array, rows: slice) -> Array:
        K -= self.shift
        if self.root is not None:
            K *= self.root[rows, :]
        return K


class _FirstPass(NamedTuple):
    """What one pass over the rows leaves."""

    sketch: Array
    """Φ S^½ (K_nm − k₀), (s, m)."""
    ones: Array
    """Φ S^½ 1, (s,)."""
    cross: Array
    """Σ s (k − k₀) [yᵀ, 1], (m, t + 1)."""
    target_sum: Array
    weight: float
    kept: list[tuple[slice, Array]]
    """The blocks of rows that fitted into the budget, with their columns."""
    n_seen: int


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
    sketch = _ENTRIES * _SCATTERING + _OVERSAMPLING * m * m / (2 * n)
    sketched = entry + sketch + factor + _EXPECTED_STEPS * step
    return sketched < _CLEARLY_LESS * direct


def choose_sketched(data: RowData, Z: Array, budget: int) -> bool:
    """Tell whether :func:`solve_sketched` costs less, and has the memory it needs.

    Not on a GPU, where products are cheap and scattering rows costs as much as the
    Gram matrix.
    """
    n, m = data.X.shape[0], Z.shape[0]
    if on_gpu(Z):
        return False
    if sketch_bytes(m, Z) > budget // 2:
        return False
    stored = stored_share(n, m, budget, Z)
    return prefer_sketched(n, m, Z.shape[1], data.Y.shape[1], stored)


def sketch_bytes(m: int, Z: Array) -> int:
    """Return what the sketch and the matrices of m × m take."""
    return (2 * _OVERSAMPLING * itemsize(Z) + 3 * 8) * m * m


def stored_share(n: int, m: int, budget: int, Z: Array) -> float:
    """Return the share of K_nm that the budget can keep."""
    room = budget - sketch_bytes(m, Z) - 3 * min(_BLOCK_BYTES, budget // 8)
    return min(max(room / (n * m * itemsize(Z)), 0.0), 1.0)


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
    rows = _shifted(data, Z, shift)
    tell = _progress(data.X.shape[0], callback)
    seen = _first_pass(rows, budget, tell)
    mean = seen.cross[:, -1] / seen.weight  # k̄ − k₀
    K_mm /= C
    factor, relative_jitter, shrink = _preconditioner(seen, mean, K_mm)
    right = seen.cross[:, :-1] - mean[:, None] @ seen.target_sum[None, :]
    result = _iterate(rows, seen, mean, K_mm, factor.L, right, tol, max_iter, tell)
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
    info = _info(result, factor.jitter, relative_jitter, dtype_name(data.X))
    intercept = target_mean - (mean + shift) @ coef
    return LSSVMSolution(coef, intercept, loo, info)


def _shifted(data: RowData, Z: Array, shift: Array) -> _Rows:
    dtype, weight = dtype_name(data.X), data.sample_weight
    root = None
    if weight is not None:
        xp = array_namespace(weight)
        root = astype(xp.sqrt(astype(weight, "float64")), dtype)[:, None]
    prepared = data.kernel.prepare_pair(data.X, Z)
    return _Rows(data, Z, astype(shift, dtype)[None, :], root, prepared)


def _progress(n: int, callback):
    """Return what tells passes done, the first being number 0, in rows out of n."""

    def tell(n_passes: float) -> None:
        if callback is not None:
            share = min(n_passes / (1 + _EXPECTED_STEPS), 1.0)
            callback(min(round(share * n), n), n)

    return tell


# ---- the first pass ------------------------------------------------------------------


def _first_pass(rows: _Rows, budget: int, tell) -> _FirstPass:
    """Sketch all rows, sum the right side, and keep the blocks that fit."""
    Y, m = rows.data.Y, rows.Z.shape[0]
    n, size = rows.data.X.shape[0], itemsize(rows.Z)
    block_bytes = min(_BLOCK_BYTES, budget // 8)
    room = stored_share(n, m, budget, rows.Z) * n * m * size
    embedding = _Embedding(n, m, np.random.default_rng(0))
    seen = _nothing_yet(Y, rows.Z, embedding.n_rows)
    for block in row_blocks(n, m * size, block_bytes):
        try:
            K = rows.columns(block)
        except KeyboardInterrupt:
            if seen.n_seen == 0:
                raise
            break
        # Not to be left halfway: it works in the memory of the sketch.
        seen = _add_block(seen, rows, block, K, embedding)
        room -= K.shape[0] * m * size
        if room >= 0:
            seen.kept.append((block, K))
        tell(block.stop / n)
    return seen


def _nothing_yet(Y: Array, Z: Array, s: int) -> _FirstPass:
    xp, device = array_namespace(Y), device_of(Y)
    m, t = Z.shape[0], Y.shape[1]
    dtype = getattr(xp, dtype_name(Z))
    return _FirstPass(
        xp.zeros((s, m), dtype=dtype, device=device),
        xp.zeros((s, 1), dtype=xp.float64, device=device),
        xp.zeros((m, t + 1), dtype=xp.float64, device=device),
        xp.zeros(t, dtype=xp.float64, device=device),
        0.0,
        [],
        0,
    )


def _add_block(
    seen: _FirstPass, rows: _Rows, block: slice, K: Array, embedding: "_Embedding"
) -> _FirstPass:
    """Return what was seen with one more block of rows."""
    Y = astype(rows.data.Y[block, :], "float64")
    xp = array_namespace(Y)
    root = xp.ones_like(Y[:, :1])
    if rows.root is not None:
        root = astype(rows.root[block, :], "float64")
    targets = xp.concat([Y, xp.ones_like(root)], axis=1) * root
    return _FirstPass(
        embedding.add(seen.sketch, K, block),
        embedding.add(seen.ones, root, block),
        seen.cross + wide_product(K.T, targets),
        seen.target_sum + xp.sum(Y * root**2, axis=0),
        seen.weight + float(xp.sum(root**2)),
        seen.kept,
        block.stop,
    )


class _Embedding:
    """The sparse sign embedding Φ, (s, n): in each quarter one sign of each row.

    Rows of one sign are summed apart from those of the other, so that no row need be
    multiplied by its sign.
    """

    def __init__(self, n: int, m: int, rng: np.random.Generator) -> None:
        self.height = -(-_OVERSAMPLING * m // _ENTRIES)
        self.n_rows = self.height * _ENTRIES
        self._labels = rng.integers(2 * self.height, size=(_ENTRIES, n))

    def add(self, sketch: Array, A: Array, block: slice) -> Array:
        """Return the sketch with Φ of some rows of ``A``, (b, k), in its memory."""

        def part(labels: np.ndarray) -> Array:
            both = segment_sum(A, as_like(labels, A), 2 * self.height)
            return (both[: self.height, :] - both[self.height :, :]) / _ENTRIES**0.5

        parts = map_blocks(part, self._labels[:, block], workers=n_workers(A))
        for k, values in enumerate(parts):
            sketch[k * self.height : (k + 1) * self.height, :] += values
        return sketch


def _preconditioner(
    seen: _FirstPass, mean: Array, K_mm: Array
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
    rows: _Rows, seen: _FirstPass, mean, K_mm, L, right, tol, max_iter, tell
) -> CGResult:
    """Solve L⁻¹ A L⁻ᵀ y = L⁻¹ r; the sketch's own solution is y = L⁻¹ r."""
    start = solve_triangular(L, right)
    n = rows.data.X.shape[0]
    if seen.n_seen < n:
        return CGResult(start, float("nan"), 0, False, True)

    def product(V: Array) -> Array:
        V = solve_triangular(L, V, transpose=True)
        AV = _gram_product(rows, seen.kept, V) + K_mm @ V
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


def _gram_product(rows: _Rows, kept: list[tuple[slice, Array]], V: Array) -> Array:
    """Return (K_nm − k₀)ᵀ S (K_nm − k₀) V: each tile is used twice while in cache."""
    n, m = rows.data.X.shape[0], V.shape[0]
    height, width = tile_shape(rows.Z, m, 2**62)
    step = max(height * width // m, 1)
    tiles = [(K, s) for _, K in kept for s in _slices(0, K.shape[0], step)]
    first = kept[-1][0].stop if kept else 0
    tiles += [(None, s) for s in _slices(first, n, step)]

    def add(tile: tuple[Array | None, slice]) -> Array:
        K, s = tile
        # In float64: an iteration needs the same matrix in every step.
        T = astype(rows.tile(s) if K is None else K[s, :], "float64")
        return T.T @ (T @ V)

    total = array_namespace(V).zeros_like(V)
    for part in map_blocks(add, tiles, workers=rows.data.kernel.n_workers(rows.data.X)):
        total = total + part
    return total


def _slices(start: int, stop: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def _info(result: CGResult, jitter: float, relative: float, dtype: str) -> SolveInfo:
    stop = "residual" if result.converged else "max_iter"
    return SolveInfo(
        "sketched_cg",
        precision=dtype,
        n_iter=result.n_iter,
        backward_error=result.backward_error,
        jitter=jitter,
        relative_jitter=relative,
        converged=result.converged,
        interrupted=result.interrupted,
        stop="interrupted" if result.interrupted else stop,
    )
