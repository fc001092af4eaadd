"""Random blocks lead to the exact LS-SVM; stops, runs and memory are as told."""

import numpy as np
import pytest
import scipy.sparse

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian, Precomputed
from kaucus.solvers._auto import fit_ls_svm
from kaucus.solvers._blocks import (
    RANDOMIZED,
    Start,
    draw_blocks,
    plan_blocks,
    solve_ls_svm_randomized,
)
from kaucus.solvers._system import Interrupted, Validation, Watch
from tests.arrays import array, assert_close, same_bits
from tests.reference import ls_svm as reference
from tests.solvers.problems import of_rows, problem, weights

fit_ls_svm = of_rows(fit_ls_svm)
solve_ls_svm_randomized = of_rows(solve_ls_svm_randomized)

KERNEL = Gaussian(gamma=3.0)
C = 10.0
N = 40
ITERATIVE = [solver for solver in RANDOMIZED if solver != "nystrom"]
each_solver = pytest.mark.parametrize("solver", RANDOMIZED)
each_iterative = pytest.mark.parametrize("solver", ITERATIVE)


def data(seed=0):
    return problem(seed, n=N, gamma=3.0)


def solve(X, Y, solver, seed=0, kernel=KERNEL, **options):
    options = {
        "block_size": 20,
        "max_iter": 1000,
        "tol": 1e-13,
        "memory_budget": 2**22,
        **options,
    }
    return solve_ls_svm_randomized(
        kernel, X, Y, C=C, solver=solver, rng=np.random.default_rng(seed), **options
    )


@each_iterative
def test_converges_to_the_exact_solution(xp, solver):
    check_convergence(xp, solver, weights(1, N))


@each_iterative
def test_converges_without_weights(solver):
    check_convergence(np, solver, None)


def check_convergence(xp, solver, s):
    X, K, Y = data()
    given = array(xp, X), array(xp, Y)
    weight = None if s is None else array(xp, s)
    result = solve(*given, solver, sample_weight=weight)
    expected = reference.solve_bordered(K, Y, C, s)
    assert_close(result.solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-6)
    assert_close(result.solution.intercept, expected.intercept, rtol=0, atol=1e-6)
    assert result.solution.info.solver == solver
    assert result.solution.info.converged
    assert same_bits(given[0], X)
    assert same_bits(given[1], Y)


@each_iterative
def test_converges_in_single_precision(xp, solver):
    X, _, Y = data()
    X = X.astype("float32")
    expected = reference.solve_bordered(KERNEL(X.astype(float)), Y, C)
    result = solve(array(xp, X), array(xp, Y), solver, tol=1e-6, max_iter=300)
    assert_close(result.solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-3)


@each_solver
def test_a_block_of_all_rows_is_the_exact_solution_in_one_step(xp, solver):
    X, K, Y = data()
    expected = reference.solve_bordered(K, Y, C)
    for block_size in (N, 5 * N):
        result = solve(
            array(xp, X), array(xp, Y), solver, block_size=block_size, max_iter=1
        )
        assert_close(result.solution.dual_coef, expected.dual_coef, atol=1e-9)
        assert_close(result.solution.intercept, expected.intercept, atol=1e-9)
        assert result.solution.info.n_iter == 1


@each_solver
def test_the_result_does_not_depend_on_what_is_kept(solver):
    X, _, Y = data()
    s = weights(1, N)
    budgets = (2**22, 77_000, 65_000)
    results = [
        solve(X, Y, solver, max_iter=9, memory_budget=budget, sample_weight=s)
        for budget in budgets
    ]
    for other in results[1:]:
        a, b = results[0].solution.dual_coef, other.solution.dual_coef
        assert_close(b, a, rtol=1e-9, atol=1e-9)


@each_solver
def test_the_same_seed_gives_the_same_blocks(xp, solver):
    X, _, Y = data()
    given = array(xp, X), array(xp, Y)
    a, b, other = (solve(*given, solver, seed, max_iter=2) for seed in (1, 1, 2))
    assert same_bits(a.solution.dual_coef, b.solution.dual_coef)
    assert not same_bits(a.solution.dual_coef, other.solution.dual_coef)


@pytest.mark.slow
@each_solver
def test_held_out_values_are_those_of_a_fit_without_the_rows(xp, solver):
    X, K, Y = data()
    held_out = np.array([7, 30, 3])
    s = weights(1, N)
    result = solve(
        array(xp, X),
        array(xp, Y),
        solver,
        held_out=held_out,
        sample_weight=array(xp, s),
        block_size=N if solver == "nystrom" else 20,
    )
    without = s.copy()
    without[held_out] = 0
    expected = reference.decide(K[held_out], reference.solve_bordered(K, Y, C, without))
    assert_close(result.solution.loo_decision, expected, rtol=0, atol=1e-6)
    exact = reference.solve_bordered(K, Y, C, s)
    assert_close(result.solution.dual_coef, exact.dual_coef, rtol=0, atol=1e-6)


@each_iterative
def test_a_start_at_the_solution_stays_there(xp, solver):
    X, K, Y = data()
    s = weights(1, N)
    exact = reference.solve_bordered(K, Y, C, s)
    start = Start(array(xp, exact.dual_coef), array(xp, exact.intercept))
    result = solve(
        array(xp, X),
        array(xp, Y),
        solver,
        start=start,
        sample_weight=array(xp, s),
        tol=1e-9,
        max_iter=3,
    )
    assert_close(result.solution.dual_coef, exact.dual_coef, rtol=0, atol=1e-8)
    assert max(result.history["residual"], default=0.0) < 1e-8


@each_solver
def test_averaged_runs_are_the_mean_of_single_ones(solver):
    X, _, Y = data()
    average = solve(X, Y, solver, n_runs=3, max_iter=2)
    seeds = np.random.default_rng(0).integers(2**63, size=3)
    single = [solve(X, Y, solver, int(seed), max_iter=2) for seed in seeds]
    for field in ("dual_coef", "intercept"):
        mean = np.mean([getattr(run.solution, field) for run in single], axis=0)
        assert_close(getattr(average.solution, field), mean, rtol=1e-9, atol=1e-10)
    assert average.history["run"] == [0, 0, 1, 1, 2, 2]
    assert average.history["residual"] == pytest.approx(
        [r for run in single for r in run.history["residual"]]
    )


def test_sparse_rows_and_a_given_matrix():
    X, _, Y = data()
    X = X * (X > 0)
    expected = solve(X, Y, "block_descent", max_iter=5).solution.dual_coef
    sparse = solve(scipy.sparse.csr_array(X), Y, "block_descent", max_iter=5)
    assert_close(sparse.solution.dual_coef, expected, rtol=0, atol=1e-9)
    kernel = Precomputed(KERNEL(X))
    given = solve(kernel.row_numbers(), Y, "block_descent", kernel=kernel, max_iter=5)
    assert_close(given.solution.dual_coef, expected, rtol=0, atol=1e-9)


# ---- blocks ----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "block_size"), [(12, 4), (13, 4), (5, 9), (7, 1)])
def test_each_row_is_drawn_once_in_a_pass(rng, n, block_size):
    per_pass, passes = -(-n // block_size), []
    drawn = draw_blocks(n, per_pass, rng)
    for _ in range(2):
        blocks = [next(drawn) for _ in range(per_pass)]
        sizes = [len(block) for block in blocks]
        assert max(sizes) <= block_size
        assert max(sizes) - min(sizes) <= 1
        passes.append(np.concatenate(blocks))
        assert sorted(passes[-1]) == list(range(n))
    if n > 5:
        assert (passes[0] != passes[1]).any()


def test_a_block_that_does_not_fit_is_refused():
    X, _, Y = data()
    with pytest.raises(MemoryError, match=r"block_size=30 .*use a smaller block_size"):
        solve(X, Y, "kaczmarz", block_size=30, memory_budget=10_000)


def test_the_block_is_chosen_by_memory():
    X, _, _ = data()
    common = {"n_targets": 2, "n_problems": 1, "weighted": False, "block_size": None}
    plans = [plan_blocks(X, budget=b, **common) for b in (10_000, 60_000, 2**22)]
    sizes = [plan.block_size for plan in plans]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == N
    # Two runs at a time share the memory.
    assert plan_blocks(X, budget=60_000, n_parallel=2, **common).block_size < sizes[1]


# ---- what is told ----------------------------------------------------------------


@each_iterative
def test_history_is_one_value_per_step(solver):
    X, K, Y = data()
    seen = []
    result = solve(
        X, Y, solver, max_iter=6, watch=Watch(lambda k, state: seen.append(state))
    )
    history = result.history
    assert history["step"] == [1, 2, 3, 4, 5, 6]
    assert history["residual"] == [state.residual for state in seen]
    assert history["change"] == [state.change for state in seen]
    assert np.isnan(history["validation_error"]).all()
    assert (np.diff(history["seconds"]) > 0).all()
    if solver in ("matching_pursuit", "kaczmarz_mp"):
        assert (np.diff(history["residual"]) <= 1e-12).all()
        # And it is the residual that it says it is.
        a, b = seen[-1].dual_coef, seen[-1].intercept
        R = Y - K @ a - a / C - b
        R = np.vstack([a.sum(axis=0), R])
        worst = np.max(np.linalg.norm(R, axis=0) / np.linalg.norm(Y, axis=0))
        assert history["residual"][-1] == pytest.approx(worst)


@pytest.mark.parametrize("solver", ["cg", *RANDOMIZED])
def test_validation_is_the_error_of_the_model_at_that_step(xp, solver):
    X, _, Y = data()
    X_val, Y_val = X[:7] + 0.1, Y[:7]
    states = []
    result = fit_ls_svm(
        KERNEL,
        array(xp, X),
        array(xp, Y),
        C=C,
        solver=solver,
        rng=np.random.default_rng(0),
        max_iter=3,
        tol=1e-13,
        watch=lambda step, state: states.append(state),
        validation=Validation(
            array(xp, X_val), lambda f: float(np.sum((to_numpy(f) - Y_val) ** 2))
        ),
        **({} if solver == "cg" else {"block_size": 15}),
    )
    K_val = KERNEL(X_val, X)
    expected = [
        np.sum((K_val @ to_numpy(s.dual_coef) + to_numpy(s.intercept) - Y_val) ** 2)
        for s in states
    ]
    assert result.history["validation_error"] == pytest.approx(expected)
    assert len(expected) == (1 if solver == "cg" else 3)


@each_iterative
def test_a_callback_can_stop(solver):
    X, _, Y = data()
    result = solve(X, Y, solver, watch=Watch(lambda step, state: step == 4))
    info = result.solution.info
    assert (info.n_iter, info.stop, info.converged) == (4, "callback", False)
    plain = solve(X, Y, solver, max_iter=4)
    assert same_bits(result.solution.dual_coef, plain.solution.dual_coef)


@each_iterative
def test_the_reason_of_a_stop_is_told(solver):
    X, _, Y = data()
    assert solve(X, Y, solver, max_iter=2).solution.info.stop == "max_iter"
    loose = solve(X, Y, solver, tol=1e-2).solution.info
    assert loose.converged
    knows_residual = RANDOMIZED[solver].knows_residual
    assert loose.stop == ("residual" if knows_residual else "no change")


def test_a_committee_is_complete_after_one_pass():
    X, _, Y = data()
    info = solve(X, Y, "nystrom", block_size=15).solution.info
    assert (info.n_iter, info.stop) == (3, "complete")


class InterruptedKernel(Gaussian):
    """Ctrl-C at a certain call."""

    calls = 0

    def tile(self, X, Y):
        type(self).calls += 1
        if type(self).calls == 4:
            raise KeyboardInterrupt
        return super().tile(X, Y)


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("solver", ["kaczmarz", "matching_pursuit", "block_descent"])
def test_an_interrupt_brings_the_best_iterate(solver):
    X, _, Y = data()
    InterruptedKernel.calls = 0
    kernel = InterruptedKernel(gamma=3.0)
    # No room to keep rows: one call of the kernel for each step.
    options = {"memory_budget": 45_000, "block_size": 10}
    with pytest.raises(Interrupted) as stop:
        solve(X, Y, solver, kernel=kernel, **options)
    plain = solve(X, Y, solver, max_iter=3, **options)
    assert_close(stop.value.best.dual_coef, plain.solution.dual_coef, atol=1e-12)


@pytest.mark.thread_unsafe
def test_an_interrupt_before_the_first_step_is_raised():
    X, _, Y = data()
    InterruptedKernel.calls = 3
    with pytest.raises(Interrupted) as stop:
        solve(X, Y, "kaczmarz", kernel=InterruptedKernel(gamma=3.0))
    assert stop.value.best is None


def test_the_best_weights_are_kept_where_the_residual_rises():
    X, _, Y = data()
    result = solve(X, Y, "kaczmarz_mp", safeguard=False, max_iter=30, block_size=13)
    residuals = result.history["residual"]
    assert residuals[-1] > min(residuals)
    assert result.solution.info.backward_error == min(residuals)
    best = int(np.argmin(residuals)) + 1
    there = solve(X, Y, "kaczmarz_mp", safeguard=False, max_iter=best, block_size=13)
    assert same_bits(result.solution.dual_coef, there.solution.dual_coef)


def test_repeated_rows_are_no_harm_and_are_told():
    X, _, Y = data()
    X[1], Y[1] = X[0], Y[0]
    result = solve_ls_svm_randomized(
        KERNEL,
        X,
        Y,
        C=1e12,
        solver="matching_pursuit",
        rng=np.random.default_rng(0),
        memory_budget=2**22,
        block_size=N,
        max_iter=1,
    )
    assert result.solution.info.n_fallbacks == 1
    assert np.isfinite(result.solution.dual_coef).all()
    assert result.history["residual"][-1] < 1e-6
