"""A float32 factorisation, refined, is as good as a float64 one."""

import numpy as np
import pytest

from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.solvers import _direct
from kaucus.solvers._direct import solve_ls_svm
from tests.arrays import array, same_bits
from tests.solvers.problems import problem, weights

N = 120


@pytest.fixture(autouse=True)
def _small_problems_count(monkeypatch):
    monkeypatch.setattr(_direct, "MIXED_FROM", 50)


def relative_difference(a, b):
    a, b = to_numpy(a), to_numpy(b)
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", ["auto", "mixed"])
def test_equals_double_precision(xp, dtype, C, weighted, precision):
    _, K, Y = problem(n=N)
    K = K.astype(dtype)
    s = array(xp, weights(1, N)) if weighted else None
    given = array(xp, K)
    mixed = solve_ls_svm(given, array(xp, Y), C=C, sample_weight=s, precision=precision)
    double = solve_ls_svm(
        given, array(xp, Y), C=C, sample_weight=s, precision="float64"
    )
    assert mixed.info.precision == "mixed"
    assert mixed.info.converged
    assert 0 < mixed.info.n_iter < 20
    assert mixed.info.backward_error <= N**0.5 * 2.0**-52
    assert double.info.precision == "float64"
    assert dtype_name(mixed.dual_coef) == "float64"
    # Weights are multiplied in the precision of K, which rounds a float32 matrix.
    bound = 1e-3 if weighted and dtype == "float32" else 1e-9
    assert relative_difference(mixed.dual_coef, double.dual_coef) < bound
    assert relative_difference(mixed.intercept, double.intercept) < bound
    assert same_bits(given, K)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_one_float32_matrix_is_room_enough(order):
    """With overwrite_K the factor and the matrix share the memory of K."""
    _, K, Y = problem(n=N)
    K = K.astype("float32")
    expected = solve_ls_svm(K.astype("float64"), Y, C=10.0, precision="float64")
    if order == "strided":
        room = np.repeat(K, 2, axis=1)[:, ::2]
    else:
        room = np.array(K, order=order)
    solution = solve_ls_svm(room, Y, C=10.0, overwrite_K=True)
    assert solution.info.precision == "mixed"
    assert relative_difference(solution.dual_coef, expected.dual_coef) < 1e-9


def test_panels_of_the_triangle_give_the_same(monkeypatch):
    _, K, Y = problem(n=N)
    whole = solve_ls_svm(K.astype("float32"), Y, C=10.0)
    monkeypatch.setattr(_direct, "_BLOCK_BYTES", 8 * N * 7)  # seven rows at a time
    panels = solve_ls_svm(K.astype("float32"), Y, C=10.0)
    assert relative_difference(panels.dual_coef, whole.dual_coef) < 1e-12


def test_a_matrix_beyond_float32_is_factored_in_double(xp):
    _, K, Y = problem(n=N)
    Y, K = array(xp, Y), array(xp, K, "float64")
    solution = solve_ls_svm(K, Y, C=1e9)
    assert solution.info.precision == "float64"
    expected = solve_ls_svm(K, Y, C=1e9, precision="float64")
    assert relative_difference(solution.dual_coef, expected.dual_coef) < 1e-12


def test_what_is_added_to_the_float32_factor_is_not_in_the_solution(
    xp, dtype, monkeypatch
):
    """At this C the rounding of float32 is of the size of the ridge."""
    monkeypatch.setattr(_direct, "_PAYS_FROM", 20)
    _, K, Y = problem(n=N)
    Y, K = array(xp, Y), array(xp, K, dtype)
    C = 1e5
    mixed = solve_ls_svm(K, Y, C=C, n_leave_one_out=N)
    double = solve_ls_svm(K, Y, C=C, n_leave_one_out=N, precision="float64")
    assert mixed.info.precision == "mixed"
    assert mixed.info.converged
    assert mixed.info.jitter == 0
    assert relative_difference(mixed.dual_coef, double.dual_coef) < 1e-7
    # Leave-one-out values are those of the factored system, a little smoother.
    assert relative_difference(mixed.loo_decision, double.loo_decision) < 0.1


def test_few_rows_are_not_refined_in_many_steps(xp, dtype):
    """Of a float64 matrix that float32 cannot factor without something added."""
    _, K, Y = problem(n=N)
    solution = solve_ls_svm(array(xp, K, dtype), array(xp, Y), C=1e5)
    assert solution.info.precision == ("mixed" if dtype == "float32" else "float64")


@pytest.mark.parametrize("overwrite_K", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_failed_float32_factor_leaves_the_matrix_whole(
    rng, overwrite_K, order, monkeypatch
):
    """1 + 1/C is 1 in float32: without anything added the factorisation fails."""
    monkeypatch.setattr(_direct, "_SAFE", np.inf)  # so that it is tried
    K = np.zeros((N, N), dtype="float32", order=order)
    K[:40, :40] = np.eye(40)
    K[40:, 40:] = 1.0
    Y = np.sign(rng.normal(size=(N, 1)))
    expected = solve_ls_svm(K, Y, C=1e9, precision="float64")
    assert expected.info.jitter == 0
    given = K.copy(order="K")
    solution = solve_ls_svm(given, Y, C=1e9, precision="mixed", overwrite_K=overwrite_K)
    assert solution.info.jitter == 0
    assert relative_difference(solution.dual_coef, expected.dual_coef) < 1e-6
    if not overwrite_K:
        assert same_bits(given, K)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_leave_one_out_keeps_single_precision(dtype, C):
    """The diagonal of the inverse comes from the float32 factor, unrefined."""
    _, K, Y = problem(n=N)
    K = K.astype(dtype)
    mixed = solve_ls_svm(K, Y, C=C, n_leave_one_out=N)
    double = solve_ls_svm(K, Y, C=C, n_leave_one_out=N, precision="float64")
    assert mixed.info.precision == "mixed"
    assert relative_difference(mixed.loo_decision, double.loo_decision) < 1e-4


def test_small_problems_are_solved_in_double(xp, dtype):
    _, K, Y = problem(n=49)
    solution = solve_ls_svm(array(xp, K, dtype), array(xp, Y), C=1.0)
    assert solution.info.precision == "float64"


def test_refinement_ends_where_it_may():
    """A larger tolerance saves steps, and the answer is as good as was asked for."""
    p = problem(n=200)
    steps = {}
    for tol in (0.0, 1e-8):
        solution = solve_ls_svm(p.K, p.Y, C=1e3, precision="mixed", refine_tol=tol)
        assert solution.info.backward_error <= max(tol, 1e-13)
        steps[tol] = solution.info.n_iter
    assert 0 < steps[1e-8] < steps[0.0]
