"""Each primitive's SciPy, torch and portable versions are one function."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kaucus._array import linalg as _linalg
from kaucus._array.linalg import (
    NotPositiveDefiniteError,
    _portable_cholesky,
    add_to_diagonal,
    cho_solve,
    cholesky,
    cholesky_with_jitter,
    diagonal,
    eigh,
    jitter_steps,
    mirror_upper,
    restore_lower,
    solve_triangular,
)
from kaucus._array.namespace import dtype_name, exp, is_torch, sqrt, to_numpy
from tests.arrays import EPS, array, assert_close, same_bits

N = 17
ORDERS = ["C", "F"]


def positive_definite(rng, n=N):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


def tolerance(dtype):
    return {"rtol": 300 * EPS[dtype], "atol": 300 * EPS[dtype]}


@pytest.fixture
def H(rng):
    return positive_definite(rng)


@pytest.mark.parametrize("overwrite", [False, True])
def test_cholesky_factor_gives_back_the_matrix(xp, dtype, H, overwrite):
    given = array(xp, H, dtype)
    L = cholesky(given, overwrite=overwrite)
    assert dtype_name(L) == dtype
    L = np.tril(to_numpy(L))
    assert_close(L @ L.T, H, **tolerance(dtype))
    assert np.all(np.diag(L) > 0)
    if not overwrite:
        assert same_bits(given, H.astype(dtype))


def test_cholesky_agrees_with_the_portable_version(xp, dtype, H):
    given = array(xp, H, dtype)
    L, portable = cholesky(given), _portable_cholesky(given)
    assert_close(np.tril(to_numpy(L)), np.tril(to_numpy(portable)), **tolerance(dtype))


def test_cholesky_reads_only_the_lower_triangle(xp, dtype, H, rng):
    garbage = H + np.triu(rng.normal(size=H.shape), k=1)
    L = cholesky(array(xp, garbage, dtype))
    expected = cholesky(array(xp, H, dtype))
    assert same_bits(np.tril(to_numpy(L)), np.tril(to_numpy(expected)))


@pytest.mark.parametrize("order", ORDERS)
def test_overwriting_cholesky_leaves_the_upper_triangle(dtype, H, order):
    A = np.array(H, dtype=dtype, order=order)
    before = np.triu(A, k=1)
    L = cholesky(A, overwrite=True)
    assert np.shares_memory(L, A)
    assert same_bits(np.triu(A, k=1), before)
    assert_close(np.tril(L) @ np.tril(L).T, H, **tolerance(dtype))


@pytest.mark.parametrize("overwrite", [False, True])
def test_cholesky_of_an_indefinite_matrix_is_none(xp, dtype, H, overwrite):
    H[N // 2, N // 2] = -1.0
    given = array(xp, H, dtype)
    if not is_torch(given):  # torch has an error class of its own, and its own door
        assert _portable_cholesky(given) is None
    assert cholesky(given, overwrite=overwrite) is None


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 17, 1100])
def test_restore_lower_undoes_an_overwriting_cholesky(dtype, rng, order, n):
    # 1100: more rows than one step of the restoration takes.
    H = np.array(rng.normal(size=(n, n)), dtype=dtype)
    H = np.array((H + H.T) / 2 + n * np.eye(n, dtype=dtype), order=order)
    before, on_diagonal = H.copy(), diagonal(H)
    assert cholesky(H, overwrite=True) is not None
    assert not np.array_equal(H, before)
    restore_lower(H, on_diagonal)
    assert np.array_equal(H, before)


@pytest.mark.parametrize("order", ORDERS)
def test_cho_solve_solves(xp, dtype, H, rng, order):
    B = rng.normal(size=(N, 3))
    L = array(xp, np.linalg.cholesky(H), dtype)
    if isinstance(L, np.ndarray):
        L = np.asarray(L, order=order)
    Z = cho_solve(L, array(xp, B, dtype))
    assert dtype_name(Z) == dtype
    assert_close(Z, np.linalg.solve(H, B), **tolerance(dtype))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_solve_triangular_reads_the_lower_triangle_only(
    xp, dtype, H, rng, transpose, order
):
    clean = np.linalg.cholesky(H)
    L = array(xp, clean + np.triu(rng.normal(size=H.shape), k=1), dtype)
    if isinstance(L, np.ndarray):
        L = np.asarray(L, order=order)
    B = rng.normal(size=(N, 3))
    expected = np.linalg.solve(clean.T if transpose else clean, B)
    Z = solve_triangular(L, array(xp, B, dtype), transpose=transpose)
    assert dtype_name(Z) == dtype
    assert_close(Z, expected, **tolerance(dtype))


def test_eigh_is_ascending_orthonormal_and_complete(xp, dtype, H):
    given = array(xp, H, dtype)
    values, U = (to_numpy(part) for part in eigh(given))
    assert np.all(np.diff(values) >= 0)
    assert_close(U.T @ U, np.eye(N), **tolerance(dtype))
    assert_close(U * values @ U.T, H, **tolerance(dtype))
    assert same_bits(given, H.astype(dtype))


@pytest.mark.parametrize("per_row", [False, True])
def test_add_to_diagonal_changes_nothing_else(xp, dtype, H, rng, per_row):
    value = rng.normal(size=N).astype(dtype) if per_row else 0.75
    result = add_to_diagonal(
        array(xp, H, dtype), array(xp, value) if per_row else value
    )
    expected = H.astype(dtype)
    expected[np.arange(N), np.arange(N)] += value
    assert same_bits(result, expected)


def test_add_to_diagonal_works_in_place_where_it_can(dtype, H):
    A = H.astype(dtype)
    assert add_to_diagonal(A, 1.0) is A


def test_diagonal_is_a_copy(xp, dtype, H):
    given = array(xp, H, dtype)
    d = diagonal(given)
    assert same_bits(d, np.diag(H).astype(dtype))
    d += 1
    assert same_bits(given, H.astype(dtype))


@pytest.mark.parametrize("name", ["exp", "sqrt"])
def test_elementwise_functions(xp, dtype, rng, name):
    x = rng.uniform(0, 3, size=(4, 5)).astype(dtype)
    result = {"exp": exp, "sqrt": sqrt}[name](array(xp, x))
    assert dtype_name(result) == dtype
    assert_close(result, getattr(np, name)(x), rtol=4 * EPS[dtype])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_good_matrix_needs_no_jitter(xp, dtype, H, overwrite):
    given = array(xp, H, dtype)
    L, jitter = cholesky_with_jitter(given, overwrite=overwrite)
    assert jitter == 0.0
    L = np.tril(to_numpy(L))
    assert_close(L @ L.T, H, **tolerance(dtype))
    if not overwrite:
        assert same_bits(given, H.astype(dtype))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_singular_matrix_gets_the_least_jitter_that_works(
    xp, dtype, rng, overwrite, order
):
    # Exactly singular in any precision: a zero row and column, and small integers.
    H = np.zeros((N, N))
    H[1:, 1:] = 4 * np.eye(N - 1)
    given = array(xp, H, dtype)
    if isinstance(given, np.ndarray):
        given = np.asarray(given, order=order)
    L, jitter = cholesky_with_jitter(given, overwrite=overwrite)
    steps = jitter_steps(array(xp, np.diag(H), dtype))
    assert jitter == steps[1] > 0
    L = np.tril(to_numpy(L)).astype(float)
    assert_close(L @ L.T, H + jitter * np.eye(N), **tolerance(dtype))
    if not overwrite:
        assert same_bits(given, H.astype(dtype))


@pytest.mark.parametrize("overwrite", [False, True])
def test_jitter_grows_with_the_defect(xp, dtype, overwrite):
    found = []
    first = jitter_steps(array(xp, np.ones(N), dtype))[1]
    for defect in (1e-7, 1e-6, 1e-5):
        H = np.eye(N)
        H[3, 3] = -defect
        found.append(
            cholesky_with_jitter(array(xp, H, dtype), overwrite=overwrite).jitter
        )
        assert defect < found[-1] <= 10.01 * max(defect, first)
    assert found[0] < found[-1] / 5


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_indefinite_matrix_is_refused(xp, dtype, H, overwrite):
    H[2, 2] = -1.0
    given = array(xp, H, dtype)
    with pytest.raises(NotPositiveDefiniteError, match=r"\(17, 17\) is not positive"):
        cholesky_with_jitter(given, overwrite=overwrite)
    # Even with overwrite, a failure leaves the matrix as it was.
    assert same_bits(given, H.astype(dtype))


def test_no_jitter_is_less_than_the_rounding_of_the_entries(xp, dtype):
    bounds = {"rounding": 1e-4, "largest": 1e-2}
    steps = jitter_steps(array(xp, np.full(100, 3.0), dtype), **bounds)
    assert steps[:2] == [0.0, pytest.approx(3e-4)]
    H = np.diag([-1e-6] + [3.0] * 99)
    jitter = cholesky_with_jitter(array(xp, H, dtype), **bounds).jitter
    assert jitter == pytest.approx(3e-4, rel=0.02)


def test_jitter_steps_grow_tenfold_up_to_the_largest(xp, dtype):
    steps = jitter_steps(array(xp, np.full(100, 3.0), dtype), largest=1e-4)
    assert steps[0] == 0.0
    assert steps[1] <= 3 * 1e-5 * (1 + 1e-12)
    assert_close(np.divide(steps[2:], steps[1:-1]), 10.0, rtol=1e-12)
    assert 3 * 1e-5 < steps[-1] <= 3 * 1e-4 * (1 + 1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 7, 8, 23, 40])
def test_a_factor_by_panels_is_the_factor(rng, dtype, n, order, monkeypatch):
    """What is done beyond LAPACK's 46,340 rows."""
    monkeypatch.setattr(_linalg, "_PANEL", 8)
    monkeypatch.setattr(_linalg, "_PANEL_ROWS", 5)
    G = rng.normal(size=(n, n))
    H = np.array(G @ G.T + n * np.eye(n), dtype=dtype, order=order)
    expected = np.linalg.cholesky(H.astype("float64"))
    monkeypatch.setattr(_linalg, "_LAPACK_ROWS", 0)
    given = H.copy(order="K")
    L = cholesky(given)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    assert_allclose(np.tril(L), expected, rtol=tolerance, atol=tolerance * n)
    assert_array_equal(given, H)
    room = np.array(H, order="C")
    L = cholesky(room, overwrite=True)
    assert L is room
    assert_array_equal(np.triu(room, k=1), np.triu(H, k=1))


def test_a_factor_by_panels_fails_where_it_must(rng, monkeypatch):
    monkeypatch.setattr(_linalg, "_LAPACK_ROWS", 0)
    monkeypatch.setattr(_linalg, "_PANEL", 8)
    H = np.eye(30)
    H[20, 20] = -1.0
    room = H.copy()
    assert cholesky(room, overwrite=True) is None
    restore_lower(room, np.diagonal(H))
    assert_array_equal(room, H)


@pytest.mark.parametrize("n", [1, 3, 64, 65, 150])
def test_a_mirrored_matrix_has_the_upper_triangle_on_both_sides(xp, dtype, rng, n):
    given = rng.normal(size=(n, n)).astype(dtype)
    H = array(xp, given.copy())
    mirror_upper(H)
    upper = np.triu(given)
    assert same_bits(H, upper + np.triu(upper, k=1).T)


@pytest.mark.parametrize("width", [1, 4, 17, 30])
def test_a_tensor_is_factored_by_panels_in_place(dtype, H, width):
    torch = pytest.importorskip("torch")
    from kaucus._array.on_torch import blocked_cholesky

    given = torch.tensor(H.astype(dtype))
    upper = np.triu(to_numpy(given), k=1).copy()
    L = blocked_cholesky(given, width)
    assert L.data_ptr() == given.data_ptr()  # in its own memory
    assert_close(np.tril(to_numpy(L)), np.linalg.cholesky(H), **tolerance(dtype))
    assert same_bits(np.triu(to_numpy(L), k=1), upper)


@pytest.mark.parametrize("width", [1, 4, 30])
def test_what_cannot_be_factored_by_panels_can_be_restored(dtype, H, width):
    torch = pytest.importorskip("torch")
    from kaucus._array.on_torch import blocked_cholesky

    H = H.astype(dtype)
    H[-3, -3] = -1.0
    given = torch.tensor(H)
    assert blocked_cholesky(given, width) is None
    restore_lower(given, torch.tensor(np.diag(H).copy()))
    assert same_bits(given, H)


@pytest.mark.parametrize("width", [1, 4, 17, 30])
def test_a_factored_tensor_solves_by_panels(dtype, H, rng, width):
    torch = pytest.importorskip("torch")
    from kaucus._array.on_torch import blocked_cho_solve

    B = rng.normal(size=(len(H), 3))
    # What is above the diagonal is not the factor's.
    L = np.linalg.cholesky(H) + np.triu(rng.normal(size=H.shape), k=1)
    given = [torch.tensor(a.astype(dtype)) for a in (L, B)]
    X = blocked_cho_solve(*given, width)
    assert_close(X, np.linalg.solve(H, B), **tolerance(dtype))
    assert same_bits(given[1], B.astype(dtype))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors_are_read_from_the_lower_triangle(rng, dtype, order):
    A = rng.normal(size=(40, 40))
    H = np.array(A + A.T, dtype=dtype, order=order)
    values, U = eigh(np.tril(H) + np.triu(np.full_like(H, np.nan), k=1))
    tolerance = 50 * np.finfo(dtype).eps
    np.testing.assert_allclose(H @ U, values * U, atol=40 * tolerance)
    np.testing.assert_allclose(U.T @ U, np.eye(40), atol=tolerance)
    assert (np.diff(values) >= 0).all()
