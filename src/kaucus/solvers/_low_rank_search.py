"""Choose C, and the kernel, of least squares on representatives by leave-one-out.

With K_mm = L Lᵀ and the weighted, centred rows Φ = S^½ (K_nm − 1 k̄ᵀ) L⁻ᵀ, the system of
``_low_rank`` is a ridge regression on Φ. With ΦᵀΦ = V Λ Vᵀ and P = Φ V,

    f_C(x_i) − ȳ = s_i^-½ P_i (Λ + I/C)⁻¹ Pᵀ S^½ (Y − ȳ),
    h_i(C)       = P_i (Λ + I/C)⁻¹ P_iᵀ + s_i / σ,

and (y_i − f(x_i)) / (1 − h_i) is by how much a model fitted without row i misses
it. So after one decomposition for each kernel, every C costs n m (t + 1): two products
for all of them. Kernels of the same distances share these.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    cholesky_with_jitter,
    device_of,
    eigh,
    map_blocks,
    resolve_budget,
    solve_triangular,
    to_numpy,
)
from kaucus.kernels import Kernel, matrices_of

# Kernels that are decomposed at a time, at most: each holds its matrices.
_WORKERS = 8
# Matrices of n × m and of m × m in float64 that a thread holds.
_TALL, _SQUARE = 5, 4
# Leave-one-out errors that a thread holds at a time, of several Cs, and how many arrays
# of that size there are.
_ENTRIES, _ERRORS = 2**23, 6
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
    entries = min(_ENTRIES, free // (8 * _ERRORS))
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
