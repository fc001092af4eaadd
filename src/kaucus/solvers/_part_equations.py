"""Normal equations of rows that are read part by part: m × m sums of each are merged.

The functions of a part are those of one machine, on the rows of that part; targets and
weights are beside the rows (``RowSource.holding``).
"""

import numpy as np

from kaucus.backend import (
    Array,
    Block,
    RowSource,
    Scratch,
    add_cross_gram,
    as_like,
    astype,
    format_bytes,
    gram_bytes,
    row_blocks,
    to_numpy,
)
from kaucus.kernels import Kernel, kernel_expansion
from kaucus.solvers._equations import NormalEquations, RowData, bytes_per_row

# Blocks of K_nm within a part: of one size, so that sums do not depend on the memory.
_BLOCK_BYTES = 64 * 2**20


class BorderedEquations:
    """Normal equations of new columns, and their products with the old ones."""

    def __init__(self, m_old: int, m_new: int, Y: Array):
        self.new = NormalEquations.zeros(m_new, Y)
        self.border = as_like(np.zeros((m_old, m_new)), Y)
        """K₁ᵀ S K₂."""

    def merge(self, other: "BorderedEquations") -> None:
        """Add the sums over other rows."""
        self.new.merge(other.new)
        self.border = self.border + other.border


def _with_targets(data: RowData) -> RowSource:
    """Return the rows with targets and weights beside them."""
    weight = data.sample_weight
    return data.X.holding(
        to_numpy(data.Y), None if weight is None else to_numpy(weight)
    )


def _check_memory(rows: RowSource, m: int, Z: Array) -> None:
    """Raise where work on one part has no room for m representatives."""
    needed = gram_bytes(m, Z) + 3 * 8 * m * m + bytes_per_row(m, Z)
    if needed > rows.budget:
        raise MemoryError(
            f"{m} representatives need {format_bytes(needed)} for the least squares of "
            f"each part of the rows, and there are {format_bytes(rows.budget)}; use "
            "fewer representatives, a larger memory_budget, or workers with fewer "
            "threads or more memory."
        )


def sum_parts(data: RowData, Z: Array, shift: Array) -> NormalEquations:
    """Return the normal equations of all rows on the columns of ``Z``."""
    _check_memory(data.X, Z.shape[0], Z)
    total = _with_targets(data).reduce(
        add_part,
        data.kernel,
        Z,
        shift,
        label="add-normal-equations",
        n_bytes=8 * Z.shape[0] ** 2,
    )
    return total.copy(data.Y)


def add_part(block: Block, kernel: Kernel, Z: Array, shift: Array) -> NormalEquations:
    """Return the normal equations of the rows of a part."""
    data, (Z, shift) = _part_data(block, kernel, Z, shift)
    total = NormalEquations.zeros(Z.shape[0], data.Y)
    scratch = Scratch()
    for rows in _blocks(block, Z.shape[0], Z):
        K = data.columns(data.X[rows, :], rows, Z, shift, scratch)
        total.add(K, data.targets(rows))
    return total.on_host()


def border_parts(
    data: RowData, old: Array, Z: Array, shift: Array
) -> tuple[NormalEquations, Array]:
    """Return the equations of new columns, and K₁ᵀ S K₂ with those of ``old``."""
    m = old.shape[0] + Z.shape[0]
    _check_memory(data.X, m, Z)
    total = _with_targets(data).reduce(
        border_part,
        data.kernel,
        old,
        Z,
        shift,
        label="add-columns",
        n_bytes=8 * Z.shape[0] * m,
    )
    return total.new.copy(data.Y), as_like(total.border, data.Y)


def border_part(
    block: Block, kernel: Kernel, old: Array, Z: Array, shift: Array
) -> BorderedEquations:
    """Return the same of the rows of a part."""
    data, (old, Z, shift) = _part_data(block, kernel, old, Z, shift)
    before = old.shape[0]
    total = BorderedEquations(before, Z.shape[0], data.Y)
    for rows in _blocks(block, before + Z.shape[0], Z):
        X = data.X[rows, :]
        K = data.columns(X, rows, Z, shift[before:])
        earlier = data.columns(X, rows, old, shift[:before])
        total.new.add(K, data.targets(rows))
        total.border = add_cross_gram(total.border, earlier, K)
    total.new, total.border = total.new.on_host(), to_numpy(total.border)
    return total


def part_values(
    X: RowSource, kernel: Kernel, Z: Array, coef: Array, intercept: Array
) -> list[np.ndarray]:
    """Return the decision values of the rows of each part, (b, t), float64."""
    return X.map(values_of_part, kernel, Z, coef, intercept, label="predict-rows")


def values_of_part(
    block: Block, kernel: Kernel, Z: Array, coef: Array, intercept: Array
) -> np.ndarray:
    """Return the decision values of the rows of a part."""
    if block.rows.shape[0] == 0:
        return np.empty((0, coef.shape[1]))
    Z, coef = as_like(Z, block.rows), as_like(coef, block.rows)
    sums = kernel_expansion(kernel, block.rows, Z, coef, memory_budget=block.budget)
    return to_numpy(astype(sums, "float64")) + to_numpy(intercept)


def _part_data(block: Block, kernel: Kernel, *arrays: Array):
    """Return the data of a part, and arrays, where its rows are."""
    (Y, weight), rows = block.vectors, block.rows
    Y, weight = as_like(astype(Y, "float64"), rows), as_like(weight, rows)
    data = RowData(kernel, rows, Y, weight)
    return data, [as_like(array, rows) for array in arrays]


def _blocks(block: Block, m: int, Z: Array):
    n_bytes = min(_BLOCK_BYTES, max(block.budget // 2, 1))
    return row_blocks(block.rows.shape[0], bytes_per_row(m, Z), n_bytes)
