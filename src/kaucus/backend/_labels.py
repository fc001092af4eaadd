"""Labels of rows: the best of many scores, and counts and sums of those that share one.

As in ``_linalg``: a torch version where tensors come in, a NumPy or SciPy version, and
a portable one from the standard alone.
"""

import numpy as np
import scipy.sparse

from kaucus.backend._blocks import row_blocks
from kaucus.backend._namespace import (
    Array,
    array_namespace,
    device_of,
    epsilon,
    is_cupy,
    is_numpy,
    is_sparse,
    is_torch,
    take_rows,
    torch_versions,
)
from kaucus.backend._precision import product, product_epsilon, products_in

# Entries of the matrix that tells which row has which label, at a time.
_MEMBERS = 2**24


def rough_error(x: Array) -> float:
    """Return a bound on the error of :func:`rough_inner_products` over ‖x‖ ‖y‖.

    0 where there is no faster product than the exact one.
    """
    with products_in("tf32"):
        of_a_factor = product_epsilon(x)
    return 2 * of_a_factor if of_a_factor > epsilon(x) else 0.0


def rough_inner_products(X: Array, Y: Array) -> Array:
    """Return ⟨x, y⟩ for all pairs of rows, (n, m), as fast as the device can.

    Each is off by at most ``rough_error(X) ‖x‖ ‖y‖``, beside the rounding of ``X``.
    """
    with products_in("tf32"):
        return product(X, Y)


def best_two(scores: Array) -> tuple[Array, Array, Array]:
    """Return of each row the largest entry, its column, and the second largest.

    ``scores``, (n, k), may be overwritten. With one column the second is minus
    infinity.
    """
    if is_torch(scores):
        return torch_versions().best_two(scores)
    xp = array_namespace(scores)
    labels = xp.argmax(scores, axis=1)
    best = xp.max(scores, axis=1)
    ids = xp.arange(scores.shape[1], dtype=labels.dtype, device=device_of(scores))
    lowest = xp.full_like(scores[:1, :1], -xp.inf)
    rest = xp.where(labels[:, None] == ids[None, :], lowest, scores)
    return best, labels, xp.max(rest, axis=1)


def best_one(scores: Array) -> tuple[Array, Array]:
    """Return the largest entry of each row, and its column."""
    if is_torch(scores):
        return tuple(scores.max(dim=1))
    labels = array_namespace(scores).argmax(scores, axis=1)
    return entries_at(scores, labels), labels


def entries_at(values: Array, labels: Array) -> Array:
    """Return the entry of each row of ``values``, (n, k), whose column is its label."""
    if is_torch(values):
        return values.gather(1, labels[:, None])[:, 0]
    xp, (n, k) = array_namespace(values), values.shape
    first = xp.arange(n, dtype=labels.dtype, device=device_of(labels)) * k
    return take_rows(xp.reshape(values, (-1,)), first + labels)


def count_labels(labels: Array, n_segments: int, which: Array | None = None) -> Array:
    """Count the rows of each label, (n_segments,) integers.

    Parameters
    ----------
    labels : integer array of shape (n,), from 0 to ``n_segments - 1``
    n_segments : int
    which : boolean array of shape (n,), default=None
        Rows that count; None: all.
    """
    if is_torch(labels):
        return torch_versions().count_labels(labels, which, n_segments)
    xp = array_namespace(labels)
    if is_numpy(labels) or is_cupy(labels):
        kept = labels if which is None else labels[which]
        return xp.bincount(kept, minlength=n_segments)
    ids = xp.arange(n_segments, dtype=labels.dtype, device=device_of(labels))
    member = labels[:, None] == ids[None, :]
    if which is not None:
        member = member & which[:, None]
    return xp.sum(xp.astype(member, xp.int64), axis=0)


def segment_sum(
    values: Array, labels: Array, n_segments: int, left: Array | None = None
) -> Array:
    """Sum the rows of ``values`` that share a label.

    Parameters
    ----------
    values : array or CSR matrix of shape (n, d)
    labels : integer array of shape (n,), from 0 to ``n_segments - 1``
    n_segments : int
    left : integer array of shape (n,), default=None
        Labels that the rows had before: from their sums they are taken off, so that
        the result is by how much the sums change.

    Returns
    -------
    array of shape (n_segments, d)
        Dense. A segment without rows has the sum 0.
    """
    if is_torch(values):
        return torch_versions().segment_sum(values, labels, n_segments, left)
    if is_numpy(values) or is_sparse(values):
        sums = _members(labels, left, n_segments, values.dtype) @ values
        return sums.toarray() if is_sparse(sums) else np.asarray(sums)
    return _portable_segment_sum(values, labels, n_segments, left)


def _members(labels: np.ndarray, left: np.ndarray | None, n_segments: int, dtype):
    """Return the matrix of ones, and minus ones, that sums the rows."""
    n = len(labels)
    if left is None:
        signs, segments, width = np.ones(n, dtype), labels, 1
    else:
        signs, width = np.tile(np.array([1, -1], dtype), n), 2
        segments = np.stack([labels, left], axis=1).reshape(-1)
    starts = np.arange(0, width * n + 1, width)
    return scipy.sparse.csc_array((signs, segments, starts), shape=(n_segments, n))


def _portable_segment_sum(
    values: Array, labels: Array, n_segments: int, left: Array | None = None
) -> Array:
    xp = array_namespace(values, labels)
    ids = xp.arange(n_segments, dtype=labels.dtype, device=device_of(labels))[:, None]
    sums = xp.zeros_like(values[:1, :] * xp.astype(ids, values.dtype))
    for s in row_blocks(values.shape[0], n_segments, _MEMBERS):
        member = xp.astype(labels[None, s] == ids, values.dtype)
        if left is not None:
            member = member - xp.astype(left[None, s] == ids, values.dtype)
        sums += member @ values[s, :]
    return sums
