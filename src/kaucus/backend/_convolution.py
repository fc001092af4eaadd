"""Responses of pictures to filters, and their means over windows.

A picture of c channels and H × W pixels has h × w patches of p × q pixels,
h = H − p + 1 and w = W − q + 1. A response is the inner product of a patch and a
filter. The filters are the last axis of all responses, because products of matrices
write them so.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kaucus.backend._namespace import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    is_numpy,
    is_torch,
    not_negative,
    torch_versions,
)


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
    if is_numpy(images):
        view = sliding_window_view(images, size, axis=(2, 3))  # type: ignore[call-overload]
        return view.transpose(0, 2, 3, 1, 4, 5).reshape(shape)
    if is_torch(images):
        view = images.unfold(2, size[0], 1).unfold(3, size[1], 1)
        return view.permute(0, 2, 3, 1, 4, 5).reshape(shape)
    xp = array_namespace(images)
    numbers = patch_rows(np.arange(c * H * W).reshape(1, c, H, W), size)[0]
    flat = xp.reshape(images, (n, -1))
    return xp.reshape(xp.take(flat, as_like(numbers.reshape(-1), flat), axis=1), shape)


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
    """Yield what :func:`convolve` returns, for each of several sets of filters.

    The sets have one size and one bias, and share the work on the patches.
    """
    first = filter_sets[0]
    if is_torch(images) and not torch_versions().prefers_products(first):
        for filters in filter_sets:
            yield torch_versions().convolve(images, filters, scale, bias)
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
    xp, (n, positions, d) = array_namespace(images), patches.shape
    rows = xp.reshape(astype(patches, dtype_name(first)), (n * positions, d))
    if bias is not None and not is_torch(rows):  # a column is cheaper than a sum
        one = xp.ones((n * positions, 1), dtype=rows.dtype, device=device_of(rows))
        rows = xp.concat([rows, one], axis=1)
    for filters in filter_sets:
        m = filters.shape[0]
        columns = xp.reshape(filters, (m, d))
        if is_torch(rows):
            responses = torch_versions().biased_product(rows, columns, bias)
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
    if not is_numpy(images):
        box = np.full((1, 1, *size), 1 / (size[0] * size[1]))
        return convolve(images, as_like(box, images, dtype=dtype_name(images)))
    # Rows and columns apart: products with few numbers, where patches would have many.
    across, down = (
        _band(length, side).astype(images.dtype)
        for length, side in zip(images.shape[2:], size, strict=True)
    )
    return (across @ images[:, 0] @ down.T).reshape(len(images), -1, 1)


def _band(length: int, side: int) -> np.ndarray:
    """Return the matrix that takes numbers to the means of all windows of them."""
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
    xp = array_namespace(responses)
    if is_numpy(responses):  # in two pieces of memory, that stay in cache
        # |x| + x is twice max(x, 0), exactly, and NumPy has it in half of the time.
        halves, part = weights / 2, np.abs(responses)
        part += responses
        above = np.matmul(halves, part)
        np.subtract(responses.dtype.type(-2 * threshold), responses, out=responses)
        np.abs(responses, out=part)
        part += responses
        return above, np.matmul(halves, part)
    above = xp.matmul(weights, not_negative(xp.asarray(responses, copy=True)))
    return above, xp.matmul(weights, not_negative(-2 * threshold - responses))
