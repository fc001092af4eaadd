"""Rows of zero mean and unit norm, and zero where there is no direction."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kaucus.preprocessing import UnitNormalizer


def test_rows_have_zero_mean_and_unit_norm(rng, dtype):
    X = (5 + rng.normal(size=(7, 12))).astype(dtype)
    given = UnitNormalizer().fit_transform(X)
    assert given.dtype == dtype
    tolerance = 20 * np.finfo(dtype).eps
    assert_allclose(given.mean(axis=1), 0, atol=tolerance)
    assert_allclose(np.linalg.norm(given, axis=1), 1, rtol=tolerance)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, -1 / 3, 100_000.1])
@pytest.mark.parametrize("n_features", [1, 3, 7, 10, 784])
def test_a_constant_row_becomes_zero(n_features, value, dtype):
    # The mean of equal numbers is not always that number: rounding is left.
    X = np.full((2, n_features), value, dtype=dtype)
    assert_array_equal(UnitNormalizer().fit_transform(X), 0)


def test_a_faint_row_on_a_high_level_keeps_its_direction():
    X = 1.0 + 1e-12 * np.array([[0.0, 1.0, 3.0, 8.0]])
    expected = UnitNormalizer().fit_transform(np.array([[0.0, 1.0, 3.0, 8.0]]))
    assert_allclose(UnitNormalizer().fit_transform(X), expected, atol=1e-3)
