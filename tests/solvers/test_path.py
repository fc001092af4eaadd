"""One decomposition gives every C, with leave-one-out values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.solvers._direct import decompose_ls_svm, solve_at, solve_ls_svm
from tests.arrays import array, assert_close, same_bits
from tests.reference import ls_svm as reference
from tests.solvers.problems import problem, weights


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_direct_solution_for_each_C(xp, dtype, weighted):
    _, K, Y = problem()
    K = K.astype(dtype)
    s = array(xp, weights(1, len(K))) if weighted else None
    given = array(xp, K), array(xp, Y)
    spectrum = decompose_ls_svm(*given, sample_weight=s)
    for C in (1e-3, 1.0, 1e3):
        path = solve_at(spectrum, C)
        direct = solve_ls_svm(
            *given, C=C, sample_weight=s, n_leave_one_out=len(K), precision="float64"
        )
        assert type(path.dual_coef) is type(given[0])
        assert dtype_name(path.dual_coef) == "float64"
        assert path.info.solver == "eigh"
        # Rounding of a float32 K makes tiny negative eigenvalues, which are cut off.
        bound = {"rtol": 1e-8, "atol": 1e-8 if dtype == "float64" else 1e-6 * C + 1e-8}
        assert_close(path.dual_coef, direct.dual_coef, **bound)
        assert_close(path.intercept, direct.intercept, **bound)
        assert_close(path.loo_decision, direct.loo_decision, **bound)
    assert same_bits(given[0], K)
    assert same_bits(given[1], Y)


@given(
    n=st.integers(2, 15),
    t=st.integers(1, 3),
    log_C=st.floats(-3, 5),
    seed=st.integers(0, 10**6),
)
def test_optimality_and_leave_one_out(n, t, log_C, seed):
    _, K, Y = problem(seed, n, t)
    C = 10**log_C
    s = 0.5 + np.arange(n) % 3
    solution = solve_at(decompose_ls_svm(K, Y, sample_weight=s), C)
    model = reference.Model(solution.dual_coef, solution.intercept)
    scale = 1 + np.max(np.abs(model.dual_coef))
    assert reference.kkt_residual(K, Y, C, model, s) <= 1e-10 * scale
    expected = reference.leave_one_out(K, Y, C, s)
    assert_close(solution.loo_decision, expected, rtol=1e-6, atol=1e-6)


def test_rows_without_weight_have_no_say(xp):
    _, K, Y = problem(n=15)
    s = np.ones(15)
    s[[2, 9]] = 0
    spectrum = decompose_ls_svm(array(xp, K), array(xp, Y), sample_weight=array(xp, s))
    solution = solve_at(spectrum, 10.0)
    expected = reference.solve_bordered(K, Y, 10.0, s)
    assert_close(solution.dual_coef, expected.dual_coef, atol=1e-10)
    loo = to_numpy(solution.loo_decision)
    assert np.array_equal(np.flatnonzero(np.isnan(loo).all(axis=1)), [2, 9])
    assert np.isnan(loo).sum() == 4


def test_an_indefinite_matrix_is_refused(xp, dtype):
    _, K, Y = problem()
    K = K - 0.01 * np.eye(len(K))
    with pytest.raises(NotPositiveDefiniteError, match=r"has the eigenvalue -\d"):
        decompose_ls_svm(array(xp, K, dtype), array(xp, Y))


def test_rounding_is_not_indefinite(xp, dtype):
    """A matrix of rank one, rounded."""
    v = np.random.default_rng(0).normal(size=(40, 1))
    K = array(xp, v @ v.T, dtype)
    spectrum = decompose_ls_svm(K, array(xp, v))
    assert np.all(to_numpy(spectrum.eigenvalues) >= 0)
