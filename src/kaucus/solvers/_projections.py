"""Solvers by the pseudo-inverse of a block of rows: those of Andrecut (2016).

Rows Θ_s = E of the system (``_systems``) are inverted through their Gram matrix,

    E† = Eᵀ (E Eᵀ)⁻¹                                    (Andrecut 2016, eq. 40).

It is scaled to a unit diagonal, which is the paper's standardisation of the rows (eq.
36-37): in exact arithmetic it changes nothing, in floating point it keeps digits. It is
factored by Cholesky; where it is singular to working precision (rows that repeat each
other, weights of zero), its eigenvalues tell its rank, and those below the cutoff are
left out. That is slower, and is counted.

A step takes n J² multiplications for the Gram matrix, J³/3 for its factor, and 2 n J t
(nystrom: 3 n J t) for the rest.
"""

from typing import NamedTuple

from kaucus.backend import (
    Array,
    add_to_rows,
    array_namespace,
    astype,
    cho_solve,
    cholesky,
    diagonal,
    eigh,
    epsilon,
    take_rows,
)
from kaucus.solvers._systems import (
    Block,
    State,
    StepResult,
    System,
    block_gram,
    block_product,
    known_as,
    relative_norm,
    transposed_product,
)


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
        W = array_namespace(self.right).zeros_like(self.right)
        return {"W": W, "members": W[:1, 0]}

    def step(self, block: Block, state: State) -> StepResult:
        """Add a member to the committee."""
        Z, E, W, members = self.right, block.E, state["W"], state["members"]
        Z_s = take_rows(Z, block.rows)
        R_s = Z_s - block_product(E, W)
        inverse = invert_gram(block_gram(E))
        corner = array_namespace(E).take(E, block.rows, axis=1)  # Θ_(J,J)
        inner = astype(corner, "float64") @ inverse(block_product(E, Z))
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
        W, Z_s = state["W"], take_rows(self.right, block.rows)
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
        W, R = add_to_rows(W, block.rows, Q), R - transposed_product(block.E, Q)
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
        Delta = transposed_product(block.E, inverse(take_rows(R, block.rows)))
        moved = self.theta(Delta)  # (n + 1, t)
        length = _best_length(R, moved) if self.setting.safeguard else 1.0
        return self.pursue(block, inverse, W + length * Delta, R - length * moved)


def _best_length(R: Array, moved: Array) -> Array:
    """Return ℓ that minimises ‖R − ℓ moved‖, for each column, (t,)."""
    xp = array_namespace(R)
    squares = xp.sum(moved * moved, axis=0)
    safe = xp.where(squares > 0, squares, xp.ones_like(squares))
    return xp.sum(R * moved, axis=0) / safe


# ---- the pseudo-inverse --------------------------------------------------------------


class GramInverse(NamedTuple):
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
    xp = array_namespace(G)
    norms = xp.sqrt(xp.clip(diagonal(G), min=0.0))
    safe = xp.where(norms > 0, norms, xp.ones_like(norms))
    scale = xp.where(norms > 0, 1 / safe, xp.zeros_like(norms))
    scaled = G * scale[None, :] * scale[:, None]
    # Below this an eigenvalue of a matrix with unit diagonal is rounding.
    cutoff = G.shape[0] * epsilon(G)
    L = cholesky(scaled)
    if L is not None and float(xp.min(diagonal(L))) ** 2 > cutoff:
        return GramInverse(scale, L, None)
    values, U = eigh(scaled)
    large = values > cutoff * float(xp.max(values))
    ones = xp.ones_like(values)
    inverse = xp.where(large, 1 / xp.where(large, values, ones), 0 * ones)
    return GramInverse(scale, None, (inverse, U))
