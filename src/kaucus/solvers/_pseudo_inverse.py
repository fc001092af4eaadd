"""The pseudo-inverse of a block through its Gram matrix.

    E† = Eᵀ (E Eᵀ)⁻¹                                    (Andrecut 2016, eq. 40)

The Gram matrix is scaled to a unit diagonal, which is the paper's standardisation of
the rows (eq. 36-37): in exact arithmetic it changes nothing, in floating point it
keeps digits. It is factored by Cholesky; where it is singular to working precision
(rows that repeat each other, weights of zero), its eigenvalues tell its rank, and
those below the cutoff are left out. That is slower, and is counted.
"""

from typing import NamedTuple

from kaucus.backend import (
    Array,
    array_namespace,
    cho_solve,
    cholesky,
    diagonal,
    eigh,
    epsilon,
)


class GramInverse(NamedTuple):
    """(E Eᵀ)⁺, ready to be applied."""

    scale: Array
    """1 / ‖row‖, (m,); 0 for a row of zeros."""
    L: Array | None
    """Cholesky factor of the scaled matrix, or None."""
    spectrum: tuple[Array, Array] | None
    """Inverted eigenvalues, (m,), and eigenvectors, (m, m), or None."""

    @property
    def rank_revealing(self) -> bool:
        """Whether eigenvalues had to take the place of the Cholesky factor."""
        return self.spectrum is not None

    def __call__(self, B: Array) -> Array:
        """Return (E Eᵀ)⁺ B, (m, t)."""
        B = self.scale[:, None] * B
        if self.spectrum is None:
            X = cho_solve(self.L, B)
        else:
            inverse, U = self.spectrum
            X = U @ (inverse[:, None] * (U.T @ B))
        return self.scale[:, None] * X


def invert_gram(G: Array) -> GramInverse:
    """Return the pseudo-inverse of a symmetric positive semidefinite ``G``, (m, m).

    Parameters
    ----------
    G : array of shape (m, m)
        In float64.

    Notes
    -----
    m³/3 multiplications by Cholesky, about 10 m³ by eigenvalues.
    """
    xp = array_namespace(G)
    norms = xp.sqrt(xp.clip(diagonal(G), min=0.0))
    safe = xp.where(norms > 0, norms, xp.ones_like(norms))
    scale = xp.where(norms > 0, 1 / safe, xp.zeros_like(norms))
    scaled = G * scale[None, :] * scale[:, None]
    # Below this an eigenvalue of a matrix with unit diagonal is rounding.
    cutoff = G.shape[0] * epsilon(G)
    L = cholesky(scaled)
    if L is not None and float(xp.min(diagonal(L))) ** 2 > cutoff:
        return GramInverse(scale, L, None)
    values, U = eigh(scaled)
    large = values > cutoff * float(xp.max(values))
    ones = xp.ones_like(values)
    inverse = xp.where(large, 1 / xp.where(large, values, ones), 0 * ones)
    return GramInverse(scale, None, (inverse, U))
