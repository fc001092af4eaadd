"""Choosing by leave-one-out: scores, ties, copies, memory."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error

from kaucus._array.namespace import to_numpy
from kaucus.fitting import _search as loo_search
from kaucus.fitting._search import search_by_leave_one_out, weights_without_copies
from kaucus.kernels import Gaussian
from kaucus.solvers._direct import decompose_ls_svm, solve_at
from kaucus.solvers._system import (
    Score,
    classification_score,
    regression_score,
    softmax,
)
from tests.arrays import array


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(30, 2))
    return X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(30, 1))


KERNELS = [Gaussian(gamma=g) for g in (0.1, 1.0, 10.0)]
CS = [0.1, 10.0, 1000.0]


def test_the_best_of_all_kernels_and_cs_is_found(xp, problem):
    X, Y = problem
    search = search_by_leave_one_out(
        KERNELS,
        array(xp, X),
        array(xp, Y),
        CS,
        lambda loo: regression_score(loo, Y, "neg_mean_squared_error"),
    )
    scores = np.empty((3, 3))
    for g, kernel in enumerate(KERNELS):
        spectrum = decompose_ls_svm(kernel(X), Y)
        for c, C in enumerate(CS):
            loo = solve_at(spectrum, C).loo_decision
            scores[g, c] = -np.mean((loo - Y) ** 2)
    assert_allclose(search.scores, scores, rtol=1e-8)
    g, c = np.unravel_index(scores.argmax(), scores.shape)
    assert (search.best_kernel, search.best_C) == (g, CS[c])


def test_equal_scores_are_decided_by_the_tie_break(problem):
    X, Y = problem
    tie_breaks = iter([0.0, 5.0, 1.0])
    search = search_by_leave_one_out(
        KERNELS[:1], X, Y, CS, lambda loo: Score(1.0, next(tie_breaks))
    )
    assert search.best_C == CS[1]


# ---- of many rows: a screen, then exact models ---------------------------------------


@pytest.fixture
def many_rows(rng, monkeypatch):
    """Rows, targets and weights for which pairs are screened, and their search."""
    monkeypatch.setattr(loo_search, "_FEW_EXACT_ROWS", 50)
    monkeypatch.setattr(loo_search, "_LEAST_COLUMNS", 40)
    X = rng.uniform(-3, 3, size=(160, 2))
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(160, 1))
    weight = rng.integers(0, 3, size=160).astype(float)

    def search(like=None, kernels=WIDTHS, Cs=MANY_CS, s=None, wait=None):
        rows, targets = X, Y
        weight = s if like is None or s is None else like(s)
        if like is not None:
            rows, targets = like(X), like(Y)
        return search_by_leave_one_out(
            kernels,
            rows,
            targets,
            Cs,
            lambda loo: regression_score(loo, Y, "neg_mean_squared_error", s),
            sample_weight=weight,
            callback=wait,
        )

    return X, Y, weight, search


WIDTHS = [Gaussian(gamma=float(g)) for g in 4.0 ** np.arange(-3, 4)]
MANY_CS = 10.0 ** np.arange(-3, 5)


@pytest.mark.parametrize("weighted", [False, True])
def test_of_many_rows_the_best_pairs_are_judged_exactly(xp, many_rows, weighted):
    X, Y, weight, search = many_rows
    s = weight if weighted else None
    found = search(lambda v: array(xp, v), s=s)
    exact = found.n_columns == len(X)
    assert 3 <= exact.sum() < 20
    assert set(found.n_columns[~exact]) == {40}
    scores = np.full(exact.shape, -np.inf)
    for g, c in np.argwhere(exact):
        spectrum = decompose_ls_svm(WIDTHS[g](X), Y, sample_weight=s)
        loo = solve_at(spectrum, MANY_CS[c]).loo_decision
        judged = regression_score(loo, Y, "neg_mean_squared_error", s)
        scores[g, c] = judged.value
        if MANY_CS[c] == found.best_C and g == found.best_kernel:
            assert_allclose(to_numpy(found.solution.loo_decision), loo, rtol=1e-6)
    assert_allclose(found.scores[exact], scores[exact], rtol=1e-6)
    g, c = np.unravel_index(scores.argmax(), scores.shape)
    assert (found.best_kernel, found.best_C) == (g, MANY_CS[c])
    assert found.best_score == pytest.approx(scores.max())


def test_of_many_rows_no_pair_beside_the_best_is_better(many_rows, monkeypatch):
    *_, search = many_rows
    found = search()
    monkeypatch.setattr(loo_search, "_FEW_EXACT_ROWS", 1000)
    every = search()
    assert (every.n_columns == 160).all()
    g, c = found.best_kernel, list(MANY_CS).index(found.best_C)
    beside = every.scores[g, max(c - 1, 0) : c + 2]
    assert every.scores[g, c] == beside.max()
    assert every.best_score == every.scores.max()
    assert found.best_score > every.best_score * 1.05  # both are negative


@pytest.mark.parametrize(
    ("kernels", "Cs"), [(WIDTHS[3:4], MANY_CS), (WIDTHS[2:5], MANY_CS[4:5])]
)
def test_of_many_rows_one_kernel_or_one_C_will_do(many_rows, kernels, Cs):
    *_, search = many_rows
    found = search(kernels=kernels, Cs=Cs)
    assert found.scores.shape == (len(kernels), len(Cs))
    assert found.best_score == found.scores[found.n_columns == 160].max()


def test_of_many_rows_that_repeat_each_other_eigenvalues_help(many_rows, monkeypatch):
    X, Y, _, _ = many_rows
    rows = np.repeat(X[:80], 2, axis=0).round(1)
    found = search_by_leave_one_out(
        [Gaussian(gamma=1e-6)],
        rows,
        Y,
        [1e16],
        lambda loo: regression_score(loo, Y, "neg_mean_squared_error"),
    )
    assert found.solution.info.solver == "eigh"
    assert found.solution.info.jitter == 0


@pytest.mark.parametrize("few", [10, 1000])
def test_copies_of_rows_are_left_out_together(xp, problem, monkeypatch, few):
    """Scores are those of the rows alone, with the weight of their copies."""
    monkeypatch.setattr(loo_search, "_FEW_EXACT_ROWS", few)
    X, Y = problem
    rng = np.random.default_rng(0)
    order = rng.permutation(np.repeat(np.arange(30), 4))
    near, many = X[order] + 1e-6 * rng.normal(size=(120, 2)), Y[order]

    def search(X, Y, weight):
        score = functools.partial(regression_score, scoring="neg_mean_squared_error")
        given = None if weight is None else array(xp, weight)
        return search_by_leave_one_out(
            KERNELS,
            array(xp, X),
            array(xp, Y),
            CS,
            lambda values: score(values, Y),
            sample_weight=given,
        )

    alone, found = search(X, Y, np.full(30, 4.0)), search(near, many, None)
    assert (found.best_kernel, found.best_C) == (alone.best_kernel, alone.best_C)
    assert found.best_score == pytest.approx(alone.best_score, rel=1e-3)
    values = to_numpy(alone.solution.loo_decision)[order]
    assert_allclose(to_numpy(found.solution.loo_decision), values, rtol=0, atol=1e-3)


def test_near_rows_of_different_targets_are_rows_of_their_own(problem):
    X, Y = problem
    near, many = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    weight, first = weights_without_copies(near, many, None)
    assert_allclose(weight, np.tile([2.0, 0.0], 30))
    assert_allclose(first, 2 * (np.arange(60) // 2))
    given = np.where(np.arange(60) < 2, 0.0, 3.0)
    weight, _ = weights_without_copies(near, many, given)
    assert_allclose(weight[:4], [0.0, 0.0, 6.0, 0.0])
    assert weights_without_copies(X, Y, None) is None
    many[1] += 0.1
    assert weights_without_copies(near, many, None) is None


def test_too_little_memory_is_told_before_any_work(problem):
    X, Y = problem

    def never(*_):
        raise AssertionError("the kernel was computed")

    with pytest.raises(MemoryError, match=r"30 rows .* 35\.2 KiB; .* max_samples=4 "):
        search_by_leave_one_out([never], X, Y, CS, never, memory_budget=700)


def test_regression_scores_are_scikit_learns(rng):
    y, f, w = rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), rng.uniform(size=20)
    assert_allclose(
        regression_score(f, y, "neg_mean_squared_error", w).value,
        -mean_squared_error(y, f, sample_weight=w),
    )
    assert_allclose(
        regression_score(f, y, "neg_mean_absolute_error", w).value,
        -mean_absolute_error(y, f, sample_weight=w),
    )


def test_classification_scores_are_what_they_are_called(rng):
    decision, labels = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    w = rng.uniform(size=40)
    assert_allclose(
        classification_score(decision, labels, "accuracy", w).value,
        accuracy_score(labels, decision.argmax(axis=1), sample_weight=w),
    )
    targets = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    squared = np.average(((decision - targets) ** 2).mean(axis=1), weights=w)
    assert_allclose(
        classification_score(decision, labels, "neg_mean_squared_error", w).value,
        -squared,
    )
    # Log-loss is that of the best temperature: no worse than any.
    best = classification_score(decision, labels, "neg_log_loss").value
    for temperature in (0.3, 1.0, 5.0, 1000.0):
        p = softmax(decision, temperature)[np.arange(40), labels]
        assert best >= np.mean(np.log(p)) - 0.05  # targets are a little smoothed


def test_rows_of_weight_zero_do_not_count(rng):
    decision, labels = rng.normal(size=(10, 3)), rng.integers(3, size=10)
    decision[4] = np.nan
    w = np.ones(10)
    w[4] = 0
    rest = np.arange(10) != 4
    for scoring in ("accuracy", "neg_log_loss", "neg_mean_squared_error"):
        assert_allclose(
            classification_score(decision, labels, scoring, w),
            classification_score(decision[rest], labels[rest], scoring),
        )
