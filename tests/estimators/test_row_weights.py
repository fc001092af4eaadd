"""A weight is the precision of a row: laws of every estimator that takes weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits

from kaucus import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMClassifier,
    LSSVMRegressor,
    PatchKernelClassifier,
    PatchKernelRegressor,
)
from tests.reference import low_rank, ls_svm

RBF = {"kernel": "rbf", "gamma": 0.2}
SEED = {"random_state": 0}
OPEN = {"C": "auto", "kernel": "auto", "gamma": "tune"}
PICTURES = {"n_filters": 12, "patch_sizes": 3, "image_shape": (8, 8), **SEED}
FACTORS = (0.01, 100.0)


def name_of(model):
    return str(model).replace("\n", "").replace(" ", "")


@pytest.fixture
def rows(rng):
    """Rows with a noisy target, and weights of which some are zero."""
    X = rng.normal(size=(160, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=160)
    return X, y, rng.integers(0, 4, size=160) * rng.uniform(0.5, 2.0, size=160)


@pytest.fixture
def problem(rows):
    """Return rows, targets and weights that fit a model."""

    def for_model(model):
        X, y, weight = rows
        if isinstance(model, PatchKernelClassifier | PatchKernelRegressor):
            X, labels = load_digits(n_class=3, return_X_y=True)
            X, labels = X[:160].astype(np.uint8), labels[:160]
            y = X[:, 20:24].mean(axis=1)
        else:
            labels = np.digitize(y, [-0.7, 0.7])
        return X, labels if "Classifier" in type(model).__name__ else y, weight

    return for_model


def results(model, X):
    """Return all that a fitted model says of rows, which are not those of the fit."""
    X = X[::-1] if X.dtype == np.uint8 else X + 0.05
    if hasattr(model, "transform"):
        return {"transform": model.transform(X)}
    if hasattr(model, "classes_"):
        names = ("decision_function", "predict_proba", "predict_set")
    else:
        names = ("predict", "predict_interval")
    found = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    if "predict_interval" in found:
        found["std"] = model.predict(X, return_std=True)[1]
    return found


def assert_same_results(model, other, X, **tolerance):
    found, expected = results(model, X), results(other, X)
    for name, values in expected.items():
        scale = max(np.abs(values).max(), 1.0)
        assert_allclose(
            found[name], values, err_msg=name, **tolerance, atol=1e-6 * scale
        )


# ---- a factor of all weights ---------------------------------------------------------


SEARCHING = [
    LSSVMClassifier("auto", gamma="tune", **SEED),
    LSSVMClassifier(**OPEN, **SEED, learn_metric=False),
    LSSVMRegressor("auto", **RBF, **SEED),
    LSSVMRegressor("auto", gamma="tune", max_samples=60, **SEED),
    LSSVMRegressor(**OPEN, **SEED),
    KMeansKernelClassifier(8, learn_metric=False, **SEED),
    KMeansKernelClassifier(8, learn_metric=False, refine="auto", **SEED),
    KMeansKernelRegressor(20, learn_metric=False, **SEED),
    KMeansKernelRegressor("fast", learn_metric=False, **SEED),
    KMeansKernelRegressor(12, **SEED),
    LearnedMetric(**SEED),
    PatchKernelClassifier(**PICTURES, threshold="auto"),
    PatchKernelRegressor(**PICTURES),
]


@pytest.mark.parametrize("model", SEARCHING, ids=name_of)
def test_it_changes_nothing_where_C_is_searched(model, problem):
    X, y, weight = problem(model)
    light, heavy = (clone(model).fit(X, y, sample_weight=w * weight) for w in FACTORS)
    assert pytest.approx(light.C_) == heavy.C_
    assert_same_results(heavy, light, X[:40], rtol=1e-5)


@pytest.mark.parametrize("model", SEARCHING, ids=name_of)
def test_equal_weights_are_none_where_C_is_searched(model, problem):
    X, y, _ = problem(model)
    expected = clone(model).fit(X, y)
    weighted = clone(model).fit(X, y, sample_weight=1.5)
    assert_same_results(weighted, expected, X[:40], rtol=1e-5)


FIXED = [
    LSSVMClassifier(5.0, gamma=0.2, **SEED),
    LSSVMRegressor(5.0, gamma=0.2, **SEED),
    *(
        LSSVMRegressor(5.0, gamma=0.2, solver=solver, tol=1e-10, block_size=40, **SEED)
        for solver in ("cg", "block_descent", "matching_pursuit", "kaczmarz_mp")
    ),
    KMeansKernelClassifier(8, C=5.0, **RBF, **SEED),
    KMeansKernelRegressor(20, C=5.0, **RBF, **SEED),
    KMeansKernelRegressor(20, C=5.0, learn_metric=False, **SEED),
    PatchKernelClassifier(**PICTURES, C=5.0, gamma=0.5, mirror=False),
    PatchKernelRegressor(**PICTURES, C=5.0),
]


@pytest.mark.parametrize("model", FIXED, ids=name_of)
def test_it_is_a_factor_of_a_given_C(model, problem):
    X, y, weight = problem(model)
    expected = clone(model).fit(X, y, sample_weight=weight)
    for w in FACTORS:
        scaled = clone(model).set_params(C=model.C / w)
        scaled.fit(X, y, sample_weight=w * weight)
        if getattr(model, "solver", "auto") == "auto":
            assert_same_results(scaled, expected, X[:40], rtol=1e-4)
        else:  # which has no intervals
            assert_allclose(scaled.predict(X), expected.predict(X), atol=1e-6)


@pytest.mark.parametrize("kind", [KMeansKernelClassifier, KMeansKernelRegressor])
def test_rows_in_parts_have_the_weights_of_the_first(kind, problem):
    model = kind(6, learn_metric=False, **SEED)
    X, y, weight = problem(model)
    classes = {"classes": [0, 1, 2]} if "Classifier" in kind.__name__ else {}
    found = []
    for w in (1.0, 40.0):
        parts = clone(model)
        for s in (slice(0, 90), slice(90, 160)):
            parts.partial_fit(X[s], y[s], sample_weight=w * weight[s], **classes)
        assert_allclose(parts.representative_weights_.sum(), w * weight.sum())
        after = clone(model).fit(X[:90], y[:90], sample_weight=w * weight[:90])
        after.partial_fit(X[90:], y[90:], sample_weight=w * weight[90:])
        found.append([parts.predict(X), after.predict(X)])
    assert_allclose(found[1], found[0], atol=1e-6)


# ---- leave-one-out leaves out whole rows ---------------------------------------------


@pytest.mark.parametrize("model", FIXED[:2] + FIXED[6:8], ids=name_of)
def test_it_is_n_refits(model, problem):
    """Residuals are those of models without the row, whatever its weight."""
    X, y, weight = problem(model)
    X, y, weight = X[:40], y[:40], weight[:40]
    model = clone(model).fit(X, y, sample_weight=weight)
    known = np.flatnonzero(weight)
    found = model._left_out_models().left_out
    training = model._training
    targets = training.unit.values(model._target_columns(training.values))
    assert found.residuals.shape[0] == len(known)
    for i, values in zip(known, found.values, strict=True):
        others = weight * (np.arange(len(X)) != i)
        if hasattr(model, "representatives_"):  # which stay
            K, Z = model.kernel_(X, model.representatives_), model.representatives_
            a, b = low_rank.solve_on_representatives(
                K, model.kernel_(Z), targets, model.C_, others
            )
            refitted = K[i] @ a + b
        else:
            K = model.kernel_(X)
            solution = ls_svm.solve_bordered(K, targets, model.C, others)
            refitted = ls_svm.decide(K[[i]], solution)[0]
        assert_allclose(values, refitted, atol=1e-6)


def test_the_best_score_is_the_weighted_mean_of_refits(rows):
    X, y, weight = (part[:50] for part in rows)
    model = LSSVMRegressor([3.0], **RBF).fit(X, y, sample_weight=weight)
    weight = weight / weight[weight > 0].mean()
    values = ls_svm.leave_one_out(model.kernel_(X), y[:, None], 3.0, weight)[:, 0]
    expected = -np.average((values - y) ** 2, weights=weight)
    assert_allclose(model.best_score_, expected, rtol=1e-8)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_large_weights_do_not_choose_the_largest_C(rng, spread):
    X = rng.normal(size=(250, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    noisy = y + 0.5 * rng.normal(size=250)
    weight = 100 * rng.uniform(1 - spread, 1 + spread, size=150)
    model = LSSVMRegressor("auto", **SEED)
    score = model.fit(X[:150], noisy[:150], sample_weight=weight).score(
        X[150:], y[150:]
    )
    plain = model.fit(X[:150], noisy[:150]).score(X[150:], y[150:])
    assert score > plain - 0.05


@pytest.mark.parametrize("model", [FIXED[1], FIXED[7]], ids=name_of)
@pytest.mark.parametrize("w", [(2.0, 2.0), (5.0, 15.0)])
def test_intervals_hold_their_level(model, rng, w):
    """Of precisions that say how noisy a row is not: rows of both kinds, 90 %."""
    X = rng.normal(size=(900, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=900)
    weight = rng.uniform(*w, size=300)
    model = clone(model).fit(X[:300], y[:300], sample_weight=weight)
    for method in ("plus", "naive"):
        low, high = model.predict_interval(X[300:], 0.9, method).T
        covered = np.mean((low <= y[300:]) & (y[300:] <= high))
        assert abs(covered - 0.9) < 0.05  # a standard error of 0.02
