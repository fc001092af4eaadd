"""Quantiles by alternating directions are those of general solvers."""

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers._columns import solve_on_representatives
from kaucus.solvers._quantiles import mean_residual, solve_quantiles
from tests.arrays import array, assert_close
from tests.reference import quantiles as reference
from tests.solvers.problems import of_rows

solve_on_representatives = of_rows(solve_on_representatives)
solve_quantiles = of_rows(solve_quantiles)

LEVELS = [0.1, 0.5, 0.8]


@pytest.fixture
def problem(rng):
    X = rng.uniform(0, 6, size=(40, 1))
    y = np.sin(X) + 0.1 * (1 + X) * rng.standard_exponential(size=(40, 1))
    return X, y, X[::8] + 0.01, rng.uniform(0.5, 2, size=40)


def solved(kernel, X, y, Z, s, C, **options):
    start = solve_on_representatives(kernel, X, y, Z, C=C, sample_weight=s)
    return start, solve_quantiles(
        kernel, X, y, Z, LEVELS, start=start, C=C, sample_weight=s, **options
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_a_general_solver(problem, weighted):
    X, y, Z, s = problem
    kernel, C = Gaussian(gamma=0.5), 3.0
    s = s if weighted else None
    start, found = solved(kernel, X, y, Z, s, C, tol=1e-8, max_iter=20_000)
    K, F, ones = kernel(Z), kernel(X, Z), np.ones(40) if s is None else s
    D = 2 * C * mean_residual(F @ start.dual_coef + start.intercept, y, s)
    for k, level in enumerate(LEVELS):
        given = K, F, y[:, 0], ones, D, level
        a, b = reference.quantile_coefficients(*given)
        best = reference.objective(*given, a, b)
        mine = reference.objective(*given, found.dual_coef[:, k], found.intercept[k])
        assert mine == pytest.approx(best, rel=1e-5)
        assert_close(
            F @ found.dual_coef[:, k] + found.intercept[k], F @ a + b, atol=2e-3, rtol=0
        )


def test_with_a_large_C_the_loss_is_that_of_the_linear_program(problem):
    X, y, Z, s = problem
    kernel = Gaussian(gamma=0.5)
    _, found = solved(kernel, X, y, Z, s, 1e6, tol=1e-8, max_iter=20_000)
    F = kernel(X, Z)
    for k, level in enumerate(LEVELS):
        r = y[:, 0] - F @ found.dual_coef[:, k] - found.intercept[k]
        best = reference.loss_of_linear_program(F, y[:, 0], s, level)
        assert np.sum(s * reference.pinball(r, level)) == pytest.approx(best, rel=1e-4)


def test_the_default_tolerance_is_near(problem):
    X, y, Z, s = problem
    kernel = Gaussian(gamma=0.5)
    exact = solved(kernel, X, y, Z, s, 3.0, tol=1e-8, max_iter=20_000)[1]
    found = solved(kernel, X, y, Z, s, 3.0)[1]
    assert found.info.converged
    assert found.info.n_iter < exact.info.n_iter
    F = kernel(X, Z)
    gap = F @ (found.dual_coef - exact.dual_coef) + found.intercept - exact.intercept
    assert np.abs(gap).max() < 0.05 * y.std()


def test_blocks_and_libraries_change_nothing(problem, xp):
    X, y, Z, s = problem
    kernel = Gaussian(gamma=0.5)
    expected = solved(kernel, X, y, Z, s, 3.0)[1]
    rows = [array(xp, v) for v in (X, y, Z, s)]
    found = solved(kernel, *rows, 3.0, memory_budget="64KiB")[1]
    assert type(found.dual_coef) is type(rows[0])
    F = kernel(X, Z)
    values = [
        F @ to_numpy(v.dual_coef) + to_numpy(v.intercept) for v in (found, expected)
    ]
    assert_close(values[0], values[1], rtol=0, atol=1e-6)


def test_targets_on_the_function_are_all_their_quantiles(problem):
    X, _, Z, _ = problem
    y = np.full((40, 1), 7.0)
    _, found = solved(Gaussian(gamma=0.5), X, y, Z, None, 1.0)
    assert_close(Gaussian(gamma=0.5)(X, Z) @ found.dual_coef + found.intercept, 7.0)
