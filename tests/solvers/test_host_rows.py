"""Every solver for rows that stay on the host: the fit of rows that are there."""

import tracemalloc

import numpy as np
import pytest

from kaucus._array.namespace import as_like, to_numpy
from kaucus._array.rows import HostRows, copy_buffer_bytes
from kaucus.clustering._kernel_kmeans import (
    choose_landmarks,
    kernel_kmeans_on_landmarks,
    make_gram,
)
from kaucus.fitting._search import search_by_leave_one_out
from kaucus.kernels import (
    CallableKernel,
    ClusterRBF,
    Gaussian,
    KernelOperator,
    Polynomial,
)
from kaucus.solvers._auto import fit_ls_svm, plan_ls_svm
from kaucus.solvers._blocks import RANDOMIZED, Start
from kaucus.solvers._system import Validation
from tests.arrays import assert_close
from tests.solvers.problems import of_rows

fit_ls_svm = of_rows(fit_ls_svm)

N, D = 60, 40
SOLVERS = ["cholesky", "cg", *RANDOMIZED]
KERNEL = Gaussian(gamma=0.02)


def problem(dtype="float64", n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D)).astype(dtype)
    Y = np.sign(X[:, :2] + 0.1 * rng.normal(size=(n, 2)))
    return X, Y


@pytest.fixture(params=["torch", "device1"])
def like(request):
    """Return one number on another device: of torch, or of array-api-strict."""
    if request.param == "torch":
        return pytest.importorskip("torch").zeros(1)
    strict = pytest.importorskip("array_api_strict")
    return strict.zeros(1, device=strict.Device("device1"))


def both(X, like):
    """Return rows on the device as a whole, and as they are seen from there."""
    there = as_like(X, like)
    return there, HostRows(X, there[:1, :], buffer_bytes=2**15)


def fit(X, Y, **options):
    options = {"C": 10.0, "tol": 1e-6, "max_iter": 30, **options}
    kernel = options.pop("kernel", KERNEL)
    return fit_ls_svm(kernel, X, Y, rng=np.random.default_rng(0), **options)


def assert_same(streamed, whole, atol):
    assert streamed.plan.solver == whole.plan.solver
    assert streamed.solution.info.n_iter == whole.solution.info.n_iter
    assert np.array_equal(streamed.loo_rows, whole.loo_rows)
    for name in ("dual_coef", "intercept", "loo_decision"):
        got, expected = (getattr(r.solution, name) for r in (streamed, whole))
        assert (got is None) == (expected is None)
        if got is not None:
            assert type(got) is type(expected)
            assert_close(got, expected, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_fits_the_same(solver, like):
    X, Y = problem()
    given = X.copy()
    there, away = both(X, like)
    weight = as_like(np.random.default_rng(1).integers(0, 3, N).astype(float), like)
    options = {"solver": solver, "sample_weight": weight, "leave_one_out": True}
    if solver in RANDOMIZED:
        options["block_size"] = 16
    Y = as_like(Y, like)
    assert_same(fit(away, Y, **options), fit(there, Y, **options), 1e-8)
    assert np.array_equal(X, given)


@pytest.mark.parametrize("solver", ["cholesky", "cg", "block_descent"])
def test_single_rows_and_a_kernel_in_double(solver, like):
    X, Y = problem("float32")
    there, away = both(X, like)
    for C, dtype in ((1.0, "float32"), (1e6, "float64")):
        results = [
            fit(rows, as_like(Y, like), C=C, solver=solver, tol=1e-3, max_iter=20)
            for rows in (away, there)
        ]
        assert results[0].plan.kernel_dtype == dtype
        size = np.abs(to_numpy(results[1].solution.dual_coef)).max()
        assert_same(*results, 2e-3 * size)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cg", "kaczmarz_mp", "block_descent"])
def test_what_is_not_kept_travels_again(solver, like):
    """A budget for a part of the matrix: the rest is computed in every step."""
    X, Y = problem()
    there, away = both(X, like)
    options = {"solver": solver, "block_size": 8}
    budget = 2**16
    whole = fit(there, as_like(Y, like), memory_budget=budget, **options)
    budget += copy_buffer_bytes(away)
    streamed = fit(away, as_like(Y, like), memory_budget=budget, **options)
    # The rank of cg's preconditioner follows from the memory that copies of rows leave.
    assert_same(streamed, whole, 1e-5 if solver == "cg" else 1e-8)


def test_products_with_rows_that_are_kept_and_not(like):
    X, _ = problem()
    _, away = both(X, like)
    V = np.random.default_rng(2).normal(size=(N, 2))
    operator = KernelOperator(KERNEL, away, memory_budget=20 * 8 * N, keep="rows")
    drawn = np.arange(30, 45)
    assert_close(operator.rows(drawn), KERNEL(X)[drawn], atol=1e-12)
    assert 0 < operator.stored_share < 1
    assert_close(operator.matmul(as_like(V, like)), KERNEL(X) @ V, atol=1e-12)


def test_a_start_and_rows_that_are_watched(like):
    X, Y = problem(n=80)
    X, X_val, Y = X[:N], X[N:], Y[:N]
    first = fit(X, Y, solver="kaczmarz", max_iter=3, block_size=16).solution
    options = {
        "solver": "matching_pursuit",
        "block_size": 16,
        "start": Start(first.dual_coef, first.intercept),
    }
    errors = []
    for k in range(2):
        rows, unseen = both(X, like)[k], both(X_val, like)[k]
        validation = Validation(unseen, lambda values: float(np.sum(to_numpy(values))))
        result = fit(rows, as_like(Y, like), validation=validation, **options)
        errors.append(result.history["validation_error"])
    assert errors[0] == pytest.approx(errors[1])
    assert len(errors[0]) > 1


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(degree=2, gamma=0.1),
        ClusterRBF(lambda X: (X[:, 0] > 0).astype(int), [1.0, 2.0], gamma=0.02),
        CallableKernel(lambda X, Y: (X @ Y.T) ** 2),
    ],
    ids=lambda kernel: kernel.name,
)
@pytest.mark.parametrize("solver", ["cholesky", "block_descent"])
def test_other_kernels(kernel, solver, like):
    X, Y = problem()
    there, away = both(X, like)
    options = {"solver": solver, "kernel": kernel, "block_size": 16, "max_iter": 10}
    whole = fit(there, as_like(Y, like), **options)
    assert_same(fit(away, as_like(Y, like), **options), whole, 1e-7)


def test_rows_of_a_memory_map(like, tmp_path):
    X, Y = problem("float32")
    X.tofile(tmp_path / "X")
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    Y = as_like(Y, like)
    for solver in ("cholesky", "cg", "kaczmarz"):
        options = {"solver": solver, "block_size": 16, "max_iter": 5}
        in_memory = fit(both(X, like)[1], Y, **options)
        assert_same(fit(both(stored, like)[1], Y, **options), in_memory, 0)


def test_a_matrix_that_does_not_fit_says_what_rows_take():
    torch = pytest.importorskip("torch")
    X, _ = problem()
    away = both(X, torch.zeros(1))[1]
    with pytest.raises(MemoryError, match=r"and 64\.0 KiB for copies of"):
        plan_ls_svm(away, 1.0, 1.0, "cholesky", 2**10)
    plan = plan_ls_svm(away, 1.0, 1.0, "cg", 2**10)
    assert "memory_budget is 1.0 KiB and 64.0 KiB for copies of rows" in plan.reason


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cholesky", "cg", "block_descent"])
def test_memory_on_the_device(solver):
    """A library whose arrays are NumPy's stands in: their memory can be counted."""
    strict = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5000)) / 70  # 4.6 MiB
    Y = np.sign(X[:, :1])
    budget = 8 * 2**20
    kernel = Polynomial(degree=2, coef0=1.0)
    like = strict.asarray(X[:1], device=strict.Device("device1"))
    away, Y = HostRows(X, like, buffer_bytes=budget // 8), as_like(Y, like)
    options = {"solver": solver, "kernel": kernel, "max_iter": 2, "tol": 1e-12}
    fit(HostRows(X[:9], like, away.buffer_bytes), Y[:9, :], **options)
    tracemalloc.start()
    try:
        fit(away, Y, memory_budget=budget, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 2 * X.nbytes > budget
    assert peak < budget


# ---- what else takes a kernel and rows -------------------------------------------


@pytest.mark.parametrize("few", [1000, 10])
def test_leave_one_out_search(like, few, monkeypatch):
    from kaucus.fitting import _search
    from kaucus.solvers._system import regression_score

    monkeypatch.setattr(_search, "_FEW_EXACT_ROWS", few)
    X, Y = problem(n=30)
    there, away = both(X, like)
    found = [
        search_by_leave_one_out(
            [KERNEL, Gaussian(gamma=0.1)],
            rows,
            as_like(Y, like),
            [0.1, 10.0],
            lambda values: regression_score(values, Y, "neg_mean_squared_error"),
        )
        for rows in (away, there)
    ]
    assert_close(found[0].scores, found[1].scores, rtol=1e-9)
    assert found[0].best_C == found[1].best_C


def test_gram_matrices(like):
    X, _ = problem()
    there, away = both(X, like)
    V = as_like(np.random.default_rng(3).normal(size=(N, 3)), like)
    some = as_like(np.array([4, 50, 7]), like)
    budgets = [2**24, 2**14]
    for budget in budgets:
        gram = make_gram(KERNEL, away, memory_budget=budget + copy_buffer_bytes(away))
        K = KERNEL(X)
        assert_close(gram.matmul(V), K @ to_numpy(V), atol=1e-12)
        assert_close(gram.columns(some), K[:, [4, 50, 7]], atol=1e-13)
        expected = K[:, [4, 50, 7]] @ to_numpy(V)[:3]
        assert_close(gram.columns_matmul(some, V[:3, :]), expected, atol=1e-12)
        assert_close(gram.diagonal(), np.ones(N))
    found = [
        kernel_kmeans_on_landmarks(
            KERNEL, rows, there[:12, :], 3, rng=np.random.default_rng(0)
        )
        for rows in (away, there)
    ]
    assert_close(found[0].labels, found[1].labels)
    assert_close(found[0].coef, found[1].coef, atol=1e-8)


def test_first_means_are_chosen_among_no_more_rows_than_a_buffer_has(like, monkeypatch):
    X, _ = problem()
    there, _ = both(X, like)
    away = HostRows(X, there[:1, :], buffer_bytes=9 * D * 8)
    take, taken = HostRows.take, []

    def counted(self, numbers):
        taken.append(len(numbers))
        return take(self, numbers)

    monkeypatch.setattr(HostRows, "take", counted)
    kernel_kmeans_on_landmarks(
        KERNEL, away, there[:12, :], 3, rng=np.random.default_rng(0)
    )
    assert 0 < max(taken) <= 9


@pytest.mark.parametrize("method", ["uniform", "k-means", "rpcholesky"])
def test_landmarks_of_rows_that_fit_together(method, like):
    X, _ = problem()
    there, away = both(X, like)
    assert away.buffer_bytes > X.nbytes
    found = [
        choose_landmarks(KERNEL, rows, 7, method=method, rng=np.random.default_rng(0))
        for rows in (away, there)
    ]
    assert_close(found[0], found[1], rtol=1e-9)


def test_landmarks_are_chosen_among_no_more_rows_than_fit(like):
    X, _ = problem()
    there, _ = both(X, like)
    away = HostRows(X, there[:1, :], buffer_bytes=9 * D * 8)
    seen = []

    def dot(A, B):
        seen.append(max(A.shape[0], B.shape[0]))
        return A @ B.T

    rng = np.random.default_rng(0)
    kernel = CallableKernel(dot)
    found = choose_landmarks(kernel, away, 5, method="rpcholesky", rng=rng)
    assert found.shape == (5, D)
    assert max(seen) == 9
