"""Names in, arrays out: the public functions that load data sets.

Each looks for its files in ``data_home``, in the folder that the environment variable
``KAUCUS_DATA`` names, and in the cache, and checks them by their sha256. Where they are
missing, MNIST and CIFAR-10 are downloaded into the cache (``pip install
kaucus[data]``), and the others are fetched from where they were first published, in the
form that they have there, and checked by their rows. Those addresses could not be tried
where this was written, without a network; a checksum tells if a source has changed.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from kaucus.datasets._fetch import fetch
from kaucus.datasets._origin import fetch_origin
from kaucus.datasets._readers import (
    Table,
    read_cifar10,
    read_csv,
    read_idx,
    read_libsvm,
)
from kaucus.datasets._registry import DATASETS, Dataset, find

PathLike = str | os.PathLike[str]
FLOATS = ("float32", "float64")
PIXELS = ("uint8", *FLOATS)


def load_mnist(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels.

    Each picture is a row of 784 grey values from 0 to 255; labels are 0 to 9.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"uint8", "float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X_train``, ``y_train``, ``X_test``, ``y_test``, ``target_names``,
        ``image_shape``, ``DESCR`` and ``licence``; or the four arrays.
    """
    _check_dtype(dtype, PIXELS)
    dataset = DATASETS["mnist"]
    images, labels, test_images, test_labels = (
        read_idx(path) for path in fetch(dataset, data_home=data_home)
    )
    arrays = (_pixels(images, dtype), labels, _pixels(test_images, dtype), test_labels)
    return _pack(dataset, arrays, return_X_y, image_shape=(28, 28))


def load_cifar10(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load CIFAR-10: 50,000 and 10,000 colour pictures of 32 x 32 pixels.

    Each picture is a row of 3072 values from 0 to 255: the red plane, then green, then
    blue. As float32 all rows take 740 MB, as uint8 a quarter of that.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"uint8", "float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X_train``, ``y_train``, ``X_test``, ``y_test``, ``target_names``,
        ``image_shape``, ``DESCR`` and ``licence``; or the four arrays.
    """
    _check_dtype(dtype, PIXELS)
    dataset = DATASETS["cifar10"]
    batches = [read_cifar10(path) for path in fetch(dataset, data_home=data_home)]
    *pixels, test_pixels = [pixels for pixels, _ in batches]
    *labels, test_labels = [labels for _, labels in batches]
    arrays = (
        _pixels(np.concatenate(pixels), dtype),
        np.concatenate(labels),
        _pixels(test_pixels, dtype),
        test_labels,
    )
    return _pack(dataset, arrays, return_X_y, image_shape=(3, 32, 32))


def load_covtype(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load the forest cover types: 581,012 rows, 54 features, 7 classes.

    Ten columns are integers, 44 are indicators; labels are 1 to 7.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X``, ``y``, ``target_names``, ``feature_names``, ``DESCR`` and
        ``licence``; or the two arrays.
    """
    return _load_table(DATASETS["covtype"], data_home, return_X_y, dtype)


def load_pendigits(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load the pen digits: 7,494 and 3,498 rows, 16 features, 10 classes.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X_train``, ``y_train``, ``X_test``, ``y_test``, ``target_names``,
        ``feature_names``, ``DESCR`` and ``licence``; or the four arrays.
    """
    return _load_table(DATASETS["pendigits"], data_home, return_X_y, dtype)


def load_satimage(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load the satellite image: 6,435 rows, 36 features, 6 classes.

    Labels are strings, the names of the kinds of ground.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X``, ``y``, ``target_names``, ``feature_names``, ``DESCR`` and
        ``licence``; or the two arrays.
    """
    return _load_table(DATASETS["satimage"], data_home, return_X_y, dtype)


def load_a9a(
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float32",
) -> Bunch | tuple:
    """Load a9a: 32,561 and 16,281 rows, 123 binary features, labels -1 and 1.

    The features are sparse matrices in CSR form.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float32"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X_train``, ``y_train``, ``X_test``, ``y_test``, ``target_names``,
        ``DESCR`` and ``licence``; or the four arrays.
    """
    _check_dtype(dtype, FLOATS)
    dataset = DATASETS["a9a"]

    def read(paths: list[Path]) -> list[Table]:
        pairs = (read_libsvm(path, dataset.n_features, dtype) for path in paths)
        return [Table(X, y, []) for X, y in pairs]

    parts = _from_files_or_origin(dataset, data_home, dtype, read)
    arrays = [a for part in parts for a in (sparse.csr_matrix(part.X), part.y)]
    return _pack(dataset, arrays, return_X_y)


def load_uci(
    name: str,
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float64",
) -> Bunch | tuple:
    """Load one of the small data sets, most of them from UCI, by its name.

    Parameters
    ----------
    name : str
        ``"australian"``, ``"banknote"``, ``"breast_cancer_scale"``,
        ``"breast_cancer_wisconsin"``, ``"climate_crashes"``, ``"diabetes_pima"``,
        ``"fourclass_scale"``, ``"glass"``, ``"heart_statlog"``, ``"iris"``,
        ``"liver_disorders"``, ``"seeds"`` or ``"splice_scale"``.
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float64"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X``, ``y``, ``target_names``, ``feature_names``, ``DESCR`` and
        ``licence``; or the two arrays.
    """
    dataset = find(name, "load_uci")
    return _load_table(dataset, data_home, return_X_y, dtype)


def load_shapes(
    name: str,
    *,
    data_home: PathLike | None = None,
    return_X_y: bool = False,
    dtype: str = "float64",
) -> Bunch | tuple:
    """Load one of the sets of points in the plane, for clustering, by its name.

    Parameters
    ----------
    name : str
        ``"cassini"``, ``"flame"``, ``"jain"``, ``"pathbased"``, ``"r15"`` or
        ``"spiral"``.
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {"float32", "float64"}, default="float64"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        With ``X``, ``y``, ``target_names``, ``feature_names``, ``DESCR`` and
        ``licence``; or the two arrays.
    """
    dataset = find(name, "load_shapes")
    return _load_table(dataset, data_home, return_X_y, dtype)


def _load_table(
    dataset: Dataset, data_home: PathLike | None, return_X_y: bool, dtype: str
) -> Bunch | tuple:
    """Load a set whose parts are one CSV file each."""
    _check_dtype(dtype, FLOATS)

    def read(paths: list[Path]) -> list[Table]:
        return [read_csv(path, dtype) for path in paths]

    tables = _from_files_or_origin(dataset, data_home, dtype, read)
    arrays = [array for table in tables for array in (table.X, table.y)]
    names = tables[0].feature_names
    return _pack(dataset, arrays, return_X_y, feature_names=names)


def _from_files_or_origin(
    dataset: Dataset,
    data_home: PathLike | None,
    dtype: str,
    read: Callable[[list[Path]], list[Table]],
) -> list[Table]:
    """Return the parts of a set, from its source where its files are missing."""
    try:
        paths = fetch(dataset, data_home=data_home)
    except FileNotFoundError as missing:
        try:
            return fetch_origin(dataset, dtype)
        except OSError as error:
            text = f"{missing}\nIts source could not be reached either: {error}"
            raise FileNotFoundError(text) from error
    return read(paths)


def _pack(
    dataset: Dataset, arrays: Sequence[Any], return_X_y: bool, **extra: Any
) -> Bunch | tuple:
    """Return the arrays as they are, or named and described."""
    arrays = tuple(_as_labels(a) if a.ndim == 1 else a for a in arrays)
    if return_X_y:
        return arrays
    split = len(arrays) == 4
    names = ("X_train", "y_train", "X_test", "y_test") if split else ("X", "y")
    target_names = dataset.target_names or np.unique(arrays[1]).astype(str)
    return Bunch(
        **dict(zip(names, arrays, strict=True)),
        target_names=np.array(target_names),
        **extra,
        DESCR=dataset.description,
        licence=dataset.licence,
    )


def _pixels(images: np.ndarray, dtype: str) -> np.ndarray:
    """Return a fresh array with one flattened picture a row."""
    return images.reshape(len(images), -1).astype(dtype)


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Return integers as int64, and strings as they are."""
    return y if y.dtype.kind == "U" else y.astype(np.int64, copy=False)


def _check_dtype(dtype: str, known: tuple[str, ...]) -> None:
    """Raise unless the type can hold the features."""
    if dtype not in [*known, *map(np.dtype, known)]:
        raise ValueError(f"dtype={dtype!r} cannot be used here; pass one of {known}.")
