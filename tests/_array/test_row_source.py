"""Rows that are read part by part stand where a matrix would."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from kaucus._array.namespace import (
    array_namespace,
    astype,
    dense_rows,
    dtype_name,
    take_rows,
)
from kaucus._array.rows import BatchRows, HostRows, as_rows


class Total:
    """An accumulator: the sum of rows."""

    def __init__(self, value):
        self.value = value

    def merge(self, other):
        self.value = self.value + other.value


def source_of(batches, read=None):
    sizes = [b.shape[0] for b in batches]
    like = np.zeros((1, batches[0].shape[1]), batches[0].dtype)
    read = (lambda: iter(batches)) if read is None else read
    return BatchRows(like=like, sizes=sizes, longest=like, budget=2**20, read=read)


def total_of(block):
    return Total(block.rows.sum(axis=0))


@pytest.fixture
def rows(rng):
    return rng.normal(size=(23, 3))


@pytest.fixture
def source(rows):
    return source_of(np.split(rows, [5, 5, 16]))  # the second is empty


def test_it_has_the_shape_and_precision_of_the_whole(rows, source):
    assert source.shape == rows.shape
    assert source.ndim == 2
    assert dtype_name(source) == "float64"
    assert array_namespace(source) is array_namespace(rows)


def test_rows_are_taken_in_any_order(rows, source, rng):
    numbers = rng.integers(23, size=40)
    assert_array_equal(take_rows(source, numbers), rows[numbers])
    assert take_rows(source, np.arange(0)).shape == (0, 3)


def test_vectors_go_with_their_rows(rows, source, rng):
    weight, signs = rng.random(23), rng.choice([-1.0, 1.0], size=(23, 2))
    found = source.attached(weight, None, signs).map(
        lambda block: block.vectors, label="look"
    )
    assert_array_equal(np.concatenate([v[0] for v in found]), weight)
    assert all(v[1] is None for v in found)
    kept = np.concatenate([v[2] for v in found if len(v[2])])
    assert_array_equal(kept, signs)
    assert kept.dtype == np.int8  # one byte for each of ±1


def test_sums_of_parts_are_those_of_all_rows(rows, source):
    total = source.reduce(total_of, label="add")
    assert np.allclose(total.value, rows.sum(axis=0))


def kinds_of(rows):
    """Return the same rows in memory, on the host for a device, and in batches."""
    return {
        "array": as_rows(rows),
        "csr": as_rows(scipy.sparse.csr_array(rows)),
        "host": HostRows(rows, rows[:1], buffer_bytes=100),
        "batches": source_of(np.split(rows, [5, 5, 16])),
    }


@pytest.mark.parametrize("kind", ["array", "csr", "host", "batches"])
def test_every_kind_of_rows_has_the_same_sums_entries_and_rows(rows, kind, rng):
    weight, numbers = rng.random(23), rng.integers(23, size=40)
    given = kinds_of(rows)[kind].attached(None, weight)
    moved = given.mapped(lambda X: 2 * X)
    assert given.shape == moved.shape == rows.shape
    taken = dense_rows(moved, numbers)
    assert_array_equal(taken, 2 * rows[numbers])
    sums = given.reduce(lambda b: Total(b.vectors[1] @ b.rows), label="add")
    assert_allclose(sums.value, weight @ rows)
    norms = moved.map(lambda b: (b.rows**2).sum(axis=1), label="norms")
    assert_allclose(np.concatenate(norms), 4 * (rows**2).sum(axis=1))


def test_rows_in_memory_keep_the_results_of_their_block(rows):
    def count(block):
        block.cache["passes"] = block.cache.get("passes", 0) + 1
        return block.cache["passes"]

    given = as_rows(rows).attached(np.arange(23))
    assert [given.map(count, label="count") for _ in range(3)] == [[1], [2], [3]]
    assert given.attached().map(count, label="count") == [1]


def test_precision_is_that_of_the_kind_asked_for(source):
    single = astype(source, "float32")
    assert all(
        dtype == np.float32
        for dtype in single.map(lambda block: block.rows.dtype, label="look")
    )


def test_mapped_rows_are_those_of_the_mapped_matrix(rows, source, rng):
    T, mean = rng.normal(size=(3, 2)), rows.mean(axis=0)
    found = source.mapped(lambda X: X - mean).mapped(lambda X: X @ T)
    expected = (rows - mean) @ T
    assert found.shape == expected.shape
    assert_allclose(take_rows(found, np.arange(23)), expected)
    total = found.reduce(total_of, label="add")
    assert_allclose(total.value, expected.sum(axis=0), atol=1e-12)
    single = astype(found, "float32")
    assert take_rows(single, np.arange(3)).dtype == np.float32


def test_csr_parts_stay_csr_and_are_dense_where_asked(rows):
    parts = [scipy.sparse.csr_array(part) for part in np.split(rows, [7])]
    source = source_of(parts)
    numbers = np.array([20, 3, 3])
    assert scipy.sparse.issparse(take_rows(source, numbers))
    assert_array_equal(dense_rows(source, numbers), rows[numbers])


def test_a_used_up_iterator_is_told(rows):
    once = iter(np.split(rows, [5, 12]))
    source = source_of(np.split(rows, [5, 12]), read=lambda: once)
    source.map(total_of, label="first")
    with pytest.raises(ValueError, match="begins anew at every call"):
        source.map(total_of, label="second")


def test_batches_that_change_are_told(rows):
    source = source_of(np.split(rows, [5, 12]), read=lambda: np.split(rows, [6, 12]))
    with pytest.raises(ValueError, match="Batch 0 has 6 rows, and had 5"):
        source.map(total_of, label="first")
