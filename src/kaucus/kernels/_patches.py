"""Kernels of pictures: filters, responses to patches, features and their kernel."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import for_each_block, n_workers, resolve_budget, row_blocks
from kaucus._array.linalg import add_to_diagonal, diagonal
from kaucus._array.namespace import Array
from kaucus._array.rows import stream_blocks
from kaucus._array.segments import (
    box_means,
    convolve_each,
    patch_rows,
    window_means,
)
from kaucus.kernels._kernel import Rows, UnitDiagonalKernel

# ----------------------------------------------------------------------------------
# Filters that are whitened patches of the pictures themselves.
#
# A patch p is taken less its mean and divided by its contrast,
#
#     p̂ = (p − mean) / √(var + ε),
#
# and whitened by W = V (Λ + λ)^−½ Vᵀ, with μ and V Λ Vᵀ the mean and the covariance of
# many p̂. The dictionary D has whitened patches of unit norm as rows. The response of a
# patch is z = D W (p̂ − μ): one convolution with the filters D W less their means,
# divided by the local contrast, plus a constant.
#
# Reference: A. Coates, H. Lee, A. Y. Ng, "An analysis of single-layer networks in
# unsupervised feature learning", AISTATS (2011).
# ----------------------------------------------------------------------------------

# ε for pixels from 0 to 1; 10 for pixels from 0 to 255.
CONTRAST = 10 / 255**2
# Patches from which mean and covariance are estimated, at least, and for each filter;
# and the pictures that they are taken of, at most, and their bytes.
_PATCHES, _PATCHES_PER_FILTER, _PICTURES = 50_000, 8, 20_000
_PICTURE_BYTES = 2**29
# Ranges of pixels whose squares float32 has room for.
_SMALLEST, _LARGEST = 1e-18, 1e18


class PixelRange(NamedTuple):
    """Smallest and largest pixel, by which pictures are scaled to [−½, ½]."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Half way between the smallest and the largest pixel."""
        return (self.low + self.high) / 2

    @property
    def length(self) -> float:
        """The largest pixel less the smallest."""
        return self.high - self.low


class FilterBank(NamedTuple):
    """Filters of one size: responses are ⟨filter, patch⟩ / contrast + bias."""

    filters: np.ndarray
    """D W, each less its mean, (m, c, p, q)."""
    bias: np.ndarray
    """−D W μ, (m,)."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a patch."""
        return self.filters.shape[2], self.filters.shape[3]

    def part(self, which: slice) -> "FilterBank":
        """Return some of the filters."""
        return FilterBank(self.filters[which], self.bias[which])


def pixel_range(X: Array) -> PixelRange:
    """Return the range of the pixels, or raise if it is zero or too large."""
    xp = nx.array_namespace(X)
    found = PixelRange(float(xp.min(X)), float(xp.max(X)))
    if found.length <= 0:
        raise ValueError(
            f"All pixels of X are {found.low:g}: pictures that are constant have no "
            "patches to compare. Check how X was made."
        )
    if not _SMALLEST < found.length < _LARGEST or max(map(abs, found)) > _LARGEST:
        raise ValueError(
            f"The pixels of X are from {found.low:g} to {found.high:g}, which float32 "
            "cannot resolve. Divide X by a number that brings them near 1."
        )
    return found


def draw_patches(
    X: Array,
    shape: tuple[int, int, int],
    size: tuple[int, int],
    pixels: PixelRange,
    n_filters: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return patches of random pictures, (n, c · p · q), scaled by the range."""
    numbers = patch_rows(np.arange(X.shape[1]).reshape(1, *shape), size)[0]
    most = min(_PICTURES, max(_PICTURE_BYTES // (nx.itemsize(X) * X.shape[1]), 1))
    drawn = rng.permutation(X.shape[0])[:most]
    rows = nx.to_numpy(nx.take_rows(X, np.sort(drawn)))
    n_patches = max(_PATCHES, _PATCHES_PER_FILTER * n_filters)
    n_patches = min(n_patches, len(rows) * len(numbers))
    which = rng.choice(len(rows) * len(numbers), size=n_patches, replace=False)
    picture, position = np.divmod(which, len(numbers))
    patches = np.empty((n_patches, numbers.shape[1]), dtype=np.float32)
    for start in range(0, n_patches, 4096):
        part = slice(start, start + 4096)
        patches[part] = rows[picture[part, None], numbers[position[part]]]
    patches -= pixels.middle
    patches /= pixels.length
    return patches


def normalised(patches: np.ndarray) -> np.ndarray:
    """Return patches, as rows, less their means, over their contrasts."""
    centred = patches - patches.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + CONTRAST)


def whitening_of(patches: np.ndarray, ridge: float | None) -> tuple[np.ndarray, ...]:
    """Return W, (d, d), and μ, (d,), of normalised patches; None does not whiten."""
    d = patches.shape[1]
    mean = patches.mean(axis=0, dtype=np.float64)
    shift = mean.astype(patches.dtype)
    if ridge is None:
        return np.eye(d), mean
    covariance = np.zeros((d, d))
    for start in range(0, len(patches), 8192):
        centred = patches[start : start + 8192] - shift
        covariance += centred.T @ centred
    eigenvalues, V = np.linalg.eigh(covariance / len(patches))
    return (V / np.sqrt(np.maximum(eigenvalues, 0) + ridge)) @ V.T, mean


def make_filters(
    patches: np.ndarray,
    n_filters: int,
    patch_shape: tuple[int, int, int],
    *,
    ridge: float | None,
    rng: np.random.Generator,
    centres=None,
) -> FilterBank:
    """Return filters that are whitened patches, or centres(unit rows, n) of them.

    At most n_filters, drawn at random. The ridge λ is added to the eigenvalues of the
    covariance; None does not whiten.
    """
    p_hat = normalised(patches)
    W, mean = whitening_of(p_hat, ridge)
    # Patches without contrast, as the background of digits, would all be one filter.
    uneven = np.flatnonzero(patches.var(axis=1) > CONTRAST)
    if len(uneven) == 0:
        uneven = np.arange(len(patches))
    chosen = uneven if centres is not None else rng.permutation(uneven)[:n_filters]
    D = unit_rows((p_hat[chosen] - mean) @ W)
    if centres is not None:
        D = unit_rows(centres(D, min(n_filters, len(D))))
    F = D @ W
    bias = -F @ mean
    F = F - F.mean(axis=1, keepdims=True)
    filters = F.reshape(len(F), *patch_shape)
    return FilterBank(filters.astype(np.float32), bias.astype(np.float32))


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Return rows of norm one; rows of zeros stay zero."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)


# ----------------------------------------------------------------------------------
# Features of pictures: responses to filters, averaged over a few cells.
#
# With the responses z of the filters and a threshold t, the features of a cell are the
# means of max(z − t, 0) and of max(−z − t, 0) over its positions, to a power. Those of
# a picture and of its mirror image may be averaged before that. All work is on blocks
# of pictures, which alone are widened from their own type.
# ----------------------------------------------------------------------------------

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

    @classmethod
    def of(cls, dictionary, precision: str) -> "PictureFeatures":
        """Return the features that a fitted dictionary of patches is for."""
        shape, pixels = dictionary.image_shape_, dictionary.pixel_range_
        numbers = float(dictionary.threshold), float(dictionary.power)
        return cls(shape, pixels, *numbers, bool(dictionary.mirror), precision)

    @property
    def dtype(self) -> str:
        """Type of the features."""
        return "float64" if self.precision == "float64" else "float32"


def resolve_precision(precision: str, like: Array) -> str:
    """Return the precision of responses: "auto" is float16 on a GPU, else float32."""
    if precision == "float16" and not nx.on_gpu(like):
        raise ValueError(
            "precision='float16' is for a GPU, where it is several times as fast as "
            "float32; X is computed with on the host. Use precision='auto', or "
            "device='cuda'."
        )
    if precision != "auto":
        return precision
    return "float16" if nx.on_gpu(like) else "float32"


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


def n_positions(shape: tuple[int, int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of patches along height and width."""
    return shape[1] - size[0] + 1, shape[2] - size[1] + 1


def features_of(
    X: Array,
    how: PictureFeatures,
    bank: FilterBank,
    n_cells: int,
    *,
    budget: int,
    callback: Callable[[int], object] | None = None,
) -> Array:
    """Return the features of pictures, (n, cells · 2 · m); the budget is for blocks."""
    xp, work = nx.array_namespace(X), FilterWork(how, bank, n_cells, X)
    width = 2 * n_cells**2 * bank.filters.shape[0]
    dtype, place = getattr(xp, how.dtype), nx.device_of(X)
    out = xp.empty((X.shape[0], width), dtype=dtype, device=place)
    workers = n_workers(X)
    block = min(
        _BLOCK_BYTES_GPU if nx.on_gpu(X) else _BLOCK_BYTES_CPU, budget // workers
    )
    slices = list(row_blocks(X.shape[0], work.bytes_per_picture, block))

    def fill(block: tuple[slice, Array]) -> None:
        rows, pictures = block
        out[rows, :] = work.features(pictures)
        if callback is not None:
            callback(rows.stop)

    blocks = zip(slices, stream_blocks(X, slices), strict=True)
    for_each_block(fill, blocks, workers=workers)
    return out


class FilterWork:
    """Filters, biases and weights of cells on the device of the pictures."""

    def __init__(self, how: PictureFeatures, bank: FilterBank, n_cells: int, X: Array):
        self.how = how
        sides = []
        for length in n_positions(how.shape, bank.size):
            side = np.zeros((n_cells, length))
            for k, window in enumerate(cell_windows(length, n_cells)):
                side[k, window] = 1 / (window.stop - window.start)
            sides.append(side)
        mirrored, bias = bank.filters[:, :, :, ::-1].copy(), bank.bias.astype(float)
        of_work = (bank.filters, mirrored, bias - how.threshold, np.kron(*sides))
        self.filters, self.mirrored, self.bias, self.weights = (
            nx.as_like(values, X, dtype=how.precision) for values in of_work
        )
        # Of responses, with two temporaries.
        n_bytes = 3 * np.dtype(how.precision).itemsize * bank.filters.shape[0]
        n_bytes += 12 * math.prod(bank.filters.shape[1:])
        self.bytes_per_picture = self.weights.shape[1] * n_bytes

    def images(self, pictures: Array) -> Array:
        """Return rows as images (b, c, H, W), in the unit of the range of pixels."""
        how = self.how
        scaled = (
            nx.astype(pictures, how.dtype) - how.pixels.middle
        ) / how.pixels.length
        return nx.array_namespace(scaled).reshape(scaled, (scaled.shape[0], *how.shape))

    def features(self, pictures: Array) -> Array:
        """Return the features of a block of pictures, (b, cells · 2 · m)."""
        how, xp = self.how, nx.array_namespace(pictures)
        images = self.images(pictures)
        # A mirror image has the response where, on the other side, the picture itself
        # has it to the mirror image of the filter: patches and contrast are the same.
        sets = [self.filters, self.mirrored] if how.mirror else [self.filters]
        scale = self.contrast(images)
        responses = convolve_each(images, sets, scale=scale, bias=self.bias)
        pooled = self.pooled(next(responses))
        if how.mirror:  # with the cells of left and right exchanged
            other, n_cells = self.pooled(next(responses)), math.isqrt(pooled.shape[1])
            apart = xp.reshape(other, (other.shape[0], n_cells, n_cells, -1))
            pooled = (pooled + xp.reshape(xp.flip(apart, axis=2), other.shape)) / 2
        pooled = xp.reshape(pooled, (images.shape[0], -1))
        if how.power == 0.5:
            return nx.sqrt(pooled)
        return pooled if how.power == 1 else pooled**how.power

    def pooled(self, responses: Array) -> Array:
        """Return the means of both parts of the responses, (b, cells, 2 m)."""
        parts = window_means(responses, self.weights, self.how.threshold)
        joined = nx.array_namespace(responses).concat(parts, axis=2)
        return nx.astype(joined, self.how.dtype)

    def contrast(self, images: Array) -> Array:
        """Return 1 / √(var + ε) of every patch, (b, positions, 1)."""
        if nx.is_numpy(images):  # a difference of squares, for a few numbers
            images = nx.astype(images, "float64")
        xp, size = nx.array_namespace(images), self.filters.shape[2:]
        mean = box_means(xp.mean(images, axis=1, keepdims=True), size)
        square = box_means(xp.mean(images**2, axis=1, keepdims=True), size)
        variance = nx.not_negative(square - mean**2)
        return nx.astype((variance + CONTRAST) ** -0.5, self.how.dtype)


def feature_bytes(n_cells: int, n_filters: int, how: PictureFeatures) -> int:
    """Return the bytes of the features of one picture."""
    return 2 * n_cells**2 * n_filters * np.dtype(how.dtype).itemsize


# ----------------------------------------------------------------------------------
# Standardised features of pictures, of some filters at a time.
# ----------------------------------------------------------------------------------

# Bytes of the features of a block of filters, where the budget allows it.
_FEATURE_BYTES_CPU, _FEATURE_BYTES_GPU = 2**30, 2**34
# Rows whose features are summed in their own precision.
_SUM_ROWS = 1024


class Moments(NamedTuple):
    """Mean and inverse standard deviation of features, (cells, 2, m) each."""

    mean: np.ndarray
    inverse: np.ndarray
    """Zero for a feature that is constant."""

    def of_filters(self, which: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and inverse deviation of some filters' features, flattened."""
        return tuple(part[:, :, which].reshape(-1) for part in self)  # type: ignore


class FilterGroup(NamedTuple):
    """Filters of one size, pooled over one grid of cells."""

    bank: FilterBank
    n_cells: int
    moments: Moments | None = None

    @property
    def n_filters(self) -> int:
        """Number of filters."""
        return self.bank.filters.shape[0]


Part = tuple[FilterGroup, ...]
FeatureBlocks = list[tuple[int, slice, Array]]
"""The number of a group, some of its filters, and their standardised features."""


class KeptFeatures:
    """Cache of the features of a model's pictures between predictions.

    Of each part of its kernel; or nothing. They can be made again at any time, so that
    no pickle holds them.
    """

    def __init__(self) -> None:
        self.parts: list[FeatureBlocks] | None = None
        self.pictures: Array | None = None
        """The pictures themselves, in a :class:`KeepingPatchKernel`."""
        self.n_rows = 0
        """Most pictures in a block of X for which the budget had room."""

    def are_with(self, X: Array) -> bool:
        """Return True if the cached features are on the device of X."""
        if self.parts is None:
            return False
        one = self.parts[0][0][2]
        same = nx.array_namespace(one) is nx.array_namespace(X)
        return same and nx.device_of(one) == nx.device_of(X)

    def n_bytes(self) -> int:
        """Return the bytes of the cached features."""
        blocks = itertools.chain.from_iterable(self.parts or [])
        return sum(phi.shape[0] * phi.shape[1] * nx.itemsize(phi) for *_, phi in blocks)

    def __getstate__(self) -> dict:
        return {"parts": None, "pictures": None, "n_rows": 0}


def filter_blocks(
    group: FilterGroup, how: PictureFeatures, n_rows: int, budget: int, like: Array
) -> list[slice]:
    """Return the blocks of filters whose features are made at a time."""
    most = _FEATURE_BYTES_GPU if nx.on_gpu(like) else _FEATURE_BYTES_CPU
    one = n_rows * feature_bytes(group.n_cells, 1, how)
    height = max(min(most, budget // 2) // one, 1)
    n, n_blocks = group.n_filters, -(-group.n_filters // height)
    edges = [n * k // n_blocks for k in range(n_blocks + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def moments_of(
    phi: Array, n_cells: int, sample_weight: np.ndarray | None = None
) -> Moments:
    """Return the moments of features, (n, cells · 2 · m), summed in float64."""
    xp, n = nx.array_namespace(phi), phi.shape[0]
    weight, total = sample_weight, n
    if weight is not None:
        weight, total = nx.as_like(weight, phi, dtype=nx.dtype_name(phi)), weight.sum()
    sums = squares = 0.0
    first = phi[:1, :]  # near the mean: squares keep their digits
    for rows in row_blocks(n, 1, _SUM_ROWS):
        shifted = phi[rows, :] - first
        counted = shifted if weight is None else shifted * weight[rows, None]
        sums = sums + nx.astype(xp.sum(counted, axis=0), "float64")
        squares = squares + nx.astype(xp.sum(counted * shifted, axis=0), "float64")
    mean = nx.to_numpy(sums / total)
    variance = nx.to_numpy(squares / total) - mean**2
    constant = variance <= 1e-12 + 1e-6 * mean**2
    inverse = np.where(constant, 0.0, np.where(constant, 1.0, variance) ** -0.5)
    shape = (n_cells**2, 2, -1)
    mean = (mean + nx.to_numpy(first)[0]).reshape(shape)
    inverse = inverse.reshape(shape)
    return Moments(mean.astype(np.float32), inverse.astype(np.float32))


def standardise(phi: Array, mean: np.ndarray, inverse: np.ndarray) -> Array:
    """Return features less their means, over their deviations, in the same memory."""
    phi -= nx.as_like(mean, phi, dtype=nx.dtype_name(phi))
    phi *= nx.as_like(inverse, phi, dtype=nx.dtype_name(phi))
    return phi


def feature_norms(phi: Array) -> Array:
    """Return the squared norms of features, (n,)."""
    xp = nx.array_namespace(phi)
    blocks = row_blocks(phi.shape[0], 1, _SUM_ROWS)
    return xp.concat([xp.sum(phi[rows, :] ** 2, axis=1) for rows in blocks])


# ----------------------------------------------------------------------------------
# A Gaussian kernel of pictures, summed over blocks of filters.
#
# With the features φ, each less its mean and over its standard
# deviation, and σ² the mean of ‖φ‖²,
#
#     k(x, y) = mean over parts of exp(−γ ‖φ(x) − φ(y)‖² / (2 σ²)),
#
# where a part is some sizes of patches and grids of cells.
#
# The inner products are sums over filters: features of a block of filters are made,
# multiplied, and forgotten. So n pictures take n² numbers, whatever the number of
# features.
# ----------------------------------------------------------------------------------

# Multiplications of one product: a fraction of a second; and rows of a panel at most,
# of whose square on the diagonal a half is computed in vain.
_PRODUCT_WORK, _PANEL_GPU = 2**34, 4096


@dataclass(frozen=True, eq=False)
class PatchKernel(UnitDiagonalKernel):
    """A Gaussian kernel of pictures, by the responses of their patches to filters.

    Rows are pictures, of numbers of any type; matrices are float32, or float64 where
    the rows or the features are. Parts have moments, as of :func:`learn_distances`.
    """

    how: PictureFeatures
    parts: tuple[Part, ...]
    gamma: float
    memory_budget: int | str | None = None

    name = "patches"
    thread_safe = False  # its own threads

    def __call__(self, X: Array, Y: Array | None = None, *, out=None) -> Array:
        budget = resolve_budget(self.memory_budget, X)
        if Y is not None:
            n = X.shape[0] + Y.shape[0]
            return self.of_features(X, self.all_blocks_of(Y, budget, n))
        K = None
        for part in self.parts:
            D, _ = learn_distances(X, self.how, part, budget)
            K = self.add_part(K, D)
        return self._as_precise_as(X, K)

    def add_part(self, K: Array | None, D: Array) -> Array:
        """Add the Gaussian of the distances of one part to K; overwrites both."""
        return add_gaussian(K, D, self.gamma, len(self.parts))

    def all_blocks_of(self, Y: Array, budget: int, n_rows: int) -> list[Iterator]:
        """Return, for each part, the blocks of standardised features of pictures.

        Blocks are made one at a time, with memory for ``n_rows`` pictures.
        """
        return [self._blocks_of(Y, part, budget, n_rows) for part in self.parts]

    def _blocks_of(self, Y: Array, part: Part, budget: int, n_rows: int) -> Iterator:
        for k, group in enumerate(part):
            assert group.moments is not None
            for which in filter_blocks(group, self.how, n_rows, budget // 2, Y):
                bank = group.bank.part(which)
                phi = features_of(Y, self.how, bank, group.n_cells, budget=budget // 4)
                yield k, which, standardise(phi, *group.moments.of_filters(which))

    def of_features(self, X: Array, blocks: Iterable[Iterable]) -> Array:
        """Return k(X, Y), given the blocks of features of Y for each part."""
        budget, K = resolve_budget(self.memory_budget, X), None
        for part, of_part in zip(self.parts, blocks, strict=True):
            K = self.add_part(K, _cross_distances(X, self.how, part, of_part, budget))
        return self._as_precise_as(X, K)

    def feature_bytes(self, n_rows: int) -> int:
        """Return the bytes of all features of so many pictures."""
        groups = itertools.chain.from_iterable(self.parts)
        one = sum(feature_bytes(g.n_cells, g.n_filters, self.how) for g in groups)
        return n_rows * one

    @staticmethod
    def _as_precise_as(X: Array, K: Array) -> Array:
        return nx.astype(K, "float64") if nx.dtype_name(X) == "float64" else K

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self(X.values, Y.values)

    def diag(self, X: Array) -> Array:
        xp, name = nx.array_namespace(X), nx.dtype_name(X)
        dtype = "float64" if name == "float64" else self.how.dtype
        return xp.ones(X.shape[0], dtype=getattr(xp, dtype), device=nx.device_of(X))


@dataclass(frozen=True, eq=False)
class KeepingPatchKernel(PatchKernel):
    """PatchKernel that caches the features of the Y of its last call.

    For k(X, Y) of one block of X after the other: the features of Y are made once,
    where a quarter of the budget holds them.
    """

    kept: KeptFeatures = field(init=False, default_factory=KeptFeatures)

    def __call__(self, X: Array, Y: Array | None = None, *, out=None) -> Array:
        if Y is None:
            return super().__call__(X)
        if Y is not self.kept.pictures or X.shape[0] > self.kept.n_rows:
            self._keep(Y, X.shape[0], resolve_budget(self.memory_budget, X))
        if self.kept.parts is None:
            return super().__call__(X, Y)
        return self.of_features(X, self.kept.parts)

    def _keep(self, Y: Array, n_rows: int, budget: int) -> None:
        kept, n = self.kept, n_rows + Y.shape[0]
        kept.parts, kept.pictures, kept.n_rows = None, Y, n_rows
        if self.feature_bytes(Y.shape[0]) <= budget // 4:
            kept.parts = list(map(list, self.all_blocks_of(Y, budget, n)))


def add_gaussian(K: Array | None, D: Array, gamma: float, n_parts: int) -> Array:
    """Return K + exp(−γ D / 2) / n_parts, (n, m); overwrites both, and no K is zero."""
    D *= -gamma / 2
    D = nx.exp(D)
    if n_parts == 1:
        return D
    D *= 1 / n_parts
    if K is None:
        return D
    K += D
    return K


def learn_distances(
    X: Array,
    how: PictureFeatures,
    part: Part,
    budget: int,
    keep: FeatureBlocks | None = None,
    callback: Callable[[int, int], object] | None = None,
    sample_weight: np.ndarray | None = None,
) -> tuple[Array, Part]:
    """Return squared distances of pictures over σ², (n, n), and the part with moments.

    The matrix is exactly symmetric with a diagonal of zeros; it and the features of a
    block of filters take the budget. Groups without moments get those of X, weighted.
    Blocks of standardised features are appended to ``keep``; ``callback(done, all)``
    counts all pictures for each block of filters.
    """
    xp, n = nx.array_namespace(X), X.shape[0]
    place = {"dtype": getattr(xp, how.dtype), "device": nx.device_of(X)}
    gram = xp.zeros((n, n), **place)
    rest = max(budget - n * n * nx.itemsize(gram), 1)
    learned, n_done = [], 0
    blocks = [filter_blocks(group, how, n, rest, X) for group in part]
    n_all = n * sum(map(len, blocks))

    def told(n_pictures: int) -> None:
        if callback is not None:
            callback(n_done + n_pictures, n_all)

    for k, group in enumerate(part):
        found = []
        for which in blocks[k]:
            bank, cells = group.bank.part(which), group.n_cells
            phi = features_of(X, how, bank, cells, budget=rest // 4, callback=told)
            n_done += n
            if group.moments is None:
                found.append(moments_of(phi, cells, sample_weight))
                moments = found[-1].of_filters(slice(None))
            else:
                moments = group.moments.of_filters(which)
            phi = standardise(phi, *moments)
            add_lower_gram(gram, phi)
            if keep is not None:
                keep.append((k, which, phi))
        if found:
            pairs = zip(*found, strict=True)
            joined = Moments(*(np.concatenate(parts, axis=2) for parts in pairs))
            group = group._replace(moments=joined)
        learned.append(group)
    D = _distances_of_gram(gram, diagonal(gram), _total(learned))
    # Exactly: not even rounding is left of the distance of a picture to itself.
    return add_to_diagonal(D, -diagonal(D)), tuple(learned)


def _cross_distances(
    X: Array, how: PictureFeatures, part: Part, blocks: Iterable, budget: int
) -> Array:
    """Return squared distances over σ² to pictures given by their features, (n, m)."""
    xp, n = nx.array_namespace(X), X.shape[0]
    gram, x_squares, y_squares = None, 0.0, 0.0
    for k, which, psi in blocks:
        group = part[k]
        assert group.moments is not None
        bank = group.bank.part(which)
        phi = features_of(X, how, bank, group.n_cells, budget=budget // 4)
        phi = standardise(phi, *group.moments.of_filters(which))
        x_squares = x_squares + feature_norms(phi)
        y_squares = y_squares + feature_norms(psi)
        if gram is None:
            place = {"dtype": phi.dtype, "device": nx.device_of(phi)}
            gram = xp.zeros((n, psi.shape[0]), **place)
        for rows in _panels(n, psi.shape[0], phi.shape[1], phi):
            nx.add_product(gram[rows, :], phi[rows, :], psi)
    return _of_products(gram, x_squares, y_squares, _total(part))


def _total(part) -> float:
    """Return σ², the number of features that vary; at least 1."""
    return max(float(sum(np.count_nonzero(g.moments.inverse) for g in part)), 1.0)


def add_lower_gram(G: Array, phi: Array) -> None:
    """Add φ φᵀ to the lower triangle of G, panel by panel."""
    for rows in _panels(G.shape[0], G.shape[0], phi.shape[1], phi):
        left = slice(0, rows.stop)
        nx.add_product(G[rows, left], phi[rows, :], phi[left, :])


def _panels(n: int, m: int, depth: int, like: Array) -> list[slice]:
    if nx.on_gpu(like):
        return list(row_blocks(n, 1, _PANEL_GPU))
    return list(row_blocks(n, max(m * depth, 1), _PRODUCT_WORK))


def _distances_of_gram(G: Array, squares: Array, total: float) -> Array:
    """Return the distances of a Gram matrix whose lower triangle is defined."""
    for rows in row_blocks(G.shape[0], G.shape[0] * nx.itemsize(G), 2**26):
        left = slice(0, rows.stop)
        part = (squares[rows], squares[left])
        G[rows, left] = _of_products(G[rows, left], *part, total)
    xp = nx.array_namespace(G)
    for rows in row_blocks(G.shape[0], G.shape[0] * nx.itemsize(G), 2**26):
        before = slice(0, rows.start)
        G[before, rows] = G[rows, before].T
        square = xp.tril(G[rows, rows])
        G[rows, rows] = square + xp.tril(square, k=-1).T
    return G


def _of_products(G: Array, x_squares: Array, y_squares: Array, total: float) -> Array:
    """Return (‖x‖² + ‖y‖² − 2 ⟨x, y⟩) / σ², at least zero; may overwrite ``G``."""
    G *= -2 / total
    G += (x_squares / total)[:, None]
    G += (y_squares / total)[None, :]
    return nx.not_negative(G)
