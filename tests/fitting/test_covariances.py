"""Covariances of cells against NumPy's."""

import numpy as np
import pytest

from kaucus.estimators import cells as module
from kaucus.estimators.cells import cell_covariances
from tests.arrays import array, assert_close


@pytest.fixture
def rows(rng, dtype):
    X = (rng.normal(size=(60, 4)) + 100).astype(dtype)
    return X, np.arange(60) % 3


@pytest.mark.parametrize("block", [2**24, 8 * 4 * 7])
def test_equals_numpy(xp, rows, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    X, cells = rows
    expected = [np.cov(X[cells == i].T.astype("float64"), ddof=0) for i in range(3)]
    full = cell_covariances(array(xp, X), cells, 3)
    assert full.dtype == np.float64
    assert_close(full, expected, rtol=1e-10, atol=1e-13)
    diagonals = [np.diag(S) for S in expected]
    assert_close(cell_covariances(array(xp, X), cells, 3, "diag"), diagonals)
    means = [np.mean(v) for v in diagonals]
    assert_close(cell_covariances(array(xp, X), cells, 3, "radial"), means)


@pytest.mark.parametrize("kind", module.COVARIANCES)
def test_a_weight_is_a_number_of_rows(rng, kind):
    X, cells = rng.normal(size=(20, 3)), np.arange(20) % 2
    weight = rng.integers(4, size=20)
    repeated = np.repeat(np.arange(20), weight)
    expected = cell_covariances(X[repeated], cells[repeated], 2, kind)
    weighted = cell_covariances(X, cells, 2, kind, weight.astype(float))
    assert_close(weighted, expected, rtol=1e-12)
    scaled = cell_covariances(X, cells, 2, kind, 1e-3 * weight)
    assert_close(scaled, expected, rtol=1e-12)


def test_a_cell_without_rows_and_one_with_a_single_row():
    S = cell_covariances(np.eye(2), np.array([0, 2]), 3)
    assert np.array_equal(S, np.zeros((3, 2, 2)))
