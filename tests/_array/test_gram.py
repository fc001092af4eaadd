"""Gram matrices summed over blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array import linalg as _gram
from kaucus._array.blocks import one_blas_thread
from kaucus._array.linalg import add_cross_gram, add_gram, mirror_lower, zero_gram
from kaucus._array.namespace import concat_rows, to_numpy
from tests.arrays import EPS, array, assert_close, same_bits


def test_blocks_sum_to_the_whole(xp, dtype, rng):
    A = rng.normal(size=(50, 7)).astype(dtype)
    G = zero_gram(7, array(xp, A))
    for block in (A[:20], A[20:21], A[21:]):
        G = add_gram(G, array(xp, block))
    whole = mirror_lower(G)
    exact = A.astype(float).T @ A.astype(float)
    assert_close(whole, exact, atol=100 * EPS[dtype])
    assert_close(whole, to_numpy(whole).T)


def test_float32_sums_are_short(rng):
    """One float32 product sums all rows; here every sum of float32 is short."""
    A = rng.uniform(size=(20_000, 40)).astype(np.float32)
    exact = A.astype(float).T @ A.astype(float)
    G = mirror_lower(add_gram(zero_gram(40, A), A))
    careless = A.T @ A
    assert np.abs(G - exact).max() < 0.5 * np.abs(careless - exact).max()


@given(
    n=st.integers(0, 70),
    m=st.integers(0, 20),
    tile=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_neither_tiles_nor_groups_of_rows_change_the_sum(n, m, tile, seed):
    """Whole numbers are summed without rounding: every entry is counted once."""
    A = np.random.default_rng(seed).integers(-9, 9, size=(n, m)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gram, "_TILE", tile)
        patch.setattr(_gram, "_SHORT", 3)
        patch.setattr(_gram, "_GROUP", 2)
        G = mirror_lower(add_gram(zero_gram(m, A), A))
    assert_close(G, A.T @ A, rtol=0)


def test_the_number_of_threads_changes_no_bit(rng, monkeypatch):
    A = rng.normal(size=(5000, 900)).astype(np.float32)
    sums = []
    for workers in (1, 3):
        monkeypatch.setattr(_gram, "n_workers", lambda like, n=workers: n)
        with one_blas_thread():
            sums.append(add_gram(zero_gram(900, A), A))
    assert same_bits(*sums)


def test_the_block_is_not_changed(xp, dtype, rng):
    A = array(xp, rng.normal(size=(5, 3)), dtype)
    before = np.array(to_numpy(A))
    add_gram(zero_gram(3, A), A)
    assert_close(A, before, rtol=0)


def test_sums_are_in_float64(xp):
    """A float32 sum of 1 and 2⁻³⁰ would be 1."""
    G = zero_gram(1, array(xp, [[1.0]]))
    for value in (1.0, 2.0**-15):
        G = add_gram(G, array(xp, [[value]], "float32"))
    assert float(G[0, 0]) == 1.0 + 2.0**-30


def test_concat_rows_keeps_the_library(xp):
    both = concat_rows(array(xp, [[1.0, 2.0]]), array(xp, [[3.0, 4.0]]))
    assert_close(both, [[1, 2], [3, 4]])


def test_concat_rows_of_a_dense_and_a_sparse_one():
    import scipy.sparse

    both = concat_rows(np.array([[1.0, 0.0]]), scipy.sparse.csr_array([[0.0, 2.0]]))
    assert scipy.sparse.issparse(both)
    assert both.format == "csr"
    assert_close(both.toarray(), [[1, 0], [0, 2]])


def test_blocks_of_two_matrices_sum_to_the_whole(xp, dtype, rng):
    A = rng.normal(size=(50, 7)).astype(dtype)
    B = rng.normal(size=(50, 4)).astype(dtype)
    G = array(xp, np.ones((7, 4)))
    for rows in (slice(0, 20), slice(20, 21), slice(21, None)):
        G = add_cross_gram(G, array(xp, A[rows]), array(xp, B[rows]))
    exact = 1 + A.astype(float).T @ B.astype(float)
    assert_close(G, exact, atol=100 * EPS[dtype])


def test_float32_sums_of_two_matrices_are_short(rng):
    A = rng.uniform(size=(20_000, 600)).astype(np.float32)
    B = rng.uniform(size=(20_000, 20)).astype(np.float32)
    exact = A.astype(float).T @ B.astype(float)
    G = add_cross_gram(np.zeros((600, 20)), A, B)
    careless = A.T @ B
    assert np.abs(G - exact).max() < 0.5 * np.abs(careless - exact).max()
