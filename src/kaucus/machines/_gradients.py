"""The average outer product of gradients, and the weights of a map made of it."""

import numpy as np

from kaucus.backend import (
    Array,
    is_numpy,
    reduce_blocks,
    row_blocks,
    to_numpy,
)
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
    *,
    workers: int = 1,
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
    workers : int, default=1
        Threads over blocks of rows.

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

    def of_rows(rows: slice) -> np.ndarray:
        share = None if s is None else np.sqrt(to_numpy(s[rows]))[:, None]
        found = [
            _mapped_back(to_numpy(G), T, share)
            for G in kernel.gradients(Z[rows, :], columns, coef)
        ]
        if wide:
            return np.concatenate(found)
        return sum(
            np.sum(G * G, axis=0) if kind == "diagonal" else G.T @ G for G in found
        )

    # Blocks that stay in a core's cache: what is not a product is bound by memory.
    blocks = row_blocks(n_rows, 8 * m, 2**22 if is_numpy(Z) else 2**28)
    join = (lambda F, G: np.concatenate([F, G])) if wide else np.add
    total = reduce_blocks(of_rows, blocks, join, workers=workers)
    norm = max(n_rows if s is None else float(to_numpy(s).sum()), 1e-300)
    return total / (np.sqrt(norm) if wide else norm)


def _mapped_back(G: np.ndarray, T: np.ndarray, share: np.ndarray | None) -> np.ndarray:
    """Return gradients by the columns before the map with weights T, times a share."""
    G = G * T[None, :] if T.ndim == 1 else G @ T.T
    return G if share is None else G * share


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
