"""The Kaczmarz-MP hybrid, made safe: a Kaczmarz step, then a matching pursuit step.

Both take the same block and the same Gram matrix (Andrecut 2016, Sec. 3.4). As printed
it diverges: a Kaczmarz step shrinks the error and may enlarge the residual, a matching
pursuit step does the opposite. Safe is the length that minimises the residual,

    Δ = Θ_s† R_s,    ℓ_j = ⟨R_j, (ΘΔ)_j⟩ / ‖(ΘΔ)_j‖²,    W ← W + Δ ℓ,

one number for each right-hand side j; then ‖R‖ never rises. The matching pursuit half
has the length 1 by that rule already.

ΘΔ is a product with all of Θ: where the kernel matrix is not kept, it costs as much as
n/J blocks, and matching pursuit alone is the better choice.
"""

from collections.abc import Callable

from kaucus.backend import Array, array_namespace, take_rows
from kaucus.solvers._matching_pursuit import pursue
from kaucus.solvers._pseudo_inverse import invert_gram
from kaucus.solvers._steps import State, StepResult, relative_norm
from kaucus.solvers._theta import Block, block_gram, transposed_product


def kaczmarz_mp_step(
    block: Block,
    Z: Array,
    state: State,
    *,
    theta: Callable[[Array], Array],
    safeguard: bool = True,
) -> StepResult:
    """Take a Kaczmarz step, of the best length, and a matching pursuit step.

    Parameters
    ----------
    block : Block
    Z : array of shape (n + 1, t)
    state : dict
        As of :func:`start_matching_pursuit`.
    theta : callable
        ``V -> Θ V`` for ``V`` of shape (n + 1, t).
    safeguard : bool, default=True
        False takes the Kaczmarz step as printed, with the length 1.
    """
    W, R = state["W"], state["R"]
    inverse = invert_gram(block_gram(block.E))
    Delta = transposed_product(block.E, inverse(take_rows(R, block.rows)))
    moved = theta(Delta)  # (n + 1, t)
    length = best_length(R, moved) if safeguard else 1.0
    W, R = W + length * Delta, R - length * moved
    W, R = pursue(block, inverse, W, R)
    return StepResult({"W": W, "R": R}, relative_norm(R, Z), inverse.rank_revealing)


def best_length(R: Array, moved: Array) -> Array:
    """Return ℓ that minimises ‖R − ℓ moved‖, for each column, (t,)."""
    xp = array_namespace(R)
    squares = xp.sum(moved * moved, axis=0)
    safe = xp.where(squares > 0, squares, xp.ones_like(squares))
    return xp.sum(R * moved, axis=0) / safe
