"""Least squares on the kernel columns of representatives."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    Scratch,
    few_threads_for,
    for_each_block,
    format_bytes,
    n_workers,
    resolve_budget,
    row_blocks,
)
from kaucus._array.linalg import (
    CholeskyFactor,
    add_cross_gram,
    add_gram,
    cho_solve,
    cholesky_with_jitter,
    diagonal,
    gram_bytes,
    mirror_lower,
    solve_triangular,
    zero_gram,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import Block, Rows, as_rows
from kaucus._array.segments import draw_some
from kaucus.kernels._kernel import Kernel
from kaucus.kernels._matrix import kernel_expansion
from kaucus.solvers._system import LSSVMSolution, SolveInfo

# ----------------------------------------------------------------------------------
# Normal equations of rows on the kernel columns of representatives: sums over rows.
#
# With representatives z_1 .. z_m, f(x) = Σ_q a_q k(x, z_q) + b is fitted to n rows by
#
#     min  ½ aᵀ K_mm a + ½ C Σ_i s_i (y_i − f(x_i))²,
#
# the least-squares SVM among the functions of the representatives; where these are all
# rows, it is the least-squares SVM. With the weighted means k̄ and ȳ, and σ = Σ_i s_i,
#
#     (K_mn S K_nm − σ k̄ k̄ᵀ + K_mm / C) a = K_mn S Y − σ k̄ ȳᵀ,    b = ȳ − k̄ᵀ a.
#
# The left side is a sum over rows: blocks of K_nm are added
# (:meth:`NormalEquations.add`) and forgotten, and sums over different rows are merged.
# A block is computed in the precision of the rows, and summed in float64.
#
# The columns are taken less a fixed k₀ near their means, which moves k₀ᵀa from f to b
# and leaves the rest as it is: wide kernels are nearly constant, and K_mn S K_nm − σ k̄
# k̄ᵀ would lose their digits.
#
# Leave-one-out: with A this matrix, c_i = k_i − k̄ and h_i = s_i (c_iᵀ A⁻¹ c_i + 1/σ),
#
#     y_i − f⁽⁻ⁱ⁾(x_i) = (y_i − f(x_i)) / (1 − p_i h_i),
#
# with p_i the share of its weight that is left out of row i.
# ----------------------------------------------------------------------------------

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
    """Return the bytes of a row in a block: kernel columns, tiles, copies.

    A kernel of distances shifts the rows; those of the host are on a device twice.
    """
    return nx.itemsize(Z) * (3 * m + 3 * Z.shape[1])


class RowData(NamedTuple):
    """The rows that the columns are fitted to, and their kernel."""

    kernel: Kernel
    X: Any
    """(n, d): an array, a CSR matrix, rows of the host or in parts."""
    Y: Array
    """Targets, (n, t), in the library of ``X`` (NumPy for CSR)."""
    sample_weight: Array | None = None

    def within(self, memory_budget: int | str | None) -> "RowData":
        """Return the data with rows that are worked on within a budget."""
        return self._replace(X=as_rows(self.X, memory_budget))

    def targets(self, rows: slice) -> Array:
        """Return S^½ [Y, 1] of a block of rows, (b, t + 1), float64."""
        Y = nx.astype(self.Y[rows, :], "float64")
        xp = nx.array_namespace(Y)
        ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=nx.device_of(Y))
        targets = xp.concat([Y, ones], axis=1)
        return targets if self.sample_weight is None else targets * self.roots(rows)

    def roots(self, rows: slice) -> Array:
        """Return S^½ of a block of rows, (b, 1), float64."""
        assert self.sample_weight is not None
        weight = nx.astype(self.sample_weight[rows], "float64")
        return nx.array_namespace(weight).sqrt(weight)[:, None]

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
        if scratch is not None and nx.is_numpy(Z):
            out = scratch.empty((X.shape[0], Z.shape[0]), Z.dtype)
        K = self.kernel(nx.astype(X, nx.dtype_name(Z)), Z, out=out)
        shift = nx.astype(shift, nx.dtype_name(K))[None, :]
        roots = None
        if self.sample_weight is not None:
            roots = nx.astype(self.roots(rows), nx.dtype_name(K))

        def finish(s: slice) -> None:
            part = K[s, :]
            part -= shift
            if roots is not None:
                part *= roots[s, :]

        row_bytes = nx.itemsize(K) * K.shape[1]
        strips = list(row_blocks(K.shape[0], row_bytes, _COLUMN_BYTES))
        for_each_block(finish, strips, workers=min(n_workers(K), len(strips)))
        return K

    def some(self, rows: np.ndarray) -> tuple[Array, Array, Array]:
        """Return the given rows, their targets and weights."""
        xp = nx.array_namespace(self.Y)
        ones = xp.ones(len(rows), dtype=xp.float64, device=nx.device_of(self.Y))
        return (
            nx.take_rows(self.X, rows),
            *(
                ones if part is None else nx.astype(nx.take_rows(part, rows), "float64")
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
        xp, t = nx.array_namespace(Y), Y.shape[1]
        place = {"dtype": xp.float64, "device": nx.device_of(Y)}
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
        self.cross = add_cross_gram(self.cross, K, nx.astype(targets, nx.dtype_name(K)))
        roots = targets[:, -1:]  # S^½
        weighted = nx.array_namespace(targets).sum(
            targets * roots, axis=0
        )  # Σ s [y, 1]
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
        xp = nx.array_namespace(like)
        gram = zero_gram(self.gram.shape[0], like)
        gram[:, :] = nx.as_like(self.gram, like)
        others = (nx.as_like(part, like) for part in (self.cross, self.target_sum))
        cross, target_sum = (xp.asarray(part, copy=True) for part in others)
        return NormalEquations(gram, cross, target_sum, self.weight)

    def leading(self, m: int) -> "NormalEquations":
        """Return the equations of the first m columns, in memory of their own."""
        gram = zero_gram(m, self.cross)
        gram[:, :] = self.gram[:m, :m]
        return replace(self, gram=gram, cross=self.cross[:m, :])

    def on_host(self) -> "NormalEquations":
        """Return the sums as NumPy arrays."""
        gram, cross = nx.to_numpy(self.gram), nx.to_numpy(self.cross)
        return NormalEquations(gram, cross, nx.to_numpy(self.target_sum), self.weight)

    def bordered(
        self, new: "NormalEquations", border: list[Array]
    ) -> "NormalEquations":
        """Return the equations of these columns and of new ones, of the same rows.

        ``border`` is K₁ᵀ S K₂ of old and new columns, by parts of the old ones.
        """
        xp, start = nx.array_namespace(self.cross), self.gram.shape[0]
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
    """Kernel columns of representatives with the normal equations of rows."""

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
    data: RowData, columns: Columns, C: float, loo_rows: np.ndarray | None
) -> LSSVMSolution:
    """Solve for the coefficients, and leave out some rows.

    The Gram matrix of ``columns`` is used up.
    """
    Z, K_mm, shift, equations = columns
    factor, relative_jitter, coef, mean = factor_equations(
        equations, K_mm, C, nx.epsilon(Z)
    )
    intercept = equations.target_sum / equations.weight - mean @ coef
    loo = None
    if loo_rows is not None and len(loo_rows):
        loo = _leave_one_out(data, loo_rows, columns, factor, coef, mean)
    info = SolveInfo(
        "normal_equations",
        precision=nx.dtype_name(Z),
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
    scale = float(nx.array_namespace(A).mean(diagonal(A)))
    factor = cholesky_with_jitter(A, rounding=_ROUNDINGS * rounding, overwrite=True)
    relative = factor.jitter / max(scale, 1e-300)
    return factor, relative, cho_solve(factor.L, right), mean


def _system(gram: Array, total: float, mean: Array, K_mm: Array, C: float) -> Array:
    """Return Σ s k kᵀ − σ k̄ k̄ᵀ + K_mm / C in the memory of the Gram matrix.

    By strips that stay in cache: matrices of m × m would be made and read otherwise.
    """
    A = mirror_lower(gram)
    by_rows = A.T if nx.is_numpy(A) else A  # as it is in memory; A is symmetric
    m = mean.shape[0]
    for rows in row_blocks(m, m * nx.itemsize(A), _STRIP_BYTES):
        strip = K_mm[rows, :] / C
        strip -= total * mean[rows, None] * mean[None, :]
        by_rows[rows, :] += strip
    return A


def _leave_one_out(
    data: RowData, some: np.ndarray, columns: Columns, factor, coef: Array, mean: Array
) -> Array:
    """Return leave-one-out decision values of some rows, (r, t)."""
    (X, Y, weight), (Z, _, shift, equations) = data.some(some), columns
    xp, total, parts = nx.array_namespace(Y), equations.weight, []
    target_mean = equations.target_sum / total
    # No more rows than columns: matrices of m × m have room in the budget.
    m = coef.shape[0]
    height = max(min(_LEFT_OUT_BYTES // (8 * m), m), 256)
    for rows in row_blocks(Y.shape[0], 1, height):
        K = data.kernel(nx.astype(X[rows, :], nx.dtype_name(Z)), Z)
        centred = nx.astype(K, "float64") - shift - mean  # c_i, (r, m)
        residuals = Y[rows, :] - target_mean[None, :] - centred @ coef
        half = solve_triangular(factor.L, centred.T)  # L⁻¹ c_i
        leverage = weight[rows] * (xp.sum(half**2, axis=0) + 1 / total)
        kept = xp.maximum(1 - leverage, xp.full_like(leverage, 1e-12))
        parts.append(Y[rows, :] - residuals / kept[:, None])
    return xp.concat(parts)


# ----------------------------------------------------------------------------------
# One pass over the rows, wherever they are: blocks of kernel columns are summed.
#
# With columns [K₁, K₂] of old and new representatives and row weights S,
#
#     [K₁ K₂]ᵀ S [K₁ K₂] = [ G₁₁  · ; K₂ᵀ S K₁  K₂ᵀ S K₂ ]:
#
# new columns add the second row, and the sums of k and of k y over the rows; G₁₁ stays.
# K₁ is kept where the budget has room for it, else computed again, block by block.
# ----------------------------------------------------------------------------------

# Blocks of K_nm within a part: of one size, so that sums do not depend on the memory.
_PART_BLOCK_BYTES = 64 * 2**20


class ColumnSums:
    """Normal equations of new columns, and their products with the old ones."""

    def __init__(self, widths: Sequence[int], m: int, Y: Array):
        self.new = NormalEquations.zeros(m, Y)
        xp, place = nx.array_namespace(Y), {"device": nx.device_of(Y)}
        self.border = [xp.zeros((k, m), dtype=xp.float64, **place) for k in widths]
        """K₁ᵀ S K₂, by parts of the old columns."""

    def merge(self, other: "ColumnSums") -> None:
        """Add the sums over other rows."""
        self.new.merge(other.new)
        pairs = zip(self.border, other.border, strict=True)
        self.border = [mine + others for mine, others in pairs]

    def on_host(self) -> "ColumnSums":
        """Return the sums as NumPy arrays."""
        out = copy.copy(self)
        out.new, out.border = self.new.on_host(), [nx.to_numpy(B) for B in self.border]
        return out


class Tally:
    """Sums, columns and progress that blocks of rows in this process share.

    ``earlier`` are the kept columns of old representatives, block by block.
    """

    def __init__(self, n_rows: int, tell, total=None, earlier=(), keeps: bool = False):
        self._n_rows, self._done, self._tell = n_rows, 0, tell
        self.total: NormalEquations | None = total
        self.sums: ColumnSums | None = None
        self.earlier, self.kept, self.keeps = iter(earlier), [], keeps

    def advance(self, n_rows: int) -> None:
        """Count rows that are done."""
        self._done += n_rows
        if self._tell is not None:
            self._tell(self._done, self._n_rows)


def sum_columns(
    data: RowData,
    Z: Array,
    shift: Array,
    height: int,
    tell: Callable[[int, int], object] | None,
    *,
    old: Sequence[Array] = (),
    total: NormalEquations | None = None,
    earlier: Sequence[list[Array]] = (),
    keeps: bool = False,
) -> tuple[ColumnSums, list[list[Array]]]:
    """Return the normal equations on the columns of ``Z``, and cached columns.

    ``shift`` is their k₀; ``old`` are the old representatives and their k₀. ``height``
    is the number of rows of a block; ``tell(n_rows_done, n)`` is called after each.
    ``total`` are the equations of earlier rows, to which these are added.
    """
    rows = as_rows(data.X).attached(data.Y, data.sample_weight)
    n, m = rows.shape[0], Z.shape[0] + sum(points.shape[0] for points in old[:1])
    tally = Tally(n, tell, total, earlier, keeps) if rows.local else None
    if not rows.local:
        _check_memory(rows.budget, m, Z)
        most = min(_PART_BLOCK_BYTES, max(rows.budget // 2, 1))
        height = max(most // bytes_per_row(m, Z), 1)
    arguments = (data.kernel, height, tally, Z, shift, *old)
    label = "add-columns" if old else "add-normal-equations"
    n_bytes = 8 * Z.shape[0] * m
    sums = rows.reduce(add_block, *arguments, label=label, n_bytes=n_bytes)
    if tally is not None:
        return sums, tally.kept
    sums.new = sums.new.copy(data.Y)
    sums.border = [nx.as_like(B, data.Y) for B in sums.border]
    if total is not None:
        total.merge(sums.new)
        sums.new = total
    if tell is not None:
        tell(n, n)
    return sums, []


def _check_memory(budget: int, m: int, Z: Array) -> None:
    """Raise where work on one part has no room for m representatives."""
    needed = gram_bytes(m, Z) + 3 * 8 * m * m + bytes_per_row(m, Z)
    if needed > budget:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"each part of the rows, and there are {format_bytes(budget)}; use "
            "fewer representatives, a larger memory_budget, or workers with fewer "
            "threads or more memory."
        )


def add_block(
    block: Block, kernel: Kernel, height: int, tally: Tally | None, *points: Array
) -> ColumnSums:
    """Return the sums of the rows of a block; on the host, without a tally.

    ``points`` are new representatives and their k₀, and, perhaps, old ones and theirs.
    """
    (Y, weight), X = block.vectors, block.rows
    data = RowData(kernel, X, nx.as_like(Y, X), nx.as_like(weight, X))
    Z, shift, *old = (nx.as_like(array, X) for array in points)
    own = Tally(X.shape[0], None) if tally is None else tally
    # Columns that are not kept are written to the same memory again.
    scratch = None if own.keeps or old else Scratch()
    for rows in row_blocks(X.shape[0], 1, height):
        K = data.columns(X[rows, :], rows, Z, shift, scratch)
        before = next(own.earlier, None)
        if before is None:
            before = [data.columns(X[rows, :], rows, *old)] if old else []
        if own.sums is None:
            own.sums = ColumnSums([E.shape[1] for E in before], Z.shape[0], data.Y)
            own.sums.new = own.sums.new if own.total is None else own.total
        sums = own.sums
        sums.new.add(K, data.targets(rows))
        pairs = zip(sums.border, before, strict=True)
        sums.border = [add_cross_gram(B, E, K) for B, E in pairs]
        if own.keeps:
            own.kept.append([*before, K])
        own.advance(rows.stop - rows.start)
    if own.sums is None:
        widths = [points.shape[0] for points in old[:1]]
        own.sums = ColumnSums(widths, Z.shape[0], data.Y)
    return own.sums if tally is not None else own.sums.on_host()


def sum_equations(
    data: RowData, Z: Array, shift: Array, height: int, tell=None, total=None
) -> NormalEquations:
    """Return the normal equations of all rows, see :func:`sum_columns`."""
    return sum_columns(data, Z, shift, height, tell, total=total)[0].new


def row_values(
    X: Rows, kernel: Kernel, Z: Array, coef: Array, intercept: Array
) -> np.ndarray:
    """Return the decision values of all rows, (n, t), float64."""
    arguments = (kernel, Z, coef, intercept)
    return np.concatenate(X.map(values_of_block, *arguments, label="predict-rows"))


def values_of_block(
    block: Block, kernel: Kernel, Z: Array, coef: Array, intercept: Array
) -> np.ndarray:
    """Return the decision values of the rows of a block."""
    if block.rows.shape[0] == 0:
        return np.empty((0, coef.shape[1]))
    Z, coef = nx.as_like(Z, block.rows), nx.as_like(coef, block.rows)
    sums = kernel_expansion(kernel, block.rows, Z, coef, memory_budget=block.budget)
    return nx.to_numpy(nx.astype(sums, "float64")) + nx.to_numpy(intercept)


# ----------------------------------------------------------------------------------
# Least squares of all rows on the kernel columns of a few representatives.
#
# Their normal equations (above) are summed in one pass over blocks of K_nm, of
# which none but one need exist at a time.
#
# They are sums over rows. So where rows come in parts, they can be kept in place of the
# rows (:class:`RunningSums`): m × m numbers, however many rows there were, and the
# solution is that of all of them at once.
# ----------------------------------------------------------------------------------

# Blocks of K_nm: high enough that adding a Gram matrix costs little beside making it.
_BLOCK_BYTES = 1024 * 2**20
# Targets as they are given, those of a block of classes, and weighted ones.
_TARGETS = 2


def solve_on_representatives(
    data: RowData,
    Z: Array,
    *,
    C: float,
    loo_rows: np.ndarray | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> LSSVMSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows.

    Parameters
    ----------
    data : RowData
    Z : array of shape (m, d)
        The representatives.
    C : float
    loo_rows : integer array, default=None
        Rows whose leave-one-out decision values are wanted as ``loo_decision``.
    memory_budget : int, str or None, default=None
        Holds one block of K_nm and four matrices of m × m.
    callback : callable, default=None
        ``callback(n_rows_done, n)`` after each block.

    Returns
    -------
    LSSVMSolution
        ``dual_coef`` has one row for each representative.

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.

    Notes
    -----
    n m d + n m²/2 multiplications, and m³/6 for the solution.
    """
    data = data.within(memory_budget)
    height = block_height(data, resolve_budget(memory_budget, data.Y), Z)
    with few_threads_for(max(data.X.shape[0], Z.shape[0])):
        K_mm = data.kernel(nx.astype(Z, "float64"))
        shift = nx.array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
        equations = sum_equations(data, Z, shift, height, callback)
        return solve_equations(data, Columns(Z, K_mm, shift, equations), C, loo_rows)


def block_height(
    data: RowData, budget: int, Z: Array, *, more_matrices: int = 0
) -> int:
    """Return the rows of a block of K_nm, or raise where there is no room for one.

    Beside matrices of m × m: three and the kernel's, and as many more as told. Targets
    of rows in parts are with the rows.
    """
    (n, t), m, row = data.Y.shape, Z.shape[0], bytes_per_row(Z.shape[0], Z)
    n = n if getattr(data.X, "local", True) else 0
    needed = ((3 + more_matrices) * 8 + nx.itemsize(Z)) * m * m + gram_bytes(m, Z)
    rest = budget - needed - _TARGETS * 8 * n * (t + 1)
    if rest < row:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"all rows, memory_budget allows {format_bytes(budget)}; use fewer "
            "representatives, or a larger memory_budget."
        )
    return max(min(_BLOCK_BYTES, rest) // row, 1)


# ---- rows that come in parts ---------------------------------------------------------


# Beside those of a fit at once: the sums that were kept, and the copy to be factored.
_MORE_MATRICES = 2


class RunningSums(NamedTuple):
    """Equations of the rows seen so far."""

    shift: Array
    """k₀, (m,), float64; it stays."""
    equations: NormalEquations

    def on_host(self) -> "RunningSums":
        """Return the equations as NumPy arrays."""
        return RunningSums(nx.to_numpy(self.shift), self.equations.on_host())

    def copied(self, like: Array) -> "RunningSums":
        """Return a copy, which may be used up, in the library and place of ``like``."""
        return RunningSums(nx.as_like(self.shift, like), self.equations.copy(like))


def add_rows(
    data: RowData,
    Z: Array,
    before: RunningSums | None = None,
    *,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> RunningSums:
    """Add rows to the equations of earlier ones.

    Parameters
    ----------
    data : RowData
        Kernel, and the new rows with targets and weights.
    Z : array of shape (m, d)
        The representatives, the same in every call.
    before : RunningSums, default=None
        Of the earlier rows; not changed. None: there are none.
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_rows_done, n)`` after each block.

    Returns
    -------
    RunningSums

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.
    """
    m = Z.shape[0]
    budget = resolve_budget(memory_budget, Z)
    height = block_height(data, budget, Z, more_matrices=_MORE_MATRICES)
    with few_threads_for(max(data.X.shape[0], m)):
        if before is None:
            K_mm = data.kernel(nx.astype(Z, "float64"))
            shift, total = nx.array_namespace(K_mm).mean(K_mm, axis=0), None
            del K_mm
        else:
            shift, total = before.copied(data.Y)
        equations = sum_equations(data, Z, shift, height, callback, total)
    return RunningSums(shift, equations)


def solve_running(
    data: RowData, Z: Array, sums: RunningSums, *, C: float, loo_rows=None
) -> LSSVMSolution:
    """Solve for the coefficients of all rows seen so far.

    Parameters
    ----------
    data : RowData
        Kernel, and rows that are among those seen, for ``loo_rows``.
    Z : array of shape (m, d)
    sums : RunningSums
        Not changed.
    C : float
    loo_rows : integer array, default=None
        Rows of ``data`` whose leave-one-out values are wanted.
    """
    with few_threads_for(Z.shape[0]):
        K_mm = data.kernel(nx.astype(Z, "float64"))
        shift, equations = sums.copied(data.Y)
        columns = Columns(Z, K_mm, shift, equations)
        return solve_equations(data, columns, C, loo_rows)


# ----------------------------------------------------------------------------------
# Kernel columns of representatives, and their equations, that grow by more columns.
# ----------------------------------------------------------------------------------


class BlockPlan(NamedTuple):
    """Rows of a block, and whether all columns are cached."""

    height: int
    keep: bool


class GrownColumns(NamedTuple):
    """Columns with their cache."""

    columns: Columns
    kept: list[list[Array]]
    """S^½ (K − k₀): for each block of rows, a part for each time that columns were
    added; or no blocks."""


def columns_bytes(m: int, Z: Array) -> int:
    """Return the bytes of the matrices of m representatives, without blocks of rows."""
    return (5 * 8 + nx.itemsize(Z)) * m * m + gram_bytes(m, Z)


def rows_of_kept_columns(m: int, budget: int, Z: Array) -> int:
    """Return of how many rows :func:`plan_blocks` surely keeps the m columns."""
    return max((budget - columns_bytes(m, Z)) // 2 // (m * nx.itemsize(Z)), 0)


def columns_can_be_kept(n: int, m: int, budget: int, Z: Array) -> bool:
    """Return True if :func:`plan_blocks` keeps the m columns of n rows."""
    return plan_blocks(n, m, budget, Z).keep


def plan_blocks(
    n: int, m: int, budget: int, Z: Array, *, may_keep: bool = True
) -> BlockPlan:
    """Return the blocks, or raise where the matrices of m × m do not fit."""
    needed = columns_bytes(m, Z)
    row, rest = bytes_per_row(m, Z), budget - needed
    if rest < row:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"all rows, memory_budget allows {format_bytes(budget)}; use fewer "
            "representatives, add fewer rows, or pass a larger memory_budget."
        )
    block = min(_BLOCK_BYTES, rest)
    whole = n * m * nx.itemsize(Z)
    keep = may_keep and whole < rest and whole + min(block, n * row) // 2 <= rest
    if keep:
        block = min(block, rest - whole)
    return BlockPlan(max(block // row, 1), keep)


def first_columns(data: RowData, Z: Array, plan: BlockPlan, tell) -> GrownColumns:
    """Return the columns of Z; ``tell(n_rows_done, n)`` is called after each block."""
    K_mm = data.kernel(nx.astype(Z, "float64"))
    shift = nx.array_namespace(K_mm).mean(K_mm, axis=0)
    sums, kept = sum_columns(data, Z, shift, plan.height, tell, keeps=plan.keep)
    return GrownColumns(Columns(Z, K_mm, shift, sums.new), kept)


def more_columns(
    data: RowData, old: GrownColumns, Z: Array, plan: BlockPlan, tell
) -> GrownColumns:
    """Return the old columns followed by the columns of Z."""
    before = old.columns
    K_mm, shift = _bordered(data.kernel, before, Z)
    sums, kept = sum_columns(
        data,
        Z,
        shift[before.Z.shape[0] :],
        plan.height,
        tell,
        old=(before.Z, before.shift),
        earlier=old.kept,
        keeps=plan.keep,
    )
    equations = before.equations.bordered(sums.new, sums.border)
    points = nx.concat_rows(before.Z, Z)
    return GrownColumns(Columns(points, K_mm, shift, equations), kept)


def decision_values(
    data: RowData, grown: GrownColumns, fit: LSSVMSolution
) -> np.ndarray:
    """Return the decision values of all rows, (n, t), float64."""
    coef, (Z, _, shift, _) = fit.dual_coef, grown.columns
    if not grown.kept:
        return row_values(data.X, data.kernel, Z, coef, fit.intercept)
    offset, values, stop = (fit.intercept + shift @ coef)[None, :], [], 0
    for parts in grown.kept:
        rows, sums, edge = slice(stop, stop + parts[0].shape[0]), 0.0, 0
        for K in parts:
            own = coef[edge : edge + K.shape[1], :]
            sums = sums + nx.astype(K @ nx.astype(own, nx.dtype_name(K)), "float64")
            edge += K.shape[1]
        if data.sample_weight is not None:
            xp, roots = nx.array_namespace(coef), data.roots(rows)
            sums = sums / xp.where(roots > 0, roots, xp.ones_like(roots))
        values.append(nx.to_numpy(sums + offset))
        stop = rows.stop
    return np.concatenate(values)


def _bordered(kernel: Kernel, old: Columns, Z: Array) -> tuple[Array, Array]:
    """Return K_mm and k₀ of the old representatives and the new."""
    wide = nx.astype(Z, "float64")
    border = kernel(wide, nx.astype(old.Z, "float64"))  # (m_new, m_old)
    xp, start = nx.array_namespace(border), old.Z.shape[0]
    m = start + Z.shape[0]
    K_mm = xp.empty((m, m), dtype=border.dtype, device=nx.device_of(border))
    K_mm[:start, :start] = old.K_mm
    K_mm[:start, start:] = border.T
    K_mm[start:, :start] = border
    K_mm[start:, start:] = kernel(wide)
    new = xp.mean(K_mm[:, start:], axis=0)
    return K_mm, xp.concat([old.shift, new])


# ----------------------------------------------------------------------------------
# Least squares on representatives to which the hardest rows are added.
#
# Where classes hardly overlap, the rows that matter are few and near the boundary, and
# centres are not. So the columns of the first representatives are fitted, then the rows
# of the smallest margins, or largest residuals, are added to them, in a few rounds.
#
# Nothing is computed twice: a round adds its own columns.
# ----------------------------------------------------------------------------------

# So many candidates for each row that is wanted: some repeat others.
_CANDIDATES = 1.25
# A row repeats another where ‖φ − φ'‖² is less than this share of ‖φ‖² + ‖φ'‖².
_REPEATS = 1e-5

Hardness = Callable[[Array, Array], Array]
"""(decision values, targets), both (b, t), to what orders the rows, (b,)."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Validation rows: they decide about additions and about the end.

    In the end they join the others.
    """

    data: RowData
    score: Callable[[np.ndarray], float]
    """Takes the decision values of the rows, (n, t), NumPy; minus a loss."""
    least_gain: float
    """A round must lessen the loss by more than this share, or it is the last. Rows
    of a round that raises the loss are dropped."""


class GrownSolution(NamedTuple):
    """Coefficients of the first representatives and then of the rows added."""

    solution: LSSVMSolution
    rows: np.ndarray
    """Numbers of the rows added, in the order of their coefficients."""
    choice: int
    """Which hardness was used, of those given."""
    scores: list[float]
    """Of the rows held out, after each round but the last; empty without a judge."""
    held_out: np.ndarray | None = None
    """Decision values of the rows held out, (r, t), before they joined the others."""


def margin_hardness(values: Array, targets: Array) -> Array:
    """Return by how much the best wrong class beats the right one, (b,).

    Targets are ±1; one column is for two classes.
    """
    xp = nx.array_namespace(values)
    if values.shape[1] == 1:
        return -(values * targets)[:, 0]
    right = targets > 0
    low = xp.asarray(-xp.inf, dtype=values.dtype, device=nx.device_of(values))
    best_wrong = xp.max(xp.where(right, low, values), axis=1)
    return best_wrong - xp.max(xp.where(right, values, low), axis=1)


def residual_hardness(values: Array, targets: Array) -> Array:
    """Return the squared residuals, summed over the outputs, (b,)."""
    return nx.array_namespace(values).sum((values - targets) ** 2, axis=1)


def random_hardness(rng: np.random.Generator) -> Hardness:
    """Return a hardness that orders rows at random."""
    return lambda values, targets: nx.as_like(rng.random(values.shape[0]), values)


def solve_with_hard_rows(
    data: RowData,
    Z: Array,
    additions: Sequence[int],
    hardness: Hardness | Sequence[Hardness],
    *,
    C: float,
    judge: Judge | None = None,
    choose_C: Callable[[int, Callable[[float], float]], float] | None = None,
    first_fit: LSSVMSolution | None = None,
    loo_rows: np.ndarray | None = None,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> GrownSolution:
    """Fit f(x) = Σ_q a_q k(x, z_q) + b to all rows, with hard rows among the z_q.

    Parameters
    ----------
    data : RowData
    Z : array of shape (m, d)
        The first representatives.
    additions : sequence of int
        How many rows each round adds. Rows that repeat a representative are passed
        over, as are rows of weight zero; so fewer may be added.
    hardness : callable or sequence of callables
        :func:`margin_hardness`, :func:`residual_hardness`, or another. Of several, the
        first round decides, by the judge.
    C : float
    judge : Judge, default=None
        Rows that are not among those of the data.
    choose_C : callable, default=None
        Takes the number of columns in the end and the loss of the judge as a function
        of C, and returns C. The rounds before have the given one.
    first_fit : LSSVMSolution, default=None
        Coefficients of ``Z`` by which the first round orders the rows, where they are
        known from elsewhere; None fits ``Z`` to the data. Rows that were chosen for
        being undecided are ordered better by a fit that has not seen them alone.
    loo_rows : integer array, default=None
        As in :func:`solve_on_representatives`.
    memory_budget : int, str or None, default=None
        Holds five matrices of m × m, a block of K_nm, and K_nm itself where it can.
    callback : callable, default=None
        ``callback(n_rows_done, n)``, in which the rows of a round count by its work.

    Returns
    -------
    GrownSolution
        The same as :func:`solve_on_representatives` gives for ``Z`` and the rows added.

    Raises
    ------
    MemoryError
        If the matrices of m × m do not fit into the budget.

    Notes
    -----
    n m d + n m²/2 multiplications for m representatives in the end, as if they had been
    known from the start, and m³/6 in every round.
    """
    data, n = data.within(memory_budget), data.X.shape[0]
    m, budget = Z.shape[0] + sum(additions), resolve_budget(memory_budget, data.Y)
    # The columns of rows in parts are not kept: they are in no one place.
    plan = plan_blocks(n, m, budget, Z, may_keep=data.X.local)
    progress = _progress([Z.shape[0], *additions], callback)
    with few_threads_for(max(n, m)):
        grown = first_columns(data, Z, plan, progress(0))
        choices = [hardness] if callable(hardness) else list(hardness)
        growth = _Growth(data, C, plan, judge, choices, progress, grown)
        for r, n_new in enumerate(additions):
            if not growth.add_round(r, n_new, first_fit if r == 0 else None):
                progress(len(additions))(n, n)  # no more rounds
                break
        held_out = None
        if judge is not None:
            if choose_C is not None:
                C = choose_C(growth.grown.columns.Z.shape[0], growth.loss)
            held_out = growth.held_out(C)
        growth.add_held_out()
        solution = solve_equations(data, growth.grown.columns, C, loo_rows)
        found = growth.taken, growth.choice, growth.scores
        return GrownSolution(solution, *found, held_out)


class _Growth:
    """Columns that grow round by round."""

    def __init__(
        self,
        data: RowData,
        C: float,
        plan: BlockPlan,
        judge: Judge | None,
        choices: list[Hardness],
        progress: Callable[[int], Callable[[int, int], object]],
        grown: GrownColumns,
    ) -> None:
        self._data, self._C, self._plan, self._judge = data, C, plan, judge
        self._choices, self._progress = choices, progress
        self.grown, self.taken = grown, np.empty(0, dtype=np.int64)
        self.choice, self.scores = 0, []
        self._before = grown.columns.Z.shape[0], 0
        self._held_out: dict[float, np.ndarray] = {}  # by C, of the last columns

    def add_round(self, r: int, n_new: int, given: LSSVMSolution | None) -> bool:
        """Add the hardest rows by the fit so far, or a given one, if that will help.

        Returns
        -------
        bool
            False where no rows were added: there are none left, or the judge has seen
            no gain in the last round.
        """
        fit = self._fit(self.grown) if given is None else given
        if self._judge is not None:
            judged = fit if given is None else self._fit(self.grown)
            self.scores.append(self._score(self.grown, judged))
            if not _gains(self.scores, self._judge.least_gain):
                if self.scores[-1] < self.scores[-2]:  # smaller is better and quicker
                    self._take_back()
                return False
        known = [self.choice] if r else list(range(len(self._choices)))
        found = [self._hardest(fit, self._choices[c], n_new) for c in known]
        if not all(len(rows) for rows in found):
            return False
        data, plan, tell = self._data, self._plan, self._progress(r + 1)
        points = [_as_points(data.X, rows, self.grown.columns.Z) for rows in found]
        trials = [more_columns(data, self.grown, Z, plan, tell) for Z in points]
        best = 0
        if len(trials) > 1:
            best = int(np.argmax([self._score(t, self._fit(t)) for t in trials]))
        self._before = self.grown.columns.Z.shape[0], len(self.taken)
        self.choice, self.grown = known[best], trials[best]
        self.taken = np.concatenate([self.taken, found[best]])
        return True

    def _take_back(self) -> None:
        """Return to the columns before the last round."""
        m, n_taken = self._before
        self.grown = GrownColumns(self.grown.columns.leading(m), [])
        self.taken = self.taken[:n_taken]

    def loss(self, C: float) -> float:
        """Return the loss of the rows held out by the fit of the last columns."""
        assert self._judge is not None
        return -self._judge.score(self.held_out(C))

    def held_out(self, C: float) -> np.ndarray:
        """Return the decision values of held-out rows at a C, (r, t)."""
        if C not in self._held_out:
            fit = self._fit(self.grown, C)
            self._held_out[C] = self._values(self.grown, fit)
        return self._held_out[C]

    def _fit(self, grown: GrownColumns, C: float | None = None) -> LSSVMSolution:
        # Equations are used up.
        columns = grown.columns._replace(equations=grown.columns.equations.copy())
        return solve_equations(self._data, columns, self._C if C is None else C, None)

    def _hardest(
        self, fit: LSSVMSolution, hardness: Hardness, n_new: int
    ) -> np.ndarray:
        """Return the numbers of at most ``n_new`` rows, the hardest first."""
        data, grown = self._data, self.grown
        values = decision_values(data, grown, fit)
        hard = nx.to_numpy(hardness(values, nx.to_numpy(data.Y).astype(np.float64)))
        if data.sample_weight is not None:
            hard[nx.to_numpy(data.sample_weight) == 0] = -np.inf
        hard[self.taken] = -np.inf
        order = np.argsort(-hard, kind="stable")[: int(np.ceil(_CANDIDATES * n_new))]
        order = order[np.isfinite(hard[order])]
        if len(order) == 0:
            return order
        points = _as_points(data.X, order, grown.columns.Z)
        return order[~_repeats(data.kernel, points, grown.columns.Z)][:n_new]

    def _score(self, grown: GrownColumns, fit: LSSVMSolution) -> float:
        assert self._judge is not None, "several choices need a judge"
        return self._judge.score(self._values(grown, fit))

    def _values(self, grown: GrownColumns, fit: LSSVMSolution) -> np.ndarray:
        """Return the decision values of the judge's rows, (r, t)."""
        assert self._judge is not None
        X, Z = self._judge.data.X, grown.columns.Z
        parts = []
        for rows in row_blocks(X.shape[0], 1, self._plan.height):
            K = self._data.kernel(nx.astype(X[rows, :], nx.dtype_name(Z)), Z)
            parts.append(nx.to_numpy(K @ nx.astype(fit.dual_coef, nx.dtype_name(K))))
        return np.concatenate(parts) + nx.to_numpy(fit.intercept)

    def add_held_out(self) -> None:
        """Add the held-out rows to the equations."""
        if self._judge is None:
            return
        columns, height = self.grown.columns, self._plan.height
        sum_equations(
            self._judge.data, columns.Z, columns.shift, height, None, columns.equations
        )


def _gains(scores: list[float], least: float) -> bool:
    """Return True if the last round lessened the loss by enough."""
    if len(scores) < 2:
        return True
    return scores[-1] - scores[-2] > least * abs(scores[-2])


def _progress(numbers: Sequence[int], callback):
    """Return a progress callback for each round, weighted by its share of the work."""
    before = np.concatenate([[0], np.cumsum(numbers)[:-1]])
    work = np.asarray(numbers) * (before + np.asarray(numbers) / 2)
    share = np.concatenate([[0.0], np.cumsum(work) / work.sum()])

    def of_round(r: int) -> Callable[[int, int], object]:
        def tell(done: int, n: int) -> None:
            if callback is not None:
                callback(round(n * share[r] + done * (share[r + 1] - share[r])), n)

        return tell

    return of_round


def _repeats(kernel: Kernel, points: Array, Z: Array) -> np.ndarray:
    """Return a mask of points equal to an earlier point or representative."""
    norms, others = (nx.to_numpy(kernel.diag(rows))[:, None] for rows in (points, Z))
    among, beside = nx.to_numpy(kernel(points)), nx.to_numpy(kernel(points, Z))
    repeats = np.tril(_near(among, norms, norms), k=-1).any(axis=1)
    return np.logical_or(repeats, _near(beside, norms, others).any(axis=1))


def _as_points(X: Array, rows: np.ndarray, Z: Array) -> Array:
    """Return rows as representatives, in the place and precision of the others."""
    return nx.as_like(nx.dense_rows(X, rows), Z, dtype=nx.dtype_name(Z))


def _near(K: np.ndarray, norms: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return a mask of pairs with 2 k(x, y) ≈ k(x, x) + k(y, y)."""
    return (1 - _REPEATS) * (norms + others.T) <= 2 * K


# ----------------------------------------------------------------------------------
# On which of many rows to fit: those near the boundary between classes.
#
# Most of many rows lie where a rough fit decides already. In least squares they are not
# idle: each holds f at its target of ±1, and m representatives spend most of what they
# can do on that. So a fit of fewer rows may be the better one, if they are well chosen:
# a third of them those that a rough fit is least sure about, by the distance
#
#     f_1(x) − f_2(x)    (2 |f(x)| for two classes)
#
# of the two largest decision values, and the rest any others, which keep f in its place
# elsewhere. It costs a fraction of a fit of all rows. (On digits, a third gave the
# least error of rows held out, a half nearly the same.)
#
# The distance does not look at the row's own class. So among the rows near some x the
# shares of the classes stay as they were, and with them the boundary between classes
# that overlap. The rows that the rough fit gets wrong would move it.
# ----------------------------------------------------------------------------------

# One row in so many is to be near the boundary.
_NEAR = 3


class NearBoundary(NamedTuple):
    """Rows near the boundary, with the fit that found them."""

    rows: np.ndarray
    """Their numbers, ascending."""
    rough: LSSVMSolution
    """Of ``n_rough`` rows. Where its ``info`` tells of an interrupt, ``rows`` are
    these."""


def rows_near_boundary(
    data: RowData,
    Z: Array,
    n_rows: int,
    *,
    n_rough: int,
    C: float,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
) -> NearBoundary:
    """Choose rows near the boundary and, twice as many, any others.

    Parameters
    ----------
    data : RowData
        Targets ±1, one column for two classes; rows of weight zero are passed over.
    Z : array of shape (m, d)
        The representatives of the rough fit.
    n_rows : int
        How many rows are wanted.
    n_rough : int
        How many random rows the rough fit is of; all where there are no more.
    C : float
    rng : numpy.random.Generator
        Draws the rows of the rough fit, and those that are not near the boundary.
    memory_budget : int, str or None, default=None
        As in :func:`solve_on_representatives`.

    Returns
    -------
    NearBoundary

    Notes
    -----
    n m (d + t) + n_rough m (d + m/2) multiplications.
    """
    kernel, X, Y, weight = data
    every = np.arange(X.shape[0])
    present = every if weight is None else np.flatnonzero(nx.to_numpy(weight))
    some = np.sort(draw_some(rng, present, n_rough))
    part = data._replace(
        X=X if len(some) == len(every) else nx.take_rows(X, some),
        Y=nx.take_rows(Y, some),
        sample_weight=None if weight is None else nx.take_rows(weight, some),
    )
    rough = solve_on_representatives(part, Z, C=C, memory_budget=memory_budget)
    rows = as_rows(X, memory_budget)
    doubt = undecided(row_values(rows, kernel, Z, rough.dual_coef, rough.intercept))
    order = present[np.argsort(-doubt[present], kind="stable")]
    n_near = -(-n_rows // _NEAR)
    others = rng.permutation(order[n_near:])[: n_rows - n_near]
    return NearBoundary(np.sort(np.concatenate([order[:n_near], others])), rough)


def undecided(values: np.ndarray) -> np.ndarray:
    """Return minus the distance of the two largest decision values, (n,).

    One column is for two classes, of which the other has the values −f.

    >>> undecided(np.array([[0.5, -1.0, 0.25], [1.0, -1.0, -1.0]]))
    array([-0.25, -2.  ])
    >>> undecided(np.array([[0.5], [-0.25]]))
    array([-1. , -0.5])
    """
    if values.shape[1] == 1:
        return -2 * np.abs(values[:, 0])
    largest = np.partition(values, -2, axis=1)[:, -2:]
    return largest[:, 0] - largest[:, 1]


# ----------------------------------------------------------------------------------
# Fewer representatives for nearly the same function.
#
# The decision values of some rows are V = K a, with K the columns of m representatives.
# Columns that others can stand in for are superfluous. A QR decomposition with pivots
# orders the columns, each next one being that which the ones before explain least; with
# the first r of them, the best coefficients leave
#
#     V − K_r a_r = (I − Q_r Q_rᵀ) V,
#
# which is known for every r from Qᵀ V, without a fit. So the smallest r is found whose
# largest change is within a tolerance. Columns enter with the size of their
# coefficients, so that those that hardly count come last.
# ----------------------------------------------------------------------------------


class Compressed(NamedTuple):
    """Numbers of the remaining representatives, with coefficients."""

    kept: np.ndarray
    """(r,), ascending."""
    dual_coef: np.ndarray
    """(r, t)."""
    intercept: np.ndarray
    """(t,)."""
    change: float
    """Largest change of a decision value of the rows, ≤ tol."""


def compress_columns(
    K: np.ndarray, dual_coef: np.ndarray, intercept: np.ndarray, tol: float
) -> Compressed:
    """Drop columns while no decision value of the rows changes by more than ``tol``.

    Parameters
    ----------
    K : array of shape (n, m)
        Kernel columns of the representatives at some rows, n ≥ m for a safe result.
    dual_coef : array of shape (m, t)
    intercept : array of shape (t,)
    tol : float

    Returns
    -------
    Compressed

    Notes
    -----
    2 n m² multiplications, and as many for the largest changes. A constant column, the
    intercept, is always kept.
    """
    m = K.shape[1]
    V = K @ dual_coef  # (n, t)
    size = np.max(np.abs(dual_coef), axis=1)
    # Without the mean of the columns: the intercept takes that over.
    means = K.mean(axis=0)
    scaled = (K - means) * size
    parts = scipy.linalg.qr(scaled, mode="economic", pivoting=True)
    Q, order = np.asarray(parts[0]), np.asarray(parts[2])  # type: ignore[misc]
    r = _fewest(Q, V - V.mean(axis=0), tol)
    while True:
        kept = np.sort(order[:r])
        coef, shift = _refit(K[:, kept], means[kept], V)
        change = float(np.max(np.abs(K[:, kept] @ coef + shift - V), initial=0.0))
        # Where columns depend on each other, rounding may ask for a few more.
        if change <= tol or r >= m:
            break
        r = min(m, r + max(1, m // 50))
    if change > tol:  # all columns, as they were
        return Compressed(np.arange(m), dual_coef, intercept, 0.0)
    return Compressed(kept, coef, intercept + shift, change)


def _fewest(Q: np.ndarray, V: np.ndarray, tol: float) -> int:
    """Return the smallest r for which (I − Q_r Q_rᵀ) V is within ``tol``.

    By bisection over r: the changes become smaller with r in the mean square, and what
    is found is checked by the caller.
    """
    projected = Q.T @ V
    low, high = 0, Q.shape[1]
    while low < high:
        r = (low + high) // 2
        left = V - Q[:, :r] @ projected[:r]
        if np.max(np.abs(left), initial=0.0) <= tol:
            high = r
        else:
            low = r + 1
    return max(low, 1)


def _refit(K: np.ndarray, means: np.ndarray, V: np.ndarray):
    """Return coefficients and constant of the least squares of V on the columns."""
    coef = np.linalg.lstsq(K - means, V - V.mean(axis=0), rcond=1e-12)[0]
    return coef, V.mean(axis=0) - means @ coef
