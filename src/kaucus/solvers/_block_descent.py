"""Accelerated block descent on the positive definite system, preconditioned by blocks.

For H X = B, several right-hand sides at once, with a random block s of J rows in each
step (ASkotch: P. Rathore, Z. Frangella, J. Yang, M. Dereziński, M. Udell,
arXiv:2407.10070):

    z = α v + (1 − α) w
    d = P⁻¹ (B − H z)_s / ℓ,      P ≈ H_ss
    w ← z + I_s d
    v ← β v + (1 − β) z + γ I_s d

with β = 1 − √(μ/ν), γ = 1/√(μν), α = 1/(1 + γν), ν = n/J. P is H_ss itself where its
factor is cheap, ℓ = 1, and for larger blocks a Nyström approximation F Fᵀ + ρ I of it
with damping ρ, ℓ being the largest eigenvalue of P⁻¹ H_ss by a few power steps.

Two things are ours. The residuals of w and v are carried along: they take part in the
same recurrences, and H I_s d is one product with the block, which is there already; so
a step costs n J t beside the kernel, the gradient costs nothing, and the residual of
all rows is known in every step. And v is set back to w where the quadratic function
½ wᵀHw − bᵀw rises, which makes a wrong guess of μ harmless.

The intercept is eliminated: B = [u, S^½ Y], see ``_scaling``.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    add_to_rows,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    cholesky_with_jitter,
    diagonal,
    random_normal,
    take_rows,
)
from kaucus.representatives import pivoted_factor
from kaucus.solvers._cg import low_rank_inverse
from kaucus.solvers._scaling import eliminate_intercept
from kaucus.solvers._systems import (
    Block,
    State,
    StepResult,
    System,
    h_product,
    known_as,
    relative_norm,
    transposed_product,
)

# Up to so many rows a block is factored as it is.
_EXACT_ROWS = 4096
_POWER_STEPS = 10


class Acceleration(NamedTuple):
    """The numbers α, β, γ of the recurrences."""

    alpha: float
    beta: float
    gamma: float


def acceleration(n: int, block_size: int, mu: float) -> Acceleration:
    """Return α, β, γ for a guess of μ, the rate of descent of one step."""
    nu = n / block_size
    mu = min(mu, 1 / nu)
    gamma = (mu * nu) ** -0.5
    return Acceleration(1 / (1 + gamma * nu), 1 - (mu / nu) ** 0.5, gamma)


@known_as("block_descent")
class BlockDescent(System):
    """H X = [u, S^½ Y − u b₀], with b₀ the intercept of the start, by block descent.

    A step takes n J t multiplications beside the block; J³/3 for its factor, or J r²
    with r columns.
    """

    may_rise = True

    def right_side(self) -> Array:
        """Return B = [u, S^½ Y − u b₀], (n, 1 + t)."""
        xp, Y = array_namespace(self.targets.Y), self.targets.Y
        self.b0 = xp.zeros_like(Y[0, :])
        if self.first is not None:
            self.b0 = astype(self.first.intercept, "float64")
        u = self.targets.u
        self.moved = self.targets._replace(Y=Y - u * self.b0[None, :])
        n, J = Y.shape[0], self.setting.block_size
        # Measured at J/n from 1/5 to 1/20: a guess of half the largest possible rate.
        self.speed = acceleration(n, J, 0.5 * J / n)
        return xp.concat([u, self.moved.Y], axis=1)

    def begin(self) -> State:
        """Return the state before the first step, with R = B − H W."""
        xp, B, u = array_namespace(self.right), self.right, self.targets.u
        W, R = xp.zeros_like(B), B
        if self.first is not None:
            a = self.scaled_start(self.first)
            H_a = h_product(self.operator, self.targets, self.setting.C, a)
            W = xp.concat([xp.zeros_like(u), a], axis=1)
            R = B - xp.concat([xp.zeros_like(u), H_a], axis=1)
        return {"W": W, "R": R, "V": W, "RV": R}

    def step(self, block: Block, state: State) -> StepResult:
        """Take one step on the rows of the block."""
        xp, B = array_namespace(self.right), self.right
        E, rows = block.E[1:, 1:], block.rows[1:] - 1
        alpha, beta, gamma = self.speed
        W, R, V, RV = (state[key] for key in ("W", "R", "V", "RV"))
        Z, RZ = alpha * V + (1 - alpha) * W, alpha * RV + (1 - alpha) * R
        H = astype(xp.take(E, rows, axis=1), "float64")
        d = block_inverse(H, self.setting.C, self.setting.rng)(take_rows(RZ, rows))
        Hd = transposed_product(E, d)
        W_new, R_new = add_to_rows(Z, rows, d), RZ - Hd
        V = add_to_rows(beta * V + (1 - beta) * Z, rows, gamma * d)
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
    xp = array_namespace(W)
    u, eta, nu = B[:, :1], W[:, :1], W[:, 1:]
    b = xp.sum(u * nu, axis=0) / xp.sum(u * eta)
    return relative_norm(R[:, 1:] - R[:, :1] * b[None, :], Y)


def _energy(W: Array, R: Array, B: Array) -> float:
    """Return Σ_j ½ wᵀHw − bᵀw = −½ Σ_j wᵀ(b + r), each over ‖b‖²."""
    xp = array_namespace(W)
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
    xp = array_namespace(H)
    K_diagonal = xp.clip(diagonal(H) - 1 / C, min=0.0)
    numbers = as_like(np.arange(H.shape[0]), H)

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
