"""gamma="median": the width that the distances between rows suggest."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.base import clone

from kaucus.kernels import median_gamma
from kaucus.kernels._kernel import resolve_gamma
from tests.arrays import array
from tests.discovery import estimators, having, name_of


def median_distance(X, order=2):
    D = np.linalg.norm(X[:, None] - X[None], ord=order, axis=2)
    return np.median(D[np.triu_indices(len(X), 1)])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("rbf", lambda X: 1 / (2 * median_distance(X) ** 2)),
        ("cauchy", lambda X: 1 / (2 * median_distance(X) ** 2)),
        (None, lambda X: 1 / (2 * median_distance(X) ** 2)),
        ("exponential", lambda X: 1 / median_distance(X)),
        ("laplacian", lambda X: 1 / median_distance(X, 1)),
    ],
)
def test_it_is_the_median_over_all_pairs(xp, dtype, rng, kernel, expected):
    X = rng.normal(size=(60, 3))
    gamma = resolve_gamma("median", array(xp, X, dtype), None, kernel)
    assert_allclose(gamma, expected(X), rtol=1e-5 if dtype == "float32" else 1e-12)


def test_the_kernel_halves_as_the_scale_doubles(rng):
    X = rng.normal(size=(60, 3))
    assert_allclose(median_gamma(2 * X), median_gamma(X) / 4)
    assert_allclose(
        median_gamma(2 * X, None, "exponential"),
        median_gamma(X, None, "exponential") / 2,
    )


def test_many_rows_are_sampled_the_same_way_every_time(rng):
    X = rng.normal(size=(5000, 2))
    assert median_gamma(X) == median_gamma(X.copy())
    assert_allclose(median_gamma(X), median_gamma(X[::5][:1000]), rtol=0.1)


def test_equal_rows_do_not_count_and_rows_of_weight_zero_neither(rng):
    X = rng.normal(size=(40, 2))
    far = np.r_[X, X + 100]
    weight = np.r_[np.ones(40), np.zeros(40)]
    assert_allclose(median_gamma(far, weight), median_gamma(X))
    assert median_gamma(np.ones((5, 2))) == 1.0
    assert_allclose(median_gamma(np.array([[0.0], [0.0], [0.0], [2.0]])), 1 / 8)


def test_sparse_equals_dense(rng):
    X = rng.normal(size=(50, 8)) * (rng.uniform(size=(50, 8)) < 0.4)
    assert_allclose(median_gamma(scipy.sparse.csr_array(X)), median_gamma(X))


KERNEL_ESTIMATORS = having(estimators(), "kernel", "gamma")


@pytest.mark.parametrize("estimator", KERNEL_ESTIMATORS, ids=name_of)
def test_every_estimator_with_a_gamma_takes_it(estimator, rng):
    X = rng.normal(size=(40, 3))
    y = np.arange(40) % 2
    by_name = clone(estimator).set_params(kernel="rbf", gamma="median").fit(X, y)
    number = median_gamma(X)
    by_number = clone(estimator).set_params(kernel="rbf", gamma=number).fit(X, y)
    method = "predict" if hasattr(by_name, "predict") else "transform"
    found, expected = (getattr(model, method)(X) for model in (by_name, by_number))
    assert_allclose(found, expected)
