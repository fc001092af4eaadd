"""One step of each randomized solver is the paper's formula, and keeps its law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian, KernelOperator
from kaucus.solvers._blocks import (
    RANDOMIZED,
    Setting,
    acceleration,
    block_gram,
    block_inverse,
    bordered,
    draw_block,
    invert_gram,
    theta_block,
    theta_product,
)
from kaucus.solvers._system import scale_targets
from tests.arrays import array, assert_close, same_bits
from tests.reference import randomized as reference
from tests.solvers.problems import problem, weights

KERNEL = Gaussian(gamma=0.5)
C = 10.0
ROWS = np.array([7, 3, 20, 11])


class Case:
    """A problem, its Θ in full, and blocks of it."""

    def __init__(self, xp, dtype="float64", *, weighted=False, budget=0, n=30):
        X, K, Y = problem(n=n)
        s = weights(1, n) if weighted else None
        self.theta = reference.theta(K, C, s)
        self.Z = reference.bordered(Y, s)
        self.exact = np.linalg.solve(self.theta, self.Z)
        self.targets = scale_targets(array(xp, Y), None if s is None else array(xp, s))
        X = array(xp, X, dtype)
        copies = X.shape[0] * X.shape[1] * np.dtype(dtype).itemsize
        budget = copies + budget * 4 // 3  # a quarter is for tiles
        self.operator = KernelOperator(
            KERNEL, X, memory_budget=budget, keep="rows", widen=False
        )
        self.right = bordered(self.targets)

    def block(self, rows=ROWS):
        E, order = draw_block(self.operator, np.asarray(rows))
        return theta_block(E, order, self.targets, C, overwrite=True)

    def solver(self, name, block_size=8, **setting):
        setting = Setting(C, block_size, np.random.default_rng(0), **setting)
        return RANDOMIZED[name](self.operator, self.targets, setting)

    def state(self, xp, W):
        return {"W": array(xp, W), "R": array(xp, self.Z - self.theta @ W)}


TOL = {"float64": 1e-9, "float32": 2e-3}


@pytest.mark.parametrize("weighted", [False, True])
def test_a_block_is_rows_of_theta(xp, dtype, weighted):
    case = Case(xp, dtype, weighted=weighted)
    block = case.block()
    rows = to_numpy(block.rows)
    assert rows[0] == 0
    assert sorted(rows[1:] - 1) == sorted(ROWS)
    assert_close(block.E, case.theta[rows], rtol=0, atol=1e-6)
    assert_close(case.right, case.Z)


@pytest.mark.parametrize("rows_kept", [0, 2, 5, 30])
def test_rows_are_the_same_kept_or_not(xp, rows_kept):
    case = Case(xp, budget=8 * 30 * rows_kept)
    assert case.operator.stored_share == rows_kept / 30
    for rows in (ROWS, ROWS[::-1], np.array([3, 4, 5, 11, 29]), ROWS):
        block = case.block(rows)
        assert_close(block.E, case.theta[to_numpy(block.rows)], atol=1e-14)


@pytest.mark.parametrize("rows_kept", [0, 10, 30])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_with_theta(xp, rng, rows_kept, weighted):
    case = Case(xp, weighted=weighted, budget=8 * 30 * rows_kept)
    V = rng.normal(size=(31, 3))
    case.block()  # some rows are there already
    for _ in range(2):
        values = theta_product(case.operator, case.targets, C, array(xp, V))
        assert_close(values, case.theta @ V, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_kaczmarz_is_equation_47(xp, dtype, weighted, rng):
    case = Case(xp, dtype, weighted=weighted)
    W = rng.normal(size=case.Z.shape)
    given_W = array(xp, W)
    result = case.solver("kaczmarz").step(case.block(), {"W": given_W})
    expected = reference.kaczmarz(case.theta, case.Z, W, ROWS)
    assert_close(result.state["W"], expected, rtol=0, atol=TOL[dtype])
    assert same_bits(given_W, W)
    s = reference.with_intercept(ROWS)
    R = np.linalg.norm((case.Z - case.theta @ W)[s], axis=0)
    assert result.residual == pytest.approx(
        max(R / np.linalg.norm(case.Z[s], axis=0)), rel=1e-3
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_matching_pursuit_is_equations_57_to_59(xp, dtype, weighted, rng):
    case = Case(xp, dtype, weighted=weighted)
    W = rng.normal(size=case.Z.shape)
    state = case.state(xp, W)
    result = case.solver("matching_pursuit").step(case.block(), state)
    expected, R = reference.matching_pursuit(case.theta, case.Z, W, ROWS)
    assert_close(result.state["W"], expected, rtol=0, atol=TOL[dtype])
    assert_close(result.state["R"], R, rtol=0, atol=TOL[dtype])
    assert same_bits(state["W"], W)


@pytest.mark.parametrize("safeguard", [False, True])
def test_the_hybrid_is_a_step_of_each(xp, dtype, safeguard, rng):
    case = Case(xp, dtype)
    W = rng.normal(size=case.Z.shape)
    state = case.state(xp, W)
    hybrid = case.solver("kaczmarz_mp", safeguard=safeguard)
    result = hybrid.step(case.block(), state)
    expected, R = reference.kaczmarz_mp(case.theta, case.Z, W, ROWS, safeguard)
    assert_close(result.state["W"], expected, rtol=0, atol=TOL[dtype])
    assert_close(result.state["R"], R, rtol=0, atol=TOL[dtype])


def test_a_committee_is_the_mean_of_its_members(xp, dtype):
    case = Case(xp, dtype)
    committee = case.solver("nystrom")
    state = committee.begin()
    blocks = [ROWS, np.arange(21, 28), np.array([0, 29])]
    for rows in blocks:
        state = committee.step(case.block(rows), state).state
    members = [reference.nystrom(case.theta, case.Z, rows) for rows in blocks]
    assert_close(state["W"], np.mean(members, axis=0), rtol=0, atol=TOL[dtype])


def errors_and_residuals(name, sizes, seed=0, **setting):
    """Return ‖W − W*‖ and ‖Z − ΘW‖ of each column after each of some steps."""
    case, rng = Case(np), np.random.default_rng(seed)
    solver = case.solver(name, **setting)
    state, errors, residuals = solver.begin(), [], []
    for size in sizes:
        rows = rng.permutation(30)[:size]
        state = solver.step(case.block(rows), state).state
        W = to_numpy(state["W"])
        errors.append(np.linalg.norm(W - case.exact, axis=0))
        residuals.append(np.linalg.norm(case.Z - case.theta @ W, axis=0))
    return np.array(errors), np.array(residuals)


def never_rises(values):
    return (np.diff(values, axis=0) <= 1e-12 * values[:-1] + 1e-13).all()


@given(st.lists(st.integers(1, 30), min_size=2, max_size=8), st.integers(0, 99))
def test_the_error_of_kaczmarz_never_rises(sizes, seed):
    errors, _ = errors_and_residuals("kaczmarz", sizes, seed)
    assert never_rises(errors)


@pytest.mark.parametrize("name", ["matching_pursuit", "kaczmarz_mp"])
@given(st.lists(st.integers(1, 30), min_size=2, max_size=8), st.integers(0, 99))
def test_the_residual_of_matching_pursuit_and_of_the_safe_hybrid_never_rises(
    name, sizes, seed
):
    _, residuals = errors_and_residuals(name, sizes, seed)
    assert never_rises(residuals)


def test_the_residual_of_the_printed_hybrid_rises():
    sizes = [10] * 30
    _, printed = errors_and_residuals("kaczmarz_mp", sizes, safeguard=False)
    _, safe = errors_and_residuals("kaczmarz_mp", sizes)
    assert not never_rises(printed)
    assert (safe[-1] < printed[-1]).all()


def test_block_descent_carries_its_residuals(xp, dtype, rng):
    case = Case(xp, dtype, weighted=True)
    H, descent = case.theta[1:, 1:], case.solver("block_descent")
    state = descent.begin()
    for _ in range(6):
        block = case.block(rng.permutation(30)[:8])
        state = descent.step(block, state).state
        for W, R in (("W", "R"), ("V", "RV")):
            expected = to_numpy(descent.right) - H @ to_numpy(state[W])
            assert_close(state[R], expected, rtol=0, atol=TOL[dtype])


def test_a_block_of_descent_is_solved(xp):
    """Without momentum, the block's equations hold after its step."""
    case = Case(xp)
    descent = case.solver("block_descent", block_size=30)
    descent.speed = acceleration(30, 30, 1.0)
    block = case.block()
    result = descent.step(block, descent.begin())
    rows = to_numpy(block.rows)[1:] - 1
    assert_close(to_numpy(result.state["R"])[rows], np.zeros((4, 3)), atol=1e-12)


def test_the_approximate_inverse_of_a_large_block_is_near_the_exact_one(xp, rng):
    H = array(xp, Case(np, n=80).theta[1:, 1:])
    exact = block_inverse(array(xp, to_numpy(H)), C, rng)
    near = block_inverse(H, C, rng, exact_rows=60)
    identity = np.eye(80)
    P = to_numpy(near(array(xp, identity)))
    # Preconditioned, the block has eigenvalues of at most 1, and not near 0.
    values = np.linalg.eigvals(P @ to_numpy(H)).real
    assert values.max() <= 1.05
    assert values.min() > 0.02
    assert_close(exact(H), identity, atol=1e-9)


def test_speed_is_that_of_the_paper():
    alpha, beta, gamma = acceleration(100, 25, 0.01)
    assert gamma == pytest.approx(1 / (0.01 * 4) ** 0.5)
    assert alpha == pytest.approx(1 / (1 + gamma * 4))
    assert beta == pytest.approx(1 - (0.01 / 4) ** 0.5)
    # One block of all rows and the largest rate: no momentum.
    assert acceleration(100, 100, 5.0) == (0.5, 0.0, 1.0)


# ---- pseudo-inverses -------------------------------------------------------------


def test_the_pseudo_inverse_of_full_rank(xp, rng):
    E = rng.normal(size=(6, 20)) * 10.0 ** np.arange(6)[:, None]
    inverse = invert_gram(block_gram(array(xp, E)))
    assert not inverse.rank_revealing
    got = E.T @ to_numpy(inverse(array(xp, np.eye(6))))
    expected = np.linalg.pinv(E)
    assert_close(got, expected, rtol=1e-7, atol=1e-12)


def test_the_pseudo_inverse_of_rows_that_repeat(xp, rng):
    E = rng.normal(size=(6, 20))
    E[3], E[5] = E[1], 0.0
    inverse = invert_gram(block_gram(array(xp, E)))
    assert inverse.rank_revealing
    got = E.T @ to_numpy(inverse(array(xp, np.eye(6))))
    assert_close(got, np.linalg.pinv(E), rtol=0, atol=1e-10)


def test_the_gram_matrix_of_single_precision_is_summed_in_double(xp, rng):
    E = rng.normal(size=(3, 5000)).astype("float32") + 100
    exact = E.astype("float64") @ E.T.astype("float64")
    assert_close(block_gram(array(xp, E)), exact, rtol=1e-12)
