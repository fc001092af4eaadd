"""Least squares on few kernel columns, for several values of C.

One Gram matrix serves every C, as ``_equations`` has it; each then takes a Cholesky
factorisation. Columns are in the precision of the rows, all sums in float64.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    astype,
    cho_solve,
    cholesky_with_jitter,
    diagonal,
    few_threads_for,
    mirror_lower,
    row_blocks,
)
from kaucus.kernels import Kernel
from kaucus.solvers._equations import NormalEquations, RowData

# Added to the diagonal, relative to it. Columns of wide kernels nearly depend on each
# other; without it their coefficients would hang on the rounding of the sums, and so
# on the number of threads.
_RIDGE = 1e-10
# Of a block of columns in float64.
_BLOCK_BYTES = 32 * 2**20


class ColumnModels(NamedTuple):
    """Functions f(x) = Σ_q a_q k(x, z_q) + b, one for each C, in float64."""

    coef: Array
    """a, (m, c, t)."""
    intercept: Array
    """b, (c, t)."""

    def values(self, K: Array) -> Array:
        """Return f of rows whose kernel columns are ``K``, (r, m), for each C."""
        xp = array_namespace(K)
        m, c, t = self.coef.shape
        sums = astype(K, "float64") @ xp.reshape(self.coef, (m, c * t))
        return xp.reshape(sums, (-1, c, t)) + self.intercept[None, :, :]


def solve_for_each_C(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    Cs: Sequence[float],
    sample_weight: Array | None = None,
) -> ColumnModels:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to rows in memory, for each C.

    Parameters
    ----------
    kernel : Kernel
    X, Z : arrays of shape (n, d) and (m, d)
        Rows, and those whose columns are fitted; in the precision of the columns.
    Y : array of shape (n, t)
    Cs : sequence of float
    sample_weight : array of shape (n,), default=None

    Notes
    -----
    n m²/2 multiplications, and m³/6 for each C.
    """
    xp, m = array_namespace(Y), Z.shape[0]
    with few_threads_for(X.shape[0]):
        K_mm = kernel(astype(Z, "float64"))
        shift = xp.mean(K_mm, axis=0)
        data = RowData(kernel, X, Y, sample_weight)
        sums = NormalEquations.zeros(m, Y)
        for rows in row_blocks(X.shape[0], 8 * m, _BLOCK_BYTES):
            K = data.columns(X[rows, :], rows, Z, shift)
            sums.add(astype(K, "float64"), data.targets(rows))
        mean = sums.cross[:, -1] / sums.weight
        right = sums.cross[:, :-1] - mean[:, None] * sums.target_sum[None, :]
        # Its transpose is as K_mm is in memory.
        S = mirror_lower(sums.gram).T - sums.weight * mean[:, None] * mean[None, :]
        ridge = _RIDGE * float(xp.mean(diagonal(S)))
        S = add_to_diagonal(S, ridge)
        systems = (S + K_mm / float(C) for C in Cs)
        factors = (cholesky_with_jitter(A, overwrite=True) for A in systems)
        coefs = [cho_solve(factor.L, right) for factor in factors]
    means = xp.stack([(mean + shift) @ coef for coef in coefs])
    return ColumnModels(xp.stack(coefs, axis=1), sums.target_sum / sums.weight - means)
