"""Rows travel to a device in blocks: in order, whole, one ahead of the work."""

import numpy as np
import pytest

from kaucus.backend import (
    _streaming,
    device_parts,
    dtype_name,
    iter_device_blocks,
    row_blocks,
    rows_on_device,
    to_numpy,
)
from tests.arrays import array, assert_close

torch = pytest.importorskip("torch")

from kaucus.backend import _lanes  # noqa: E402 - torch first

N, D = 37, 3


@pytest.fixture
def X(rng, dtype):
    return rng.normal(size=(N, D)).astype(dtype)


def blocks_of(height):
    return list(row_blocks(N, 1, height))


@pytest.mark.parametrize("height", [1, 5, 36, 37, 100])
def test_order_and_values(X, height, xp):
    like = array(xp, X[:1])
    seen = []
    for rows, block in iter_device_blocks(X, blocks_of(height), like):
        assert type(block) is type(like)
        assert dtype_name(block) == X.dtype.name
        assert_close(block, X[rows], rtol=0)
        seen.append(rows)
    assert seen == blocks_of(height)


def layouts(X, tmp_path):
    """Yield the same values in memory of every kind."""
    yield np.asfortranarray(X)
    yield np.repeat(X, 2, axis=0)[::2]
    yield X[::-1].copy()[::-1]
    frozen = X.copy()
    frozen.flags.writeable = False
    yield frozen
    X.tofile(tmp_path / "X")
    yield np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)


def test_memory_of_every_kind(X, tmp_path):
    for rows_of_host in layouts(X, tmp_path):
        parts = iter_device_blocks(rows_of_host, blocks_of(8), torch.zeros(1))
        got = np.concatenate([to_numpy(block).copy() for _, block in parts])
        assert np.array_equal(got, X)


def test_a_block_is_whole_while_it_is_in_use(X):
    """The next block has been loaded by then, and must have gone elsewhere."""
    loaded = []

    class Noted(_lanes.Lane):
        def load(self, block):
            super().load(block)
            loaded.append(block[0, 0])

    def make(X, blocks, device):
        height = max(s.stop - s.start for s in blocks)
        shape = (height, X.shape[1])
        return [Noted(shape, getattr(torch, X.dtype.name), device) for _ in range(2)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_lanes, "make_lanes", make)
        blocks = blocks_of(5)
        for k, (rows, block) in enumerate(
            iter_device_blocks(X, blocks, torch.zeros(1))
        ):
            assert len(loaded) == min(k + 2, len(blocks))  # one ahead
            assert np.array_equal(to_numpy(block), X[rows])


def test_two_buffers_however_many_blocks(X):
    places = {
        block.data_ptr()
        for _, block in iter_device_blocks(X, blocks_of(4), torch.zeros(1))
    }
    assert len(places) == 2


def test_a_lane_is_loaded_only_after_its_release(X):
    """The order of events that a GPU relies on."""
    events = []

    class Told(_lanes.Lane):
        def __init__(self, name):
            super().__init__((4, D), getattr(torch, X.dtype.name), "cpu")
            self.name = name

        def load(self, block):
            super().load(block)
            events.append(("load", self.name))

        def ready(self):
            events.append(("ready", self.name))
            return super().ready()

        def release(self):
            events.append(("release", self.name))

        def close(self):
            events.append(("close", self.name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_lanes, "make_lanes", lambda *_: [Told("a"), Told("b")])
        for _ in _lanes.device_blocks(X, blocks_of(4)[:3], "cpu"):
            pass
    assert events == [
        ("load", "a"),
        ("load", "b"),
        ("ready", "a"),
        ("release", "a"),
        ("load", "a"),
        ("ready", "b"),
        ("release", "b"),
        ("ready", "a"),
        ("release", "a"),
        ("close", "a"),
        ("close", "b"),
    ]


def test_a_loop_that_is_left_closes_its_lanes(X, monkeypatch):
    closed = []
    monkeypatch.setattr(_lanes.Lane, "close", lambda self: closed.append(self))
    parts = iter_device_blocks(X, blocks_of(4), torch.zeros(1))
    next(parts)
    parts.close()
    assert len(closed) == 2


def test_no_rows_no_blocks(X):
    assert list(iter_device_blocks(X[:0], [], torch.zeros(1))) == []


def test_tensors_are_not_copied(X):
    Z = torch.tensor(X)
    for rows, block in iter_device_blocks(Z, blocks_of(8), Z):
        assert block.data_ptr() == Z[rows].data_ptr()


# ---- what fits -------------------------------------------------------------------


@pytest.fixture
def there(monkeypatch):
    """A device that is not the host: tensors of the host."""

    def to_device(x, device):
        return torch.as_tensor(np.ascontiguousarray(x)) if device == "there" else x

    monkeypatch.setattr(_streaming, "to_device", to_device)
    return "there"


def test_what_fits_travels_at_once(X, there):
    budget = 2 * X.nbytes
    assert isinstance(rows_on_device(X, there, budget), torch.Tensor)
    assert rows_on_device(X, there, budget - 1) is X
    assert len(list(device_parts(X, there, budget))) == 1


def test_what_does_not_fit_travels_in_blocks(X, there):
    budget = 8 * 5 * D * X.itemsize  # an eighth for a block: five rows
    parts = [to_numpy(part).copy() for part in device_parts(X, there, budget)]
    assert [len(part) for part in parts] == [5] * 7 + [2]
    assert np.array_equal(np.concatenate(parts), X)


def test_without_a_device_rows_stay(X):
    assert rows_on_device(X, None, 1) is X
    assert rows_on_device(X, "cpu", 1) is X
    [part] = device_parts(X, None, 1)
    assert part is X
