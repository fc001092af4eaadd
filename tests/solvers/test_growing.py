"""Laws of least squares to whose representatives the hardest rows are added."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from kaucus._array.namespace import to_numpy
from kaucus.kernels import Gaussian, Polynomial
from kaucus.solvers import _columns
from kaucus.solvers._columns import (
    Judge,
    RowData,
    margin_hardness,
    random_hardness,
    residual_hardness,
    solve_on_representatives,
    solve_with_hard_rows,
)
from tests.arrays import array, assert_close
from tests.solvers.problems import of_rows, problem, weights

solve_on_representatives = of_rows(solve_on_representatives)
solve_with_hard_rows = of_rows(solve_with_hard_rows)

KERNEL = Gaussian(gamma=0.5)
TOL = {"float32": 2e-3, "float64": 1e-8}


def decide(X, Z, solution, kernel=KERNEL):
    return kernel(X, Z) @ to_numpy(solution.dual_coef) + to_numpy(solution.intercept)


def grow(p, Z, additions=(6, 5), hardness=residual_hardness, **options):
    options = {"C": 10.0, **options}
    return solve_with_hard_rows(KERNEL, p.X, p.Y, Z, additions, hardness, **options)


@pytest.mark.parametrize("budget", [None, "50KiB"], ids=["kept", "computed again"])
@pytest.mark.parametrize("weighted", [False, True])
def test_growing_equals_solving_from_the_start(xp, dtype, weighted, budget):
    p = problem(n=90, t=3)
    weight = weights(1, 90) if weighted else None
    Z = p.X[:7] + 0.1
    options = {
        "C": 10.0,
        "sample_weight": None if weight is None else array(xp, weight),
        "loo_rows": np.arange(0, 90, 9),
    }
    rows, targets = array(xp, p.X, dtype), array(xp, p.Y)
    grown = solve_with_hard_rows(
        KERNEL,
        rows,
        targets,
        array(xp, Z, dtype),
        (6, 5),
        residual_hardness,
        memory_budget=budget,
        **options,
    )
    assert len(grown.rows) == 11
    points = np.r_[Z, p.X[grown.rows]]
    once = solve_on_representatives(
        KERNEL, rows, targets, array(xp, points, dtype), **options
    )
    got = decide(p.X, points, grown.solution)
    assert_close(got, decide(p.X, points, once), atol=TOL[dtype])
    loo = grown.solution.loo_decision
    assert_close(loo, once.loo_decision, atol=5 * TOL[dtype])


def test_the_budget_decides_whether_columns_are_kept():
    Z = np.zeros((5, 3))
    assert _columns.plan_blocks(1000, 20, 10**6, Z).keep
    plan = _columns.plan_blocks(1000, 20, 10**5, Z)
    assert not plan.keep
    assert 1 <= plan.height < 1000
    with pytest.raises(MemoryError, match=r"20 representatives need .* add fewer rows"):
        _columns.plan_blocks(1000, 20, 10**4, Z)


def test_the_rows_added_are_those_of_largest_residual():
    p = problem(n=60)
    Z = p.X[:4] + 0.1
    first = solve_on_representatives(KERNEL, p.X, p.Y, Z, C=10.0)
    residuals = ((p.Y - decide(p.X, Z, first)) ** 2).sum(axis=1)
    np.testing.assert_array_equal(
        grow(p, Z, (9,)).rows, np.argsort(-residuals, kind="stable")[:9]
    )


def test_the_first_round_may_be_ordered_by_another_fit():
    p = problem(n=60)
    Z = p.X[:4] + 0.1
    other = solve_on_representatives(KERNEL, p.X[30:], p.Y[30:], Z, C=1.0)
    residuals = ((p.Y - decide(p.X, Z, other)) ** 2).sum(axis=1)
    grown = grow(p, Z, (9, 5), first_fit=other)
    hardest = np.argsort(-residuals, kind="stable")[:9]
    np.testing.assert_array_equal(grown.rows[:9], hardest)
    # The second round is ordered by the fit so far, and the end is a fit of all rows.
    so_far = grow(p, np.r_[Z, p.X[hardest]], (5,)).rows
    np.testing.assert_array_equal(grown.rows[9:], so_far)
    once = solve_on_representatives(KERNEL, p.X, p.Y, np.r_[Z, p.X[grown.rows]], C=10.0)
    assert_close(grown.solution.dual_coef, once.dual_coef, rtol=1e-6, atol=1e-8)


def test_the_judge_is_not_misled_by_another_fit():
    p, held = problem(n=90), slice(70, None)
    fitted = p._replace(X=p.X[:70], Y=p.Y[:70])
    Z = p.X[:5] + 0.1
    first = solve_on_representatives(KERNEL, p.X[:70], p.Y[:70], Z, C=10.0)
    wrong = first._replace(dual_coef=-first.dual_coef)
    scores = [
        grow(fitted, Z, judge=judge(p, held), first_fit=fit).scores[0]
        for fit in (None, wrong)
    ]
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize("t", [1, 3])
def test_the_margin_is_that_of_the_right_class(xp, t):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, t))
    labels = rng.integers(0, max(t, 2), size=20)
    if t == 1:
        targets = np.where(labels == 1, 1.0, -1.0)[:, None]
        expected = [-v * s for v, s in zip(values[:, 0], targets[:, 0], strict=True)]
    else:
        targets = np.where(labels[:, None] == np.arange(t), 1.0, -1.0)
        expected = [
            max(v for j, v in enumerate(row) if j != c) - row[c]
            for row, c in zip(values, labels, strict=True)
        ]
    got = margin_hardness(array(xp, values), array(xp, targets))
    assert_close(got, expected, rtol=1e-12)


@given(seed=st.integers(0, 10**6), n_new=st.integers(1, 60))
def test_no_row_is_added_twice_nor_one_of_weight_zero(seed, n_new):
    p = problem(seed, n=40)
    weight = weights(seed, 40)
    grown = grow(p, p.X[:3] + 0.1, (n_new, n_new), sample_weight=weight)
    assert len(set(grown.rows)) == len(grown.rows)
    assert (weight[grown.rows] > 0).all()
    assert len(grown.rows) <= min(2 * n_new, (weight > 0).sum())
    assert grown.solution.dual_coef.shape == (3 + len(grown.rows), 2)


def test_rows_that_repeat_are_added_once():
    p = problem(n=20)
    many = p._replace(X=np.tile(p.X, (4, 1)), Y=np.tile(p.Y, (4, 1)))
    Z = p.X[:3]
    rows = grow(many, Z, (12,)).rows % 20
    assert len(set(rows)) == len(rows)
    assert not set(rows) & {0, 1, 2}  # these are representatives already


def test_no_rounds_and_no_rows_left_are_the_plain_solution():
    p = problem(n=30)
    plain = solve_on_representatives(KERNEL, p.X, p.Y, p.X, C=10.0)
    for additions in ((), (5,)):
        grown = grow(p, p.X, additions)
        assert len(grown.rows) == 0
        assert_close(grown.solution.dual_coef, plain.dual_coef, rtol=1e-5, atol=1e-7)


def test_sparse_rows_are_their_dense_ones():
    p = problem(n=40)
    X = np.where(np.abs(p.X) > 0.8, p.X, 0.0)
    kernel = Polynomial(degree=2, gamma=1.0, coef0=1.0)
    parts = [
        solve_with_hard_rows(kernel, rows, p.Y, X[:5], (4, 3), residual_hardness, C=1.0)
        for rows in (X, scipy.sparse.csr_array(X))
    ]
    np.testing.assert_array_equal(parts[0].rows, parts[1].rows)
    assert_close(
        parts[1].solution.dual_coef, parts[0].solution.dual_coef, rtol=1e-5, atol=1e-7
    )


def test_nothing_that_is_passed_is_changed():
    p = problem(n=30)
    weight, Z = weights(0, 30), p.X[:4].copy()
    before = [a.copy() for a in (p.X, p.Y, weight, Z)]
    grow(p, Z, sample_weight=weight, loo_rows=np.arange(5))
    for value, old in zip((p.X, p.Y, weight, Z), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_progress_counts_every_row_by_its_work():
    p, seen = problem(n=50), []
    grow(p, p.X[:5], (5,), callback=lambda done, n: seen.append((done, n)))
    # 5 columns are a quarter of the work of 10.
    assert seen == [(12, 50), (50, 50)]


# ---- rows held out ---------------------------------------------------------------


def judge(p, rows, least_gain=-np.inf, weight=None):
    def score(values):
        return -float(np.mean((values - p.Y[rows]) ** 2))

    held = None if weight is None else weight[rows]
    return Judge(RowData(KERNEL, p.X[rows], p.Y[rows], held), score, least_gain)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_held_out_join_the_others_in_the_end(weighted):
    p, held = problem(n=90), slice(70, None)
    weight = weights(2, 90) if weighted else None
    fitted = p._replace(X=p.X[:70], Y=p.Y[:70])
    Z = p.X[:5] + 0.1
    grown = grow(
        fitted,
        Z,
        sample_weight=None if weight is None else weight[:70],
        judge=judge(p, held, weight=weight),
    )
    assert len(grown.scores) == 2
    once = solve_on_representatives(
        KERNEL, p.X, p.Y, np.r_[Z, p.X[grown.rows]], C=10.0, sample_weight=weight
    )
    assert_close(grown.solution.dual_coef, once.dual_coef, rtol=1e-6, atol=1e-8)
    assert_close(grown.solution.intercept, once.intercept, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("choose", [None, lambda m, loss: 3.0], ids=["given", "chosen"])
def test_held_out_values_are_those_of_a_fit_without_these_rows(choose):
    p, other = problem(n=90, t=2), problem(n=30, t=2, seed=5)
    held = RowData(KERNEL, other.X, other.Y, None)
    judge = Judge(held, lambda values: -np.abs(values).sum(), -np.inf)
    Z = p.X[:7] + 0.1
    grown = grow(p, Z, judge=judge, choose_C=choose)
    both = np.concatenate([Z, p.X[grown.rows]])
    C = 10.0 if choose is None else 3.0
    alone = solve_on_representatives(KERNEL, p.X, p.Y, both, C=C)
    assert_close(grown.held_out, decide(other.X, both, alone), rtol=1e-7)


@pytest.mark.parametrize("last", [-2.0, -1.0])
def test_a_round_after_which_the_loss_is_larger_is_taken_back(last):
    p, held, Z = problem(n=90), slice(70, None), problem(n=5, seed=7).X
    scores = iter([-3.0, -1.0, last])
    told = replace(judge(p, held), score=lambda values: next(scores), least_gain=0.01)
    fitted = p._replace(X=p.X[:70], Y=p.Y[:70])
    grown = grow(fitted, Z, (5, 10, 20), judge=told)
    assert grown.scores == [-3.0, -1.0, last]
    assert len(grown.rows) == (5 if last < -1.0 else 15)
    once = solve_on_representatives(KERNEL, p.X, p.Y, np.r_[Z, p.X[grown.rows]], C=10.0)
    assert_close(grown.solution.dual_coef, once.dual_coef, rtol=1e-6, atol=1e-8)
    assert_close(grown.solution.intercept, once.intercept, rtol=1e-6, atol=1e-8)


def test_c_is_chosen_by_the_rows_held_out_for_the_last_columns():
    p, held = problem(n=90), slice(70, None)
    fitted = p._replace(X=p.X[:70], Y=p.Y[:70])
    Z, asked = p.X[:5] + 0.1, []

    def choose_C(m, loss):
        asked.append((m, loss(10.0), loss(0.3)))
        return 0.3

    grown = grow(fitted, Z, judge=judge(p, held), choose_C=choose_C)
    points = np.r_[Z, p.X[grown.rows]]
    [(m, *losses)] = asked
    assert m == len(points)
    for C, loss in zip((10.0, 0.3), losses, strict=True):
        some = solve_on_representatives(KERNEL, fitted.X, fitted.Y, points, C=C)
        values = decide(p.X[held], points, some)
        assert loss == pytest.approx(np.mean((values - p.Y[held]) ** 2))
    once = solve_on_representatives(KERNEL, p.X, p.Y, points, C=0.3)
    assert_close(grown.solution.dual_coef, once.dual_coef, rtol=1e-6, atol=1e-8)


def test_the_judge_stops_where_nothing_is_gained():
    p = problem(n=200, t=1)
    p = p._replace(Y=np.sin(p.X[:, :1]))
    fitted = p._replace(X=p.X[:150], Y=p.Y[:150])
    Z, additions = p.X[:4], (4, 8, 16, 32)
    keen = grow(fitted, Z, additions, judge=judge(p, slice(150, None)))
    assert len(keen.rows) == 60
    seen = []
    lazy = grow(
        fitted,
        Z,
        additions,
        judge=judge(p, slice(150, None), 0.999),
        callback=lambda done, n: seen.append((done, n)),
    )
    assert seen[-1] == (150, 150)
    assert len(lazy.rows) == 4
    assert len(lazy.scores) == 2


def test_the_judge_decides_between_ways_of_choosing():
    """Targets are zero but near the origin, which the right choice knows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * 3
    near = (X**2).sum(axis=1) < 9
    Y = np.exp(-(X**2).sum(axis=1))[:, None]

    def inner(values, targets):
        return targets[:, 0] ** 2

    def outer(values, targets):
        return -(targets[:, 0] ** 2)

    p = problem(n=400)._replace(X=X, Y=Y)
    fitted = p._replace(X=X[:300], Y=Y[:300])
    for choices, best in (((outer, inner), 1), ((inner, outer), 0)):
        grown = grow(
            fitted, X[:3], (15, 5), hardness=choices, judge=judge(p, slice(300, None))
        )
        assert grown.choice == best
        assert near[grown.rows].all()


def test_rows_at_random_are_other_rows_each_time():
    p = problem(n=60)
    draws = [
        grow(p, p.X[:4], (10,), random_hardness(np.random.default_rng(seed))).rows
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert set(draws[0]) != set(draws[2])
