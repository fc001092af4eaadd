"""Block matching pursuit: fit the residual by a few columns of Θ.

    Q ← Θ_s† R,    W_s ← W_s + Q,    R ← R − Θ_s Q         (Andrecut 2016, eq. 57-59)

Q minimises the residual over the block's weights, so ‖R‖ never rises (eq. 60), and R is
that of the whole system, without a product with all of Θ.
"""

from kaucus.backend import Array, add_to_rows
from kaucus.solvers._pseudo_inverse import GramInverse, invert_gram
from kaucus.solvers._steps import State, StepResult, relative_norm
from kaucus.solvers._theta import Block, block_gram, block_product, transposed_product


def start_matching_pursuit(W: Array, R: Array) -> State:
    """Return the state before the first step, with R = Z − ΘW."""
    return {"W": W, "R": R}


def matching_pursuit_step(block: Block, Z: Array, state: State) -> StepResult:
    """Minimise the residual over the weights of the block.

    Notes
    -----
    n J² multiplications for the Gram matrix, J³/3 for its factor, 2 n J t for the rest.
    """
    inverse = invert_gram(block_gram(block.E))
    W, R = pursue(block, inverse, state["W"], state["R"])
    return StepResult({"W": W, "R": R}, relative_norm(R, Z), inverse.rank_revealing)


def pursue(
    block: Block, inverse: GramInverse, W: Array, R: Array
) -> tuple[Array, Array]:
    """Return W and R after eq. 57-59; Θ is symmetric, so that Θ_s = Eᵀ."""
    Q = inverse(block_product(block.E, R))
    return add_to_rows(W, block.rows, Q), R - transposed_product(block.E, Q)
