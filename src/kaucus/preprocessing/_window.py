"""A Gaussian window that attenuates the border of images."""

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from kaucus.backend import array_namespace, as_like, astype
from kaucus.contract import ExportsONNX
from kaucus.preprocessing._images import (
    ImageTransformer,
    float_dtype,
    is_real,
    spatial_shape,
)


class GaussianWindow(ExportsONNX, OneToOneFeatureMixin, ImageTransformer):
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

    def __init__(self, image_shape=None, c=4.0):
        self.image_shape = image_shape
        self.c = c

    def _transform(self, X):
        xp, dtype = array_namespace(X), float_dtype(X)
        window = as_like(self.window_, X, dtype=dtype)
        images = xp.reshape(astype(X, dtype), (X.shape[0], -1, *window.shape))
        return xp.reshape(images * window, X.shape)

    def _prepare_images(self, X):
        if not is_real(self.c) or self.c < 0:
            raise ValueError(
                f"c={self.c!r} is not a number of at least 0; use 4 for the paper's "
                "window, less for a wider one, 0 for none."
            )
        window = gaussian_window(spatial_shape(self.image_shape_), self.c)
        self.window_ = as_like(window, X)


def gaussian_window(shape: tuple[int, ...], c: float) -> np.ndarray:
    """Return exp(−c Σ (iₐ/Lₐ − 1/2)²), iₐ = 1..Lₐ over the axes a of the shape.

    >>> gaussian_window((2,), c=4.0).round(3)
    array([1.   , 0.368])
    """
    window = np.ones(())
    for size in shape:
        position = np.arange(1, size + 1) / size - 0.5
        window = window[..., None] * np.exp(-c * position**2)
    return window
