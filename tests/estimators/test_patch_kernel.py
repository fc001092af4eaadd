"""The estimators of pictures: exact systems, choices, memory, and what is refused."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from kaucus import PatchKernelClassifier, PatchKernelRegressor
from kaucus.fitting import _pictures
from kaucus.fitting._problem import NumberTargets, Problem, one_vs_rest_targets
from kaucus.fitting._search import Trial, paired_gain
from kaucus.preprocessing import PatchDictionary
from tests.arrays import array, assert_close

SMALL = {
    "n_filters": 12,
    "patch_sizes": 3,
    "image_shape": (8, 8),
    "random_state": 0,
}
FIXED = {**SMALL, "gamma": 0.5, "C": 20.0, "mirror": False}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200].astype(np.uint8), y[:200], X[200:300].astype(np.uint8), y[200:300]


# ---- what is fitted ------------------------------------------------------------------


@pytest.mark.parametrize("combine", ["sum", "mean"])
@pytest.mark.parametrize("mirror", [False, True])
def test_the_exact_fit_solves_the_system_of_all_pictures(digits, combine, mirror):
    X, y, *_ = digits
    options = {"mirror": mirror, "combine": combine, "patch_sizes": (3, 4)}
    model = PatchKernelClassifier(**{**FIXED, **options}).fit(X, y)
    assert model.solver_ == "cholesky"
    assert model.X_fit_.shape == X.shape
    K = model.kernel_(model.X_fit_).astype(float)
    order = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in model.X_fit_]
    Y, A = one_vs_rest_targets(y[order], 10), model.dual_coef_
    assert_allclose(A.sum(axis=0), 0, atol=1e-6)
    assert_allclose(K @ A + A / model.C_ + model.intercept_, Y, atol=1e-3)


def test_leave_one_out_is_that_of_refits(digits):
    X, y, *_ = digits
    targets = _pictures_targets(y[:40])
    plan, problem = _plan(X[:40], y[:40]), Problem.of(X[:40], targets, None)
    model = _pictures.fit_pictures(problem, plan, np.random.default_rng(0))
    K = model.kernel(X[:40]).astype(float)
    Y = targets.columns()
    for k in (0, 7, 39):
        rest = np.delete(np.arange(40), k)
        n = len(rest)
        system = np.zeros((n + 1, n + 1))
        system[0, 1:] = system[1:, 0] = 1
        system[1:, 1:] = K[np.ix_(rest, rest)] + np.eye(n) / model.C
        found = np.linalg.solve(system, np.vstack([np.zeros((1, 10)), Y[rest]]))
        expected = K[k, rest] @ found[1:] + found[0]
        row = int(np.flatnonzero(model.unseen_rows == k)[0])
        assert_allclose(model.solution.loo_decision[row], expected, atol=1e-4)


def _pictures_targets(y):
    from kaucus.fitting._problem import ClassTargets

    return ClassTargets(y, 10, lambda weight, _: weight)


def _plan(X, y):
    model = PatchKernelClassifier(**FIXED).fit(X, y)
    bank = model.kernel_.parts[0][0].bank
    choices = {"mirror": (False,), "threshold": (1.0,), "cells": (3,), "power": (0.5,)}
    how = model.kernel_.how._replace(precision="float64")
    return _pictures.PicturePlan(how, [bank], choices, (0.5,), (20.0,))


@pytest.mark.parametrize("mirror", [False, True])
def test_representatives_are_fitted_to_all_pictures_by_least_squares(digits, mirror):
    X, y, *_ = digits
    options = {**FIXED, "mirror": mirror, "precision": "float64"}
    model = PatchKernelClassifier(**options, n_representatives=80).fit(X, y)
    assert model.solver_ == "normal_equations"
    K_nm, K_mm = model.kernel_(X, model.X_fit_), model.kernel_(model.X_fit_)
    residuals = one_vs_rest_targets(y, 10) - K_nm @ model.dual_coef_ - model.intercept_
    gradient = model.C_ * K_nm.T @ residuals - K_mm @ model.dual_coef_
    assert_allclose(residuals.sum(axis=0), 0, atol=1e-6)
    # Pictures are float32 in the equations, so that a jitter of its rounding is there.
    assert np.abs(gradient).max() < 0.02 * np.abs(K_mm @ model.dual_coef_).max()


def test_fewer_representatives_are_random_ones_and_hard_ones(digits):
    X, y, X_test, y_test = digits
    model = PatchKernelClassifier(**FIXED, n_representatives=80).fit(X, y)
    assert 40 < len(model.X_fit_) <= 80
    assert model.dual_coef_.shape == (len(model.X_fit_), 10)
    assert model.score(X_test, y_test) > 0.85
    assert {tuple(row) for row in model.X_fit_} <= {tuple(row) for row in X}


def test_rows_that_are_left_out_are_no_representatives(digits):
    X, y, *_ = digits
    plan = _plan(X, y)._replace(n_representatives=120)
    problem = Problem.of(X, _pictures_targets(y), None)
    model = _pictures.fit_pictures(problem, plan, np.random.default_rng(0))
    assert len(model.rows) > 60  # hard ones too
    assert not set(model.unseen_rows) & set(model.rows)
    assert len(model.unseen_rows) == len(model.solution.loo_decision) == 20


def test_classes_are_learned_with_probabilities(digits):
    X, y, X_test, y_test = digits
    model = PatchKernelClassifier(**SMALL).fit(X, y)
    assert model.score(X_test, y_test) > 0.85
    assert abs(model.loo_score_ - model.score(X_test, y_test)) < 0.12
    p = model.predict_proba(X_test)
    assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(p.argmax(axis=1), model.predict(X_test))
    two = PatchKernelClassifier(**SMALL).fit(X[y < 2], y[y < 2])
    assert two.decision_function(X_test).ndim == 1


def test_numbers_are_learned(digits):
    X, _, X_test, _ = digits
    ink = X.mean(axis=1)
    model = PatchKernelRegressor(**SMALL).fit(X, ink)
    assert model.score(X_test, X_test.mean(axis=1)) > 0.6
    assert model.loo_score_ > 0.5
    both = PatchKernelRegressor(**SMALL).fit(X, np.stack([ink, -ink], axis=1))
    assert both.predict(X_test).shape == (100, 2)


# ---- what is chosen ------------------------------------------------------------------


def test_the_smallest_leave_one_out_loss_is_chosen(digits):
    X, y, *_ = digits
    model = PatchKernelClassifier(**SMALL).fit(X, y)
    found = model.search_results_
    pairs = found["loss"][-9:]  # five C at one gamma, then the other gammas
    best = len(found["loss"]) - 9 + int(np.argmin(pairs))
    assert found["C"][best] == model.C_
    assert model.gamma_ == found["gamma"][best]
    assert set(found["mirror"]) == {False, True}


@pytest.mark.parametrize("name", ["threshold", "power", "pooling"])
def test_auto_tries_more_than_one_value(digits, name):
    X, y, *_ = digits
    options = {**FIXED, name: "auto"}
    model = PatchKernelClassifier(**options).fit(X[:80], y[:80])
    tried = model.search_results_[name]
    assert len(set(tried)) > 1
    losses = {v: min(model.search_results_["loss"][tried == v]) for v in set(tried)}
    # What comes first stays, unless another is clearly better.
    assert losses[getattr(model, f"{name}_")] <= losses[tried[0]]


def test_the_first_gives_way_only_to_what_is_clearly_better(rng):
    noise = rng.normal(0, 0.2, size=400)  # a standard error of 0.01
    noise -= noise.mean()
    gains, old = paired_gain(2.0, None), Trial(None, 1.0, None, np.ones(400))
    assert not gains(replace(old, losses=0.985 + noise), old)
    assert gains(replace(old, losses=0.97 + noise), old)
    assert not gains(old, old)


def test_losses_of_rows_have_the_mean_that_targets_are_scored_by(digits, rng):
    _, y, *_ = digits
    targets, rows = _pictures_targets(y), np.arange(50)
    values = rng.normal(size=(50, 10))
    found = _pictures._row_losses(targets, values, rows)
    assert_allclose(found.mean(), -targets.score(values, None, rows), rtol=1e-6)
    numbers = NumberTargets(rng.normal(size=(50, 2)), 1)
    found = _pictures._row_losses(numbers, values[:, :2], rows)
    assert_allclose(found.mean(), -numbers.score(values[:, :2], None, rows))


def test_mirror_images_help_where_classes_do_not_know_left_from_right(rng):
    """Bars that are upright or not, on any side: a half of them mirrored."""
    n = 60
    X = rng.integers(0, 60, size=(n, 9, 9))
    y = np.arange(n) % 2
    for k in range(n):
        left = 1 + 6 * rng.integers(2)
        if y[k]:
            X[k, :, left] += 150
        else:
            X[k, left, :] += 150
    model = PatchKernelClassifier(8, 3, image_shape=(9, 9), random_state=0)
    flipped = X[:, :, ::-1].reshape(n, -1)
    model.set_params(mirror=True).fit(X.reshape(n, -1), y)
    values = model.decision_function(X.reshape(n, -1))
    assert_allclose(model.decision_function(flipped), values, atol=2e-3)


def test_the_shape_is_guessed_and_said(rng, capsys):
    X = rng.integers(0, 255, size=(12, 784)).astype(np.uint8)
    model = PatchKernelClassifier(4, verbose=1, random_state=0)
    model.fit(X, np.arange(12) % 2)
    assert model.image_shape_ == (1, 28, 28)
    said = capsys.readouterr().err
    assert "784 columns are taken as pictures of shape (1, 28, 28)" in said
    assert "gamma=" in said
    assert PatchDictionary(4).fit(np.tile(X, (1, 4))[:, :3072]).image_shape_ == (
        3,
        32,
        32,
    )


def test_explain_tells_what_was_chosen(digits):
    X, y, *_ = digits
    text = PatchKernelClassifier(**FIXED).fit(X, y).explain()
    assert "12 filters" in text
    assert "C=20" in text
    assert "all 200 pictures" in text


# ---- memory and blocks ---------------------------------------------------------------


def test_predictions_in_blocks_are_the_same(digits, monkeypatch):
    X, y, X_test, _ = digits
    model = PatchKernelClassifier(**FIXED).fit(X, y)
    expected = model.decision_function(X_test)
    model.set_params(memory_budget="400KiB")
    model._kept.parts = None  # as after a pickle
    assert_allclose(model.decision_function(X_test), expected, atol=1e-4)
    assert model._kept.parts is None  # the features do not fit
    for k in (0, 50):
        one = model.decision_function(X_test[k : k + 1])
        assert_allclose(one, expected[k : k + 1], atol=1e-4)


@pytest.mark.slow
def test_features_never_exist_at_once():
    """The features have 16 times as many bytes as the fit may take."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(300, 144)).astype(np.uint8)
    y = np.arange(300) % 3
    budget = 12 * 2**20
    model = PatchKernelClassifier(
        4096, 4, image_shape=(12, 12), gamma=0.5, C=10.0, mirror=False, pooling=4,
        memory_budget=budget, random_state=0,
    )  # fmt: skip
    dictionary = PatchDictionary(4096, 4, image_shape=(12, 12), random_state=0).fit(X)
    assert dictionary.filters_[0].shape[0] == 4096
    model._dictionary_class = lambda *args, **kwargs: dictionary
    dictionary.fit = lambda X: dictionary  # the draw of patches is not measured
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    features = 300 * 2 * 16 * 4096 * 4
    assert features > 12 * budget
    assert peak < 2 * budget
    assert model._kept.parts is None
    # The moments of all features are kept, as many numbers as two pictures have.
    assert model.predict(X[:5]).shape == (5,)


def test_whole_numbers_stay_whole_numbers(digits):
    X, y, X_test, _ = digits
    model = PatchKernelClassifier(**FIXED).fit(X, y)
    assert model.X_fit_.dtype == np.uint8
    wide = PatchKernelClassifier(**FIXED).fit(X.astype(float), y)
    assert wide.X_fit_.dtype == np.float64
    assert wide.decision_function(X_test.astype(float)).dtype == np.float64
    assert_allclose(
        wide.decision_function(X_test), model.decision_function(X_test), atol=1e-3
    )


def test_features_are_kept_between_predictions_and_in_no_pickle(digits):
    import pickle

    X, y, X_test, _ = digits
    model = PatchKernelClassifier(**FIXED).fit(X, y)
    assert model._kept.are_with(X_test)
    again = pickle.loads(pickle.dumps(model))
    assert again._kept.parts is None
    assert_allclose(
        again.decision_function(X_test), model.decision_function(X_test), atol=1e-4
    )
    assert again._kept.are_with(X_test)


def test_tensors_give_the_model_of_arrays(xp, digits):
    X, y, X_test, _ = digits
    expected = PatchKernelClassifier(**FIXED).fit(X, y).decision_function(X_test)
    model = PatchKernelClassifier(**FIXED).fit(array(xp, X), y)
    assert_close(model.decision_function(array(xp, X_test)), expected, atol=1e-3)


def test_a_device_computes_and_gives_numpy_back(digits):
    pytest.importorskip("torch")
    X, y, X_test, _ = digits
    expected = PatchKernelClassifier(**FIXED).fit(X, y).decision_function(X_test)
    model = PatchKernelClassifier(**FIXED, device="cpu:0").fit(X, y)
    values = model.decision_function(X_test)
    assert isinstance(values, np.ndarray)
    assert isinstance(model.X_fit_, np.ndarray)
    assert_allclose(values, expected, atol=1e-3)


# ---- what is refused -----------------------------------------------------------------

X_GOOD = np.random.default_rng(0).integers(0, 255, size=(10, 64)).astype(np.uint8)
Y_GOOD = np.arange(10) % 2
BAD = {
    "wrong shape": ({"image_shape": (8, 9)}, X_GOOD, r"8 \* 9 = 72 values"),
    "no guess": ({"image_shape": None}, X_GOOD, "cannot be guessed"),
    "four axes": ({"image_shape": (1, 1, 8, 8)}, X_GOOD, "has 4 axes"),
    "one axis": ({"image_shape": (64,)}, X_GOOD, "has 1 axes"),
    "one picture": ({}, X_GOOD[:1], "n_samples ?= ?1|minimum of 2|1 sample"),
    "constant": ({}, np.full((10, 64), 3), "All pixels of X are 3"),
    "large patches": ({"patch_sizes": 9}, X_GOOD, "is not a patch size for images"),
    "no patches": ({"patch_sizes": ()}, X_GOOD, "is empty"),
    "many cells": ({"pooling": 7}, X_GOOD, "Use fewer cells or smaller patches"),
    "half on the host": ({"precision": "float16"}, X_GOOD, "is for a GPU"),
    "filters": ({"n_filters": 0}, X_GOOD, "n_filters=0 must be"),
    "threshold": ({"threshold": -1}, X_GOOD, "threshold=-1 must be"),
    "power": ({"power": 0}, X_GOOD, "power=0 must be"),
    "mirror": ({"mirror": "both"}, X_GOOD, "mirror='both' must be"),
    "dictionary": ({"dictionary": "pca"}, X_GOOD, "dictionary='pca' must be"),
    "whitening": ({"whitening": -1.0}, X_GOOD, "whitening=-1.0 must be"),
    "three axes": (
        {},
        X_GOOD.reshape(10, 8, 8),
        r"X.reshape\(len\(X\), -1\), with image_shape=\(8, 8\)",
    ),
    "large of several": ({"patch_sizes": (3, 9)}, X_GOOD, "patch_sizes has 9"),
    "huge pixels": ({}, X_GOOD * 1e300, "pixels of X are from 0 to 2.54e"),
    "tiny pixels": ({}, X_GOOD * 1e-300, "pixels of X are from 0 to 2.54e-298"),
    "missing": ({}, np.where(np.arange(64) == 3, np.nan, X_GOOD), "NaN"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize(
    "kind", [PatchDictionary, PatchKernelClassifier, PatchKernelRegressor]
)
def test_bad_input_is_refused_before_any_work(kind, case, monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("work was begun with bad input")

    options, X, words = case
    monkeypatch.setattr("kaucus.preprocessing.images.draw_patches", reached)
    model = kind(**{"patch_sizes": 3, "image_shape": (8, 8), **options})
    with pytest.raises(ValueError, match=words):
        model.fit_transform(X) if kind is PatchDictionary else model.fit(
            X, Y_GOOD[: len(X)]
        )


@pytest.mark.parametrize("option", ["gamma", "C", "n_representatives", "combine"])
def test_parameters_of_the_machine_are_checked(option):
    with pytest.raises(ValueError, match=f"{option}=-1 must be"):
        PatchKernelClassifier(**{option: -1}).fit(X_GOOD, Y_GOOD)


def test_pictures_that_are_constant_among_others_are_fitted(rng):
    X = X_GOOD.copy()
    X[:3] = 7
    model = PatchKernelClassifier(4, 3, image_shape=(8, 8), random_state=0)
    assert np.isfinite(model.fit(X, Y_GOOD).decision_function(X)).all()
