"""Kernel columns of representatives, and their equations, that grow by more columns.

With columns [K₁, K₂] of old and new representatives and row weights S,

    [K₁ K₂]ᵀ S [K₁ K₂] = [ G₁₁  · ; K₂ᵀ S K₁  K₂ᵀ S K₂ ]:

new columns add the second row, and the sums of k and of k y over the rows; G₁₁ stays.
K₁ is kept where the budget has room for it, else computed again, block by block.
"""

from typing import NamedTuple

from kaucus.backend import (
    Array,
    add_cross_gram,
    add_gram,
    array_namespace,
    astype,
    concat_rows,
    device_of,
    dtype_name,
    format_bytes,
    gram_bytes,
    itemsize,
    row_blocks,
    zero_gram,
)
from kaucus.kernels import Kernel
from kaucus.solvers._low_rank import (
    Columns,
    NormalEquations,
    RowData,
    bytes_per_row,
    rows_beside,
)
from kaucus.solvers._result import LSSVMSolution

# Blocks of K_nm, as in _low_rank.
_BLOCK_BYTES = 1024 * 2**20


class BlockPlan(NamedTuple):
    """In what blocks of rows to work, and whether to keep them."""

    blocks: list[slice]
    keep: bool
    height: int
    """Rows of a block of other rows."""


class GrownColumns(NamedTuple):
    """Columns, and what was kept of them."""

    columns: Columns
    kept: list[list[Array]]
    """S^½ (K − k₀): for each block of rows, a part for each time that columns were
    added; or no blocks."""


def columns_bytes(m: int, Z: Array) -> int:
    """Return what the matrices of m representatives take, without blocks of rows."""
    return (5 * 8 + itemsize(Z)) * m * m + gram_bytes(m, Z)


def plan_blocks(n: int, m: int, budget: int, Z: Array) -> BlockPlan:
    """Return the blocks, or raise where the matrices of m × m do not fit."""
    needed = columns_bytes(m, Z)
    row, rest = bytes_per_row(m, Z), budget - needed
    if rest < row:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"all rows, memory_budget allows {format_bytes(budget)}; use fewer "
            "representatives, a smaller refine, or a larger memory_budget."
        )
    block = min(_BLOCK_BYTES, rest)
    whole = n * m * itemsize(Z)
    keep = whole < rest and whole + min(block, n * row) // 2 <= rest
    if keep:
        block = min(block, rest - whole)
    return BlockPlan(list(row_blocks(n, row, block)), keep, max(block // row, 1))


def first_columns(
    data: RowData, Z: Array, plan: BlockPlan, tell
) -> tuple[GrownColumns, bool]:
    """Return the columns of Z, and whether an interrupt cut them short.

    ``tell(n_rows_done)`` is called after each block. After an interrupt the equations
    are those of the rows seen so far; where there are none, it is raised again.
    """
    K_mm = data.kernel(astype(Z, "float64"))
    shift = array_namespace(K_mm).mean(K_mm, axis=0)
    sums, kept = _Sums(data.Y, Z.shape[0], []), []
    for rows in plan.blocks:
        try:
            K = _block_columns(data, rows, Z, shift)
        except KeyboardInterrupt:
            if sums.weight == 0:
                raise
            return GrownColumns(Columns(Z, K_mm, shift, sums.alone()), []), True
        sums.add(K, [], _targets(data, rows))
        if plan.keep:
            kept.append([K])
        tell(rows.stop)
    return GrownColumns(Columns(Z, K_mm, shift, sums.alone()), kept), False


def more_columns(
    data: RowData, old: GrownColumns, Z: Array, plan: BlockPlan, tell
) -> GrownColumns:
    """Return the old columns and those of Z; the old ones stay as they are."""
    K_mm, shift = _bordered(data.kernel, old.columns, Z)
    before = old.columns.Z.shape[0]
    widths = [part.shape[1] for part in old.kept[0]] if plan.keep else [before]
    sums, kept = _Sums(data.Y, Z.shape[0], widths), []
    for b, rows in enumerate(plan.blocks):
        K = _block_columns(data, rows, Z, shift[before:])
        earlier = _known_columns(data, old, plan, b)
        sums.add(K, earlier, _targets(data, rows))
        if plan.keep:
            kept.append([*earlier, K])
        tell(rows.stop)
    equations = sums.after(old.columns.equations)
    Z = concat_rows(old.columns.Z, Z)
    return GrownColumns(Columns(Z, K_mm, shift, equations), kept)


def copied(grown: GrownColumns) -> Columns:
    """Return columns whose Gram matrix may be used up."""
    columns = grown.columns
    xp = array_namespace(columns.K_mm)
    gram = xp.asarray(columns.equations.gram, copy=True)
    return columns._replace(equations=columns.equations._replace(gram=gram))


def block_values(
    data: RowData, grown: GrownColumns, fit: LSSVMSolution, plan: BlockPlan, b: int
) -> Array:
    """Return the decision values of a block of rows, (rows, t), float64."""
    coef, sums, start = fit.dual_coef, 0.0, 0
    for K in _known_columns(data, grown, plan, b):
        stop = start + K.shape[1]
        part = K @ astype(coef[start:stop, :], dtype_name(K))
        sums, start = sums + astype(part, "float64"), stop
    if data.sample_weight is not None:
        xp, roots = array_namespace(coef), _roots(data, plan.blocks[b])
        sums = sums / xp.where(roots > 0, roots, xp.ones_like(roots))
    return sums + (fit.intercept + grown.columns.shift @ coef)[None, :]


def _block_columns(data: RowData, rows: slice, Z: Array, shift: Array) -> Array:
    """Return S^½ (K − k₀) of a block of rows, (b, m)."""
    X = data.X
    K = data.kernel(rows_beside(X, rows, Z), Z)
    K -= astype(shift, dtype_name(K))[None, :]
    if data.sample_weight is not None:
        K *= astype(_roots(data, rows), dtype_name(K))
    return K


def _roots(data: RowData, rows: slice) -> Array:
    weight = astype(data.sample_weight, "float64")[rows]
    return array_namespace(weight).sqrt(weight)[:, None]


def _targets(data: RowData, rows: slice) -> Array:
    """Return S^½ [Y, 1] of a block of rows, (b, t + 1), float64."""
    Y = astype(data.Y[rows, :], "float64")
    xp = array_namespace(Y)
    ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=device_of(Y))
    targets = xp.concat([Y, ones], axis=1)
    return targets if data.sample_weight is None else targets * _roots(data, rows)


def _known_columns(
    data: RowData, grown: GrownColumns, plan: BlockPlan, b: int
) -> list[Array]:
    if plan.keep:
        return grown.kept[b]
    columns = grown.columns
    return [_block_columns(data, plan.blocks[b], columns.Z, columns.shift)]


class _Sums:
    """What new columns add to the equations; grows in place, block by block."""

    def __init__(self, Y: Array, m: int, widths: list[int]):
        self._xp = xp = array_namespace(Y)
        wide = {"dtype": xp.float64, "device": device_of(Y)}
        self._square = zero_gram(m, Y)  # K₂ᵀ S K₂
        self._border = [xp.zeros((k, m), **wide) for k in widths]  # K₁ᵀ S K₂, by parts
        self._cross = xp.zeros((m, Y.shape[1] + 1), **wide)
        self._target_sum = xp.zeros(Y.shape[1], **wide)
        self.weight = 0.0

    def add(self, K: Array, earlier: list[Array], targets: Array) -> None:
        """Add a block of rows."""
        self._square = add_gram(self._square, K)
        self._border = [
            add_cross_gram(border, part, K)
            for border, part in zip(self._border, earlier, strict=True)
        ]
        # With the care of the Gram matrix, from which the mean's square is taken off.
        self._cross = add_cross_gram(self._cross, K, astype(targets, dtype_name(K)))
        roots = targets[:, -1:]  # S^½
        weighted = self._xp.sum(targets * roots, axis=0)  # Σ s [y, 1]
        self._target_sum = self._target_sum + weighted[:-1]
        self.weight += float(weighted[-1])

    def alone(self) -> NormalEquations:
        """Return the equations of the new columns, there being no others."""
        return NormalEquations(self._square, self._cross, self._target_sum, self.weight)

    def after(self, old: NormalEquations) -> NormalEquations:
        """Return the equations of the old columns and the new."""
        xp, start = self._xp, old.gram.shape[0]
        gram = zero_gram(start + self._square.shape[0], self._cross)
        gram[:start, :start] = old.gram
        gram[start:, start:] = self._square
        edge = 0
        for part in self._border:
            # As BLAS has the Gram matrix, this writes memory in its order.
            gram[start:, edge : edge + part.shape[0]] = part.T
            edge += part.shape[0]
        return old._replace(
            gram=gram, cross=xp.concat([old.cross, self._cross], axis=0)
        )


def _bordered(kernel: Kernel, old: Columns, Z: Array) -> tuple[Array, Array]:
    """Return K_mm and k₀ of the old representatives and the new."""
    wide = astype(Z, "float64")
    border = kernel(wide, astype(old.Z, "float64"))  # (m_new, m_old)
    xp, start = array_namespace(border), old.Z.shape[0]
    m = start + Z.shape[0]
    K_mm = xp.empty((m, m), dtype=border.dtype, device=device_of(border))
    K_mm[:start, :start] = old.K_mm
    K_mm[:start, start:] = border.T
    K_mm[start:, :start] = border
    K_mm[start:, start:] = kernel(wide)
    new = xp.mean(K_mm[:, start:], axis=0)
    return K_mm, xp.concat([old.shift, new])
