"""Features of pictures from a dictionary of their own patches."""

import itertools
import math
import sys
from collections.abc import Sequence

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    device_of,
    generator_from,
    resolve_budget,
    row_blocks,
    rows_for_device,
    stream_blocks,
    to_device,
    to_numpy,
)
from kaucus.pictures import (
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
from kaucus.preprocessing._images import (
    ImageTransformer,
    is_integer,
    is_real,
    resolve_picture_shape,
)
from kaucus.preprocessing._patches import resolve_patch_size

DICTIONARIES = ("random", "kmeans")
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
        ``(height, width)`` or ``(channels, height, width)``, in the order of the
        flattened row. None: guessed from 784, 1,024 or 3,072 columns.
    dictionary : {"random", "kmeans"}, default="random"
        ``"random"``: patches drawn at random; ``"kmeans"``: centres of k-means of the
        whitened patches, scaled to unit norm.
    threshold : float, default=1.0
        t, below which responses count as zero.
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
        Bytes, or a text such as ``"4GiB"``, for all but the result; None is three
        quarters of what is free.
    random_state : int, RandomState or Generator, default=None
        Draws the patches.
    verbose : int, default=0
        1 tells the shape of the pictures, where it is guessed.

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

    def __init__(
        self,
        n_filters=512,
        patch_sizes=6,
        *,
        image_shape=None,
        dictionary="random",
        threshold=1.0,
        pooling=3,
        power=0.5,
        mirror=False,
        whitening=0.1,
        device=None,
        precision="auto",
        memory_budget=None,
        random_state=None,
        verbose=0,
    ):
        self.n_filters = n_filters
        self.patch_sizes = patch_sizes
        self.image_shape = image_shape
        self.dictionary = dictionary
        self.threshold = threshold
        self.pooling = pooling
        self.power = power
        self.mirror = mirror
        self.whitening = whitening
        self.device = device
        self.precision = precision
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None):
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

    def get_feature_names_out(self, input_features=None):
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
        self._check_numbers()
        resolve_precision(self.precision, to_device(X[:1, :], self.device))
        check_pictures(X, self.image_shape_, self.patch_sizes, self.pooling)
        tell_guess(self, X)
        pixels = pixel_range(X)
        banks = make_banks(
            X,
            self.image_shape_,
            pixels,
            self.patch_sizes,
            self.n_filters,
            ridge=self.whitening,
            kmeans=self.dictionary == "kmeans",
            rng=generator_from(self.random_state),
        )
        self.pixel_range_ = pixels
        self.filters_ = [as_like(bank.filters, X) for bank in banks]
        self.biases_ = [as_like(bank.bias, X) for bank in banks]

    def _transform(self, X):
        rows = rows_for_device(X, self.device, self.memory_budget)
        how = PictureFeatures(
            self.image_shape_,
            self.pixel_range_,
            float(self.threshold),
            float(self.power),
            bool(self.mirror),
            resolve_precision(self.precision, rows),
        )
        banks = [
            FilterBank(to_numpy(filters), to_numpy(bias))
            for filters, bias in zip(self.filters_, self.biases_, strict=True)
        ]
        budget = resolve_budget(self.memory_budget, rows) // _BLOCK_SHARE
        n_bytes = sum(feature_bytes(self.pooling, len(b.bias), how) for b in banks)
        blocks = list(row_blocks(X.shape[0], n_bytes, budget))
        out = _empty(X, how, n_bytes)
        for block, pictures in zip(blocks, stream_blocks(rows, blocks), strict=True):
            start = 0
            for bank in banks:
                part = features_of(pictures, how, bank, self.pooling, budget=budget)
                stop = start + part.shape[1]
                out[block, start:stop] = as_like(part, X)
                start = stop
        return out

    def _check_numbers(self) -> None:
        """Check the parameters that are numbers or names, before any work."""
        checks = {
            "n_filters": (is_integer, 1, "a whole number, 1 or more"),
            "pooling": (is_integer, 1, "a whole number, 1 or more"),
            "threshold": (is_real, 0, "a finite number, zero or more"),
            "power": (is_real, 1e-3, "a positive number, 0.001 or more"),
        }
        for name, (kind, least, expected) in checks.items():
            value = getattr(self, name)
            if not kind(value) or value < least:
                raise ValueError(f"{name}={value!r} must be {expected}.")
        choices = {"dictionary": DICTIONARIES, "precision": PRECISIONS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise ValueError(f"{name}={value!r} must be one of {known}.")
        if self.whitening is not None and not (
            is_real(self.whitening) and self.whitening > 0
        ):
            raise ValueError(
                f"whitening={self.whitening!r} must be a positive number, such as 0.1, "
                "or None for none."
            )
        if not isinstance(self.mirror, bool | np.bool_):
            raise ValueError(f"mirror={self.mirror!r} must be True or False.")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # pictures are whole numbers
        return tags


def _empty(X: Array, how: PictureFeatures, n_bytes: int) -> Array:
    """Return an empty array for the features of all pictures, on their device."""
    xp, dtype = array_namespace(X), np.dtype(how.dtype)
    shape = (X.shape[0], n_bytes // dtype.itemsize)
    return xp.empty(shape, dtype=getattr(xp, how.dtype), device=device_of(X))


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


def make_banks(
    X: Array,
    shape: tuple[int, int, int],
    pixels,
    patch_sizes,
    n_filters: int,
    *,
    ridge: float | None,
    kmeans: bool,
    rng: np.random.Generator,
) -> list[FilterBank]:
    """Return the filters of every size of patches, ``n_filters`` in all."""
    sizes = [resolve_patch_size(size, shape) for size in sizes_of(patch_sizes)]
    edges = [n_filters * k // len(sizes) for k in range(len(sizes) + 1)]
    banks = []
    for (p, q), (start, stop) in zip(sizes, itertools.pairwise(edges), strict=True):
        seed = int(rng.integers(2**31))
        n = max(stop - start, 1)
        patches = draw_patches(X, shape, (p, q), pixels, n, rng)
        centres = _kmeans_centres(seed) if kmeans else None
        patch_shape = (shape[0], p, q)
        banks.append(
            make_filters(patches, n, patch_shape, ridge=ridge, rng=rng, centres=centres)
        )
    return banks


def _kmeans_centres(seed: int):
    """Return a function that finds centres of unit rows, by scikit-learn's k-means."""
    from sklearn.cluster import MiniBatchKMeans

    def centres(rows: np.ndarray, n_clusters: int) -> np.ndarray:
        model = MiniBatchKMeans(n_clusters, n_init=1, random_state=seed)
        return model.fit(np.asarray(rows, dtype=np.float32)).cluster_centers_

    return centres


def tell_guess(estimator, X: Array) -> None:
    """Print the shape of pictures that was guessed, where ``verbose`` is on."""
    if estimator.verbose and estimator.image_shape is None:
        print(
            f"[kaucus] {X.shape[1]} columns are taken as pictures of shape "
            f"{estimator.image_shape_}; pass image_shape for another.",
            file=sys.stderr,
        )
