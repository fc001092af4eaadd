"""Features of pictures: responses to filters, averaged over a few cells.

With the responses z of ``_filters`` and a threshold t, the features of a cell are the
means of max(z − t, 0) and of max(−z − t, 0) over its positions, to a power. Those of a
picture and of its mirror image may be averaged before that. All work is on blocks of
pictures, which alone are widened from their own type.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    box_means,
    convolve,
    convolve_each,
    device_of,
    for_each_block,
    is_numpy,
    n_workers,
    not_negative,
    on_gpu,
    row_blocks,
    sqrt,
    stream_blocks,
    window_means,
)
from kaucus.pictures._filters import CONTRAST, FilterBank, PixelRange

# Responses of a block of pictures: in the cache of one core, or enough for a GPU.
_BLOCK_BYTES_CPU, _BLOCK_BYTES_GPU = 12 * 2**20, 2**31
PRECISIONS = ("auto", "float64", "float32", "float16")


class PictureFeatures(NamedTuple):
    """Parameters of the features of pictures, without the filters."""

    shape: tuple[int, int, int]
    """(channels, height, width)."""
    pixels: PixelRange
    threshold: float
    power: float
    mirror: bool
    """Whether the means of a picture and of its mirror image are averaged."""
    precision: str
    """Of the responses: "float64", "float32" or "float16"."""

    @property
    def dtype(self) -> str:
        """Type of the features."""
        return "float64" if self.precision == "float64" else "float32"


def resolve_precision(precision: str, like: Array) -> str:
    """Return the precision of responses: "auto" is float16 on a GPU, else float32."""
    if precision == "float16" and not on_gpu(like):
        raise ValueError(
            "precision='float16' is for a GPU, where it is several times as fast as "
            "float32; X is computed with on the host. Use precision='auto', or "
            "device='cuda'."
        )
    if precision != "auto":
        return precision
    return "float16" if on_gpu(like) else "float32"


def cell_windows(length: int, n_cells: int) -> list[slice]:
    """Return windows that overlap by about a half, symmetric from left to right.

    >>> cell_windows(27, 3)
    [slice(0, 13, None), slice(7, 20, None), slice(14, 27, None)]
    """
    width = length if n_cells == 1 else max(2 * length // (n_cells + 1), 1)
    if n_cells % 2 and (length - width) % 2:
        width += 1  # so that one is in the middle
    last = length - width
    starts = [round(last * k / max(n_cells - 1, 1)) for k in range(-(-n_cells // 2))]
    starts += [last - start for start in reversed(starts[: n_cells // 2])]
    return [slice(start, start + width) for start in starts]


def cell_weights(positions: tuple[int, int], n_cells: int) -> np.ndarray:
    """Return the weights of the positions in the mean of each cell, (cells, h · w)."""
    sides = []
    for length in positions:
        side = np.zeros((n_cells, length))
        for k, window in enumerate(cell_windows(length, n_cells)):
            side[k, window] = 1 / (window.stop - window.start)
        sides.append(side)
    return np.kron(*sides)


def n_positions(shape: tuple[int, int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return how many patches there are along height and width."""
    return shape[1] - size[0] + 1, shape[2] - size[1] + 1


def features_of(
    X: Array,
    how: PictureFeatures,
    bank: FilterBank,
    n_cells: int,
    *,
    budget: int,
    tell: Callable[[int], object] | None = None,
) -> Array:
    """Return the features of pictures, (n, cells · 2 · m).

    Parameters
    ----------
    X : array or HostRows of shape (n, c · H · W)
        Of any type.
    how : PictureFeatures
    bank : FilterBank
        m filters.
    n_cells : int
        Cells along each side.
    budget : int
        Bytes for blocks of pictures and their responses, beside the result.
    tell : callable, default=None
        Called with the number of pictures done, after each block.
    """
    xp, work = array_namespace(X), _Work.of(how, bank, n_cells, X)
    width = 2 * n_cells**2 * bank.filters.shape[0]
    dtype, place = getattr(xp, how.dtype), device_of(X)
    out = xp.empty((X.shape[0], width), dtype=dtype, device=place)
    workers = n_workers(X)
    block = _BLOCK_BYTES_GPU if on_gpu(X) else _BLOCK_BYTES_CPU
    slices = list(
        row_blocks(X.shape[0], work.bytes_per_picture(), min(block, budget // workers))
    )

    def fill(block: tuple[slice, Array]) -> None:
        rows, pictures = block
        out[rows, :] = work.features(pictures)
        if tell is not None:
            tell(rows.stop)

    blocks = zip(slices, stream_blocks(X, slices), strict=True)
    for_each_block(fill, blocks, workers=workers)
    return out


def responses_of(X: Array, how: PictureFeatures, bank: FilterBank) -> Array:
    """Return the responses z of a few pictures, (n, positions, m)."""
    work = _Work.of(how._replace(threshold=0.0), bank, 1, X)
    return work.responses(work.images(X))


class _Work(NamedTuple):
    """Filters, biases and weights of cells on the device of the pictures."""

    how: PictureFeatures
    filters: Array
    mirrored: Array
    """The mirror images of the filters."""
    bias: Array
    """Less the threshold."""
    weights: Array

    @classmethod
    def of(
        cls, how: PictureFeatures, bank: FilterBank, n_cells: int, like: Array
    ) -> "_Work":
        weights = cell_weights(n_positions(how.shape, bank.size), n_cells)
        return cls(
            how,
            as_like(bank.filters, like, dtype=how.precision),
            as_like(bank.filters[:, :, :, ::-1].copy(), like, dtype=how.precision),
            as_like(bank.bias.astype(float) - how.threshold, like, dtype=how.precision),
            as_like(weights, like, dtype=how.precision),
        )

    def bytes_per_picture(self) -> int:
        """Return the bytes of a picture's responses, with two temporaries."""
        size = np.dtype(self.how.precision).itemsize
        m, d = self.filters.shape[0], math.prod(self.filters.shape[1:])
        return self.weights.shape[1] * (3 * size * m + 12 * d)

    def images(self, pictures: Array) -> Array:
        """Return rows as images (b, c, H, W), in the unit of the range of pixels."""
        how = self.how
        scaled = (astype(pictures, how.dtype) - how.pixels.middle) / how.pixels.length
        return array_namespace(scaled).reshape(scaled, (scaled.shape[0], *how.shape))

    def features(self, pictures: Array) -> Array:
        """Return the features of a block of pictures, (b, cells · 2 · m)."""
        how, xp = self.how, array_namespace(pictures)
        images = self.images(pictures)
        # A mirror image has the response where, on the other side, the picture itself
        # has it to the mirror image of the filter: patches and contrast are the same.
        sets = [self.filters, self.mirrored] if how.mirror else [self.filters]
        scale = self.contrast(images)
        responses = convolve_each(images, sets, scale=scale, bias=self.bias)
        pooled = self.pooled(next(responses))
        if how.mirror:
            pooled = (pooled + _on_other_side(self.pooled(next(responses)))) / 2
        pooled = xp.reshape(pooled, (images.shape[0], -1))
        if how.power == 0.5:
            return sqrt(pooled)
        return pooled if how.power == 1 else pooled**how.power

    def responses(self, images: Array) -> Array:
        """Return the responses less the threshold, (b, positions, m)."""
        scale = self.contrast(images)
        return convolve(images, self.filters, scale=scale, bias=self.bias)

    def pooled(self, responses: Array) -> Array:
        """Return the means of both parts of the responses, (b, cells, 2 m)."""
        parts = window_means(responses, self.weights, self.how.threshold)
        joined = array_namespace(responses).concat(parts, axis=2)
        return astype(joined, self.how.dtype)

    def contrast(self, images: Array) -> Array:
        """Return 1 / √(var + ε) of every patch, (b, positions, 1)."""
        if is_numpy(images):  # a difference of squares, for a few numbers
            images = astype(images, "float64")
        xp, size = array_namespace(images), self.filters.shape[2:]
        mean = box_means(xp.mean(images, axis=1, keepdims=True), size)
        square = box_means(xp.mean(images**2, axis=1, keepdims=True), size)
        variance = not_negative(square - mean**2)
        return astype((variance + CONTRAST) ** -0.5, self.how.dtype)


def _on_other_side(pooled: Array) -> Array:
    """Return the means, (b, cells, 2 m), with the cells of left and right exchanged."""
    xp, n_cells = array_namespace(pooled), math.isqrt(pooled.shape[1])
    apart = xp.reshape(pooled, (pooled.shape[0], n_cells, n_cells, -1))
    return xp.reshape(xp.flip(apart, axis=2), pooled.shape)


def feature_bytes(n_cells: int, n_filters: int, how: PictureFeatures) -> int:
    """Return the bytes of the features of one picture."""
    return 2 * n_cells**2 * n_filters * np.dtype(how.dtype).itemsize
