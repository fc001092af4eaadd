"""Choosing by leave-one-out: scores, ties, memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error

from kaucus.kernels import Gaussian
from kaucus.solvers import (
    classification_score,
    regression_score,
    search_by_leave_one_out,
    softmax,
)
from kaucus.solvers._path import decompose_ls_svm, solve_at
from kaucus.solvers._scores import Score
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
