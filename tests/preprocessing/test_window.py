"""The Gaussian window: the printed formula, on every channel."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from kaucus.preprocessing import FourierFeatures, GaussianWindow, UnitNormalizer
from tests.arrays import assert_to_rounding
from tests.reference.images import window


@pytest.mark.parametrize("c", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 32])
def test_square_pictures_get_the_printed_window(size, c, rng):
    X = rng.normal(size=(3, size * size))
    actual = GaussianWindow((size, size), c=c).fit_transform(X)
    G = window(size, c / size**2)
    assert_allclose(actual, X * G.ravel(), rtol=1e-12)


def test_the_default_is_the_papers_constant(rng):
    X = rng.normal(size=(3, 1024))
    actual = GaussianWindow((32, 32)).fit_transform(X)
    assert_allclose(actual, X * window(32, 4 / 32**2).ravel(), rtol=1e-12)


def test_every_channel_gets_the_same_window(rng):
    X = rng.normal(size=(4, 3, 5, 5))
    actual = GaussianWindow((3, 5, 5)).fit_transform(X.reshape(4, -1))
    for channel in range(3):
        alone = GaussianWindow((5, 5)).fit_transform(X[:, channel].reshape(4, -1))
        assert_to_rounding(actual.reshape(4, 3, -1)[:, channel], alone)


@given(sides=st.tuples(st.integers(1, 9), st.integers(1, 9)), c=st.floats(0, 50))
def test_each_axis_is_measured_by_its_own_length(sides, c):
    """The factor is a product over the axes, at most 1, and 1 only in the middle."""
    model = GaussianWindow(sides, c=c).fit(np.zeros((1, sides[0] * sides[1])))
    rows, columns = (
        GaussianWindow(c=c).fit(np.zeros((1, side))).window_ for side in sides
    )
    assert model.window_.shape == sides
    assert_allclose(model.window_, np.outer(rows, columns), rtol=1e-12)
    assert model.window_.max() <= 1
    if sides[0] % 2 == sides[1] % 2 == 0:
        assert model.window_[sides[0] // 2 - 1, sides[1] // 2 - 1] == 1


def test_linear_in_the_picture_and_stronger_with_c(rng):
    X, Z = rng.normal(size=(2, 3, 36))
    model = GaussianWindow((6, 6)).fit(X)
    assert_allclose(
        model.transform(2 * X - Z), 2 * model.transform(X) - model.transform(Z)
    )
    wide, narrow = (GaussianWindow((6, 6), c=c).fit(X).window_ for c in (1.0, 9.0))
    assert_allclose(wide**9, narrow)


@pytest.mark.parametrize("order", ["C", "F"])
def test_input_stays_and_precision_too(order, dtype, rng):
    X = np.array(rng.normal(size=(4, 36)), dtype=dtype, order=order)
    before = X.copy()
    X.flags.writeable = False
    given = GaussianWindow((6, 6), c=0).fit_transform(X)
    assert given.dtype == dtype
    assert_array_equal(given, before)
    assert not np.shares_memory(given, X)
    assert GaussianWindow((6, 6)).fit_transform(X).dtype == dtype
    assert_array_equal(X, before)


def test_bytes_become_floats():
    X = np.full((2, 36), 200, dtype=np.uint8)
    given = GaussianWindow((6, 6)).fit_transform(X)
    assert given.dtype == np.float64
    expected = GaussianWindow((6, 6)).fit_transform(X.astype(np.float64))
    assert_to_rounding(given, expected)


def test_in_the_papers_pipelines(rng):
    shape = (3, 8, 8)
    X = rng.random((5, 192))
    names = [f"x{i}" for i in range(192)]
    second = make_pipeline(GaussianWindow(shape), UnitNormalizer()).fit(X)
    assert list(second.get_feature_names_out()) == names
    assert_allclose(np.linalg.norm(second.transform(X), axis=1), 1)
    third = make_pipeline(GaussianWindow(shape), FourierFeatures(shape)).fit(X)
    assert list(third.get_feature_names_out()[:192]) == names
    windowed = GaussianWindow(shape).fit_transform(X)
    expected = FourierFeatures(shape).fit_transform(windowed)
    assert_to_rounding(third.transform(X), expected)
    again = pickle.loads(pickle.dumps(third))
    assert_to_rounding(again.transform(X), expected)


@pytest.mark.parametrize("c", [-1.0, float("nan"), float("inf"), None, "4", True])
def test_a_wrong_constant_is_refused(c):
    with pytest.raises(ValueError, match=r"must be a finite number, .*\. Use 4"):
        GaussianWindow((2, 2), c=c).fit(np.ones((2, 4)))


def test_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"3 \* 3 = 9 values.*n_features=4"):
        GaussianWindow((3, 3)).fit(np.ones((2, 4)))
