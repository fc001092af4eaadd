"""Filters that are whitened patches of the pictures themselves.

A patch p is taken less its mean and divided by its contrast,

    p̂ = (p − mean) / √(var + ε),

and whitened by W = V (Λ + λ)^−½ Vᵀ, with μ and V Λ Vᵀ the mean and the covariance of
many p̂. The dictionary D has whitened patches of unit norm as rows. The response of a
patch is z = D W (p̂ − μ): one convolution with the filters D W less their means, divided
by the local contrast, plus a constant.

Reference: A. Coates, H. Lee, A. Y. Ng, "An analysis of single-layer networks in
unsupervised feature learning", AISTATS (2011).
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    itemsize,
    patch_rows,
    take_rows,
    to_numpy,
)

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
    xp = array_namespace(X)
    found = PixelRange(float(xp.min(X)), float(xp.max(X)))
    if found.length <= 0:
        raise ValueError(
            f"All pixels of X are {found.low:g}: pictures that are constant have no "
            "patches to compare. Check how X was made."
        )
    if not _SMALLEST < found.length < _LARGEST or max(map(abs, found)) > _LARGEST:
        raise ValueError(
            f"The pixels of X are from {found.low:g} to {found.high:g}, which float32 "
            "cannot tell apart. Divide X by a number that brings them near 1."
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
    """Return patches of random pictures, (n, c · p · q), scaled by the range.

    Parameters
    ----------
    X : array of shape (n, c · H · W)
        Read for the pictures drawn alone.
    shape : (c, H, W)
    size : (p, q)
    pixels : PixelRange
    n_filters : int
        How many filters will be made of them.
    rng : Generator
    """
    numbers = patch_rows(np.arange(X.shape[1]).reshape(1, *shape), size)[0]
    most = min(_PICTURES, max(_PICTURE_BYTES // (itemsize(X) * X.shape[1]), 1))
    drawn = rng.permutation(X.shape[0])[:most]
    rows = to_numpy(take_rows(X, np.sort(drawn)))
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
    """Return filters that are whitened patches, or centres of them.

    Parameters
    ----------
    patches : array of shape (n, d)
        As :func:`draw_patches` gives them.
    n_filters : int
        How many; fewer where there are not so many patches.
    patch_shape : (c, p, q)
    ridge : float or None
        λ, what is added to the eigenvalues of the covariance; None does not whiten.
    rng : Generator
    centres : callable, default=None
        Takes unit rows, and how many centres of them to return; None takes patches at
        random.
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
    """Return rows of norm one; rows of zeros as they are."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)
