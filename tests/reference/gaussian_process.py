"""The Gaussian process of a few representatives, with matrices of all rows."""

import numpy as np
from scipy.stats import multivariate_normal


def log_evidence(y, K_nm, K_mm, weight, C):
    """Return max over b, s² of log N(y | b, s² (K_nm K_mm⁺ K_mn + S⁻¹/C))."""
    H = K_nm @ np.linalg.pinv(K_mm, rcond=1e-12) @ K_nm.T + np.diag(1 / (C * weight))
    n, ones = len(y), np.ones(len(y))
    b = (ones @ np.linalg.solve(H, y)) / (ones @ np.linalg.solve(H, ones))
    scale = (y - b) @ np.linalg.solve(H, y - b) / n
    return multivariate_normal(np.full(n, b), scale * H).logpdf(y)
