"""Least squares of all rows on the kernel columns of representatives, by its KKT."""

import numpy as np


def solve_on_representatives(K_nm, K_mm, Y, C, sample_weight=None):
    """Minimise ½ aᵀ K_mm a + ½ C Σ s (y − K_nm a − b)²: set its gradient to zero."""
    n, m = K_nm.shape
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    A = np.c_[K_nm, np.ones(n)]
    penalty = np.zeros((m + 1, m + 1))
    penalty[:m, :m] = K_mm / C
    solution, *_ = np.linalg.lstsq(
        A.T @ (s[:, None] * A) + penalty, A.T @ (s[:, None] * Y), rcond=None
    )
    return solution[:m], solution[m]


def leave_one_out(K_nm, K_mm, Y, C, sample_weight=None):
    """Return each row's decision value by a model fitted without it."""
    n = len(K_nm)
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    values = np.empty(Y.shape)
    for i in range(n):
        without = s.copy()
        without[i] = 0
        a, b = solve_on_representatives(K_nm, K_mm, Y, C, without)
        values[i] = K_nm[i] @ a + b
    return values
