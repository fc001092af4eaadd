"""Per-row weights as a symmetric scaling of the LS-SVM system.

With weights sᵢ the primal problem

    min ½‖w‖² + ½ C Σᵢ sᵢ εᵢ²     with  ⟨φ(xᵢ), w⟩ + b + εᵢ = yᵢ

leads to K + diag(1 / (C sᵢ)), which is infinite at a weight of zero. With the
substitution a = S^½ ã it becomes

    [ 0   uᵀ ] [ b ]   [    0   ]
    [ u   H  ] [ ã ] = [ S^½ Y  ],    H = S^½ K S^½ + I/C,   u = S^½ 1,

which is as well conditioned as the unweighted system, and in which a row of weight
zero gets the coefficient zero and changes nothing else.

Eliminating the intercept: with H η = u and H ν = S^½ Y,

    b = uᵀν / uᵀη,    ã = ν − η b.

Leave-one-out (G. C. Cawley, IJCNN 2006): with g_i = (H⁻¹)_ii − η_i² / uᵀη, the
diagonal of the bordered inverse, the model fitted without row i errs at x_i by

    y_i − f⁽⁻ⁱ⁾(x_i) = ã_i / (√s_i g_i).

The whole row is left out, whatever its weight: sᵢ is a precision, not a number of rows.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    take_rows,
    to_numpy,
)


class ScaledTargets(NamedTuple):
    """u = S^½ 1 and S^½ Y, in float64."""

    root: Array | None
    """√s, (n,), or None for equal weights."""
    u: Array
    """(n, 1)."""
    Y: Array
    """(n, t)."""


def scale_targets(Y: Array, sample_weight: Array | None) -> ScaledTargets:
    """Scale targets by the square roots of the weights."""
    xp = array_namespace(Y)
    Y = astype(Y, "float64")
    if sample_weight is None:
        u = xp.ones((Y.shape[0], 1), dtype=xp.float64, device=device_of(Y))
        return ScaledTargets(None, u, Y)
    root = xp.sqrt(astype(sample_weight, "float64"))
    return ScaledTargets(root, root[:, None], root[:, None] * Y)


def scale_problems(
    Y: Array, sample_weight: Array | None, held_out: Array | None
) -> list[ScaledTargets]:
    """Return the targets of the model, and those of a model without held-out rows.

    The second has the weight 0 for these rows; there is none for ``held_out=None``.
    """
    problems = [scale_targets(Y, sample_weight)]
    if held_out is not None:
        weight = np.ones(Y.shape[0])
        weight[to_numpy(held_out)] = 0.0
        without = as_like(weight, Y)
        if sample_weight is not None:
            without = without * astype(sample_weight, "float64")
        problems.append(scale_targets(Y, without))
    return problems


def scale_matrix(K: Array, root: Array | None, *, overwrite: bool = False) -> Array:
    """Return S^½ K S^½ in memory of its own, or in that of ``K`` on request."""
    xp = array_namespace(K)
    if root is None:
        return K if overwrite else xp.asarray(K, copy=True)
    r = astype(root, dtype_name(K))
    if not overwrite:
        K = K * r[None, :]
    else:
        K *= r[None, :]
    K *= r[:, None]
    return K


class Eliminated(NamedTuple):
    """Coefficients after the intercept has been eliminated."""

    dual_coef: Array
    intercept: Array
    scaled_coef: Array
    """ã, (n, t)."""


def eliminate_intercept(targets: ScaledTargets, eta: Array, nu: Array) -> Eliminated:
    """Return a and b from the solutions of H η = u and H ν = S^½ Y."""
    xp = array_namespace(eta, nu)
    b = (xp.sum(targets.u * nu, axis=0)) / xp.sum(targets.u * eta)  # (t,)
    scaled = nu - eta * b[None, :]
    dual = scaled if targets.root is None else scaled * targets.root[:, None]
    return Eliminated(dual, b, scaled)


def loo_residuals(
    coef: Eliminated,
    inverse_diagonal: Array,
    eta: Array,
    targets: ScaledTargets,
    *,
    rows: Array | None = None,
) -> Array:
    """Return y_i − f⁽⁻ⁱ⁾(x_i) for some rows, (m, t); NaN at a weight of zero.

    Parameters
    ----------
    coef : Eliminated
    inverse_diagonal : array of shape (m,)
        (H⁻¹)_ii of those rows.
    eta : array of shape (n, 1)
    targets : ScaledTargets
    rows : integer array of shape (m,), default=None
        None means all.
    """
    xp = array_namespace(eta)

    def pick(values: Array) -> Array:
        return values if rows is None else take_rows(values, rows)

    g = inverse_diagonal - pick(eta)[:, 0] ** 2 / xp.sum(targets.u * eta)
    if targets.root is not None:
        root = pick(targets.root)
        g = g * xp.where(root > 0, root, xp.full_like(root, float("nan")))
    return pick(coef.scaled_coef) / g[:, None]
