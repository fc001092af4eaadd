"""Blocks of rows of the bordered LS-SVM matrix Θ, and products with them.

    Θ = [ 0   uᵀ ]        Θ W = Z,    W = [ b ]    Z = [   0   ]
        [ u   H  ],                       [ ã ],       [ S^½ Y ],

H = S^½ K S^½ + I/C and u = S^½ 1 (Andrecut 2016, eq. 16-19 with γ = C; ``_scaling`` has
the weights). Θ is symmetric: a block of its rows is a block of its columns.

Every block that is drawn here has the row of the intercept in it. The paper draws that
row like any other, once in a pass; beside thousands of rows it costs nothing, and
1ᵀa = 0 holds, or is fitted, from the first step on.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    add_gram,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    get_entries,
    is_torch,
    map_blocks,
    mirror_lower,
    n_workers,
    on_gpu,
    reduce_blocks,
    row_blocks,
    set_entries,
    take_rows,
    zero_gram,
)
from kaucus.kernels import KernelOperator
from kaucus.solvers._scaling import ScaledTargets

# Bytes of one float64 piece of a block: in cache for products with few columns, larger
# for a Gram matrix, which is added to for every piece. On a GPU, and in float64 where
# nothing is copied, as large as there is room for.
_PRODUCT_BYTES = 4 * 2**20
_GRAM_BYTES = 32 * 2**20
_WHOLE_BYTES = 2**32
# Entries of a line of memory on a GPU.
_LINE = 16


class Block(NamedTuple):
    """Some rows of Θ, the first of them that of the intercept."""

    rows: Array
    """Their numbers in W and Z, (j + 1,)."""
    E: Array
    """Θ[rows, :], (j + 1, n + 1), in the precision of the kernel."""


def bordered(targets: ScaledTargets) -> Array:
    """Return Z = [0; S^½ Y], (n + 1, t), in float64 (eq. 19)."""
    xp = array_namespace(targets.Y)
    return xp.concat([xp.zeros_like(targets.Y[:1, :]), targets.Y], axis=0)


def draw_block(operator: KernelOperator, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return an array (j + 1, n + 1) with K[rows, :] in it, and the order of the rows.

    The first row and the first column are left for the border of Θ.
    """
    # Rows of a tensor begin at whole lines of memory: products are faster by a third.
    width = operator.shape[1] + 1
    padded = -(-width // _LINE) * _LINE if on_gpu(operator.empty((0, 0))) else width
    E = operator.empty((len(rows) + 1, padded))[:, :width]
    return E, rows[operator.fill_rows(E[1:, 1:], rows)]


def theta_block(
    E: Array, rows: np.ndarray, targets: ScaledTargets, C: float, *, overwrite: bool
) -> Block:
    """Turn what :func:`draw_block` gives into rows of Θ."""
    xp = array_namespace(E)
    index = as_like(rows, E)
    u = astype(targets.u[:, 0], dtype_name(E))  # (n,)
    E = E if overwrite else xp.asarray(E, copy=True)
    if targets.root is not None:
        E[1:, 1:] *= u[None, :]
        E[1:, 1:] *= take_rows(u, index)[:, None]
    E[0, 0] = 0.0
    E[0, 1:] = u
    E[1:, 0] = take_rows(u, index)
    i = xp.arange(len(rows), dtype=index.dtype, device=device_of(E)) + 1
    on_diagonal = get_entries(E, i, index + 1)
    set_entries(E, i, index + 1, on_diagonal + 1 / C)
    zero = xp.zeros(1, dtype=index.dtype, device=device_of(E))
    return Block(xp.concat([zero, index + 1]), E)


def _chunks(E: Array, n_bytes: int) -> list[slice]:
    """Return slices of columns in which a float64 copy of ``E`` stays small."""
    if dtype_name(E) == "float64" or on_gpu(E):
        n_bytes = _WHOLE_BYTES
    return list(row_blocks(E.shape[1], 8 * E.shape[0], n_bytes))


def block_product(E: Array, V: Array) -> Array:
    """Return E V in float64, (j + 1, t), for ``V`` of shape (n + 1, t)."""
    return reduce_blocks(
        lambda s: astype(E[:, s], "float64") @ V[s, :],
        _chunks(E, _PRODUCT_BYTES),
        lambda a, b: a + b,
        workers=n_workers(E),
    )


def transposed_product(E: Array, Q: Array) -> Array:
    """Return Eᵀ Q in float64, (n + 1, t), for ``Q`` of shape (j + 1, t)."""
    xp = array_namespace(E)
    parts = map_blocks(
        lambda s: astype(E[:, s], "float64").T @ Q,
        _chunks(E, _PRODUCT_BYTES),
        workers=n_workers(E),
    )
    return xp.concat(list(parts), axis=0)


def block_gram(E: Array) -> Array:
    """Return E Eᵀ in float64, (j + 1, j + 1).

    In float64 whatever the precision of E: it squares the condition of the block.
    """
    if is_torch(E):  # half of the product, where it costs more than the mirror image
        return mirror_lower(add_gram(zero_gram(E.shape[0], E), E.T))
    xp = array_namespace(E)
    G = xp.zeros((E.shape[0], E.shape[0]), dtype=xp.float64, device=device_of(E))
    # Pieces also where nothing is copied: Ctrl-C need not wait for the whole product.
    whole = _WHOLE_BYTES if on_gpu(E) else _GRAM_BYTES
    for s in row_blocks(E.shape[1], 8 * E.shape[0], whole):
        piece = astype(E[:, s], "float64")
        G += piece @ piece.T
    return G


def theta_product(
    operator: KernelOperator, targets: ScaledTargets, C: float, W: Array
) -> Array:
    """Return Θ W, (n + 1, t), in float64: a product with all of K."""
    xp = array_namespace(W)
    a = W[1:, :]
    top = xp.sum(targets.u * a, axis=0)[None, :]
    lower = h_product(operator, targets, C, a) + targets.u * W[:1, :]
    return xp.concat([top, lower], axis=0)


def h_product(
    operator: KernelOperator, targets: ScaledTargets, C: float, a: Array
) -> Array:
    """Return H a = (S^½ K S^½ + I/C) a, (n, t), in float64."""
    return targets.u * operator.matmul(targets.u * a) + a / C
