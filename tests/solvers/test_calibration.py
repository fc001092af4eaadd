"""One temperature turns decision values into probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kaucus._array.namespace import dtype_name, to_numpy
from kaucus.solvers._system import (
    fit_shift,
    fit_temperature,
    softmax,
    sum_of_exponentials,
    two_columns,
)
from tests.arrays import EPS, array, assert_close

decisions = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(2, 5)),
    elements=st.floats(-1e3, 1e3),
)


@given(decisions, st.floats(1e-3, 1e3))
def test_softmax_is_a_distribution_that_keeps_the_order(decision, temperature):
    p = softmax(decision, temperature)
    assert_close(p.sum(axis=1), np.ones(len(p)), rtol=1e-14)
    assert np.all(p >= 0)
    rows = np.arange(len(p))
    assert np.all(p[rows, np.argmax(decision, axis=1)] == p.max(axis=1))


def test_softmax_on_every_library(xp, dtype, rng):
    f = rng.normal(size=(6, 4))
    p = softmax(array(xp, f, dtype), 0.5)
    assert dtype_name(p) == dtype
    expected = np.exp(2 * f) / np.exp(2 * f).sum(axis=1, keepdims=True)
    assert_close(p, expected, rtol=50 * EPS[dtype])


def test_two_columns_give_the_logistic_function(xp, rng):
    f = rng.normal(size=(6, 1))
    p = to_numpy(softmax(two_columns(array(xp, f)), 2.0))
    assert_close(p[:, 1], 1 / (1 + np.exp(-f[:, 0] / 2)), rtol=1e-13)


def labelled(rng, n, k, temperature):
    decision = 3 * temperature * rng.normal(size=(n, k))
    cumulated = np.cumsum(softmax(decision, temperature), axis=1)
    return decision, np.sum(rng.random((n, 1)) > cumulated[:, :-1], axis=1)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("k", [2, 5])
def test_finds_the_temperature_of_the_data(rng, temperature, k):
    decision, labels = labelled(rng, 20_000, k, temperature)
    assert fit_temperature(decision, labels) == pytest.approx(temperature, rel=0.05)


@pytest.mark.parametrize("factor", [0.1, 7.0])
def test_scales_with_the_decision_values(rng, factor):
    decision, labels = labelled(rng, 300, 3, 1.0)
    plain = fit_temperature(decision, labels)
    scaled = fit_temperature(factor * decision, labels)
    assert scaled == pytest.approx(factor * plain, rel=1e-4)


def test_has_less_log_loss_than_its_neighbours(rng):
    """On many rows the smoothing of the targets is small."""
    decision, labels = labelled(rng, 20_000, 3, 1.0)
    best = fit_temperature(decision, labels)

    def loss(temperature):
        p = softmax(decision, temperature)
        return -np.mean(np.log(p[np.arange(len(p)), labels]))

    assert loss(best) <= min(loss(0.95 * best), loss(1.05 * best))


def test_separable_data_has_a_finite_temperature(rng):
    labels = rng.integers(3, size=60)
    decision = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    temperature = fit_temperature(decision, labels)
    p = softmax(decision, temperature)[np.arange(60), labels]
    assert 0.01 < temperature < 10
    assert np.all((p > 0.8) & (p < 1))
    # More rows, more certainty: Platt's targets come nearer to 1.
    more = fit_temperature(np.tile(decision, (50, 1)), np.tile(labels, 50))
    assert more < temperature


def test_useless_decision_values_give_the_shares(rng):
    """Where the values say nothing, all classes are about equally likely."""
    decision, labels = rng.normal(size=(5000, 3)), rng.integers(3, size=5000)
    p = softmax(decision, fit_temperature(decision, labels))
    assert_close(p, np.full_like(p, 1 / 3), atol=0.1)


def test_rows_of_weight_zero_and_unknown_values_are_passed_over(rng):
    decision, labels = labelled(rng, 300, 3, 1.0)
    expected = fit_temperature(decision, labels)
    more = np.concatenate([decision, -100 * decision[:50]])
    more_labels = np.concatenate([labels, labels[:50]])
    weight = np.r_[np.ones(300), np.zeros(50)]
    assert fit_temperature(more, more_labels, weight) == pytest.approx(expected)
    more[300:] = np.nan
    assert fit_temperature(more, more_labels) == pytest.approx(expected)
    more[300:, 0] = np.inf
    assert fit_temperature(more, more_labels) == pytest.approx(expected)


@pytest.mark.parametrize("w", [0.01, 1.5, 100.0])
def test_a_factor_of_the_weights_changes_nothing(rng, w):
    decision, labels = labelled(rng, 60, 3, 0.5)
    decision[:, 0] += 1.0
    weight = rng.integers(0, 4, size=60)
    expected = fit_temperature(decision, labels, weight)
    assert fit_temperature(decision, labels, w * weight) == pytest.approx(expected)
    expected = fit_shift(decision, labels, weight)
    assert expected.any()
    assert_close(fit_shift(decision, labels, w * weight), expected, rtol=1e-6)


def test_the_larger_weight_counts_more(rng):
    """Of a sharp and a blunt set of values, the temperature is nearer to its own."""
    sharp, labels = labelled(rng, 300, 3, 0.5)
    both, twice = np.concatenate([sharp, sharp / 8]), np.tile(labels, 2)
    found = [
        fit_temperature(both, twice, np.repeat([s, 1.0], 300)) for s in (9.0, 1 / 9)
    ]
    assert found[0] > 2 * found[1]


def test_no_known_rows_give_one():
    assert fit_temperature(np.full((3, 2), np.nan), np.array([0, 1, 1])) == 1.0
    assert fit_temperature(np.ones((2, 2)), np.array([0, 1]), np.zeros(2)) == 1.0


def test_the_sum_of_exponentials_is_the_printed_formula(rng):
    K, A, b = rng.random((4, 6)), rng.normal(size=(6, 3)), rng.normal(size=3)
    expected = np.empty((4, 3))
    for i in range(4):
        for j in range(3):
            expected[i, j] = sum(np.exp(K[i, n] * A[n, j] + b[j]) for n in range(6))
    expected /= expected.sum(axis=1, keepdims=True)
    assert_close(sum_of_exponentials(K, A, b), expected, rtol=1e-12)


def test_the_sum_of_exponentials_does_not_overflow():
    p = sum_of_exponentials(np.full((2, 3), 1e4), np.ones((3, 2)), np.zeros(2))
    assert_close(p, np.full((2, 2), 0.5))


# ---- shifts ----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_finds_the_shift_of_the_data(rng, k, weighted):
    """Values from which something was taken; weights of 0 hide rows that were not."""
    decision, labels = labelled(rng, 20_000, k, 0.7)
    taken = np.linspace(-1, 1, k)
    weight = rng.integers(0, 3, 20_000) if weighted else np.ones(20_000)
    shifted = np.where(weight[:, None] == 0, decision, decision - taken)
    given = weight if weighted else None
    assert_close(fit_shift(shifted, labels, given), taken, rtol=0, atol=0.1)


def test_the_shift_is_where_the_log_loss_is_least(rng):
    decision, labels = labelled(rng, 400, 3, 0.5)
    decision[:, 1] += 0.8

    def log_loss(shift):
        p = softmax(decision + shift, fit_temperature(decision + shift, labels))
        return -np.log(p[np.arange(400), labels]).mean()

    shift = fit_shift(decision, labels)
    assert shift.sum() == pytest.approx(0, abs=1e-12)
    best = log_loss(shift)
    for j in range(3):
        for step in (-0.1, 0.1):
            assert log_loss(shift + step * np.eye(3)[j]) > best - 1e-4


def test_what_chance_would_gain_is_no_shift(rng):
    """Of values that are right, few samples gain more than Akaike's criterion asks."""
    moved = 0
    for _ in range(100):
        decision, labels = labelled(rng, 200, 2, 1.0)
        moved += bool(fit_shift(decision, labels).any())
    assert moved < 30  # 16 are expected


@pytest.mark.parametrize(
    ("decision", "labels"),
    [
        (np.zeros((6, 2)), [0, 1, 0, 1, 0, 1]),
        ([[1.0, -1.0], [0.5, -0.5]], [0, 0]),  # a class without a row
        ([[1.0, -1.0], [-1.0, 1.0]] * 50, [1, 0] * 50),  # all wrong
        ([[np.nan, np.nan], [1.0, 0.0]], [0, 1]),
    ],
)
def test_values_that_tell_nothing_have_no_shift(decision, labels):
    assert_close(fit_shift(np.asarray(decision), np.asarray(labels)), np.zeros(2))
