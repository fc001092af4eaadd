"""Jackknife+ and cross-conformal sets, by n refits and counting; slow and literal."""

import math

import numpy as np


def left_out_models(fit, weight):
    """Return ``fit(weights)`` for each row with its weight taken away."""
    models = []
    for i in range(len(weight)):
        without = np.array(weight, dtype=float)
        without[i] = 0
        models.append(fit(without))
    return models


def smallest(values, k):
    """Return the k-th smallest, counted from 1."""
    return np.sort(values)[k - 1]


def jackknife_plus(models, e, level):
    """Return the interval of one x; models are f⁽⁻ⁱ⁾(x), (n,)."""
    n, alpha = len(e), 1 - level
    low = smallest(models - abs(e), math.floor(round(alpha * (n + 1), 9)))
    high = smallest(models + abs(e), math.ceil(round(level * (n + 1), 9)))
    return low, high


def jackknife_minmax(models, e, level):
    width = smallest(abs(e), math.ceil(round(level * (len(e) + 1), 9)))
    return models.min() - width, models.max() + width


def jackknife(f, e, level):
    width = smallest(abs(e), math.ceil(round(level * (len(e) + 1), 9)))
    return f - width, f + width


def probabilities(decision, temperature):
    z = np.exp((decision - decision.max()) / temperature)
    return z / z.sum()


def score_of(p, j, kind):
    return 1 - p[j] if kind == "lac" else sum(q for q in p if q > p[j])


def cross_conformal_set(scores, own, level):
    """Return which classes are in the set; scores (n, k) by each model, own (n,)."""
    n, k = scores.shape
    return [
        sum(scores[i, j] > own[i] for i in range(n)) < round(level * (n + 1), 9)
        for j in range(k)
    ]
