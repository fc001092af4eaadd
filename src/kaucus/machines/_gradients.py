"""The average outer product of gradients, and the weights of a map made of it."""

import numpy as np

from kaucus.backend import Array, row_blocks, to_numpy
from kaucus.kernels import Kernel, RowMap, metric_root

# Multiplications that gradients may take: over as many rows as these allow.
_GRADIENT_WORK = 2e10
# A full metric of more columns than this is a root of so many gradients.
_FULL_COLUMNS, _GRADIENT_ROWS = 1500, 1000


def gradient_product(
    kernel: Kernel,
    Z: Array,
    columns: Array,
    coef: Array,
    weight: Array | None,
    row_map: RowMap,
    kind: str,
) -> np.ndarray:
    """Return M = mean of Σ_j ∇f_j ∇f_jᵀ over mapped rows, in the scaled columns.

    f_j(z) = Σ_q a_qj k(z, z_q); the gradient by the scaled columns u, where z = u T, is
    that by z times Tᵀ. Over as many of the rows as their cost allows.

    Parameters
    ----------
    kernel : Kernel
    Z, columns : arrays of shape (n, r) and (m, r)
        Mapped rows, and those whose kernel columns were fitted.
    coef : array of shape (m, t)
    weight : array of shape (n,), or None
    row_map : RowMap
        By which the rows were mapped.
    kind : {"diagonal", "full"}

    Returns
    -------
    ndarray of shape (d,), (d, d), or (s, d) with M = FᵀF of more than 1,500 columns
    """
    d, (m, t) = row_map.n_features, coef.shape
    work = m * max(Z.shape[1], 1) * t
    n_rows = int(min(max(_GRADIENT_WORK / work, 200), Z.shape[0]))
    wide = kind == "full" and d > _FULL_COLUMNS
    if wide:
        n_rows = min(n_rows, max(_GRADIENT_ROWS // t, 1))
    # The columns are the first rows, at which f may be rough: take the last ones.
    Z = Z[Z.shape[0] - n_rows :, :]
    s = None if weight is None else weight[weight.shape[0] - n_rows :]
    T = row_map.weights
    total: np.ndarray | None = None
    factors = []
    for rows in row_blocks(n_rows, 8 * m, 2**26):
        share = None if s is None else to_numpy(s[rows])
        for G in kernel.gradients(Z[rows, :], columns, coef):
            G = to_numpy(G)
            G = G * T[None, :] if T.ndim == 1 else G @ T.T
            if share is not None:
                G = G * np.sqrt(share)[:, None]
            if wide:
                factors.append(G)
                continue
            part = np.sum(G * G, axis=0) if kind == "diagonal" else G.T @ G
            total = part if total is None else total + part
    norm = n_rows if s is None else float(to_numpy(s).sum())
    if wide:
        return np.concatenate(factors) / np.sqrt(norm)
    assert total is not None
    return total / max(norm, 1e-300)


def composed_weights(base: np.ndarray, M: np.ndarray, power: float) -> np.ndarray:
    """Return the weights of a map: those of the scale, and the root of the metric.

    M is in the columns before the base weights: G = ∂f/∂u, and v = u base has the
    gradient G / base.
    """
    used = np.where(base != 0, base, np.inf)
    if M.ndim == 1:
        return base * metric_root(M / used**2, power)
    if M.shape[0] != M.shape[1] or M.shape[0] != len(base):
        return base[:, None] * _factor_root(M / used[None, :], power)
    root = metric_root(M / used[:, None] / used[None, :], power)
    return base[:, None] * root


def _factor_root(F: np.ndarray, power: float) -> np.ndarray:
    """Return T of (FᵀF)ᵖ = T Tᵀ, scaled to the trace d: of low rank."""
    _, singular, Vt = np.linalg.svd(F, full_matrices=False)
    squares = singular**2 * (F.shape[1] / max(np.sum(singular**2), 1e-300))
    kept = squares > 1e-8 * squares[0]
    return Vt[kept].T * squares[kept] ** (power / 2)
