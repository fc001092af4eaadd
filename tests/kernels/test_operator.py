"""Products with a kernel matrix that may never exist as a whole."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from kaucus._array.namespace import dtype_name, is_sparse
from kaucus.kernels import Gaussian, KernelOperator, Linear, Polynomial, Precomputed
from tests.arrays import EPS, array, assert_close, same_bits
from tests.kernels.registry import CASES, name_of

KERNEL = Gaussian(gamma=0.3)
budgets = st.integers(2 * 1024, 200 * 1024)


def data(seed, n, m, t, dtype):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(dtype)
    Y = rng.normal(size=(m, 3)).astype(dtype)
    V, W = rng.normal(size=(m, t)), rng.normal(size=(n, t))
    return X, Y, V.astype(dtype), W.astype(dtype)


@given(
    budget=budgets,
    n=st.integers(1, 60),
    t=st.integers(1, 3),
    store=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_symmetric_products_for_any_budget(budget, n, t, store, dtype):
    X, _, _, W = data(n, n, n, t, dtype)
    operator = KernelOperator(
        KERNEL, X, memory_budget=budget, keep="tiles" if store else None
    )
    assert operator.shape == (n, n)
    assert operator.symmetric
    expected = KERNEL(X.astype(float)) @ W
    for product in (operator.matmul, operator.matmul, operator.rmatmul):
        result = product(W)
        assert result.dtype == dtype
        assert_close(result, expected, rtol=0, atol=200 * EPS[dtype] * n)
    assert_close(operator.diagonal(), np.ones(n))


@given(
    budget=budgets,
    n=st.integers(1, 50),
    m=st.integers(1, 50),
    store=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_rectangular_products_for_any_budget(budget, n, m, store, dtype):
    X, Y, V, W = data(n + m, n, m, 2, dtype)
    operator = KernelOperator(
        KERNEL, X, Y, memory_budget=budget, keep="tiles" if store else None
    )
    assert operator.shape == (n, m)
    K = KERNEL(X.astype(float), Y.astype(float))
    atol = 200 * EPS[dtype] * max(n, m)
    for _ in range(2):  # the second time from what is kept
        assert_close(operator.matmul(V), K @ V, rtol=0, atol=atol)
        assert_close(operator.rmatmul(W), K.T @ W, rtol=0, atol=atol)


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("budget", ["3KiB", "1MiB"])
def test_every_kernel_on_every_library(xp, dtype, case, budget):
    X, Y, V, W = data(0, 25, 18, 2, dtype)
    K = case.kernel(X.astype(float), Y.astype(float))
    atol = 300 * EPS[dtype] * max(np.max(np.abs(K)), 1)
    operator = KernelOperator(
        case.kernel, array(xp, X), array(xp, Y), memory_budget=budget
    )
    product = operator.matmul(array(xp, V))
    assert type(product) is type(array(xp, V))
    assert dtype_name(product) == dtype
    assert_close(product, K @ V, rtol=0, atol=atol)
    assert_close(operator.rmatmul(array(xp, W)), K.T @ W, rtol=0, atol=atol)
    symmetric = KernelOperator(case.kernel, array(xp, X), memory_budget=budget)
    K = case.kernel(X.astype(float))
    atol = 300 * EPS[dtype] * max(np.max(np.abs(K)), 1)
    assert_close(symmetric.matmul(array(xp, W)), K @ W, rtol=0, atol=atol)


@pytest.mark.parametrize("density", [0.01, 0.5])
def test_sparse_rows(dtype, rng, density):
    X = (rng.normal(size=(40, 30)) * (rng.random((40, 30)) < density)).astype(dtype)
    V = rng.normal(size=(40, 2)).astype(dtype)
    operator = KernelOperator(KERNEL, scipy.sparse.csr_array(X), memory_budget="4KiB")
    result = operator.matmul(V)
    assert not is_sparse(result)
    assert_close(result, KERNEL(X.astype(float)) @ V, rtol=0, atol=1e4 * EPS[dtype])


def test_wide_vectors_are_multiplied_in_double(xp, rng):
    """A float32 kernel times float64 vectors rounds the entries, not the sums."""
    K = KERNEL(rng.normal(size=(50, 3))).astype("float32")
    V = rng.normal(size=(50, 2))
    kernel = Precomputed(array(xp, K))
    operator = KernelOperator(kernel, kernel.row_numbers())
    assert operator.dtype == "float32"
    result = operator.matmul(array(xp, V))
    assert dtype_name(result) == "float64"
    assert_close(result, K.astype(float) @ V, rtol=0, atol=1e-13)


def test_a_prediction_rounds_no_more_than_its_kernel(rng):
    """float32 rows and float64 coefficients: beside widening the kernel's tiles."""
    X = rng.normal(size=(40, 3)).astype("float32")
    Y = rng.normal(size=(3000, 3)).astype("float32")
    V = 1e3 * rng.normal(size=(3000, 2))
    result = KernelOperator(KERNEL, X, Y).matmul(V)
    assert dtype_name(result) == "float64"
    K = KERNEL(X, Y).astype(float)
    # Sums of 256 float32 products at most, whatever order BLAS adds them in.
    bound = 260 * 2.0**-24 * np.abs(K) @ np.abs(V)
    assert np.all(np.abs(result - K @ V) <= bound)


def test_a_prediction_keeps_the_low_digits_of_its_coefficients():
    """float32 would round 10⁸ + 1 to 10⁸, and lose the sum."""
    X, Y = np.ones((40, 1), dtype="float32"), np.ones((2, 1), dtype="float32")
    V = np.array([[1e8 + 1], [-1e8]])
    assert_close(KernelOperator(Linear(), X, Y).matmul(V), np.ones((40, 1)))


def test_what_is_kept_grows_with_the_budget(dtype):
    X = data(0, 200, 1, 1, dtype)[0]
    for Y in (None, X[:150]):
        shares = [
            KernelOperator(KERNEL, X, Y, memory_budget=budget).stored_share
            for budget in (2**11, 2**14, 2**16, 2**17, 2**22)
        ]
        assert shares == sorted(shares)
        assert 0 <= shares[0] < shares[2] < 1
        assert shares[-1] == 1
        kept = KernelOperator(KERNEL, X, Y, memory_budget=2**30, keep=None)
        assert kept.stored_share == 0


def test_what_is_kept_is_not_computed_again():
    X, _, _, W = data(0, 100, 1, 2, "float64")

    class Counting(Polynomial):
        tiles = 0

        def tile(self, X, Y):
            Counting.tiles += 1
            return super().tile(X, Y)

    operator = KernelOperator(Counting(), X, memory_budget="4MiB")
    first = operator.matmul(W)
    n_tiles = Counting.tiles
    assert same_bits(operator.matmul(W), first)
    assert Counting.tiles == n_tiles > 0
    operator = KernelOperator(Counting(), X, memory_budget="4MiB", keep=None)
    operator.matmul(W)
    operator.matmul(W)
    assert Counting.tiles == 3 * n_tiles


@pytest.mark.parametrize("symmetric", [True, False])
def test_threads_change_no_bit(dtype, symmetric, monkeypatch):
    X, Y, V, W = data(0, 300, 260, 2, dtype)
    monkeypatch.setattr("kaucus.kernels._kernel.tile_shape", lambda *args: (32, 64))
    results = []
    for threads in (1, 2, 4):
        monkeypatch.setattr("kaucus.kernels._kernel.n_workers", lambda X, t=threads: t)
        with threadpool_limits(1, user_api="blas"):
            operator = KernelOperator(KERNEL, X, None if symmetric else Y)
            product = operator.matmul(W if symmetric else V)
            results.append((product, operator.rmatmul(W)))
    for other in results[1:]:
        assert same_bits(other[0], results[0][0])
        assert same_bits(other[1], results[0][1])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [KERNEL, Polynomial(degree=3)], ids=["rbf", "poly"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_memory_stays_within_the_budget(dtype, kernel, symmetric):
    """The matrix has 6 (float32) or 12 (float64) times as many bytes as allowed."""
    n, budget = 6000, 24 * 2**20
    X, _, _, W = data(0, n, 1, 2, dtype)
    tracemalloc.start()
    try:
        operator = KernelOperator(
            kernel, X, None if symmetric else X, memory_budget=budget
        )
        operator.matmul(W)
        operator.matmul(W)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * budget < peak <= budget


def test_rows_and_vectors_stay_as_they_are(xp, dtype):
    X, Y, V, W = data(0, 30, 20, 2, dtype)
    given = [array(xp, A) for A in (X, Y, V, W)]
    operator = KernelOperator(KERNEL, given[0], given[1], memory_budget="4KiB")
    operator.matmul(given[2])
    operator.rmatmul(given[3])
    for A, before in zip(given, (X, Y, V, W), strict=True):
        assert same_bits(A, before)
