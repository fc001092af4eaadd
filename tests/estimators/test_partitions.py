"""Cells from names, clusterers, classifiers and functions."""

import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture

from kaucus.estimators.cells import PARTITIONS, KnownCells, fit_partition
from kaucus.kernels import NearestCenter


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(120, centers=3, cluster_std=0.8, random_state=0)


def fit(partition, X, y, n_clusters=3, weight=None, seed=0):
    weight = np.ones(len(X)) if weight is None else weight
    rng = np.random.default_rng(seed)
    return fit_partition(partition, n_clusters, X, y, weight, rng)


def assert_partition(function, cells, X):
    """Cells are numbered from 0 without gaps, and the function gives them again."""
    assert set(cells) == set(range(len(np.unique(cells))))
    assert np.array_equal(np.asarray(function(X)), cells)


def n_cells(cells):
    return len(np.unique(cells))


@pytest.mark.parametrize("name", PARTITIONS)
def test_every_name(name, blobs):
    X, y = blobs
    function, cells = fit(name, X, y)
    assert_partition(function, cells, X)
    assert n_cells(cells) == 3
    _, again = fit(name, X, y)
    assert np.array_equal(cells, again)


def test_kmeans_is_the_best_of_ten_starts(blobs):
    X, y = blobs
    function, cells = fit("kmeans", X, y, n_clusters=5)
    best = KMeans(5, n_init=50, random_state=1).fit(X).inertia_
    means = np.stack([X[cells == i].mean(axis=0) for i in range(5)])
    inertia = ((X - means[cells]) ** 2).sum()
    assert inertia == pytest.approx(best, rel=0.02)
    assert isinstance(function, NearestCenter)


def test_kmeans_weighs_its_rows(blobs):
    X, y = blobs
    _, light = fit("kmeans", X, y, 2, weight=np.where(y == 0, 1e-9, 1.0))
    assert len(set(light[y == 1])) == len(set(light[y == 2])) == 1
    assert light[y == 1][0] != light[y == 2][0]


def test_no_more_cells_than_different_rows():
    X = np.repeat(np.eye(2), 5, axis=0)
    _, cells = fit("kmeans", X, np.zeros(10), n_clusters=4)
    assert n_cells(cells) == 2


@pytest.mark.parametrize(
    "model", [MiniBatchKMeans(3, n_init=3, random_state=0), GaussianMixture(3)]
)
def test_a_clusterer_is_cloned_and_fitted_unless_it_is(model, blobs):
    X, y = blobs
    assert_partition(*fit(model, X, y), X)
    assert not hasattr(model, "n_features_in_")
    model.fit(X[:60])
    before = model.predict(X)
    _, expected = np.unique(before, return_inverse=True)
    _, cells = fit(model, X, y)
    assert np.array_equal(cells, expected)


def test_a_classifier_is_fitted_to_the_labelled_rows(blobs):
    X, y = blobs
    function, cells = fit(LogisticRegression(), X, y[:100])
    assert_partition(function, cells, X)
    assert np.mean(cells == y) > 0.9


def test_supervised_cells_follow_the_labels(blobs):
    X, _ = blobs
    y = (X[:, 1] > np.median(X[:, 1])).astype(int)
    for name in ("linear", "tree"):
        _, cells = fit(name, X, y, n_clusters=2)
        assert n_cells(cells) == 2
        assert np.mean(cells == y) > 0.95
    _, cells = fit("tree", X, blobs[1], n_clusters=4)
    assert n_cells(cells) == 4


def test_a_function_with_labels_of_its_own(blobs):
    X, y = blobs

    def quarter(X):
        return np.where(X[:, 0] > 0, "right", "left")

    function, cells = fit(quarter, X, y)
    assert_partition(function, cells, X)
    assert np.array_equal(cells, X[:, 0] > 0)


def test_a_row_with_a_label_that_was_not_seen_goes_to_the_nearest_mean():
    X = np.array([[0.0], [1.0], [10.0]])
    cells = KnownCells(lambda X: X[:, 0].astype(int) // 5, np.array([0, 2]), X[[0, 2]])
    assert cells(X).tolist() == [0, 0, 1]
    assert cells(np.array([[6.0], [-20.0], [99.0]])).tolist() == [1, 0, 1]


def test_a_function_that_gives_no_cells(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"shape \(120, 2\) for 120 rows; expected"):
        fit(lambda X: X, X, y)
