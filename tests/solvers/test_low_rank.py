"""Laws of the least squares of all rows on a few representatives."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.blocks import Scratch
from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian, Linear, Polynomial
from kaucus.solvers import _columns
from kaucus.solvers._columns import NormalEquations, RowData, solve_on_representatives
from tests.arrays import array, assert_close, assert_to_rounding
from tests.reference import low_rank as reference
from tests.reference.ls_svm import solve_bordered
from tests.solvers.problems import of_rows, problem, weights

solve_on_representatives = of_rows(solve_on_representatives)

KERNEL = Gaussian(gamma=0.5)
TOL = {"float32": 2e-3, "float64": 1e-8}


def decide(kernel, X, Z, solution):
    return kernel(X, Z) @ to_numpy(solution.dual_coef) + to_numpy(solution.intercept)


def expected(p, Z, C, weight=None, kernel=KERNEL):
    K_nm, K_mm = kernel(p.X, Z), kernel(Z)
    a, b = reference.solve_on_representatives(K_nm, K_mm, p.Y, C, weight)
    return K_nm @ a + b


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_direct_minimum(xp, dtype, weighted):
    p = problem(n=40, t=3)
    weight = weights(1, 40) if weighted else None
    Z = p.X[:7] + 0.1
    solution = solve_on_representatives(
        KERNEL,
        array(xp, p.X, dtype),
        array(xp, p.Y),
        array(xp, Z, dtype),
        C=10.0,
        sample_weight=None if weight is None else array(xp, weight),
    )
    got = decide(KERNEL, p.X, Z, solution)
    assert_close(got, expected(p, Z, 10.0, weight), atol=TOL[dtype])


@given(seed=st.integers(0, 10**6), C=st.floats(1e-2, 1e3))
def test_with_every_row_as_representative_it_is_the_ls_svm(seed, C):
    p = problem(seed, n=20)
    weight = weights(seed, 20)
    solution = solve_on_representatives(
        KERNEL, p.X, p.Y, p.X, C=C, sample_weight=weight
    )
    exact = solve_bordered(p.K, p.Y, C, weight)
    got = decide(KERNEL, p.X, p.X, solution)
    assert_close(got, p.K @ exact.dual_coef + exact.intercept, atol=1e-6)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 60))
def test_the_size_of_the_blocks_changes_nothing(seed, size):
    p = problem(seed, n=50)
    Z = p.X[::8]
    whole = solve_on_representatives(KERNEL, p.X, p.Y, Z, C=5.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _columns, "_BLOCK_BYTES", size * _columns.bytes_per_row(len(Z), Z)
        )
        blocks = solve_on_representatives(KERNEL, p.X, p.Y, Z, C=5.0)
    assert_close(blocks.dual_coef, whole.dual_coef, rtol=1e-6, atol=1e-8)
    assert_close(blocks.intercept, whole.intercept, rtol=1e-6, atol=1e-8)


@given(seed=st.integers(0, 10**6))
def test_a_weight_of_two_is_two_equal_rows(seed):
    p = problem(seed, n=25)
    repeats = np.random.default_rng(seed).integers(0, 3, size=25)
    repeats[0] = 1
    Z = p.X[:5]
    by_weight = solve_on_representatives(
        KERNEL, p.X, p.Y, Z, C=3.0, sample_weight=repeats.astype(float)
    )
    X, Y = np.repeat(p.X, repeats, axis=0), np.repeat(p.Y, repeats, axis=0)
    by_rows = solve_on_representatives(KERNEL, X, Y, Z, C=3.0)
    assert_close(by_weight.dual_coef, by_rows.dual_coef, rtol=1e-6, atol=1e-8)
    assert_close(by_weight.intercept, by_rows.intercept, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refitting(xp, weighted):
    p = problem(n=25)
    weight = np.maximum(weights(3, 25), 0.25) if weighted else None
    Z = p.X[:6]
    solution = solve_on_representatives(
        KERNEL,
        array(xp, p.X),
        array(xp, p.Y),
        array(xp, Z),
        C=4.0,
        sample_weight=None if weight is None else array(xp, weight),
        loo_rows=np.arange(25)[::-1].copy(),
    )
    refitted = reference.leave_one_out(KERNEL(p.X, Z), KERNEL(Z), p.Y, 4.0, weight)
    assert_close(solution.loo_decision, refitted[::-1], rtol=1e-6, atol=1e-7)


@given(seed=st.integers(0, 10**6), shift=st.floats(-1e3, 1e3))
def test_a_constant_added_to_the_targets_is_added_to_the_intercept(seed, shift):
    p = problem(seed)
    Z = p.X[:6]
    before = solve_on_representatives(KERNEL, p.X, p.Y, Z, C=2.0)
    after = solve_on_representatives(KERNEL, p.X, p.Y + shift, Z, C=2.0)
    assert_close(after.dual_coef, before.dual_coef, atol=1e-6 * (1 + abs(shift)))
    assert_close(
        after.intercept, before.intercept + shift, atol=1e-6 * (1 + abs(shift))
    )


def test_a_wide_float32_kernel_keeps_its_digits():
    """Nearly constant columns: their mean must be off before they are multiplied."""
    p = problem(n=400, t=1)
    kernel = Gaussian(gamma=1e-3)
    Z = p.X[:3]
    y = p.X[:, :1] + 0.5
    rows = p.X.astype(np.float32)
    solution = solve_on_representatives(
        kernel, rows, y.astype(np.float32), Z.astype(np.float32), C=1e4
    )
    q = p._replace(Y=y)
    got = decide(kernel, p.X, Z, solution)
    want = expected(q, Z, 1e4, kernel=kernel)
    assert np.abs(got - want).max() < 0.02 * want.std()


def test_more_representatives_than_dimensions_is_no_harm():
    """A linear kernel of three features has rank 3, whatever the representatives."""
    p = problem(n=60)
    solution = solve_on_representatives(Linear(), p.X, p.Y, p.X[:30], C=1.0)
    few = solve_on_representatives(Linear(), p.X, p.Y, p.X[:3], C=1.0)
    got = decide(Linear(), p.X, p.X[:30], solution)
    assert_close(got, decide(Linear(), p.X, p.X[:3], few), atol=1e-4)
    assert 0 < solution.info.relative_jitter < 1e-9


def test_sparse_rows_are_their_dense_ones():
    p = problem(n=40)
    X = np.where(np.abs(p.X) > 0.8, p.X, 0.0)
    kernel = Polynomial(degree=2, gamma=1.0, coef0=1.0)
    dense = solve_on_representatives(kernel, X, p.Y, X[:5], C=1.0)
    sparse = solve_on_representatives(
        kernel,
        scipy.sparse.csr_array(X),
        p.Y,
        X[:5],
        C=1.0,
        loo_rows=np.arange(3),
    )
    assert_close(sparse.dual_coef, dense.dual_coef, rtol=1e-7, atol=1e-9)
    assert sparse.loo_decision.shape == (3, 2)


def test_nothing_that_is_passed_is_changed():
    p = problem(n=30)
    weight = weights(0, 30)
    before = [a.copy() for a in (p.X, p.Y, weight)]
    solve_on_representatives(
        Linear(), p.X, p.Y, p.X[:4], C=1.0, sample_weight=weight, loo_rows=np.arange(5)
    )
    for value, old in zip((p.X, p.Y, weight), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_matrices_that_do_not_fit_are_refused_with_a_remedy():
    p = problem(n=50)
    with pytest.raises(MemoryError, match=r"40 representatives need .*use fewer"):
        solve_on_representatives(
            KERNEL, p.X, p.Y, p.X[:40], C=1.0, memory_budget="10KiB"
        )


def test_the_mean_has_more_digits_than_a_long_float32_sum(xp, rng):
    """Its square is taken off the Gram matrix, which would not be definite without."""
    n, m = 100_000, 8
    K = (1 + rng.random((n, m))).astype(np.float32)
    Y = np.ones((n, 1))
    equations = NormalEquations.zeros(m, array(xp, Y))
    equations.add(array(xp, K), array(xp, np.ones((n, 2))))
    mean = to_numpy(equations.cross)[:, -1] / n
    exact = K.mean(axis=0, dtype=np.float64)
    # 2.5e-7 in one float32 product; NumPy's is of short ones, for its speed.
    assert_close(mean, exact, rtol=1e-7 if xp.__name__.endswith("numpy") else 1e-13)


def test_sums_over_parts_of_the_rows_merge_to_those_of_all(xp, rng):
    """In whatever parts, and on the host or where the rows are."""
    K, targets = rng.normal(size=(40, 6)), rng.normal(size=(40, 3))
    Y = array(xp, targets[:, :2])

    def of(rows):
        equations = NormalEquations.zeros(6, Y)
        equations.add(array(xp, K[rows]), array(xp, targets[rows]))
        return equations

    whole, merged = of(slice(0, 40)), of(slice(0, 7))
    merged.merge(of(slice(7, 30)))
    merged = merged.on_host().copy(Y)
    merged.merge(of(slice(30, 40)))
    for name in ("cross", "target_sum"):
        assert_close(getattr(merged, name), getattr(whole, name), rtol=1e-12)
    lower = np.tril_indices(6)
    assert_close(to_numpy(merged.gram)[lower], to_numpy(whole.gram)[lower], rtol=1e-12)
    assert merged.weight == pytest.approx(whole.weight)


def test_a_copy_of_the_sums_is_its_own(xp, rng):
    Y = array(xp, rng.normal(size=(10, 1)))
    equations = NormalEquations.zeros(3, Y)
    K, targets = array(xp, rng.normal(size=(10, 3))), array(xp, np.ones((10, 2)))
    equations.add(K, targets)
    before = to_numpy(equations.cross).copy()
    other = equations.copy()
    other.add(K, targets)
    assert_close(equations.cross, before, rtol=0)
    assert equations.weight == 10
    assert other.weight == 20


def test_float32_rows_on_float64_points_are_widened_block_by_block(rng, monkeypatch):
    """The same fit as of float64 rows, without a float64 copy of all of them."""
    X, Y = rng.normal(size=(200, 5)).astype(np.float32), rng.normal(size=(200, 2))
    Z = rng.normal(size=(9, 5))
    seen = []
    columns = RowData.columns

    def noted(self, block, *args):
        seen.append(block.dtype)
        return columns(self, block, *args)

    monkeypatch.setattr(RowData, "columns", noted)
    loo = np.arange(20)
    got = solve_on_representatives(KERNEL, X, Y, Z, C=10.0, loo_rows=loo)
    assert set(seen) == {np.dtype(np.float32)}
    assert got.info.precision == "float64"
    wide = solve_on_representatives(
        KERNEL, X.astype(np.float64), Y, Z, C=10.0, loo_rows=loo
    )
    assert_close(got.dual_coef, wide.dual_coef, rtol=1e-9)
    assert_close(got.loo_decision, wide.loo_decision, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_the_same_in_any_memory_and_for_any_number_of_threads(
    rng, monkeypatch, weighted
):
    X, Y = rng.normal(size=(90, 5)).astype(np.float32), rng.normal(size=(90, 1))
    Z, weight = X[:11], rng.uniform(0.5, 2, size=90) if weighted else None
    shift, rows = rng.normal(size=11), slice(10, 80)
    data, scratch = RowData(KERNEL, X, Y, weight), Scratch()
    expected = KERNEL(X[rows], Z) - shift.astype(np.float32)
    if weight is not None:
        expected *= np.sqrt(weight[rows])[:, None].astype(np.float32)
    monkeypatch.setattr(_columns, "_COLUMN_BYTES", 8 * 4 * 11)
    for workers in (1, 3):
        monkeypatch.setattr(_columns, "n_workers", lambda K, w=workers: w)
        for memory in (None, scratch, scratch):
            K = data.columns(X[rows], rows, Z, shift, memory)
            assert_to_rounding(K, expected)
