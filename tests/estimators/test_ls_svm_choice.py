"""C and gamma by leave-one-out: the same as refitting, without refitting."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from kaucus import (
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus.fitting._problem import ClassTargets, Problem
from kaucus.kernels import Exponential, Linear, median_gamma
from kaucus.solvers._system import classification_score
from tests.arrays import assert_to_rounding

CS = [0.1, 10.0, 1000.0]
pytestmark = pytest.mark.filterwarnings("ignore:The best of")  # few were tried


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::4], y[::4]


@pytest.fixture
def waves(rng):
    X = rng.uniform(-3, 3, size=(40, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)


def test_classifier_scores_are_those_of_n_refits(iris):
    X, y = iris
    model = LSSVMClassifier(CS, gamma=0.3).fit(X, y)
    refits = [
        cross_val_predict(LSSVMClassifier(C, gamma=0.3), X, y, cv=LeaveOneOut())
        for C in CS
    ]
    assert_allclose(model.search_results_["score"], [np.mean(p == y) for p in refits])
    assert model.best_score_ == model.search_results_["score"].max()


def test_regressor_scores_are_those_of_n_refits(waves):
    X, y = waves
    model = LSSVMRegressor(CS, gamma=1.0).fit(X, y)
    refits = [
        cross_val_predict(LSSVMRegressor(C, gamma=1.0), X, y, cv=LeaveOneOut())
        for C in CS
    ]
    errors = [np.mean((p - y) ** 2) for p in refits]
    assert_allclose(-model.search_results_["score"], errors, rtol=1e-6)
    assert CS[int(np.argmin(errors))] == model.C_


def test_the_model_is_that_of_the_chosen_c_and_gamma(iris):
    X, y = iris
    chosen = LSSVMClassifier(CS, gamma=[0.01, 0.3, 5.0], random_state=0).fit(X, y)
    given = LSSVMClassifier(chosen.C_, gamma=chosen.gamma_, random_state=0).fit(X, y)
    table = chosen.search_results_
    assert {key: len(column) for key, column in table.items()} == dict.fromkeys(
        ("kernel", "gamma", "C", "score", "n_columns", "chosen"), 9
    )
    assert chosen.gamma_ in (0.01, 0.3, 5.0)
    assert chosen.solver_ == "eigh"
    assert_allclose(chosen.decision_function(X), given.decision_function(X), atol=1e-7)
    assert_allclose(chosen.temperature_, given.temperature_, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "exponential"])
def test_tuned_gammas_are_multiples_of_that_of_the_median_distance(iris, kernel):
    X, y = iris
    model = LSSVMClassifier([1.0], kernel=kernel, gamma="tune").fit(X, y)
    middle = median_gamma(X, kernel=kernel)
    assert_allclose(model.search_results_["gamma"], middle * 4.0 ** np.arange(-3, 4))


def test_kernels_of_a_list_are_all_tried_and_the_best_is_taken(rng):
    X = rng.normal(size=(60, 2))
    y = X[:, 0] - 2 * X[:, 1] + 0.01 * rng.normal(size=60)
    kernels = ["rbf", "linear", Exponential(gamma=0.5)]
    model = LSSVMRegressor("auto", kernel=kernels).fit(X, y)
    table = model.search_results_
    assert set(table["kernel"]) == {"rbf", "linear", "exponential"}
    assert model.kernel_ == Linear()
    assert model.gamma_ is None
    assert model.best_score_ == table["score"].max()
    assert "of 3 kernels" in model.explain()


def test_what_is_given_is_not_chosen(iris):
    model = LSSVMClassifier(3.0, gamma=0.3).fit(*iris)
    assert (model.C_, model.gamma_) == (3.0, 0.3)
    assert len(model.search_results_["score"]) == 0
    assert np.isnan(model.best_score_)
    assert model.explain().startswith("solver=")


def test_a_width_is_chosen_at_a_given_c(iris):
    X, y = iris
    model = LSSVMClassifier(3.0, gamma="tune").fit(X, y)
    assert set(model.search_results_["C"]) == {3.0}
    again = LSSVMClassifier(3.0, gamma=model.gamma_).fit(X, y)
    assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-7)


def test_an_iterative_solver_fits_what_was_chosen(iris):
    X, y = iris
    model = LSSVMClassifier(CS, solver="cg", random_state=0, tol=1e-10).fit(X, y)
    assert model.solver_ == "cg"
    exact = LSSVMClassifier(model.C_, random_state=0).fit(X, y)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-5)


def test_a_refit_forgets_what_the_last_one_has_chosen(iris):
    X, y = iris
    model = LSSVMClassifier("auto").fit(X, y).set_params(C=1.0).fit(X, y)
    assert model.C_ == 1.0
    assert np.isnan(model.best_score_)


def test_the_solver_is_explained_before_the_fit(iris):
    told = LSSVMClassifier("auto", kernel="auto", gamma="tune").explain(*iris)
    assert told.startswith("After the search, with C=1: solver='cholesky'")


def test_a_useless_width_is_not_chosen(rng):
    X, y = make_moons(120, noise=0.1, random_state=0)
    model = LSSVMClassifier("auto", gamma=[1e-6, 2.0, 1e6]).fit(X, y)
    assert model.gamma_ == 2.0
    assert model.best_score_ > 0.98


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scores_are_those_of_refits_without_the_whole_row(iris, scoring):
    X, y = iris
    X, y = X[::3], y[::3]
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weight /= weight.mean()
    model = LSSVMClassifier(CS, gamma=0.3, scoring=scoring).fit(X, y, weight)
    for C, score in zip(CS, model.search_results_["score"], strict=True):
        values = np.empty((len(y), 3))
        for i in range(len(y)):
            others = weight * (np.arange(len(y)) != i)
            refit = LSSVMClassifier(C, gamma=0.3, probability=False)
            refit.fit(X, y, sample_weight=others)
            values[i] = refit.decision_function(X[[i]])[0]
        expected = classification_score(values, y, scoring, weight).value
        assert_allclose(score, expected, rtol=1e-6)


def test_more_rows_than_max_samples_choose_on_some_and_fit_all(iris):
    X, y = iris
    model = LSSVMClassifier(CS, max_samples=20, random_state=0).fit(X, y)
    assert model.X_fit_.shape[0] == len(y)
    assert model.solver_ == "cholesky"
    same = LSSVMClassifier(model.C_, gamma=model.gamma_).fit(X, y)
    assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-9)
    again = LSSVMClassifier(CS, max_samples=20, random_state=0).fit(X, y)
    assert_to_rounding(model.search_results_["score"], again.search_results_["score"])


def test_every_class_is_among_the_rows_that_choose(rng):
    X = rng.normal(size=(200, 2))
    y = np.r_[np.zeros(190), np.ones(8), np.full(2, 2)].astype(int)
    model = LSSVMClassifier(CS, max_samples=20, random_state=0).fit(X, y)
    targets = ClassTargets(y, 3, lambda weight, labels: weight)
    rows = model._rows_for_search(Problem(X, targets, None, None))
    assert set(y[rows]) == {0, 1, 2}
    assert np.bincount(y[rows]).min() >= 2


def test_several_outputs_share_one_choice(waves):
    X, y = waves
    both = LSSVMRegressor(CS, gamma=1.0).fit(X, np.c_[y, -2 * y])
    assert both.predict(X).shape == (40, 2)
    assert_allclose(both.predict(X)[:, 1], -2 * both.predict(X)[:, 0], atol=1e-8)


def test_of_many_rows_few_pairs_are_judged_exactly(monkeypatch):
    from kaucus.fitting import _search

    X, y = make_moons(240, noise=0.2, random_state=0)
    every = LSSVMClassifier("auto", gamma="tune").fit(X, y)
    monkeypatch.setattr(_search, "_FEW_EXACT_ROWS", 100)
    monkeypatch.setattr(_search, "_LEAST_COLUMNS", 60)
    model = LSSVMClassifier("auto", gamma="tune").fit(X, y)
    exact = model.search_results_["n_columns"] == 240
    assert 3 <= exact.sum() < 20
    assert model.best_score_ == model.search_results_["score"][exact].max()
    assert model.best_score_ >= every.best_score_ - 0.01
    assert model.solver_ == "cholesky"
    same = LSSVMClassifier(model.C_, gamma=model.gamma_).fit(X, y)
    assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("kind", ["float32", "csr", "precomputed"])
def test_of_many_rows_of_every_kind(kind, monkeypatch):
    from kaucus.fitting import _search

    X, y = make_moons(240, noise=0.2, random_state=0)
    weight = np.arange(240) % 3
    monkeypatch.setattr(_search, "_FEW_EXACT_ROWS", 100)
    Cs = 10.0 ** np.arange(-3, 3)  # beyond, float32 rows have other values
    plain = LSSVMClassifier(Cs, gamma=2.0).fit(X, y, weight)
    model = LSSVMClassifier(Cs, gamma=2.0)
    rows = X
    if kind == "float32":
        rows = X.astype(np.float32)
    elif kind == "csr":
        rows = csr_array(X)
    elif kind == "precomputed":
        rows, model = plain.kernel_(X), LSSVMClassifier(Cs, kernel="precomputed")
    model.fit(rows, y, weight)
    assert plain.C_ == model.C_
    assert model.best_score_ == pytest.approx(plain.best_score_, abs=0.01)
    expected = plain.decision_function(X)
    assert_allclose(model.decision_function(rows), expected, atol=1e-3)


@pytest.mark.parametrize("cls", [LSSVMClassifier, LSSVMRegressor])
@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"C": []}, "C=.* non-empty sequence of positive"),
        ({"C": [1.0, -1.0]}, "C=.* positive"),
        ({"C": "many"}, "C='many' must be .*'auto'.* non-empty sequence"),
        ({"C": True}, "C=True must be"),
        ({"gamma": [0.0]}, "gamma=.* positive"),
        ({"gamma": [1.0], "kernel": "linear"}, "named kernel that has a gamma"),
        ({"kernel": ["rbf", "rfb"]}, "'rfb' is not known"),
        ({"kernel": [], "C": "auto"}, "kernel=.* at least one"),
        ({"kernel": ["rbf"], "learn_metric": True}, "one kernel or 'auto'"),
        ({"scoring": "luck"}, "scoring='luck' must be one of"),
        (
            {"max_samples": 1},
            "max_samples=1 must be .*, 2 or more, or None",
        ),
        ({"gamma": "many"}, "gamma='many' must be .* one of .*'tune'"),
    ],
)
def test_bad_parameters_are_named(iris, cls, params, text):
    X, y = iris
    with pytest.raises(ValueError, match=text):
        cls(**params).fit(X, y)


def test_a_decomposition_that_does_not_fit_is_refused(iris):
    X, y = iris
    with pytest.raises(MemoryError, match="max_samples="):
        LSSVMClassifier("auto", memory_budget="10KiB").fit(X, y)


def test_the_choice_is_explained(waves):
    X, y = waves
    model = LSSVMRegressor(CS, gamma=[0.1, 1.0, 10.0]).fit(X, y)
    told = model.explain()
    chosen = f"kernel='rbf', gamma={model.gamma_:g}, C={model.C_:g}, of 3 gammas and 3 "
    assert told.startswith(chosen)
    assert "neg_mean_squared_error of 40 rows left out" in told
    with pytest.raises(NotFittedError):
        LSSVMRegressor("auto").explain()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"C": [1e-3, 1e-2]}, r"values of C, 0\.01, is the largest .* go on to 0\.1"),
        ({"gamma": [30.0, 100.0]}, "values of gamma, 30, is the least"),
    ],
)
def test_a_choice_at_the_end_of_its_grid_is_told(waves, params, text):
    X, y = waves
    with pytest.warns(UserWarning, match=text):
        LSSVMRegressor(**params).fit(X, y)
