"""Choose C, and the kernel, of least squares on representatives by leave-one-out.

With K_mm = L Lᵀ and the weighted, centred rows Φ = S^½ (K_nm − 1 k̄ᵀ) L⁻ᵀ, the system of
``_low_rank`` is a ridge regression on Φ. With ΦᵀΦ = V Λ Vᵀ and P = Φ V,

    f_C(x_i) − ȳ = s_i^-½ P_i (Λ + I/C)⁻¹ Pᵀ S^½ (Y − ȳ),
    h_i(C)       = P_i (Λ + I/C)⁻¹ P_iᵀ + s_i / σ,

so that after one decomposition for each kernel every C costs n m (t + 1), and with it
come the leave-one-out values of all rows, (y_i − f(x_i)) / (1 − p_i h_i) off their
targets.
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
    few_threads_for,
    solve_triangular,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._scores import Score


class LowRankSearch(NamedTuple):
    """What was tried, and the best of it."""

    scores: np.ndarray
    """The larger the better, (n_kernels, n_Cs)."""
    best_kernel: int
    best_C: float


class LowRankSpectrum(NamedTuple):
    """Least squares on representatives, decomposed: everything but C."""

    eigenvalues: Array
    """Λ, (m,)."""
    P: Array
    """(n, m)."""
    squares: Array
    """P², entry by entry, which every C needs."""
    projected: Array
    """Pᵀ S^½ (Y − ȳ), (m, t)."""
    residuals: Array
    """Y − ȳ, (n, t)."""
    roots: Array
    """S^½, (n, 1)."""
    Y: Array


def search_on_representatives(
    kernels: Sequence[Kernel],
    X: Array,
    Y: Array,
    Z: Array,
    Cs: Sequence[float],
    score: Callable[[np.ndarray], Score],
    *,
    sample_weight: Array | None = None,
    left_out: Array | None = None,
) -> LowRankSearch:
    """Find the kernel and the C of the best leave-one-out score.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    Z : array of shape (m, d)
        The representatives.
    Cs : sequence of float
    score : callable
        Takes leave-one-out decision values, (n, t), NumPy, and returns a ``Score``.
    sample_weight, left_out : arrays of shape (n,), default=None
        As in :func:`solve_on_representatives`.

    Notes
    -----
    About 3 n m² + 10 m³ multiplications for each kernel, four n × m matrices of
    float64: for a few thousand rows and a few hundred representatives.
    """
    scores = np.full((len(kernels), len(Cs)), -np.inf)
    best: tuple[Score, int, float] | None = None
    with few_threads_for(X.shape[0]):
        for g, kernel in enumerate(kernels):
            spectrum = decompose_low_rank(kernel, X, Y, Z, sample_weight)
            for c, C in enumerate(map(float, Cs)):
                new = score(to_numpy(leave_one_out_at(spectrum, C, left_out)))
                scores[g, c] = new.value
                if best is None or new > best[0]:
                    best = (new, g, C)
    assert best is not None
    return LowRankSearch(scores, best[1], best[2])


def decompose_low_rank(
    kernel: Kernel, X: Array, Y: Array, Z: Array, sample_weight: Array | None = None
) -> LowRankSpectrum:
    """Decompose the least squares of rows on representatives, in float64."""
    Y = astype(Y, "float64")
    xp = array_namespace(Y)
    weight = xp.ones(Y.shape[0], dtype=Y.dtype, device=device_of(Y))
    if sample_weight is not None:
        weight = astype(sample_weight, "float64")
    shares, roots = weight / xp.sum(weight), xp.sqrt(weight)[:, None]
    K = astype(kernel(X, Z), "float64")
    K -= (shares @ K)[None, :]
    residuals = Y - (shares @ Y)[None, :]
    L = cholesky_with_jitter(kernel(astype(Z, "float64")), overwrite=True).L
    features = solve_triangular(L, (K * roots).T).T
    eigenvalues, V = eigh(features.T @ features)
    P = features @ V
    return LowRankSpectrum(
        xp.maximum(eigenvalues, xp.zeros_like(eigenvalues)),
        P,
        P**2,
        P.T @ (residuals * roots),
        residuals,
        roots,
        Y,
    )


def leave_one_out_at(
    spectrum: LowRankSpectrum, C: float, left_out: Array | None = None
) -> Array:
    """Return the decision values of all rows by models fitted without them, (n, t).

    Rows of weight zero have NaN, which no model was fitted without.
    """
    eigenvalues, P, squares, projected, residuals, roots, Y = spectrum
    xp = array_namespace(P)
    inverse = 1 / (eigenvalues + 1 / C)
    fitted = P @ (inverse[:, None] * projected)
    present = roots > 0
    fitted = fitted / xp.where(present, roots, xp.ones_like(roots))
    leverage = (squares @ inverse)[:, None] + roots**2 / xp.sum(roots**2)
    share = 1.0 if left_out is None else astype(left_out, "float64")[:, None]
    kept = xp.clip(1 - share * leverage, min=1e-12)
    values = Y - (residuals - fitted) / kept
    nan = xp.asarray(xp.nan, dtype=P.dtype, device=device_of(P))
    return xp.where(present, values, nan)
