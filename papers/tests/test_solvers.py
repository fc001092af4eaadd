"""The equations of Andrecut (2016) that random blocks leave out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from papers import _solvers as solvers


@pytest.fixture
def system(rng):
    A = rng.normal(size=(30, 30)) + 8 * np.eye(30)
    X = rng.normal(size=(30, 3))
    return A, X, A @ X


@pytest.fixture
def K(rng):
    X = rng.normal(size=(60, 4))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 8)


def test_a_row_that_was_visited_last_is_satisfied(system):
    A, _, B = system
    x = solvers.kaczmarz_rows(A, B, 1)
    assert_allclose(A[-1] @ x, B[-1], rtol=1e-10)


def test_sweeps_bring_the_solution_nearer_until_it_is_there(system):
    A, X, B = system
    errors = [np.linalg.norm(solvers.kaczmarz_rows(A, B, n) - X) for n in (0, 1, 2, 4)]
    assert np.all(np.diff(errors) < 0)  # eq. 44
    assert_allclose(solvers.kaczmarz_rows(A, B, 300), X, atol=1e-6)


def test_each_greedy_step_takes_what_equation_54_says(system):
    A, _, B = system
    norms = np.linalg.norm(A, axis=0)
    r = B
    for n in range(1, 6):
        gains = ((A / norms).T @ r) ** 2
        left = B - A @ solvers.greedy_pursuit(A, B, n)
        expected = np.sum(r**2) - gains.sum(axis=1).max()
        assert_allclose(np.sum(left**2), expected, rtol=1e-9)
        r = left


def test_greedy_pursuit_ends_at_the_solution(system):
    A, X, B = system
    assert_allclose(solvers.greedy_pursuit(A, B, 5000), X, atol=1e-6)


def test_chosen_rows_have_more_entropy_than_random_ones(K):
    def entropy(rows):
        return -np.log(K[np.ix_(rows, rows)].mean())

    few = [
        solvers.renyi_rows(K, 10, trials, np.random.default_rng(seed))
        for trials in (0, 500)
        for seed in range(5)
    ]
    assert all(len(set(rows.tolist())) == 10 for rows in few)
    random, chosen = few[:5], few[5:]
    assert min(map(entropy, chosen)) > max(map(entropy, random))


def test_a_swap_never_lowers_the_entropy(K):
    sums = [
        K[np.ix_(rows, rows)].sum()
        for trials in range(0, 60, 5)
        for rows in [solvers.renyi_rows(K, 8, trials, np.random.default_rng(0))]
    ]
    assert np.all(np.diff(sums) <= 1e-12)


def test_eigenvectors_give_equation_25(K, rng):
    rows = rng.choice(60, size=12, replace=False)
    V, values = solvers.nystrom_factors(K, rows)
    columns = K[:, rows]
    expected = columns @ np.linalg.solve(K[np.ix_(rows, rows)], columns.T)
    assert_allclose(V * values @ V.T, expected, atol=1e-8)


def test_equation_21_solves_the_approximated_system(K, rng):
    V, values = solvers.nystrom_factors(K, np.arange(12))
    Z = rng.normal(size=(60, 2))
    W = solvers.nystrom_solution(V, values, Z)
    assert_allclose(V * values @ (V.T @ W) + W / solvers.C, Z, atol=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"method": "kaczmarz rows", "n_sweeps": 2},
        {"method": "greedy pursuit", "n_steps": 600},
        {"method": "nystrom", "block_size": 150, "n_trials": 300},
    ],
    ids=lambda params: params["method"],
)
def test_each_of_them_reads_most_digits(params):
    done = solvers.measure_equations("digits", {"n_train": 400, **params}, seed=0)
    assert done.value < 15
    assert done.n_rows == 400


def test_an_unknown_method_lists_the_known():
    with pytest.raises(ValueError, match="must be 'kaczmarz rows'"):
        solvers.measure_equations("digits", {"n_train": 50, "method": "x"}, seed=0)


@pytest.mark.data
def test_a_step_is_timed(monkeypatch):
    from papers import load_split

    monkeypatch.setattr(solvers, "load_split", lambda *_, **o: load_split("digits"))
    params = {"solver": "kaczmarz", "block_size": 50, "n_steps": 2}
    done = solvers.measure_step("mnist", {**params, "quantity": "seconds"}, seed=0)
    assert 0 < done.value <= done.seconds
