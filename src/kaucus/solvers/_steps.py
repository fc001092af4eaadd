"""State, result and residual of a step, for all randomized solvers."""

from typing import NamedTuple

from kaucus.backend import Array, array_namespace

State = dict[str, Array]
"""What a solver carries from step to step; ``"W"`` is the solution so far. A step makes
a new one and leaves the old one as it was, so that an interrupted step changes nothing.
"""


class StepResult(NamedTuple):
    """Result of one step."""

    state: State
    residual: float
    """Largest ‖Z − ΘW‖ / ‖Z‖ over the right-hand sides: of all rows after the step, or,
    where a solver does not know that, of the block's rows before it."""
    fallback: bool
    """Whether a pseudo-inverse had to be found by eigenvalues."""


def relative_norm(R: Array, B: Array) -> float:
    """Return the largest ‖r‖ / ‖b‖ over the columns; a column of zeros counts as 1."""
    xp = array_namespace(R)
    sizes = xp.linalg.vector_norm(B, axis=0)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return float(xp.max(xp.linalg.vector_norm(R, axis=0) / sizes))
