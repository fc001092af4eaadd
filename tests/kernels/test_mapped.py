"""Maps of rows to a metric, the way back, and kernels of mapped rows."""

import numpy as np
import pytest
import scipy.sparse

from kaucus._array.namespace import dtype_name, take_rows, to_numpy
from kaucus._array.rows import HostRows
from kaucus.kernels import Gaussian, KernelOperator, Laplacian, MappedKernel, RowMap
from kaucus.kernels._metric import metric_root
from tests.arrays import array, assert_close

TOLERANCE = {"float64": 1e-12, "float32": 2e-4}


def some_map(rng, kind, d=5):
    weights = rng.normal(size=d if kind == "diagonal" else (d, d))
    center, scale = rng.normal(size=d), rng.uniform(0.5, 2.0, size=d)
    return RowMap(center, scale, 3.0, 0.1 * rng.normal(size=d), weights)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_the_way_back_leads_to_the_same_mapped_row(xp, dtype, rng, kind):
    row_map = some_map(rng, kind)
    X = array(xp, (4 * rng.normal(size=(20, 5))).astype(dtype))
    Z = row_map(X)
    assert dtype_name(Z) == dtype
    again = row_map(row_map.back(Z))
    assert_close(again, Z, rtol=0, atol=TOLERANCE[dtype] * np.abs(to_numpy(Z)).max())


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_means_of_mapped_rows_have_a_way_back(rng, kind):
    row_map = some_map(rng, kind)
    Z = row_map(3 * rng.normal(size=(40, 5)))
    means = np.stack([Z[:10].mean(axis=0), Z.mean(axis=0)])
    assert np.isfinite(row_map.back(means)).all()
    assert_close(row_map(row_map.back(means)), means, rtol=1e-10, atol=1e-10)


def test_a_column_of_weight_zero_comes_back_in_the_middle(rng):
    center = np.array([5.0, -2.0])
    row_map = RowMap(center, np.ones(2), 3.0, np.zeros(2), np.array([1.0, 0.0]))
    X = np.array([[5.5, 100.0]])
    assert_close(row_map.back(row_map(X)), [[5.5, -2.0]], rtol=1e-12, atol=0)


def test_a_bound_holds_one_huge_entry(rng):
    ones = np.ones(1)
    row_map = RowMap(0 * ones, ones, 3.0, 0 * ones, ones)
    assert np.abs(row_map(np.array([[1e300], [-1e12]]))).max() <= 3.0


def test_a_sparse_matrix_keeps_its_zeros_where_they_stay_zero(rng):
    X = scipy.sparse.random_array((12, 5), density=0.3, rng=rng, format="csr")
    zeros = np.zeros(5)
    weighed = RowMap(zeros, np.ones(5), np.inf, zeros, np.arange(5.0))
    Z = weighed(X)
    assert Z.nnz <= X.nnz
    assert_close(Z.toarray(), weighed(X.toarray()), rtol=1e-14, atol=0)
    full = some_map(rng, "full")
    assert_close(full(X), full(X.toarray()), rtol=1e-14, atol=0)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=0.3), Laplacian(gamma=0.2)])
def test_a_mapped_kernel_is_the_kernel_of_mapped_rows(xp, dtype, rng, kernel):
    row_map = some_map(rng, "full")
    X, Y = (array(xp, rng.normal(size=(n, 5)).astype(dtype)) for n in (9, 6))
    mapped = MappedKernel(kernel, row_map)
    assert mapped.name == kernel.name
    assert mapped.gamma == kernel.gamma
    tolerance = {"rtol": 0, "atol": TOLERANCE[dtype]}
    assert_close(mapped(X, Y), kernel(row_map(X), row_map(Y)), **tolerance)
    assert_close(mapped(X), kernel(row_map(X)), **tolerance)
    V = array(xp, np.ones((6, 2), dtype=dtype))
    product = KernelOperator(mapped, X, Y).matmul(V)
    expected = to_numpy(kernel(row_map(X), row_map(Y))) @ np.ones((6, 2))
    assert_close(product, expected, rtol=0, atol=10 * TOLERANCE[dtype])


def test_maps_and_kernels_are_equal_by_their_numbers(rng):
    first, same = some_map(rng, "full"), None
    same = RowMap(first.center, first.scale, 3.0, first.offset, first.weights.copy())
    other = first.weighed(2 * first.weights)
    assert first == same
    assert hash(first) == hash(same)
    assert first != other
    assert MappedKernel(Gaussian(), first) == MappedKernel(Gaussian(), same)
    assert MappedKernel(Gaussian(), first) != MappedKernel(Gaussian(), other)


def test_rows_of_the_host_are_mapped_block_by_block(rng):
    X = rng.normal(size=(30, 5))
    row_map = some_map(rng, "full")
    rows = row_map(HostRows(X, X[:1], 2**16))
    assert rows.shape == (30, 5)
    some = np.array([3, 17, 4])
    assert_close(take_rows(rows, some), row_map(X)[some], rtol=1e-14, atol=0)
    assert_close(rows.host(), row_map(X), rtol=1e-14, atol=0)
    K = KernelOperator(Gaussian(), rows, row_map(X[:4])).matmul(np.ones((4, 1)))
    expected = Gaussian()(row_map(X), row_map(X[:4])).sum(axis=1, keepdims=True)
    assert_close(K, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_root_of_a_metric(rng, power):
    A = rng.normal(size=(6, 4))
    M = A.T @ A
    T = metric_root(M, power)
    scaled = 4 * M / np.trace(M)
    values, V = np.linalg.eigh(scaled)
    assert_close(T @ T.T, (V * values**power) @ V.T, rtol=1e-9, atol=1e-9)
    weights = metric_root(np.diag(M), power)
    expected = (4 * np.diag(M) / np.trace(M)) ** power
    assert_close(weights**2, expected, rtol=1e-12, atol=0)


def test_directions_without_a_gradient_are_left_out():
    M = np.diag([1.0, 1e-12, 2.0])
    assert metric_root(M, 1.0).shape == (3, 2)
    assert np.array_equal(metric_root(np.zeros((2, 2)), 1.0), np.eye(2))


def test_importances_are_the_diagonal_for_columns_of_spread_one(rng):
    weights = np.array([2.0, 1.0])
    row_map = RowMap(
        np.zeros(2), np.ones(2), np.inf, np.zeros(2), weights, np.array([1.0, 4.0])
    )
    assert_close(row_map.importances(), [4 / 20, 16 / 20], rtol=1e-15, atol=0)
    assert_close(row_map.metric(), [4.0, 16.0], rtol=1e-15, atol=0)
    full = row_map.weighed(np.diag(weights))
    assert_close(full.importances(), row_map.importances(), rtol=1e-15, atol=0)
    assert_close(full.metric(), np.diag([4.0, 16.0]), rtol=1e-15, atol=0)
