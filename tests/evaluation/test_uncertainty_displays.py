"""Displays of intervals and sets: what they draw is what the models say."""

import sys

import numpy as np
import pandas as pd
import pytest

from kaucus import LSSVMClassifier, LSSVMRegressor
from kaucus.evaluation import CoverageDisplay, IntervalDisplay, SetSizeDisplay

LEVELS = [0.5, 0.8, 0.9]


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure().subplots()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(120, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return LSSVMRegressor(C=5.0, gamma=0.5).fit(X[:60], y[:60])


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    labels = np.digitize(y, [-0.3, 0.3])
    return LSSVMClassifier(C=5.0, gamma=0.5).fit(X[:60], labels[:60])


def test_intervals_are_drawn_over_a_feature(rows, regressor, ax):
    X, y = rows
    display = IntervalDisplay.from_estimator(
        regressor, X[60:], y[60:], feature=1, confidence_level=[0.5, 0.9], ax=ax
    )
    order = np.argsort(X[60:, 1])
    assert np.array_equal(display.x, X[60:, 1][order])
    expected = regressor.predict_interval(X[60:], [0.5, 0.9])[order]
    assert np.array_equal(display.intervals, expected)
    assert np.array_equal(display.line_.get_ydata(), regressor.predict(X[60:])[order])
    assert len(display.bands_) == 2
    assert len(display.points_.get_offsets()) == 60
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_a_feature_may_have_a_name(rows, ax):
    X, y = rows
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = LSSVMRegressor(C=5.0, gamma=0.5).fit(frame, y)
    display = IntervalDisplay.from_estimator(model, frame, feature="height", ax=ax)
    assert display.ax_.get_xlabel() == "height"
    assert np.array_equal(display.x, np.sort(X[:, 1]))
    with pytest.raises(ValueError, match="feature='depth'"):
        IntervalDisplay.from_estimator(model, frame, feature="depth", ax=ax)


def test_one_output_at_a_time(rows):
    X, y = rows
    model = LSSVMRegressor().fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="2 outputs"):
        IntervalDisplay.from_estimator(model, X, plot=False)


@pytest.mark.parametrize("method", ["plus", "naive"])
def test_coverage_of_intervals(rows, regressor, ax, method):
    X, y = rows
    display = CoverageDisplay.from_estimator(
        regressor, X[60:], y[60:], confidence_levels=LEVELS, method=method, ax=ax
    )
    ends = regressor.predict_interval(X[60:], LEVELS, method)
    held = (ends[:, 0] <= y[60:, None]) & (y[60:, None] <= ends[:, 1])
    assert np.array_equal(display.coverages, held.mean(axis=0))
    assert np.allclose(display.sizes, (ends[:, 1] - ends[:, 0]).mean(axis=0))
    assert display.line_.get_label() == "LSSVMRegressor"


def test_coverage_of_several_outputs_is_their_mean(rows):
    X, y = rows
    model = LSSVMRegressor(gamma=0.5).fit(X[:60], np.c_[y, -y][:60])
    one = LSSVMRegressor(gamma=0.5).fit(X[:60], y[:60])
    both = CoverageDisplay.from_estimator(model, X[60:], np.c_[y, -y][60:], plot=False)
    single = CoverageDisplay.from_estimator(one, X[60:], y[60:], plot=False)
    assert np.allclose(both.coverages, single.coverages)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_coverage_of_sets(rows, classifier, ax, score):
    X, y = rows
    labels = np.digitize(y, [-0.3, 0.3])[60:]
    display = CoverageDisplay.from_estimator(
        classifier, X[60:], labels, confidence_levels=LEVELS, score=score, ax=ax
    )
    sets = classifier.predict_set(X[60:], LEVELS, score)
    assert np.array_equal(display.coverages, sets[np.arange(60), labels].mean(axis=0))
    assert np.array_equal(display.sizes, sets.sum(axis=1).mean(axis=0))


def test_sizes_of_sets(rows, classifier, ax):
    X, _ = rows
    display = SetSizeDisplay.from_estimator(
        classifier, X[60:], confidence_level=0.8, score="aps", ax=ax, color="black"
    )
    sizes = classifier.predict_set(X[60:], 0.8, "aps").sum(axis=1)
    expected = [np.mean(sizes == k) for k in range(4)]
    assert np.allclose(display.shares, expected)
    assert np.allclose([bar.get_height() for bar in display.bars_], expected)


def test_without_matplotlib_the_remedy_is_named(rows, regressor, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match="matplotlib is not installed"):
        IntervalDisplay.from_estimator(regressor, rows[0])
