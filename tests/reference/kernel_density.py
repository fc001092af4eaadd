"""A kernel density of representatives, point by point."""

import math


def log_density(x, points, weights, gamma):
    """Return log Σ_q w_q exp(−γ ‖x − z_q‖) of one row."""
    terms = [
        w * math.exp(-gamma * math.dist(x, z))
        for z, w in zip(points, weights, strict=True)
    ]
    return math.log(math.fsum(terms))
