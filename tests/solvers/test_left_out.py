"""Laws of leave-one-out models: they are those of n refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus.backend import to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers import leave_out_on_representatives, leave_out_rows
from kaucus.solvers import solve_on_representatives as solve
from tests.arrays import array, assert_close
from tests.reference import low_rank
from tests.reference.conformal import left_out_models
from tests.reference.ls_svm import decide, solve_bordered
from tests.solvers.problems import problem, weights

KERNEL = Gaussian(gamma=0.5)
TOL = {"float32": 2e-3, "float64": 1e-9}
NEW = np.random.default_rng(5).normal(size=(6, 3))


def shares(weight):
    return 1 / np.maximum(weight, 1.0)


def refits_of_rows(p, C, weight, share, x):
    """Return f⁽⁻ⁱ⁾(x) of every row i, (n, b, t), by n solves."""
    models = left_out_models(lambda s: solve_bordered(p.K, p.Y, C, s), weight, share)
    return np.stack([decide(KERNEL(x, p.X), model) for model in models])


def refits_on_representatives(p, Z, C, weight, share, x):
    def fit(s):
        return low_rank.solve_on_representatives(KERNEL(p.X, Z), KERNEL(Z), p.Y, C, s)

    models = left_out_models(fit, weight, share)
    return np.stack([KERNEL(x, Z) @ a + b for a, b in models])


def predicted(models, f, x):
    """Return f⁽⁻ⁱ⁾(x) by the closed form, (n, b, t)."""
    influence = to_numpy(models.influence(models.columns(x)))
    e = to_numpy(models.left_out.residuals)
    return f[None] - influence.T[:, :, None] * e[:, None, :]


def exact(p, C, weight, share, xp=np, dtype="float64"):
    return leave_out_rows(
        KERNEL,
        array(xp, p.X, dtype),
        array(xp, p.Y),
        C=C,
        sample_weight=None if weight is None else array(xp, weight),
        left_out=None if share is None else array(xp, share),
    )


def represented(p, Z, C, weight, share, xp=np, dtype="float64", moved=0.0):
    given = {
        "C": C,
        "sample_weight": None if weight is None else array(xp, weight),
        "left_out": None if share is None else array(xp, share),
    }
    rows = (array(xp, p.X, dtype), array(xp, p.Y), array(xp, Z, dtype))
    fitted = solve(KERNEL, *rows, **given)
    coef = (fitted.dual_coef, fitted.intercept + moved)
    return fitted, leave_out_on_representatives(
        KERNEL, *rows, *coef, rng=np.random.default_rng(0), **given
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_models_of_all_rows_are_those_of_refits(xp, dtype, weighted):
    p, C = problem(n=25, t=3), 10.0
    weight = weights(1, 25) if weighted else None
    s = np.ones(25) if weight is None else weight
    share = shares(s) if weighted else None
    models = exact(p, C, weight, share, xp, dtype)
    f = decide(KERNEL(NEW, p.X), solve_bordered(p.K, p.Y, C, s))
    expected = refits_of_rows(p, C, s, shares(s), NEW)
    got = predicted(models, f, array(xp, NEW, dtype))
    assert_close(got, expected, atol=TOL[dtype])
    own = refits_of_rows(p, C, s, shares(s), p.X)
    known = s > 0
    assert_close(
        to_numpy(models.left_out.values)[known],
        own[np.arange(25), np.arange(25)][known],
        atol=TOL[dtype],
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_models_on_representatives_are_those_of_refits(xp, dtype, weighted):
    p, C = problem(n=30, t=2), 10.0
    Z = p.X[:7] + 0.1
    weight = weights(1, 30) if weighted else None
    s = np.ones(30) if weight is None else weight
    fitted, models = represented(
        p, Z, C, weight, shares(s) if weighted else None, xp, dtype
    )
    f = KERNEL(NEW, Z) @ to_numpy(fitted.dual_coef) + to_numpy(fitted.intercept)
    expected = refits_on_representatives(p, Z, C, s, shares(s), NEW)
    assert_close(predicted(models, f, array(xp, NEW, dtype)), expected, atol=TOL[dtype])
    own = refits_on_representatives(p, Z, C, s, shares(s), p.X)
    known = s > 0
    assert_close(
        to_numpy(models.left_out.values)[known],
        own[np.arange(30), np.arange(30)][known],
        atol=TOL[dtype],
    )


@given(seed=st.integers(0, 10**6), C=st.floats(1e-2, 1e3), n=st.integers(4, 15))
def test_any_problem(seed, C, n):
    p, weight = problem(seed, n=n), weights(seed, n)
    share = shares(weight)
    if np.count_nonzero(weight) < 2:
        return
    f = decide(KERNEL(NEW, p.X), solve_bordered(p.K, p.Y, C, weight))
    got = predicted(exact(p, C, weight, share), f, NEW)
    only = np.flatnonzero((weight > 0) & (share == 1))
    several = len(only) > 1 or np.count_nonzero(weight) > len(only)
    rows = np.flatnonzero(weight > 0) if several else only[:0]
    assert_close(got[rows], refits_of_rows(p, C, weight, share, NEW)[rows], atol=1e-7)
    fitted, models = represented(p, p.X[:3] + 0.1, C, weight, share)
    Z = p.X[:3] + 0.1
    f = KERNEL(NEW, Z) @ fitted.dual_coef + fitted.intercept
    expected = refits_on_representatives(p, Z, C, weight, share, NEW)
    assert_close(predicted(models, f, NEW)[rows], expected[rows], atol=1e-6)


def test_variance_is_that_of_the_bordered_matrix():
    p, C = problem(n=20, t=1), 5.0
    models = exact(p, C, None, None)
    bordered = np.zeros((21, 21))
    bordered[0, 1:] = bordered[1:, 0] = 1
    bordered[1:, 1:] = p.K + np.eye(20) / C
    k = np.concatenate([np.ones((6, 1)), KERNEL(NEW, p.X)], axis=1)
    expected = 1 - np.sum(k @ np.linalg.inv(bordered) * k, axis=1)
    K = models.columns(NEW)
    assert_close(models.variance(NEW, K), expected, atol=1e-10)
    y = p.Y[:, 0]
    solution = solve_bordered(p.K, p.Y, C)
    assert_close(models.scale[0], y @ solution.dual_coef[:, 0] / 20, rtol=1e-9)


def test_variance_on_all_rows_is_that_of_the_ls_svm():
    p, C = problem(n=20, t=2), 5.0
    weight = weights(3, 20)
    all_rows = exact(p, C, weight, None)
    _, on_all = represented(p, p.X, C, weight, None)
    expected = all_rows.variance(NEW, all_rows.columns(NEW))
    assert_close(on_all.variance(NEW, on_all.columns(NEW)), expected, rtol=1e-5)
    assert_close(on_all.scale, all_rows.scale, rtol=1e-6)


def test_a_moved_intercept_moves_all_models():
    p, Z = problem(n=30, t=2), problem(n=30).X[:5]
    _, models = represented(p, Z, 3.0, None, None)
    _, moved = represented(p, Z, 3.0, None, None, moved=0.25)
    assert_close(moved.left_out.residuals, models.left_out.residuals, atol=1e-12)
    assert_close(moved.left_out.values, models.left_out.values + 0.25, atol=1e-12)


def test_rows_that_have_changed_are_noticed():
    p, Z = problem(n=30, t=1), problem(n=30).X[:5]
    fitted, _ = represented(p, Z, 3.0, None, None)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="not as they were in fit"):
        leave_out_on_representatives(
            KERNEL, p.X[::-1], p.Y, Z, *fitted[:2], C=3.0, rng=rng
        )


def test_targets_that_are_all_the_same_have_no_residuals():
    p, Z = problem(n=30, t=1), problem(n=30).X[:5]
    p = p._replace(Y=np.full((30, 1), 1e6))
    _, models = represented(p, Z, 3.0, None, None)
    assert_close(models.left_out.residuals, np.zeros((30, 1)), atol=1e-6)


def test_too_small_a_budget_is_an_error_with_a_remedy():
    p = problem(n=40)
    with pytest.raises(MemoryError, match="method='split'"):
        leave_out_rows(KERNEL, p.X, p.Y, C=1.0, memory_budget=1000)
