"""k-means of rows that are read part by part is k-means of all rows at once."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from kaucus.clustering._kmeans import (
    KMeansOptions,
    kmeans,
    part_labels,
    represent_classes,
)
from tests.sources import batch_rows


def clusters(rng, n=400, d=4, k=6):
    centers = 5 * rng.normal(size=(k, d))
    return centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def both(X, n_parts, k=8, **options):
    """Return the results of the matrix, and of its parts."""
    options = {"rng": np.random.default_rng(1), **options}
    whole = kmeans(X, k, **options)
    options["rng"] = np.random.default_rng(1)
    return whole, kmeans(batch_rows(X, n_parts), k, **options)


def assert_same(whole, parts, rtol=1e-9):
    assert_allclose(parts.centers, whole.centers, rtol=rtol, atol=rtol)
    assert_allclose(parts.inertia, whole.inertia, rtol=rtol)
    assert_allclose(parts.weights, whole.weights, rtol=rtol)
    assert parts.labels is None
    same = ("n_iter", "converged", "n_reseeded")
    assert [getattr(parts, s) for s in same] == [getattr(whole, s) for s in same]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("init", ["random", "k-means++"])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_centres_are_those_of_all_rows(rng, metric, init, n_parts):
    assert_same(*both(clusters(rng), n_parts, metric=metric, init=init))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_weights_count_and_the_best_of_several_starts_is_kept(rng, metric):
    X, weight = clusters(rng), rng.integers(0, 3, size=400).astype(float)
    whole, parts = both(X, 3, metric=metric, sample_weight=weight, n_init=3)
    assert_same(whole, parts)
    if metric == "cosine":
        assert_allclose(parts.mean_norms, whole.mean_norms)


@pytest.mark.parametrize("n_parts", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_empty_clusters_take_the_same_rows(rng, n_parts, weighted):
    X = clusters(rng)
    far = np.full((5, X.shape[1]), 1e3) + rng.normal(size=(5, X.shape[1]))
    init = np.concatenate([X[:3], far])
    weight = rng.random(400) + 0.1 if weighted else None
    options = {"metric": "euclidean", "init": init, "sample_weight": weight}
    whole, parts = both(X, n_parts, **options)
    assert whole.n_reseeded >= 5
    assert_same(whole, parts)


def test_rows_without_direction_are_no_centres(rng):
    X = clusters(rng)
    X[::3] = 0
    assert_same(*both(X, 3, metric="cosine"))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_csr_and_float32_parts(rng, metric):
    X = clusters(rng)
    assert_same(*both(scipy.sparse.csr_array(X), 3, metric=metric))
    single = both(X.astype(np.float32), 3, metric=metric)
    assert single[1].centers.dtype == np.float32
    assert_same(*single, rtol=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_representatives_of_classes_are_those_of_all_rows(rng, metric):
    X, labels = clusters(rng), rng.integers(3, size=400)
    labels[:2] = 3  # a class of fewer rows than representatives, in one part
    weight = rng.integers(0, 3, size=400).astype(float)
    found = [
        represent_classes(
            rows,
            labels,
            [10, 5, 7, 4],
            options=KMeansOptions(metric),
            sample_weight=weight,
            rng=np.random.default_rng(2),
        )
        for rows in (X, batch_rows(X, 4))
    ]
    assert_allclose(found[1].points, found[0].points, rtol=1e-9, atol=1e-9)
    assert_allclose(found[1].weights, found[0].weights)
    assert_array_equal(found[1].labels, found[0].labels)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_parts_are_worked_on_where_they_are_placed(rng, metric):
    torch = pytest.importorskip("torch")
    X, weight = clusters(rng), rng.random(400)
    init = np.concatenate([X[:4], X[:4] + 1e3])  # some centres lose their rows
    options = {"metric": metric, "init": init, "sample_weight": weight}
    whole = kmeans(X, 8, rng=rng, **options)
    rows = batch_rows(X, 3, place=torch.from_numpy)
    parts = kmeans(rows, 8, rng=rng, **options)
    assert isinstance(parts.centers, np.ndarray)
    assert_same(whole, parts)
    labels = part_labels(rows, parts.centers, metric)
    assert_array_equal(labels, whole.labels)
