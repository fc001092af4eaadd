"""Functions as kernels: called on blocks, checked, and never trusted."""

import threading

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import pairwise

from kaucus._array.namespace import dtype_name
from kaucus.kernels import CallableKernel, Gaussian, _kernel
from tests.arrays import array, assert_close, same_bits


def dot(X, Y):
    return X @ Y.T


@pytest.fixture
def X(rng):
    return rng.uniform(0, 1, size=(20, 4))


@pytest.mark.parametrize(
    "function",
    [
        pairwise.linear_kernel,
        pairwise.rbf_kernel,
        pairwise.chi2_kernel,
        pairwise.laplacian_kernel,
        pairwise.cosine_similarity,
    ],
)
def test_functions_of_scikit_learn(dtype, X, function):
    X = X.astype(dtype)
    kernel = CallableKernel(function)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for K, expected in (
        (kernel(X), function(X)),
        (kernel(X, X[:7]), function(X, X[:7])),
    ):
        assert K.dtype == dtype
        assert_close(K, expected, rtol=rtol)
    assert_close(kernel.diag(X), np.diag(function(X)), rtol=rtol)


def test_functions_on_sparse_rows(X):
    S = scipy.sparse.csr_array(X * (X > 0.5))
    for function in (pairwise.rbf_kernel, dot):  # dot gives a sparse matrix back
        kernel = CallableKernel(function)
        assert_close(kernel(S), kernel(S.toarray()), rtol=1e-12)
        assert_close(kernel.diag(S), kernel.diag(S.toarray()), rtol=1e-12)


def test_any_library(xp, dtype, X):
    given = array(xp, X, dtype)
    kernel = CallableKernel(dot)
    K = kernel(given, given[:6, :])
    assert type(K) is type(given)
    assert dtype_name(K) == dtype
    assert_close(K, X @ X[:6].T, rtol=1e-5 if dtype == "float32" else 1e-13)
    assert type(kernel.diag(given)) is type(given)


def test_called_on_blocks_from_one_thread(X, monkeypatch):
    monkeypatch.setattr(_kernel, "tile_shape", lambda *args: (4, 6))
    calls = []

    def record(A, B):
        calls.append((len(A), len(B), threading.get_ident()))
        return A @ B.T

    K = CallableKernel(record)(X)
    assert_close(K, X @ X.T, rtol=1e-13)
    assert len(calls) > 1
    assert max(rows for rows, _, _ in calls) == 4
    assert {thread for _, _, thread in calls} == {threading.get_ident()}


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda A, B: np.zeros(len(A)), r"shape \(20,\)"),
        (lambda A, B: np.zeros((len(A), 3)), r"shape \(20, 3\)"),
        (lambda a, b: 1.0, "a float"),
    ],
)
def test_a_wrong_shape_is_told(X, function, what):
    message = rf"returned {what} for 20 and 5 rows; expected \(20, 5\)"
    with pytest.raises(ValueError, match=message):
        CallableKernel(function)(X, X[:5])


def test_a_message_names_the_function(X):
    def no_kernel(A, B):
        return A

    with pytest.raises(ValueError, match="The kernel no_kernel returned shape"):
        CallableKernel(no_kernel)(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_told(X, value):
    def broken(A, B):
        K = A @ B.T
        K[0, -1] = value
        return K

    for call in (CallableKernel(broken), CallableKernel(broken).diag):
        with pytest.raises(ValueError, match="broken returned NaN or infinity; every"):
            call(X)


def test_rows_stay_as_they_are(X):
    before = X.copy()
    CallableKernel(dot)(X)
    assert same_bits(X, before)


def test_equals_the_kernel_it_wraps(X):
    kernel = Gaussian(gamma=2.0)
    assert_close(CallableKernel(kernel)(X), kernel(X), rtol=1e-12)


def test_claims_nothing():
    assert not CallableKernel(dot).positive_semidefinite
    assert not CallableKernel(dot).thread_safe


def test_a_matrix_that_the_function_keeps_is_not_handed_out(X):
    kept = X @ X.T
    K = CallableKernel(lambda A, B: kept)(X)
    K[:] = 0.0
    assert_close(kept, X @ X.T)
