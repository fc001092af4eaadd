"""Labels: sums and counts of rows that share one, and the best two of many scores."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kaucus._array import segments as _labels
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus._array.segments import (
    _portable_segment_sum,
    best_one,
    best_two,
    count_labels,
    entries_at,
    rough_error,
    rough_inner_products,
    segment_sum,
)
from tests.arrays import EPS, array, assert_close


@pytest.mark.parametrize("version", [segment_sum, _portable_segment_sum])
def test_segment_sum_equals_the_loop(xp, dtype, rng, version):
    labels = rng.choice([0, 1, 3, 4, 6], size=50)  # 2, 5 and the last are empty
    values = rng.normal(size=(50, 3))
    expected = np.zeros((8, 3))
    for label, row in zip(labels, values, strict=True):
        expected[label] += row
    sums = version(array(xp, values, dtype), array(xp, labels), 8)
    assert dtype_name(sums) == dtype
    assert_close(sums, expected, rtol=300 * EPS[dtype], atol=300 * EPS[dtype])
    assert np.all(to_numpy(sums)[[2, 5, 7]] == 0)


def test_sums_after_sorting_are_the_sums(dtype, rng):
    """What a GPU does, on the host; a label without rows has the sum 0."""
    torch = pytest.importorskip("torch")
    from kaucus._array.on_torch import sorted_segment_sum

    values = rng.normal(size=(50, 3)).astype(dtype)
    labels = rng.integers(7, size=50)
    sums = sorted_segment_sum(torch.tensor(values), torch.tensor(labels), 9)
    expected = segment_sum(values, labels, 9)
    assert_allclose(to_numpy(sums), expected, rtol=0, atol=60 * EPS[dtype])
    assert_array_equal(to_numpy(sums)[7:], 0)


@pytest.mark.parametrize("version", [segment_sum, _portable_segment_sum])
def test_rows_that_change_their_label_change_the_sums_so(
    xp, dtype, rng, version, monkeypatch
):
    monkeypatch.setattr(_labels, "_MEMBERS", 8 * 7)  # seven rows at a time
    values = rng.normal(size=(50, 3)).astype(dtype)
    new, old = rng.integers(8, size=(2, 50))
    change = version(*(xp.asarray(a) for a in (values, new)), 8, xp.asarray(old))
    expected = segment_sum(values, new, 8) - segment_sum(values, old, 8)
    assert dtype_name(change) == dtype
    assert_close(change, expected, rtol=0, atol=100 * EPS[dtype])


def test_sparse_rows_that_change_their_label(rng):
    values, (new, old) = rng.normal(size=(50, 3)), rng.integers(8, size=(2, 50))
    change = segment_sum(scipy.sparse.csr_array(values), new, 8, old)
    assert_allclose(change, segment_sum(values, new, 8, old), rtol=0, atol=1e-13)


def test_changes_after_sorting_are_the_changes(dtype, rng):
    """What a GPU does, on the host."""
    torch = pytest.importorskip("torch")
    from kaucus._array.on_torch import sorted_segment_sum

    values = rng.normal(size=(50, 3)).astype(dtype)
    new, old = rng.integers(7, size=(2, 50))
    change = sorted_segment_sum(*map(torch.tensor, (values, new)), 9, torch.tensor(old))
    expected = segment_sum(values, new, 9, old)
    assert_allclose(to_numpy(change), expected, rtol=0, atol=100 * EPS[dtype])


@pytest.mark.parametrize("some", [False, True])
def test_counts_are_numbers_of_rows(xp, rng, some):
    labels, which = rng.integers(4, size=30), rng.uniform(size=30) < 0.5
    counts = count_labels(xp.asarray(labels), 6, xp.asarray(which) if some else None)
    kept = labels[which] if some else labels
    assert_array_equal(to_numpy(counts), [np.sum(kept == c) for c in range(6)])


def test_entries_are_those_of_the_labels(xp, dtype, rng):
    values, labels = rng.normal(size=(12, 5)).astype(dtype), rng.integers(5, size=12)
    found = entries_at(xp.asarray(values), xp.asarray(labels))
    assert_array_equal(to_numpy(found), values[np.arange(12), labels])


def test_the_best_is_the_largest_entry(xp, dtype, rng):
    scores = rng.normal(size=(12, 5)).astype(dtype)
    best, labels = best_one(xp.asarray(scores))
    assert_array_equal(to_numpy(labels), scores.argmax(axis=1))
    assert_array_equal(to_numpy(best), scores.max(axis=1))


@given(seed=st.integers(0, 1000), k=st.integers(2, 9))
def test_best_two_are_the_largest_and_the_next(seed, k):
    scores = np.random.default_rng(seed).integers(5, size=(8, k)).astype(float)
    best, labels, second = best_two(scores.copy())
    ordered = np.sort(scores, axis=1)
    assert_array_equal(best, ordered[:, -1])
    assert_array_equal(second, ordered[:, -2])
    assert_array_equal(labels, np.argmax(scores, axis=1))


def test_best_two_agree_in_all_libraries(xp, dtype, rng):
    scores = rng.normal(size=(20, 6)).astype(dtype)
    found = best_two(xp.asarray(scores.copy()))
    for value, expected in zip(found, best_two(scores.copy()), strict=True):
        assert_array_equal(to_numpy(value), expected)


def test_the_second_of_one_is_none(xp):
    _, _, second = best_two(xp.asarray(np.ones((3, 1))))
    assert_array_equal(to_numpy(second), -np.inf)


def test_products_on_the_host_are_exact(xp, dtype, rng):
    X, Y = (array(xp, rng.normal(size=(n, 4)), dtype) for n in (5, 3))
    assert rough_error(X) == 0
    expected = to_numpy(X) @ to_numpy(Y).T
    assert_close(rough_inner_products(X, Y), expected, atol=20 * EPS[dtype])
