"""Rows of the host that look like a matrix on a device."""

import numpy as np
import pytest

from kaucus._array import rows as _streaming
from kaucus._array.blocks import n_workers, row_blocks
from kaucus._array.namespace import (
    array_namespace,
    as_like,
    astype,
    device_of,
    dtype_name,
    is_numpy,
    is_tensor,
    is_torch,
    itemsize,
    rows_in_order,
    take_rows,
)
from kaucus._array.rows import (
    HostRows,
    budget_without_buffers,
    copy_buffer_bytes,
    rows_for_device,
    stream_blocks,
)
from tests.arrays import array, assert_close

N, D = 23, 3


@pytest.fixture
def X(rng, dtype):
    X = rng.normal(size=(N, D)).astype(dtype)
    X.flags.writeable = False
    return X


def seen(X, xp):
    return HostRows(X, array(xp, X[:1]), buffer_bytes=1000)


def test_they_are_of_the_kind_of_their_blocks(X, xp):
    rows, whole = seen(X, xp), array(xp, X)
    assert (rows.shape, rows.ndim) == (X.shape, 2)
    for tell in (array_namespace, device_of, dtype_name, is_torch, itemsize):
        assert tell(rows) == tell(whole)
    assert not is_numpy(rows)
    if xp.__name__ != "array_api_compat.numpy":
        assert is_tensor(whole)
    assert n_workers(rows) == 1  # they come one after the other
    values = as_like(np.arange(3), rows)
    assert type(values) is type(whole)


def test_rows_by_number_come_to_the_device(X, xp):
    rows, index = seen(X, xp), np.array([4, 0, 22, 4])
    for numbers in (index, array(xp, index)):
        got = take_rows(rows, numbers)
        assert type(got) is type(rows.like)
        assert_close(got, X[index], rtol=0)


def test_rows_in_another_order_stay(X, xp):
    order = np.random.default_rng(0).permutation(N)[:17]
    rows = seen(X, xp)
    other = rows_in_order(rows, array(xp, order))
    assert isinstance(other, HostRows)
    assert np.shares_memory(other.values, X)
    assert other.shape == (17, D)
    twice = rows_in_order(other, np.array([3, 16, 0]))
    assert_close(take_rows(twice, np.arange(3)), X[order[[3, 16, 0]]], rtol=0)
    assert_close(rows_in_order(array(xp, X), order), X[order], rtol=0)


@pytest.mark.parametrize("wanted", ["float32", "float64"])
def test_the_device_casts(X, xp, wanted):
    rows = astype(seen(X, xp), wanted)
    assert dtype_name(rows) == wanted
    assert np.shares_memory(rows.values, X)
    [block] = stream_blocks(rows, [slice(2, 9)])
    assert dtype_name(block) == wanted
    assert_close(block, X[2:9].astype(wanted), rtol=0)
    assert dtype_name(take_rows(rows, np.arange(2))) == wanted


@pytest.mark.parametrize("ordered", [False, True])
def test_blocks_in_turn(X, xp, ordered):
    rows, expected = seen(X, xp), X
    if ordered:
        rows, expected = rows.in_order(np.arange(N)[::-1]), X[::-1]
    blocks = [*row_blocks(N, 1, 5), slice(0, 2), slice(0, 2), slice(3, 9)]
    for whole in (rows, array(xp, expected)):
        parts = stream_blocks(whole, blocks)
        for s, block in zip(blocks, parts, strict=True):
            assert type(block) is type(rows.like)
            assert_close(block, expected[s], rtol=0)
    assert list(stream_blocks(rows, [])) == []


# ---- what stays ------------------------------------------------------------------


@pytest.fixture
def there(monkeypatch):
    """A device that is not the host: tensors of the host."""
    torch = pytest.importorskip("torch")

    def to_device(x, device):
        return torch.tensor(np.array(x)) if device == "there" else x

    monkeypatch.setattr(_streaming.nx, "to_device", to_device)
    return "there"


def test_what_does_not_fit_stays_on_the_host(X, there):
    budget = 2 * X.nbytes
    assert is_torch(rows_for_device(X, there, budget))
    rows = rows_for_device(X, there, budget - 1)
    assert isinstance(rows, HostRows)
    assert rows.values is X
    assert dtype_name(rows) == X.dtype.name
    assert copy_buffer_bytes(rows) == 2 * ((budget - 1) // 8)
    assert budget_without_buffers(rows, budget) == budget - copy_buffer_bytes(rows)


def test_without_a_device_nothing_is_copied(X):
    assert rows_for_device(X, None, 1) is X
    assert rows_for_device(X, "cpu", 1) is X
    assert copy_buffer_bytes(X) == 0
    assert budget_without_buffers(X, "1KiB") == 1024


def test_buffers_have_a_limit(X, there, monkeypatch):
    monkeypatch.setattr(_streaming, "_BUFFER_BYTES", 10)
    assert rows_for_device(X, there, X.nbytes).buffer_bytes == 10
