"""A committee of Nyström approximations.

A member replaces Θ by its Nyström approximation from some of its columns,

    Θ ≈ Θ_(N,J) Θ_(J,J)⁻¹ Θ_(J,N),
    W(t) = Θ_(J,N)† Θ_(J,J) Θ_(N,J)† Z                 (Andrecut 2016, eq. 26-27),

and has a weight for each of the n rows. The committee is the mean of its members; the
sum that is printed (eq. 28) decides the same. It is complete when each row has been in
one member: n/J of them, 6 for the paper's J = 10,000.
"""

from kaucus.backend import Array, array_namespace, astype, take_rows
from kaucus.solvers._pseudo_inverse import invert_gram
from kaucus.solvers._steps import State, StepResult, relative_norm
from kaucus.solvers._theta import Block, block_gram, block_product, transposed_product


def start_nystrom(W: Array) -> State:
    """Return the state of a committee without members."""
    xp = array_namespace(W)
    return {"W": W, "members": xp.zeros_like(W[:1, 0])}


def nystrom_step(block: Block, Z: Array, state: State) -> StepResult:
    """Add a member to the committee.

    Notes
    -----
    n J² multiplications for the Gram matrix, J³/3 for its factor, 3 n J t for the rest.
    """
    xp = array_namespace(Z)
    E, W, members = block.E, state["W"], state["members"]
    Z_s = take_rows(Z, block.rows)
    R_s = Z_s - block_product(E, W)
    inverse = invert_gram(block_gram(E))
    corner = astype(xp.take(E, block.rows, axis=1), "float64")  # Θ_(J,J)
    member = transposed_product(E, inverse(corner @ inverse(block_product(E, Z))))
    W = W + (member - W) / (members + 1)
    state = {"W": W, "members": members + 1}
    return StepResult(state, relative_norm(R_s, Z_s), inverse.rank_revealing)
