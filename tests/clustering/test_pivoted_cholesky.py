"""A low-rank factor never exceeds its matrix, and is the matrix at full rank."""

import numpy as np
import pytest

from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.clustering._kernel_kmeans import pivoted_factor
from kaucus.kernels import Gaussian, Polynomial
from tests.arrays import EPS, array, assert_close


def factor(xp, K, rank, dtype="float64", seed=0, **options):
    K = array(xp, K, dtype)
    diagonal = array(xp, np.diag(to_numpy(K)))
    return pivoted_factor(
        lambda rows: xp.take(K, rows, axis=1),
        diagonal,
        rank=rank,
        rng=np.random.default_rng(seed),
        **options,
    ).F


@pytest.fixture
def K(rng):
    return Gaussian(gamma=1.0)(rng.normal(size=(80, 3)))


@pytest.mark.parametrize("rank", [1, 10, 40, 80])
@pytest.mark.parametrize("block_size", [1, 7, 128])
def test_what_is_left_is_positive_semidefinite(xp, dtype, K, rank, block_size):
    F = factor(xp, K, rank, dtype, block_size=block_size)
    assert F.shape[0] == 80
    assert 1 <= F.shape[1] <= rank
    assert dtype_name(F) == dtype
    F = to_numpy(F).astype(float)
    left = np.linalg.eigvalsh(K - F @ F.T)
    assert left[0] >= -1000 * EPS[dtype]


def test_more_columns_leave_less(K):
    left = [np.trace(K - F @ F.T) for F in (factor(np, K, r) for r in (5, 20, 60))]
    assert left[0] > 1.5 * left[1] > 3 * left[2] > 0


@pytest.mark.parametrize("block_size", [7, 128])
def test_full_rank_gives_the_matrix(xp, dtype, K, block_size):
    K = K + np.eye(80)
    F = to_numpy(factor(xp, K, 80, dtype, block_size=block_size))
    assert F.shape == (80, 80)
    assert_close(F @ F.T, K, rtol=0, atol=1000 * EPS[dtype])


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_a_matrix_of_low_rank_takes_few_columns(xp, dtype, rng, block_size):
    """At most one block more than the rank."""
    A = rng.normal(size=(80, 5))
    F = to_numpy(factor(xp, A @ A.T, 80, dtype, block_size=block_size))
    assert F.shape[1] <= 5 + block_size
    assert_close(F @ F.T, A @ A.T, rtol=0, atol=2000 * EPS[dtype])


@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_not_factored(dtype, gamma, scale, seed):
    """Smooth kernels run out of digits before they run out of columns."""
    X = np.random.default_rng(seed).normal(size=(200, 2))
    K = (scale * Gaussian(gamma=gamma)(X)).astype(dtype)
    F = factor(np, K, 200, dtype, seed=seed, block_size=16).astype(float)
    left = np.linalg.eigvalsh(K - F @ F.T)
    assert left[0] >= -1e4 * EPS[dtype] * scale
    assert np.trace(K - F @ F.T) <= 200 * 1e4 * EPS[dtype] * scale


@pytest.mark.parametrize("block_size", [8, 16])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_very_different_size(dtype, seed, block_size):
    """What is left of small rows is less than the rounding of large ones."""
    X = np.random.default_rng(seed).normal(size=(300, 2)).astype(dtype)
    for kernel in (Polynomial(degree=4, coef0=1.0), Polynomial(degree=6)):
        K = kernel(X).astype(float)
        F = factor(np, kernel(X), 300, dtype, seed=seed, block_size=block_size)
        left = np.linalg.eigvalsh(K - F.astype(float) @ F.T.astype(float))
        assert np.max(np.abs(left)) <= 1e4 * EPS[dtype] * np.max(K)


def test_zero_has_no_columns(xp, dtype):
    F = factor(xp, np.zeros((6, 6)), 3, dtype)
    assert F.shape == (6, 0)
    assert dtype_name(F) == dtype


def test_the_same_generator_gives_the_same_columns(xp, K):
    first, second = factor(xp, K, 10, seed=4), factor(np, K, 10, seed=4)
    assert_close(first, second, rtol=1e-8, atol=1e-10)
    assert not np.allclose(factor(np, K, 10, seed=5), second)
