"""The randomized solvers by name: right-hand side, start, step, coefficients."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import Array, array_namespace, astype
from kaucus.kernels import KernelOperator
from kaucus.solvers._block_descent import (
    acceleration,
    block_descent_step,
    start_block_descent,
)
from kaucus.solvers._kaczmarz import kaczmarz_step, start_kaczmarz
from kaucus.solvers._kaczmarz_mp import kaczmarz_mp_step
from kaucus.solvers._matching_pursuit import (
    matching_pursuit_step,
    start_matching_pursuit,
)
from kaucus.solvers._nystrom import nystrom_step, start_nystrom
from kaucus.solvers._scaling import ScaledTargets, eliminate_intercept
from kaucus.solvers._steps import State, StepResult
from kaucus.solvers._theta import Block, bordered, h_product, theta_product

RANDOMIZED = (
    "nystrom",
    "kaczmarz",
    "matching_pursuit",
    "kaczmarz_mp",
    "block_descent",
)
# Those that carry the residual of all rows along.
KNOW_RESIDUAL = ("matching_pursuit", "kaczmarz_mp", "block_descent")


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
    exact_rows: int = 4096
    """Of block_descent: larger blocks get a Nyström approximation."""


class System(NamedTuple):
    """One problem: its start, its step, and the coefficients of a state."""

    targets: ScaledTargets
    start: Callable[[], State]
    step: Callable[[Block, State], StepResult]
    coefficients: Callable[[State], tuple[Array, Array]]
    """a, (n, t), and b, (t,), from a state's ``"W"``."""
    shapes: dict[str, tuple[int, ...]]
    """Of the arrays of a state."""


def make_system(
    solver: str,
    operator: KernelOperator,
    targets: ScaledTargets,
    setting: Setting,
    start: Start | None = None,
) -> System:
    """Return the system of one set of weights for the solver of that name."""
    make = _descent_system if solver == "block_descent" else _bordered_system
    return make(solver, operator, targets, setting, start)


def _bordered_system(solver, operator, targets, setting: Setting, start) -> System:
    """Θ W = Z, for the paper's solvers."""
    Z = bordered(targets)

    def theta(V: Array) -> Array:
        return theta_product(operator, targets, setting.C, V)

    def begin() -> State:
        xp = array_namespace(Z)
        # A committee has no start: its members do not depend on each other.
        if solver == "nystrom":
            return start_nystrom(xp.zeros_like(Z))
        W = xp.zeros_like(Z) if start is None else _bordered_start(targets, start)
        if solver == "kaczmarz":
            return start_kaczmarz(W)
        return start_matching_pursuit(W, Z if start is None else Z - theta(W))

    def step(block: Block, state: State) -> StepResult:
        if solver == "kaczmarz_mp":
            return kaczmarz_mp_step(
                block, Z, state, theta=theta, safeguard=setting.safeguard
            )
        return _STEPS[solver](block, Z, state)

    def coefficients(state: State) -> tuple[Array, Array]:
        W = state["W"]
        return targets.u * W[1:, :], W[0, :]

    shapes = {"W": Z.shape, "R": Z.shape}
    if solver in ("kaczmarz", "nystrom"):
        del shapes["R"]
    if solver == "nystrom":
        shapes["members"] = (1,)
    return System(targets, begin, step, coefficients, shapes)


_STEPS = {
    "nystrom": nystrom_step,
    "kaczmarz": kaczmarz_step,
    "matching_pursuit": matching_pursuit_step,
}


def _descent_system(solver, operator, targets, setting: Setting, start) -> System:
    """H X = [u, S^½ Y − u b₀], with b₀ the intercept of the start."""
    xp = array_namespace(targets.Y)
    b0 = xp.zeros_like(targets.Y[0, :])
    if start is not None:
        b0 = astype(start.intercept, "float64")
    moved = targets._replace(Y=targets.Y - targets.u * b0[None, :])
    B = xp.concat([moved.u, moved.Y], axis=1)
    n, C = B.shape[0], setting.C
    # Measured at J/n from 1/5 to 1/20: a guess of half the largest possible rate.
    speed = acceleration(n, setting.block_size, 0.5 * setting.block_size / n)

    def begin() -> State:
        if start is None:
            return start_block_descent(xp.zeros_like(B), B)
        a = _scaled(targets, start.dual_coef)
        H_a = h_product(operator, targets, C, a)
        W = xp.concat([xp.zeros_like(targets.u), a], axis=1)
        R = B - xp.concat([xp.zeros_like(targets.u), H_a], axis=1)
        return start_block_descent(W, R)

    def step(block: Block, state: State) -> StepResult:
        return block_descent_step(
            block,
            B,
            state,
            C=C,
            speed=speed,
            rng=setting.rng,
            exact_rows=setting.exact_rows,
        )

    def coefficients(state: State) -> tuple[Array, Array]:
        W = state["W"]
        solved = eliminate_intercept(moved, W[:, :1], W[:, 1:])
        return solved.dual_coef, solved.intercept + b0

    shapes = {"W": B.shape, "R": B.shape, "V": B.shape, "RV": B.shape}
    return System(targets, begin, step, coefficients, shapes)


def _scaled(targets: ScaledTargets, dual_coef: Array) -> Array:
    """Return ã = S^-½ a; 0 where the weight is 0."""
    xp = array_namespace(targets.u)
    u = targets.u
    safe = xp.where(u > 0, u, xp.ones_like(u))
    return xp.where(u > 0, astype(dual_coef, "float64") / safe, 0 * u)


def _bordered_start(targets: ScaledTargets, start: Start) -> Array:
    xp = array_namespace(targets.u)
    b = astype(start.intercept, "float64")[None, :]
    return xp.concat([b, _scaled(targets, start.dual_coef)], axis=0)
