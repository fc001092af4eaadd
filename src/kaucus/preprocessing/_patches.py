"""All overlapping patches of images: as a view, in blocks, or side by side.

An image of H × W pixels has (H − h + 1)(W − w + 1) patches of h × w, in the order of
their upper left corners, row by row. Of an image in colour a patch has all channels,
and is itself a flattened image of shape (channels, h, w).
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    is_tensor,
    itemsize,
    resolve_budget,
    row_blocks,
)
from kaucus.preprocessing._images import (
    ImageTransformer,
    is_integer,
    resolve_image_shape,
    spatial_shape,
)

PatchSize = int | Sequence[int] | None


class ImagePatches(ImageTransformer):
    """Lay all overlapping patches of each image side by side.

    An image of L × L pixels has (L − ℓ + 1)² patches of ℓ × ℓ; each becomes ℓ²
    features (times the channels), in the order of the flattened image. (Andrecut
    2020, Section 4, where ℓ = 25 gives 16 patches of each digit.)

    A transformer gives one row per sample. For one row per patch, reshape the result
    to ``(-1, patch_values)``, or take the patches from :func:`iter_patches`, which
    never holds them all, or :func:`patch_view`, which copies nothing.

    Parameters
    ----------
    patch_size : int, tuple of int or None, default=None
        Height and width ℓ of a patch in pixels, or a pair of both. None: nine tenths
        of each side, rounded, which is 25 of 28 as in the paper.
    image_shape : tuple of int or None, default=None
        Shape of an image, in the order of the flattened row, height and width last:
        ``(28, 28)``, or ``(3, 32, 32)`` for three colour planes one after another.
        None: rows have a single axis, and patches are pieces of it.

    Attributes
    ----------
    patch_shape_ : tuple of int
        Shape of one patch, channels first: ``(25, 25)``, or ``(3, 25, 25)``.
    n_patches_ : int
        How many patches an image has.

    See Also
    --------
    iter_patches : Patches as rows, in blocks within a memory budget.
    patch_view : Patches without a copy.
    sklearn.feature_extraction.image.PatchExtractor : Random patches, one row each.

    Notes
    -----
    The paper prints i, j = 1..L − ℓ, which would be 9 patches for ℓ = 25; its 16, and
    its 960,000 training patches, are those of i, j = 0..L − ℓ. It stacks the columns
    of a patch where this stacks the rows: no inner product or distance sees that.

    The result is a copy in the type of ``X``, of n_samples · n_patches · patch_values
    numbers: all patches of the 60,000 digits in float32 are 2.4 GB.

    References
    ----------
    M. Andrecut, "K-Means Kernel Classifier", 2020, Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import ImagePatches
    >>> X = np.arange(9).reshape(1, 9)
    >>> patches = ImagePatches(patch_size=2, image_shape=(3, 3)).fit(X)
    >>> patches.transform(X).reshape(patches.n_patches_, -1)
    array([[0, 1, 3, 4],
           [1, 2, 4, 5],
           [3, 4, 6, 7],
           [4, 5, 7, 8]])
    >>> patches.get_feature_names_out()[5]
    'patch0_1_pixel0_1'
    """

    def __init__(self, patch_size=None, image_shape=None):
        self.patch_size = patch_size
        self.image_shape = image_shape

    def _transform(self, X):
        return _side_by_side(X, self.image_shape_, self._patch_size())

    def get_feature_names_out(self, input_features=None):
        """Name the output: ``patch`` with its corner, ``pixel`` with its place in it.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the pixels; they are checked, and not used.

        Returns
        -------
        ndarray of str
            Such as ``patch0_1_pixel3_4``; in colour ``patch0_1_channel2_pixel3_4``.
        """
        self._input_names(input_features)
        patch = self._patch_size()
        channels = self.patch_shape_[: -len(patch)]
        parts = [
            _indexed("patch", patch_grid(self.image_shape_, patch)),
            *([_indexed("channel", channels)] if channels else []),
            _indexed("pixel", patch),
        ]
        names = ["_".join(name) for name in itertools.product(*parts)]
        return np.array(names, dtype=object)

    def _patch_size(self):
        return spatial_shape(self.patch_shape_)

    def _prepare_images(self, X):
        patch = resolve_patch_size(self.patch_size, self.image_shape_)
        self.patch_shape_ = self.image_shape_[: -len(patch)] + patch
        self.n_patches_ = math.prod(patch_grid(self.image_shape_, patch))


def patch_view(
    X: np.ndarray, image_shape: Sequence[int] | None, patch_size: PatchSize = None
) -> np.ndarray:
    """View rows as their overlapping patches, without a copy.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows that are flattened images, of any type and memory layout.
    image_shape : tuple of int or None
        Shape of an image, height and width last, as in :class:`ImagePatches`.
    patch_size : int, tuple of int or None, default=None
        Height and width of a patch, as in :class:`ImagePatches`.

    Returns
    -------
    ndarray of shape (n, H - h + 1, W - w + 1, [channels,] h, w)
        Read-only, in the memory of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import patch_view
    >>> patch_view(np.zeros((60, 784)), (28, 28), 25).shape
    (60, 4, 4, 25, 25)
    """
    if is_tensor(X):
        raise TypeError(
            f"patch_view shows the memory of NumPy arrays, X is a {type(X).__name__}; "
            "iter_patches and ImagePatches copy patches of tensors."
        )
    X = _checked_rows(X)
    shape = resolve_image_shape(image_shape, X.shape[1])
    patch = resolve_patch_size(patch_size, shape)
    n_axes, n_channels = len(patch), len(shape) - len(patch)
    images = X.reshape(len(X), *shape)  # splits one axis: never a copy
    view = sliding_window_view(images, patch, axis=tuple(range(-n_axes, 0)))
    # (n, channels, grid, patch) -> (n, grid, channels, patch)
    channels = range(1, 1 + n_channels)
    return np.moveaxis(view, channels, [axis + n_axes for axis in channels])


def iter_patches(
    X: Array,
    image_shape: Sequence[int] | None,
    patch_size: PatchSize = None,
    *,
    memory_budget: int | str | None = None,
) -> Iterator[tuple[slice, Array]]:
    """Yield the patches as rows, in blocks of samples within a memory budget.

    Parameters
    ----------
    X : ndarray or tensor of shape (n, d)
        Rows that are flattened images.
    image_shape : tuple of int or None
        Shape of an image, height and width last, as in :class:`ImagePatches`.
    patch_size : int, tuple of int or None, default=None
        Height and width of a patch, as in :class:`ImagePatches`.
    memory_budget : int, str or None, default=None
        Bytes, or a text such as ``"1GiB"``, for the blocks; None is three quarters
        of what is free. The patches of one sample are never split.

    Yields
    ------
    rows : slice
        Which samples the block is of.
    patches : ndarray or tensor of shape (m * n_patches, patch_values)
        Their patches, sample by sample: a copy, in the type of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import iter_patches
    >>> X = np.zeros((60, 784), dtype=np.float32)
    >>> for rows, patches in iter_patches(X, (28, 28), 25, memory_budget="2MiB"):
    ...     print(rows, patches.shape)
    slice(0, 26, None) (416, 625)
    slice(26, 52, None) (416, 625)
    slice(52, 60, None) (128, 625)
    """
    X = _checked_rows(X)
    n_axes = len(spatial_shape(resolve_image_shape(image_shape, X.shape[1])))
    shape = patch_numbers(X.shape[1], image_shape, patch_size).shape
    n_values = math.prod(shape[n_axes:])
    bytes_per_row = math.prod(shape) * itemsize(X)
    # A loop holds one block while the next one is made.
    budget = resolve_budget(memory_budget, X) // 2
    xp = array_namespace(X)
    return (
        (
            rows,
            xp.reshape(
                _side_by_side(X[rows, :], image_shape, patch_size), (-1, n_values)
            ),
        )
        for rows in row_blocks(X.shape[0], bytes_per_row, budget)
    )


def patch_numbers(
    n_features: int, image_shape: Sequence[int] | None, patch_size: PatchSize = None
) -> np.ndarray:
    """Return which pixels the patches of an image have: a view of their numbers.

    Of the shape that :func:`patch_view` gives one image.
    """
    return patch_view(np.arange(n_features)[None, :], image_shape, patch_size)[0]


def _checked_rows(X: Array) -> Array:
    """Return rows as an array of two axes, or raise."""
    X = X if is_tensor(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X of shape {tuple(X.shape)} has {X.ndim} axes, not 2; pass one row per "
            "image, X.reshape(len(X), -1)."
        )
    return X


def _side_by_side(X: Array, image_shape, patch_size) -> Array:
    """Return the patches of each image side by side, (n, ...), a copy."""
    if not is_tensor(X):
        return _copy(patch_view(X, image_shape, patch_size)).reshape(len(X), -1)
    numbers = patch_numbers(X.shape[1], image_shape, patch_size).reshape(-1)
    return array_namespace(X).take(X, as_like(numbers, X), axis=1)


def resolve_patch_size(
    patch_size: PatchSize, image_shape: tuple[int, ...], given: str = "patch_size="
) -> tuple[int, ...]:
    """Return the patch's length on each spatial axis, or raise when it does not fit.

    ``given`` is how the error names the size.

    >>> resolve_patch_size(None, (28, 28)), resolve_patch_size(5, (3, 32, 32))
    ((25, 25), (5, 5))
    """
    sides = spatial_shape(image_shape)
    if patch_size is None:
        return tuple(max(1, round(0.9 * side)) for side in sides)
    is_pair = isinstance(patch_size, Sequence | np.ndarray)
    sizes = tuple(patch_size) if is_pair else (patch_size,) * len(sides)
    fits = len(sizes) == len(sides) and all(
        is_integer(size) and 1 <= size <= side
        for size, side in zip(sizes, sides, strict=True)
    )
    if not fits:
        image = " x ".join(map(str, sides))
        raise ValueError(
            f"{given}{patch_size!r} is not a patch size for images of {image} "
            f"pixels (image_shape={image_shape}); pass an integer from 1 to "
            f"{min(sides)}, or one for each of these sides."
        )
    return tuple(int(size) for size in sizes)


def patch_grid(image_shape: tuple[int, ...], patch: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many patches there are along each spatial axis.

    >>> patch_grid((28, 28), (25, 25))
    (4, 4)
    """
    sides = spatial_shape(image_shape)
    return tuple(side - size + 1 for side, size in zip(sides, patch, strict=True))


def _copy(view: np.ndarray) -> np.ndarray:
    """Return a contiguous copy, also where a reshape would give a view."""
    return np.array(view, order="C", copy=True)


def _indexed(name: str, shape: tuple[int, ...]) -> list[str]:
    return [name + "_".join(map(str, index)) for index in np.ndindex(*shape)]
