"""Standardised features of pictures, of some filters at a time."""

import itertools
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    itemsize,
    on_gpu,
    row_blocks,
    to_numpy,
)
from kaucus.pictures import FilterBank, PictureFeatures, feature_bytes

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
        """Return both for some filters, in the order of their features."""
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
    """Features of the pictures of a model, kept from one prediction to the next.

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
        """Tell whether there are any, in the library and place of ``X``."""
        if self.parts is None:
            return False
        one = self.parts[0][0][2]
        same = array_namespace(one) is array_namespace(X)
        return same and device_of(one) == device_of(X)

    def n_bytes(self) -> int:
        """Return the bytes that they take."""
        blocks = itertools.chain.from_iterable(self.parts or [])
        return sum(phi.shape[0] * phi.shape[1] * itemsize(phi) for *_, phi in blocks)

    def __getstate__(self) -> dict:
        return {"parts": None, "pictures": None, "n_rows": 0}


def filter_blocks(
    group: FilterGroup, how: PictureFeatures, n_rows: int, budget: int, like: Array
) -> list[slice]:
    """Return the blocks of filters whose features are made at a time."""
    most = _FEATURE_BYTES_GPU if on_gpu(like) else _FEATURE_BYTES_CPU
    one = n_rows * feature_bytes(group.n_cells, 1, how)
    height = max(min(most, budget // 2) // one, 1)
    n, n_blocks = group.n_filters, -(-group.n_filters // height)
    edges = [n * k // n_blocks for k in range(n_blocks + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def moments_of(
    phi: Array, n_cells: int, sample_weight: np.ndarray | None = None
) -> Moments:
    """Return the moments of features, (n, cells · 2 · m), summed in float64."""
    xp, n = array_namespace(phi), phi.shape[0]
    weight, total = sample_weight, n
    if weight is not None:
        weight, total = as_like(weight, phi, dtype=dtype_name(phi)), weight.sum()
    sums = squares = 0.0
    first = phi[:1, :]  # near the mean: squares keep their digits
    for rows in row_blocks(n, 1, _SUM_ROWS):
        shifted = phi[rows, :] - first
        counted = shifted if weight is None else shifted * weight[rows, None]
        sums = sums + astype(xp.sum(counted, axis=0), "float64")
        squares = squares + astype(xp.sum(counted * shifted, axis=0), "float64")
    mean = to_numpy(sums / total)
    variance = to_numpy(squares / total) - mean**2
    constant = variance <= 1e-12 + 1e-6 * mean**2
    inverse = np.where(constant, 0.0, np.where(constant, 1.0, variance) ** -0.5)
    shape = (n_cells**2, 2, -1)
    mean = (mean + to_numpy(first)[0]).reshape(shape)
    inverse = inverse.reshape(shape)
    return Moments(mean.astype(np.float32), inverse.astype(np.float32))


def standardise(phi: Array, mean: np.ndarray, inverse: np.ndarray) -> Array:
    """Return features less their means, over their deviations, in the same memory."""
    phi -= as_like(mean, phi, dtype=dtype_name(phi))
    phi *= as_like(inverse, phi, dtype=dtype_name(phi))
    return phi


def feature_norms(phi: Array) -> Array:
    """Return the squared norms of features, (n,)."""
    xp = array_namespace(phi)
    blocks = row_blocks(phi.shape[0], 1, _SUM_ROWS)
    return xp.concat([xp.sum(phi[rows, :] ** 2, axis=1) for rows in blocks])
