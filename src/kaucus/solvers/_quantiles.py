"""Quantiles on the kernel columns of representatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import few_threads_for, resolve_budget, row_blocks
from kaucus._array.linalg import CholeskyFactor, cho_solve
from kaucus._array.namespace import Array
from kaucus.solvers._columns import (
    NormalEquations,
    RowData,
    block_height,
    factor_equations,
)
from kaucus.solvers._system import LSSVMSolution, SolveInfo

# ----------------------------------------------------------------------------------
# Quantile regression by the factor of least squares.
#
#     min  ½ aᵀ K_mm a + D Σ_i s_i ρ_τ(r_i),    r = y − f,    f = K_nm a + b,
#
# with the pinball loss ρ_τ(r) = max(τ r, (τ − 1) r), for several τ at once. By
# alternating directions (S. Boyd et al., "Distributed optimization and statistical
# learning via the alternating direction method of multipliers", 2011, Sec. 3.1.1 and
# 3.4.3), with u the multipliers over ρ s_i:
#
#     f  by least squares of y − r − u with C = ρ
#     f̂  = α f + (1 − α)(y − r)
#     r  = v − clip(v, κ (τ − 1), κ τ)    with v = y − f̂ − u,    κ = D / ρ
#     u  = u + r − (y − f̂)
#
# The factor of the least squares is the same in every step and for every τ: all of it
# costs one system of normal equations and two products with K_nm a step. κ of eight
# mean residuals took 60 to 120 steps on developing tables, one mean residual 90 to
# 370.
#
# D = 2 C times the mean |r| of the least squares fit with C: so rows pull on the median
# as hard as there, and a factor of y is one of the result.
# ----------------------------------------------------------------------------------

_RELAXED, _WIDTH = 1.7, 8.0


def mean_residual(values: Array, y: Array, sample_weight: Array | None) -> float:
    """Return Σ s |y − f| / Σ s of one target, (n, 1)."""
    xp = nx.array_namespace(y)
    r = xp.abs(y - values)[:, 0]
    if sample_weight is None:
        return float(xp.mean(r))
    return float(xp.sum(sample_weight * r) / xp.sum(sample_weight))


def rows_that_fit(m: int, memory_budget: int | str | None, like: Array) -> int:
    """Return of how many rows the columns of m representatives can be kept."""
    return max(resolve_budget(memory_budget, like) // 4 // (8 * m), 1)


def solve_quantiles(
    data: RowData,
    Z: Array,
    levels: Sequence[float],
    *,
    start: LSSVMSolution,
    C: float,
    tol: float = 1e-3,
    max_iter: int = 1000,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LSSVMSolution:
    """Fit f_τ(x) = Σ_q a_q k(x, z_q) + b for each level τ.

    Parameters
    ----------
    data : RowData
        Rows whose columns can be kept, see :func:`rows_that_fit`; one target, positive
        weights.
    Z : array of shape (m, d)
    levels : sequence of float
        τ, t of them.
    start : LSSVMSolution
        The least squares with this C.
    C : float
    tol : float, default=1e-3
        Both residuals of the iteration, as shares of the mean residual of ``start``.
    callback : callable, default=None
        ``callback(step, residual)`` after each step.

    Returns
    -------
    LSSVMSolution
        ``dual_coef`` is (m, t), ``intercept`` (t,).
    """
    Z, Y = nx.astype(Z, "float64"), nx.astype(data.Y, "float64")
    data, budget = data._replace(Y=Y), resolve_budget(memory_budget, Y)
    height = block_height(data.within(budget), budget, Z)
    with few_threads_for(max(data.X.shape[0], Z.shape[0])):
        K_mm = data.kernel(Z)
        shift = nx.array_namespace(Y).mean(K_mm, axis=0)  # k₀
        K = _columns(data, Z, shift, height)
        coef = nx.astype(start.dual_coef, "float64")
        f = K @ coef + (nx.astype(start.intercept, "float64") + shift @ coef)[None, :]
        size = mean_residual(f, Y, data.sample_weight)
        if not size > 0:  # every row is on the function
            return _repeated(start, len(levels))
        # κ = D / ρ = 8 size and D = 2 C size.
        system = _System.of(data, K, K_mm, 2 * C / _WIDTH, height)
        found = _alternate(system, Y, Y - f, size, levels, tol, max_iter, callback)
    a, b, step, converged = found
    info = SolveInfo(
        "quantiles",
        n_iter=step,
        jitter=system.factor.jitter,
        relative_jitter=system.relative_jitter,
        converged=converged,
        stop="residual" if converged else "max_iter",
    )
    return LSSVMSolution(a, b - shift @ a, None, info)


def _repeated(start: LSSVMSolution, t: int) -> LSSVMSolution:
    """Return the least squares as each of t functions."""
    xp = nx.array_namespace(start.dual_coef)
    coef = xp.concat([start.dual_coef] * t, axis=1)
    b = xp.concat([start.intercept] * t)
    return LSSVMSolution(coef, b, None, SolveInfo("quantiles"))


@dataclass(frozen=True, eq=False)
class _System:
    """Least squares of any targets on the columns, factored."""

    K: Array
    """K_nm less k₀, (n, m)."""
    factor: CholeskyFactor
    relative_jitter: float
    mean: Array
    """Of the rows of K, weighted, (m,)."""
    weight: Array | None
    """(n, 1)."""
    total: float

    @classmethod
    def of(cls, data: RowData, K: Array, K_mm: Array, rho: float, height: int):
        """Return the system with C = ρ."""
        equations, s = NormalEquations.zeros(K.shape[1], data.Y), data.sample_weight
        for rows in row_blocks(K.shape[0], 1, height):
            roots = 1.0 if s is None else data.roots(rows)
            equations.add(K[rows, :] * roots, data.targets(rows))
        total = equations.weight
        factor, relative, _, mean = factor_equations(
            equations, K_mm, rho, nx.epsilon(K)
        )
        s = None if s is None else nx.astype(s, "float64")[:, None]
        return cls(K, factor, relative, mean, s, total)

    def solve(self, T: Array) -> tuple[Array, Array]:
        """Return a, (m, t), and b, (t,), of targets (n, t)."""
        weighted = T if self.weight is None else self.weight * T
        sums = nx.array_namespace(T).sum(weighted, axis=0)
        right = self.K.T @ weighted - self.mean[:, None] @ sums[None, :]
        a = cho_solve(self.factor.L, right)
        return a, sums / self.total - self.mean @ a

    def largest_mean(self, gaps: Array) -> float:
        """Return the largest of the weighted means of columns, (n, t)."""
        xp = nx.array_namespace(gaps)
        weighted = gaps if self.weight is None else self.weight * gaps
        return float(xp.max(xp.sum(weighted, axis=0))) / self.total


def _alternate(system: _System, Y, r, size, levels, tol, max_iter, callback):
    """Return a, b, the number of steps, and whether they came to rest."""
    xp, place = nx.array_namespace(Y), {"device": nx.device_of(Y)}
    tau = xp.asarray(list(levels), dtype=xp.float64, **place)[None, :]
    low, high = _WIDTH * size * (tau - 1), _WIDTH * size * tau
    r = r + xp.zeros((1, len(levels)), dtype=xp.float64, **place)
    u, step, residual = xp.zeros_like(r), 0, np.inf
    while step < max_iter and residual > tol:
        step += 1
        a, b = system.solve(Y - r - u)
        miss = Y - (system.K @ a + b[None, :])  # y − f
        relaxed = _RELAXED * miss + (1 - _RELAXED) * r
        v = relaxed - u
        new = v - xp.clip(v, low, high)
        u = u + new - relaxed
        gaps = (system.largest_mean(xp.abs(new - old)) for old in (miss, r))
        residual, r = max(gaps) / size, new
        if callback is not None:
            callback(step, residual)
    return a, b, step, residual <= tol


def _columns(data: RowData, Z: Array, shift: Array, height: int) -> Array:
    """Return K − k₀ of all rows, (n, m), in float64."""
    plain = data._replace(sample_weight=None)
    parts = [
        plain.columns(data.X[rows, :], rows, Z, shift)
        for rows in row_blocks(data.X.shape[0], 1, height)
    ]
    return nx.joined(parts)
