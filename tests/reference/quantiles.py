"""Quantiles on the columns of representatives by a general solver, one level at a time.

    min  ½ aᵀ K a + D Σ s ρ_τ(y − F a − b)

As a quadratic program in (a, b, r⁺, r⁻) for SLSQP it is slow beyond a few dozen rows;
without the quadratic term it is the linear program of Koenker and Bassett (1978).
"""

import numpy as np
from scipy.optimize import linprog, minimize


def pinball(r, level):
    return np.maximum(level * r, (level - 1) * r)


def objective(K, F, y, s, D, level, a, b):
    """Return what is minimised, at given coefficients."""
    return 0.5 * a @ K @ a + D * np.sum(s * pinball(y - F @ a - b, level))


def quantile_coefficients(K, F, y, s, D, level):
    """Return a, (m,), and b by SLSQP on the smooth form with slacks."""
    n, m = F.shape

    def split(v):
        return v[:m], v[m], v[m + 1 : m + 1 + n], v[m + 1 + n :]

    def value(v):
        a, _, up, down = split(v)
        return 0.5 * a @ K @ a + D * np.sum(s * (level * up + (1 - level) * down))

    def slope(v):
        a = v[:m]
        ends = D * s * level, D * s * (1 - level)
        return np.concatenate([K @ a, [0.0], *ends])

    A = np.hstack([F, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    r = y - np.median(y)
    start = np.concatenate(
        [np.zeros(m), [np.median(y)], np.maximum(r, 0), np.maximum(-r, 0)]
    )
    bounds = [(None, None)] * (m + 1) + [(0, None)] * (2 * n)
    found = minimize(
        value,
        start,
        jac=slope,
        bounds=bounds,
        constraints={"type": "eq", "fun": lambda v: A @ v - y, "jac": lambda v: A},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    return found.x[:m], found.x[m]


def loss_of_linear_program(F, y, s, level):
    """Return the least Σ s ρ_τ of any a and b: the limit of large D."""
    n, m = F.shape
    cost = np.concatenate([np.zeros(m + 1), level * s, (1 - level) * s])
    A = np.hstack([F, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * (m + 1) + [(0, None)] * (2 * n)
    return linprog(cost, A_eq=A, b_eq=y, bounds=bounds).fun
