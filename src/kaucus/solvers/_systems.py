"""The bordered LS-SVM system: blocks of its rows, and what a randomized solver is.

    Θ = [ 0   uᵀ ]        Θ W = Z,    W = [ b ]    Z = [   0   ]
        [ u   H  ],                       [ ã ],       [ S^½ Y ],

H = S^½ K S^½ + I/C and u = S^½ 1 (Andrecut 2016, eq. 16-19 with γ = C; ``_scaling`` has
the weights). Θ is symmetric: a block of its rows is a block of its columns.

Every block that is drawn here has the row of the intercept in it. The paper draws that
row like any other, once in a pass; beside thousands of rows it costs nothing, and
1ᵀa = 0 holds, or is fitted, from the first step on.

A randomized solver has a start, a step and coefficients; they are known by name.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np

from kaucus.backend import (
    Array,
    add_gram,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    get_entries,
    is_torch,
    map_blocks,
    mirror_lower,
    n_workers,
    on_gpu,
    reduce_blocks,
    row_blocks,
    set_entries,
    take_rows,
    zero_gram,
)
from kaucus.kernels import KernelOperator
from kaucus.solvers._scaling import ScaledTargets

# Bytes of one float64 piece of a block: in cache for products with few columns, larger
# for a Gram matrix, which is added to for every piece. On a GPU, and in float64 where
# nothing is copied, as large as there is room for.
_PRODUCT_BYTES = 4 * 2**20
_GRAM_BYTES = 32 * 2**20
_WHOLE_BYTES = 2**32
# Entries of a line of memory on a GPU.
_LINE = 16


class Block(NamedTuple):
    """Some rows of Θ, the first of them that of the intercept."""

    rows: Array
    """Their numbers in W and Z, (j + 1,)."""
    E: Array
    """Θ[rows, :], (j + 1, n + 1), in the precision of the kernel."""


def bordered(targets: ScaledTargets) -> Array:
    """Return Z = [0; S^½ Y], (n + 1, t), in float64 (eq. 19)."""
    xp = array_namespace(targets.Y)
    return xp.concat([xp.zeros_like(targets.Y[:1, :]), targets.Y], axis=0)


def draw_block(operator: KernelOperator, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return an array (j + 1, n + 1) with K[rows, :] in it, and the order of the rows.

    The first row and the first column are left for the border of Θ.
    """
    # Rows of a tensor begin at whole lines of memory: products are faster by a third.
    width = operator.shape[1] + 1
    padded = -(-width // _LINE) * _LINE if on_gpu(operator.empty((0, 0))) else width
    E = operator.empty((len(rows) + 1, padded))[:, :width]
    return E, rows[operator.fill_rows(E[1:, 1:], rows)]


def theta_block(
    E: Array, rows: np.ndarray, targets: ScaledTargets, C: float, *, overwrite: bool
) -> Block:
    """Turn what :func:`draw_block` gives into rows of Θ."""
    xp = array_namespace(E)
    index = as_like(rows, E)
    u = astype(targets.u[:, 0], dtype_name(E))  # (n,)
    E = E if overwrite else xp.asarray(E, copy=True)
    if targets.root is not None:
        E[1:, 1:] *= u[None, :]
        E[1:, 1:] *= take_rows(u, index)[:, None]
    E[0, 0] = 0.0
    E[0, 1:] = u
    E[1:, 0] = take_rows(u, index)
    i = xp.arange(len(rows), dtype=index.dtype, device=device_of(E)) + 1
    on_diagonal = get_entries(E, i, index + 1)
    set_entries(E, i, index + 1, on_diagonal + 1 / C)
    zero = xp.zeros(1, dtype=index.dtype, device=device_of(E))
    return Block(xp.concat([zero, index + 1]), E)


def _chunks(E: Array, n_bytes: int) -> list[slice]:
    """Return slices of columns in which a float64 copy of ``E`` stays small."""
    if dtype_name(E) == "float64" or on_gpu(E):
        n_bytes = _WHOLE_BYTES
    return list(row_blocks(E.shape[1], 8 * E.shape[0], n_bytes))


def block_product(E: Array, V: Array) -> Array:
    """Return E V in float64, (j + 1, t), for ``V`` of shape (n + 1, t)."""
    return reduce_blocks(
        lambda s: astype(E[:, s], "float64") @ V[s, :],
        _chunks(E, _PRODUCT_BYTES),
        lambda a, b: a + b,
        workers=n_workers(E),
    )


def transposed_product(E: Array, Q: Array) -> Array:
    """Return Eᵀ Q in float64, (n + 1, t), for ``Q`` of shape (j + 1, t)."""
    xp = array_namespace(E)
    parts = map_blocks(
        lambda s: astype(E[:, s], "float64").T @ Q,
        _chunks(E, _PRODUCT_BYTES),
        workers=n_workers(E),
    )
    return xp.concat(list(parts), axis=0)


def block_gram(E: Array) -> Array:
    """Return E Eᵀ in float64, (j + 1, j + 1).

    In float64 whatever the precision of E: it squares the condition of the block.
    """
    if is_torch(E):  # half of the product, where it costs more than the mirror image
        return mirror_lower(add_gram(zero_gram(E.shape[0], E), E.T))
    xp = array_namespace(E)
    G = xp.zeros((E.shape[0], E.shape[0]), dtype=xp.float64, device=device_of(E))
    # Pieces also where nothing is copied: Ctrl-C need not wait for the whole product.
    whole = _WHOLE_BYTES if on_gpu(E) else _GRAM_BYTES
    for s in row_blocks(E.shape[1], 8 * E.shape[0], whole):
        piece = astype(E[:, s], "float64")
        G += piece @ piece.T
    return G


def theta_product(
    operator: KernelOperator, targets: ScaledTargets, C: float, W: Array
) -> Array:
    """Return Θ W, (n + 1, t), in float64: a product with all of K."""
    xp = array_namespace(W)
    a = W[1:, :]
    top = xp.sum(targets.u * a, axis=0)[None, :]
    lower = h_product(operator, targets, C, a) + targets.u * W[:1, :]
    return xp.concat([top, lower], axis=0)


def h_product(
    operator: KernelOperator, targets: ScaledTargets, C: float, a: Array
) -> Array:
    """Return H a = (S^½ K S^½ + I/C) a, (n, t), in float64."""
    return targets.u * operator.matmul(targets.u * a) + a / C


# ---- solvers -------------------------------------------------------------------------


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
