"""P_f(α), its area, and its picture."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from kaucus.evaluation import TunabilityDisplay, tunability_auc, tunability_curve

SCORES = [0.5, 0.9, 0.9, 0.7]
grids = arrays(np.float64, array_shapes(max_dims=3), elements=st.floats(0, 1))


def test_it_is_the_share_of_the_grid():
    curve = tunability_curve(SCORES, alphas=[0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    assert curve.probabilities.tolist() == [1, 1, 0.75, 0.75, 0.5, 0.5, 0]


@given(scores=grids)
def test_it_falls_from_one(scores):
    curve = tunability_curve(scores)
    assert curve.probabilities[0] == 1
    assert (np.diff(curve.alphas) > 0).all()
    assert (np.diff(curve.probabilities) < 0).all()
    for alpha, share in zip(*curve, strict=True):
        assert share == pytest.approx(np.mean(scores >= alpha))


@given(scores=grids, lower=st.floats(0, 1))
def test_the_area_is_that_under_the_curve(scores, lower):
    alphas = np.linspace(lower, 1, 20001)
    shares = tunability_curve(scores, alphas).probabilities
    area = np.trapezoid(shares, alphas)
    assert tunability_auc(scores, lower=lower) == pytest.approx(area, abs=1e-4)


def test_a_better_model_has_the_larger_area():
    worse, better = np.array(SCORES), np.array(SCORES) + 0.05
    lower = worse.min()
    assert tunability_auc(better, lower=lower) > tunability_auc(worse, lower=lower)
    assert tunability_auc([1.0, 1.0], lower=0.25) == 0.75
    assert tunability_auc(worse) == tunability_auc(worse, lower=0.5)


def test_a_fitted_search_or_its_results():
    search = GridSearchCV(SVC(), {"C": [0.01, 1.0]}, cv=3)
    search.fit(*load_iris(return_X_y=True))
    mean = search.cv_results_["mean_test_score"]
    for given_ in (search, search.cv_results_):
        assert tunability_auc(given_) == tunability_auc(mean)
    display = TunabilityDisplay.from_cv_results(search, plot=False)
    assert display.auc == tunability_auc(mean)


@pytest.mark.parametrize(
    ("scores", "match"),
    [
        ([], "scores has 0 values"),
        ([0.5, np.nan], "2 values, 1 of them NaN; .*Leave out what failed"),
        (["a"], "must be numbers"),
        ({"mean_fit_time": [1.0]}, r"no 'mean_test_score'; .*\['mean_fit_time'\]"),
    ],
)
def test_what_is_no_grid_of_scores(scores, match):
    for function in (tunability_curve, tunability_auc):
        with pytest.raises(ValueError, match=match):
            function(scores)


def test_the_ends_of_the_area_must_be_in_order():
    with pytest.raises(ValueError, match="lower=2 exceeds upper=1"):
        tunability_auc(SCORES, lower=2)


def test_the_display_draws_a_step_curve():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = figure.add_subplot()
    display = TunabilityDisplay.from_scores(
        SCORES, name="RBF", lower=0.4, ax=ax, color="red"
    )
    assert (display.ax_, display.figure_) == (ax, figure)
    assert display.line_.get_label() == "RBF, AUC 0.350"
    assert display.line_.get_color() == "red"
    x, y = display.line_.get_data()
    # Between two points a "pre" step has the height of the right one.
    at = np.linspace(0.401, 0.999, 50)
    heights = np.asarray(y)[np.searchsorted(x, at)]
    assert heights.tolist() == tunability_curve(SCORES, at).probabilities.tolist()
    again = display.plot(ax, name="other")
    assert again.line_.get_label() == "other, AUC 0.350"
    assert len(ax.lines) == 2


def test_the_display_makes_its_own_figure():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    display = TunabilityDisplay([0.5, 1.0], [1.0, 0.0]).plot()
    assert display.ax_.get_legend() is None
    pyplot.close(display.figure_)


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kaucus\[plot\]'"):
        TunabilityDisplay.from_scores(SCORES)


def test_a_search_that_is_not_fitted():
    with pytest.raises(ValueError, match="has no cv_results_; fit the search first"):
        TunabilityDisplay.from_cv_results(GridSearchCV(SVC(), {}))
