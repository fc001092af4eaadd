"""Conjugate gradients: exact in n steps, honest about where they stopped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.linalg import operator_norm
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.solvers._cg import conjugate_gradient
from tests.arrays import EPS, array, assert_close, assert_to_rounding, same_bits


def system(seed=0, n=20, t=3, condition=100.0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = U * np.geomspace(1, condition, n) @ U.T
    return (A + A.T) / 2, rng.normal(size=(n, t))


def product(A):
    return lambda V: A @ V


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 1000))
def test_exact_in_as_many_steps_as_there_are_rows(n, t, seed):
    A, B = system(seed, n, t, condition=10.0)
    result = conjugate_gradient(product(A), B, tol=1e-9, max_iter=n)
    assert result.converged
    assert result.n_iter <= n
    assert_close(result.x, np.linalg.solve(A, B), rtol=1e-6, atol=1e-6)


def test_every_library_in_both_precisions(xp, dtype):
    A, B = system()
    tol = 1e-5 if dtype == "float32" else 1e-12
    given = array(xp, B, dtype)
    result = conjugate_gradient(product(array(xp, A, dtype)), given, tol=tol)
    assert type(result.x) is type(given)
    assert dtype_name(result.x) == dtype
    assert result.converged
    assert_close(result.x, np.linalg.solve(A, B), rtol=0, atol=100 * tol)
    assert same_bits(given, B.astype(dtype))


@pytest.mark.parametrize("max_iter", [1, 5, 12, 200])
@pytest.mark.parametrize("norm", [0.0, 100.0])
def test_the_backward_error_is_the_true_one(xp, max_iter, norm):
    A, B = system(n=60)
    result = conjugate_gradient(
        product(array(xp, A)),
        array(xp, B),
        tol=1e-10,
        max_iter=max_iter,
        operator_norm=norm,
    )
    X = to_numpy(result.x)
    errors = np.linalg.norm(B - A @ X, axis=0)
    errors /= np.linalg.norm(B, axis=0) + norm * np.linalg.norm(X, axis=0)
    assert result.backward_error == pytest.approx(np.max(errors), rel=1e-3, abs=1e-14)
    assert result.converged == (result.backward_error <= 1e-10)
    assert result.converged == (max_iter == 200)
    assert result.n_iter <= max_iter


def test_columns_do_not_disturb_each_other():
    A, B = system(t=3)
    together = conjugate_gradient(product(A), B, tol=1e-12)
    for j in range(3):
        alone = conjugate_gradient(product(A), B[:, j : j + 1], tol=1e-12)
        assert_close(together.x[:, j : j + 1], alone.x, rtol=1e-8, atol=1e-10)


def test_a_zero_right_hand_side_is_solved_at_once(xp):
    def never(V):
        raise AssertionError("nothing to multiply")

    result = conjugate_gradient(never, array(xp, np.zeros((5, 2))))
    assert result.n_iter == 0
    assert result.converged
    assert np.all(to_numpy(result.x) == 0)


def test_a_zero_column_stays_zero_beside_others(xp):
    A, B = system()
    B[:, 1] = 0
    result = conjugate_gradient(product(array(xp, A)), array(xp, B), tol=1e-12)
    assert np.all(to_numpy(result.x)[:, 1] == 0)
    assert_close(result.x, np.linalg.solve(A, B), atol=1e-9)


def test_a_column_that_is_done_waits_for_the_others():
    """An eigenvector is solved in one step; its later steps are 0 / 0."""
    A = np.diag(np.arange(1.0, 21.0))
    B = np.stack([np.eye(20)[3], np.ones(20)], axis=1)
    result = conjugate_gradient(product(A), B, tol=1e-13)
    assert result.n_iter > 5
    assert_close(result.x, np.linalg.solve(A, B), rtol=0, atol=1e-12)


def test_the_callback_sees_each_step_and_can_stop():
    A, B = system(n=60)
    seen = []

    def stop_at_four(step, error):
        seen.append((step, error))
        return step == 4

    result = conjugate_gradient(product(A), B, tol=1e-12, callback=stop_at_four)
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    assert result.n_iter == 4
    assert result.backward_error == seen[-1][1]
    assert not result.converged
    same = conjugate_gradient(product(A), B, tol=1e-12, max_iter=4)
    assert_to_rounding(result.x, same.x)


@pytest.mark.parametrize("max_iter", [0, -5])
def test_no_steps_are_refused(max_iter):
    with pytest.raises(ValueError, match=f"max_iter={max_iter} must be at least 1"):
        conjugate_gradient(product(np.eye(2)), np.ones((2, 1)), max_iter=max_iter)


def test_a_preconditioner_saves_steps():
    A, B = system(n=100, condition=1e4)
    plain = conjugate_gradient(product(A), B, tol=1e-8, max_iter=1000)
    # The inverse of A, disturbed by a tenth.
    M = np.linalg.inv(A) + 0.1 * np.diag(np.diag(np.linalg.inv(A)))
    helped = conjugate_gradient(
        product(A), B, tol=1e-8, max_iter=1000, precondition=product(M)
    )
    assert plain.converged
    assert helped.converged
    assert helped.n_iter < plain.n_iter / 4
    assert_close(helped.x, np.linalg.solve(A, B), rtol=1e-4, atol=1e-4)
    exact = conjugate_gradient(
        product(A), B, tol=1e-8, precondition=product(np.linalg.inv(A))
    )
    assert exact.n_iter == 1


def test_operator_norm_is_a_close_lower_bound(xp, dtype, rng):
    X = rng.normal(size=(50, 3))
    A = np.exp(-0.1 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    norm = operator_norm(
        product(array(xp, A, dtype)), array(xp, np.zeros((50, 1)), dtype), rng
    )
    truth = np.linalg.norm(A, 2)
    assert 0.9 * truth <= norm <= truth * (1 + 100 * EPS[dtype])


def test_operator_norm_of_zero_is_zero(rng):
    assert operator_norm(lambda V: 0 * V, np.zeros((5, 1)), rng) == 0
