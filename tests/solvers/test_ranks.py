"""Order statistics are those of a whole sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaucus.solvers._left_out import values_of_rank
from tests.arrays import array, assert_close


def test_ranks_of_every_library(xp, dtype, rng):
    values, ranks = rng.normal(size=(6, 20)), [3, 19, 3, 0, 12]
    found = values_of_rank(array(xp, values, dtype), ranks)
    expected = np.sort(values.astype(dtype), axis=1)[:, ranks]
    for value, column in zip(found, expected.T, strict=True):
        assert_close(value, column, rtol=0)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_any_ranks_with_ties(seed, n):
    rng = np.random.default_rng(seed)
    values = rng.integers(5, size=(3, n)).astype(float)
    before, ranks = values.copy(), rng.integers(n, size=4).tolist()
    found = values_of_rank(values, ranks)
    assert np.array_equal(np.stack(found, axis=1), np.sort(values, axis=1)[:, ranks])
    assert np.array_equal(values, before)
