"""From rows to coefficients: every road leads to the same model."""

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.kernels import (
    CallableKernel,
    Gaussian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from kaucus.solvers._auto import fit_ls_svm, plan_ls_svm
from tests.arrays import array, assert_close, same_bits
from tests.reference import ls_svm as reference
from tests.solvers.problems import of_rows, problem, weights

fit_ls_svm = of_rows(fit_ls_svm)

KERNEL = Gaussian(gamma=0.5)


def fit(X, Y, kernel=KERNEL, seed=0, **options):
    options = {"C": 10.0, "tol": 1e-11, **options}
    return fit_ls_svm(kernel, X, Y, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("solver", ["cholesky", "cg", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_bordered_system(xp, solver, weighted):
    X, K, Y = problem(n=60)
    s = weights(1, 60) if weighted else None
    given = array(xp, X), array(xp, Y)
    weight = None if s is None else array(xp, s)
    result = fit(*given, solver=solver, sample_weight=weight, leave_one_out=2000)
    expected = reference.solve_bordered(K, Y, 10.0, s)
    assert_close(result.solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-7)
    assert_close(result.solution.intercept, expected.intercept, rtol=0, atol=1e-7)
    assert type(result.solution.dual_coef) is type(given[0])
    assert result.plan.solver == ("cg" if solver == "cg" else "cholesky")
    assert result.solution.info.solver == result.plan.solver
    assert same_bits(given[0], X)
    assert same_bits(given[1], Y)


def test_single_precision_rows(xp):
    X, _, Y = problem(n=60)
    X = X.astype("float32")
    expected = reference.solve_bordered(KERNEL(X.astype(float)), Y, 10.0)
    for solver, tol in (("cholesky", 1e-6), ("cg", 1e-6)):
        result = fit(array(xp, X), array(xp, Y), solver=solver, tol=tol)
        assert result.plan.kernel_dtype == "float32"
        assert dtype_name(result.solution.dual_coef) == "float64"
        assert_close(result.solution.dual_coef, expected.dual_coef, atol=2e-3)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_sparse_rows(solver):
    X, _, Y = problem(n=60)
    X = X * (X > 0)
    dense, sparse = (
        fit(X, Y, solver=solver),
        fit(scipy.sparse.csr_array(X), Y, solver=solver),
    )
    assert_close(sparse.solution.dual_coef, dense.solution.dual_coef, rtol=0, atol=1e-7)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_given_matrix(xp, solver):
    _, K, Y = problem(n=60)
    kernel = Precomputed(array(xp, K))
    result = fit(kernel.row_numbers(), array(xp, Y), kernel, solver=solver)
    expected = reference.solve_bordered(K, Y, 10.0)
    assert_close(result.solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [Linear(), Polynomial(degree=2, coef0=1.0), Gaussian(gamma=1e-3)],
    ids=["linear", "poly", "wide"],
)
@pytest.mark.parametrize("d", [2, 6])
def test_kernels_of_low_rank_by_products(xp, dtype, rng, kernel, d):
    """The preconditioner meets nothing but rounding after its first columns."""
    X = rng.normal(size=(160, d)).astype(dtype)
    Y = np.sign(X[:, :1])
    result = fit(array(xp, X), array(xp, Y), kernel, C=1.0, solver="cg", tol=1e-6)
    assert result.solution.info.converged
    K = kernel(X.astype(float))
    expected = reference.decide(K, reference.solve_bordered(K, Y, 1.0))
    model = reference.Model(
        to_numpy(result.solution.dual_coef), to_numpy(result.solution.intercept)
    )
    assert_close(reference.decide(K, model), expected, rtol=0, atol=2e-3)


def test_leave_one_out_rows_are_told(xp):
    X, K, Y = problem(n=40)
    result = fit(array(xp, X), array(xp, Y), solver="cholesky", leave_one_out=2000)
    assert sorted(result.loo_rows) == list(range(40))
    expected = reference.leave_one_out(K, Y, 10.0)[result.loo_rows]
    assert_close(result.solution.loo_decision, expected, rtol=1e-7, atol=1e-7)


def test_some_rows_left_out_one_by_one(xp):
    X, K, Y = problem(n=40)
    s = 1.0 + np.arange(40) % 2
    result = fit(
        array(xp, X),
        array(xp, Y),
        solver="cholesky",
        leave_one_out=7,
        sample_weight=array(xp, s),
    )
    assert len(set(result.loo_rows)) == 7
    expected = reference.leave_one_out(K, Y, 10.0, s)[result.loo_rows]
    assert_close(result.solution.loo_decision, expected, rtol=1e-7, atol=1e-7)
    model = reference.solve_bordered(K, Y, 10.0, s)
    assert_close(result.solution.dual_coef, model.dual_coef, rtol=0, atol=1e-9)


def test_some_rows_held_out_together(xp):
    X, K, Y = problem(n=100)
    result = fit(array(xp, X), array(xp, Y), solver="cg", leave_one_out=2000)
    assert len(set(result.loo_rows)) == 5  # a twentieth
    s = np.ones(100)
    s[result.loo_rows] = 0
    model = reference.solve_bordered(K, Y, 10.0, s)
    expected = reference.decide(K[result.loo_rows], model)
    assert_close(result.solution.loo_decision, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_no_rows_are_left_out_unasked(solver):
    X, _, Y = problem(n=40)
    result = fit(X, Y, solver=solver)
    assert len(result.loo_rows) == 0
    assert result.solution.loo_decision is None


def test_a_small_budget_leads_to_conjugate_gradients():
    X, K, Y = problem(n=150)  # 176 KiB
    expected = reference.solve_bordered(K, Y, 1.0)
    for budget in ("80KiB", "170KiB"):
        result = fit(X, Y, C=1.0, tol=1e-8, memory_budget=budget)
        assert result.plan.solver == "cg"
        assert_close(result.solution.dual_coef, expected.dual_coef, rtol=0, atol=1e-6)
    assert fit(X, Y, memory_budget="180KiB").plan.solver == "cholesky"


def test_cholesky_beyond_the_budget_is_refused():
    X, _, Y = problem(n=300)
    with pytest.raises(MemoryError) as error:
        fit(X, Y, solver="cholesky", memory_budget="100KiB")
    text = str(error.value)
    for part in ("703.1 KiB", "300 rows", "100.0 KiB", "solver='cg'", "float32"):
        assert part in text
    assert "larger memory_budget" in text


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_threads_and_blocks_change_no_more_than_rounding(solver):
    X, _, Y = problem(n=200)
    results = []
    for threads in (1, 2):
        for budget in ("400KiB", "64MiB") if solver == "cg" else ("64MiB",):
            with threadpool_limits(threads, user_api="blas"):
                result = fit(X, Y, solver=solver, memory_budget=budget)
            results.append(result.solution.dual_coef)
    for other in results[1:]:
        assert_close(other, results[0], rtol=0, atol=1e-7)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_same_generator_gives_the_same_bits(xp, solver):
    X, _, Y = problem(n=100)
    first, second = (
        fit(array(xp, X), array(xp, Y), solver=solver, leave_one_out=2000)
        for _ in range(2)
    )
    assert np.array_equal(first.loo_rows, second.loo_rows)
    assert same_bits(first.solution.dual_coef, second.solution.dual_coef)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_an_indefinite_kernel_is_refused(solver):
    X, _, Y = problem(n=60)
    with pytest.raises(NotPositiveDefiniteError):
        fit(X, Y, Sigmoid(gamma=1.0, coef0=-2.0), solver=solver, C=100.0)


def test_the_callback_is_called():
    X, _, Y = problem(n=100)
    seen = []
    fit(X, Y, C=1e5, solver="cg", callback=lambda step, error: seen.append(step))
    assert seen == list(range(1, len(seen) + 1))
    assert seen


def plan(n, *, dtype="float64", K_largest=1.0, C=1.0, solver="auto", budget=2**40):
    X = np.empty((n, 1), dtype=dtype)
    return plan_ls_svm(X, K_largest, C, solver, budget)


def test_small_problems_are_factored():
    choice = plan(1000)
    assert choice.solver == "cholesky"
    assert choice.kernel_dtype == "float64"
    assert choice.reason == (
        "1000 rows: the kernel matrix takes 7.6 MiB in float64; it is factored."
    )


def test_many_rows_are_iterated():
    choice = plan(100_000)
    assert choice.solver == "cg"
    assert "100000 rows" in choice.reason
    assert "74.5 GiB" in choice.reason
    assert "conjugate gradients" in choice.reason
    assert "memory_budget" not in choice.reason
    assert plan(100_000, solver="cholesky").solver == "cholesky"
    assert plan(1000, solver="cg").solver == "cg"


def test_a_budget_that_decides_is_named():
    choice = plan(1000, budget=2**20)
    assert choice.solver == "cg"
    assert "memory_budget is 1.0 MiB" in choice.reason


def test_float32_is_kept_where_its_rounding_is_below_the_ridge():
    assert plan(1000, dtype="float32", C=1e3).kernel_dtype == "float32"
    assert plan(1000, dtype="float32", C=1e6).kernel_dtype == "float64"
    assert plan(1000, dtype="float32", C=1e3, K_largest=1e3).kernel_dtype == "float64"
    assert plan(1000, dtype="float64", C=1e-3).kernel_dtype == "float64"


def test_many_steps_make_a_factorisation_the_cheaper_way():
    assert plan(60_000, C=1.0).solver == "cg"
    assert plan(60_000, C=1e4).solver == "cholesky"
    # Unless there is no room for it: then a few passes by blocks beat many products,
    # and few products beat the blocks.
    assert plan(60_000, C=1e4, budget=2**32).solver == "block_descent"
    assert plan(60_000, C=0.1, budget=2**32).solver == "cg"
    # Blocks that are small would take more steps than allowed.
    assert plan(60_000, C=1e4, budget=2**30).solver == "cg"


def test_the_choice_tells_what_it_compared():
    reason = plan(60_000, C=1e4, budget=2**32).reason
    assert "memory_budget is 4.0 GiB" in reason
    assert "random blocks" in reason
    assert "Estimated operations over n²: cholesky 20000, cg" in reason


def test_a_float32_matrix_without_room_for_float64_is_factored_in_float32():
    matrix = 4 * 60_000**2
    choice = plan(60_000, dtype="float32", C=1e4, budget=matrix)
    assert (choice.solver, choice.precision) == ("cholesky", "mixed")
    choice = plan(60_000, dtype="float32", C=1e4, budget=3 * matrix)
    assert (choice.solver, choice.precision) == ("cholesky", "auto")


def test_mixed_precision_needs_room_for_a_copy():
    matrix = 8 * 1000**2
    assert plan(1000, budget=matrix).precision == "float64"
    assert plan(1000, budget=matrix * 3 // 2).precision == "auto"
    assert plan(1000, dtype="float32", budget=matrix * 3 // 2).precision == "auto"


def test_a_kernel_that_float32_makes_indefinite_is_computed_in_float64(rng):
    """Rounding that is worse than its estimate, as on a GPU, is not the kernel's."""

    def rounded(X, Y):
        K = X @ Y.T
        if X.dtype == np.float32:  # 1e-3 off where a row meets itself
            K = K - np.float32(1e-3) * (X[:, None] == Y[None]).all(axis=2)
        return K

    X = rng.normal(size=(60, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = rng.choice([-1.0, 1.0], size=(60, 1))
    X = X.astype(np.float32)
    result = fit(X, Y, CallableKernel(rounded), C=1e4)
    K = X.astype(float) @ X.T.astype(float)
    expected = reference.solve_bordered(K, Y, 1e4)
    assert_close(result.solution.dual_coef, expected.dual_coef, rtol=1e-5)
    assert result.plan.kernel_dtype == "float64"
    assert "computed again in float64" in result.plan.reason
    with pytest.raises(NotPositiveDefiniteError):
        fit(X, Y, CallableKernel(lambda X, Y: -(X @ Y.T)), C=1e4)
