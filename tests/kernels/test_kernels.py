"""Laws of every kernel, on every library, in both precisions, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import pairwise
from threadpoolctl import threadpool_limits

from kaucus._array.blocks import n_workers, one_blas_thread
from kaucus._array.namespace import dtype_name, is_sparse, to_numpy
from kaucus.kernels import (
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    _kernel,
    kernel_names,
)
from tests.arrays import EPS, array, assert_close, same_bits
from tests.kernels.registry import CASES, name_of
from tests.reference.kernels import matrix

TOLERANCE = {"float32": 2e-5, "float64": 1e-13}
each_kernel = pytest.mark.parametrize("case", CASES, ids=name_of)
SPARSE = [
    scipy.sparse.csr_array,
    scipy.sparse.csr_matrix,
]


def size_of(K):
    """Return the size of the entries, of which the tolerance is a share."""
    return max(1.0, np.max(np.abs(K)))


@pytest.fixture
def rows(rng, dtype):
    X = rng.normal(size=(23, 5)).astype(dtype)
    Y = rng.normal(size=(14, 5)).astype(dtype)
    Y[3] = X[7]  # an equal pair
    X[11] = X[4]  # a repeated row
    return X, Y


def test_every_kernel_is_in_the_registry():
    of_arrays = {"mahalanobis", "cluster_rbf"}
    assert {case.kernel.name for case in CASES} == {*kernel_names(), *of_arrays}


@each_kernel
def test_equals_the_double_loop(xp, dtype, rows, case):
    X, Y = rows
    expected = matrix(case.reference, X, Y)
    K = case.kernel(array(xp, X), array(xp, Y))
    assert dtype_name(K) == dtype
    assert type(K) is type(array(xp, X))
    assert_close(K, expected, rtol=0, atol=TOLERANCE[dtype] * size_of(expected))


@each_kernel
def test_one_set_of_rows_gives_an_exactly_symmetric_matrix(xp, dtype, rows, case):
    X = array(xp, rows[0])
    K, twice = to_numpy(case.kernel(X)), to_numpy(case.kernel(X, X))
    assert np.array_equal(K, K.T)
    assert K.dtype == dtype
    assert_close(K, twice, rtol=0, atol=8 * EPS[dtype] * size_of(K))


@each_kernel
@pytest.mark.parametrize("tile", [(1, 1), (3, 8), (7, 2), (40, 40)])
def test_tiles_of_any_shape_give_the_same_matrix(dtype, rows, case, tile, monkeypatch):
    X, Y = rows
    whole, pair = case.kernel(X), case.kernel(X, Y)
    monkeypatch.setattr(_kernel, "tile_shape", lambda *args: tile)
    K = case.kernel(X)
    assert np.array_equal(K, K.T)
    tolerance = 100 * EPS[dtype]
    assert_close(K, whole, rtol=0, atol=tolerance * size_of(whole))
    assert_close(case.kernel(X, Y), pair, rtol=0, atol=tolerance * size_of(pair))


@each_kernel
def test_diag_is_the_diagonal(xp, dtype, rows, case):
    X = array(xp, rows[0])
    d, K = case.kernel.diag(X), to_numpy(case.kernel(X))
    assert dtype_name(d) == dtype
    assert type(d) is type(X)
    assert_close(d, np.diag(K), rtol=0, atol=16 * EPS[dtype] * size_of(K))


@each_kernel
def test_diag_of_a_sparse_matrix(dtype, rows, case):
    X = rows[0] * (rows[0] > 0.5)
    X[2] = 0
    d = case.kernel.diag(scipy.sparse.csr_array(X))
    assert d.dtype == dtype
    expected = case.kernel.diag(X)
    assert_close(d, expected, rtol=0, atol=16 * EPS[dtype] * size_of(expected))


@each_kernel
def test_a_row_is_entirely_like_itself(xp, dtype, rows, case):
    """Kernels of the distance are exactly 1 on equal rows, and at most 1."""
    if not case.translation_invariant:
        return
    X, Y = rows
    K = to_numpy(case.kernel(array(xp, X), array(xp, Y)))
    assert K[7, 3] == 1
    K = to_numpy(case.kernel(array(xp, X)))
    assert np.all(np.diag(K) == 1)
    assert K[11, 4] == 1
    assert np.max(K) == 1


@each_kernel
@given(
    X=arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.floats(-3, 3, width=32),
    )
)
def test_positive_semidefinite(case, X):
    K = case.kernel(X)
    if case.kernel.positive_semidefinite:
        smallest = np.linalg.eigvalsh(K)[0]
        assert smallest >= -1e-12 * len(X) * size_of(K)


def test_the_sigmoid_kernel_does_not_claim_to_be_positive():
    K = Sigmoid(gamma=1.0, coef0=-1.0)(np.array([[0.0], [1.0]]))
    assert np.linalg.eigvalsh(K)[0] < -0.1
    assert not Sigmoid().positive_semidefinite


@each_kernel
@pytest.mark.parametrize("density", [0.005, 0.3])
@pytest.mark.parametrize("container", SPARSE)
def test_sparse_equals_dense(dtype, rng, case, density, container):
    X, Y = (rng.normal(size=(n, 60)).astype(dtype) for n in (30, 25))
    X, Y = (A * (rng.random(A.shape) < density) for A in (X, Y))
    Y[2] = X[1]
    S, T = container(X), container(Y)
    expected = case.kernel(X, Y)
    atol = TOLERANCE[dtype] * size_of(expected)
    for A, B in ((S, T), (S, Y), (X, T)):
        K = case.kernel(A, B)
        assert type(K) is np.ndarray
        assert K.dtype == dtype
        assert_close(K, expected, rtol=0, atol=atol)
    K = case.kernel(S)
    assert np.array_equal(K, K.T)
    assert_close(K, case.kernel(X), rtol=0, atol=TOLERANCE[dtype] * size_of(K))
    assert is_sparse(S)
    assert np.array_equal(S.toarray(), X)


@each_kernel
def test_single_precision_stays_near_double(xp, rows, case):
    X, Y = (A.astype("float32") for A in rows)
    single = case.kernel(array(xp, X), array(xp, Y))
    double = case.kernel(array(xp, X, "float64"), array(xp, Y, "float64"))
    assert dtype_name(single) == "float32"
    assert dtype_name(double) == "float64"
    atol = TOLERANCE["float32"] * size_of(to_numpy(double))
    assert_close(single, double, rtol=0, atol=atol)


@each_kernel
def test_a_common_shift_changes_nothing(xp, dtype, rng, case):
    if not case.translation_invariant:
        return
    # Multiples of 1/8 to which 2**15 can be added exactly in float32.
    X = np.round(8 * rng.normal(size=(20, 4))) / 8
    Y = np.round(8 * rng.normal(size=(15, 4))) / 8
    near = case.kernel(array(xp, X, dtype), array(xp, Y, dtype))
    far = case.kernel(array(xp, X + 2**15, dtype), array(xp, Y + 2**15, dtype))
    assert_close(far, near, rtol=0, atol=3 * EPS[dtype] ** 0.5 * 1e-2)


@each_kernel
def test_the_arrays_of_the_user_stay_as_they_are(xp, dtype, rows, case):
    X, Y = (array(xp, A) for A in rows)
    case.kernel(X, Y)
    case.kernel(X)
    case.kernel.diag(X)
    assert same_bits(X, rows[0])
    assert same_bits(Y, rows[1])


@each_kernel
def test_read_only_and_strided_rows_are_taken(dtype, rows, case):
    X = rows[0]
    expected = case.kernel(X)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    wide.flags.writeable = False
    for view in (wide, np.asfortranarray(X), X[::-1][::-1]):
        K = case.kernel(view)
        assert_close(K, expected, rtol=0, atol=32 * EPS[dtype] * size_of(expected))


@each_kernel
def test_threads_change_no_bit(dtype, rng, case, monkeypatch):
    X = rng.normal(size=(150, 5)).astype(dtype)
    monkeypatch.setattr(_kernel, "tile_shape", lambda *args: (16, 32))
    results = []
    for workers in (1, 2, 4):
        monkeypatch.setattr(_kernel, "n_workers", lambda X, w=workers: w)
        with one_blas_thread():
            results.append(case.kernel(X))
    assert same_bits(results[1], results[0])
    assert same_bits(results[2], results[0])


@each_kernel
def test_memory_that_is_given_holds_the_same_matrix(dtype, rng, case, monkeypatch):
    X, Y = rng.normal(size=(60, 5)).astype(dtype), rng.normal(size=(40, 5))
    Y = Y.astype(dtype)
    monkeypatch.setattr(_kernel, "tile_shape", lambda *args: (16, 32))
    expected, memory = case.kernel(X, Y), np.full((60, 40), np.nan, dtype)
    got = case.kernel(X, Y, out=memory)
    assert got is memory
    assert same_bits(got, expected)


def test_kernels_use_the_threads_that_blas_would():
    with threadpool_limits(1, user_api="blas"):
        assert Gaussian().n_workers(np.zeros((1, 1))) == 1
    assert Gaussian().n_workers(np.zeros((1, 1))) == n_workers()


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        (Linear(), pairwise.linear_kernel),
        (Cosine(), pairwise.cosine_similarity),
        (Gaussian(gamma=0.3), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.3)),
        (Laplacian(gamma=0.3), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=0.3)),
        (
            Polynomial(degree=3, gamma=0.3, coef0=2.0),
            lambda X, Y: pairwise.polynomial_kernel(X, Y, 3, gamma=0.3, coef0=2.0),
        ),
        (
            Sigmoid(gamma=0.3, coef0=0.5),
            lambda X, Y: pairwise.sigmoid_kernel(X, Y, gamma=0.3, coef0=0.5),
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_agrees_with_scikit_learn(dtype, rows, kernel, function):
    X, Y = rows
    expected = function(X, Y)
    atol = TOLERANCE[dtype] * size_of(expected)
    assert_close(kernel(X, Y), expected, rtol=0, atol=atol)


def test_the_cosine_of_a_zero_row_is_zero(xp, dtype):
    X = array(xp, [[0.0, 0.0], [3.0, 4.0]], dtype)
    K = to_numpy(Cosine()(X))
    assert_close(K, [[0, 0], [0, 1]], atol=4 * EPS[dtype])
    assert_close(Cosine().diag(X), [0, 1])


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_the_cosine_does_not_depend_on_the_length(xp, dtype, rows, scale):
    X, Y = rows
    K = Cosine()(array(xp, X * np.asarray(scale, dtype)), array(xp, Y))
    assert_close(K, Cosine()(X, Y), rtol=0, atol=20 * EPS[dtype])


@pytest.mark.parametrize("degree", [0, -1, 2.5])
def test_polynomials_of_other_degrees_are_refused(degree):
    with pytest.raises(ValueError, match=rf"degree={degree} must be a whole number"):
        Polynomial(degree=degree)


@pytest.mark.parametrize("degree", range(1, 10))
def test_every_whole_power(degree):
    K = Polynomial(degree=degree)(np.array([[-1.5]]), np.array([[1.0]]))
    assert_close(K, [[(-1.5) ** degree]], rtol=1e-14)


@each_kernel
def test_kernels_are_values(case):
    """Equal parameters make equal kernels, and parameters do not change."""
    again = type(case.kernel)(**case.reference.keywords)
    assert again == case.kernel
    assert hash(again) == hash(case.kernel)
    with pytest.raises(AttributeError):
        case.kernel.gamma = 2.0
