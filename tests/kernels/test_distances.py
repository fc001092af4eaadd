"""Squared distances keep half of their digits wherever the data lies."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import dtype_name, is_sparse, to_numpy
from kaucus.kernels import _kernel as distances
from kaucus.kernels._kernel import (
    inner_products,
    manhattan_distances,
    mean_row,
    shifted_rows,
    squared_distances,
    squared_norms,
)
from tests.arrays import EPS, array, assert_close, same_bits
from tests.reference.kernels import long_squared_distances


def all_distances(X, Y):
    shift = None if is_sparse(Y) else mean_row(Y)
    return squared_distances(shifted_rows(X, shift), shifted_rows(Y, shift))


def assert_keeps_half_of_the_digits(xp, X, Y):
    """Each pair within 10 √ε of the truth, equal rows at 0, nothing below 0."""
    D = to_numpy(all_distances(array(xp, X), array(xp, Y)))
    assert D.dtype == X.dtype
    truth = long_squared_distances(X, Y)
    bound = 10 * EPS[str(X.dtype)] ** 0.5
    assert np.all(np.abs(D - truth) <= bound * truth)
    assert np.all(D[truth == 0] == 0)
    assert np.all(D >= 0)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("d", [1, 6, 50])
def test_large_offsets(xp, dtype, rng, offset, d):
    X = (rng.normal(size=(40, d)) + offset).astype(dtype)
    Y = (rng.normal(size=(30, d)) + offset).astype(dtype)
    Y[5:10] = X[5:10]
    assert_keeps_half_of_the_digits(xp, X, Y)
    assert_keeps_half_of_the_digits(xp, X, X)


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_tight_clusters_far_from_each_other(xp, dtype, rng, spread, share):
    """Near pairs whose rows are far from the mean, some or most of them."""
    centres = 10 * rng.normal(size=(3, 4))
    X = centres[rng.integers(3, size=60)]
    tight = rng.random(60) < share
    X = X + np.where(tight, spread, 10.0)[:, None] * rng.normal(size=X.shape)
    X = X.astype(dtype)
    assert_keeps_half_of_the_digits(xp, X, X[::2])


def test_a_cluster_at_zero_keeps_its_digits(xp, dtype, rng):
    """Rounding of the shift must not reach rows much smaller than the shift."""
    X = EPS[dtype] ** 0.75 * rng.normal(size=(40, 3))
    X[20:] += 1
    assert_keeps_half_of_the_digits(xp, X.astype(dtype), X.astype(dtype))


def test_one_far_row_does_not_spoil_the_others(xp, dtype, rng):
    X = rng.normal(size=(30, 3))
    X[0] = 1e6
    assert_keeps_half_of_the_digits(xp, X.astype(dtype), X.astype(dtype))


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 5),
    st.floats(-6, 6),
    st.floats(-8, 3),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 2**32 - 1),
)
def test_any_offset_and_spread(n, m, d, log_offset, log_spread, dtype, seed):
    rng = np.random.default_rng(seed)
    centres = 10**log_offset * rng.normal(size=(2, d))
    X, Y = (
        centres[rng.integers(2, size=k)] + 10**log_spread * rng.normal(size=(k, d))
        for k in (n, m)
    )
    Y[0] = X[0]
    assert_keeps_half_of_the_digits(np, X.astype(dtype), Y.astype(dtype))


def test_many_near_pairs_take_the_wide_road_in_float32(rng, monkeypatch):
    X = (rng.normal(size=(40, 3)) * 1e-3 + np.eye(3)[rng.integers(3, size=40)]).astype(
        "float32"
    )
    widened = []
    original = distances._in_float64
    monkeypatch.setattr(
        distances, "_in_float64", lambda rows: widened.append(1) or original(rows)
    )
    D = all_distances(X, X)
    assert widened
    assert dtype_name(D) == "float32"


def test_differences_are_summed_in_chunks(rng, monkeypatch):
    X = rng.normal(size=(30, 4))
    X[15:] = X[:15] + 1e-9 * rng.normal(size=(15, 4))
    whole = all_distances(X, X)
    monkeypatch.setattr(distances, "_CHUNK", 10)
    assert same_bits(all_distances(X, X), whole)
    assert_keeps_half_of_the_digits(np, X, X)


@pytest.mark.parametrize("density", [0.01, 0.4])
def test_sparse_rows(dtype, rng, density):
    X = (rng.normal(size=(40, 50)) * (rng.random((40, 50)) < density)).astype(dtype)
    Y = np.concatenate([X[:5], X[5:10] * np.asarray(1 + 1e-5, dtype), X[10:] + 0])
    S, T = scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y)
    D = all_distances(S, T)
    truth = long_squared_distances(X, Y)
    assert np.all(np.abs(D - truth) <= 10 * EPS[dtype] ** 0.5 * truth)
    assert np.all(D >= 0)
    assert_close(inner_products(S, T), X @ Y.T, rtol=1e-5, atol=1e-5)
    assert_close(squared_norms(S), np.sum(X.astype(float) ** 2, axis=1), rtol=1e-6)


def test_squared_norms_are_in_float64(xp, dtype, rng, monkeypatch):
    X = rng.normal(size=(40, 3)).astype(dtype)
    expected = np.sum(X.astype(float) ** 2, axis=1)
    for chunk in (distances._CHUNK, 7):
        monkeypatch.setattr(distances, "_CHUNK", chunk)
        norms = squared_norms(array(xp, X))
        assert dtype_name(norms) == "float64"
        assert_close(norms, expected, rtol=1e-15)


def test_manhattan_distances(xp, dtype, rng):
    X, Y = (rng.normal(size=(n, 4)).astype(dtype) for n in (12, 9))
    expected = np.sum(np.abs(X[:, None, :].astype(float) - Y[None]), axis=2)
    D = manhattan_distances(array(xp, X), array(xp, Y))
    assert dtype_name(D) == dtype
    assert_close(D, expected, rtol=8 * EPS[dtype])


def test_the_shift_saves_the_work_of_differences(xp, rng, monkeypatch):
    """Far from zero, only the pairs that are near each other are computed again."""
    counts = []
    original = distances._distances_from_differences
    monkeypatch.setattr(
        distances,
        "_distances_from_differences",
        lambda X, Y, i, j: counts.append(i.shape[0]) or original(X, Y, i, j),
    )
    X = array(xp, rng.normal(size=(50, 3)) + 1e6)
    all_distances(X, X)
    assert counts == [50]  # the diagonal


def test_threads_change_no_bit_of_the_norms(rng, monkeypatch):
    X = rng.normal(size=(100, 7)).astype(np.float32)
    expected = squared_norms(X)
    monkeypatch.setattr(distances, "_CHUNK", 70)
    for workers in (1, 4):
        monkeypatch.setattr(distances, "n_workers", lambda X, w=workers: w)
        assert same_bits(squared_norms(X), expected)
