"""A float32 matrix times float64 columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import split_columns, times_split
from tests.arrays import assert_close


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-10, 1e10))
def test_two_float32_parts_keep_48_bits(seed, scale):
    V = scale * np.random.default_rng(seed).normal(size=(20, 3))
    parts = split_columns(V).astype(float)
    assert_close(parts[:, :3] + parts[:, 3:], V, rtol=2.0**-47)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), m=st.integers(0, 600))
def test_the_product_is_that_of_the_widened_matrix(seed, n, m):
    rng = np.random.default_rng(seed)
    T = rng.normal(size=(n, m)).astype(np.float32)
    V = rng.normal(size=(m, 2))
    before = T.copy(), V.copy()
    product = times_split(T, split_columns(V))
    assert product.dtype == np.float64
    assert_close(product, T.astype(float) @ V, rtol=0, atol=2e-5)
    assert_close(T, before[0], rtol=0)
    assert_close(V, before[1], rtol=0)


def test_sums_are_in_float64_beyond_a_few_columns():
    """In float32, 1 after 2²⁴ would be lost."""
    T = np.ones((1, 1000), dtype=np.float32)
    V = np.ones((1000, 1))
    V[0] = 2.0**24
    assert times_split(T, split_columns(V))[0, 0] >= 2.0**24 + 999 - 256
