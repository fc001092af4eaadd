"""The direct solver satisfies the equations that define it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.kernels import Gaussian
from kaucus.solvers._direct import solve_ls_svm
from tests.arrays import array, assert_close, same_bits
from tests.reference import ls_svm as reference
from tests.solvers.problems import problem, weights


def as_model(solution):
    return reference.Model(to_numpy(solution.dual_coef), to_numpy(solution.intercept))


@given(
    n=st.integers(1, 40),
    t=st.integers(1, 3),
    log_C=st.floats(-4, 6),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_optimality_conditions(n, t, log_C, weighted, seed):
    _, K, Y = problem(seed, n, t)
    C = 10**log_C
    s = weights(seed, n) if weighted else None
    model = as_model(solve_ls_svm(K, Y, C=C, sample_weight=s))
    scale = 1 + np.max(np.abs(model.dual_coef))
    assert reference.kkt_residual(K, Y, C, model, s) <= 1e-11 * scale


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_bordered_system(xp, dtype, C, weighted):
    _, K, Y = problem()
    K, Y = K.astype(dtype), Y.astype(dtype)
    s = weights(1, len(K)) if weighted else None
    expected = reference.solve_bordered(K, Y, C, s)
    weight = None if s is None else array(xp, s, dtype)
    given = array(xp, K), array(xp, Y)
    solution = solve_ls_svm(*given, C=C, sample_weight=weight)
    assert type(solution.dual_coef) is type(given[0])
    assert dtype_name(solution.dual_coef) == dtype_name(solution.intercept) == "float64"
    assert_close(solution.dual_coef, expected.dual_coef, rtol=1e-9, atol=1e-10)
    assert_close(solution.intercept, expected.intercept, rtol=1e-9, atol=1e-10)
    assert solution.loo_decision is None
    assert solution.info.solver == "cholesky"
    assert solution.info.jitter == 0
    assert same_bits(given[0], K)
    assert same_bits(given[1], Y)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("weighted", [False, True])
def test_overwriting_changes_the_matrix_but_not_the_result(dtype, order, weighted):
    _, K, Y = problem()
    K = K.astype(dtype)
    s = weights(1, len(K)) if weighted else None
    expected = solve_ls_svm(K, Y, C=3.0, sample_weight=s, n_leave_one_out=5)
    if order == "strided":
        room = np.repeat(np.repeat(K, 2, axis=0), 2, axis=1)[::2, ::2]
    else:
        room = np.array(K, order=order)
    solution = solve_ls_svm(
        room, Y, C=3.0, sample_weight=s, n_leave_one_out=5, overwrite_K=True
    )
    assert_close(solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-12)
    assert_close(solution.intercept, expected.intercept, rtol=0, atol=1e-12)
    assert_close(solution.loo_decision, expected.loo_decision, rtol=0, atol=1e-11)


def test_a_constant_moves_only_the_intercept(xp):
    _, K, Y = problem()
    c = np.array([5.0, -200.0])
    before = solve_ls_svm(array(xp, K), array(xp, Y), C=10.0)
    after = solve_ls_svm(array(xp, K), array(xp, Y + c), C=10.0)
    assert_close(after.dual_coef, before.dual_coef, rtol=0, atol=1e-10)
    assert_close(after.intercept, to_numpy(before.intercept) + c, rtol=1e-12)


def test_solutions_are_linear_in_the_targets():
    _, K, Y = problem(t=2)
    both = solve_ls_svm(K, Y, C=10.0)
    combined = solve_ls_svm(K, Y @ np.array([[2.0], [-3.0]]), C=10.0)
    assert_close(combined.dual_coef, both.dual_coef @ [[2.0], [-3.0]], atol=1e-11)
    assert_close(combined.intercept, both.intercept @ [[2.0], [-3.0]], atol=1e-11)


def test_the_order_of_the_rows_does_not_matter(xp, rng):
    _, K, Y = problem()
    s = weights(2, len(K))
    order = rng.permutation(len(K))
    given = (array(xp, K), array(xp, Y), array(xp, s))
    moved = array(xp, K[np.ix_(order, order)]), array(xp, Y[order]), array(xp, s[order])
    first = solve_ls_svm(given[0], given[1], C=10.0, sample_weight=given[2])
    second = solve_ls_svm(moved[0], moved[1], C=10.0, sample_weight=moved[2])
    assert_close(second.dual_coef, to_numpy(first.dual_coef)[order], atol=1e-11)
    assert_close(second.intercept, first.intercept, rtol=1e-11)


def test_weight_two_is_a_row_twice(xp):
    """Coefficients of equal rows add up; leave-one-out leaves out both."""
    _, K, Y = problem(n=20)
    s = np.where(np.arange(20) % 3 == 0, 2.0, 1.0)
    copies = np.repeat(np.arange(20), s.astype(int))
    weighted = solve_ls_svm(
        array(xp, K),
        array(xp, Y),
        C=10.0,
        sample_weight=array(xp, s),
        n_leave_one_out=20,
    )
    K_copies, Y_copies = K[np.ix_(copies, copies)], Y[copies]
    repeated = solve_ls_svm(array(xp, K_copies), array(xp, Y_copies), C=10.0)
    total = np.zeros_like(Y)
    np.add.at(total, copies, to_numpy(repeated.dual_coef))
    assert_close(weighted.dual_coef, total, atol=1e-11)
    assert_close(weighted.intercept, repeated.intercept, rtol=1e-10)
    for i, loo in enumerate(to_numpy(weighted.loo_decision)):
        others = np.where(copies == i, 0.0, 1.0)
        model = reference.solve_bordered(K_copies, Y_copies, 10.0, others)
        expected = reference.decide(K[[i]][:, copies], model)[0]
        assert_close(loo, expected, rtol=1e-9, atol=1e-10)


def test_weight_zero_is_no_row(xp):
    _, K, Y = problem()
    s = weights(3, len(K))
    assert np.any(s == 0)
    kept = np.flatnonzero(s)
    Y_wild = np.where(s[:, None] == 0, 1e6, Y)
    whole = solve_ls_svm(
        array(xp, K), array(xp, Y_wild), C=10.0, sample_weight=array(xp, s)
    )
    part = solve_ls_svm(
        array(xp, K[np.ix_(kept, kept)]),
        array(xp, Y[kept]),
        C=10.0,
        sample_weight=array(xp, s[kept]),
    )
    dual_coef = to_numpy(whole.dual_coef)
    assert np.all(dual_coef[s == 0] == 0)
    assert_close(dual_coef[kept], part.dual_coef, atol=1e-11)
    assert_close(whole.intercept, part.intercept, rtol=1e-10)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("m", [1, 7, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refitting(xp, dtype, C, m, weighted):
    _, K, Y = problem(n=20)
    K = K.astype(dtype)
    s = 0.5 + np.arange(20) % 3 if weighted else None
    solution = solve_ls_svm(
        array(xp, K),
        array(xp, Y),
        C=C,
        sample_weight=None if s is None else array(xp, s),
        n_leave_one_out=m,
    )
    expected = reference.leave_one_out(K, Y, C, s)[-m:]
    assert_close(solution.loo_decision, expected, rtol=1e-7, atol=1e-7)


def test_leave_one_out_of_a_row_without_weight_is_nan(xp):
    _, K, Y = problem(n=10)
    s = np.ones(10)
    s[7] = 0
    solution = solve_ls_svm(
        array(xp, K),
        array(xp, Y),
        C=1.0,
        sample_weight=array(xp, s),
        n_leave_one_out=5,
    )
    missing = np.isnan(to_numpy(solution.loo_decision)).all(axis=1)
    assert list(missing) == [False, False, True, False, False]


def test_one_row_is_its_own_mean(xp):
    solution = solve_ls_svm(array(xp, [[2.0]]), array(xp, [[3.0]]), C=5.0)
    assert_close(solution.dual_coef, [[0.0]], atol=1e-15)
    assert_close(solution.intercept, [3.0])


def test_jitter_is_reported_where_the_matrix_is_singular(xp, dtype):
    """Equal rows and a ridge far below rounding."""
    K = np.ones((20, 20))
    Y = np.ones((20, 1))
    solution = solve_ls_svm(array(xp, K, dtype), array(xp, Y), C=1e20)
    assert solution.info.jitter > 0
    assert np.all(np.isfinite(to_numpy(solution.dual_coef)))
    assert_close(solution.intercept, [1.0], rtol=1e-6)
    assert solve_ls_svm(array(xp, K, dtype), array(xp, Y), C=1.0).info.jitter == 0


@pytest.mark.parametrize("precision", ["auto", "float64", "mixed"])
@pytest.mark.parametrize("overwrite_K", [False, True])
def test_an_indefinite_matrix_is_refused(xp, dtype, precision, overwrite_K):
    _, K, Y = problem()
    K = K - 0.5 * np.eye(len(K))
    with pytest.raises(NotPositiveDefiniteError, match="is not positive definite"):
        solve_ls_svm(
            array(xp, K, dtype),
            array(xp, Y),
            C=100.0,
            precision=precision,
            overwrite_K=overwrite_K,
        )


def test_large_C_interpolates_and_small_C_gives_the_mean():
    X, _, Y = problem()
    K = Gaussian(gamma=20.0)(X)
    exact = solve_ls_svm(K, Y, C=1e10)
    assert_close(K @ exact.dual_coef + exact.intercept, Y, atol=1e-8)
    flat = solve_ls_svm(K, Y, C=1e-10)
    assert_close(flat.intercept, Y.mean(axis=0), atol=1e-8)
    assert_close(flat.dual_coef, np.zeros_like(Y), atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_without_refinement_is_off_by_its_rounding(xp, dtype, weighted):
    _, K, Y = problem()
    s = weights(1, len(K)) if weighted else None
    given = array(xp, K.astype(dtype)), array(xp, Y)
    weight = None if s is None else array(xp, s)
    rough = solve_ls_svm(*given, C=10.0, sample_weight=weight, precision="float32")
    exact = solve_ls_svm(K, Y, C=10.0, sample_weight=s)
    assert rough.info.precision == "float32"
    assert dtype_name(rough.dual_coef) == "float64"
    values, expected = (
        K @ to_numpy(one.dual_coef) + to_numpy(one.intercept) for one in (rough, exact)
    )
    assert_close(values, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(values - expected).max() > 1e-12
    assert same_bits(given[0], K.astype(dtype))


def test_float32_adds_what_its_rounding_needs(rng):
    """Where rows repeat and C is large; the values stay those of the targets."""
    X = np.repeat(rng.normal(size=(20, 2)), 3, axis=0)
    Y = np.repeat(rng.normal(size=(20, 1)), 3, axis=0)
    K = Gaussian(gamma=2.0)(X)
    solution = solve_ls_svm(K, Y, C=1e9, precision="float32")
    assert solution.info.jitter > 0
    values = K @ solution.dual_coef + solution.intercept
    assert np.sqrt(np.mean((values - Y) ** 2)) < 0.05
