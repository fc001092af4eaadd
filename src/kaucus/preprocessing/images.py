"""Transformers of images: patches, Fourier features, windows, dictionaries."""

import functools
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.fft
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.base import OneToOneFeatureMixin

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.blocks import for_each_block, n_workers, resolve_budget, row_blocks
from kaucus._array.namespace import Array
from kaucus._array.rows import rows_for_device, stream_blocks
from kaucus.kernels._patches import (
    PRECISIONS,
    FilterBank,
    PictureFeatures,
    draw_patches,
    feature_bytes,
    features_of,
    make_filters,
    n_positions,
    pixel_range,
    resolve_precision,
)
from kaucus.preprocessing.rows import RowTransformer, centred_unit_rows

# ----------------------------------------------------------------------------------
# Shapes of flattened images, and the base class of their transformers.
#
# ``image_shape`` names the axes in the order of the flattened row, the last one running
# fastest, so that ``row.reshape(image_shape)`` is the image. The last two axes are
# height and width; axes before them are channels. Rows without a shape have one axis.
# ----------------------------------------------------------------------------------

# Columns of well-known sets of pictures, and the shape of a row.
KNOWN_SHAPES = {784: (28, 28), 1024: (32, 32), 3072: (3, 32, 32)}


def resolve_image_shape(
    image_shape: Sequence[int] | None, n_features: int
) -> tuple[int, ...]:
    """Return the image shape as a tuple, checked against ``n_features``.

    >>> resolve_image_shape([28, 28], 784)
    (28, 28)
    >>> resolve_image_shape(None, 4)
    (4,)
    """
    if image_shape is None:
        return (n_features,)
    is_sequence = isinstance(image_shape, Sequence | np.ndarray)
    shape = tuple(image_shape) if is_sequence else ()
    if not shape or not all(base.is_whole(size) and size > 0 for size in shape):
        raise ValueError(
            f"image_shape={image_shape!r} is not a shape; pass a tuple of positive "
            "integers such as (28, 28) or (3, 32, 32), or None."
        )
    shape = tuple(map(int, shape))
    if math.prod(shape) != n_features:
        product = " * ".join(map(str, shape))
        raise ValueError(
            f"image_shape={image_shape!r} has {product} = {math.prod(shape)} values, "
            f"but X has n_features={n_features}; pass the shape that each row had "
            "before it was flattened, or None for rows that are not images."
        )
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= 8:
        height, width, channels = shape
        nx.warn_user(
            f"image_shape={shape} is read as {height} channels of {width} x "
            f"{channels} pixels. If the channels come last, put them first: "
            f"X.reshape(-1, {height}, {width}, {channels}).transpose(0, 3, 1, 2)"
            f".reshape(len(X), -1), with image_shape={(channels, height, width)}.",
            UserWarning,
        )
    return shape


def resolve_picture_shape(
    image_shape: Sequence[int] | None, n_features: int
) -> tuple[int, int, int]:
    """Return (channels, height, width) of pictures; None is guessed from the columns.

    >>> resolve_picture_shape((28, 28), 784), resolve_picture_shape(None, 3072)
    ((1, 28, 28), (3, 32, 32))
    """
    if image_shape is None and n_features not in KNOWN_SHAPES:
        known = ", ".join(f"{n} ({s})" for n, s in KNOWN_SHAPES.items())
        raise ValueError(
            f"The shape of pictures with n_features={n_features} cannot be guessed "
            f"from X, other than for these numbers of columns: {known}. Pass "
            "image_shape=(height, width) or (channels, height, width)."
        )
    shape = resolve_image_shape(
        KNOWN_SHAPES[n_features] if image_shape is None else image_shape, n_features
    )
    if len(shape) not in (2, 3):
        raise ValueError(
            f"image_shape={image_shape!r} has {len(shape)} axes; pictures need "
            "(height, width) or (channels, height, width)."
        )
    channels, height, width = (1, *shape)[-3:]
    return channels, height, width


def spatial_shape(image_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return height and width, or the one axis that there is."""
    return image_shape[-2:]


def float_dtype(X: Array) -> str:
    """Return the dtype to compute in: float32 for float32, float64 for all others."""
    return "float32" if nx.dtype_name(X) == "float32" else "float64"


class ImageTransformer(RowTransformer):
    """Base of transformers of flattened images: resolves ``image_shape``.

    Attributes
    ----------
    image_shape_ : tuple of int
        The shape in use.
    """

    image_shape: Any

    # What an image's shape is; pictures have three axes, and may leave it to a guess.
    _resolve_shape = staticmethod(resolve_image_shape)

    def _prepare(self, X) -> None:
        self.image_shape_ = self._resolve_shape(self.image_shape, X.shape[1])
        self._prepare_images(X)

    def _prepare_images(self, X) -> None:
        """Store what follows from the shape."""
        raise NotImplementedError

    def _input_names(self, input_features):
        """Return the names of the pixels, checked as scikit-learn does."""
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)


# ----------------------------------------------------------------------------------
# All overlapping patches of images: as a view, in blocks, or side by side.
#
# An image of H × W pixels has (H − h + 1)(W − w + 1) patches of h × w, in the order of
# their upper left corners, row by row. Of an image in colour a patch has all channels,
# and is itself a flattened image of shape (channels, h, w).
# ----------------------------------------------------------------------------------

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

    @base.stored
    def __init__(
        self,
        patch_size: int | Sequence[int] | None = None,
        image_shape: Sequence[int] | None = None,
    ): ...

    def _transform(self, X):
        return _side_by_side(X, self.image_shape_, self._patch_size())

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return names such as ``patch0_0_pixel1_2``: corner and pixel of each output.

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
    if nx.is_tensor(X):
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
        Bytes, or a string such as ``"1GiB"``, for the blocks; None is three quarters
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
    # A loop holds one block while the next one is made.
    budget = resolve_budget(memory_budget, X) // 2
    xp, patch = nx.array_namespace(X), (-1, math.prod(shape[n_axes:]))
    return (
        (rows, xp.reshape(_side_by_side(X[rows, :], image_shape, patch_size), patch))
        for rows in row_blocks(X.shape[0], math.prod(shape) * nx.itemsize(X), budget)
    )


def patch_numbers(
    n_features: int, image_shape: Sequence[int] | None, patch_size: PatchSize = None
) -> np.ndarray:
    """Return the pixel numbers of every patch of an image, as a view.

    Of the shape that :func:`patch_view` gives one image.
    """
    return patch_view(np.arange(n_features)[None, :], image_shape, patch_size)[0]


def _checked_rows(X: Array) -> Array:
    """Return rows as an array of two axes, or raise."""
    X = X if nx.is_tensor(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X of shape {tuple(X.shape)} has {X.ndim} axes, not 2; pass one row per "
            "image, X.reshape(len(X), -1)."
        )
    return X


def _side_by_side(X: Array, image_shape, patch_size) -> Array:
    """Return the patches of each image side by side, (n, ...), a copy."""
    if not nx.is_tensor(X):
        view = patch_view(X, image_shape, patch_size)
        # A copy, also where a reshape would give a view.
        return np.array(view, order="C", copy=True).reshape(len(X), -1)
    numbers = patch_numbers(X.shape[1], image_shape, patch_size).reshape(-1)
    return nx.array_namespace(X).take(X, nx.as_like(numbers, X), axis=1)


def resolve_patch_size(
    patch_size: PatchSize, image_shape: tuple[int, ...], given: str = "patch_size="
) -> tuple[int, ...]:
    """Return the patch size of each spatial axis, checked to fit.

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
        base.is_whole(size) and 1 <= size <= side
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
    """Return the number of patches along each spatial axis.

    >>> patch_grid((28, 28), (25, 25))
    (4, 4)
    """
    sides = spatial_shape(image_shape)
    return tuple(side - size + 1 for side, size in zip(sides, patch, strict=True))


def _indexed(name: str, shape: tuple[int, ...]) -> list[str]:
    return [name + "_".join(map(str, index)) for index in np.ndindex(*shape)]


# ----------------------------------------------------------------------------------
# Features of pictures from a dictionary of their own patches.
# ----------------------------------------------------------------------------------

# Of the budget, for the features of a block of pictures on their way to the result.
_BLOCK_SHARE = 4


class PatchDictionary(ImageTransformer):
    """Responses of pictures to a dictionary of their own patches, pooled over cells.

    Random patches of the training pictures, less their mean, over their contrast, and
    whitened, become filters. The features of a picture are the means of max(z − t, 0)
    and of max(−z − t, 0) of its responses z over a few overlapping cells, to a power.
    Nothing is learned by gradients, and labels are not needed. (Coates, Lee, Ng 2011;
    the square root of the means is ours.)

    Parameters
    ----------
    n_filters : int, default=512
        How many filters, shared out evenly among the sizes of patches. Fewer where the
        pictures have fewer patches.
    patch_sizes : int or sequence of int, default=6
        Side of a patch in pixels, or several of them.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(channels, height, width)``; None: guessed.
        Rows are flattened in that order. Shapes of 784, 1,024 and 3,072 columns are
        guessed.
    dictionary : {"random", "kmeans"}, default="random"
        ``"random"``: patches drawn at random; ``"kmeans"``: centres of k-means of the
        whitened patches, scaled to unit norm.
    threshold : float, default=1.0
        Responses below this t count as zero.
    pooling : int, default=3
        Cells along each side of a picture: 3 gives 9 of them.
    power : float, default=0.5
        What the means are raised to. 0.5 is the square root.
    mirror : bool, default=False
        Whether the means of a picture and of its mirror image are averaged. Right for
        photographs, wrong for digits and letters.
    whitening : float or None, default=0.1
        What is added to the eigenvalues of the patches' covariance; None does not
        whiten.
    device : str, default=None
        None computes where ``X`` lives; ``"cuda"`` computes there, in blocks of
        pictures, and gives results back as the kind of ``X``. Needs torch.
    precision : {"auto", "float64", "float32", "float16"}, default="auto"
        Of the responses; ``"auto"`` is float16 on a GPU and float32 elsewhere. Features
        are float32, or float64 with ``"float64"``.
    memory_budget : int or str, default=None
        Bytes, or a string such as ``"4GiB"``, for all but the result; None is three
        quarters of what is free.
    random_state : int, RandomState or Generator, default=None
        Draws the patches.
    verbose : int, default=0
        1 prints the shape of the pictures, where it is guessed.

    Attributes
    ----------
    image_shape_ : tuple of int
        (channels, height, width).
    filters_ : list of ndarray of shape (n_filters, channels, size, size)
        The filters of each size of patches: whitened patches, whitened again, less
        their means.
    biases_ : list of ndarray of shape (n_filters,)
        What is added to the responses.
    pixel_range_ : tuple of float
        Smallest and largest pixel of the training pictures, by which all are scaled.

    See Also
    --------
    kaucus.PatchKernelClassifier : A kernel of these features that never makes them all.
    ImagePatches : The patches themselves, side by side.

    Notes
    -----
    2 · pooling² · n_filters features. For each picture about
    H W c p² n_filters multiplications; twice that with ``mirror``. Pixels of any range
    give the same features: what is added to variances is 10 for pixels from 0 to 255.

    References
    ----------
    A. Coates, H. Lee, A. Y. Ng, "An analysis of single-layer networks in unsupervised
    feature learning", AISTATS (2011).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kaucus.preprocessing import PatchDictionary
    >>> X, y = load_digits(return_X_y=True)
    >>> patches = PatchDictionary(64, 3, image_shape=(8, 8), random_state=0)
    >>> patches.fit_transform(X[:1000]).shape
    (1000, 1152)
    >>> model = make_pipeline(patches, StandardScaler(), RidgeClassifier(1000))
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.95
    True
    """

    _dask_fit = None  # filters are made of the pictures themselves
    _resolve_shape = staticmethod(resolve_picture_shape)
    _parameters: ClassVar = {
        "n_filters": base.count(),
        "dictionary": base.one_of("random", "kmeans"),
        "threshold": base.NOT_NEGATIVE,
        "pooling": base.count(),
        "power": base.Constraint(
            lambda value: 1e-3 <= base.as_float(value) < math.inf,
            "a positive number, 0.001 or more",
        ),
        "mirror": base.BOOLEAN,
        "whitening": (base.POSITIVE | base.NONE).advise(
            "Try 0.1; None does not whiten."
        ),
        "precision": base.one_of(*PRECISIONS),
    }

    @base.stored
    def __init__(
        self,
        n_filters: int = 512,
        patch_sizes: int | Sequence[Any] = 6,
        *,
        image_shape: Sequence[int] | None = None,
        dictionary: Literal["random", "kmeans"] = "random",
        threshold: float = 1.0,
        pooling: int = 3,
        power: float = 0.5,
        mirror: bool = False,
        whitening: float | None = 0.1,
        device: str | None = None,
        precision: Literal["auto", "float64", "float32", "float16"] = "auto",
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y=None) -> Self:
        """Draw patches of the pictures and make filters of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each row is a flattened picture, of numbers of any type.
        y : None
            Ignored.

        Returns
        -------
        self : PatchDictionary
        """
        return super().fit(X, y)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Name the output by cell, filter and the sign of its responses.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the pixels; they are checked, and not used.

        Returns
        -------
        ndarray of str
            Such as ``size6_cell0_2_filter17_positive``.
        """
        self._input_names(input_features)
        cells = [f"cell{i}_{j}" for i, j in np.ndindex(self.pooling, self.pooling)]
        names = []
        for filters in self.filters_:
            numbers = [f"filter{k}" for k in range(filters.shape[0])]
            parts = itertools.product(cells, ("positive", "negative"), numbers)
            size = f"size{filters.shape[2]}"
            names += [f"{size}_{cell}_{k}_{sign}" for cell, sign, k in parts]
        return np.array(names, dtype=object)

    def _prepare_images(self, X):
        resolve_precision(self.precision, nx.to_device(X[:1, :], self.device))
        check_pictures(X, self.image_shape_, self.patch_sizes, self.pooling)
        if self.verbose and self.image_shape is None:
            print(
                f"[kaucus] {X.shape[1]} columns are taken as pictures of shape "
                f"{self.image_shape_}; pass image_shape for another.",
                file=sys.stderr,
            )
        self.pixel_range_ = pixel_range(X)
        banks = self._make_banks(X)
        self.filters_ = [nx.as_like(bank.filters, X) for bank in banks]
        self.biases_ = [nx.as_like(bank.bias, X) for bank in banks]

    def _make_banks(self, X) -> list[FilterBank]:
        """Return the filters of every size of patches, ``n_filters`` in all."""
        shape, rng = self.image_shape_, base.generator_from(self.random_state)
        sizes = [resolve_patch_size(size, shape) for size in sizes_of(self.patch_sizes)]
        edges = [self.n_filters * k // len(sizes) for k in range(len(sizes) + 1)]
        banks = []
        for (p, q), (start, stop) in zip(sizes, itertools.pairwise(edges), strict=True):
            seed, n = int(rng.integers(2**31)), max(stop - start, 1)
            patches = draw_patches(X, shape, (p, q), self.pixel_range_, n, rng)
            centres = None
            if self.dictionary == "kmeans":
                centres = functools.partial(_kmeans_centres, seed)
            options = {"ridge": self.whitening, "rng": rng, "centres": centres}
            banks.append(make_filters(patches, n, (shape[0], p, q), **options))
        return banks

    def _transform(self, X):
        rows = rows_for_device(X, self.device, self.memory_budget)
        how = PictureFeatures.of(self, resolve_precision(self.precision, rows))
        banks, xp = banks_of(self), nx.array_namespace(X)
        budget = resolve_budget(self.memory_budget, rows) // _BLOCK_SHARE
        n_bytes = sum(feature_bytes(self.pooling, len(b.bias), how) for b in banks)
        blocks = list(row_blocks(X.shape[0], n_bytes, budget))
        shape = (X.shape[0], n_bytes // np.dtype(how.dtype).itemsize)
        out = xp.empty(shape, dtype=getattr(xp, how.dtype), device=nx.device_of(X))
        for block, pictures in zip(blocks, stream_blocks(rows, blocks), strict=True):
            start = 0
            for bank in banks:
                part = features_of(pictures, how, bank, self.pooling, budget=budget)
                stop = start + part.shape[1]
                out[block, start:stop] = nx.as_like(part, X)
                start = stop
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # pictures are whole numbers
        return tags


def banks_of(dictionary: PatchDictionary) -> list[FilterBank]:
    """Return the filters of each size of patches, on the host."""
    pairs = zip(dictionary.filters_, dictionary.biases_, strict=True)
    return [FilterBank(nx.to_numpy(f), nx.to_numpy(b)) for f, b in pairs]


def sizes_of(patch_sizes) -> list:
    """Return the sizes of patches as a list."""
    several = isinstance(patch_sizes, Sequence | np.ndarray)
    return list(patch_sizes) if several else [patch_sizes]


def check_pictures(X: Array, shape, patch_sizes, n_cells: int) -> None:
    """Check that there are two pictures or more, large enough for patches and cells."""
    if X.shape[0] < 2:
        raise ValueError(
            f"X has {X.shape[0]} picture (n_samples = 1); a dictionary of patches and "
            "the spread of features need at least 2. Pass more rows."
        )
    if shape[1] * shape[2] == 1:
        raise ValueError(
            f"X has n_features={X.shape[1]}: pictures of one pixel have no patches. "
            "Check image_shape."
        )
    sizes = sizes_of(patch_sizes)
    if not sizes:
        raise ValueError(f"patch_sizes={patch_sizes!r} is empty; pass 6, or (4, 6, 9).")
    for size in sizes:
        patch = resolve_patch_size(size, shape, "patch_sizes has ")
        positions = n_positions(shape, (patch[0], patch[1]))
        if min(positions) < n_cells:
            raise ValueError(
                f"pooling={n_cells} cells along each side do not fit: pictures of "
                f"{shape[1]} x {shape[2]} pixels (n_features={math.prod(shape)}) have "
                f"{positions[0]} x {positions[1]} patches of {patch[0]} x {patch[1]}. "
                "Use fewer cells or smaller patches."
            )


def _kmeans_centres(seed: int, rows: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return centres of unit rows, by scikit-learn's k-means."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(n_clusters, n_init=1, random_state=seed)
    return model.fit(np.asarray(rows, dtype=np.float32)).cluster_centers_


# ----------------------------------------------------------------------------------
# Images together with the modulus of their Fourier transform.
#
# Steps (15)-(20) of Andrecut (2020), which are (69)-(75) of Andrecut (2016), for each
# row x:
#
#     x ← x − ⟨x⟩,    f ← |FFT(x)|^p,    f ← f − ⟨f⟩,
#     x ← x / ‖x‖,    f ← f / ‖f‖,       x ← [x, f] / √2,    p = 1/2.
#
# Here x is scaled before it is transformed: f only changes by a factor, which its own
# scaling takes away, and no power of large values can overflow.
# ----------------------------------------------------------------------------------

# Work on pieces that stay in a CPU's cache; larger ones bring nothing.
_BLOCK_BYTES = 8 * 2**20
# A GPU has no such cache, and wants to be filled.
_TENSOR_BYTES = 256 * 2**20


class FourierFeatures(ImageTransformer):
    """Append the modulus of its Fourier transform to each image.

    The modulus does not change when an image is shifted (around its edges), so that
    a kernel of these features sees what is in the image as well as where it is.
    With ⟨·⟩ the mean over a row and p the ``power``,

        x ← x − ⟨x⟩,    f ← |FFT(x)|^p,    f ← f − ⟨f⟩,

        x ← x / ‖x‖,    f ← f / ‖f‖,       x ← [x, f] / √2

    (Andrecut 2020, eq. 15-20; 2016, eq. 69-75.) Rows of the result have zero mean and
    unit norm: :class:`UnitNormalizer` is not needed. The transform of a real image
    is symmetric, so only the first half is kept: the first ⌈w/2⌉ of the w frequencies
    of the last axis. 784 pixels become 784 + 392 = 1176 features.

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        Shape of an image, in the order of the flattened row, height and width last:
        ``(28, 28)``, or ``(3, 32, 32)`` for three colour planes one after another.
        None: rows have a single axis.
    fft : {"nd", "2d", "1d"}, default="nd"
        Which Fourier transform: ``"nd"`` is over all axes, across the channels too;
        ``"2d"`` over height and width, each channel by itself; ``"1d"`` over the
        whole flattened row. For grey images ``"nd"`` and ``"2d"`` are the same.
    power : float, default=0.5
        The modulus is raised to it. Below 1, strong frequencies count for less.
    concatenate : bool, default=True
        Put the image before its spectrum, eq. 20. False gives f alone, eq. 19.

    Attributes
    ----------
    spectrum_shape_ : tuple of int
        Shape of the part of the spectrum that is kept.

    See Also
    --------
    GaussianWindow : Attenuates the border, which the papers do before this.
    UnitNormalizer : The first and third step for the image alone.

    Notes
    -----
    The papers do not say which transform they take. Measured: the test error in
    per cent of an exact LS-SVM with a polynomial kernel of degree 4.

    ===========================  ======  =====  =======  =====  =======  =====
    data                         pixels  1d     1d, p=1  2d     2d, p=1  nd
    ===========================  ======  =====  =======  =====  =======  =====
    MNIST, C=1e4                 1.17    1.07   1.00     1.06   0.97     as 2d
    CIFAR-10 in a window, C=10   41.76   33.76           35.45  36.3     33.75
    ===========================  ======  =====  =======  =====  =======  =====

    Columns without p have the papers' p = 1/2. So ``power=1`` is better for digits, the
    square root for photographs; and for colour, a transform across the channels is
    better than one of each channel.

    A constant row has no direction and becomes zero. float32 rows give float32, all
    others float64. Working memory does not grow with the number of rows; d pixels cost
    O(d log d) per row.

    References
    ----------
    M. Andrecut, "K-Means Kernel Classifier", 2020, eq. 15-20.

    M. Andrecut, "Randomized Kernel Methods for Least-Squares Support Vector Machines",
    Int. J. Mod. Phys. C 28(2), 2017 (preprint 2016), eq. 69-75.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import FourierFeatures
    >>> images = np.random.default_rng(0).random((5, 28, 28))
    >>> X = images.reshape(5, 784)
    >>> fourier = FourierFeatures(image_shape=(28, 28)).fit(X)
    >>> fourier.transform(X).shape
    (5, 1176)
    >>> fourier.spectrum_shape_
    (28, 14)

    The spectrum of a shifted image is the same:

    >>> shifted = np.roll(images, 3, axis=2).reshape(5, 784)
    >>> spectra = [fourier.transform(rows)[:, 784:] for rows in (X, shifted)]
    >>> np.allclose(*spectra)
    True
    """

    to_onnx = base.to_onnx

    _parameters: ClassVar = {
        "fft": base.one_of("1d", "2d", "nd").advise(
            "Use '1d' for the flattened row, '2d' for height and width, 'nd' for all."
        ),
        "power": base.POSITIVE.advise(
            "Use 0.5 for the square root of the modulus, 1.0 for the modulus itself."
        ),
        "concatenate": base.BOOLEAN.advise(
            "Use True for images with their spectra, False for spectra alone."
        ),
    }

    @base.stored
    def __init__(
        self,
        image_shape: Sequence[int] | None = None,
        *,
        fft: Literal["1d", "2d", "nd"] = "nd",
        power: float = 0.5,
        concatenate: bool = True,
    ): ...

    def _transform(self, X):
        names = ("fft", "power", "concatenate")
        options = {name: getattr(self, name) for name in names}
        return fourier_features(X, self.image_shape_, **options)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Name the output: the pixels, then ``fourier`` with the frequencies.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the pixels; None takes those seen in ``fit``, or x0, x1, ...

        Returns
        -------
        ndarray of str
        """
        pixels = self._input_names(input_features)
        kept = list(pixels) if self.concatenate else []
        frequencies = np.ndindex(*self.spectrum_shape_)
        spectrum = ["fourier" + "_".join(map(str, index)) for index in frequencies]
        return np.array(kept + spectrum, dtype=object)

    def _prepare_images(self, X):
        self.spectrum_shape_ = spectrum_shape(self.image_shape_, self.fft)


def spectrum_shape(image_shape: tuple[int, ...], fft: str) -> tuple[int, ...]:
    """Return the shape of the first half of the spectrum.

    >>> spectrum_shape((28, 28), "1d"), spectrum_shape((28, 28), "2d")
    ((392,), (28, 14))
    """
    shape = (math.prod(image_shape),) if fft == "1d" else image_shape
    return (*shape[:-1], math.ceil(shape[-1] / 2))


def fourier_modulus(
    X: Array, image_shape: tuple[int, ...], *, fft: str = "nd", power: float = 0.5
) -> Array:
    """Return |FFT(x)|^power of each row, the first half, eq. (16).

    Of shape (n, prod(spectrum_shape(image_shape, fft))), in the precision of ``X``.
    """
    if fft == "1d":
        image_shape = (X.shape[1],)
    n_axes = len(spatial_shape(image_shape)) if fft == "2d" else len(image_shape)
    half = spectrum_shape(image_shape, fft)[-1]
    xp = nx.array_namespace(X)
    images = xp.reshape(X, (X.shape[0], *image_shape))
    rfftn = scipy.fft.rfftn if nx.is_numpy(X) else xp.fft.rfftn  # the faster one
    # A real transform computes w // 2 + 1 frequencies of w: for even w one too many.
    F = rfftn(images, axes=tuple(range(-n_axes, 0)))[..., :half]
    f = xp.reshape(xp.abs(F), (X.shape[0], -1))
    f **= power
    return f


def fourier_features(
    X: Array,
    image_shape: tuple[int, ...],
    *,
    fft: str = "nd",
    power: float = 0.5,
    concatenate: bool = True,
    block_bytes: int | None = None,
) -> Array:
    """Return [x, f] / √2, or f, of each row: eq. (15)-(20), block by block."""
    d, n_frequencies = X.shape[1], math.prod(spectrum_shape(image_shape, fft))
    dtype = float_dtype(X)
    one_transform = fft != "2d" or math.prod(image_shape[:-2]) == 1
    xp, shape = nx.array_namespace(X), (X.shape[0], d * concatenate + n_frequencies)
    out = xp.empty(shape, dtype=getattr(xp, dtype), device=nx.device_of(X))
    if block_bytes is None:
        block_bytes = _BLOCK_BYTES if nx.is_numpy(X) else _TENSOR_BYTES

    def fill(rows: slice) -> None:
        x = centred_unit_rows(nx.astype(X[rows, :], dtype))  # (15), (18)
        f = fourier_modulus(x, image_shape, fft=fft, power=power)  # (16)
        if one_transform:
            # Zero, as the mean is off; a small power would magnify the rounding.
            f[:, 0] = 0
        f = centred_unit_rows(f)  # (17), (19)
        if concatenate:  # (20)
            x *= math.sqrt(0.5)
            f *= math.sqrt(0.5)
            out[rows, :d] = x
        out[rows, d * concatenate :] = f

    # x twice, the complex transform, its modulus twice: about six rows of pixels.
    blocks = row_blocks(X.shape[0], 6 * d * nx.itemsize(out), block_bytes)
    for_each_block(fill, blocks, workers=n_workers(X))
    return out


# ----------------------------------------------------------------------------------
# A Gaussian window that attenuates the border of images.
# ----------------------------------------------------------------------------------


class GaussianWindow(OneToOneFeatureMixin, ImageTransformer):
    """Multiply each image by a Gaussian window around its middle.

    Pixel (i, j) of each channel of height H and width W is multiplied by

        Gᵢⱼ = exp(−c [(i/H − 1/2)² + (j/W − 1/2)²]),    i = 1..H,  j = 1..W,

    which keeps the middle of the image, where its object supposedly is, and
    attenuates the border. For square images, H = W = L, this is eq. 76 of Andrecut
    (2016), whose constant is c / L²; the best one there was 4 / L².

    Parameters
    ----------
    image_shape : tuple of int or None, default=None
        Shape of an image, in the order of the flattened row, height and width last:
        ``(28, 28)``, or ``(3, 32, 32)`` for three colour planes one after another,
        each of which gets the same window. None: rows have a single axis.
    c : float, default=4.0
        How narrow the window is, in units of one over the squared side. 0 changes
        nothing; with 4 the corners keep exp(−2) = 14 %.

    Attributes
    ----------
    window_ : ndarray of shape (H, W)
        The factors G; of shape (n_features,) for rows with a single axis.

    See Also
    --------
    FourierFeatures : What the paper does after the window.
    UnitNormalizer : The alternative to that.

    Notes
    -----
    The indices run from 1 as printed, so that the largest factor, 1, is at pixel
    (H/2, W/2), half a pixel above and left of the true middle. The paper prints
    square images only; that each axis is measured by its own length is ours.

    Apply it before the mean is subtracted, as the paper does. float32 rows give
    float32, all others float64.

    References
    ----------
    M. Andrecut, "Randomized Kernel Methods for Least-Squares Support Vector Machines",
    Int. J. Mod. Phys. C 28(2), 2017 (preprint 2016), eq. 76.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import GaussianWindow
    >>> window = GaussianWindow(image_shape=(4, 4)).fit(np.ones((1, 16)))
    >>> window.transform(np.ones((1, 16))).reshape(4, 4).round(2)
    array([[0.61, 0.78, 0.61, 0.29],
           [0.78, 1.  , 0.78, 0.37],
           [0.61, 0.78, 0.61, 0.29],
           [0.29, 0.37, 0.29, 0.14]])

    The paper's images in colour, ready for a kernel machine:

    >>> from sklearn.pipeline import make_pipeline
    >>> from kaucus.preprocessing import FourierFeatures
    >>> shape = (3, 32, 32)
    >>> chain = make_pipeline(GaussianWindow(shape), FourierFeatures(shape))
    >>> chain.fit_transform(np.random.default_rng(0).random((2, 3072))).shape
    (2, 4608)
    """

    to_onnx = base.to_onnx

    _parameters: ClassVar = {
        "c": base.NOT_NEGATIVE.advise(
            "Use 4 for the paper's window, less for a wider one, 0 for none."
        )
    }

    @base.stored
    def __init__(self, image_shape: Sequence[int] | None = None, c: float = 4.0): ...

    def _transform(self, X):
        xp, dtype = nx.array_namespace(X), float_dtype(X)
        window = nx.as_like(self.window_, X, dtype=dtype)
        images = xp.reshape(nx.astype(X, dtype), (X.shape[0], -1, *window.shape))
        return xp.reshape(images * window, X.shape)

    def _prepare_images(self, X):
        window = np.ones(())  # exp(−c Σ (iₐ/Lₐ − 1/2)²), iₐ = 1..Lₐ over the axes a
        for size in spatial_shape(self.image_shape_):
            position = np.arange(1, size + 1) / size - 0.5
            window = window[..., None] * np.exp(-self.c * position**2)
        self.window_ = nx.as_like(window, X)
