"""Rows, columns and the whole of a kernel matrix, whatever of it is kept."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from kaucus._array.namespace import dtype_name, is_sparse, to_numpy
from kaucus.kernels import Gaussian, KernelOperator, Polynomial, Precomputed
from tests.arrays import EPS, array, assert_close, assert_to_rounding, same_bits

KERNEL = Gaussian(gamma=0.3)
KEEP = ["tiles", "rows", "gram", None]
# Much less than the matrix, a part of it, all of it.
BUDGETS = ["2KiB", "20KiB", "4MiB"]
NUMBERS = np.array([5, 0, 17, 5, 29])


def data(dtype="float64", n=40, m=30):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(m, 3)).astype(dtype)
    return X, Y, rng.normal(size=(n, 2)).astype(dtype), rng.normal(size=(m, 2))


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_entries_and_products_are_those_of_the_matrix(
    xp, dtype, keep, budget, symmetric
):
    X, Y, W, V = data(dtype)
    Y, V = (X, W) if symmetric else (Y, V.astype(dtype))
    K = KERNEL(X.astype(float), Y.astype(float))
    operator = KernelOperator(
        KERNEL,
        array(xp, X),
        None if symmetric else array(xp, Y),
        memory_budget=budget,
        keep=keep,
    )
    assert operator.shape == K.shape
    tol = {"rtol": 0, "atol": 300 * EPS[dtype]}
    some = array(xp, V[: len(NUMBERS)])
    for _ in range(2):  # the second time from what is kept
        rows = operator.rows(NUMBERS)
        assert type(rows) is type(array(xp, X))
        assert dtype_name(rows) == dtype
        assert_close(rows, K[NUMBERS], **tol)
        assert_close(operator.columns(NUMBERS), K[:, NUMBERS], **tol)
        assert_close(operator.matmul(array(xp, V)), K @ V, **tol)
        assert_close(operator.rmatmul(array(xp, W)), K.T @ W, **tol)
        product = operator.columns_matmul(NUMBERS, some)
        assert dtype_name(product) == dtype
        assert_close(product, K[:, NUMBERS] @ to_numpy(some), **tol)
        part = operator.part(rows=NUMBERS, columns=NUMBERS[:3])
        assert_close(
            part.matmul(some[:3, :]), K[NUMBERS][:, NUMBERS[:3]] @ V[:3], **tol
        )


@pytest.mark.parametrize("keep", ["tiles", "rows", "gram"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_panels_cover_every_row_once_in_one_order(keep, budget, monkeypatch):
    X, Y, _, _ = data()
    K = KERNEL(X, Y)
    monkeypatch.setattr("kaucus.kernels._kernel.tile_shape", lambda *args: (4, 30))
    seen = []
    for threads in (1, 3):
        monkeypatch.setattr("kaucus.kernels._kernel.n_workers", lambda X, t=threads: t)
        operator = KernelOperator(KERNEL, X, Y, memory_budget=budget, keep=keep)
        operator.rows(NUMBERS)
        panels = list(operator.map_panels(lambda rows, P: (rows, P.copy())))
        numbers = np.concatenate([rows for rows, _ in panels])
        assert sorted(numbers) == list(range(40))
        assert_close(np.concatenate([P for _, P in panels]), K[numbers], atol=1e-14)
        seen.append(numbers)
    assert np.array_equal(*seen)


class Counting(Polynomial):
    """A kernel that counts the entries that are computed."""

    entries = 0

    def tile(self, X, Y):
        K = super().tile(X, Y)
        Counting.entries += K.shape[0] * K.shape[1]
        return K


@pytest.mark.thread_unsafe
def test_rows_that_are_drawn_again_are_not_computed_again():
    X, _, W, _ = data()
    operator = KernelOperator(Counting(), X, memory_budget="4MiB", keep="rows")
    Counting.entries = 0
    operator.rows(np.array([3, 9, 3]))
    operator.rows(np.array([9, 11]))
    # A row that is asked for twice at a time is computed twice, and kept once.
    assert Counting.entries == 4 * 40
    operator.matmul(W)
    assert Counting.entries == 41 * 40
    operator.matmul(W)
    operator.columns(NUMBERS)
    assert Counting.entries == 41 * 40


def test_half_of_a_whole_matrix_is_computed_and_once(monkeypatch):
    X, _, W, _ = data()
    monkeypatch.setattr("kaucus.kernels._kernel.tile_shape", lambda *args: (5, 5))
    Counting.entries = 0
    operator = KernelOperator(Counting(), X, memory_budget="4MiB", keep="gram")
    assert 40 * 40 / 2 < Counting.entries <= 40 * 45 / 2
    n_entries = Counting.entries
    operator.matmul(W)
    operator.rows(NUMBERS)
    operator.columns_matmul(NUMBERS, W[:5])
    operator.gram()
    assert Counting.entries == n_entries


def test_a_given_matrix_is_read_where_it_is(xp):
    K = KERNEL(data()[0])
    kernel = Precomputed(array(xp, K))
    numbers = kernel.row_numbers()
    operator = KernelOperator(kernel, numbers, memory_budget=1, keep="gram")
    assert operator.gram() is kernel.matrix
    assert operator.stored_share == 1
    backwards = xp.flip(numbers, axis=0)
    other = KernelOperator(kernel, backwards, memory_budget="1MiB", keep="gram")
    assert_close(other.gram(), K[::-1, ::-1])


def test_the_whole_matrix_where_it_fits():
    X, Y, _, _ = data()
    for operator in (
        KernelOperator(KERNEL, X, Y),
        KernelOperator(KERNEL, X, Y, keep="gram"),
    ):
        assert_to_rounding(operator.gram(), KERNEL(X, Y))
    small = KernelOperator(KERNEL, X, Y, memory_budget="4KiB", keep="gram")
    assert 0 < small.stored_share < 1
    with pytest.raises(MemoryError, match=r"40 x 30 rows takes 9\.4 KiB.*4\.0 KiB"):
        small.gram()


def test_what_may_be_kept():
    with pytest.raises(ValueError, match="keep='all' must be one of"):
        KernelOperator(KERNEL, data()[0], keep="all")


def test_narrow_products_round_the_vectors(rng):
    """Twice as fast, for iterations: but the result is still of their precision."""
    X, _, W, _ = data("float32")
    W = W.astype("float64")
    for keep in ("tiles", "rows", "gram"):
        wide, narrow = (
            KernelOperator(KERNEL, X, keep=keep, widen=widen) for widen in (True, False)
        )
        assert wide.rounding < 1e-15 < narrow.rounding < 1e-6
        exact = KERNEL(X).astype(float) @ W
        got = narrow.matmul(W)
        assert dtype_name(got) == "float64"
        assert_close(wide.matmul(W), exact, rtol=0, atol=1e-12)
        assert_close(got, exact, rtol=0, atol=1e-5)
        assert np.abs(got - exact).max() > 1e-10


@pytest.mark.parametrize("keep", ["rows", "gram"])
def test_sparse_rows(keep):
    X, _, W, _ = data()
    X[X < 0] = 0
    sparse = scipy.sparse.csr_array(X)
    for budget in BUDGETS:
        operator = KernelOperator(KERNEL, sparse, memory_budget=budget, keep=keep)
        rows = operator.rows(NUMBERS)
        assert not is_sparse(rows)
        assert_close(rows, KERNEL(X)[NUMBERS], rtol=1e-12)
        assert_close(operator.columns(NUMBERS), KERNEL(X)[:, NUMBERS], rtol=1e-12)
        assert_close(operator.matmul(W), KERNEL(X) @ W, rtol=0, atol=1e-12)


@pytest.mark.parametrize("budget", ["20KiB", "4MiB"])
def test_threads_may_draw_the_same_rows(budget):
    X, _, W, _ = data(n=60)
    K = KERNEL(X)
    operator = KernelOperator(KERNEL, X, memory_budget=budget, keep="rows")

    def draw(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            numbers = rng.permutation(60)[:20]
            assert_close(operator.rows(numbers), K[numbers], rtol=0, atol=1e-13)
        assert_close(operator.matmul(W), K @ W, rtol=0, atol=1e-12)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(draw, range(16)))


def test_an_interrupt_leaves_what_was_kept(monkeypatch):
    X, _, W, _ = data()
    operator = KernelOperator(KERNEL, X, memory_budget="4MiB", keep="rows")
    operator.rows(NUMBERS)
    compute = KernelOperator._compute

    def interrupted(self, out, rows):
        compute(self, out, rows)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KernelOperator, "_compute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            operator.matmul(W)
    assert_close(operator.matmul(W), KERNEL(X) @ W, rtol=0, atol=1e-12)
    assert_close(operator.rows(NUMBERS), KERNEL(X)[NUMBERS], rtol=0, atol=1e-13)


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("keep", ["rows", "gram"])
def test_memory_stays_within_the_budget(dtype, keep):
    n, budget = 6000, 80 * 2**20  # the matrix has 137 or 275 MiB
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(n, 2)).astype(dtype)
    tracemalloc.start()
    try:
        operator = KernelOperator(KERNEL, X, memory_budget=budget, keep=keep)
        operator.rows(np.arange(100))
        operator.matmul(W)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < budget


@pytest.mark.thread_unsafe
def test_wide_rows_are_copied_a_few_at_a_time():
    """All rows that are not kept yet would be 16 MB."""
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(2000, 1000)), rng.normal(size=(2000, 2))
    budget = 24 * 10**6  # for two thirds of the matrix
    tracemalloc.start()
    try:
        operator = KernelOperator(Polynomial(), X, memory_budget=budget, keep="rows")
        operator.matmul(W)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 < operator.stored_share < 1
    assert peak < budget


def test_nothing_that_is_given_is_changed():
    given = data()
    X, Y, W, _ = (A.copy() for A in given)
    for keep in KEEP:
        operator = KernelOperator(KERNEL, X, Y, keep=keep)
        operator.rows(NUMBERS)[:] = 7
        operator.rmatmul(W)
        assert_close(operator.rows(NUMBERS), KERNEL(X, Y)[NUMBERS], rtol=1e-12)
    for A, before in zip((X, Y, W), given, strict=False):
        assert same_bits(A, before)


def test_a_part_shares_the_prepared_rows(rng):
    """So that products with some columns need no second copy of all rows."""
    X = rng.normal(size=(60, 4))
    operator = KernelOperator(Gaussian(gamma=0.3), X)
    some = np.array([3, 50, 7])
    for options in ({"rows": some}, {"columns": some}):
        part = operator.part(**options)
        assert part._pairs.held_bytes <= 3 * X[0].nbytes
        index = np.ix_(*(options.get(k, np.arange(60)) for k in ("rows", "columns")))
        V = rng.normal(size=(part.shape[1], 2))
        assert_close(part.matmul(V), Gaussian(gamma=0.3)(X)[index] @ V, rtol=1e-9)
