"""Randomized block solvers of the least-squares SVM, and their driver."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    budget_to_have,
    format_bytes,
    in_threads,
    map_blocks,
    n_workers,
    reduce_blocks,
    row_blocks,
)
from kaucus._array.linalg import (
    add_gram,
    cho_solve,
    cholesky,
    cholesky_with_jitter,
    diagonal,
    eigh,
    mirror_lower,
    zero_gram,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import shifted_bytes
from kaucus._array.segments import random_normal
from kaucus.clustering._kernel_kmeans import pivoted_factor
from kaucus.kernels._matrix import KernelOperator
from kaucus.solvers._cg import low_rank_inverse
from kaucus.solvers._columns import RowData
from kaucus.solvers._system import (
    Interrupted,
    LSSVMSolution,
    Recorder,
    ScaledTargets,
    SolveInfo,
    Watch,
    eliminate_intercept,
    history_of,
    intercept_of,
    scale_problems,
)

# ----------------------------------------------------------------------------------
# The bordered LS-SVM system: blocks of its rows, and what a randomized solver is.
#
#     Θ = [ 0   uᵀ ]        Θ W = Z,    W = [ b ]    Z = [   0   ]
#         [ u   H  ],                       [ ã ],       [ S^½ Y ],
#
# H = S^½ K S^½ + I/C and u = S^½ 1 (Andrecut 2016, eq. 16-19 with γ = C; ``_system``
# has the weights). Θ is symmetric: a block of its rows is a block of its columns.
#
# Every block that is drawn here has the row of the intercept in it. The paper draws
# that row like any other, once in a pass; beside thousands of rows it costs nothing,
# and 1ᵀa = 0 holds, or is fitted, from the first step on.
#
# A randomized solver has a start, a step and coefficients; they are known by name.
# ----------------------------------------------------------------------------------

# Bytes of one float64 piece of a block: in cache for products with few columns, larger
# for a Gram matrix, which is added to for every piece. On a GPU, and in float64 where
# nothing is copied, as large as there is room for.
_PRODUCT_BYTES = 4 * 2**20
_GRAM_BYTES = 32 * 2**20
_WHOLE_BYTES = 2**32
# Entries of a line of memory on a GPU.
_LINE = 16


class Block(NamedTuple):
    """A block of rows of Θ, the intercept's first."""

    rows: Array
    """Their numbers in W and Z, (j + 1,)."""
    E: Array
    """Θ[rows, :], (j + 1, n + 1), in the precision of the kernel."""


def bordered(targets: ScaledTargets) -> Array:
    """Return Z = [0; S^½ Y], (n + 1, t), in float64 (eq. 19)."""
    xp = nx.array_namespace(targets.Y)
    return xp.concat([xp.zeros_like(targets.Y[:1, :]), targets.Y], axis=0)


def draw_block(operator: KernelOperator, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return a buffer (j + 1, n + 1) with K[rows, :], and the order of the rows.

    The first row and the first column are left for the border of Θ.
    """
    # Rows of a tensor begin at whole lines of memory: products are faster by a third.
    width = operator.shape[1] + 1
    padded = -(-width // _LINE) * _LINE if nx.on_gpu(operator.empty((0, 0))) else width
    E = operator.empty((len(rows) + 1, padded))[:, :width]
    return E, rows[operator.fill_rows(E[1:, 1:], rows)]


def theta_block(
    E: Array, rows: np.ndarray, targets: ScaledTargets, C: float, *, overwrite: bool
) -> Block:
    """Return rows of Θ from the buffer of :func:`draw_block`."""
    xp = nx.array_namespace(E)
    index = nx.as_like(rows, E)
    u = nx.astype(targets.u[:, 0], nx.dtype_name(E))  # (n,)
    E = E if overwrite else xp.asarray(E, copy=True)
    if targets.root is not None:
        E[1:, 1:] *= u[None, :]
        E[1:, 1:] *= nx.take_rows(u, index)[:, None]
    E[0, 0] = 0.0
    E[0, 1:] = u
    E[1:, 0] = nx.take_rows(u, index)
    i = xp.arange(len(rows), dtype=index.dtype, device=nx.device_of(E)) + 1
    on_diagonal = nx.get_entries(E, i, index + 1)
    nx.set_entries(E, i, index + 1, on_diagonal + 1 / C)
    zero = xp.zeros(1, dtype=index.dtype, device=nx.device_of(E))
    return Block(xp.concat([zero, index + 1]), E)


def _chunks(E: Array, n_bytes: int) -> list[slice]:
    """Return slices of columns in which a float64 copy of ``E`` stays small."""
    if nx.dtype_name(E) == "float64" or nx.on_gpu(E):
        n_bytes = _WHOLE_BYTES
    return list(row_blocks(E.shape[1], 8 * E.shape[0], n_bytes))


def block_product(E: Array, V: Array) -> Array:
    """Return E V in float64, (j + 1, t), for ``V`` of shape (n + 1, t)."""
    return reduce_blocks(
        lambda s: nx.astype(E[:, s], "float64") @ V[s, :],
        _chunks(E, _PRODUCT_BYTES),
        lambda a, b: a + b,
        workers=n_workers(E),
    )


def transposed_product(E: Array, Q: Array) -> Array:
    """Return Eᵀ Q in float64, (n + 1, t), for ``Q`` of shape (j + 1, t)."""
    xp = nx.array_namespace(E)
    parts = map_blocks(
        lambda s: nx.astype(E[:, s], "float64").T @ Q,
        _chunks(E, _PRODUCT_BYTES),
        workers=n_workers(E),
    )
    return xp.concat(list(parts), axis=0)


def block_gram(E: Array) -> Array:
    """Return E Eᵀ in float64, (j + 1, j + 1).

    In float64 whatever the precision of E: it squares the condition of the block.
    """
    if nx.is_torch(E):  # half of the product, where it costs more than the mirror image
        return mirror_lower(add_gram(zero_gram(E.shape[0], E), E.T))
    xp = nx.array_namespace(E)
    G = xp.zeros((E.shape[0], E.shape[0]), dtype=xp.float64, device=nx.device_of(E))
    # Pieces also where nothing is copied: Ctrl-C need not wait for the whole product.
    whole = _WHOLE_BYTES if nx.on_gpu(E) else _GRAM_BYTES
    for s in row_blocks(E.shape[1], 8 * E.shape[0], whole):
        piece = nx.astype(E[:, s], "float64")
        G += piece @ piece.T
    return G


def theta_product(
    operator: KernelOperator, targets: ScaledTargets, C: float, W: Array
) -> Array:
    """Return Θ W, (n + 1, t), in float64: a product with all of K."""
    xp = nx.array_namespace(W)
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
        xp, Z = nx.array_namespace(self.right), self.right
        W, R = xp.zeros_like(Z), Z
        if self.first is not None:
            b = nx.astype(self.first.intercept, "float64")[None, :]
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
        u, xp = self.targets.u, nx.array_namespace(self.targets.u)
        safe = xp.where(u > 0, u, xp.ones_like(u))
        return xp.where(u > 0, nx.astype(start.dual_coef, "float64") / safe, 0 * u)


RANDOMIZED: dict[str, type[System]] = {}
"""The randomized solvers by name."""


S = TypeVar("S", bound=type[System])


def known_as(name: str):
    """Return a decorator that enters a solver by its name."""

    def enter(solver: S) -> S:
        RANDOMIZED[name] = solver
        return solver

    return enter


def relative_norm(R: Array, B: Array) -> float:
    """Return the largest ‖r‖ / ‖b‖ over the columns; a column of zeros counts as 1."""
    xp = nx.array_namespace(R)
    sizes = xp.linalg.vector_norm(B, axis=0)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return float(xp.max(xp.linalg.vector_norm(R, axis=0) / sizes))


# ----------------------------------------------------------------------------------
# Solvers by the pseudo-inverse of a block of rows: those of Andrecut (2016).
#
# Rows Θ_s = E of the system (above) are inverted through their Gram matrix,
#
#     E† = Eᵀ (E Eᵀ)⁻¹                                    (Andrecut 2016, eq. 40).
#
# It is scaled to a unit diagonal, which is the paper's standardisation of the rows (eq.
# 36-37): in exact arithmetic it changes nothing, in floating point it keeps digits. It
# is factored by Cholesky; where it is singular to working precision (rows that repeat
# each other, weights of zero), its eigenvalues tell its rank, and those below the
# cutoff are left out. That is slower, and is counted.
#
# A step takes n J² multiplications for the Gram matrix, J³/3 for its factor, and 2 n J
# t (nystrom: 3 n J t) for the rest.
# ----------------------------------------------------------------------------------


@known_as("nystrom")
class Nystrom(System):
    """A committee of Nyström approximations.

    A member replaces Θ by its Nyström approximation from some of its columns,

        Θ ≈ Θ_(N,J) Θ_(J,J)⁻¹ Θ_(J,N),
        W(t) = Θ_(J,N)† Θ_(J,J) Θ_(N,J)† Z                             (eq. 26-27),

    and has a weight for each of the n rows. The committee is the mean of its members;
    the sum that is printed (eq. 28) decides the same. It is complete when each row has
    been in one member: n/J of them, 6 for the paper's J = 10,000. It has no start: its
    members do not depend on each other.
    """

    knows_residual, one_pass = False, True

    def begin(self) -> State:
        """Return a committee without members."""
        W = nx.array_namespace(self.right).zeros_like(self.right)
        return {"W": W, "members": W[:1, 0]}

    def step(self, block: Block, state: State) -> StepResult:
        """Add a member to the committee."""
        Z, E, W, members = self.right, block.E, state["W"], state["members"]
        Z_s = nx.take_rows(Z, block.rows)
        R_s = Z_s - block_product(E, W)
        inverse = invert_gram(block_gram(E))
        corner = nx.array_namespace(E).take(E, block.rows, axis=1)  # Θ_(J,J)
        inner = nx.astype(corner, "float64") @ inverse(block_product(E, Z))
        member = transposed_product(E, inverse(inner))
        W = W + (member - W) / (members + 1)
        state = {"W": W, "members": members + 1}
        return StepResult(state, relative_norm(R_s, Z_s), inverse.rank_revealing)


@known_as("kaczmarz")
class Kaczmarz(System):
    """Block Kaczmarz: project W onto the solutions of a few rows of Θ.

        W ← W + Θ_s† (Z_s − Θ_s W)                                         (eq. 47)

    The error ‖W − W*‖ never rises (eq. 44). The residual may: it is known only on the
    rows of the block, before the step, which is what is told as the residual.
    """

    knows_residual = False

    def step(self, block: Block, state: State) -> StepResult:
        """Project W onto the solutions of the block's equations."""
        W, Z_s = state["W"], nx.take_rows(self.right, block.rows)
        R_s = Z_s - block_product(block.E, W)
        inverse = invert_gram(block_gram(block.E))
        W = W + transposed_product(block.E, inverse(R_s))
        return StepResult({"W": W}, relative_norm(R_s, Z_s), inverse.rank_revealing)


@known_as("matching_pursuit")
class MatchingPursuit(System):
    """Block matching pursuit: fit the residual by a few columns of Θ.

        Q ← Θ_s† R,    W_s ← W_s + Q,    R ← R − Θ_s Q                  (eq. 57-59)

    Q minimises the residual over the block's weights, so ‖R‖ never rises (eq. 60), and
    R is that of the whole system, without a product with all of Θ.
    """

    def step(self, block: Block, state: State) -> StepResult:
        """Minimise the residual over the weights of the block."""
        return self.pursue(block, invert_gram(block_gram(block.E)), **state)

    def pursue(
        self, block: Block, inverse: "GramInverse", W: Array, R: Array
    ) -> StepResult:
        """Return W and R after eq. 57-59; Θ is symmetric, so that Θ_s = Eᵀ."""
        Q = inverse(block_product(block.E, R))
        W, R = nx.add_to_rows(W, block.rows, Q), R - transposed_product(block.E, Q)
        residual = relative_norm(R, self.right)
        return StepResult({"W": W, "R": R}, residual, inverse.rank_revealing)


@known_as("kaczmarz_mp")
class KaczmarzPursuit(MatchingPursuit):
    """The Kaczmarz-MP hybrid, made safe: a Kaczmarz step, then a matching pursuit step.

    Both take the same block and the same Gram matrix (Sec. 3.4). As printed it
    diverges: a Kaczmarz step shrinks the error and may enlarge the residual, a matching
    pursuit step does the opposite. Safe is the length that minimises the residual,

        Δ = Θ_s† R_s,    ℓ_j = ⟨R_j, (ΘΔ)_j⟩ / ‖(ΘΔ)_j‖²,    W ← W + Δ ℓ,

    one number for each right-hand side j; then ‖R‖ never rises. The matching pursuit
    half has the length 1 by that rule already.

    ΘΔ is a product with all of Θ: where the kernel matrix is not kept, it costs as much
    as n/J blocks, and matching pursuit alone is the better choice.
    """

    def step(self, block: Block, state: State) -> StepResult:
        """Take a Kaczmarz step, of the best length, and a matching pursuit step."""
        W, R = state["W"], state["R"]
        inverse = invert_gram(block_gram(block.E))
        Delta = transposed_product(block.E, inverse(nx.take_rows(R, block.rows)))
        moved = self.theta(Delta)  # (n + 1, t)
        length = _best_length(R, moved) if self.setting.safeguard else 1.0
        return self.pursue(block, inverse, W + length * Delta, R - length * moved)


def _best_length(R: Array, moved: Array) -> Array:
    """Return ℓ that minimises ‖R − ℓ moved‖, for each column, (t,)."""
    xp = nx.array_namespace(R)
    squares = xp.sum(moved * moved, axis=0)
    safe = xp.where(squares > 0, squares, xp.ones_like(squares))
    return xp.sum(R * moved, axis=0) / safe


# ---- the pseudo-inverse --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GramInverse:
    """(E Eᵀ)⁺, ready to be applied."""

    scale: Array
    """1 / ‖row‖, (m,); 0 for a row of zeros."""
    L: Array | None
    """Cholesky factor of the scaled matrix, or None."""
    spectrum: tuple[Array, Array] | None
    """Inverted eigenvalues, (m,), and eigenvectors, (m, m), or None."""

    @property
    def rank_revealing(self) -> bool:
        """Whether eigenvalues had to take the place of the Cholesky factor."""
        return self.spectrum is not None

    def __call__(self, B: Array) -> Array:
        """Return (E Eᵀ)⁺ B, (m, t)."""
        B = self.scale[:, None] * B
        if self.spectrum is None:
            X = cho_solve(self.L, B)
        else:
            inverse, U = self.spectrum
            X = U @ (inverse[:, None] * (U.T @ B))
        return self.scale[:, None] * X


def invert_gram(G: Array) -> GramInverse:
    """Return the pseudo-inverse of a symmetric positive semidefinite ``G``, (m, m).

    Parameters
    ----------
    G : array of shape (m, m)
        In float64.

    Notes
    -----
    m³/3 multiplications by Cholesky, about 10 m³ by eigenvalues.
    """
    xp = nx.array_namespace(G)
    norms = xp.sqrt(xp.clip(diagonal(G), min=0.0))
    safe = xp.where(norms > 0, norms, xp.ones_like(norms))
    scale = xp.where(norms > 0, 1 / safe, xp.zeros_like(norms))
    scaled = G * scale[None, :] * scale[:, None]
    # Below this an eigenvalue of a matrix with unit diagonal is rounding.
    cutoff = G.shape[0] * nx.epsilon(G)
    L = cholesky(scaled)
    if L is not None and float(xp.min(diagonal(L))) ** 2 > cutoff:
        return GramInverse(scale, L, None)
    values, U = eigh(scaled)
    large = values > cutoff * float(xp.max(values))
    ones = xp.ones_like(values)
    inverse = xp.where(large, 1 / xp.where(large, values, ones), 0 * ones)
    return GramInverse(scale, None, (inverse, U))


# ----------------------------------------------------------------------------------
# Size of the blocks of a randomized solver, and memory for the kernel matrix.
# ----------------------------------------------------------------------------------

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
    """Size of the blocks and the remaining memory."""

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
    """Return the block size J and the memory plan, checked to fit.

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
        block = copies * nx.itemsize(X) * n * J
        pieces = min(most_pieces, 4 * nx.itemsize(X) * n * J)
        vectors = _VECTORS * 8 * n * (n_targets + 1) * n_problems
        return n_parallel * (block + pieces + vectors + _SQUARES * 8 * J * J)

    def for_tiles(J: int) -> int:
        """Return the part of the pieces that the operator needs for its tiles."""
        return min(n_workers(X) * _PIECES_OF_THREAD, 4 * nx.itemsize(X) * n * J)

    copies_of_rows = shifted_bytes(X)
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
    """Return the bytes to plan with: seven eighths of the budget.

    That is tiles of the kernel in several threads, the buffers of BLAS, gaps between
    freed blocks.
    """
    return budget - budget // 8


def _check_smallest(X: Array, J: int, needed, budget: int) -> None:
    """Raise where blocks would be too small for a fit to end in reasonable time."""
    n = X.shape[0]
    least = min(_LEAST_BLOCK, n)
    wanted = needed(least) + shifted_bytes(X)
    if least <= J or wanted <= _LEAST_REFUSED:
        return
    enough = budget_to_have(1.25 * wanted, X)
    raise MemoryError(
        f"memory_budget leaves {format_bytes(budget)} beside a copy of the rows, for "
        f"blocks of {J} of {n} rows: a pass would take {-(-n // J)} steps. Pass a "
        f"memory_budget of {format_bytes(enough)} or more, a block_size to have "
        "it so, float32 rows, or fewer rows."
    )


# ----------------------------------------------------------------------------------
# Accelerated block descent on the positive definite system, preconditioned by blocks.
#
# For H X = B, several right-hand sides at once, with a random block s of J rows in each
# step (ASkotch: P. Rathore, Z. Frangella, J. Yang, M. Dereziński, M. Udell,
# arXiv:2407.10070):
#
#     z = α v + (1 − α) w
#     d = P⁻¹ (B − H z)_s / ℓ,      P ≈ H_ss
#     w ← z + I_s d
#     v ← β v + (1 − β) z + γ I_s d
#
# with β = 1 − √(μ/ν), γ = 1/√(μν), α = 1/(1 + γν), ν = n/J. P is H_ss itself where its
# factor is cheap, ℓ = 1, and for larger blocks a Nyström approximation F Fᵀ + ρ I of it
# with damping ρ, ℓ being the largest eigenvalue of P⁻¹ H_ss by a few power steps.
#
# Two things are ours. The residuals of w and v are carried along: they take part in the
# same recurrences, and H I_s d is one product with the block, which is there already;
# so a step costs n J t beside the kernel, the gradient costs nothing, and the residual
# of all rows is known in every step. And v is set back to w where the quadratic
# function ½ wᵀHw − bᵀw rises, which makes a wrong guess of μ harmless.
#
# The intercept is eliminated: B = [u, S^½ Y], see ``_system``.
# ----------------------------------------------------------------------------------

# Up to so many rows a block is factored as it is.
_EXACT_ROWS = 4096
_POWER_STEPS = 10


def acceleration(n: int, block_size: int, mu: float) -> tuple[float, float, float]:
    """Return α, β, γ of the recurrences, for a guess of μ, the descent of one step."""
    nu = n / block_size
    mu = min(mu, 1 / nu)
    gamma = (mu * nu) ** -0.5
    return 1 / (1 + gamma * nu), 1 - (mu / nu) ** 0.5, gamma


@known_as("block_descent")
class BlockDescent(System):
    """H X = [u, S^½ Y − u b₀], with b₀ the intercept of the start, by block descent.

    A step takes n J t multiplications beside the block; J³/3 for its factor, or J r²
    with r columns.
    """

    may_rise = True

    def right_side(self) -> Array:
        """Return B = [u, S^½ Y − u b₀], (n, 1 + t)."""
        xp, Y = nx.array_namespace(self.targets.Y), self.targets.Y
        self.b0 = xp.zeros_like(Y[0, :])
        if self.first is not None:
            self.b0 = nx.astype(self.first.intercept, "float64")
        u = self.targets.u
        self.moved = self.targets._replace(Y=Y - u * self.b0[None, :])
        n, J = Y.shape[0], self.setting.block_size
        # Measured at J/n from 1/5 to 1/20: a guess of half the largest possible rate.
        self.speed = acceleration(n, J, 0.5 * J / n)
        return xp.concat([u, self.moved.Y], axis=1)

    def begin(self) -> State:
        """Return the state before the first step, with R = B − H W."""
        xp, B, u = nx.array_namespace(self.right), self.right, self.targets.u
        W, R = xp.zeros_like(B), B
        if self.first is not None:
            a = self.scaled_start(self.first)
            H_a = h_product(self.operator, self.targets, self.setting.C, a)
            W = xp.concat([xp.zeros_like(u), a], axis=1)
            R = B - xp.concat([xp.zeros_like(u), H_a], axis=1)
        return {"W": W, "R": R, "V": W, "RV": R}

    def step(self, block: Block, state: State) -> StepResult:
        """Take one step on the rows of the block."""
        xp, B = nx.array_namespace(self.right), self.right
        E, rows = block.E[1:, 1:], block.rows[1:] - 1
        alpha, beta, gamma = self.speed
        W, R, V, RV = (state[key] for key in ("W", "R", "V", "RV"))
        Z, RZ = alpha * V + (1 - alpha) * W, alpha * RV + (1 - alpha) * R
        H = nx.astype(xp.take(E, rows, axis=1), "float64")
        d = block_inverse(H, self.setting.C, self.setting.rng)(nx.take_rows(RZ, rows))
        Hd = transposed_product(E, d)
        W_new, R_new = nx.add_to_rows(Z, rows, d), RZ - Hd
        V = nx.add_to_rows(beta * V + (1 - beta) * Z, rows, gamma * d)
        RV = beta * RV + (1 - beta) * RZ - gamma * Hd
        if _energy(W_new, R_new, B) > _energy(W, R, B):
            V, RV = W_new, R_new
        state = {"W": W_new, "R": R_new, "V": V, "RV": RV}
        return StepResult(state, _bordered_residual(W_new, R_new, B, self.targets.Y))

    def coefficients(self, state: State) -> tuple[Array, Array]:
        """Return a, (n, t), and b, (t,)."""
        W = state["W"]
        solved = eliminate_intercept(self.moved, W[:, :1], W[:, 1:])
        return solved.dual_coef, solved.intercept + self.b0


def _bordered_residual(W: Array, R: Array, B: Array, Y: Array) -> float:
    """Return the relative residual of Θ [b; a] = [0; y], for B = [u, Y − u b₀].

    With b = uᵀν / uᵀη and a = ν − η b it is R_ν − R_η b in the rows of the data, and 0
    in that of the intercept. Relative to Y, wherever a warm start begins.
    """
    b = intercept_of(B[:, :1], W[:, :1], W[:, 1:])
    return relative_norm(R[:, 1:] - R[:, :1] * b[None, :], Y)


def _energy(W: Array, R: Array, B: Array) -> float:
    """Return Σ_j ½ wᵀHw − bᵀw = −½ Σ_j wᵀ(b + r), each over ‖b‖²."""
    xp = nx.array_namespace(W)
    sizes = xp.sum(B * B, axis=0)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    return float(xp.sum(-0.5 * xp.sum(W * (B + R), axis=0) / sizes))


def block_inverse(H: Array, C: float, rng, *, exact_rows: int = _EXACT_ROWS):
    """Return R -> P⁻¹ R / ℓ for one block H_ss, (J, J), in float64."""
    if H.shape[0] <= exact_rows:
        L = cholesky_with_jitter(H, overwrite=True).L
        return lambda R: cho_solve(L, R)
    return _nystrom_inverse(H, C, rng, rank=exact_rows // 4)


def _nystrom_inverse(H: Array, C: float, rng, *, rank: int):
    """Precondition by F Fᵀ + ρ I: ASkotch's damped Nyström approximation.

    ρ is 1/C and the mean of what F leaves of the diagonal.
    """
    xp = nx.array_namespace(H)
    K_diagonal = xp.clip(diagonal(H) - 1 / C, min=0.0)
    numbers = nx.as_like(np.arange(H.shape[0]), H)

    def columns(rows: Array) -> Array:
        picked = xp.take(H, rows, axis=1)
        return picked - xp.astype(rows[None, :] == numbers[:, None], H.dtype) / C

    F = pivoted_factor(columns, K_diagonal, rank=rank, rng=rng).F
    left = xp.clip(K_diagonal - xp.sum(F * F, axis=1), min=0.0)
    rho = 1 / C + float(xp.mean(left))
    solve = low_rank_inverse(F, rho, xp.ones_like(H[:, :1]))
    v = random_normal(rng, (H.shape[0], 1), H)
    largest = 1.0
    for _ in range(_POWER_STEPS):
        v = solve(H @ (v / xp.linalg.vector_norm(v)))
        largest = max(largest, float(xp.linalg.vector_norm(v)))
    # The power method comes from below; a step that is a tenth too short costs little.
    return lambda R: solve(R) / (1.1 * largest)


# ----------------------------------------------------------------------------------
# Driver of the solvers by random blocks: draw a block, take a step, stop.
#
# A run draws blocks of rows without replacement, pass after pass. Each block of the
# kernel is made once and serves every problem: the model, and, where decision values of
# held-out rows are wanted, a second one with the weight 0 for these rows. Several runs
# differ by their blocks alone. As the system is linear and the kernel the same, their
# models are averaged by their weights (Andrecut 2016, eq. 67-68).
# ----------------------------------------------------------------------------------


class RandomizedResult(NamedTuple):
    """A solution, and its history over the steps."""

    solution: LSSVMSolution
    history: dict[str, list]


def solve_ls_svm_randomized(
    data: RowData,
    *,
    C: float,
    solver: str,
    rng: np.random.Generator,
    memory_budget: int,
    held_out: np.ndarray | None = None,
    block_size: int | None = None,
    max_iter: int = 1000,
    tol: float = 1e-3,
    n_runs: int = 1,
    start: Start | None = None,
    watch: Watch | None = None,
    safeguard: bool = True,
) -> RandomizedResult:
    """Solve the LS-SVM system by random blocks of the kernel matrix.

    ``memory_budget`` keeps rows of the kernel matrix, beside blocks and vectors; a run
    stops at the relative residual ``tol``, or where a whole pass over the rows brings
    no significant change: of the residual (matching_pursuit, kaczmarz_mp), or of W
    (kaczmarz, nystrom). Ctrl-C raises :class:`Interrupted` with the best iterate.
    """
    kernel, X, Y, weight = data
    if start is not None:
        start = Start(*(nx.as_like(part, Y, dtype="float64") for part in start))
    problems = scale_problems(Y, weight, held_out)
    workers = min(n_runs, n_workers(X))
    memory = plan_blocks(
        X,
        n_targets=Y.shape[1],
        n_problems=len(problems),
        weighted=weight is not None,
        block_size=block_size,
        budget=memory_budget,
        n_parallel=workers,
    )
    # Products are in the precision of the kernel, as the blocks are.
    operator = KernelOperator(
        kernel, X, memory_budget=memory.operator, keep="rows", widen=False
    )
    rngs = [rng]
    if n_runs > 1:
        seeds = (int(rng.integers(2**63)) for _ in range(n_runs))
        rngs = [np.random.default_rng(seed) for seed in seeds]
    stop = threading.Event()

    def make_run(k: int) -> _Run:
        setting = Setting(C, memory.block_size, rngs[k], safeguard)
        systems = [
            RANDOMIZED[solver](operator, p, setting, None if i else start)
            for i, p in enumerate(problems)
        ]
        return _Run(systems, Recorder(watch or Watch(), k), max_iter, tol, stop)

    runs = [make_run(k) for k in range(n_runs)]
    try:
        if workers > 1:
            in_threads(lambda k: runs[k].to_the_end(), n_runs, workers, stop)
        else:
            for run in runs:
                run.to_the_end()
    except KeyboardInterrupt:
        stepped = [run.models()[0] for run in runs if run.residuals]
        best = Start(*_mean(stepped)) if stepped else None
        raise Interrupted(best) from None
    return _average(runs, operator, solver, held_out, memory.block_size)


def draw_blocks(
    n: int, per_pass: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield blocks of nearly one size, of a new permutation of n rows in every pass.

    No row is left over; the paper leaves out the remainder.
    """
    cuts = np.linspace(0, n, per_pass + 1).astype(np.intp)[1:-1]
    while True:
        yield from np.split(rng.permutation(n), cuts)


class _Run:
    """State of one run: its systems and stopping rules."""

    def __init__(
        self,
        systems: list[System],
        recorder: Recorder,
        max_iter: int,
        tol: float,
        stop: threading.Event,
    ) -> None:
        self.systems, self.recorder = systems, recorder
        self.max_iter, self.tol, self.stop = max_iter, tol, stop
        first = systems[0]
        self.known, self.n = first.knows_residual, first.operator.shape[0]
        self.per_pass = -(-self.n // first.setting.block_size)
        self.states = self.best = [system.begin() for system in systems]
        self.residuals: list[float] = []
        self.changes: list[float] = []
        self.n_fallbacks, self.reason = 0, ""

    def to_the_end(self) -> None:
        """Take steps until a stopping rule holds."""
        rng = self.systems[0].setting.rng
        blocks = draw_blocks(self.n, self.per_pass, rng)
        while not self.reason and not self.stop.is_set():
            results = self._step(next(blocks))
            asked = self._take(results)
            self.reason = self._reason() or ("callback" if asked else "")

    def _step(self, drawn: np.ndarray) -> list[StepResult]:
        """Step each system with the same block of the kernel."""
        first, last = self.systems[0], len(self.systems) - 1
        E, rows = draw_block(first.operator, drawn)
        C = first.setting.C
        results = []
        for k, system in enumerate(self.systems):
            block = theta_block(E, rows, system.targets, C, overwrite=k == last)
            results.append(system.step(block, self.states[k]))
        return results

    def _take(self, results: list[StepResult]) -> bool:
        """Store the results of a step; return whether the watch asks for the end."""
        before, states = self.states[0]["W"], [result.state for result in results]
        self.residuals.append(max(result.residual for result in results))
        self.changes.append(_change(before, states[0]["W"]))
        self.n_fallbacks += any(result.fallback for result in results)
        self.states = states
        if not self.known or self.residuals[-1] <= min(self.residuals):
            self.best = states
        return self.recorder.record(
            len(self.residuals),
            results[0].residual,
            self.changes[-1],
            lambda: self.systems[0].coefficients(states[0]),
        )

    def _reason(self) -> str:
        """Return why to stop, or an empty text."""
        first, step = self.systems[0], len(self.residuals)
        if self.known and self.error() <= self.tol:
            return "residual"
        if first.one_pass and step >= self.per_pass:
            return "complete"
        if step > self.per_pass and self._stalled(first):
            return "no change"
        return "max_iter" if step >= self.max_iter else ""

    def _stalled(self, first: System) -> bool:
        """Return True if no step of the last pass changed the weights much."""
        if not self.known:
            return max(self.changes[-self.per_pass :]) <= self.tol
        if first.may_rise:
            return False
        before, now = self.residuals[-1 - self.per_pass], self.residuals[-1]
        return abs(before - now) <= self.tol * before

    def error(self) -> float:
        """Return the residual of all rows: known, or the largest of the last pass."""
        if self.known:
            return min(self.residuals)
        return max(self.residuals[-self.per_pass :])

    def models(self) -> list[tuple[Array, Array]]:
        """Return the coefficients a and b of each system, of the best step."""
        pairs: zip[tuple[System, State]] = zip(self.systems, self.best, strict=True)
        return [system.coefficients(state) for system, state in pairs]


def _change(old: Array, new: Array) -> float:
    """Return ‖new − old‖ / ‖new‖."""
    xp = nx.array_namespace(new)
    size = float(xp.linalg.vector_norm(new))
    return float(xp.linalg.vector_norm(new - old)) / size if size > 0 else 0.0


def _average(
    runs: list[_Run], operator: KernelOperator, solver: str, held_out, step: int
) -> RandomizedResult:
    """Return the mean coefficients of the runs (eq. 68) and their held-out values."""
    every = [run.models() for run in runs]
    models = [_mean(list(found)) for found in zip(*every, strict=True)]
    unseen = None
    if held_out is not None:
        a, b = models[1]
        parts = [held_out[k : k + step] for k in range(0, len(held_out), step)]
        values = [block_product(operator.rows(rows), a) + b[None, :] for rows in parts]
        unseen = nx.array_namespace(a).concat(values, axis=0)
    worst = max(runs, key=lambda run: run.error())
    info = SolveInfo(
        solver,
        n_iter=max(len(run.residuals) for run in runs),
        backward_error=worst.error(),
        converged=all(r.reason in ("residual", "no change", "complete") for r in runs),
        stop=worst.reason,
        n_fallbacks=sum(run.n_fallbacks for run in runs),
    )
    solution = LSSVMSolution(*models[0], unseen, info)
    return RandomizedResult(solution, history_of([run.recorder for run in runs]))


def _mean(models: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    total_a, total_b = models[0]
    for a, b in models[1:]:
        total_a, total_b = total_a + a, total_b + b
    return total_a / len(models), total_b / len(models)
