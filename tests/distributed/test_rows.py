"""Rows in Dask partitions: taken by number, summed in a tree of fixed order."""

import re

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import dask
import pandas as pd
from dask.delayed import delayed

from kaucus._array.namespace import take_rows
from kaucus.distributed import (
    DaskRows,
    Workforce,
    reduce_tree,
    rows_of,
    values_of,
)

TYPES = (np.float64, np.float32)


class Total:
    """An accumulator, and the order in which it was put together."""

    def __init__(self, value, history):
        self.value, self.history = value, history

    def merge(self, other):
        self.value = self.value + other.value
        self.history = f"({self.history}+{other.history})"


def sum_of(block, factor):
    weight = block.vectors[0] if block.vectors else None
    rows = block.rows if weight is None else block.rows * weight[:, None]
    return Total(factor * rows.sum(axis=0), "")


def rows_from(X, **options):
    options = {"memory_budget": None, "device": None, "name": "Model", **options}
    return rows_of(X, TYPES, **options)


@pytest.fixture
def X(rng):
    return rng.normal(size=(41, 3))


@pytest.mark.parametrize("n_chunks", [1, 2, 3, 7])
def test_sums_and_rows_are_those_of_the_matrix(X, rng, scheduler, n_chunks):
    rows = rows_from(da.from_array(X, chunks=(-(-41 // n_chunks), 3)))
    assert isinstance(rows, DaskRows)
    assert rows.shape == X.shape
    weight = rng.random(41)
    total = rows.attached(weight).reduce(sum_of, 2.0, label="sum")
    assert_allclose(total.value, 2 * weight @ X)
    numbers = rng.integers(41, size=30)
    assert_array_equal(take_rows(rows, numbers), X[numbers])


@pytest.mark.parametrize("kind", ["frame", "unknown chunks", "csr", "columns", "empty"])
def test_every_kind_of_collection_is_read(X, scheduler, kind):
    array = da.from_array(X, chunks=(10, 3))
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=4)
    collection = {
        "frame": frame,
        "unknown chunks": frame.to_dask_array(),
        "csr": array.map_blocks(scipy.sparse.csr_array),
        "columns": array.rechunk((10, 2)),
        "empty": da.concatenate([array[:0], array[:20], array[:0], array[20:]]),
    }[kind]
    rows = rows_from(collection, reads_often=False)
    assert rows.shape == (41, 3)
    found = take_rows(rows, np.arange(41)[::-1])
    found = found.toarray() if scipy.sparse.issparse(found) else found
    assert_array_equal(found, X[::-1])
    longest = rows.longest.toarray() if kind == "csr" else rows.longest
    assert_array_equal(longest[0], X[np.argmax((X**2).sum(axis=1))])
    assert abs(longest[1]).max() == abs(X).max()


def test_each_partition_is_computed_on_the_device_of_its_worker(X, monkeypatch):
    """torch on the CPU stands in for a GPU; rows that are taken stay on the host."""
    torch = pytest.importorskip("torch")
    asked = []

    def to_device(rows, device):
        asked.append(device)
        return torch.from_numpy(rows)

    def sum_on_device(block, factor):
        assert isinstance(block.rows, torch.Tensor)
        return Total(factor * block.rows.sum(axis=0).numpy(), "")

    monkeypatch.setattr("kaucus.distributed.to_device", to_device)
    rows = rows_from(da.from_array(X, chunks=(10, 3)), device="cuda")
    with dask.config.set(scheduler="synchronous"):
        total = rows.reduce(sum_on_device, 2.0, label="sum")
        assert_array_equal(take_rows(rows, np.arange(5)), X[:5])
    assert_allclose(total.value, 2 * X.sum(axis=0))
    assert asked == ["cuda"] * 5


def test_no_cluster_is_started(X, monkeypatch):
    """Without a client, the work is that of Dask's local scheduler."""
    distributed = pytest.importorskip("distributed")

    def must_not_run(*args, **options):
        raise AssertionError("it was started")

    for kind in (distributed.Client, distributed.LocalCluster):
        monkeypatch.setattr(kind, "__init__", must_not_run)
    rows = rows_from(da.from_array(X, chunks=(10, 3)))
    assert_allclose(rows.reduce(sum_of, 1.0, label="sum").value, X.sum(axis=0))


def test_precision_stays_and_whole_numbers_become_floats(X):
    single = da.from_array(X.astype(np.float32), chunks=(10, 3))
    assert rows_from(single).dtype == np.float32
    whole = da.from_array(np.arange(6).reshape(3, 2))
    assert rows_from(whole).dtype == np.float64
    mixed = pd.DataFrame({"a": np.float32([1, 2]), "b": [1, 2]})
    assert rows_from(dd.from_pandas(mixed, npartitions=1)).dtype == np.float64


@pytest.mark.parametrize("n_leaves", [1, 2, 8, 9, 30, 70])
@pytest.mark.parametrize("n_bytes", [0, 100])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_tree_does_not_depend_on_who_computes(n_leaves, n_bytes, n_threads):
    """The same order of addition for any number of workers and waves."""
    leaves = [delayed(Total)(1, str(k)) for k in range(n_leaves)]
    many, few = Workforce(1000, 100 * 9, 0), Workforce(n_threads, 100 * 9, 0)
    expected = reduce_tree(leaves, "sum", n_bytes=n_bytes, force=many)
    found = reduce_tree(leaves, "sum", n_bytes=n_bytes, force=few)
    assert found.history == expected.history
    assert re.findall(r"\d+", found.history) == [str(k) for k in range(n_leaves)]
    assert found.value == n_leaves


def test_large_sums_are_merged_in_pairs_and_few_are_in_flight():
    alive, most = [], []

    class Watched(Total):
        def merge(self, other):
            super().merge(other)
            alive.pop()

    def make(k):
        alive.append(k)
        most.append(len(alive))
        return Watched(1, str(k))

    leaves = [delayed(make, pure=False)(k) for k in range(16)]
    with dask.config.set(scheduler="synchronous"):
        force = Workforce(2, 300, 0)  # two threads with room for a merge of two
        assert reduce_tree(leaves, "sum", n_bytes=100, force=force).value == 16
    assert max(most) <= 2 + 4  # a wave, and one sum for each level


def test_sums_too_large_for_a_worker_are_refused():
    leaves = [delayed(Total)(1, "") for _ in range(3)]
    with pytest.raises(MemoryError, match="Use fewer representatives"):
        reduce_tree(leaves, "sum", n_bytes=100, force=Workforce(4, 299, 0))


def test_partitions_too_large_for_a_worker_are_refused_before_they_are_read():
    def must_not_run(block):
        raise AssertionError("it was read")

    zeros = da.zeros((10**9, 20), chunks=(10**9, 20))
    large = zeros.map_blocks(must_not_run, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(MemoryError, match=r"1,000,000,000 rows.*at most .* rows"):
        rows_from(large, memory_budget="100MiB")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_entry_that_is_not_finite_is_named(X, value):
    X[27, 1] = value
    what = "NaN" if np.isnan(value) else "infinity"
    array = da.from_array(X, chunks=(10, 3))
    with pytest.raises(
        ValueError, match=rf"{what}: partition 2, row 7 of it, column 1"
    ):
        rows_from(array)
    with pytest.raises(ValueError, match="partition 2, row 7"):
        rows_from(array.map_blocks(scipy.sparse.csr_array), reads_often=False)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=1)
    with pytest.raises(ValueError, match="partition 0, row 27 of it, column 'b'"):
        rows_from(frame)


def test_columns_that_are_no_numbers_are_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": pd.Categorical(["x", "y"])})
    with pytest.raises(ValueError, match=r"'kind' \(category\) are not.*get_dummies"):
        rows_from(dd.from_pandas(frame, npartitions=1))
    with pytest.raises(ValueError, match="Convert it"):
        rows_from(da.from_array(np.array([["x"]])))


def test_types_with_missing_values_are_numbers():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [1.0, 2.0, 3.0]})
    whole = dd.from_pandas(frame.iloc[::2], npartitions=1)
    assert_array_equal(take_rows(rows_from(whole), np.arange(2)), [[1, 1], [3, 3]])
    with pytest.raises(ValueError, match="NaN: partition 0, row 1 of it, column 'a'"):
        rows_from(dd.from_pandas(frame, npartitions=1))


def test_rows_that_are_read_or_made_in_every_pass_are_told(X, tmp_path):
    array = da.from_array(X, chunks=(10, 3))
    rows_from(array)
    rows_from((array + 1)[:, :2])  # as good as in memory
    made = da.random.default_rng(0).normal(size=(40, 3), chunks=(10, 3))
    with pytest.warns(UserWarning, match=r"write X = X.persist\(\) before fit"):
        rows_from(made + 1)
    rows_from((made + 1).persist())
    frame = pd.DataFrame(X, columns=list("abc"))
    rows_from(dd.from_pandas(frame, npartitions=2)[["a", "b"]])
    frame.to_parquet(tmp_path / "rows.parquet")
    table = dd.read_parquet(tmp_path / "rows.parquet")
    with pytest.warns(UserWarning, match="read, made or sent anew"):
        rows_from(table)
    rows_from(table.persist().drop(columns="a"))


def test_values_are_gathered(rng):
    y = rng.integers(3, size=20)
    assert_array_equal(values_of(da.from_array(y, chunks=6)), y)
    series = dd.from_pandas(pd.Series(y.astype(str)), npartitions=3)
    assert_array_equal(values_of(series), y.astype(str))
    empty = da.concatenate([da.from_array(y[:0]), da.from_array(y, chunks=6)])
    assert_array_equal(values_of(empty), y)
