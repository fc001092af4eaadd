"""Weights of pictures: a weight of 2 is two pictures, a weight of 0 is none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from kaucus import PatchKernelClassifier, PatchKernelRegressor
from kaucus.fitting._problem import one_vs_rest_targets
from kaucus.preprocessing import PatchDictionary
from tests.reference import ls_svm as reference

OPEN = {
    "n_filters": 12,
    "patch_sizes": 3,
    "image_shape": (8, 8),
    "precision": "float64",
    "random_state": 0,
}
FIXED = {**OPEN, "gamma": 0.5, "C": 20.0, "mirror": False}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:90].astype(np.uint8), y[:90], X[90:150].astype(np.uint8)


@pytest.fixture
def weight(rng):
    return rng.integers(1, 4, size=90)


def with_filters_of(pictures, estimator):
    """Draw the filters from these pictures, whatever is fitted."""

    class Drawn(PatchDictionary):
        def fit(self, X, y=None):
            return super().fit(pictures, y)

    estimator._dictionary_class = Drawn
    return estimator


def targets_for(kind, X, y):
    return y if kind is PatchKernelClassifier else X[:, 20:24].mean(axis=1)


def output(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


def values_of(model, X):
    is_classifier = hasattr(model, "classes_")
    return model.decision_function(X) if is_classifier else model.predict(X)


# ---- a weight of 2 is two pictures ---------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (PatchKernelClassifier, {}),
        (PatchKernelClassifier, {"class_weight": "balanced"}),
        (PatchKernelClassifier, {"mirror": True}),
        (PatchKernelRegressor, {}),
        (PatchKernelRegressor, {"patch_sizes": (3, 4), "combine": "mean"}),
    ],
)
def test_a_weight_of_2_is_two_pictures(kind, options, digits, weight):
    X, y, X_test = digits
    y = targets_for(kind, X, y)
    model = with_filters_of(X, kind(**{**FIXED, **options}))
    expected = values_of(model.fit(X, y, sample_weight=weight), X_test)
    model = with_filters_of(X, kind(**{**FIXED, **options}))
    model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(values_of(model, X_test), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [PatchKernelClassifier, PatchKernelRegressor])
def test_what_is_chosen_leaves_out_whole_pictures(kind, digits, weight):
    """The loss of γ and C is that of refits without each picture."""
    X, y, _ = digits
    y, given = targets_for(kind, X, y), weight / weight.mean()
    model = with_filters_of(X, kind(**{**OPEN, "gamma": 0.5, "mirror": False}))
    model.fit(X, y, sample_weight=weight)
    columns = y[:, None]
    if kind is PatchKernelClassifier:
        columns = one_vs_rest_targets(y, 4)
    K = model.kernel_(X)
    values = reference.leave_one_out(K, columns, model.C_, given)
    if kind is PatchKernelRegressor:
        lost = np.average((values[:, 0] - y) ** 2, weights=weight)
        spread = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
        assert_allclose(model.loo_score_, 1 - lost / spread, rtol=1e-5)
    else:
        right = np.average(values.argmax(axis=1) == y, weights=weight)
        assert_allclose(model.loo_score_, right)


# ---- a weight of 0 is no picture -----------------------------------------------------


@pytest.mark.parametrize("kind", [PatchKernelClassifier, PatchKernelRegressor])
@pytest.mark.parametrize("n_representatives", [None, 40])
def test_a_weight_of_0_is_no_picture(kind, n_representatives, digits, weight, rng):
    X, y, X_test = digits
    y = targets_for(kind, X, y)
    present = rng.random(90) < 0.8
    loud = np.where(present[:, None], X, 255)  # nothing of these may be seen
    model = kind(**OPEN, n_representatives=n_representatives)
    expected = output(model.fit(X[present], y[present], weight[present]), X_test)
    model.fit(loud, y, sample_weight=np.where(present, weight, 0))
    assert_allclose(output(model, X_test), expected, rtol=1e-10)
    assert len(model.X_fit_) <= present.sum()


# ---- what weights are in -------------------------------------------------------------


def test_representatives_are_fitted_by_weighted_least_squares(digits, weight):
    X, y, _ = digits
    model = PatchKernelClassifier(**FIXED, n_representatives=40)
    model.fit(X.astype(float), y, sample_weight=weight)
    assert model.solver_ == "normal_equations"
    K_nm, K_mm = model.kernel_(X, model.X_fit_), model.kernel_(model.X_fit_)
    residuals = one_vs_rest_targets(y, 4) - K_nm @ model.dual_coef_ - model.intercept_
    residuals *= weight[:, None]
    gradient = model.C_ * K_nm.T @ residuals - K_mm @ model.dual_coef_
    assert_allclose(residuals.sum(axis=0), 0, atol=1e-6)
    # The jitter of the equations is there.
    assert np.abs(gradient).max() < 0.02 * np.abs(K_mm @ model.dual_coef_).max()


def test_weights_of_classes_are_weights_of_their_pictures(digits):
    X, y, X_test = digits
    by_class = PatchKernelClassifier(**FIXED, class_weight={0: 3.0, 1: 1.0})
    by_class.fit(X, y)
    by_row = PatchKernelClassifier(**FIXED).fit(X, y, np.where(y == 0, 3.0, 1.0))
    values = by_class.decision_function(X_test)
    assert_allclose(values, by_row.decision_function(X_test), rtol=1e-6)
    plain = PatchKernelClassifier(**FIXED).fit(X, y).decision_function(X_test)
    assert np.abs(values - plain).max() > 1e-3


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(89), r"has shape \(89,\); expected one weight per row"),
        (-np.ones(90), "negative value -1"),
        (np.zeros(90), "zero for every row"),
        (np.full(90, np.nan), "NaN"),
    ],
)
def test_bad_weights_are_refused_before_any_work(digits, weight, words, monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("work was begun with bad input")

    monkeypatch.setattr("kaucus.preprocessing.images.draw_patches", reached)
    X, y, _ = digits
    for kind in (PatchKernelClassifier, PatchKernelRegressor):
        with pytest.raises(ValueError, match=words):
            kind(**OPEN).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"only \[1\] have rows of positive weight"):
        PatchKernelClassifier(**OPEN).fit(X, y, sample_weight=y == 1)
