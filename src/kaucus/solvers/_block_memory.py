"""How large a block may be, and what is left to keep rows of the kernel matrix."""

from typing import NamedTuple

from kaucus.backend import Array, format_bytes, itemsize, n_workers

# The paper's J for MNIST.
_BLOCK_SIZE = 2000
# Blocks of float64 as large as W that a run holds: state, best state, new ones.
_VECTORS = 12
# J × J matrices of float64: the Gram matrix, its scaled copy, a factor, a corner.
_SQUARES = 4
# Pieces of a block in float64 at a time (see _theta), and for each thread the tiles of
# the kernel and the buffers of BLAS.
_PIECES, _PIECES_OF_THREAD = 96 * 2**20, 32 * 2**20


class BlockMemory(NamedTuple):
    """J, and the bytes for rows that are kept."""

    block_size: int
    kept: int


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
        If a given ``block_size`` does not fit.
    """
    n = X.shape[0]
    copies = 2 if weighted or n_problems > 1 else 1
    most_pieces = _PIECES + n_workers(X) * _PIECES_OF_THREAD

    def needed(J: int) -> int:
        block = copies * itemsize(X) * n * J
        pieces = min(most_pieces, 4 * itemsize(X) * n * J)
        vectors = _VECTORS * 8 * n * (n_targets + 1) * n_problems
        return n_parallel * (block + pieces + vectors + _SQUARES * 8 * J * J)

    if block_size is None:
        J = min(_BLOCK_SIZE, n)
        while J > 1 and needed(J) > budget // 2:
            J = J * 3 // 4
        return BlockMemory(J, _left(budget, needed(J)))
    J = min(block_size, n)
    if needed(J) > budget:
        raise MemoryError(
            f"block_size={block_size} needs {format_bytes(needed(J))} for blocks of "
            f"the kernel matrix of {n} rows, memory_budget allows "
            f"{format_bytes(budget)}; use a smaller block_size, or None to have it "
            "chosen, float32 data, or a larger memory_budget."
        )
    return BlockMemory(J, _left(budget, needed(J)))


def _left(budget: int, needed: int) -> int:
    """Return the bytes for rows that are kept.

    An eighth of the budget is for what is not counted: tiles of the kernel in several
    threads, the buffers of BLAS, gaps between freed blocks.
    """
    return max(budget - budget // 8 - needed, 0)
