"""Loaders name and describe what the readers read; run on tiny copies of the sets."""

import gzip
import hashlib
import os
import struct
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from papers import datasets
from papers.datasets import _fetch, _registry
from papers.datasets._registry import DATASETS

SPLIT = ("X_train", "y_train", "X_test", "y_test")
WHOLE = ("X", "y")
CALLS = {
    "mnist": (datasets.load_mnist, ()),
    "fashion-mnist": (datasets.load_fashion_mnist, ()),
    "cifar10": (datasets.load_cifar10, ()),
    "covtype": (datasets.load_covtype, ()),
    "pendigits": (datasets.load_pendigits, ()),
    "satimage": (datasets.load_satimage, ()),
    "a9a": (datasets.load_a9a, ()),
    "iris": (datasets.load_uci, ("iris",)),
    "heart_statlog": (datasets.load_uci, ("heart_statlog",)),
    "jain": (datasets.load_shapes, ("jain",)),
}
IMAGES = ("mnist", "fashion-mnist", "cifar10")


def tiny_content(path):
    """Return a file of the right format for a registered path."""
    if path.endswith("images-idx3-ubyte.gz"):
        values = np.arange(3 * 28 * 28, dtype=np.uint8)
        return b"\x00\x00\x08\x03" + struct.pack(">3I", 3, 28, 28) + values.tobytes()
    if path.endswith("labels-idx1-ubyte.gz"):
        return b"\x00\x00\x08\x01" + struct.pack(">I", 3) + bytes([0, 9, 4])
    if path.endswith(".bin"):
        batch = int(path[-5]) if path[-5].isdigit() else 0
        return bytes([batch]) * 3073 + bytes([9]) + bytes([255]) * 3072
    if path.startswith("libsvm/"):
        return b"-1 1:1 122:1 \n+1 3:1 \n"
    labels = ("red soil", "cotton crop") if "satimage" in path else ("2", "1")
    return "u,v,class\n1,2,{}\n3,4,{}\n".format(*labels).encode()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a tiny copy of every set, and a registry that knows them."""
    monkeypatch.delenv("KAUCUS_DATA", raising=False)
    monkeypatch.setattr(_fetch, "cache_folder", lambda: None)
    tiny = {}
    for name, dataset in DATASETS.items():
        files = []
        for file in dataset.files:
            content = tiny_content(file.path)
            content = gzip.compress(content) if file.path.endswith(".gz") else content
            target = tmp_path / file.path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
            files.append(replace(file, sha256=hashlib.sha256(content).hexdigest()))
        tiny[name] = replace(dataset, files=tuple(files))
    monkeypatch.setattr(_registry, "DATASETS", tiny)
    return tmp_path


def load(name, **options):
    function, args = CALLS[name]
    return function(*args, **options)


@pytest.mark.parametrize("name", CALLS)
def test_bunch_and_tuple_hold_the_same_arrays(home, name):
    bunch = load(name, data_home=home)
    arrays = load(name, data_home=home, return_X_y=True)
    assert isinstance(bunch, Bunch)
    assert isinstance(arrays, tuple)
    keys = SPLIT if "X_train" in bunch else WHOLE
    assert len(arrays) == len(DATASETS[name].n_samples) * 2
    for key, array in zip(keys, arrays, strict=True):
        named = bunch[key]
        if name == "a9a" and array.ndim == 2:
            named, array = named.toarray(), array.toarray()
        assert_array_equal(named, array, strict=True)


@pytest.mark.parametrize("name", CALLS)
def test_bunch_describes_the_set(home, name):
    bunch = load(name, data_home=home)
    assert bunch.licence == DATASETS[name].licence
    for part in (DATASETS[name].title, DATASETS[name].source, bunch.licence):
        assert part in bunch.DESCR
    assert bunch.target_names.dtype.kind == "U"
    if name in IMAGES:
        assert np.prod(bunch.image_shape) == bunch.X_train.shape[1]
    elif name != "a9a":
        assert bunch.feature_names == ["u", "v"]


@pytest.mark.parametrize("name", CALLS)
def test_dtype_is_that_of_the_features_alone(home, dtype, name):
    arrays = load(name, data_home=home, dtype=dtype, return_X_y=True)
    assert {X.dtype for X in arrays[::2]} == {np.dtype(dtype)}
    kind = "U" if name == "satimage" else "i"
    assert {y.dtype.kind for y in arrays[1::2]} == {kind}
    assert {y.dtype.itemsize for y in arrays[1::2] if kind == "i"} <= {8}


@pytest.mark.parametrize("name", IMAGES)
def test_pictures_may_stay_bytes(home, name):
    as_bytes = load(name, data_home=home, dtype="uint8")
    as_floats = load(name, data_home=home)
    assert as_bytes.X_train.dtype == np.uint8
    assert as_bytes.X_train.flags.writeable
    assert as_bytes.X_test.flags.writeable
    assert as_floats.X_train.dtype == np.float32
    assert as_floats.X_train.max() == 255
    assert_array_equal(as_bytes.X_train, as_floats.X_train)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", ["int8", "complex64", "nonsense"])
def test_other_dtypes_are_refused_before_anything_is_read(name, wrong):
    with pytest.raises(ValueError, match=f"dtype='{wrong}'.*'float32', 'float64'"):
        load(name, data_home="no such folder", dtype=wrong)


def test_mnist_rows_are_flattened_pictures(home):
    bunch = datasets.load_mnist(data_home=home)
    assert_array_equal(
        bunch.X_train.ravel(), np.arange(3 * 784, dtype=np.uint8).astype(np.float32)
    )
    assert bunch.y_test.tolist() == [0, 9, 4]


def test_clothes_have_names(home):
    bunch = datasets.load_fashion_mnist(data_home=home, dtype="uint8")
    assert bunch.X_train.shape == bunch.X_test.shape == (3, 784)
    assert bunch.target_names[bunch.y_test].tolist() == [
        "T-shirt/top",
        "Ankle boot",
        "Coat",
    ]
    assert bunch.licence == "MIT"


def test_cifar10_joins_five_batches(home):
    bunch = datasets.load_cifar10(data_home=home)
    assert bunch.X_train.shape == (10, 3072)
    assert bunch.X_test.shape == (2, 3072)
    assert bunch.y_train.tolist() == [1, 9, 2, 9, 3, 9, 4, 9, 5, 9]
    assert bunch.X_train[:, 0].tolist() == [1, 255, 2, 255, 3, 255, 4, 255, 5, 255]
    assert bunch.y_test.tolist() == [0, 9]
    assert bunch.target_names[[3, 9]].tolist() == ["cat", "truck"]


def test_a9a_parts_are_equally_wide(home):
    bunch = datasets.load_a9a(data_home=home)
    assert bunch.X_train.shape == bunch.X_test.shape == (2, 123)
    assert bunch.y_train.tolist() == [-1, 1]


def test_target_names_follow_the_sorted_labels(home):
    assert load("satimage", data_home=home).target_names.tolist() == [
        "cotton crop",
        "red soil",
    ]
    assert load("jain", data_home=home).target_names.tolist() == ["1", "2"]
    assert load("heart_statlog", data_home=home).target_names.tolist() == [
        "absence",
        "presence",
    ]


@pytest.mark.parametrize("name", CALLS)
def test_arrays_are_the_callers_own(home, name):
    first = load(name, data_home=home, return_X_y=True)
    for array in first:
        values = array.data if name == "a9a" and array.ndim == 2 else array
        assert values.flags.writeable
        values[...] = values.flat[0]
    second = load(name, data_home=home, return_X_y=True)
    for old, new in zip(first[::2], second[::2], strict=True):
        if name == "a9a":
            old, new = old.data, new.data
        assert not np.shares_memory(old, new)


@pytest.mark.parametrize("name", CALLS)
def test_loading_leaves_the_environment_alone(home, name):
    before = dict(os.environ)
    folder = sorted(home.rglob("*"))
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    load(name, data_home=home)
    assert dict(os.environ) == before
    assert sorted(home.rglob("*")) == folder
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("loader", [datasets.load_uci, datasets.load_shapes])
def test_unknown_name(loader):
    with pytest.raises(ValueError, match="knows no data set 'irsi'"):
        loader("irsi")
