"""The inverse of F Fᵀ + ρ I for a factor F of few columns, as a preconditioner."""

from collections.abc import Callable

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    astype,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    dtype_name,
    row_blocks,
)

# Bytes of one block of the factor's rows.
_BLOCK_BYTES = 4 * 2**20


def low_rank_inverse(F: Array, rho: float, u: Array) -> Callable[[Array], Array]:
    """Return a function that multiplies by (S^½ F Fᵀ S^½ + ρ I)⁻¹, with u = S^½ 1.

    Parameters
    ----------
    F : array of shape (n, r)
    rho : float
    u : array of shape (n, 1)

    Notes
    -----
    By Woodbury's formula, (r − S^½ F (FᵀSF + ρ I)⁻¹ Fᵀ S^½ r) / ρ. S^½ F is never made:
    F may fill most of the memory budget.
    """
    dtype = dtype_name(F)
    small = add_to_diagonal(_weighted_gram(F, u), rho)
    L = cholesky_with_jitter(small, overwrite=True).L

    def solve(R: Array) -> Array:
        inner = cho_solve(L, astype(F.T @ astype(u * R, dtype), "float64"))
        return (R - u * astype(F @ astype(inner, dtype), "float64")) / rho

    return solve


def _weighted_gram(F: Array, u: Array) -> Array:
    """Return Fᵀ S F, (r, r), summed in float64 over blocks of rows."""
    xp = array_namespace(F)
    rank = F.shape[1]
    total = xp.zeros((rank, rank), dtype=xp.float64, device=device_of(F))
    for s in row_blocks(F.shape[0], 8 * rank, _BLOCK_BYTES):
        block = F[s, :] * astype(u[s, :], dtype_name(F))
        total += astype(block.T @ block, "float64")
    return total
