"""What a randomized solver is: a start, a step, coefficients; and those by name."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np

from kaucus.backend import Array, array_namespace, astype
from kaucus.kernels import KernelOperator
from kaucus.solvers._scaling import ScaledTargets
from kaucus.solvers._theta import Block, bordered, theta_product

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
    fallback: bool = False
    """Whether a pseudo-inverse had to be found by eigenvalues."""


class Start(NamedTuple):
    """Coefficients to begin with."""

    dual_coef: Array
    """(n, t)."""
    intercept: Array
    """(t,)."""


class Setting(NamedTuple):
    """Parameters of the randomized solvers."""

    C: float
    block_size: int
    rng: np.random.Generator
    safeguard: bool = True
    """Of kaczmarz_mp; False is the form that is printed, and diverges."""


class System(ABC):
    """One problem Θ W = Z, and a step that brings W nearer to its solution.

    A solver is a subclass with a :meth:`step`, which :func:`known_as` gives a name.
    """

    carries = ("W", "R")
    """The arrays of a state, each as large as ``right``."""
    knows_residual = True
    """Whether a state has the residual of all rows, as ``"R"``."""
    may_rise = False
    """Whether that residual may rise, and says nothing of the end."""
    one_pass = False
    """Whether all is done when each row has been in a step."""

    def __init__(
        self,
        operator: KernelOperator,
        targets: ScaledTargets,
        setting: Setting,
        start: Start | None = None,
    ) -> None:
        self.operator, self.targets, self.setting = operator, targets, setting
        self.first = start
        self.right = self.right_side()

    def right_side(self) -> Array:
        """Return Z, (n + 1, t)."""
        return bordered(self.targets)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of a state."""
        return dict.fromkeys(self.carries, self.right.shape)

    def begin(self) -> State:
        """Return the state before the first step."""
        xp, Z = array_namespace(self.right), self.right
        W, R = xp.zeros_like(Z), Z
        if self.first is not None:
            b = astype(self.first.intercept, "float64")[None, :]
            W = xp.concat([b, self.scaled_start(self.first)], axis=0)
            R = Z - self.theta(W) if self.knows_residual else Z
        return {"W": W, "R": R} if self.knows_residual else {"W": W}

    @abstractmethod
    def step(self, block: Block, state: State) -> StepResult:
        """Return the state after a step on some rows of Θ."""

    def coefficients(self, state: State) -> tuple[Array, Array]:
        """Return a, (n, t), and b, (t,)."""
        W = state["W"]
        return self.targets.u * W[1:, :], W[0, :]

    def theta(self, V: Array) -> Array:
        """Return Θ V: a product with all of the kernel matrix."""
        return theta_product(self.operator, self.targets, self.setting.C, V)

    def scaled_start(self, start: Start) -> Array:
        """Return ã = S^-½ a of the start; 0 where the weight is 0."""
        u, xp = self.targets.u, array_namespace(self.targets.u)
        safe = xp.where(u > 0, u, xp.ones_like(u))
        return xp.where(u > 0, astype(start.dual_coef, "float64") / safe, 0 * u)


RANDOMIZED: dict[str, type[System]] = {}
"""The randomized solvers by name; ``_randomized`` imports the modules they are in."""


S = TypeVar("S", bound=type[System])


def known_as(name: str):
    """Return a decorator that enters a solver by its name."""

    def enter(solver: S) -> S:
        RANDOMIZED[name] = solver
        return solver

    return enter


def relative_norm(R: Array, B: Array) -> float:
    """Return the largest ‖r‖ / ‖b‖ over the columns; a column of zeros counts as 1."""
    xp = array_namespace(R)
    sizes = xp.linalg.vector_norm(B, axis=0)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return float(xp.max(xp.linalg.vector_norm(R, axis=0) / sizes))
