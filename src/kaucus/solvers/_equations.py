"""Normal equations of rows on the kernel columns of representatives: sums over rows.

With representatives z_1 .. z_m, f(x) = Σ_q a_q k(x, z_q) + b is fitted to n rows by

    min  ½ aᵀ K_mm a + ½ C Σ_i s_i (y_i − f(x_i))²,

the least-squares SVM among the functions of the representatives; where these are all
rows, it is the least-squares SVM. With the weighted means k̄ and ȳ, and σ = Σ_i s_i,

    (K_mn S K_nm − σ k̄ k̄ᵀ + K_mm / C) a = K_mn S Y − σ k̄ ȳᵀ,    b = ȳ − k̄ᵀ a.

The left side is a sum over rows: blocks of K_nm are added (:meth:`NormalEquations.add`)
and forgotten, and sums over different rows are merged. A block is computed in the
precision of the rows, and summed in float64.

The columns are taken less a fixed k₀ near their means, which moves k₀ᵀa from f to b and
leaves the rest as it is: wide kernels are nearly constant, and K_mn S K_nm − σ k̄ k̄ᵀ
would lose their digits.

Leave-one-out: with A this matrix, c_i = k_i − k̄ and h_i = s_i (c_iᵀ A⁻¹ c_i + 1/σ),

    y_i − f⁽⁻ⁱ⁾(x_i) = (y_i − f(x_i)) / (1 − p_i h_i),

with p_i the share of its weight that is left out of row i.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    CholeskyFactor,
    Scratch,
    add_cross_gram,
    add_gram,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    diagonal,
    dtype_name,
    epsilon,
    for_each_block,
    is_numpy,
    itemsize,
    mirror_lower,
    n_workers,
    row_blocks,
    solve_triangular,
    take_rows,
    to_numpy,
    zero_gram,
)
from kaucus.kernels import Kernel
from kaucus.solvers._result import LSSVMSolution, SolveInfo

# A strip of rows that are left out one by one, of which there are a handful.
_LEFT_OUT_BYTES = 4 * 2**20
# What the sums of kernel columns are off by, in roundings of an entry. A smaller jitter
# does not outweigh it: three fits of MNIST, before the sums were made with care, had
# 27, 2.8 and 1.6 % test error with 1e-8, 1e-7 and 1e-6 of the diagonal.
_ROUNDINGS = 8
# Strips of K_nm that a thread finishes at a time.
_COLUMN_BYTES = 16 * 2**20
# Strips of m × m matrices that are still in cache when they are read again.
_STRIP_BYTES = 2**20


def bytes_per_row(m: int, Z: Array) -> int:
    """Return what a row of a block takes: kernel columns, tiles of these, its copies.

    A kernel of distances shifts the rows; those of the host are on a device twice.
    """
    return itemsize(Z) * (2 * m + 3 * Z.shape[1])


class RowData(NamedTuple):
    """The rows that the columns are fitted to."""

    kernel: Kernel
    X: Array
    Y: Array
    sample_weight: Array | None

    def targets(self, rows: slice) -> Array:
        """Return S^½ [Y, 1] of a block of rows, (b, t + 1), float64."""
        Y = astype(self.Y[rows, :], "float64")
        xp = array_namespace(Y)
        ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=device_of(Y))
        targets = xp.concat([Y, ones], axis=1)
        return targets if self.sample_weight is None else targets * self.roots(rows)

    def roots(self, rows: slice) -> Array:
        """Return S^½ of a block of rows, (b, 1), float64."""
        assert self.sample_weight is not None
        weight = astype(self.sample_weight[rows], "float64")
        return array_namespace(weight).sqrt(weight)[:, None]

    def columns(
        self,
        X: Array,
        rows: slice,
        Z: Array,
        shift: Array,
        scratch: Scratch | None = None,
    ) -> Array:
        """Return S^½ (K − k₀) of a block of rows ``X``, (b, m), as precise as Z is.

        In the memory of ``scratch``, where one is given, until the next block is.
        """
        out = None
        if scratch is not None and is_numpy(Z):
            out = scratch.empty((X.shape[0], Z.shape[0]), Z.dtype)
        K = self.kernel(astype(X, dtype_name(Z)), Z, out=out)
        shift = astype(shift, dtype_name(K))[None, :]
        roots = None
        if self.sample_weight is not None:
            roots = astype(self.roots(rows), dtype_name(K))

        def finish(s: slice) -> None:
            part = K[s, :]
            part -= shift
            if roots is not None:
                part *= roots[s, :]

        row_bytes = itemsize(K) * K.shape[1]
        strips = list(row_blocks(K.shape[0], row_bytes, _COLUMN_BYTES))
        for_each_block(finish, strips, workers=min(n_workers(K), len(strips)))
        return K

    def some(self, rows: np.ndarray) -> tuple[Array, Array, Array]:
        """Return the given rows, their targets and weights."""
        xp = array_namespace(self.Y)
        ones = xp.ones(len(rows), dtype=xp.float64, device=device_of(self.Y))
        return (
            take_rows(self.X, rows),
            *(
                ones if part is None else astype(take_rows(part, rows), "float64")
                for part in (self.Y, self.sample_weight)
            ),
        )


@dataclass(eq=False)
class NormalEquations:
    """Sums over rows of all that the system is made of, in float64."""

    gram: Array
    """Σ s (k − k₀)(k − k₀)ᵀ, (m, m), of which the lower triangle is defined."""
    cross: Array
    """Σ s (k − k₀) [yᵀ, 1], (m, t + 1)."""
    target_sum: Array
    """Σ s y, (t,)."""
    weight: float
    """Σ s."""

    @classmethod
    def zeros(cls, m: int, Y: Array) -> "NormalEquations":
        """Return the sums over no rows, for targets like ``Y``, (n, t)."""
        xp, t = array_namespace(Y), Y.shape[1]
        place = {"dtype": xp.float64, "device": device_of(Y)}
        cross, target_sum = xp.zeros((m, t + 1), **place), xp.zeros(t, **place)
        return cls(zero_gram(m, Y), cross, target_sum, 0.0)

    def add(self, K: Array, targets: Array) -> None:
        """Add a block of rows.

        Parameters
        ----------
        K : array of shape (b, m)
            S^½ (K − k₀), as :meth:`RowData.columns` gives it.
        targets : array of shape (b, t + 1)
            S^½ [Y, 1], as :meth:`RowData.targets` gives them.
        """
        self.gram = add_gram(self.gram, K)
        # With the care of the Gram matrix, from which the mean's square is taken off.
        self.cross = add_cross_gram(self.cross, K, astype(targets, dtype_name(K)))
        roots = targets[:, -1:]  # S^½
        weighted = array_namespace(targets).sum(targets * roots, axis=0)  # Σ s [y, 1]
        self.target_sum = self.target_sum + weighted[:-1]
        self.weight += float(weighted[-1])

    def merge(self, other: "NormalEquations") -> None:
        """Add the sums over other rows, with the same k₀."""
        self.gram += other.gram
        self.cross = self.cross + other.cross
        self.target_sum = self.target_sum + other.target_sum
        self.weight += other.weight

    def copy(self, like: Array | None = None) -> "NormalEquations":
        """Return a copy, in the library and place of ``like`` where it is given."""
        like = self.cross if like is None else like
        xp = array_namespace(like)
        gram = zero_gram(self.gram.shape[0], like)
        gram[:, :] = as_like(self.gram, like)
        others = (as_like(part, like) for part in (self.cross, self.target_sum))
        cross, target_sum = (xp.asarray(part, copy=True) for part in others)
        return NormalEquations(gram, cross, target_sum, self.weight)

    def leading(self, m: int) -> "NormalEquations":
        """Return the equations of the first m columns, in memory of their own."""
        gram = zero_gram(m, self.cross)
        gram[:, :] = self.gram[:m, :m]
        return replace(self, gram=gram, cross=self.cross[:m, :])

    def on_host(self) -> "NormalEquations":
        """Return the sums as NumPy arrays."""
        gram, cross = to_numpy(self.gram), to_numpy(self.cross)
        return NormalEquations(gram, cross, to_numpy(self.target_sum), self.weight)

    def bordered(
        self, new: "NormalEquations", border: list[Array]
    ) -> "NormalEquations":
        """Return the equations of these columns and of new ones, of the same rows.

        ``border`` is K₁ᵀ S K₂ of old and new columns, by parts of the old ones.
        """
        xp, start = array_namespace(self.cross), self.gram.shape[0]
        gram = zero_gram(start + new.gram.shape[0], self.cross)
        gram[:start, :start] = self.gram
        gram[start:, start:] = new.gram
        edge = 0
        for part in border:
            # As BLAS has the Gram matrix, this writes memory in its order.
            gram[start:, edge : edge + part.shape[0]] = part.T
            edge += part.shape[0]
        cross = xp.concat([self.cross, new.cross], axis=0)
        return replace(self, gram=gram, cross=cross)


class Columns(NamedTuple):
    """The kernel columns of representatives, and the equations of rows on them."""

    Z: Array
    K_mm: Array
    """Of the representatives, (m, m), float64."""
    shift: Array
    """k₀, (m,), float64."""
    equations: NormalEquations

    def leading(self, m: int) -> "Columns":
        """Return the first m columns."""
        Z, K_mm, shift, equations = self
        return Columns(Z[:m, :], K_mm[:m, :m], shift[:m], equations.leading(m))


def solve_equations(
    data: RowData,
    columns: Columns,
    C: float,
    loo_rows: np.ndarray | None,
) -> LSSVMSolution:
    """Solve for the coefficients, and leave out some rows.

    The Gram matrix of ``columns`` is used up.
    """
    Z, K_mm, shift, equations = columns
    factor, relative_jitter, coef, mean = factor_equations(
        equations, K_mm, C, epsilon(Z)
    )
    intercept = equations.target_sum / equations.weight - mean @ coef
    loo = None
    if loo_rows is not None and len(loo_rows):
        loo = leave_one_out(
            *data.some(loo_rows),
            columns=lambda rows: (
                astype(data.kernel(astype(rows, dtype_name(Z)), Z), "float64")
                - shift
                - mean
            ),
            factor=factor,
            coef=coef,
            target_mean=equations.target_sum / equations.weight,
            total=equations.weight,
        )
    info = SolveInfo(
        "normal_equations",
        precision=dtype_name(Z),
        n_iter=1,
        jitter=factor.jitter,
        relative_jitter=relative_jitter,
    )
    return LSSVMSolution(coef, intercept - shift @ coef, loo, info)


def factor_equations(
    equations: NormalEquations, K_mm: Array, C: float, rounding: float
) -> tuple[CholeskyFactor, float, Array, Array]:
    """Return the factor of A, its jitter, the coefficients a, and the mean of k − k₀.

    The equations' Gram matrix is used up. ``rounding`` is that of the kernel's entries.

    Where the representatives' columns depend on each other, as with a linear kernel of
    few features, A is singular and so many a give the same f: a jitter of the size of
    rounding picks a short one.
    """
    total = equations.weight
    mean = equations.cross[:, -1] / total
    A = _system(equations.gram, total, mean, K_mm, C)
    right = equations.cross[:, :-1] - mean[:, None] @ equations.target_sum[None, :]
    scale = float(array_namespace(A).mean(diagonal(A)))
    factor = cholesky_with_jitter(A, rounding=_ROUNDINGS * rounding, overwrite=True)
    relative = factor.jitter / max(scale, 1e-300)
    return factor, relative, cho_solve(factor.L, right), mean


def _system(gram: Array, total: float, mean: Array, K_mm: Array, C: float) -> Array:
    """Return Σ s k kᵀ − σ k̄ k̄ᵀ + K_mm / C in the memory of the Gram matrix.

    By strips that stay in cache: matrices of m × m would be made and read otherwise.
    """
    A = mirror_lower(gram)
    by_rows = A.T if is_numpy(A) else A  # as it is in memory; A is symmetric
    m = mean.shape[0]
    for rows in row_blocks(m, m * itemsize(A), _STRIP_BYTES):
        strip = K_mm[rows, :] / C
        strip -= total * mean[rows, None] * mean[None, :]
        by_rows[rows, :] += strip
    return A


def leave_one_out(
    X, Y, weight, *, columns, factor, coef, target_mean, total: float
) -> Array:
    """Return the decision values of rows by models fitted without them, (r, t)."""
    xp, parts = array_namespace(Y), []
    height = max(_LEFT_OUT_BYTES // (8 * coef.shape[0]), 256)
    for rows in row_blocks(Y.shape[0], 1, height):
        centred = columns(X[rows, :])  # c_i, (r, m)
        residuals = Y[rows, :] - target_mean[None, :] - centred @ coef
        half = solve_triangular(factor.L, centred.T)  # L⁻¹ c_i
        leverage = weight[rows] * (xp.sum(half**2, axis=0) + 1 / total)
        kept = xp.maximum(1 - leverage, xp.full_like(leverage, 1e-12))
        parts.append(Y[rows, :] - residuals / kept[:, None])
    return xp.concat(parts)
