"""Sums by label, draws of random numbers, and convolutions."""

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
from numpy.lib.stride_tricks import sliding_window_view

from kaucus._array import namespace as nx
from kaucus._array.blocks import row_blocks
from kaucus._array.namespace import Array

# ----------------------------------------------------------------------------------
# Labels of rows: the best of many scores, and counts and sums of those that share one.
#
# As in ``linalg``: a torch version where tensors come in, a NumPy or SciPy version,
# and a portable one from the standard alone.
# ----------------------------------------------------------------------------------

# Entries of the matrix that tells which row has which label, at a time.
_MEMBERS = 2**24


def rough_error(x: Array) -> float:
    """Return a bound on the error of :func:`rough_inner_products` over ‖x‖ ‖y‖.

    0 where there is no faster product than the exact one.
    """
    with nx.products_in("tf32"):
        of_a_factor = nx.product_epsilon(x)
    return 2 * of_a_factor if of_a_factor > nx.epsilon(x) else 0.0


def rough_inner_products(X: Array, Y: Array) -> Array:
    """Return ⟨x, y⟩ for all pairs of rows, (n, m), as fast as the device can.

    Each is off by at most ``rough_error(X) ‖x‖ ‖y‖``, beside the rounding of ``X``.
    """
    with nx.products_in("tf32"):
        return nx.product(X, Y)


def best_two(scores: Array) -> tuple[Array, Array, Array]:
    """Return of each row the largest entry, its column, and the second largest.

    ``scores``, (n, k), may be overwritten. With one column the second is minus
    infinity.
    """
    if nx.is_torch(scores):
        return nx.torch_versions().best_two(scores)
    xp = nx.array_namespace(scores)
    labels = xp.argmax(scores, axis=1)
    best = xp.max(scores, axis=1)
    ids = xp.arange(scores.shape[1], dtype=labels.dtype, device=nx.device_of(scores))
    lowest = xp.full_like(scores[:1, :1], -xp.inf)
    rest = xp.where(labels[:, None] == ids[None, :], lowest, scores)
    return best, labels, xp.max(rest, axis=1)


def best_one(scores: Array) -> tuple[Array, Array]:
    """Return the largest entry of each row, and its column."""
    if nx.is_torch(scores):
        return tuple(scores.max(dim=1))
    labels = nx.array_namespace(scores).argmax(scores, axis=1)
    return entries_at(scores, labels), labels


def entries_at(values: Array, labels: Array) -> Array:
    """Return the entry of each row of ``values``, (n, k), whose column is its label."""
    if nx.is_torch(values):
        return values.gather(1, labels[:, None])[:, 0]
    xp, (n, k) = nx.array_namespace(values), values.shape
    first = xp.arange(n, dtype=labels.dtype, device=nx.device_of(labels)) * k
    return nx.take_rows(xp.reshape(values, (-1,)), first + labels)


def count_labels(labels: Array, n_segments: int, which: Array | None = None) -> Array:
    """Count the rows of each label, (n_segments,) integers.

    Parameters
    ----------
    labels : integer array of shape (n,), from 0 to ``n_segments - 1``
    n_segments : int
    which : boolean array of shape (n,), default=None
        Rows that count; None: all.
    """
    if nx.is_torch(labels):
        return nx.torch_versions().count_labels(labels, which, n_segments)
    xp = nx.array_namespace(labels)
    if nx.is_numpy(labels) or nx.is_cupy(labels):
        kept = labels if which is None else labels[which]
        return xp.bincount(kept, minlength=n_segments)
    ids = xp.arange(n_segments, dtype=labels.dtype, device=nx.device_of(labels))
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
    if nx.is_torch(values):
        return nx.torch_versions().segment_sum(values, labels, n_segments, left)
    if nx.is_numpy(values) or nx.is_sparse(values):
        sums = _members(labels, left, n_segments, values.dtype) @ values
        return sums.toarray() if nx.is_sparse(sums) else np.asarray(sums)
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
    xp = nx.array_namespace(values, labels)
    ids = xp.arange(n_segments, dtype=labels.dtype, device=nx.device_of(labels))
    ids = ids[:, None]
    sums = xp.zeros_like(values[:1, :] * xp.astype(ids, values.dtype))
    for s in row_blocks(values.shape[0], n_segments, _MEMBERS):
        member = xp.astype(labels[None, s] == ids, values.dtype)
        if left is not None:
            member = member - xp.astype(left[None, s] == ids, values.dtype)
        sums += member @ values[s, :]
    return sums


# ----------------------------------------------------------------------------------
# One NumPy ``Generator`` in, arrays of any library out.
#
# All random numbers are drawn by NumPy and then moved: the same seed gives the same
# numbers on every library and device, and no library's global generator is touched.
# ----------------------------------------------------------------------------------

# See draw_some.
_MANY_ROWS = 2**20


def random_normal(rng: np.random.Generator, shape: tuple[int, ...], like: Array):
    """Draw standard normal numbers, in the library, device and precision of ``like``.

    Drawn in float64 and rounded, so that float32 and float64 see the same draw.
    """
    return nx.as_like(rng.standard_normal(shape), like, dtype=nx.dtype_name(like))


def random_rows(rng: np.random.Generator, n_rows: int, size: int, like: Array):
    """Draw ``size`` different row numbers out of ``n_rows``, in random order."""
    return nx.as_like(draw_some(rng, n_rows, size), like)


def draw_some(
    rng: np.random.Generator, rows: int | np.ndarray, size: int
) -> np.ndarray:
    """Draw ``size`` different rows in random order; all where there are fewer.

    ``rows`` are their numbers, or how many there are. Millions are not put in order as
    a whole: that takes longer than a pass over them on a cluster.
    """
    n = rows if isinstance(rows, int) else len(rows)
    if n > _MANY_ROWS and size < n:
        some = rng.choice(n, size, replace=False)
    else:
        some = rng.permutation(n)[:size]
    return some if isinstance(rows, int) else rows[some]


# ----------------------------------------------------------------------------------
# Responses of pictures to filters, and their means over windows.
#
# A picture of c channels and H × W pixels has h × w patches of p × q pixels,
# h = H − p + 1 and w = W − q + 1. A response is the inner product of a patch and a
# filter. The filters are the last axis of all responses, because products of matrices
# write them so.
# ----------------------------------------------------------------------------------


def patch_rows(images: Array, size: tuple[int, int]) -> Array:
    """Return all patches of pictures as rows, (n, h · w, c · p · q), a copy.

    Parameters
    ----------
    images : array of shape (n, c, H, W)
    size : (p, q)
    """
    n, c, H, W = images.shape
    h, w = H - size[0] + 1, W - size[1] + 1
    shape = (n, h * w, c * size[0] * size[1])
    if nx.is_numpy(images):
        view = sliding_window_view(images, size, axis=(2, 3))  # type: ignore[call-overload]
        return view.transpose(0, 2, 3, 1, 4, 5).reshape(shape)
    if nx.is_torch(images):
        view = images.unfold(2, size[0], 1).unfold(3, size[1], 1)
        return view.permute(0, 2, 3, 1, 4, 5).reshape(shape)
    xp = nx.array_namespace(images)
    numbers = patch_rows(np.arange(c * H * W).reshape(1, c, H, W), size)[0]
    flat = xp.reshape(images, (n, -1))
    patches = xp.take(flat, nx.as_like(numbers.reshape(-1), flat), axis=1)
    return xp.reshape(patches, shape)


def convolve(
    images: Array,
    filters: Array,
    *,
    scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Return the responses of all patches of pictures to filters.

    Parameters
    ----------
    images : array of shape (n, c, H, W)
    filters : array of shape (m, c, p, q)
        In their type, which may be narrower than that of the pictures, are products
        and responses.
    scale : array of shape (n, h · w, 1), default=None
        By which the responses of each patch are multiplied.
    bias : array of shape (m,), default=None
        What is added to the responses to each filter, after that.

    Returns
    -------
    array of shape (n, h · w, m)
    """
    return next(convolve_each(images, [filters], scale=scale, bias=bias))


def convolve_each(
    images: Array,
    filter_sets: Sequence[Array],
    *,
    scale: Array | None = None,
    bias: Array | None = None,
) -> Iterator[Array]:
    """Yield :func:`convolve` of each of several sets of filters.

    The sets have one size and one bias, and share the work on the patches.
    """
    first = filter_sets[0]
    if nx.is_torch(images) and not nx.torch_versions().prefers_products(first):
        for filters in filter_sets:
            yield nx.torch_versions().convolve(images, filters, scale, bias)
        return
    yield from convolve_by_products(images, filter_sets, scale=scale, bias=bias)


def convolve_by_products(
    images: Array,
    filter_sets: Sequence[Array],
    *,
    scale: Array | None = None,
    bias: Array | None = None,
) -> Iterator[Array]:
    """Yield the same as :func:`convolve_each`, by products with all patches as rows.

    The patches are scaled, of which there are fewer numbers than of responses.
    """
    first = filter_sets[0]
    patches = patch_rows(images, (first.shape[2], first.shape[3]))
    if scale is not None:
        patches = patches * scale
    xp, (n, positions, d) = nx.array_namespace(images), patches.shape
    rows = xp.reshape(nx.astype(patches, nx.dtype_name(first)), (n * positions, d))
    if bias is not None and not nx.is_torch(rows):  # a column is cheaper than a sum
        one = xp.ones((n * positions, 1), dtype=rows.dtype, device=nx.device_of(rows))
        rows = xp.concat([rows, one], axis=1)
    for filters in filter_sets:
        m = filters.shape[0]
        columns = xp.reshape(filters, (m, d))
        if nx.is_torch(rows):
            responses = nx.torch_versions().biased_product(rows, columns, bias)
        else:
            if bias is not None:
                columns = xp.concat([columns, bias[:, None]], axis=1)
            responses = rows @ columns.T
        yield xp.reshape(responses, (n, positions, m))


def box_means(images: Array, size: tuple[int, int]) -> Array:
    """Return the mean of each patch of pictures of one channel, (n, h · w, 1).

    Parameters
    ----------
    images : array of shape (n, 1, H, W)
    size : (p, q)
    """
    if not nx.is_numpy(images):
        box = np.full((1, 1, *size), 1 / (size[0] * size[1]))
        return convolve(images, nx.as_like(box, images, dtype=nx.dtype_name(images)))
    # Rows and columns apart: products with few numbers, where patches would have many.
    across, down = (
        _band(length, side).astype(images.dtype)
        for length, side in zip(images.shape[2:], size, strict=True)
    )
    return (across @ images[:, 0] @ down.T).reshape(len(images), -1, 1)


def _band(length: int, side: int) -> np.ndarray:
    """Return the banded matrix of a moving average."""
    n = length - side + 1
    return (np.tri(n, length, side - 1) - np.tri(n, length, -1)) / side


def window_means(
    responses: Array, weights: Array, threshold: float
) -> tuple[Array, Array]:
    """Return the means of max(z − t, 0) and of max(−z − t, 0) over windows.

    Parameters
    ----------
    responses : array of shape (n, h · w, m)
        z − t: a bias of :func:`convolve` takes the threshold off at no cost. May be
        overwritten.
    weights : array of shape (cells, h · w)
        Weights of the positions in the mean of each window.
    threshold : float
        t.

    Returns
    -------
    two arrays of shape (n, cells, m)
    """
    xp = nx.array_namespace(responses)
    if nx.is_numpy(responses):  # in two pieces of memory, that stay in cache
        # |x| + x is twice max(x, 0), exactly, and NumPy has it in half of the time.
        halves, part = weights / 2, np.abs(responses)
        part += responses
        above = np.matmul(halves, part)
        np.subtract(responses.dtype.type(-2 * threshold), responses, out=responses)
        np.abs(responses, out=part)
        part += responses
        return above, np.matmul(halves, part)
    above = xp.matmul(weights, nx.not_negative(xp.asarray(responses, copy=True)))
    return above, xp.matmul(weights, nx.not_negative(-2 * threshold - responses))
