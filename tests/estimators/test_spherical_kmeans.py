"""SphericalKMeans: what users see."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from kaucus import SphericalKMeans
from tests.arrays import assert_to_rounding


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 6))
    return means[rng.integers(4, size=200)] + 0.05 * rng.normal(size=(200, 6))


def fitted(X, **params):
    return SphericalKMeans(4, random_state=0, **params).fit(X)


def test_labels_are_predictions_and_centres_are_unit_rows(X):
    model = fitted(X)
    assert_array_equal(model.labels_, model.predict(X))
    assert_array_equal(model.labels_, model.fit_predict(X))
    assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)


def test_transform_gives_cosines_and_score_their_cost(X):
    model = fitted(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert_allclose(model.transform(X), unit @ model.cluster_centers_.T, atol=1e-12)
    assert_allclose(-model.score(X), model.inertia_)
    assert_allclose(
        -model.score(X, sample_weight=np.full(200, 2.0)), 2 * model.inertia_
    )


def test_it_finds_clusters_that_differ_by_direction_alone():
    rng = np.random.default_rng(0)
    angle = np.repeat([0.2, 1.2], 50) + 0.02 * rng.normal(size=100)
    X = np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(0.1, 9, size=(100, 1))
    labels = SphericalKMeans(2, random_state=0).fit_predict(X)
    assert len(set(labels[:50])) == len(set(labels[50:])) == 1
    assert labels[0] != labels[-1]


def test_float32_stays_float32(X):
    model = fitted(X.astype(np.float32))
    assert model.cluster_centers_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_sparse_equals_dense(X):
    X[np.abs(X) < 0.3] = 0
    a, b = fitted(X), fitted(scipy.sparse.csr_matrix(X))
    assert_array_equal(a.labels_, b.labels_)
    assert_allclose(a.transform(X), b.transform(scipy.sparse.csr_array(X)), atol=1e-12)


def test_the_same_seed_gives_the_same_clusters(X):
    a, b = (SphericalKMeans(6, init="random", random_state=3).fit(X) for _ in range(2))
    assert_to_rounding(a.cluster_centers_, b.cluster_centers_)


def test_given_centres_are_where_it_begins(X):
    first = X[:4]
    model = fitted(X, init=first, max_iter=1, tol=1.0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    labels = np.argmax(
        unit @ (first / np.linalg.norm(first, axis=1)[:, None]).T, axis=1
    )
    mean = unit[labels == 0].sum(axis=0)
    assert_allclose(model.cluster_centers_[0], mean / np.linalg.norm(mean))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_clusters": 0}, "n_clusters=0 must be a whole number"),
        ({"n_clusters": 300}, "n_samples=200 should be >= n_clusters=300"),
        ({"init": "best"}, "init='best' must be one of"),
        ({"init": np.ones((3, 6))}, r"init has shape \(3, 6\); expected"),
        ({"n_init": "many"}, "n_init='many' must be .*or 'auto'"),
        ({"n_init": 0}, "n_init=0 must be a whole number"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number"),
        ({"tol": -1.0}, "tol=-1.0 must be a positive"),
        ({"memory_budget": "much"}, "memory_budget='much' is not a size"),
    ],
)
def test_bad_parameters_are_named_with_what_was_expected(X, params, text):
    with pytest.raises(ValueError, match=text):
        SphericalKMeans(**{"n_clusters": 4, **params}).fit(X)


def test_too_few_different_rows_are_reported():
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="Only 3 of n_clusters=5"):
        SphericalKMeans(5, random_state=0).fit(X)


def test_an_end_before_rest_is_reported():
    X = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps"):
        SphericalKMeans(20, max_iter=1, tol=1e-12, random_state=0).fit(X)
