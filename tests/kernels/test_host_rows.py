"""Kernels of rows that stay on the host: the same matrix, from blocks that travel."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array import rows as _streaming
from kaucus._array.namespace import as_like, astype, dtype_name, to_numpy
from kaucus._array.rows import HostRows
from kaucus.kernels import CallableKernel, Gaussian, KernelOperator, _kernel
from kaucus.kernels._kernel import kernel_diagonal
from tests.arrays import EPS, assert_close, assert_to_rounding, same_bits
from tests.kernels.registry import CASES, name_of

D = 5


@pytest.fixture(params=["numpy", "torch", "device1"])
def there(request):
    """Return rows as a device of every library sees them."""
    name = request.param.replace("device1", "array_api_strict")
    library = pytest.importorskip(name)
    device = {"device": library.Device("device1")} if request.param != name else {}

    def seen(values, blocks_of=4):
        """Return rows of which about so many are in a block."""
        like = library.asarray(np.array(values[:1]), **device)
        row = _kernel._COPIES * values.itemsize * values.shape[1]
        return HostRows(values, like, buffer_bytes=2 * blocks_of * row)

    return seen


def on_device(rows):
    """Return rows as a whole where HostRows are seen."""
    return as_like(np.asarray(rows.values), rows.like)


def data(dtype, n=23, m=14, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).astype(dtype)
    Y = rng.normal(size=(m, D)).astype(dtype)
    Y[3] = X[7]  # an equal pair
    return X, Y


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_kernel_is_the_same(case, there, dtype):
    X, Y = data(dtype)
    before = X.tobytes(), Y.tobytes()
    atol = 300 * EPS[dtype] * max(1, np.abs(case.kernel(X.astype(float))).max())
    H, J = there(X), there(Y)
    for left, right in [(H, J), (H, on_device(J)), (on_device(H), J)]:
        K = case.kernel(left, right)
        assert type(K) is type(H.like)
        assert dtype_name(K) == dtype
        assert_close(K, case.kernel(X, Y), rtol=0, atol=atol)
    K = case.kernel(H)
    assert_close(K, case.kernel(X), rtol=0, atol=atol)
    assert same_bits(K, to_numpy(K).T)
    assert_close(kernel_diagonal(case.kernel, H), case.kernel.diag(X), rtol=10 * atol)
    assert (X.tobytes(), Y.tobytes()) == before


@given(
    budget=st.integers(2**12, 2**17),
    n=st.integers(1, 24),
    m=st.integers(1, 24),
    blocks_of=st.integers(2, 30),
    store=st.booleans(),
)
def test_products_for_any_budget(budget, n, m, blocks_of, store):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(n + m)
    X, Y = rng.normal(size=(n, D)), rng.normal(size=(m, D))
    V, W = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    room = 2 * blocks_of * _kernel._COPIES * 8 * D
    H, J = (HostRows(rows, torch.tensor(rows[:1]), room) for rows in (X, Y))
    kernel = Gaussian(gamma=0.3)
    options = {"memory_budget": budget, "keep": "tiles" if store else None}
    symmetric = KernelOperator(kernel, H, **options)
    pair = KernelOperator(kernel, H, J, **options)
    for _ in range(2):  # the second time from what is kept
        products = symmetric.matmul(torch.tensor(V)), pair.matmul(torch.tensor(W))
        assert_close(products[0], kernel(X) @ V, atol=1e-12)
        assert_close(products[1], kernel(X, Y) @ W, atol=1e-12)
        transposed = pair.rmatmul(torch.tensor(V))
        assert_close(transposed, kernel(X, Y).T @ V, atol=1e-12)
    assert_close(symmetric.diagonal(), np.ones(n))


def test_rows_by_number_in_any_order(there, dtype):
    X, Y = data(dtype)
    order = np.random.default_rng(1).integers(len(X), size=31)
    kernel = Gaussian(gamma=0.3)
    expected = kernel(X[order], Y)
    chosen = there(X).in_order(order)
    assert_close(kernel(chosen, there(Y)), expected, atol=1e-5)
    again = chosen.in_order(np.arange(31)[::-2])
    assert_close(kernel(again, there(Y)), expected[::-2], atol=1e-5)
    for X_of_any_kind in (there(X), on_device(there(X))):
        pairs = kernel.pairs(X_of_any_kind).part(order)
        assert pairs.shape == (31, len(X))
        [pair] = pairs.iterate([(slice(0, 31), slice(0, len(X)))])
        assert_close(kernel.tile(*pair), kernel(X[order], X), atol=1e-5)


def test_a_kernel_in_double_of_single_rows(there):
    X, _ = data("float32")
    H = there(X)
    wide = H.in_kind_of(astype(H.like, "float64"))
    K = Gaussian(gamma=0.3)(wide)
    assert dtype_name(K) == "float64"
    assert_close(K, Gaussian(gamma=0.3)(X.astype(float)), rtol=1e-13)


def test_a_function_sees_rows_of_the_device(there):
    X, _ = data("float64")
    H, seen = there(X), []

    def dot(a, b):
        seen.append((type(a), a.shape[0], b.shape[0]))
        return a @ b.T

    K = CallableKernel(dot)(H)
    assert_close(K, X @ X.T, atol=1e-13)
    assert {kind for kind, _, _ in seen} == {type(H.like)}
    assert max(max(n, m) for _, n, m in seen) <= 4


def test_a_block_that_repeats_travels_once(there, monkeypatch):
    X, Y = data("float64", n=16, m=12)
    travelled = []
    move = _streaming._copied_ahead

    def noted(values, blocks, like):
        for rows, block in zip(blocks, move(values, blocks, like), strict=True):
            travelled.append((values is X, rows.start, rows.stop))
            yield block

    monkeypatch.setattr(_streaming, "_copied_ahead", noted)
    pairs = Gaussian().pairs(there(X), there(Y))
    halves = [slice(0, 8), slice(8, 16)]
    thirds = [slice(0, 4), slice(4, 8), slice(8, 12)]
    n_tiles = sum(1 for _ in pairs.iterate([(i, j) for i in halves for j in thirds]))
    assert n_tiles == 6
    assert [part for part in travelled if part[0]] == [(True, 0, 8), (True, 8, 16)]
    assert len(travelled) == 2 + 6


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [Gaussian(gamma=0.3), CASES[2].kernel])
def test_memory_on_the_device(kernel):
    """A library whose arrays are NumPy's stands in: their memory can be counted."""
    strict = pytest.importorskip("array_api_strict")
    X = np.random.default_rng(0).normal(size=(400, 400)) / 20  # 1.2 MiB
    budget = 9 * 2**18
    like = strict.asarray(X[:1], device=strict.Device("device1"))
    H = HostRows(X, like, buffer_bytes=budget // 8)
    V = strict.asarray(np.ones((400, 2)), device=like.device)
    some = H.in_order(np.arange(0, 400, 16))
    rest = budget - _streaming.copy_buffer_bytes(H)
    assert 2 * X.nbytes > budget
    kernel(HostRows(X[:9], like, H.buffer_bytes))  # imports everything
    tracemalloc.start()
    try:
        operator = KernelOperator(kernel, some, H, memory_budget=rest)
        product = operator.matmul(V)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_close(product, kernel(X[::16], X) @ np.ones((400, 2)), rtol=1e-9)
    assert peak < budget


def test_rows_of_a_memory_map(there, tmp_path):
    X, _ = data("float32")
    X.tofile(tmp_path / "X")
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    kernel = Gaussian(gamma=0.3)
    assert_to_rounding(kernel(there(stored)), kernel(there(X)))
    chosen = there(stored).in_order(np.array([5, 0, 5]))
    assert_close(kernel(chosen), kernel(X[[5, 0, 5]]), rtol=1e-6)


def test_one_tile_whose_row_is_larger_than_the_room(there):
    X, _ = data("float64")
    narrow = HostRows(X, there(X).like, buffer_bytes=1)
    assert_close(Gaussian(gamma=0.3)(narrow), Gaussian(gamma=0.3)(X), rtol=1e-12)
