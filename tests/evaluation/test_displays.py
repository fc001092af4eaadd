"""Displays: what they draw is what the model has; notebooks get links."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kaucus import KMeansKernelClassifier, LSSVMClassifier
from kaucus.datasets import make_rings
from kaucus.evaluation import (
    HistoryDisplay,
    KernelComparisonDisplay,
    RepresentativesDisplay,
    SearchDisplay,
    compare_kernels,
)
from kaucus.evaluation.displays import picture_sheet
from kaucus.preprocessing import UnitNormalizer

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_figure_is_left():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def searched(iris):
    options = {"kernel": "rbf", "learn_metric": True, "random_state": 0}
    return KMeansKernelClassifier(4, **options).fit(iris[0][::2], iris[1][::2])


# ---- the search --------------------------------------------------------------------


@pytest.mark.parametrize("x", ["C", "gamma", "n_steps"])
def test_a_search_is_drawn_with_the_least_loss_of_each_value(searched, x):
    display = SearchDisplay.from_estimator(searched, x=x)
    results = searched.search_results_
    kernels = list(dict.fromkeys(results["kernel"]))
    lines = display.ax_.get_lines()
    assert [line.get_label() for line in lines[:-1]] == kernels
    for kernel, line in zip(kernels, lines, strict=False):
        for place, loss in zip(*line.get_data(), strict=True):
            own = (results["kernel"] == kernel) & (results[x] == place)
            assert loss == pytest.approx(-np.nanmax(results["score"][own]))
    (chosen,) = np.flatnonzero(results["chosen"])
    assert lines[-1].get_xdata() == pytest.approx(results[x][chosen])
    assert lines[-1].get_ydata() == pytest.approx(-results["score"][chosen])


def test_a_search_of_a_pipeline_and_on_given_axes(iris):
    model = LSSVMClassifier("auto")
    model = make_pipeline(StandardScaler(), model).fit(*iris)
    _, ax = pyplot.subplots()
    display = SearchDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    with pytest.raises(ValueError, match=r"x='n_steps' was not searched; use one of"):
        display.plot(x="n_steps")


def test_no_search_is_a_clear_error(iris):
    given = KMeansKernelClassifier(2, kernel="rbf", gamma=1.0, C=1.0).fit(*iris)
    with pytest.raises(ValueError, match="Nothing was searched; leave C"):
        SearchDisplay.from_estimator(given)
    with pytest.raises(ValueError, match="Nothing was searched"):
        SearchDisplay.from_estimator(LSSVMClassifier().fit(*iris))


# ---- steps -------------------------------------------------------------------------


def test_the_steps_of_every_run_are_drawn(iris):
    X, y = iris
    model = LSSVMClassifier(
        solver="kaczmarz", block_size=30, n_runs=2, max_iter=6, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, X_val=X[::5], y_val=y[::5])
    for name in ("residual", "validation_error"):
        display = HistoryDisplay.from_estimator(model, y=name)
        assert len(display.ax_.get_lines()) == 2
        drawn = np.concatenate([li.get_ydata() for li in display.ax_.get_lines()])
        assert sorted(drawn) == pytest.approx(sorted(model.history_[name]))


def test_no_steps_are_a_clear_error(iris):
    with pytest.raises(ValueError, match="there were no steps; fit LSSVMClassifier"):
        HistoryDisplay.from_estimator(LSSVMClassifier(solver="cholesky").fit(*iris))


# ---- representatives ---------------------------------------------------------------


def test_representatives_of_a_table(searched):
    display = RepresentativesDisplay.from_estimator(searched, n_shown=5)
    heaviest = np.argsort(-searched.representative_weights_, kind="stable")[:5]
    np.testing.assert_array_equal(display.rows, searched.representatives_[heaviest])
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    order = np.argsort(-searched.feature_importances_, kind="stable")
    assert names == [f"x{c}" for c in order]


def test_representatives_as_pictures():
    X, y = load_digits(return_X_y=True)
    model = KMeansKernelClassifier(2, kernel="rbf", gamma=1e-3, C=1, random_state=0)
    model.fit(X[:100], y[:100])
    display = RepresentativesDisplay.from_estimator(model, image_shape=(8, 8))
    [image] = display.ax_.get_images()
    assert image.get_array().shape == (2 * 9, 10 * 9)


@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 2)])
def test_a_sheet_has_every_picture_and_nothing_between(shape, rng):
    rows = rng.random((12, 24))
    sheet = picture_sheet(rows, shape)
    h, w = shape[-2:]
    second = sheet[:h, w + 1 : 2 * w + 1]
    low, high = rows[1].min(), rows[1].max()
    expected = ((rows[1] - low) / (high - low)).reshape(shape)
    if len(shape) == 3:
        np.testing.assert_allclose(second[..., :3], np.moveaxis(expected, 0, -1))
        assert (sheet[h, :, 3] == 0).all()
    else:
        np.testing.assert_allclose(second, expected)
        assert np.isnan(sheet[h]).all()


# ---- how many clusters -------------------------------------------------------------


def test_how_many_clusters():
    X, _ = make_rings(60, random_state=0)
    kernels = {"wide": "rbf", "linear": "linear"}
    found = compare_kernels(
        X, range(2, 5), kernels=kernels, n_init=1, n_subsamples=2, random_state=0
    )
    display = KernelComparisonDisplay.from_comparison(found)
    *lines, mark = display.ax_.get_lines()
    assert [line.get_label() for line in lines] == list(kernels)
    for line in lines:
        own = [one for one in found.scores if one.name == line.get_label()]
        assert list(line.get_xdata()) == [2, 3, 4]
        assert list(line.get_ydata()) == [one.score for one in own]
    assert mark.get_xdata() == [found.best.n_clusters]
    assert found.plot(y="stability").ax_.get_ylabel() == "stability"
    with pytest.raises(ValueError, match="y='beauty' is no column of numbers"):
        found.plot(y="beauty")


# ---- notebooks ---------------------------------------------------------------------


def test_a_notebook_links_to_the_reference(searched):
    page = searched._repr_html_()
    assert "/reference/kaucus.KMeansKernelClassifier.html" in page
    assert "/reference/kaucus.preprocessing.UnitNormalizer.html" in (
        UnitNormalizer()._repr_html_()
    )
