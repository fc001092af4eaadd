"""Least squares on kernel columns for every C at once, and predictions of other rows.

With K_mm = L Lᵀ, the weighted and centred rows Φ = S^½ (K_nm − 1 k̄ᵀ) L⁻ᵀ and
ΦᵀΦ = V Λ Vᵀ, the coefficients of the system of ``_low_rank`` are

    A_C = L⁻ᵀ V (Λ + I/C)⁻¹ Vᵀ Φᵀ S^½ (Y − ȳ),    f_C(x) = ȳ + (k(x) − k̄)ᵀ A_C.

``_low_rank_search`` has the leave-one-out values of the same models.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    cholesky_with_jitter,
    device_of,
    eigh,
    solve_triangular,
)


class ColumnModel(NamedTuple):
    """Least squares of rows on kernel columns, decomposed: everything but C."""

    L: Array
    """K_mm = L Lᵀ, (m, m)."""
    V: Array
    eigenvalues: Array
    """Λ, (m,)."""
    projected: Array
    """Vᵀ Φᵀ S^½ (Y − ȳ), (m, t)."""
    mean_column: Array
    """k̄, (m,)."""
    mean_target: Array
    """ȳ, (t,)."""

    def coefficients(self, Cs: Sequence[float]) -> Array:
        """Return A for each C, (m, c, t)."""
        xp = array_namespace(self.V)
        (m, t), c = self.projected.shape, len(Cs)
        ridges = 1 / xp.asarray(Cs, dtype=self.V.dtype, device=device_of(self.V))
        inverse = 1 / (self.eigenvalues[:, None] + ridges[None, :])
        scaled = xp.reshape(inverse[:, :, None] * self.projected[:, None, :], (m, -1))
        found = solve_triangular(self.L, self.V @ scaled, transpose=True)
        return xp.reshape(found, (m, c, t))

    def values(self, K: Array, Cs: Sequence[float]) -> Array:
        """Return f of rows whose kernel columns are ``K``, (r, m), for each C."""
        xp = array_namespace(K)
        coef = self.coefficients(Cs)
        m, c, t = coef.shape
        centred = K - self.mean_column[None, :]
        found = xp.reshape(centred @ xp.reshape(coef, (m, -1)), (-1, c, t))
        return found + self.mean_target[None, None, :]


def decompose_columns(
    K_nm: Array, K_mm: Array, Y: Array, sample_weight: Array | None = None
) -> ColumnModel:
    """Decompose the least squares of rows on kernel columns.

    Parameters
    ----------
    K_nm, K_mm : arrays of shape (n, m) and (m, m)
        Kernel of rows and columns, and among the columns, in float64.
    Y : array of shape (n, t)
    sample_weight : array of shape (n,), default=None

    Notes
    -----
    3/2 n m² + 10 m³ multiplications.
    """
    xp = array_namespace(K_nm)
    Y = astype(Y, "float64")
    if sample_weight is None:
        mean_column, mean_target = xp.mean(K_nm, axis=0), xp.mean(Y, axis=0)
        centred, residuals = K_nm - mean_column[None, :], Y - mean_target[None, :]
    else:
        shares = astype(sample_weight, "float64") / xp.sum(sample_weight)
        mean_column, mean_target = shares @ K_nm, shares @ Y
        roots = xp.sqrt(astype(sample_weight, "float64"))[:, None]
        centred = (K_nm - mean_column[None, :]) * roots
        residuals = (Y - mean_target[None, :]) * roots
    L = cholesky_with_jitter(K_mm).L
    Phi = solve_triangular(L, centred.T)  # (m, n)
    eigenvalues, V = eigh(Phi @ Phi.T)
    eigenvalues = xp.maximum(eigenvalues, xp.zeros_like(eigenvalues))
    projected = V.T @ (Phi @ residuals)
    return ColumnModel(L, V, eigenvalues, projected, mean_column, mean_target)
