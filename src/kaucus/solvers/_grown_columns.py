"""Kernel columns of representatives, and their equations, that grow by more columns.

With columns [K₁, K₂] of old and new representatives and row weights S,

    [K₁ K₂]ᵀ S [K₁ K₂] = [ G₁₁  · ; K₂ᵀ S K₁  K₂ᵀ S K₂ ]:

new columns add the second row, and the sums of k and of k y over the rows; G₁₁ stays.
K₁ is kept where the budget has room for it, else computed again, block by block.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    add_cross_gram,
    array_namespace,
    as_like,
    astype,
    concat_rows,
    device_of,
    dtype_name,
    format_bytes,
    gram_bytes,
    itemsize,
    row_blocks,
    stream_blocks,
)
from kaucus.kernels import Kernel
from kaucus.solvers._equations import (
    Columns,
    NormalEquations,
    RowData,
    bytes_per_row,
)
from kaucus.solvers._low_rank import sum_equations
from kaucus.solvers._part_equations import border_parts, part_values
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
    """Return the bytes of the matrices of m representatives, without blocks of rows."""
    return (5 * 8 + itemsize(Z)) * m * m + gram_bytes(m, Z)


def rows_of_kept_columns(m: int, budget: int, Z: Array) -> int:
    """Return of how many rows :func:`plan_blocks` surely keeps the m columns."""
    return max((budget - columns_bytes(m, Z)) // 2 // (m * itemsize(Z)), 0)


def columns_can_be_kept(n: int, m: int, budget: int, Z: Array) -> bool:
    """Tell whether :func:`plan_blocks` keeps the m columns of n rows."""
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
    whole = n * m * itemsize(Z)
    keep = may_keep and whole < rest and whole + min(block, n * row) // 2 <= rest
    if keep:
        block = min(block, rest - whole)
    return BlockPlan(list(row_blocks(n, row, block)), keep, max(block // row, 1))


def first_columns(data: RowData, Z: Array, plan: BlockPlan, tell) -> GrownColumns:
    """Return the columns of Z; ``tell(n_rows_done, n)`` is called after each block."""
    K_mm = data.kernel(astype(Z, "float64"))
    shift = array_namespace(K_mm).mean(K_mm, axis=0)
    kept: list[Array] | None = [] if plan.keep else None
    sums = sum_equations(data, Z, shift, plan.blocks, tell, kept=kept)
    columns = Columns(Z, K_mm, shift, sums)
    return GrownColumns(columns, [[K] for K in kept or []])


def more_columns(
    data: RowData, old: GrownColumns, Z: Array, plan: BlockPlan, tell
) -> GrownColumns:
    """Return the old columns and those of Z; the old ones stay as they are."""
    K_mm, shift = _bordered(data.kernel, old.columns, Z)
    n, before, m = data.X.shape[0], old.columns.Z.shape[0], Z.shape[0]
    if isinstance(data.X, RowSource):
        sums, border = border_parts(data, old.columns.Z, Z, shift)
        tell(n, n)
        return _joined(old, Z, K_mm, shift, sums, [border], [])
    widths = [part.shape[1] for part in old.kept[0]] if plan.keep else [before]
    xp = array_namespace(K_mm)
    place = {"dtype": xp.float64, "device": device_of(K_mm)}
    border = [xp.zeros((k, m), **place) for k in widths]  # K₁ᵀ S K₂, by parts
    sums, kept = NormalEquations.zeros(m, data.Y), []
    blocks = stream_blocks(data.X, plan.blocks)
    for b, (rows, X) in enumerate(zip(plan.blocks, blocks, strict=True)):
        K = data.columns(X, rows, Z, shift[before:])
        earlier = _known_columns(data, old, plan, b, X)
        sums.add(K, data.targets(rows))
        border = [add_cross_gram(*of, K) for of in zip(border, earlier, strict=True)]
        if plan.keep:
            kept.append([*earlier, K])
        tell(rows.stop, n)
    return _joined(old, Z, K_mm, shift, sums, border, kept)


def _joined(old: GrownColumns, Z, K_mm, shift, sums, border, kept) -> GrownColumns:
    """Return the old columns and those of Z, from sums over the rows."""
    equations = old.columns.equations.bordered(sums, border)
    Z = concat_rows(old.columns.Z, Z)
    return GrownColumns(Columns(Z, K_mm, shift, equations), kept)


def decision_values(
    data: RowData, grown: GrownColumns, fit: LSSVMSolution, plan: BlockPlan
) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows and their decision values, (rows, t), float64."""
    coef = fit.dual_coef
    if isinstance(data.X, RowSource):
        Z = grown.columns.Z
        values = part_values(data.X, data.kernel, Z, coef, fit.intercept)
        edges = np.cumsum([0, *data.X.sizes]).tolist()
        slices = [slice(*edge) for edge in itertools.pairwise(edges)]
        yield from zip(slices, (as_like(v, coef) for v in values), strict=True)
        return
    offset = (fit.intercept + grown.columns.shift @ coef)[None, :]
    blocks = [None] * len(plan.blocks) if plan.keep else None
    blocks = stream_blocks(data.X, plan.blocks) if blocks is None else blocks
    for b, (rows, X) in enumerate(zip(plan.blocks, blocks, strict=True)):
        sums, start = 0.0, 0
        for K in _known_columns(data, grown, plan, b, X):
            stop = start + K.shape[1]
            part = K @ astype(coef[start:stop, :], dtype_name(K))
            sums, start = sums + astype(part, "float64"), stop
        if data.sample_weight is not None:
            xp, roots = array_namespace(coef), data.roots(rows)
            sums = sums / xp.where(roots > 0, roots, xp.ones_like(roots))
        yield rows, sums + offset


def _known_columns(
    data: RowData, grown: GrownColumns, plan: BlockPlan, b: int, X: Array
) -> list[Array]:
    """Return S^½ (K − k₀) of a block of rows ``X``, kept or computed again."""
    if plan.keep:
        return grown.kept[b]
    columns = grown.columns
    return [data.columns(X, plan.blocks[b], columns.Z, columns.shift)]


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
