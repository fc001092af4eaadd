"""The fast grid against scikit-learn's own, and what it promises beyond."""

import io
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.svm import SVC

from kaucus import ClusterRBFSVC, LocalSVC
from kaucus.evaluation import grid_search_gamma_C, tunability_auc
from kaucus.evaluation import tunability as module
from kaucus.kernels import Cauchy, Gaussian, Linear, NearestCenter
from tests.arrays import assert_to_rounding

CS, GAMMAS = [0.1, 10.0, 1e3, 1e5], [1e-3, 0.1, 10.0]
FOLDS = StratifiedKFold(4, shuffle=True, random_state=0)


@pytest.fixture(scope="module", params=[2, 3], ids=["binary", "three classes"])
def data(request):
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X = X[:, 1:3] + 0.3 * rng.normal(size=(150, 2))
    y = np.array(["a", "b", "c"])[y]
    return (X, y) if request.param == 3 else (X[y != "a"], y[y != "a"])


def search(model, X, y, **options):
    options = {"Cs": CS, "gammas": GAMMAS, "cv": FOLDS, "max_iter": 10**7} | options
    return grid_search_gamma_C(model, X, y, **options)


def test_rbf_equals_grid_search_cv(data):
    X, y = data
    grid = {"C": CS, "gamma": GAMMAS}
    theirs = GridSearchCV(SVC(break_ties=True), grid, cv=FOLDS).fit(X, y)
    ours = search(Gaussian(), X, y, n_jobs=2)
    assert_array_equal(ours.cv_results_["params"], list(ParameterGrid(grid)))
    for key in [k for k in ours.cv_results_ if "score" in k]:
        assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], err_msg=key)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert tunability_auc(ours) == pytest.approx(tunability_auc(theirs))
    assert ours.scores.shape == (4, 3, 4)


@pytest.mark.parametrize("normalization", ["unit", "determinant", "density"])
@pytest.mark.parametrize("model", [ClusterRBFSVC, LocalSVC])
def test_equals_refitting_with_the_same_cells(data, model, normalization):
    """Cells from all rows: the estimator gets the others as unlabelled rows."""
    X, y = data
    centers = KMeans(2, n_init=10, random_state=0).fit(X).cluster_centers_
    model = model(partition=NearestCenter(centers))
    if "normalization" in model.get_params():
        model.set_params(normalization=normalization)
    ours = search(model, X, y)
    for c, g in [(0, 1), (1, 0), (3, 2)]:
        model.set_params(C=CS[c], gamma=GAMMAS[g], max_iter=10**7)
        expected = [
            model.fit(X[train], y[train], X_unlabeled=X[test]).score(X[test], y[test])
            for train, test in FOLDS.split(X, y)
        ]
        assert_allclose(ours.scores[c, g], expected)


@pytest.mark.parametrize(
    "model",
    [
        ClusterRBFSVC(partition="linear", random_state=0),
        ClusterRBFSVC(n_clusters=3, partition="tree", random_state=0),
        LocalSVC(partition="tree", random_state=0),
        LocalSVC(partition=LogisticRegression()),
    ],
    ids=["linear", "tree", "local tree", "a classifier"],
)
def test_cells_that_see_labels_see_those_of_training_rows_alone(data, model):
    """Fitted anew in every fold; the rows left out are there without their labels."""
    X, y = data
    ours = search(model, X, y, n_jobs=2)
    for c, g in [(0, 1), (2, 2)]:
        model = clone(model).set_params(C=CS[c], gamma=GAMMAS[g], max_iter=10**7)
        expected = [
            model.fit(X[train], y[train], X_unlabeled=X[test]).score(X[test], y[test])
            for train, test in FOLDS.split(X, y)
        ]
        assert_allclose(ours.scores[c, g], expected)


def test_fewer_svms_than_points(data):
    """Beyond the C at which no coefficient is bound, the solution stays."""
    X, y = data
    few = search(Gaussian(), X, y, gammas=[1e3], Cs=[1e-2, *CS, 1e9])
    assert few.n_fits < few.scores.size
    scores = [
        cross_val_score(SVC(C=C, gamma=1e3, break_ties=True), X, y, cv=FOLDS)
        for C in few.Cs.tolist()
    ]
    assert_allclose(few.scores[:, 0], scores)


def test_kernel_values_beyond_any_svm_are_scaled():
    """(K, C) and (K/s, C s) are the same problem."""
    X, y = make_classification(80, 40, n_informative=5, n_redundant=0, random_state=0)
    kernel = ClusterRBFSVC(partition=lambda X: np.zeros(len(X), int))
    sizes = []
    for units in (1.0, 1e-6):  # kernel values of 1 and of 10^240: hard margins both
        kernel.set_params(normalization="determinant")
        result = search(kernel, X * units, y, Cs=[1e5], gammas=[0.01])
        sizes.append(result.mean_scores)
    assert_allclose(*sizes, atol=2 / len(X))
    assert sizes[0][0, 0] > 0.6


def test_svms_that_do_not_converge_are_counted_and_told_once(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match=r"\d+ of 48 SVMs stopped at") as told:
        result = search(Gaussian(), X, y, max_iter=20, n_jobs=2)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert result.capped.shape == result.scores.shape
    assert 0 < result.capped.sum() <= 48


def test_the_same_for_any_number_of_threads(data):
    X, y = data
    one, two = (search(ClusterRBFSVC(random_state=0), X, y, n_jobs=n) for n in (1, 2))
    assert_to_rounding(one.scores, two.scores)


def test_other_kernels_of_a_distance(data):
    X, y = data
    ours = search(Cauchy(), X, y, gammas=[0.5], Cs=[1.0])
    svc = SVC(kernel=Cauchy(0.5), break_ties=True)
    expected = cross_val_score(svc, X, y, cv=FOLDS)
    assert_allclose(ours.scores[0, 0], expected)


def test_the_data_stays_as_it_is(data):
    X, y = (part.copy() for part in data)
    model = LocalSVC(random_state=0)
    search(model, X, y)
    assert_array_equal(X, data[0])
    assert_array_equal(y, data[1])
    assert [name for name in vars(model) if name.endswith("_")] == []


def test_ctrl_c_is_raised(data, monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(SVC, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(Gaussian(), *data)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal_and_a_line_in_a_log(data, monkeypatch):
    X, y = data
    for stream, verbose, expected in (
        (Terminal(), 1, "12 of 12"),
        (Terminal(), 0, ""),
        (io.StringIO(), 1, "12 of 12"),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        search(Gaussian(), X, y, verbose=verbose)
        text = stream.getvalue()
        assert expected in text
        assert expected or not text


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        (Linear(), {}, "not a function of a distance and gamma"),
        (SVC(), {}, "must be a kernel object, a ClusterRBFSVC or a LocalSVC"),
        (ClusterRBFSVC(partition="forest"), {}, r"partition='forest' must be one of"),
        (Gaussian(), {"Cs": []}, r"Cs=\[\] must be a non-empty sequence of positive"),
        (Gaussian(), {"gammas": [-1]}, r"gammas=\[-1\] must be a non-empty"),
        (Gaussian(), {"Cs": "a"}, "Cs='a' must be positive numbers"),
    ],
)
def test_bad_arguments(data, model, options, match):
    with pytest.raises(ValueError, match=match):
        search(model, *data, **options)


def test_folds_without_two_classes(data):
    X, y = data
    with pytest.raises(ValueError, match="y has one class only"):
        search(Gaussian(), X, np.zeros(len(X)), cv=[(np.arange(9), np.arange(9, 20))])
    one = np.flatnonzero(y == "b")
    with pytest.raises(ValueError, match="training rows of fold 0 have one class"):
        search(Gaussian(), X, y, cv=[(one, np.arange(len(y)))])


def test_the_default_grid_is_the_papers():
    assert len(module.C_GRID) * len(module.GAMMA_GRID) == 56
