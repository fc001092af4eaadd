"""Laws of choosing the rows near the boundary between classes."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import to_numpy
from kaucus._array.rows import HostRows
from kaucus.kernels import Gaussian, Polynomial
from kaucus.solvers._columns import (
    rows_near_boundary,
    solve_on_representatives,
    undecided,
)
from tests.arrays import array
from tests.solvers.problems import of_rows, weights

rows_near_boundary = of_rows(rows_near_boundary)
solve_on_representatives = of_rows(solve_on_representatives)

KERNEL = Gaussian(gamma=0.5)


def near(X, Y, Z, n_rows, seed=0, **options):
    options = {"n_rough": 70, "C": 10.0, "rng": np.random.default_rng(seed), **options}
    return rows_near_boundary(KERNEL, X, Y, Z, n_rows, **options)


def classes(n=200, seed=0, t=3):
    """Return rows, and targets of three classes, or of two."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    if t == 1:
        return X, np.sign(X[:, :1])
    return X, np.where(np.argmax(X, axis=1)[:, None] == np.arange(3), 1.0, -1.0)


@pytest.mark.parametrize("t", [1, 3])
def test_a_third_of_them_are_those_that_the_rough_fit_is_least_sure_about(xp, dtype, t):
    X, Y = classes(t=t)
    Z = X[:12] + 0.1
    got = near(array(xp, X, dtype), array(xp, Y), array(xp, Z, dtype), 61)
    values = KERNEL(X, Z) @ to_numpy(got.rough.dual_coef)
    values = values + to_numpy(got.rough.intercept)
    both = np.c_[values, -values] if t == 1 else values
    first, second = np.sort(both, axis=1)[:, :-3:-1].T
    distance = first - second
    order = np.argsort(distance)
    # float32 may exchange neighbours, so the last few are not asked for.
    assert set(order[:18]) <= set(got.rows)
    assert len(got.rows) == len(set(got.rows)) == 61
    assert np.all(np.diff(got.rows) > 0)
    others = np.setdiff1d(got.rows, order[:24])
    assert np.median(distance[others]) > 2 * np.median(distance[order[:21]])


def test_the_rough_fit_is_that_of_random_rows():
    X, Y = classes()
    Z = X[:9] + 0.1
    some = np.sort(np.random.default_rng(5).permutation(200)[:70])
    once = solve_on_representatives(KERNEL, X[some], Y[some], Z, C=10.0)
    got = near(X, Y, Z, 50, seed=5).rough
    np.testing.assert_allclose(got.dual_coef, once.dual_coef)
    np.testing.assert_allclose(got.intercept, once.intercept)


@given(seed=st.integers(0, 10**6), n_rows=st.integers(1, 80))
def test_rows_of_weight_zero_are_passed_over(seed, n_rows):
    X, Y = classes(60, seed)
    weight = weights(seed, 60)
    got = near(X, Y, X[:5] + 0.1, n_rows, seed, sample_weight=weight).rows
    assert (weight[got] > 0).all()
    assert len(set(got)) == len(got) == min(n_rows, np.count_nonzero(weight))


def test_a_rows_own_class_does_not_matter():
    """Rows of the wrong class, far from the boundary, are no nearer to it."""
    X, Y = classes(300, t=1)
    far = np.argsort(-np.abs(X[:, 0]))[:5]
    Y[far] *= -1
    values = np.arange(1.0, 6.0)[:, None]
    np.testing.assert_array_equal(undecided(values), undecided(-values))
    got = near(X, Y, X[50:70] + 0.1, 60).rows
    # Of the others, one in seven is drawn.
    assert len(set(far) & set(got)) <= 3


def test_sparse_rows_are_their_dense_ones():
    X, Y = classes(80)
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    kernel = Polynomial(degree=2, gamma=1.0, coef0=1.0)
    dense, sparse = (
        rows_near_boundary(
            kernel, rows, Y, X[:7], 30, n_rough=50, C=1.0, rng=np.random.default_rng(0)
        )
        for rows in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_array_equal(dense.rows, sparse.rows)


def test_small_blocks_are_the_same_rows():
    X, Y = classes()
    Z = X[:12] + 0.1
    whole = near(X, Y, Z, 50).rows
    blocks = HostRows(X, X[:1], buffer_bytes=7 * 3 * 8)
    np.testing.assert_array_equal(near(blocks, Y, Z, 50).rows, whole)


def test_nothing_that_is_passed_is_changed():
    X, Y = classes(50)
    weight, Z = weights(0, 50), X[:4].copy()
    before = [a.copy() for a in (X, Y, weight, Z)]
    near(X, Y, Z, 20, sample_weight=weight)
    for value, old in zip((X, Y, weight, Z), before, strict=True):
        np.testing.assert_array_equal(value, old)
