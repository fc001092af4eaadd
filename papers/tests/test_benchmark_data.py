"""The benchmark data has the registered sizes and the known number of rows a class."""

import numpy as np
import pytest

from papers import datasets
from papers.datasets._registry import DATASETS

pytestmark = pytest.mark.data

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
PENDIGITS = [780, 779, 780, 719, 780, 720, 720, 778, 719, 719]
PENDIGITS_TEST = [363, 364, 364, 336, 364, 335, 336, 364, 336, 336]
# Rows of each class in the order of the sorted labels, for each part.
COUNTS = {
    "mnist": (MNIST, MNIST_TEST),
    "fashion-mnist": ([6000] * 10, [1000] * 10),
    "cifar10": ([5000] * 10, [1000] * 10),
    "covtype": ([211840, 283301, 35754, 2747, 9493, 17367, 20510],),
    "pendigits": (PENDIGITS, PENDIGITS_TEST),
    "satimage": ([703, 626, 1358, 1533, 707, 1508],),
    "a9a": ([24720, 7841], [12435, 3846]),
    "australian": ([383, 307],),
    "banknote": ([762, 610],),
    "breast_cancer_scale": ([444, 239],),
    "breast_cancer_wisconsin": ([444, 239],),
    "climate_crashes": ([46, 494],),
    "diabetes_pima": ([500, 268],),
    "fourclass_scale": ([555, 307],),
    "heart_statlog": ([150, 120],),
    "liver_disorders": ([145, 200],),
    "splice_scale": ([483, 517],),
    "seeds": ([70, 70, 70],),
    "glass": ([70, 76, 17, 13, 9, 29],),
    "iris": ([50, 50, 50],),
    "jain": ([276, 97],),
    "flame": ([87, 153],),
    "pathbased": ([110, 97, 93],),
    "spiral": ([101, 105, 106],),
    "r15": ([40] * 15,),
    "cassini": ([400, 400, 200],),
}


def load(name, data_home, **options):
    dataset = DATASETS[name]
    downloaded = name in ("cifar10", "fashion-mnist")
    if downloaded and not (data_home / dataset.files[0].path).is_file():
        pytest.skip(f"KAUCUS_DATA does not hold {dataset.title}")
    args = (name,) if dataset.loader in ("load_uci", "load_shapes") else ()
    return getattr(datasets, dataset.loader)(*args, data_home=data_home, **options)


def test_every_set_is_checked():
    assert set(COUNTS) == set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_sizes_and_classes(data_home, name):
    dataset = DATASETS[name]
    options = {"dtype": "uint8"} if name == "cifar10" else {}
    bunch = load(name, data_home, **options)
    suffixes = ("_train", "_test") if len(dataset.n_samples) == 2 else ("",)
    parts = zip(suffixes, dataset.n_samples, COUNTS[name], strict=True)
    for suffix, n_samples, counts in parts:
        X, y = bunch[f"X{suffix}"], bunch[f"y{suffix}"]
        assert X.shape == (n_samples, dataset.n_features)
        assert y.shape == (n_samples,)
        assert np.unique(y, return_counts=True)[1].tolist() == counts
        assert np.isfinite(X.data if name == "a9a" else X).all()
    assert len(bunch.target_names) == dataset.n_classes == len(counts)
    if "feature_names" in bunch:
        assert len(bunch.feature_names) == dataset.n_features


def test_environment_variable_is_enough(data_home, monkeypatch):
    monkeypatch.setenv("KAUCUS_DATA", str(data_home))
    assert datasets.load_shapes("jain").X.shape == (373, 2)


def test_values_are_those_of_the_files(data_home):
    mnist = load("mnist", data_home)
    assert (mnist.X_train.min(), mnist.X_train.max()) == (0, 255)
    assert mnist.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    covtype = load("covtype", data_home)
    assert covtype.X[0, :6].tolist() == [2596, 51, 3, 258, 0, 510]
    assert (covtype.X[:, 10:14].sum(axis=1) == 1).all()
    assert (covtype.X[:, 14:].sum(axis=1) == 1).all()
    climate = load("climate_crashes", data_home)
    assert climate.X[0, 2] == 0.8590362064372231
    assert load("satimage", data_home).y[0] == "grey soil"
    assert load("fourclass_scale", data_home).y[:2].tolist() == [-1, 1]


def test_breast_cancer_sets_are_the_same_patients(data_home):
    scaled = load("breast_cancer_scale", data_home)
    original = load("breast_cancer_wisconsin", data_home)
    assert (scaled.y == original.y).all()
    # LIBSVM maps 1..10 to -1..1.
    expected = (original.X - 5.5) / 4.5
    np.testing.assert_allclose(scaled.X[:, 1:], expected, atol=1e-6)
