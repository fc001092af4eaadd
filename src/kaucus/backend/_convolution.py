"""Responses of pictures to filters, and their means over windows.

A picture of c channels and H × W pixels has h × w patches of p × q pixels,
h = H − p + 1 and w = W − q + 1. A response is the inner product of a patch and a
filter. The filters are the last axis of all responses, because products of matrices
write them so.
"""

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
    if is_torch(images) and not torch_versions().prefers_products(filters):
        return torch_versions().convolve(images, filters, scale, bias)
    return convolve_by_products(images, filters, scale=scale, bias=bias)


def convolve_by_products(
    images: Array,
    filters: Array,
    *,
    scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Return the same as :func:`convolve`, by one product with all patches as rows.

    The patches are scaled, of which there are fewer numbers than of responses.
    """
    m, size = filters.shape[0], (filters.shape[2], filters.shape[3])
    patches = patch_rows(images, size)
    if scale is not None:
        patches = patches * scale
    xp, (n, positions, d) = array_namespace(images), patches.shape
    rows = xp.reshape(astype(patches, dtype_name(filters)), (n * positions, d))
    columns = xp.reshape(filters, (m, d))
    if is_torch(rows):
        responses = torch_versions().biased_product(rows, columns, bias)
    else:
        if bias is not None:  # one more column is cheaper than a sum
            one = xp.ones((n * positions, 1), dtype=rows.dtype, device=device_of(rows))
            rows = xp.concat([rows, one], axis=1)
            columns = xp.concat([columns, bias[:, None]], axis=1)
        responses = rows @ columns.T
    return xp.reshape(responses, (n, positions, m))


def window_means(
    responses: Array, weights: Array, threshold: float
) -> tuple[Array, Array]:
    """Return the means of max(z − t, 0) and of max(−z − t, 0) over windows.

    Parameters
    ----------
    responses : array of shape (n, h · w, m)
        z − t: a bias of :func:`convolve` takes the threshold off at no cost.
    weights : array of shape (cells, h · w)
        Weights of the positions in the mean of each window.
    threshold : float
        t.

    Returns
    -------
    two arrays of shape (n, cells, m)
    """
    xp = array_namespace(responses)
    if is_numpy(responses):  # in one piece of memory, that stays in cache
        part = np.maximum(responses, 0)
        above = np.matmul(weights, part)
        np.subtract(responses.dtype.type(-2 * threshold), responses, out=part)
        return above, np.matmul(weights, not_negative(part))
    above = xp.matmul(weights, not_negative(xp.asarray(responses, copy=True)))
    return above, xp.matmul(weights, not_negative(-2 * threshold - responses))
