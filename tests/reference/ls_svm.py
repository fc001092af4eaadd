"""The least-squares SVM by its bordered system, and leave-one-out by refitting."""

from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    dual_coef: np.ndarray
    intercept: np.ndarray


def solve_bordered(K, Y, C, sample_weight=None):
    """Solve [0, 1ᵀ; 1, K + diag(1 / (C s))] [b; A] = [0; Y].

    A row of weight zero has an infinite entry on the diagonal: it is left out of the
    system, and its coefficient is zero.
    """
    K, Y = np.asarray(K, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    n = len(K)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    used = np.flatnonzero(weight > 0)
    m = len(used)
    system = np.zeros((m + 1, m + 1))
    system[0, 1:] = system[1:, 0] = 1
    system[1:, 1:] = K[np.ix_(used, used)] + np.diag(1 / (C * weight[used]))
    right = np.concatenate([np.zeros((1, Y.shape[1])), Y[used]])
    solution = np.linalg.solve(system, right)
    dual_coef = np.zeros((n, Y.shape[1]))
    dual_coef[used] = solution[1:]
    return Model(dual_coef, solution[0])


def decide(K, model):
    """Return the decision values K a + b."""
    return np.asarray(K, dtype=np.float64) @ model.dual_coef + model.intercept


def leave_one_out(K, Y, C, sample_weight=None):
    """Return for each row the decision value of a model fitted without it."""
    n = len(K)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    values = np.empty(Y.shape)
    for i in range(n):
        without = weight.copy()
        without[i] = 0
        values[i] = decide(K[i : i + 1], solve_bordered(K, Y, C, without))[0]
    return values


def kkt_residual(K, Y, C, model, sample_weight=None):
    """Return the largest violation of Σ a = 0 and s (y − K a − b) = a / C."""
    n = len(K)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    slack = Y - decide(K, model)
    return max(
        np.max(np.abs(np.sum(model.dual_coef, axis=0))),
        np.max(np.abs(weight[:, None] * slack - model.dual_coef / C)),
    )
