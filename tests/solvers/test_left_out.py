"""Laws of leave-one-out models: they are those of n refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers._columns import solve_on_representatives as solve
from kaucus.solvers._left_out import leave_out_on_representatives, leave_out_rows
from tests.arrays import array, assert_close
from tests.reference import low_rank
from tests.reference.conformal import left_out_models
from tests.reference.ls_svm import decide, solve_bordered
from tests.solvers.problems import of_rows, problem, weights

leave_out_on_representatives = of_rows(leave_out_on_representatives)
leave_out_rows = of_rows(leave_out_rows)
solve = of_rows(solve)

KERNEL = Gaussian(gamma=0.5)
TOL = {"float32": 2e-3, "float64": 1e-9}
NEW = np.random.default_rng(5).normal(size=(6, 3))


def refits_of_rows(p, C, weight, x):
    """Return f⁽⁻ⁱ⁾(x) of every row i, (n, b, t), by n solves."""
    models = left_out_models(lambda s: solve_bordered(p.K, p.Y, C, s), weight)
    return np.stack([decide(KERNEL(x, p.X), model) for model in models])


def refits_on_representatives(p, Z, C, weight, x):
    def fit(s):
        return low_rank.solve_on_representatives(KERNEL(p.X, Z), KERNEL(Z), p.Y, C, s)

    return np.stack([KERNEL(x, Z) @ a + b for a, b in left_out_models(fit, weight)])


def predicted(models, f, x):
    """Return f⁽⁻ⁱ⁾(x) of the rows with a weight by the closed form, (r, b, t)."""
    influence = to_numpy(models.influence(models.columns(x)))
    e = to_numpy(models.left_out.residuals)
    return f[None] - influence.T[:, :, None] * e[:, None, :]


def exact(p, C, weight, xp=np, dtype="float64"):
    return leave_out_rows(
        KERNEL,
        array(xp, p.X, dtype),
        array(xp, p.Y),
        C=C,
        sample_weight=None if weight is None else array(xp, weight),
    )


def represented(p, Z, C, weight, xp=np, dtype="float64", moved=0.0):
    given = {"C": C, "sample_weight": None if weight is None else array(xp, weight)}
    rows = (array(xp, p.X, dtype), array(xp, p.Y), array(xp, Z, dtype))
    fitted = solve(KERNEL, *rows, **given)
    coef = (fitted.dual_coef, fitted.intercept + moved)
    return fitted, leave_out_on_representatives(
        KERNEL, *rows, *coef, rng=np.random.default_rng(0), **given
    )


def own_values(refits):
    """Return f⁽⁻ⁱ⁾(xᵢ), (n, t), from models at every row."""
    return refits[np.arange(len(refits)), np.arange(len(refits))]


@pytest.mark.parametrize("weighted", [False, True])
def test_models_of_all_rows_are_those_of_refits(xp, dtype, weighted):
    p, C = problem(n=25, t=3), 10.0
    weight = weights(1, 25) if weighted else None
    s = np.ones(25) if weight is None else weight
    models, known = exact(p, C, weight, xp, dtype), s > 0
    f = decide(KERNEL(NEW, p.X), solve_bordered(p.K, p.Y, C, s))
    got = predicted(models, f, array(xp, NEW, dtype))
    assert_close(got, refits_of_rows(p, C, s, NEW)[known], atol=TOL[dtype])
    own = own_values(refits_of_rows(p, C, s, p.X))[known]
    assert_close(models.left_out.values, own, atol=TOL[dtype])


@pytest.mark.parametrize("weighted", [False, True])
def test_models_on_representatives_are_those_of_refits(xp, dtype, weighted):
    p, C = problem(n=30, t=2), 10.0
    Z = p.X[:7] + 0.1
    weight = weights(1, 30) if weighted else None
    s = np.ones(30) if weight is None else weight
    fitted, models = represented(p, Z, C, weight, xp, dtype)
    f, known = KERNEL(NEW, Z) @ to_numpy(fitted.dual_coef), s > 0
    got = predicted(models, f + to_numpy(fitted.intercept), array(xp, NEW, dtype))
    expected = refits_on_representatives(p, Z, C, s, NEW)
    assert_close(got, expected[known], atol=TOL[dtype])
    own = own_values(refits_on_representatives(p, Z, C, s, p.X))[known]
    assert_close(models.left_out.values, own, atol=TOL[dtype])


@given(seed=st.integers(0, 10**6), C=st.floats(1e-2, 1e3), n=st.integers(4, 15))
def test_any_problem(seed, C, n):
    p, weight = problem(seed, n=n), weights(seed, n)
    rows = np.flatnonzero(weight)
    if len(rows) < 2:
        return
    f = decide(KERNEL(NEW, p.X), solve_bordered(p.K, p.Y, C, weight))
    got = predicted(exact(p, C, weight), f, NEW)
    assert_close(got, refits_of_rows(p, C, weight, NEW)[rows], atol=1e-7)
    Z = p.X[:3] + 0.1
    fitted, models = represented(p, Z, C, weight)
    f = KERNEL(NEW, Z) @ fitted.dual_coef + fitted.intercept
    expected = refits_on_representatives(p, Z, C, weight, NEW)[rows]
    assert_close(predicted(models, f, NEW), expected, atol=1e-6)


@pytest.mark.parametrize("w", [0.1, 1.5, 100.0])
def test_a_factor_of_the_weights_is_one_of_C(w):
    p, s, Z = problem(n=30, t=2), weights(1, 30), problem(n=30).X[:7] + 0.1
    pairs = [(exact(p, 5.0, s), exact(p, 5.0 / w, w * s))]
    pairs += [(represented(p, Z, 5.0, s)[1], represented(p, Z, 5.0 / w, w * s)[1])]
    for one, other in pairs:
        K = one.columns(NEW)
        assert_close(other.influence(K), one.influence(K), rtol=1e-6, atol=1e-9)
        assert_close(other.left_out.residuals, one.left_out.residuals, rtol=1e-6)
        deviations = [m.variance(NEW, K)[:, None] * m.scale for m in (one, other)]
        assert_close(deviations[1], deviations[0], rtol=1e-6)


def test_variance_is_that_of_the_bordered_matrix():
    p, C = problem(n=20, t=1), 5.0
    models = exact(p, C, None)
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
    all_rows = exact(p, C, weight)
    _, on_all = represented(p, p.X, C, weight)
    expected = all_rows.variance(NEW, all_rows.columns(NEW))
    assert_close(on_all.variance(NEW, on_all.columns(NEW)), expected, rtol=1e-5)
    assert_close(on_all.scale, all_rows.scale, rtol=1e-6)


def test_a_moved_intercept_moves_all_models():
    p, Z = problem(n=30, t=2), problem(n=30).X[:5]
    _, models = represented(p, Z, 3.0, None)
    _, moved = represented(p, Z, 3.0, None, moved=0.25)
    assert_close(moved.left_out.residuals, models.left_out.residuals, atol=1e-12)
    assert_close(moved.left_out.values, models.left_out.values + 0.25, atol=1e-12)


def test_rows_that_have_changed_are_noticed():
    p, Z = problem(n=30, t=1), problem(n=30).X[:5]
    fitted, _ = represented(p, Z, 3.0, None)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="not as they were in fit"):
        leave_out_on_representatives(
            KERNEL, p.X[::-1], p.Y, Z, *fitted[:2], C=3.0, rng=rng
        )


def test_targets_that_are_all_the_same_have_no_residuals():
    p, Z = problem(n=30, t=1), problem(n=30).X[:5]
    p = p._replace(Y=np.full((30, 1), 1e6))
    _, models = represented(p, Z, 3.0, None)
    assert_close(models.left_out.residuals, np.zeros((30, 1)), atol=1e-6)


def test_too_small_a_budget_is_an_error_with_a_remedy():
    p = problem(n=40)
    with pytest.raises(MemoryError, match="method='split'"):
        leave_out_rows(KERNEL, p.X, p.Y, C=1.0, memory_budget=1000)
