"""Votes by greedy choice, folds, and how wrong predictions are where."""

import pickle

import numpy as np
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from kaucus.estimators import _committee
from kaucus.estimators._committee import (
    CLASS_LOSSES,
    N_VOTES,
    ErrorSize,
    choose_votes,
    fit_trees,
    held_out_predictions,
    make_folds,
    order_levels,
    root_mean_square,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def probabilities(rng, n, k):
    P = rng.random((n, k))
    return P / P.sum(axis=1, keepdims=True)


# ---- losses ----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_losses_are_those_of_scikit_learn(weighted, k, rng):
    P, y = probabilities(rng, 60, k), rng.integers(0, k, 60)
    w = rng.random(60) if weighted else None
    options = {"sample_weight": w}
    aucs = [sklearn.metrics.roc_auc_score(y == j, P[:, j], **options) for j in range(k)]
    expected = {
        "log_loss": sklearn.metrics.log_loss(y, P, **options),
        "roc_auc": 1 - np.mean(aucs),
        "accuracy": 1 - sklearn.metrics.accuracy_score(y, P.argmax(axis=1), **options),
    }
    for name, loss in CLASS_LOSSES.items():
        assert loss(P, y, w) == pytest.approx(expected[name], rel=1e-12)


# ---- votes -----------------------------------------------------------------------


def test_votes_lessen_the_loss_and_the_better_member_has_more(rng):
    y = rng.normal(size=500)
    members = {
        "near": (y + 0.3 * rng.normal(size=500))[:, None],
        "far": (y + 0.6 * rng.normal(size=500))[:, None],
        "off": rng.normal(size=(500, 1)) + 9,
    }

    def loss(P):
        return root_mean_square(P, y, None)

    votes = choose_votes(members, loss)
    assert sum(votes.values()) == N_VOTES
    assert votes["near"] > votes["far"] > votes["off"] == 0
    both = sum(n * members[name] for name, n in votes.items()) / N_VOTES
    assert loss(both) < min(loss(P) for P in members.values())


def test_the_only_member_has_all_votes():
    P = np.ones((3, 1))
    assert choose_votes({"one": P}, lambda P: 0.0) == {"one": N_VOTES}


# ---- folds -----------------------------------------------------------------------


def folds(y, *, classes=True, n_folds=5, cv=None, groups=None):
    return make_folds(y, classes=classes, n_folds=n_folds, cv=cv, groups=groups, seed=0)


@pytest.mark.parametrize("cv", [None, 3, GroupKFold(4)])
def test_no_group_is_in_two_folds(cv, rng):
    groups = rng.integers(0, 12, 90)
    found = folds(rng.integers(0, 2, 90), cv=cv, groups=groups)
    for learn, judge in found:
        assert not set(groups[learn]) & set(groups[judge])
    assert sorted(np.concatenate([j for _, j in found])) == list(range(90))


@pytest.mark.parametrize("y", [[0, 1], [0, 0, 0, 1], [0, 1, 2], [0] * 9 + [1]])
def test_few_rows_have_few_folds(y):
    found = folds(np.array(y))
    assert sorted(np.concatenate([j for _, j in found])) == list(range(len(y)))
    assert all(len(learn) for learn, _ in found)


def test_every_fold_has_its_share_of_every_class():
    y = np.repeat([0, 1], [90, 10])
    assert all(y[judge].sum() == 2 for _, judge in folds(y))


def test_rows_before_the_first_fold_in_time_are_not_judged():
    found = folds(np.arange(60.0), classes=False, cv=TimeSeriesSplit(3))
    P = held_out_predictions(60, 1, found, [np.ones((len(j), 1)) for _, j in found])
    assert np.isnan(P[:15]).all()
    assert (P[15:] == 1).all()


def test_rows_that_are_judged_twice_have_the_mean():
    every = np.arange(4)
    found = [(every, every), (every, every[:2])]
    P = held_out_predictions(4, 1, found, [np.ones((4, 1)), np.full((2, 1), 3.0)])
    assert P[:, 0].tolist() == [2, 2, 1, 1]


# ---- trees -----------------------------------------------------------------------


def columns(rng, n, n_levels=6):
    """Return two columns of levels and two of numbers, all with gaps."""
    X = rng.normal(size=(n, 4))
    X[:, :2] = rng.integers(0, n_levels, (n, 2))
    X[rng.random((n, 4)) < 0.1] = np.nan
    return X


OPTIONS = {"learning_rate": 0.1, "max_iter": 5, "seed": 0}


def halves(n):
    return np.arange(n // 2), np.arange(n // 2, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_levels_are_ordered_by_their_mean_target(weighted, rng):
    codes = rng.integers(0, 5, 300).astype(float)
    means = np.array([3.0, 0.0, 4.0, 1.0, 2.0])
    y = means[codes.astype(int)] + 0.1 * rng.normal(size=300)
    codes[::10] = np.nan
    w = None
    if weighted:  # rows of large weight say the contrary
        y, w = np.append(y, -y), np.repeat([1.0, 9.0], 300)
        codes, means = np.append(codes, codes), -means
    table = order_levels(codes, 7, y, w)
    assert_allclose(table[:5], np.argsort(np.argsort(means)))
    assert np.isnan(table[5:]).all()


def test_trees_of_ordered_levels_follow_the_order_and_know_gaps(rng):
    codes = rng.integers(0, 9, (600, 1)).astype(float)
    means = rng.permutation(9).astype(float)
    y = means[codes[:, 0].astype(int)]
    codes[::5], y[::5] = np.nan, 20.0
    options = OPTIONS | {"max_iter": 60, "n_classes": None, "n_categories": 1}
    trees = fit_trees(codes, y, None, halves(600), ordered=True, **options)
    found = trees.predict(np.append(np.arange(10.0), np.nan)[:, None])[:, 0]
    assert (np.argsort(found[:9]) == np.argsort(means)).all()
    assert_allclose(found[:9], means, atol=1)
    assert_allclose(found[9:], 20, atol=1)  # of no level, as a gap


@pytest.mark.parametrize("n_categories", [0, 2])
@pytest.mark.parametrize("k", [None, 2, 3])
def test_trees_predict_as_those_of_scikit_learn(n_categories, k, rng, monkeypatch):
    X = columns(rng, 400)
    y = np.nan_to_num(X[:, 0] == 2) + 2 * (np.nan_to_num(X[:, 3]) > 0)
    y = (
        y + 0.1 * rng.normal(size=400)
        if k is None
        else np.minimum(y, k - 1).astype(int)
    )
    theirs = []
    kept = _committee.Trees.__init__

    def keep(self, model, *more):
        theirs.append(model)
        kept(self, model, *more)

    monkeypatch.setattr(_committee.Trees, "__init__", keep)
    options = OPTIONS | {"n_categories": n_categories, "max_iter": 30}
    trees = fit_trees(X, y, None, halves(400), n_classes=k, ordered=False, **options)
    new = columns(rng, 300, n_levels=9)  # some of them unknown
    expected = theirs[0].predict(new) if k is None else theirs[0].predict_proba(new)
    assert_allclose(trees.predict(new), expected.reshape(300, -1), rtol=1e-12)
    again = pickle.loads(pickle.dumps(trees))
    assert_allclose(again.predict(new), trees.predict(new), rtol=1e-12)
    assert trees.gains()[3] > trees.gains()[2]


def test_classes_that_are_not_among_the_rows_have_no_probability(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60) * 2
    y[40:] = 1  # not among those that learn
    rows = np.arange(40), np.arange(20, 60)
    options = OPTIONS | {"n_classes": 4, "n_categories": 0, "ordered": False}
    P = fit_trees(X, y, None, rows, **options).predict(X)
    assert_allclose(P[:, [1, 3]], 0)
    assert_allclose(P.sum(axis=1), 1)
    P = fit_trees(X, np.full(60, 3), None, rows, **options).predict(X)
    assert_allclose(P, np.eye(4)[np.full(60, 3)])


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 10**6), ("right", 0), ("feature_idx", 4), ("feature_idx", -1)],
)
def test_trees_that_point_outside_of_themselves_are_not_loaded(field, value, rng):
    X = columns(rng, 200)
    y = np.nan_to_num(X[:, 3] > 0).astype(int)
    options = OPTIONS | {"n_classes": 2, "n_categories": 2, "ordered": False}
    trees = fit_trees(X, y, None, halves(200), **options)
    state = vars(trees) | {"nodes": trees.nodes.copy()}
    state["nodes"][field][0] = value
    with pytest.raises(ValueError, match="trees of this file are damaged"):
        trees.__setstate__(state)


# ---- how wrong where -------------------------------------------------------------


def test_errors_are_expected_to_be_larger_where_they_are(rng):
    X = rng.uniform(size=(2000, 3))
    errors = np.abs(rng.normal(size=2000)) * (0.1 + X[:, 0])
    found = folds(errors, classes=False)
    size = ErrorSize(X, errors, found, seed=0)
    new = rng.uniform(size=(500, 3))
    assert np.corrcoef(size(new), 0.1 + new[:, 0])[0, 1] > 0.9
    assert len(size.relative) == 2000
    scaled = ErrorSize(X, 10 * errors, found, seed=0)
    assert_allclose(scaled(new), 10 * size(new), rtol=1e-6)


def test_of_few_rows_all_errors_are_expected_to_be_alike(rng):
    size = ErrorSize(rng.normal(size=(50, 2)), np.ones(50), folds(np.zeros(50, int)), 0)
    assert_allclose(size(rng.normal(size=(5, 2))), 1.0)
