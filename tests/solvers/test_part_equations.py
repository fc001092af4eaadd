"""Least squares of rows that are read part by part are those of all rows at once."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from kaucus.kernels import Exponential, Gaussian
from kaucus.kernels._kernel import resolve_gamma
from kaucus.solvers._columns import (
    RowData,
    margin_hardness,
    residual_hardness,
    rows_near_boundary,
    solve_on_representatives,
    solve_with_hard_rows,
    sum_equations,
)
from tests.solvers.problems import of_rows
from tests.sources import batch_rows

rows_near_boundary = of_rows(rows_near_boundary)
solve_on_representatives = of_rows(solve_on_representatives)
solve_with_hard_rows = of_rows(solve_with_hard_rows)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(300, 4))
    Y = np.where(X[:, :2] + 0.3 * rng.normal(size=(300, 2)) > 0, 1.0, -1.0)
    return X, Y, X[:20] + 0.1


def weights(rng, weighted):
    return rng.integers(0, 3, size=300).astype(float) if weighted else None


def assert_same(found, expected, rtol=1e-8):
    assert_allclose(found.dual_coef, expected.dual_coef, rtol=rtol, atol=1e-8)
    assert_allclose(found.intercept, expected.intercept, rtol=rtol, atol=1e-8)
    if expected.loo_decision is not None:
        assert_allclose(found.loo_decision, expected.loo_decision, rtol=1e-7)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_all_rows(problem, rng, n_parts, weighted):
    X, Y, Z = problem
    options = {
        "C": 3.0,
        "sample_weight": weights(rng, weighted),
        "loo_rows": np.array([250, 3, 40]),
    }
    kernel = Gaussian(gamma=0.3)
    expected = solve_on_representatives(kernel, X, Y, Z, **options)
    found = solve_on_representatives(kernel, batch_rows(X, n_parts), Y, Z, **options)
    assert_same(found, expected)


@pytest.mark.parametrize("n_parts", [1, 4])
def test_parts_are_added_to_the_equations_of_earlier_rows(problem, n_parts):
    """And the callback hears that all of them are done."""
    (X, Y, Z), told = problem, []
    shift = np.full(len(Z), 0.3)

    def summed(rows, targets, total=None):
        data = RowData(Gaussian(gamma=0.3), rows, targets, None)
        height = rows.shape[0]
        return sum_equations(
            data, Z, shift, height, lambda *done: told.append(done), total
        )

    whole, half = summed(X, Y), len(X) // 2
    source = batch_rows(X[half:], n_parts)
    halves = summed(source, Y[half:], summed(X[:half], Y[:half]))
    assert told[-1] == (len(X) - half, len(X) - half)
    assert halves.weight == whole.weight
    for name in ("cross", "target_sum"):
        assert_allclose(getattr(halves, name), getattr(whole, name), atol=1e-10)
    assert_allclose(np.tril(halves.gram), np.tril(whole.gram), atol=1e-10)


def test_csr_and_float32_parts(problem):
    X, Y, Z = problem
    kernel = Gaussian(gamma=0.3)
    expected = solve_on_representatives(kernel, X, Y, Z, C=3.0)
    csr = batch_rows(scipy.sparse.csr_array(X), 3)
    assert_same(solve_on_representatives(kernel, csr, Y, Z, C=3.0), expected)
    single = batch_rows(X.astype(np.float32), 3)
    found = solve_on_representatives(kernel, single, Y, Z.astype(np.float32), C=3.0)
    assert_allclose(found.dual_coef, expected.dual_coef, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("hardness", [margin_hardness, residual_hardness])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_hard_rows_are_added(problem, rng, hardness, weighted):
    X, Y, Z = problem
    kernel, weight = Exponential(gamma=0.5), weights(rng, weighted)
    found, expected = (
        solve_with_hard_rows(
            kernel, rows, Y, Z, [10, 15], hardness, C=3.0, sample_weight=weight
        )
        for rows in (batch_rows(X, 3), X)
    )
    assert_array_equal(found.rows, expected.rows)
    assert_same(found.solution, expected.solution)


def test_the_same_rows_are_near_the_boundary(problem):
    X, Y, Z = problem
    found, expected = (
        rows_near_boundary(
            Gaussian(gamma=0.3),
            rows,
            Y,
            Z,
            60,
            n_rough=100,
            C=3.0,
            rng=np.random.default_rng(1),
        )
        for rows in (batch_rows(X, 3), X)
    )
    assert_array_equal(found.rows, expected.rows)


@pytest.mark.parametrize("gamma", ["scale", "auto", "median"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_is_that_of_all_rows(problem, rng, gamma, weighted, sparse):
    X = problem[0] + 100
    X = scipy.sparse.csr_array(X) if sparse else X
    weight = weights(rng, weighted)
    expected = resolve_gamma(gamma, X, weight)
    assert_allclose(resolve_gamma(gamma, batch_rows(X, 3), weight), expected, rtol=1e-9)


def test_too_little_memory_is_told_before_the_work(problem):
    X, Y, Z = problem
    rows = batch_rows(X, 3, budget=2000)
    with pytest.raises(MemoryError, match=r"20 representatives need .* of each part"):
        solve_on_representatives(Gaussian(gamma=0.3), rows, Y, Z, C=1.0)


def test_parts_are_worked_on_where_they_are_placed(problem, rng):
    torch = pytest.importorskip("torch")
    X, Y, Z = problem
    kernel, weight = Exponential(gamma=0.5), weights(rng, True)
    options = {"C": 3.0, "sample_weight": weight}
    expected = solve_with_hard_rows(
        kernel, X, Y, Z, [10, 15], margin_hardness, **options
    )
    rows = batch_rows(X, 3, place=torch.from_numpy)
    found = solve_with_hard_rows(
        kernel, rows, Y, Z, [10, 15], margin_hardness, **options
    )
    assert isinstance(found.solution.dual_coef, np.ndarray)
    assert_array_equal(found.rows, expected.rows)
    assert_same(found.solution, expected.solution)
    gamma = resolve_gamma("scale", X, weight)
    assert_allclose(resolve_gamma("scale", rows, weight), gamma)
