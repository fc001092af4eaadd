"""Kernel k-means of rows that are read part by part is that of all rows at once."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from kaucus.clustering._kernel_kmeans import (
    choose_landmarks,
    kernel_kmeans_on_landmarks,
    labels_on_landmarks,
)
from kaucus.kernels import Gaussian, Polynomial
from tests.sources import batch_rows

K, KERNEL = 4, Gaussian(gamma=0.5)


@pytest.fixture
def X(rng):
    """Two rings with noise, cut into four."""
    angle, radius = rng.uniform(0, 7, size=(2, 400))
    radius = np.where(radius > 3, 3.0, 1.0)[:, None]
    ring = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return ring + 0.1 * rng.normal(size=ring.shape)


def both(X, n_parts, kernel=KERNEL, k=K, place=None, **options):
    """Return the results of all rows, of their parts, and the labels of these.

    In place of the coefficients, the inner products of the means with the landmarks:
    these do not depend on the condition of the kernel matrix.
    """
    landmarks = X[::10]
    source = batch_rows(X, n_parts, place=place)
    whole, parts = (
        kernel_kmeans_on_landmarks(
            kernel, rows, landmarks, k, rng=np.random.default_rng(1), **options
        )
        for rows in (X, source)
    )
    labels = labels_on_landmarks(kernel, source, landmarks, parts)
    values = [kernel(landmarks) @ found.coef for found in (whole, parts)]
    return replace(whole, coef=values[0]), replace(parts, coef=values[1]), labels


def assert_same(whole, parts, labels, rtol=1e-6):
    assert parts.labels is None
    assert_array_equal(labels, whole.labels)
    assert_allclose(parts.coef, whole.coef, rtol=rtol, atol=rtol)
    assert_allclose(parts.center_norms, whole.center_norms, rtol=rtol)
    assert_allclose(parts.inertia, whole.inertia, rtol=rtol)
    assert_allclose(parts.weights, whole.weights)
    same = ("n_iter", "converged", "n_reseeded", "rose")
    assert [getattr(parts, s) for s in same] == [getattr(whole, s) for s in same]


@pytest.mark.parametrize("init", ["k-means++", "random", "given"])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_clusters_are_those_of_all_rows(X, init, n_parts):
    init = np.arange(400) % K if init == "given" else init
    assert_same(*both(X, n_parts, init=init, kernel=KERNEL))


def test_weights_count_and_the_best_of_several_starts_is_kept(X, rng):
    weight = rng.integers(0, 3, size=400).astype(float)
    found = both(X, 3, sample_weight=weight, n_init=4)
    assert_same(*found)
    first_start = both(X, 3, sample_weight=weight)[1]
    assert found[1].inertia < first_start.inertia


def test_a_kernel_whose_diagonal_is_not_one(X):
    assert_same(*both(X, 3, kernel=Polynomial(degree=2, gamma=1.0, coef0=1.0)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_clusters_that_begin_without_rows_take_the_same_ones(X, rng, weighted, n_parts):
    weight = rng.random(400) + 0.1 if weighted else None
    whole, parts, labels = both(
        X, n_parts, k=6, init=np.arange(400) % 3, sample_weight=weight
    )
    assert whole.n_reseeded >= 3
    assert_same(whole, parts, labels)


def test_a_tolerance_ends_it_where_it_ends_for_all_rows(X):
    whole, parts, _ = both(X, 3, init="random", tol=1e-2)
    assert_allclose(parts.inertia, whole.inertia)
    assert parts.n_iter == whole.n_iter < both(X, 3, init="random")[1].n_iter
    assert parts.converged


def test_rows_that_are_their_own_means_cost_nothing():
    X, told = np.repeat(np.eye(4), 5, axis=0), []
    parts = kernel_kmeans_on_landmarks(
        Gaussian(gamma=1.0),
        batch_rows(X, 3),
        np.eye(4),
        4,
        rng=np.random.default_rng(0),
        callback=lambda step, gain, made: told.append(gain),
    )
    assert parts.converged
    assert_allclose(parts.inertia, 0, atol=1e-12)
    assert all(0 <= gain < np.inf for gain in told)


def test_too_few_steps_are_told(X):
    whole, parts, _ = both(X, 3, init="random", max_iter=2)
    assert (parts.n_iter, parts.converged) == (2, False)
    assert_allclose(parts.inertia, whole.inertia)


def test_csr_and_float32_parts(X):
    assert_same(*both(scipy.sparse.csr_array(np.maximum(X, 0)), 3))
    single = X.astype(np.float32)
    whole, parts, labels = both(single, 3)
    assert (labels != whole.labels).mean() < 0.01
    assert_allclose(parts.inertia, whole.inertia, rtol=1e-3)


@pytest.mark.parametrize("method", ["k-means", "uniform", "rpcholesky"])
@pytest.mark.parametrize("sparse", [False, True])
def test_landmarks_are_those_of_all_rows(X, method, sparse):
    X = scipy.sparse.csr_array(np.maximum(X, 0)) if sparse else X
    expected, *found = (
        choose_landmarks(KERNEL, rows, 20, method=method, rng=np.random.default_rng(2))
        for rows in (X, batch_rows(X, 1), batch_rows(X, 7))
    )
    for landmarks in found:
        assert scipy.sparse.issparse(landmarks) == scipy.sparse.issparse(expected)
        dense = [
            a.toarray() if scipy.sparse.issparse(a) else a
            for a in (landmarks, expected)
        ]
        assert_allclose(*dense)


def test_parts_are_worked_on_where_they_are_placed(X, rng):
    torch = pytest.importorskip("torch")
    weight = rng.random(400)
    found = both(X, 3, sample_weight=weight, place=torch.from_numpy)
    assert isinstance(found[1].coef, np.ndarray)
    assert_same(*found)


def test_too_little_memory_for_one_part_is_told_before_the_work(X):
    rows = batch_rows(X, 3, budget=2**10)
    with pytest.raises(MemoryError, match="n_landmarks"):
        kernel_kmeans_on_landmarks(
            KERNEL, rows, X[::10], K, rng=np.random.default_rng(0)
        )
