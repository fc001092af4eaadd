"""The same draws on every library, and nobody else's generator is touched."""

import numpy as np
import pytest

from kaucus._array import segments as _random
from kaucus._array.namespace import dtype_name, to_numpy
from kaucus._array.segments import draw_some, random_normal, random_rows
from kaucus._base import generator_from
from tests.arrays import array, same_bits
from tests.conftest import namespace


def test_draws_are_the_same_on_every_library(xp, dtype):
    like = array(xp, [0.0], dtype)
    draw = random_normal(np.random.default_rng(3), (4, 5), like)
    assert type(draw) is type(like)
    assert dtype_name(draw) == dtype
    expected = np.random.default_rng(3).standard_normal((4, 5)).astype(dtype)
    assert same_bits(draw, expected)


def test_random_rows_are_different_rows(xp):
    like = array(xp, [0.0])
    rows = random_rows(np.random.default_rng(3), 20, 12, like)
    assert type(rows) is type(like)
    numbers = [int(i) for i in rows]
    assert len(set(numbers)) == 12
    assert set(numbers) <= set(range(20))
    again = random_rows(np.random.default_rng(3), 20, 12, np.zeros(1))
    assert numbers == list(again)
    assert numbers != sorted(numbers)


def global_states():
    torch = namespace("torch")
    return np.random.get_state()[1].copy(), to_numpy(torch.get_rng_state())  # noqa: NPY002


def test_no_global_generator_is_read_or_moved(xp):
    like = array(xp, [0.0])
    draws = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        namespace("torch").manual_seed(seed)
        before = global_states()
        rng = np.random.default_rng(0)
        draws.append(random_normal(rng, (3,), like))
        random_rows(rng, 5, 2, like)
        for state, expected in zip(global_states(), before, strict=True):
            assert np.array_equal(state, expected)
    assert same_bits(draws[0], draws[1])


@pytest.mark.parametrize("seed", [0, 7, np.int64(7)])
def test_an_int_is_a_seed(seed):
    expected = np.random.default_rng(seed).integers(1000, size=5)
    assert np.array_equal(generator_from(seed).integers(1000, size=5), expected)


def test_none_is_fresh_every_time():
    draws = {int(generator_from(None).integers(2**60)) for _ in range(5)}
    assert len(draws) == 5


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(0)
    assert generator_from(rng) is rng


def test_a_random_state_advances():
    state = np.random.RandomState(0)
    first, second = (generator_from(state).integers(2**60) for _ in range(2))
    assert first != second
    again = np.random.RandomState(0)
    assert generator_from(again).integers(2**60) == first


@pytest.mark.parametrize("wrong", ["seven", 1.5, [1]])
def test_what_cannot_seed_is_named(wrong):
    with pytest.raises(ValueError, match=r"cannot seed a generator; pass None, an int"):
        generator_from(wrong)


@pytest.mark.parametrize("many", [10, 1000])
@pytest.mark.parametrize("size", [0, 3, 50, 80])
def test_rows_are_drawn_once_each(monkeypatch, many, size):
    monkeypatch.setattr(_random, "_MANY_ROWS", many)
    rows = np.arange(50) * 7
    numbers = draw_some(np.random.default_rng(0), 50, size)
    chosen = draw_some(np.random.default_rng(0), rows, size)
    np.testing.assert_array_equal(chosen, rows[numbers])
    assert len(set(numbers.tolist())) == len(numbers) == min(size, 50)
    assert np.isin(chosen, rows).all()


@pytest.mark.parametrize("many", [10, 1000])
def test_each_row_is_as_likely_as_any_other_in_each_place(monkeypatch, many):
    monkeypatch.setattr(_random, "_MANY_ROWS", many)
    rng = np.random.default_rng(0)
    drawn = np.array([draw_some(rng, 20, 3) for _ in range(4000)])
    for place in drawn.T:  # 200 of each row are expected, give or take 14
        assert np.abs(np.bincount(place, minlength=20) - 200).max() < 60
