"""The public functions that load data sets by name.

Each looks for its files in ``data_home``, in the folder that the environment variable
``KAUCUS_DATA`` names, and in the cache, and checks them by their sha256. Where they are
missing, MNIST, Fashion-MNIST and CIFAR-10 are downloaded into the cache (with pooch),
and the others are fetched from where they were first published, in the form that they
have there, and checked by their rows. Those addresses could not be tried
where this was written, without a network; a checksum tells if a source has changed.
"""

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from papers.datasets._fetch import fetch
from papers.datasets._origin import fetch_origin
from papers.datasets._readers import (
    Table,
    read_cifar10,
    read_csv,
    read_idx,
    read_libsvm,
)
from papers.datasets._registry import Dataset, find, names_of

PathLike = str | os.PathLike[str]
FLOATS = ("float32", "float64")
PIXELS = ("uint8", *FLOATS)

# Names of the arrays of a set with one part, and of one with a test part.
_ARRAYS = {1: ("X", "y"), 2: ("X_train", "y_train", "X_test", "y_test")}

_NAME = """
    name : str
        {names}."""
_SECTIONS = """
    Parameters
    ----------{name}
    data_home : path-like or None, default=None
        Folder to look in first.
    return_X_y : bool, default=False
        Return the arrays alone, as a tuple.
    dtype : {{{dtypes}}}, default="{dtype}"
        Type of the features.

    Returns
    -------
    Bunch or tuple
        ``X_train``, ``y_train``, ``X_test`` and ``y_test`` if the set has a test part,
        else ``X`` and ``y``; ``target_names``, ``DESCR`` and ``licence``; the
        ``image_shape`` of images or the ``feature_names`` of tables. The tuple has the
        arrays alone, in this order.

    Examples
    --------
    >>> from papers.datasets import {loader}
    >>> {arrays} = {loader}({arguments}return_X_y=True)
    >>> {first}.shape
    {shape}
    """


def _documented(loader: Callable) -> Callable:
    """Add the parameters and results, which all loaders share, to the docstring."""
    names, parameters = names_of(loader.__name__), inspect.signature(loader).parameters
    listed = "\n        ".join(f'``"{name}"``,' for name in names).removesuffix(",")
    shown = find(names[0], loader.__name__)
    dtypes = PIXELS if shown.image_shape else FLOATS
    arrays = _ARRAYS[len(shown.n_samples)]
    loader.__doc__ = (
        (loader.__doc__ or "").rstrip()
        + "\n"
        + _SECTIONS.format(
            name=_NAME.format(names=listed) if "name" in parameters else "",
            dtypes=", ".join(f'"{kind}"' for kind in dtypes),
            dtype=parameters["dtype"].default,
            loader=loader.__name__,
            arrays=", ".join(arrays),
            first=arrays[0],
            arguments=f'"{names[0]}", ' if "name" in parameters else "",
            shape=(shown.n_samples[0], shown.n_features),
        )
    )
    return loader


@_documented
def load_mnist(*, data_home=None, return_X_y=False, dtype="float32") -> Bunch | tuple:
    """Load MNIST: 60,000 and 10,000 handwritten digits of 28 x 28 pixels.

    Each image is a row of 784 grey values from 0 to 255; labels are 0 to 9.
    """
    return _load("mnist", "load_mnist", data_home, return_X_y, dtype)


@_documented
def load_fashion_mnist(
    *, data_home=None, return_X_y=False, dtype="float32"
) -> Bunch | tuple:
    """Load Fashion-MNIST: 60,000 and 10,000 pictures of clothes, 28 x 28 pixels.

    Each image is a row of 784 grey values from 0 to 255; labels are 0 to 9, named by
    ``target_names``. The files of the cache are in a folder of their own, as their
    names are those of MNIST.
    """
    return _load("fashion-mnist", "load_fashion_mnist", data_home, return_X_y, dtype)


@_documented
def load_cifar10(*, data_home=None, return_X_y=False, dtype="float32") -> Bunch | tuple:
    """Load CIFAR-10: 50,000 and 10,000 colour images of 32 x 32 pixels.

    Each image is a row of 3072 values from 0 to 255: the red plane, then green, then
    blue. As float32 all rows take 740 MB, as uint8 a quarter of that.
    """
    return _load("cifar10", "load_cifar10", data_home, return_X_y, dtype)


@_documented
def load_covtype(*, data_home=None, return_X_y=False, dtype="float32") -> Bunch | tuple:
    """Load the forest cover types: 581,012 rows, 54 features, 7 classes.

    Ten columns are integers, 44 are indicators; labels are 1 to 7.
    """
    return _load("covtype", "load_covtype", data_home, return_X_y, dtype)


@_documented
def load_pendigits(
    *, data_home=None, return_X_y=False, dtype="float32"
) -> Bunch | tuple:
    """Load the pen digits: 7,494 and 3,498 rows, 16 features, 10 classes."""
    return _load("pendigits", "load_pendigits", data_home, return_X_y, dtype)


@_documented
def load_satimage(
    *, data_home=None, return_X_y=False, dtype="float32"
) -> Bunch | tuple:
    """Load the satellite image: 6,435 rows, 36 features, 6 classes.

    Labels are strings, the names of the kinds of ground.
    """
    return _load("satimage", "load_satimage", data_home, return_X_y, dtype)


@_documented
def load_a9a(*, data_home=None, return_X_y=False, dtype="float32") -> Bunch | tuple:
    """Load a9a: 32,561 and 16,281 rows, 123 binary features, labels -1 and 1.

    The features are sparse matrices in CSR form, without names.
    """
    return _load("a9a", "load_a9a", data_home, return_X_y, dtype)


@_documented
def load_uci(
    name, *, data_home=None, return_X_y=False, dtype="float64"
) -> Bunch | tuple:
    """Load one of the small data sets, most of them from UCI, by its name."""
    return _load(name, "load_uci", data_home, return_X_y, dtype)


@_documented
def load_shapes(
    name, *, data_home=None, return_X_y=False, dtype="float64"
) -> Bunch | tuple:
    """Load one of the sets of points in the plane, for clustering, by its name."""
    return _load(name, "load_shapes", data_home, return_X_y, dtype)


def _load(
    name: str, loader: str, data_home: PathLike | None, return_X_y: bool, dtype: str
) -> Bunch | tuple:
    """Load a data set: the one function behind all loaders."""
    dataset = find(name, loader)
    known = PIXELS if dataset.image_shape else FLOATS
    if dtype not in [*known, *map(np.dtype, known)]:
        raise ValueError(f"dtype={dtype!r} cannot be used here; pass one of {known}.")
    tables = _from_files_or_origin(dataset, data_home, dtype)
    arrays = tuple(array for t in tables for array in (t.X, _as_labels(t.y)))
    if return_X_y:
        return arrays
    bunch = Bunch(
        **dict(zip(_ARRAYS[len(tables)], arrays, strict=True)),
        target_names=np.array(dataset.target_names or np.unique(arrays[1]).astype(str)),
        DESCR=dataset.description,
        licence=dataset.licence,
    )
    if dataset.image_shape:
        bunch.image_shape = dataset.image_shape
    elif tables[0].feature_names:
        bunch.feature_names = tables[0].feature_names
    return bunch


def _from_files_or_origin(
    dataset: Dataset, data_home: PathLike | None, dtype: str
) -> list[Table]:
    """Return the parts of a data set, from its source where its files are missing."""
    try:
        paths = fetch(dataset, data_home=data_home)
    except FileNotFoundError as missing:
        if dataset.origin is None:
            raise
        try:
            tables = fetch_origin(dataset, dtype)
        except OSError as error:
            text = f"{missing}\nIts source could not be reached either: {error}"
            raise FileNotFoundError(text) from error
    else:
        tables = _READERS.get(dataset.loader, _read_csv_files)(paths, dataset, dtype)
    return [_as_csr(table) for table in tables] if dataset.sparse else tables


def _read_csv_files(paths: list[Path], dataset: Dataset, dtype: str) -> list[Table]:
    return [read_csv(path, dtype) for path in paths]


def _read_sparse_files(paths: list[Path], dataset: Dataset, dtype: str) -> list[Table]:
    pairs = (read_libsvm(path, dataset.n_features, dtype) for path in paths)
    return [Table(X, y, []) for X, y in pairs]


def _read_mnist(paths: list[Path], dataset: Dataset, dtype: str) -> list[Table]:
    images, labels, test_images, test_labels = map(read_idx, paths)
    return [
        Table(_as_rows(images, dtype), labels, []),
        Table(_as_rows(test_images, dtype), test_labels, []),
    ]


def _read_cifar10(paths: list[Path], dataset: Dataset, dtype: str) -> list[Table]:
    *batches, (test_pixels, test_labels) = map(read_cifar10, paths)
    pixels, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return [
        Table(_as_rows(pixels, dtype), labels, []),
        Table(_as_rows(test_pixels, dtype), test_labels, []),
    ]


_READERS = {
    "load_mnist": _read_mnist,
    "load_fashion_mnist": _read_mnist,
    "load_cifar10": _read_cifar10,
    "load_a9a": _read_sparse_files,
}


def _as_rows(images: np.ndarray, dtype: str) -> np.ndarray:
    """Return a new array with one flattened image in each row."""
    return images.reshape(len(images), -1).astype(dtype)


def _as_csr(table: Table) -> Table:
    return table._replace(X=sparse.csr_matrix(table.X), feature_names=[])


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Return integers as int64, and strings as they are."""
    return y if y.dtype.kind == "U" else y.astype(np.int64, copy=False)
