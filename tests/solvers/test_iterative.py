"""The LS-SVM by products alone is the LS-SVM by factorisation."""

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus.clustering._kernel_kmeans import pivoted_factor
from kaucus.solvers._cg import solve_ls_svm_cg
from kaucus.solvers._direct import solve_ls_svm
from tests.arrays import array, assert_close, same_bits
from tests.reference import ls_svm as reference
from tests.solvers.problems import problem, weights


def low_rank_factor(K, rank):
    return pivoted_factor(
        lambda rows: K[:, rows],
        np.diag(K),
        rank=rank,
        rng=np.random.default_rng(0),
    ).F


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [0, 15])
def test_equals_cholesky(xp, C, weighted, rank):
    _, K, Y = problem(n=60)
    s = array(xp, weights(1, 60)) if weighted else None
    matrix, targets = array(xp, K), array(xp, Y)
    expected = solve_ls_svm(matrix, targets, C=C, sample_weight=s)
    solution = solve_ls_svm_cg(
        lambda V: matrix @ V,
        targets,
        C=C,
        sample_weight=s,
        low_rank_factor=array(xp, low_rank_factor(K, rank)) if rank else None,
        tol=1e-11,
    )
    assert solution.info.solver == "cg"
    assert solution.info.converged
    assert solution.info.n_iter > 0
    assert solution.loo_decision is None
    scale = max(np.max(np.abs(to_numpy(expected.dual_coef))), 1)
    assert_close(solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-7 * scale)
    assert_close(solution.intercept, expected.intercept, rtol=1e-6, atol=1e-7)
    assert same_bits(targets, Y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [0, 15])
@pytest.mark.parametrize("held_out", [[7], [59, 3, 20, 21, 0]])
def test_held_out_values_are_those_of_a_fit_without_the_rows(
    xp, weighted, rank, held_out
):
    _, K, Y = problem(n=60)
    s = weights(1, 60) if weighted else np.ones(60)
    matrix = array(xp, K)
    options = {
        "C": 10.0,
        "sample_weight": array(xp, s) if weighted else None,
        "low_rank_factor": array(xp, low_rank_factor(K, rank)) if rank else None,
        "tol": 1e-11,
    }
    solution = solve_ls_svm_cg(
        lambda V: matrix @ V, array(xp, Y), held_out=array(xp, held_out), **options
    )
    without = s.copy()
    without[held_out] = 0
    model = reference.solve_bordered(K, Y, 10.0, without)
    expected = reference.decide(K[held_out], model)
    assert_close(solution.loo_decision, expected, rtol=0, atol=1e-6)
    # The model itself is that of all rows.
    plain = solve_ls_svm_cg(lambda V: matrix @ V, array(xp, Y), **options)
    assert_close(solution.dual_coef, plain.dual_coef, rtol=0, atol=1e-6)


def test_the_preconditioner_saves_steps():
    _, K, Y = problem(n=110)
    steps = []
    for rank in (0, 10, 40, 110):
        F = low_rank_factor(K, rank) if rank else None
        result = solve_ls_svm_cg(lambda V: K @ V, Y, C=1e2, low_rank_factor=F, tol=1e-8)
        assert result.info.converged
        steps.append(result.info.n_iter)
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] <= 4
    assert steps[0] > 3 * steps[2]


def test_the_preconditioner_serves_the_held_out_problem_too():
    _, K, Y = problem(n=150)
    for rank in (10, 40):
        F = low_rank_factor(K, rank)
        options = {"C": 1e2, "low_rank_factor": F, "tol": 1e-8}
        plain = solve_ls_svm_cg(lambda V: K @ V, Y, **options)
        rows = np.arange(0, 150, 20)
        both = solve_ls_svm_cg(lambda V: K @ V, Y, held_out=rows, **options)
        assert both.info.n_iter <= 1.5 * plain.info.n_iter


def test_a_float32_factor_preconditions_a_float64_system(xp):
    _, K, Y = problem(n=60)
    matrix = array(xp, K)
    F = array(xp, low_rank_factor(K, 40), "float32")
    solution = solve_ls_svm_cg(
        lambda V: matrix @ V, array(xp, Y), C=10.0, low_rank_factor=F, tol=1e-11
    )
    expected = reference.solve_bordered(K, Y, 10.0)
    assert solution.info.converged
    assert_close(solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-8)


def test_a_stop_is_told():
    _, K, Y = problem(n=60)
    seen = []

    def stop(step, error):
        seen.append(error)
        return step == 2

    solution = solve_ls_svm_cg(lambda V: K @ V, Y, C=1e4, tol=1e-12, callback=stop)
    assert solution.info.n_iter == len(seen) == 2
    assert not solution.info.converged
    assert solution.info.backward_error == seen[-1]
    solution = solve_ls_svm_cg(lambda V: K @ V, Y, C=1e4, tol=1e-12, max_iter=3)
    assert solution.info.n_iter == 3
    assert not solution.info.converged
