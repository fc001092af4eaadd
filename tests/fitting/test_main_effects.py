"""What columns explain alone, and the first step of a metric that is made of it."""

import numpy as np
import pytest

from kaucus.fitting import _search
from kaucus.fitting._problem import NumberTargets, Problem
from kaucus.fitting._search import Family, MetricOptions, main_effects, search_metric
from kaucus.kernels._kernel import kernel_class
from tests.arrays import assert_close


@pytest.fixture
def table(rng):
    """Rows of eight columns; the target is a function of the second, and noise."""
    X = rng.normal(size=(4000, 8))
    noise = rng.normal(size=4000)
    return X, (np.abs(X[:, 1]) + 0.6 * noise)[:, None]


def test_a_column_explains_its_share_of_the_variance(table):
    """Bins of equal weight lose little of a smooth function."""
    X, Y = table
    share = np.var(np.abs(X[:, 1])) / np.var(Y)
    assert_close(main_effects(X, Y), np.eye(8)[1] * share, atol=0.05)
    assert np.count_nonzero(main_effects(X, Y)) == 1


def test_only_the_order_of_values_matters(table):
    X, Y = table
    assert_close(main_effects(np.exp(X), 7 - 3 * Y), main_effects(X, Y))


def test_several_targets_are_shares_of_their_sum(table, rng):
    """By the variance of each."""
    X, Y = table
    other = 2 * X[:, 5:6]
    both = main_effects(X, np.hstack([Y, other]))
    total = Y.var() + other.var()
    assert_close(both[1] * total, main_effects(X, Y)[1] * Y.var(), atol=0.05)
    assert_close(both[5] * total, other.var(), rtol=0.05)


def test_weights_count_rows(table):
    X, Y = table
    assert_close(main_effects(X, Y, np.full(4000, 2.5)), main_effects(X, Y))
    # Rows that hardly weigh anything might as well not be there.
    weight = np.where(np.arange(4000) < 2000, 1.0, 1e-9)
    mixed = np.where(weight[:, None] == 1, Y, X[:, 3:4])
    found = main_effects(X, mixed, weight)
    assert found[1] > 0.2
    assert found[3] == 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_of_few_rows_or_one_target_nothing_is_explained(rng, n):
    X = rng.normal(size=(n, 3))
    assert not main_effects(X, np.ones((n, 1))).any()
    assert not main_effects(X, rng.normal(size=(n, 2))).any()


def test_few_of_many_columns_are_found(rng, monkeypatch):
    """Where distances of all columns tell nothing, and gradients are noise."""
    X = rng.normal(size=(900, 120))
    y = X[:, 3] ** 2 / 2 + np.sin(2 * X[:, 7]) + 0.1 * rng.normal(size=900)
    options = MetricOptions([Family(kernel_class("rbf")(), "tune")], (0.1, 1.0, 10.0))

    def least_loss():
        problem = Problem.of(X, NumberTargets(y[:, None], 5), None)
        found = search_metric(problem, options, np.random.default_rng(0))
        squares = found.row_map.weights**2
        return -found.results["score"].max(), squares / squares.sum()

    loss, weights = least_loss()
    assert weights[[3, 7]].sum() > 0.95
    assert weights[[3, 7]].min() > 0.2
    monkeypatch.setattr(_search, "_MANY_COLUMNS", 121)
    assert loss < 0.2 * least_loss()[0]
