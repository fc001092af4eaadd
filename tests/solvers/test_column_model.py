"""Least squares on kernel columns for every C: the same as solved one by one."""

import pytest

from kaucus.backend import to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers import decompose_columns, solve_on_representatives
from tests.arrays import array, assert_close


@pytest.mark.parametrize("weighted", [False, True])
def test_every_c_is_the_model_that_is_solved_for_it(xp, rng, weighted):
    X, new = rng.normal(size=(60, 3)), rng.normal(size=(8, 3))
    Y, kernel, Cs = rng.normal(size=(60, 2)), Gaussian(gamma=0.3), [0.1, 10.0, 1e3]
    weight = rng.uniform(0.5, 2.0, size=60) if weighted else None
    K = kernel(X, X[:12])
    given = [array(xp, v) for v in (K, K[:12].copy(), Y)]
    model = decompose_columns(*given, None if weight is None else array(xp, weight))
    values = to_numpy(model.values(array(xp, kernel(new, X[:12])), Cs))
    coefs = to_numpy(model.coefficients(Cs))
    for c, C in enumerate(Cs):
        one = solve_on_representatives(kernel, X, Y, X[:12], C=C, sample_weight=weight)
        expected = kernel(new, X[:12]) @ one.dual_coef + one.intercept
        assert_close(values[:, c, :], expected, rtol=1e-6, atol=1e-7)
        fitted = K @ coefs[:, c, :]
        assert_close(fitted, K @ one.dual_coef, rtol=1e-5, atol=1e-6)
