"""Shapes of flattened images, and the base class of their transformers.

``image_shape`` names the axes in the order of the flattened row, the last one running
fastest, so that ``row.reshape(image_shape)`` is the image. The last two axes are
height and width; axes before them are channels. Rows without a shape have one axis.
"""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from kaucus.backend import Array, dtype_name, warn_user
from kaucus.preprocessing._rows import RowTransformer

# Columns of well-known sets of pictures, and the shape of a row.
KNOWN_SHAPES = {784: (28, 28), 1024: (32, 32), 3072: (3, 32, 32)}


def resolve_image_shape(
    image_shape: Sequence[int] | None, n_features: int
) -> tuple[int, ...]:
    """Return the shape as a tuple; it must have ``n_features`` values.

    >>> resolve_image_shape([28, 28], 784)
    (28, 28)
    >>> resolve_image_shape(None, 4)
    (4,)
    """
    if image_shape is None:
        return (n_features,)
    shape = _as_sizes(image_shape)
    if math.prod(shape) != n_features:
        product = " * ".join(map(str, shape))
        raise ValueError(
            f"image_shape={image_shape!r} has {product} = {math.prod(shape)} values, "
            f"but X has n_features={n_features}; pass the shape that each row had "
            "before it was flattened, or None for rows that are no images."
        )
    _warn_of_channels_last(shape)
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
    """Return height and width, or the one axis that there is.

    >>> spatial_shape((3, 32, 32))
    (32, 32)
    """
    return image_shape[-2:]


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of Python or NumPy; a bool is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Return whether a value is a finite real number; a bool is not."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def float_dtype(X: Array) -> str:
    """Return the dtype to compute in: float32 for float32, float64 for all others."""
    return "float32" if dtype_name(X) == "float32" else "float64"


def _as_sizes(image_shape: Any) -> tuple[int, ...]:
    is_sequence = isinstance(image_shape, Sequence | np.ndarray)
    sizes = tuple(image_shape) if is_sequence else ()
    if not sizes or not all(is_integer(size) and size > 0 for size in sizes):
        raise ValueError(
            f"image_shape={image_shape!r} is not a shape; pass a tuple of positive "
            "integers such as (28, 28) or (3, 32, 32), or None."
        )
    return tuple(int(size) for size in sizes)


def _warn_of_channels_last(shape: tuple[int, ...]) -> None:
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= 8:
        height, width, channels = shape
        warn_user(
            f"image_shape={shape} is read as {height} channels of {width} x "
            f"{channels} pixels. If the channels come last, put them first: "
            f"X.reshape(-1, {height}, {width}, {channels}).transpose(0, 3, 1, 2)"
            f".reshape(len(X), -1), with image_shape={(channels, height, width)}.",
            UserWarning,
        )


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
        """Check the other parameters, and store what follows from the shape."""
        raise NotImplementedError

    def _input_names(self, input_features):
        """Return the names of the pixels, checked as scikit-learn does."""
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)
