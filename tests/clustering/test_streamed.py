"""k-means of rows that stay on the host is k-means."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kaucus._array.namespace import to_numpy
from kaucus._array.rows import HostRows
from kaucus.clustering import _kmeans
from kaucus.clustering._kmeans import kmeans
from tests.arrays import array, assert_close, assert_to_rounding

METRICS = ["cosine", "euclidean"]


def rng_of(seed=0):
    return np.random.default_rng(seed)


def blobs(seed=0, n=120, d=4, k=5):
    rng = rng_of(seed)
    means = 4 * rng.normal(size=(k, d))
    return means[rng.integers(k, size=n)] + 0.5 * rng.normal(size=(n, d))


def streamed_kmeans(X, n_clusters, *, like, **options):
    return kmeans(HostRows(X, like, buffer_bytes=1000), n_clusters, **options)


def assert_same(streamed, expected, like):
    assert type(streamed.centers) is type(like)
    assert isinstance(streamed.labels, np.ndarray)
    assert_close(streamed.centers, expected.centers, atol=1e-9)
    assert_array_equal(streamed.labels, to_numpy(expected.labels))
    assert streamed.inertia == pytest.approx(expected.inertia)
    assert streamed.n_iter == expected.n_iter
    assert streamed.n_reseeded == expected.n_reseeded
    assert streamed.converged == expected.converged


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_k_means(metric, init, weighted, xp):
    X = blobs()
    weight = rng_of(1).integers(0, 3, len(X)).astype(float) if weighted else None
    options = {"metric": metric, "init": init, "sample_weight": weight}
    expected = kmeans(X, 5, rng=rng_of(), **options)
    like = array(xp, X[:1])
    # Blocks of a few rows: 8 x (2 x 4 + 2 x 5) numbers a row for an eighth of it.
    streamed = streamed_kmeans(
        X, 5, like=like, rng=rng_of(), memory_budget=8 * 7 * 18 * 8, **options
    )
    assert_same(streamed, expected, like)


@pytest.mark.parametrize("metric", METRICS)
def test_empty_clusters_are_given_rows(metric, xp):
    X = blobs(d=3)
    first = np.concatenate([X[:3], np.repeat(X[:1], 4, axis=0)])  # four repeat one
    expected = kmeans(X, 7, metric=metric, init=first, rng=rng_of())
    assert expected.n_reseeded > 0
    like = array(xp, X[:1])
    streamed = streamed_kmeans(
        X, 7, like=like, metric=metric, init=first, rng=rng_of(), memory_budget=10**4
    )
    assert_same(streamed, expected, like)


def test_the_best_of_several_starts():
    X = blobs()
    options = {"metric": "euclidean", "init": "random", "n_init": 5}
    expected = kmeans(X, 5, rng=rng_of(), **options)
    streamed = streamed_kmeans(X, 5, like=X[:1], rng=rng_of(), **options)
    assert streamed.inertia == pytest.approx(expected.inertia)


def test_rows_of_a_memory_map(tmp_path):
    X = blobs()
    X.tofile(tmp_path / "X")
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    a, b = (
        streamed_kmeans(rows, 5, like=X[:1], init=X[:5], rng=rng_of(), memory_budget=10)
        for rows in (X, stored)
    )
    assert_array_equal(a.labels, b.labels)


def test_seeds_of_many_rows_are_chosen_among_some(monkeypatch):
    monkeypatch.setattr(_kmeans, "_LEAST_SEED_ROWS", 30)
    monkeypatch.setattr(_kmeans, "_SEED_ROWS", 1)
    X = blobs()
    seen = []
    choose = _kmeans.kmeans_plus_plus

    def noted(rows, *args, **options):
        seen.append(rows.shape[0])
        return choose(rows, *args, **options)

    monkeypatch.setattr(_kmeans, "kmeans_plus_plus", noted)
    found = streamed_kmeans(X, 5, like=X[:1], metric="euclidean", rng=rng_of())
    assert seen == [30]
    best = kmeans(X, 5, metric="euclidean", n_init=10, rng=rng_of())
    assert found.inertia < 3 * best.inertia


def test_a_callback_ends_it():
    X, told = blobs(), []

    def stop(step, moved, centers):
        assert centers.shape == (5, X.shape[1])
        told.append((step, moved))
        return step == 2

    found = streamed_kmeans(
        X, 5, like=X[:1], init=X[:5], rng=rng_of(), tol=0.0, callback=stop
    )
    assert found.n_iter == 2
    assert [step for step, _ in told] == [1, 2]


@pytest.fixture
def rough_device(monkeypatch):
    """A device with fast products of few digits; return how often they were used."""
    used = []

    def rough(X, Y):
        used.append(X.shape[0])
        return (X.astype(np.float16) @ Y.astype(np.float16).T).astype(X.dtype)

    monkeypatch.setattr(_kmeans, "rough_error", lambda X: 2.0**-8)
    monkeypatch.setattr(_kmeans, "rough_inner_products", rough)
    monkeypatch.setattr(_kmeans, "_MANY_SCORES", 120 * 5)
    return used


@pytest.mark.parametrize("metric", METRICS)
def test_a_rough_look_first_changes_nothing(metric, rough_device, monkeypatch):
    X = blobs().astype(np.float32)
    options = {"metric": metric, "init": X[:5], "rng": rng_of()}
    found = streamed_kmeans(X, 5, like=X[:1], memory_budget=8 * 18 * 4 * 30, **options)
    assert sum(rough_device) == (found.n_iter + 1) * len(X)
    assert max(rough_device) < len(X)  # by the rows in all, not by those of a block
    monkeypatch.undo()
    exact = kmeans(X, 5, **options)
    assert_array_equal(found.labels, exact.labels)
    assert found.inertia == pytest.approx(exact.inertia, rel=1e-5)


def test_rough_looks_end_where_most_rows_need_another(rough_device):
    X = np.ones((120, 4), dtype=np.float32)
    streamed_kmeans(
        X, 5, like=X[:1], init=X[:5], rng=rng_of(), max_iter=3, memory_budget=20_000
    )
    assert len(rough_device) == 1


def test_maps_of_rows_on_the_host_follow_each_other():
    X = blobs()
    rows = HostRows(X, X[:1], buffer_bytes=1000)
    twice = rows.mapped(lambda X: X[:, :2] + 1, 2).mapped(lambda X: 3 * X, 2)
    assert_to_rounding(twice.host(), 3 * (X[:, :2] + 1))
    assert twice.shape == (len(X), 2)
