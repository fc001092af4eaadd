"""Laws of conformal intervals and sets: counting, levels."""

import numpy as np
import pytest

from kaucus._array.namespace import to_numpy
from kaucus.solvers._left_out import (
    check_enough_rows,
    class_scores,
    conformal_quantiles,
    left_out_intervals,
    left_out_sets,
    split_sets,
    widened_intervals,
)
from tests.arrays import array, assert_close
from tests.reference import conformal as reference

LEVELS = [0.5, 0.8, 0.9]


def models(rng, b=4, n=19, t=2):
    """Return predictions, influences and residuals of n leave-one-out models."""
    return rng.normal(size=(b, t)), rng.normal(size=(b, n)), rng.normal(size=(n, t))


@pytest.mark.parametrize("method", ["plus", "minmax"])
def test_intervals_are_those_of_the_definition(xp, dtype, rng, method):
    f, v, e = models(rng)
    given = [array(xp, a, dtype) for a in (f, v, e)]
    got = to_numpy(left_out_intervals(*given, LEVELS, method))
    assert got.shape == (4, 2, 3, 2)
    literal = {
        "plus": reference.jackknife_plus,
        "minmax": reference.jackknife_minmax,
    }[method]
    for x, level, j in np.ndindex(4, 3, 2):
        of_x = f[x, j] - v[x] * e[:, j]
        expected = literal(of_x, e[:, j], LEVELS[level])
        assert_close(got[x, :, level, j], expected, rtol=1e-5, atol=1e-6)


def test_symmetric_intervals_are_those_of_the_definition(xp, dtype, rng):
    f, _, e = models(rng)
    given = [array(xp, a, dtype) for a in (f, f, np.abs(e))]
    got = to_numpy(widened_intervals(*given, LEVELS))
    for x, level, j in np.ndindex(4, 3, 2):
        expected = reference.jackknife(f[x, j], e[:, j], LEVELS[level])
        assert_close(got[x, :, level, j], expected, rtol=1e-5, atol=1e-6)


def test_intervals_of_quantiles_move_both_ends_and_never_cross(xp, dtype, rng):
    f, _, e = models(rng)
    spread = np.array([0.0, 0.1, 1.0, 5.0])[:, None]
    for shift in (0.0, -2.0):  # below zero: they are too wide, and come together
        scores = np.abs(e) + shift
        given = [array(xp, a, dtype) for a in (f - spread, f + spread, scores)]
        got = to_numpy(widened_intervals(*given, LEVELS))
        for x, level, j in np.ndindex(4, 3, 2):
            _, q = reference.jackknife(0.0, np.abs(e[:, j]), LEVELS[level])
            half = max(spread[x, 0] + q + shift, 0.0)
            expected = f[x, j] - half, f[x, j] + half
            assert_close(got[x, :, level, j], expected, rtol=1e-5, atol=1e-5)


def test_quantiles_are_infinite_where_there_are_too_few_values(xp, dtype):
    values = array(xp, [[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]], dtype)
    low, middle, high = conformal_quantiles(values, [0.25, 0.7, 0.9])
    assert_close(low, [1.0, 1.0])
    assert_close(middle, [3.0, 3.0])
    assert np.isinf(to_numpy(high)).all()


def sets_of(xp, f, v, e, own, score):
    given = [array(xp, a) for a in (f, v, e, own)]
    return to_numpy(left_out_sets(*given, LEVELS, score))


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("k", [2, 4])
def test_sets_are_those_of_the_definition(xp, rng, score, k):
    f, v, e = models(rng, b=3, n=12, t=k)
    T, own = 0.7, rng.uniform(size=12)
    got = sets_of(xp, f, v, e, own, lambda d: class_scores(d, T, score))
    for x in range(3):
        decision = f[x] - v[x][:, None] * e
        p = [reference.probabilities(values, T) for values in decision]
        literal = np.array(
            [[reference.score_of(q, j, score) for j in range(k)] for q in p]
        )
        scores = to_numpy(class_scores(array(xp, decision), T, score))
        assert_close(scores, literal, atol=1e-12)
        for number, level in enumerate(LEVELS):
            expected = reference.cross_conformal_set(literal, own, level)
            assert got[x, :, number].tolist() == expected


def test_strips_change_nothing(rng, monkeypatch):
    from kaucus.solvers import _left_out

    f, v, e = models(rng, b=40, n=19)
    expected = left_out_intervals(f, v, e, LEVELS, "plus")
    monkeypatch.setattr(_left_out, "_STRIP_BYTES", 3000)
    assert np.array_equal(left_out_intervals(f, v, e, LEVELS, "plus"), expected)


def test_the_most_probable_class_is_in_every_adaptive_set(rng):
    decision = rng.normal(size=(50, 5))
    scores = class_scores(decision, 1.0, "aps")
    sets = split_sets(scores, rng.uniform(0, 1e-3, size=30), [0.1])
    assert sets[np.arange(50), decision.argmax(axis=1), 0].all()


def test_split_sets_cover_rows_like_those_held_out(rng):
    """On exchangeable rows the mean coverage is at least the level."""
    hits = []
    for _ in range(300):
        own = rng.exponential(size=21)
        hits.append(split_sets(own[-1:, None], own[:20], [0.8])[0, 0, 0])
    assert np.mean(hits) >= 0.8 - 3 * np.sqrt(0.16 / 300)


@pytest.mark.parametrize(
    ("total", "level"), [(9, 0.9), (19, 0.95), (99, 0.99), (1, 0.5)]
)
def test_as_many_rows_as_a_level_needs(total, level):
    check_enough_rows(total, [level])
    with pytest.raises(ValueError, match=f"at least {total} rows"):
        check_enough_rows(total - 1, [0.1, level])
