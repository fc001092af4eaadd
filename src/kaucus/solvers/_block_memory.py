"""Size of the blocks of a randomized solver, and memory for the kernel matrix."""

from typing import NamedTuple

from kaucus.backend import (
    Array,
    HostRows,
    budget_to_have,
    format_bytes,
    is_sparse,
    itemsize,
    n_workers,
)

# The paper's J for MNIST.
_BLOCK_SIZE = 2000
# Smaller blocks than this take so many steps that a fit crawls; what needs no more than
# so many bytes is let go all the same.
_LEAST_BLOCK, _LEAST_REFUSED = 32, 16 * 2**20
_SMALL_BLOCK = 256
# Blocks of float64 as large as W that a run holds: state, best state, new ones.
_VECTORS = 12
# J × J matrices of float64: the Gram matrix, its scaled copy, a factor, a corner.
_SQUARES = 4
# Pieces of a block in float64 at a time (see _systems), and for each thread the tiles
# of the kernel and the buffers of BLAS.
_PIECES, _PIECES_OF_THREAD = 96 * 2**20, 32 * 2**20


class BlockMemory(NamedTuple):
    """Size of the blocks, and what they leave of the memory."""

    block_size: int
    operator: int
    """Bytes for the kernel matrix, to keep rows in."""


def plan_blocks(
    X: Array,
    *,
    n_targets: int,
    n_problems: int,
    weighted: bool,
    block_size: int | None,
    budget: int,
    n_parallel: int = 1,
) -> BlockMemory:
    """Choose J where it is not given, and check that it fits.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    n_targets, n_problems : int
    weighted : bool
        Whether a block is copied before it is scaled.
    block_size : int or None
    budget : int
        Bytes.
    n_parallel : int, default=1
        Runs at a time, each with blocks of its own.

    Raises
    ------
    MemoryError
        If a given ``block_size`` does not fit, or the largest that fits is so small
        that a fit would not end in reasonable time.
    """
    n = X.shape[0]
    copies = 2 if weighted or n_problems > 1 else 1
    most_pieces = _PIECES + n_workers(X) * _PIECES_OF_THREAD

    def needed(J: int) -> int:
        block = copies * itemsize(X) * n * J
        pieces = min(most_pieces, 4 * itemsize(X) * n * J)
        vectors = _VECTORS * 8 * n * (n_targets + 1) * n_problems
        return n_parallel * (block + pieces + vectors + _SQUARES * 8 * J * J)

    def for_tiles(J: int) -> int:
        """Return the part of the pieces that the operator needs for its tiles."""
        return min(n_workers(X) * _PIECES_OF_THREAD, 4 * itemsize(X) * n * J)

    copies_of_rows = row_copies(X)
    budget = max(budget - copies_of_rows, 1)
    J = min(block_size or _BLOCK_SIZE, n)
    if block_size is None:
        # Half of the budget, so that rows can be kept; more rather than tiny blocks.
        while J > _SMALL_BLOCK and needed(J) > budget // 2:
            J = J * 3 // 4
        while J > 1 and needed(J) > _planned(budget):
            J = J * 3 // 4
        _check_smallest(X, J, needed, budget)
    elif needed(J) > budget:
        raise MemoryError(
            f"block_size={block_size} needs {format_bytes(needed(J))} for blocks of "
            f"the kernel matrix of {n} rows, memory_budget allows "
            f"{format_bytes(budget)}; use a smaller block_size, or None to have it "
            "chosen, float32 data, or a larger memory_budget."
        )
    kept = max(_planned(budget) - needed(J), 0)
    return BlockMemory(J, copies_of_rows + kept + for_tiles(J))


def _planned(budget: int) -> int:
    """Return the bytes to be planned with: an eighth is for what is not counted.

    That is tiles of the kernel in several threads, the buffers of BLAS, gaps between
    freed blocks.
    """
    return budget - budget // 8


def row_copies(X: Array) -> int:
    """Return the bytes of the shifted rows that a kernel of distances holds."""
    if isinstance(X, HostRows) or is_sparse(X):
        return 0
    return itemsize(X) * X.shape[0] * X.shape[1]


def _check_smallest(X: Array, J: int, needed, budget: int) -> None:
    """Raise where blocks would be too small for a fit to end in reasonable time."""
    n = X.shape[0]
    least = min(_LEAST_BLOCK, n)
    wanted = needed(least) + row_copies(X)
    if least <= J or wanted <= _LEAST_REFUSED:
        return
    enough = budget_to_have(1.25 * wanted, X)
    raise MemoryError(
        f"memory_budget leaves {format_bytes(budget)} beside a copy of the rows, for "
        f"blocks of {J} of {n} rows: a pass would take {-(-n // J)} steps. Pass a "
        f"memory_budget of {format_bytes(enough)} or more, a block_size to have "
        "it so, float32 rows, or fewer rows."
    )
