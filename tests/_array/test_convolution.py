"""Responses to filters: every library gives what loops give."""

import numpy as np
import pytest

from kaucus._array.segments import (
    box_means,
    convolve,
    convolve_by_products,
    convolve_each,
    patch_rows,
    window_means,
)
from tests.arrays import EPS, array, assert_close


def problem(rng):
    return {
        "images": rng.normal(size=(3, 2, 7, 8)),
        "filters": rng.normal(size=(5, 2, 3, 4)),
        "scale": rng.random(size=(3, 25, 1)),
        "bias": rng.normal(size=5),
    }


def by_loops(images, filters, scale, bias):
    out = np.empty((3, 5, 5, 5))
    for n, i, j, m in np.ndindex(out.shape):
        patch = images[n, :, i : i + 3, j : j + 4]
        out[n, i, j, m] = np.sum(patch * filters[m])
    return out.reshape(3, 25, 5) * scale + bias


def one_by_products(images, filters, **options):
    (found,) = convolve_by_products(images, [filters], **options)
    return found


@pytest.mark.parametrize("function", [convolve, one_by_products])
def test_responses_are_those_of_loops(xp, dtype, rng, function):
    given = problem(rng)
    arrays = {name: array(xp, values, dtype) for name, values in given.items()}
    images, filters = arrays.pop("images"), arrays.pop("filters")
    found = function(images, filters, **arrays)
    assert_close(found, by_loops(**given), rtol=1e-3, atol=500 * EPS[dtype])
    plain = function(images, filters)
    given |= {"scale": np.ones((3, 25, 1)), "bias": np.zeros(5)}
    assert_close(plain, by_loops(**given), rtol=1e-3, atol=500 * EPS[dtype])


def test_several_sets_of_filters_have_the_responses_of_each(xp, dtype, rng):
    given = problem(rng)
    arrays = {name: array(xp, values, dtype) for name, values in given.items()}
    images, filters = arrays.pop("images"), arrays.pop("filters")
    found = list(convolve_each(images, [filters, -2 * filters], **arrays))
    assert len(found) == 2
    for factor, responses in zip((1, -2), found, strict=True):
        expected = by_loops(**{**given, "filters": factor * given["filters"]})
        assert_close(responses, expected, rtol=1e-3, atol=1000 * EPS[dtype])


def test_box_means_are_the_means_of_patches(xp, dtype, rng):
    images = rng.normal(size=(3, 1, 7, 8))
    found = box_means(array(xp, images, dtype), (3, 4))
    expected = patch_rows(images, (3, 4)).mean(axis=2, keepdims=True)
    assert_close(found, expected, rtol=1e-3, atol=50 * EPS[dtype])


def test_the_caller_s_arrays_stay_as_they_are(xp, rng):
    given = problem(rng)
    arrays = {name: array(xp, values) for name, values in given.items()}
    convolve(**arrays)
    for name, values in given.items():
        assert_close(arrays[name], values, rtol=0)


def test_patches_are_rows_in_the_order_of_the_picture(xp, dtype):
    images = array(xp, np.arange(24).reshape(1, 2, 3, 4), dtype)
    rows = patch_rows(images, (2, 3))
    assert rows.shape == (1, 4, 12)
    expected = [0, 1, 2, 4, 5, 6, 12, 13, 14, 16, 17, 18]
    assert_close(rows[0, 0, :], np.array(expected))
    assert_close(rows[0, 3, :], np.array(expected) + 5)


def test_window_means_are_of_both_rectified_parts(xp, dtype, rng):
    z, weights = rng.normal(size=(2, 6, 3)), rng.random(size=(4, 6))
    t = 0.4
    above, below = window_means(array(xp, z - t, dtype), array(xp, weights, dtype), t)
    tolerance = {"rtol": 1e-3, "atol": 100 * EPS[dtype]}
    assert_close(above, weights @ np.maximum(z - t, 0), **tolerance)
    assert_close(below, weights @ np.maximum(-z - t, 0), **tolerance)
