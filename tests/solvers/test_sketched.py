"""Laws of the least squares on representatives by a sketched preconditioner."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kaucus.backend import to_numpy
from kaucus.kernels import Gaussian, KernelOperator, Polynomial
from kaucus.solvers import _sketched, solve_on_representatives
from kaucus.solvers._low_rank import RowData
from kaucus.solvers._sketched import prefer_sketched, solve_sketched
from tests.arrays import array, assert_close, same_bits
from tests.reference import low_rank as reference
from tests.solvers.problems import problem, weights

KERNEL = Gaussian(gamma=0.5)
TOL = {"float32": 2e-3, "float64": 1e-7}
BUDGET = 2**26


def sketched(kernel, X, Y, Z, *, sample_weight=None, **options):
    data = RowData(kernel, X, Y, sample_weight)
    return solve_sketched(data, Z, **({"budget": BUDGET, "tol": 1e-11} | options))


def decide(kernel, X, Z, solution):
    return kernel(X, Z) @ to_numpy(solution.dual_coef) + to_numpy(solution.intercept)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_direct_minimum(xp, dtype, weighted):
    p = problem(n=40, t=3)
    weight = weights(1, 40) if weighted else None
    Z = p.X[:7] + 0.1
    solution = sketched(
        KERNEL,
        array(xp, p.X, dtype),
        array(xp, p.Y),
        array(xp, Z, dtype),
        C=10.0,
        sample_weight=None if weight is None else array(xp, weight),
    )
    assert solution.info.solver == "sketched_cg"
    assert solution.info.converged
    a, b = reference.solve_on_representatives(
        KERNEL(p.X, Z), KERNEL(Z), p.Y, 10.0, weight
    )
    got = decide(KERNEL, p.X, Z, solution)
    assert_close(got, KERNEL(p.X, Z) @ a + b, atol=TOL[dtype])


@given(seed=st.integers(0, 10**6), budget=st.integers(40_000, 10**6))
def test_what_is_kept_changes_nothing(seed, budget):
    p = problem(seed, n=300)
    Z = p.X[::20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sketched, "_BLOCK_BYTES", 40 * 8 * len(Z))
        little = sketched(KERNEL, p.X, p.Y, Z, C=5.0, budget=budget)
    much = sketched(KERNEL, p.X, p.Y, Z, C=5.0)
    got, expected = (decide(KERNEL, p.X, Z, s) for s in (little, much))
    assert_close(got, expected, rtol=0, atol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_a_weight_of_two_is_two_equal_rows(seed):
    p = problem(seed, n=60)
    repeats = np.random.default_rng(seed).integers(0, 3, size=60)
    repeats[0] = 1
    Z = p.X[:5]
    by_weight = sketched(
        KERNEL, p.X, p.Y, Z, C=3.0, sample_weight=repeats.astype(float)
    )
    X, Y = np.repeat(p.X, repeats, axis=0), np.repeat(p.Y, repeats, axis=0)
    by_rows = sketched(KERNEL, X, Y, Z, C=3.0)
    got, expected = (decide(KERNEL, p.X, Z, s) for s in (by_weight, by_rows))
    assert_close(got, expected, rtol=0, atol=1e-6)


@given(seed=st.integers(0, 10**6), shift=st.floats(-1e3, 1e3))
def test_a_constant_added_to_the_targets_is_added_to_the_intercept(seed, shift):
    p = problem(seed)
    Z = p.X[:6]
    before = sketched(KERNEL, p.X, p.Y, Z, C=2.0)
    after = sketched(KERNEL, p.X, p.Y + shift, Z, C=2.0)
    atol = 1e-6 * (1 + abs(shift))
    got, expected = (decide(KERNEL, p.X, Z, s) for s in (after, before))
    assert_close(got, expected + shift, rtol=0, atol=atol)


def hard_problem(n=3000, m=60):
    """Clustered centres and a large C: what a uniform sample's matrix misses."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4)) * np.array([1.0, 1.0, 0.1, 0.1])
    Y = np.sign(rng.normal(size=(n, 2)))
    Z = np.concatenate([X[: m // 2], 0.3 * X[m // 2 : m]])
    return X, Y, Z


def test_the_residual_falls_as_the_bound_for_the_sketch_says():
    """κ ≤ ((1 + δ)/(1 − δ))² with δ² = m/s, so 2√κ ((√κ − 1)/(√κ + 1))^k."""
    X, Y, Z = hard_problem()
    told = []
    real = _sketched.conjugate_gradient

    def watched(*args, callback, **options):
        def both(step, error):
            told.append(error)
            return callback(step, error)

        return real(*args, callback=both, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sketched, "conjugate_gradient", watched)
        solution = sketched(KERNEL, X, Y, Z, C=1e5, tol=1e-6)
    delta = (1 / _sketched._OVERSAMPLING) ** 0.5
    root = (1 + delta) / (1 - delta)
    bound = 2 * root * ((root - 1) / (root + 1)) ** np.arange(1, len(told) + 1)
    assert np.all(np.array(told) <= bound)
    assert solution.info.n_iter == len(told) <= 30
    assert solution.info.backward_error == told[-1] <= 1e-6


def test_the_tolerance_decides_how_many_steps():
    X, Y, Z = hard_problem()
    steps = [
        sketched(KERNEL, X, Y, Z, C=1e4, tol=tol).info.n_iter for tol in (1e-2, 1e-8)
    ]
    assert 0 < steps[0] < steps[1]
    stopped = sketched(KERNEL, X, Y, Z, C=1e4, tol=1e-8, max_iter=2).info
    assert (stopped.n_iter, stopped.converged, stopped.stop) == (2, False, "max_iter")


def test_leave_one_out_values_are_near_the_exact_ones():
    X, Y, Z = hard_problem(600, 50)
    rows = np.arange(600)
    exact = solve_on_representatives(KERNEL, X, Y, Z, C=10.0, loo_rows=rows)
    near = sketched(KERNEL, X, Y, Z, C=10.0, loo_rows=rows)
    fitted = decide(KERNEL, X, Z, exact)
    moved = np.abs(exact.loo_decision - fitted)  # by leaving the row out
    assert np.abs(near.loo_decision - exact.loo_decision).mean() < 0.3 * moved.mean()
    ratio = np.sum(np.abs(near.loo_decision - fitted)) / np.sum(moved)
    assert 0.85 < ratio < 1.15


def test_csr_rows(rng):
    X = rng.normal(size=(80, 12)) * (rng.random((80, 12)) < 0.3)
    Y = np.sign(rng.normal(size=(80, 1)))
    Z = X[:9]
    rows = sketched(KERNEL, scipy.sparse.csr_array(X), Y, Z, C=2.0)
    dense = sketched(KERNEL, X, Y, Z, C=2.0)
    assert_close(rows.dual_coef, dense.dual_coef, rtol=1e-6, atol=1e-8)


def test_an_interrupt_of_the_first_pass_keeps_the_rows_seen(monkeypatch):
    p = problem(n=400)
    Z = p.X[:6]
    monkeypatch.setattr(_sketched, "_BLOCK_BYTES", 100 * 8 * 6)
    calls = []
    rows = KernelOperator.rows

    def stopping(self, numbers):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return rows(self, numbers)

    monkeypatch.setattr(KernelOperator, "rows", stopping)
    solution = sketched(KERNEL, p.X, p.Y, Z, C=1.0)
    assert solution.info.interrupted
    assert not solution.info.converged
    seen = solve_on_representatives(KERNEL, p.X[:200], p.Y[:200], Z, C=1.0)
    got, best = (decide(KERNEL, p.X[:200], Z, s) for s in (solution, seen))
    losses = [np.mean((f - p.Y[:200]) ** 2) for f in (got, best, 0 * best)]
    assert losses[0] < 0.5 * (losses[1] + losses[2])


@pytest.mark.parametrize("step", [0, 2])
def test_an_interrupt_of_the_iteration_keeps_the_best(monkeypatch, step):
    X, Y, Z = hard_problem()
    calls = []
    real = _sketched._gram_product

    def stopping(*args):
        calls.append(1)
        if len(calls) > step:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(_sketched, "_gram_product", stopping)
    solution = sketched(KERNEL, X, Y, Z, C=10.0)
    assert solution.info.interrupted
    assert solution.info.stop == "interrupted"
    assert solution.info.n_iter == step
    assert np.isfinite(solution.dual_coef).all()


def test_progress_reaches_the_end_and_never_falls():
    X, Y, Z = hard_problem()
    told = []
    sketched(KERNEL, X, Y, Z, C=1e5, callback=lambda done, n: told.append(done / n))
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_too_little_memory_is_told_before_any_work():
    X, Y, Z = hard_problem()
    with pytest.raises(MemoryError, match=r"60 representatives need .* larger memory_"):
        sketched(KERNEL, X, Y, Z, C=1.0, budget=10_000)


def test_the_same_bits_every_time():
    X, Y, Z = hard_problem()
    first, second = (sketched(KERNEL, X, Y, Z, C=10.0) for _ in range(2))
    assert same_bits(first.dual_coef, second.dual_coef)


def test_inputs_stay_as_they_are():
    X, Y, Z = hard_problem(500, 20)
    weight = weights(0, 500)
    before = [a.copy() for a in (X, Y, Z, weight)]
    sketched(Polynomial(degree=2), X, Y, Z, C=1.0, sample_weight=weight)
    for a, b in zip((X, Y, Z, weight), before, strict=True):
        assert same_bits(a, b)


@given(
    n=st.integers(10**3, 10**7),
    m=st.integers(10, 10**5),
    d=st.integers(1, 1000),
    t=st.integers(1, 30),
)
def test_more_memory_never_speaks_against_iterating(n, m, d, t):
    choices = [prefer_sketched(n, m, d, t, stored) for stored in (0.0, 0.5, 1.0)]
    assert choices == sorted(choices)


def test_few_representatives_are_solved_directly():
    assert not prefer_sketched(10**6, 1000, 50, 10, stored=1.0)
    assert prefer_sketched(10**6, 30_000, 50, 10, stored=0.0)


@pytest.mark.parametrize("sketched_is_cheaper", [True, False])
def test_what_costs_less_is_what_runs(monkeypatch, sketched_is_cheaper):
    X, Y, Z = hard_problem()
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: sketched_is_cheaper)
    direct = solve_on_representatives(KERNEL, X, Y, Z, C=1.0, memory_budget=BUDGET)
    expected = "sketched_cg" if sketched_is_cheaper else "normal_equations"
    assert direct.info.solver == expected


def test_what_does_not_fit_is_solved_directly(monkeypatch):
    X, Y, Z = hard_problem()
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: True)
    budget = 30 * len(Z) ** 2 + 2 * 10**5
    solution = solve_on_representatives(KERNEL, X, Y, Z, C=1.0, memory_budget=budget)
    assert solution.info.solver == "normal_equations"


@pytest.mark.gpu
def test_a_gpu_solves_directly(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    monkeypatch.setattr(_sketched, "prefer_sketched", lambda *args: True)
    X, Y, Z = (torch.as_tensor(a, device="cuda") for a in hard_problem())
    solution = solve_on_representatives(KERNEL, X, Y, Z, C=1.0, memory_budget=BUDGET)
    assert solution.info.solver == "normal_equations"
