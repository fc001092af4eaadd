"""Sums of kernel columns: float32 rows give what the same rows in float64 give."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.kernels import Gaussian, KernelOperator, Linear
from kaucus.kernels import _matrix as expansion
from kaucus.kernels._matrix import kernel_expansion
from tests.arrays import array
from tests.conftest import namespace
from tests.kernels.registry import CASES

# What the module's docstring promises.
BOUND = 2.0**-8


def cancelling(kernel, Y, size, rng, n_functions=2):
    """Return coefficients that interpolate values of size 1, blown up by ``size``.

    The larger ``size``, the smaller the ridge, the more they cancel.
    """
    K = kernel(Y) + np.eye(len(Y)) / size
    return np.linalg.lstsq(K, rng.normal(size=(len(Y), n_functions)), rcond=None)[0]


def wide(*arrays):
    return tuple(a.astype(np.float64) for a in arrays)


def assert_within_bound(got, kernel, X, Y, coef):
    """Compare with float64, which itself rounds by 2⁻⁵² of what it adds up.

    Kernel values below 2⁻¹²⁶ are zero in float32.
    """
    K = kernel(*wide(X, Y))
    exact = K @ coef
    rounding = (2.0**-46 * np.abs(K) + 2.0**-126) @ np.abs(coef)
    allowed = BOUND * expansion._allowed(exact, exact) + rounding
    assert np.all(np.abs(to_numpy(got) - exact) <= allowed)


def in_library(library, X, Y, coef):
    if library == "csr":
        return scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y), coef
    return tuple(array(namespace(library), v, dtype_name(v)) for v in (X, Y, coef))


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch", "csr"])
@given(
    kernel=st.sampled_from([case.kernel for case in CASES]),
    log_C=st.floats(-1, 12),
    log_scale=st.floats(-2, 2),
    offset=st.sampled_from([0.0, 1.0, 30.0]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=50)
def test_float32_rows_agree_with_float64(
    library, kernel, log_C, log_scale, offset, seed
):
    rng = np.random.default_rng(seed)
    X, Y = (10**log_scale * (rng.normal(size=(m, 4)) + offset) for m in (150, 40))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    coef = cancelling(kernel, *wide(Y), 10**log_C, rng)
    got = kernel_expansion(kernel, *in_library(library, X, Y, coef))
    assert dtype_name(got) == "float64"
    assert_within_bound(got, kernel, X, Y, coef)


def far_away(rng, n=300):
    """Rows far from the origin, whose linear functions cancel in float32."""
    return (100 + rng.normal(size=(n, 5))).astype(np.float32)


@pytest.mark.parametrize("library", ["numpy", "array_api_strict", "torch", "csr"])
def test_float32_alone_would_not_do(library, rng):
    """The law above has something to forbid."""
    X, Y = far_away(rng), far_away(rng, 50)
    coef = cancelling(Linear(), *wide(Y), 1e4, rng)
    rows, points, a = in_library(library, X, Y, coef)
    rough = KernelOperator(Linear(), rows, points).matmul(a)
    with pytest.raises(AssertionError):
        assert_within_bound(rough, Linear(), X, Y, coef)
    got = kernel_expansion(Linear(), rows, points, a)
    assert_within_bound(got, Linear(), X, Y, coef)


def test_points_in_float64_are_not_rounded(rng):
    X, Y = far_away(rng), 100 + rng.normal(size=(50, 5))
    coef = cancelling(Linear(), Y, 1e4, rng)
    got = kernel_expansion(Linear(), X, Y, coef)
    assert_within_bound(got, Linear(), X, Y, coef)


def dtypes_used(monkeypatch):
    """Return a set to which each kernel matrix adds its precision and rows."""
    used = set()
    sums = expansion._sums

    def watched(kernel, X, Y, coef, memory_budget):
        used.add((dtype_name(X), X.shape[0]))
        return sums(kernel, X, Y, coef, memory_budget)

    monkeypatch.setattr(expansion, "_sums", watched)
    return used


def test_small_coefficients_are_summed_in_float32(monkeypatch, rng):
    X, Y = (rng.normal(size=(m, 5)).astype(np.float32) for m in (300, 50))
    used = dtypes_used(monkeypatch)
    kernel_expansion(Gaussian(0.1), X, Y, rng.normal(size=(50, 2)))
    assert used == {("float32", 32), ("float64", 32), ("float32", 300)}


def test_one_row_that_needs_it_brings_all_to_float64(monkeypatch, rng):
    """A row of large norm is among those that are looked at, wherever it is."""
    X, Y = (rng.normal(size=(m, 5)).astype(np.float32) for m in (300, 50))
    without_weight = np.linalg.svd(wide(Y)[0].T)[2][5:]  # Σ a y = 0 but for rounding
    coef = 0.1 * Y[:, :1] + 1e3 * without_weight[0][:, None]
    used = dtypes_used(monkeypatch)
    kernel_expansion(Linear(), X, Y, coef)
    assert ("float64", 300) not in used
    # Far away, where the function is as small as near the origin: w = Σ a y = 0.1 Yᵀy.
    X[123] = 1e5 * np.linalg.svd((Y.T @ Y[:, :1]).T)[2][-1]
    got = kernel_expansion(Linear(), X, Y, coef)
    assert ("float64", 300) in used
    assert_within_bound(got, Linear(), X, Y, coef)


def test_a_small_budget_widens_a_few_rows_at_a_time(rng):
    X, Y = far_away(rng), far_away(rng, 50)
    coef = cancelling(Linear(), *wide(Y), 1e4, rng)
    got = kernel_expansion(Linear(), X, Y, coef, memory_budget=3000)
    assert_within_bound(got, Linear(), X, Y, coef)


def test_few_rows_and_one_row(rng):
    X, Y = far_away(rng, 3), far_away(rng, 50)
    coef = cancelling(Linear(), *wide(Y), 1e4, rng)
    for rows in (X, X[:1], X[:0]):
        got = kernel_expansion(Linear(), rows, Y, coef)
        np.testing.assert_allclose(got, Linear()(*wide(rows, Y)) @ coef, rtol=1e-3)
