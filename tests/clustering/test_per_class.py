"""Laws of the representatives of classes."""

import threading

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from kaucus._array import blocks
from kaucus._array.namespace import to_numpy
from kaucus.clustering import _kmeans
from kaucus.clustering._kmeans import (
    KMeansOptions,
    kmeans,
    represent_classes,
)
from tests.arrays import array, assert_to_rounding

METRICS = ["cosine", "euclidean"]


def rows_and_labels(seed=0, n=90, d=4, k=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return rng.normal(size=(n, d)) + 3 * labels[:, None], labels


def represent(X, labels, numbers, metric="euclidean", seed=0, **options):
    return represent_classes(
        X,
        labels,
        numbers,
        options=KMeansOptions(metric=metric),
        rng=np.random.default_rng(seed),
        **options,
    )


@pytest.mark.parametrize("metric", METRICS)
def test_each_class_is_clustered_by_itself(metric):
    X, labels = rows_and_labels()
    if metric == "cosine":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = represent(X, labels, [4, 5, 6], metric)
    assert_array_equal(np.bincount(found.labels), [4, 5, 6])
    rngs = np.random.default_rng(0).spawn(3)
    for c, k in enumerate((4, 5, 6)):
        alone = kmeans(X[labels == c], k, metric=metric, init="random", rng=rngs[c])
        assert_allclose(found.points[found.labels == c], alone.centers, rtol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_any_library_and_precision(xp, dtype, metric):
    X, labels = rows_and_labels()
    found = represent(array(xp, X, dtype), labels, [3, 3, 3], metric)
    expected = represent(X, labels, [3, 3, 3], metric)
    assert str(found.points.dtype).endswith(dtype)
    assert_allclose(to_numpy(found.points), expected.points, rtol=1e-3, atol=1e-3)
    assert_array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 10**6))
def test_weights_are_those_of_the_rows(metric, seed):
    X, labels = rows_and_labels(seed)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 2.0], size=len(X))
    found = represent(X, labels, [5, 5, 5], metric, sample_weight=weight)
    assert (found.weights > 0).all()
    for c in range(3):
        total = found.weights[found.labels == c].sum()
        assert total == pytest.approx(weight[labels == c].sum())


def test_a_class_with_few_rows_gives_all_of_them():
    X, labels = rows_and_labels(n=30)
    found = represent(X, labels, [100, 2, 100])
    assert_array_equal(found.points[found.labels == 0], X[labels == 0])
    assert_array_equal(found.points[found.labels == 2], X[labels == 2])
    assert (found.labels == 1).sum() == 2


def test_rows_of_weight_zero_stand_for_nothing():
    X, labels = rows_and_labels(n=30)
    weight = np.arange(30) % 2.0
    found = represent(X, labels, [100, 100, 100], sample_weight=weight)
    assert len(found.points) == 15
    assert not {tuple(x) for x in X[weight == 0]} & {tuple(p) for p in found.points}


def test_a_centre_without_rows_is_left_out():
    X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 20, axis=0)
    found = represent(X, np.zeros(40, dtype=int), [3])
    assert sorted(map(tuple, found.points)) == [(0.0, 0.0), (5.0, 5.0)]
    assert_array_equal(found.weights, [20, 20])


def test_by_angle_a_representative_is_as_long_as_its_rows():
    X, labels = rows_and_labels()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    small = represent(unit, labels, [4, 4, 4], "cosine")
    assert_allclose(np.linalg.norm(small.points, axis=1), 1, rtol=1e-12)
    large = represent(10 * unit, labels, [4, 4, 4], "cosine")
    assert_allclose(large.points, 10 * small.points, rtol=1e-10)


def test_sparse_rows_are_their_dense_ones():
    X, labels = rows_and_labels()
    X = np.where(np.abs(X) > 1, X, 0)
    dense = represent(X, labels, [4, 4, 4])
    sparse = represent(scipy.sparse.csr_array(X), labels, [4, 4, 4])
    assert_allclose(sparse.points, dense.points, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("numbers", [[4, 4, 4], [25, 1, 1]], ids=["balanced", "not"])
def test_the_number_of_threads_changes_nothing(numbers):
    X, labels = rows_and_labels()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(represent(X, labels, numbers))
    assert_to_rounding(found[0].points, found[1].points)


def test_classes_run_in_parallel_only_where_they_are_balanced():
    job = _kmeans._Job
    even = [job(np.arange(50), 5)] * 4
    uneven = [job(np.arange(500), 5), *even]
    assert _kmeans._parallel_classes(even, 2) == 2
    assert _kmeans._parallel_classes(uneven, 2) == 1
    assert _kmeans._parallel_classes(even[:1], 2) == 1


def test_progress_is_told_class_by_class():
    X, labels = rows_and_labels()
    told = []
    represent(X, labels, [2, 2, 2], callback=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]


# ---- rows that come later ---------------------------------------------------------


# ---- interrupts -------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_ends_every_class_and_is_raised(monkeypatch, threads):
    X, labels = rows_and_labels(n=300)
    real = _kmeans.kmeans

    def impatient(*args, **kwargs):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    class Interrupted(blocks.ThreadPoolExecutor):
        def submit(self, function, *args):
            if args[0] == 2:
                raise KeyboardInterrupt
            return super().submit(function, *args)

    monkeypatch.setattr(_kmeans, "kmeans", impatient)
    monkeypatch.setattr(blocks, "ThreadPoolExecutor", Interrupted)
    with threadpool_limits(threads), pytest.raises(KeyboardInterrupt):
        represent(X, labels, [20, 20, 20])
