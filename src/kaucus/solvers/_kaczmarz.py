"""Block Kaczmarz: project W onto the solutions of a few rows of Θ.

    W ← W + Θ_s† (Z_s − Θ_s W)                            (Andrecut 2016, eq. 47)

The error ‖W − W*‖ never rises (eq. 44). The residual may: it is known only on the rows
of the block, before the step, which is what is told as the residual.
"""

from kaucus.backend import Array, take_rows
from kaucus.solvers._pseudo_inverse import invert_gram
from kaucus.solvers._steps import State, StepResult, relative_norm
from kaucus.solvers._theta import Block, block_gram, block_product, transposed_product


def start_kaczmarz(W: Array) -> State:
    """Return the state before the first step."""
    return {"W": W}


def kaczmarz_step(block: Block, Z: Array, state: State) -> StepResult:
    """Project W onto the solutions of the block's equations.

    Notes
    -----
    n J² multiplications for the Gram matrix, J³/3 for its factor, 2 n J t for the rest.
    """
    W = state["W"]
    Z_s = take_rows(Z, block.rows)
    R_s = Z_s - block_product(block.E, W)
    inverse = invert_gram(block_gram(block.E))
    W = W + transposed_product(block.E, inverse(R_s))
    return StepResult({"W": W}, relative_norm(R_s, Z_s), inverse.rank_revealing)
