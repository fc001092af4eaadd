"""Rows that are read batch by batch, or of a memory map: the fit of all rows."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    SphericalKMeans,
)

GIVEN = {"C": 10.0, "kernel": "rbf", "gamma": 0.1, "random_state": 0}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(700, 6))
    return X, np.where(X[:, 0] ** 2 + X[:, 1] > 1, "in", "out")


class Reader:
    """Batches of rows, and how often they were read."""

    def __init__(self, *arrays, size=200):
        self.arrays, self.size, self.n_reads = arrays, size, 0

    def __call__(self):
        self.n_reads += 1
        n = self.arrays[0].shape[0]
        for start in range(0, n, self.size):
            yield tuple(a[start : start + self.size] for a in self.arrays)


def assert_same(found, expected, rtol=1e-6):
    size = abs(expected.dual_coef_).max()
    assert_allclose(found.dual_coef_, expected.dual_coef_, rtol=rtol, atol=rtol * size)
    assert_allclose(found.intercept_, expected.intercept_, rtol=rtol, atol=rtol * size)


@pytest.mark.parametrize(
    "options", [{}, {"refine": 20}, {"C": "auto", "gamma": "tune"}]
)
def test_a_classifier_of_batches_is_that_of_all_rows(data, options):
    X, y = data
    options = {**GIVEN, **options}
    expected = KMeansKernelClassifier(10, **options).fit(X, y)
    model = KMeansKernelClassifier(10, **options).fit_batches(Reader(X, y))
    assert_same(model, expected)
    assert_array_equal(model.predict(X), expected.predict(X))


def test_weights_frames_and_csr_batches(data, rng):
    X, y = data
    weight = rng.integers(0, 3, size=700)
    expected = KMeansKernelClassifier(10, **GIVEN).fit(X, y, weight)
    model = KMeansKernelClassifier(10, **GIVEN).fit_batches(Reader(X, y, weight))
    assert_same(model, expected)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model.fit_batches(Reader(frame, y, weight))
    assert_same(model, expected)
    assert_array_equal(model.feature_names_in_, list("abcdef"))
    model.fit_batches(Reader(scipy.sparse.csr_array(X), y, weight))
    assert_same(model, expected)


def test_a_regressor_and_clusters_of_batches(data):
    X = data[0]
    expected = KMeansKernelRegressor(20, **GIVEN).fit(X, X[:, :2])
    model = KMeansKernelRegressor(20, **GIVEN).fit_batches(Reader(X, X[:, :2]))
    assert_same(model, expected)
    expected = SphericalKMeans(5, random_state=0).fit(X)
    clusters = SphericalKMeans(5, random_state=0).fit_batches(
        lambda: [X[:300], X[300:]]
    )
    assert_allclose(clusters.cluster_centers_, expected.cluster_centers_)
    assert_array_equal(clusters.labels_, expected.labels_)


def test_kernel_kmeans_of_batches_is_that_of_all_rows(data, rng):
    X, weight = data[0], rng.integers(1, 3, size=700)
    model = KernelKMeans(4, approximation="nystrom", n_landmarks=30, random_state=0)
    expected = clone(model).fit(X, sample_weight=weight)
    reader = Reader(X, np.zeros(700), weight)
    model.fit_batches(reader)
    assert_allclose(model.X_fit_, expected.X_fit_)
    assert_allclose(model.center_norms_, expected.center_norms_, rtol=1e-6)
    assert_allclose(model.inertia_, expected.inertia_)
    assert_array_equal(model.labels_, expected.labels_)
    assert_array_equal(model.labels_, model.predict(X))
    assert model.exact_inertia_ is None
    # A look, the first row of the kernel, points of the graph, landmarks, the first
    # clusters, the steps, and the labels.
    assert reader.n_reads == 5 + model.n_iter_


def test_exact_kernel_kmeans_of_batches_is_refused_before_they_are_read(data):
    reader = Reader(data[0])
    with pytest.raises(TypeError, match="Pass approximation='nystrom'"):
        KernelKMeans(4).fit_batches(reader)
    assert reader.n_reads == 0


def test_each_pass_reads_once(data):
    reader = Reader(data[0])
    model = SphericalKMeans(5, random_state=0).fit_batches(reader)
    # A look, two for the seeds, the first assignment, the steps, and the labels.
    assert reader.n_reads == 5 + model.n_iter_


def test_what_is_no_function_and_what_is_used_up_is_told(data):
    X, y = data
    model = KMeansKernelClassifier(10, **GIVEN)
    with pytest.raises(TypeError, match="a function that returns the batches anew"):
        model.fit_batches([(X, y)])
    once = iter([(X, y)])
    with pytest.raises(ValueError, match="begins anew at every call"):
        model.fit_batches(lambda: once)
    with pytest.raises(ValueError, match="no batches"):
        model.fit_batches(lambda: [])
    X[300, 1] = np.nan
    with pytest.raises(ValueError, match="NaN: batch 1, row 100 of it, column 1"):
        model.fit_batches(Reader(X, y))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A memory map of 12 MB with the labels of its rows."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("map") / "rows.npy"
    shape = (15_000, 200)
    X = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    labels = (rng.random(shape[0]) > 0.95).astype(int)  # one class is most of it
    centers = rng.normal(size=(2, 200)).astype(np.float32)
    for start in range(0, shape[0], 1000):
        noise = 3 * rng.normal(size=(1000, 200)).astype(np.float32)
        X[start : start + 1000] = centers[labels[start : start + 1000]] + noise
    X.flush()
    return np.load(path, mmap_mode="r"), labels


FAST = {
    "C": 1.0,
    "kernel": "rbf",
    "gamma": 1e-3,
    "kmeans_params": {"tol": 0.05},
    "random_state": 0,
}


@pytest.mark.parametrize(
    "model",
    [
        KMeansKernelClassifier(10, **FAST),
        SphericalKMeans(10, tol=0.05, random_state=0),
        KernelKMeans(
            5, approximation="nystrom", n_landmarks=50, tol=0.01, random_state=0
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_memory_map_is_never_read_whole(large, model):
    X, labels = large
    model.set_params(memory_budget="10MiB")
    model.fit(X[:1000], labels[:1000])  # what is loaded once is no part of it
    tracemalloc.start()
    model.fit(X, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20 < X.nbytes


def test_the_model_of_a_memory_map_is_that_of_memory(large, tmp_path):
    X, labels = np.array(large[0][:3000], dtype=np.float64), large[1][:3000]
    np.save(tmp_path / "rows.npy", X)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = KMeansKernelClassifier(10, memory_budget="16MiB", **FAST).fit(rows, labels)
    assert_same(model, KMeansKernelClassifier(10, **FAST).fit(X, labels))


@pytest.mark.parametrize(
    "model",
    [
        SphericalKMeans(4, init="random", memory_budget="60KiB", random_state=0),
        KernelKMeans(
            4,
            kernel="rbf",
            approximation="nystrom",
            n_landmarks=30,
            memory_budget="4MiB",
            random_state=0,
        ),
    ],
    ids=["random centres", "landmarks"],
)
def test_a_map_gives_the_model_of_the_array(model, tmp_path, rng):
    X = rng.normal(size=(1500, 20)) + 3 * np.eye(20)[rng.integers(4, size=1500)]
    np.save(tmp_path / "rows.npy", X)
    read = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = clone(model).fit(X)
    found = clone(model).fit(read)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)
