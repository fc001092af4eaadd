"""A given matrix as a kernel of row numbers."""

import numpy as np
import pytest

from kaucus._array.namespace import dtype_name
from kaucus.kernels import Gaussian, KernelOperator, Precomputed
from tests.arrays import array, assert_close, same_bits


@pytest.fixture
def K(rng, dtype):
    return Gaussian()(rng.normal(size=(15, 3))).astype(dtype)


def test_all_rows_give_the_matrix(xp, dtype, K):
    given = array(xp, K)
    kernel = Precomputed(given)
    rows = kernel.row_numbers()
    assert rows.shape == (15, 1)
    assert same_bits(kernel(rows), K)
    assert same_bits(kernel.diag(rows), np.diag(K))
    assert same_bits(given, K)


def test_some_rows_give_their_entries(xp, dtype, K):
    kernel = Precomputed(array(xp, K))
    i, j = [3, 1, 4], [14, 0]
    rows = kernel.row_numbers()
    A = xp.take(rows, array(xp, i), axis=0)
    B = xp.take(rows, array(xp, j), axis=0)
    assert same_bits(kernel(A, B), K[np.ix_(i, j)])
    assert same_bits(kernel.diag(A), np.diag(K)[i])


def test_the_precision_of_the_row_numbers_is_that_of_the_result(xp, K):
    kernel = Precomputed(array(xp, K))
    rows = array(xp, np.arange(15)[:, None], "float64")
    assert dtype_name(kernel(rows)) == "float64"
    assert_close(kernel(rows), K, rtol=1e-7)


def test_as_an_operator(xp, dtype, K, rng):
    kernel = Precomputed(array(xp, K))
    operator = KernelOperator(kernel, kernel.row_numbers(), memory_budget=4096)
    V = rng.normal(size=(15, 2)).astype(dtype)
    atol = 1e-5 if dtype == "float32" else 1e-13
    assert_close(operator.matmul(array(xp, V)), K @ V, rtol=0, atol=atol)


def test_claims_nothing():
    assert not Precomputed(np.eye(2)).positive_semidefinite
