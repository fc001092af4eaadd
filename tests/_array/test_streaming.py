"""Rows are copied to a device in blocks: in order, whole, one ahead of the work."""

import numpy as np
import pytest

from kaucus._array.blocks import row_blocks
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus._array.rows import HostRows, stream_blocks
from tests.arrays import array, assert_close

torch = pytest.importorskip("torch")

from kaucus._array import on_torch as _lanes  # noqa: E402 - torch first

N, D = 37, 3


@pytest.fixture
def X(rng, dtype):
    return rng.normal(size=(N, D)).astype(dtype)


def blocks_of(height):
    return list(row_blocks(N, 1, height))


def streamed(X, blocks, like):
    """Return an iterator of blocks on the device of ``like``."""
    return stream_blocks(HostRows(X, like.reshape(1, -1)[:1], 1000), blocks)


@pytest.mark.parametrize("height", [1, 5, 36, 37, 100])
def test_order_and_values(X, height, xp):
    like = array(xp, X[:1])
    seen = []
    host = HostRows(X, like, 1000)
    blocks = blocks_of(height)
    for rows, block in zip(blocks, stream_blocks(host, blocks), strict=True):
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
        parts = streamed(rows_of_host, blocks_of(8), torch.tensor(X[:1]))
        got = np.concatenate([to_numpy(block).copy() for block in parts])
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
        for k, block in enumerate(streamed(X, blocks, torch.tensor(X[:1]))):
            assert len(loaded) == min(k + 2, len(blocks))  # one ahead
            assert np.array_equal(to_numpy(block), X[blocks[k]])


def test_two_buffers_however_many_blocks(X):
    like = torch.tensor(X[:1])
    places = {block.data_ptr() for block in streamed(X, blocks_of(4), like)}
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
    parts = streamed(X, blocks_of(4), torch.tensor(X[:1]))
    next(parts)
    parts.close()
    assert len(closed) == 2


def test_no_rows_no_blocks(X):
    assert list(streamed(X[:0], [], torch.tensor(X[:1]))) == []


def test_tensors_are_not_copied(X):
    Z, blocks = torch.tensor(X), blocks_of(8)
    for rows, block in zip(blocks, stream_blocks(Z, blocks), strict=True):
        assert block.data_ptr() == Z[rows].data_ptr()
