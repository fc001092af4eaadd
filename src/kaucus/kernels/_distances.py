"""Inner products and squared distances of blocks of rows, dense or CSR.

The fast form of a squared distance,

    ‖x − y‖² = ‖x‖² + ‖y‖² − 2⟨x, y⟩,

is one matrix product, but it loses digits where the distance is small beside the
norms: two nearly equal rows far from the origin may even come out negative. Here

1. a common shift (the mean row) is taken off first, so that the norms are of the
   size of the data's spread, wherever the data lies;
2. every entry that has still lost more than half of its digits, that is
   ‖x − y‖² < √ε (‖x‖² + ‖y‖²), is computed again from the differences of the rows
   as they were given: the shift rounds, and near rows far from the mean would show it.

So each distance has a relative error of at most a small multiple of √ε, equal rows
have the distance 0, and no distance is negative.
"""

from typing import NamedTuple

import numpy as np
import scipy.spatial.distance

from kaucus.backend import (
    Array,
    array_namespace,
    astype,
    device_of,
    dtype_name,
    for_each_block,
    get_entries,
    is_numpy,
    is_sparse,
    n_workers,
    product,
    product_epsilon,
    row_blocks,
    set_entries,
    take_rows,
)

# Above this share of small distances, a float32 block is done in float64 as a whole.
_MANY = 0.02
# Elements of one chunk of differences x − y.
_CHUNK = 2**21
# Up to so many features, two more cost less than passes over the result.
_FEW_FEATURES = 256
# Denser CSR blocks are multiplied as dense ones: BLAS beats the sparse product.
_DENSE_ENOUGH = 0.02


class Rows(NamedTuple):
    """Rows made ready for a kernel; slicing gives a block of them."""

    values: Array
    """The rows, shifted or scaled as the kernel needs them, (n, d)."""
    squared_norms: Array | None
    """Squared norms of ``values`` in float64, (n,), or None."""
    given: Array | None = None
    """The rows before they were shifted, (n, d), or None where they were not."""

    def block(self, rows: slice) -> "Rows":
        """Return the rows of a slice."""
        norms, given = self.squared_norms, self.given
        return Rows(
            self.values[rows, :],
            None if norms is None else norms[rows],
            None if given is None else given[rows, :],
        )

    def taken(self, rows: Array) -> "Rows":
        """Return the rows of the given numbers."""
        norms, given = self.squared_norms, self.given
        return Rows(
            take_rows(self.values, rows),
            None if norms is None else take_rows(norms, rows),
            None if given is None else take_rows(given, rows),
        )


def squared_norms(X: Array) -> Array:
    """Return ‖x‖² of each row.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)

    Returns
    -------
    array of shape (n,)
        In float64.
    """
    if is_sparse(X):
        X = astype(X, "float64")  # before the squares are rounded
        return np.asarray(X.multiply(X).sum(axis=1)).reshape(-1)
    xp = array_namespace(X)
    bytes_per_row = 8 * max(X.shape[1], 1)
    norms = xp.empty(X.shape[0], dtype=xp.float64, device=device_of(X))

    def square(s: slice) -> None:
        norms[s] = xp.sum(astype(X[s, :], "float64") ** 2, axis=1)

    strips = list(row_blocks(X.shape[0], bytes_per_row, 8 * _CHUNK))
    for_each_block(square, strips, workers=min(n_workers(X), len(strips)))
    return norms


def mean_row(X: Array) -> Array:
    """Return the mean row of a dense ``X``, in its precision."""
    xp = array_namespace(X)
    return astype(xp.mean(X, axis=0), dtype_name(X))


def shifted_rows(X: Array, shift: Array | None) -> Rows:
    """Return ``X − shift`` with its squared norms."""
    if shift is None:
        return Rows(X, squared_norms(X))
    values = X - shift[None, :]
    return Rows(values, squared_norms(values), X)


def inner_products(X: Array, Y: Array) -> Array:
    """Return ⟨x, y⟩ for all pairs of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    Y : array or CSR matrix of shape (m, d)

    Returns
    -------
    array of shape (n, m)
        Dense, in memory of its own.
    """
    if not (is_sparse(X) or is_sparse(Y)):
        return product(X, Y)
    if _dense_enough(X) and _dense_enough(Y):
        return product(dense(X), dense(Y))
    G = X @ Y.T
    return G.toarray() if is_sparse(G) else np.asarray(G)


def _dense_enough(X: Array) -> bool:
    """Tell whether a block is dense, or a CSR block with many entries."""
    return not is_sparse(X) or X.nnz >= _DENSE_ENOUGH * X.shape[0] * X.shape[1]


def dense(X: Array) -> Array:
    """Return a CSR block as a dense one; others as they are."""
    return X.toarray() if is_sparse(X) else X


def squared_distances(X: Rows, Y: Rows) -> Array:
    """Return ‖x − y‖² for all pairs of two blocks, (n, m), in memory of its own.

    Both blocks must come from :func:`shifted_rows` with the same shift.
    """
    assert X.squared_norms is not None
    assert Y.squared_norms is not None
    dtype = dtype_name(X.values)
    x_norms = astype(X.squared_norms, dtype)[:, None]
    y_norms = astype(Y.squared_norms, dtype)[None, :]
    D = _fast_form(X.values, Y.values, x_norms, y_norms)

    share = product_epsilon(D) ** 0.5
    i, j = _entries_that_lost_digits(D, share, x_norms, y_norms)
    if dtype == "float32" and i.shape[0] > _MANY * D.shape[0] * D.shape[1]:
        wide = squared_distances(_in_float64(X), _in_float64(Y))
        return astype(wide, dtype)
    if i.shape[0]:  # every negative entry is among them
        set_entries(D, i, j, _distances_from_differences(X, Y, i, j))
    return D


def _fast_form(X: Array, Y: Array, x_norms: Array, y_norms: Array) -> Array:
    """Return ‖x‖² + ‖y‖² − 2⟨x, y⟩ as it comes out, in memory of its own.

    With few features as one product, [x, ‖x‖², 1] [−2y, 1, ‖y‖²]ᵀ: passes over the
    result would take longer than the product itself.
    """
    if X.shape[1] > _FEW_FEATURES or not (_dense_enough(X) and _dense_enough(Y)):
        D = inner_products(X, Y)
        D *= -2
        D += x_norms
        D += y_norms
        return D
    X, Y = dense(X), dense(Y)
    xp = array_namespace(X, Y)
    left = xp.concat([X, x_norms, xp.ones_like(x_norms)], axis=1)
    right = xp.concat([-2 * Y, xp.ones_like(y_norms.T), y_norms.T], axis=1)
    return left @ right.T


def _entries_that_lost_digits(D: Array, share: float, x_norms: Array, y_norms: Array):
    """Return where ‖x − y‖² ≤ share (‖x‖² + ‖y‖²): row and column numbers."""
    xp = array_namespace(D)
    # One pass for the rows that have such entries, by a bound that is not exact, then
    # theirs by it, and the few that are below it, exactly.
    bound = share * (x_norms + xp.max(y_norms))
    (rows,) = xp.nonzero(xp.min(D, axis=1) <= bound[:, 0])
    if rows.shape[0] == 0:
        return rows, rows
    i, j = xp.nonzero(take_rows(D, rows) <= take_rows(bound, rows))
    i = take_rows(rows, i)
    entries = get_entries(D, i, j)
    norms = take_rows(x_norms[:, 0], i) + take_rows(y_norms[0, :], j)
    (keep,) = xp.nonzero(entries <= share * norms)
    return take_rows(i, keep), take_rows(j, keep)


def _in_float64(rows: Rows) -> Rows:
    given = None if rows.given is None else astype(rows.given, "float64")
    return Rows(astype(rows.values, "float64"), rows.squared_norms, given)


def _distances_from_differences(X: Rows, Y: Rows, i: Array, j: Array) -> Array:
    x = X.values if X.given is None else X.given
    y = Y.values if Y.given is None else Y.given
    xp = array_namespace(x, y)
    parts = []
    for s in row_blocks(i.shape[0], max(x.shape[1], 1), _CHUNK):
        difference = dense(take_rows(x, i[s])) - dense(take_rows(y, j[s]))
        parts.append(xp.sum(difference**2, axis=1))
    return xp.concat(parts) if len(parts) > 1 else parts[0]


def manhattan_distances(X: Array, Y: Array) -> Array:
    """Return Σ |x − y| for all pairs of two blocks, (n, m)."""
    X, Y = dense(X), dense(Y)
    xp = array_namespace(X, Y)
    if is_numpy(X):
        D = scipy.spatial.distance.cdist(X, Y, "cityblock")
        return D.astype(X.dtype, copy=False)
    D = xp.zeros_like(X[:, :1] + Y[:, 0][None, :])
    for k in range(X.shape[1]):  # one feature at a time: no (n, m, d) temporary
        D += xp.abs(X[:, k][:, None] - Y[:, k][None, :])
    return D
