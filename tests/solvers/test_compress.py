"""Laws of the compression of a model's columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus.kernels import Gaussian
from kaucus.solvers._columns import compress_columns


def columns(seed=0, n=120, m=40, gamma=0.05, t=2):
    """Return the columns of a wide kernel, of which many can do without."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return Gaussian(gamma=gamma)(X, X[:m]), rng.normal(size=(m, t)), rng.normal(size=t)


@given(seed=st.integers(0, 10**6), tol=st.sampled_from([1e-6, 1e-3, 0.1, 3.0]))
def test_no_value_changes_by_more_than_promised(seed, tol):
    K, a, b = columns(seed)
    small = compress_columns(K, a, b, tol)
    changes = K[:, small.kept] @ small.dual_coef + small.intercept - (K @ a + b)
    assert np.abs(changes).max() <= tol * (1 + 1e-9) + 1e-12
    assert small.change <= tol
    assert small.dual_coef.shape == (len(small.kept), 2)
    assert (np.diff(small.kept) > 0).all()


def test_a_larger_tolerance_keeps_fewer():
    K, a, b = columns()
    numbers = [len(compress_columns(K, a, b, t).kept) for t in (1e-8, 1e-3, 0.1, 10.0)]
    assert numbers == sorted(numbers, reverse=True)
    assert 1 <= numbers[-1] < numbers[0] <= 40


def test_columns_that_repeat_others_are_dropped():
    K, a, b = columns(m=10, gamma=2.0)
    twice = np.c_[K, K, np.ones(len(K))]
    small = compress_columns(twice, np.r_[a, a, [[1.0, 2.0]]], b, 1e-9)
    assert len(small.kept) == 10  # the constant is the intercept's
    np.testing.assert_allclose(
        twice[:, small.kept] @ small.dual_coef + small.intercept,
        2 * K @ a + b + [1.0, 2.0],
        atol=1e-8,
    )


def test_columns_that_are_all_needed_stay_as_they_are():
    rng = np.random.default_rng(0)
    K, a = rng.normal(size=(50, 20)), rng.normal(size=(20, 1))
    small = compress_columns(K, a, np.zeros(1), 1e-10)
    assert len(small.kept) == 20
    np.testing.assert_allclose(small.dual_coef, a, atol=1e-8)


def test_a_column_without_a_coefficient_is_dropped_first():
    rng = np.random.default_rng(0)
    K, a = rng.normal(size=(50, 5)), np.array([[1.0], [0.0], [2.0], [0.0], [3.0]])
    small = compress_columns(K, a, np.zeros(1), 1e-9)
    np.testing.assert_array_equal(small.kept, [0, 2, 4])


def test_what_is_passed_is_not_changed():
    K, a, b = columns()
    before = [K.copy(), a.copy(), b.copy()]
    compress_columns(K, a, b, 0.1)
    for value, old in zip((K, a, b), before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_are_no_error(dtype):
    K, a, b = columns(n=12, m=12)
    small = compress_columns(K[:8].astype(dtype), a, b, 0.01)
    assert 1 <= len(small.kept) <= 12
    assert small.change <= 0.01
