"""Tables as they come: scikit-learn's contract, and laws of columns, rows and votes."""

import copy
import functools
import pickle
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import GroupKFold, TimeSeriesSplit, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from kaucus import TableClassifier, TableRegressor
from kaucus.estimators import tables

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.usefixtures("few_rounds")
FAST = {"effort": "fast", "random_state": 0}
CLASSES = TableClassifier, TableRegressor
each_class = pytest.mark.parametrize("kind", CLASSES)

REPEATED_ROWS = (
    "folds and the rows that tell trees when to stop are drawn by rows: a row of "
    "weight 2 is in one fold, two equal rows may be in two"
)
EXCUSED = {"check_sample_weight_equivalence_on_dense_data": REPEATED_ROWS}


@parametrize_with_checks(
    [kind(**FAST) for kind in CLASSES], expected_failed_checks=lambda _: EXCUSED
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def frame(n=300, seed=0):
    """Return columns of every kind, numbers, and classes that follow from them."""
    rng = np.random.default_rng(seed)
    size, kind = rng.normal(size=n), rng.choice(["a", "b", "c"], n)
    shop = rng.integers(0, 40, n)
    X = pandas.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "kind": kind,
            "shop": [f"shop {s}" for s in shop],
            "sold": rng.permutation(
                pandas.date_range("2024-01-01", periods=n, freq="13h")
            ),
            "noise": rng.normal(size=n),
        }
    )
    y = size + 2 * (kind == "b") + 0.05 * shop + 0.2 * rng.normal(size=n)
    return X, y, np.where(y > np.median(y), "high", "low")


def fitted(kind, X, y, labels, **options):
    return kind(**FAST | options).fit(X, labels if kind is TableClassifier else y)


@functools.cache
def default(kind):
    """Return the default frame, its two targets, and a model of its own of them."""
    X, y, labels = frame()
    return X, y, labels, fitted(kind, X, y, labels)


def output(model, X):
    return getattr(model, "predict_proba", model.predict)(X)


# ---- columns ---------------------------------------------------------------------


@each_class
def test_gaps_categories_and_dates_are_learned(kind):
    X, y, labels = frame(600)
    model = fitted(kind, X[:400], y[:400], labels[:400])
    truth = (labels if kind is TableClassifier else y)[400:]
    assert model.score(X[400:], truth) > 0.75
    assert sum(model.weights_.values()) == pytest.approx(1)
    shares = dict(zip(X.columns, model.feature_importances_, strict=True))
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares["size"], shares["kind"]) > shares["noise"]


@each_class
def test_a_polars_frame_is_the_same_frame(kind):
    polars = pytest.importorskip("polars")
    X, y, labels, model = default(kind)
    other = fitted(kind, polars.from_pandas(X), y, labels)
    assert list(other.feature_names_in_) == list(X.columns)
    assert_allclose(output(other, polars.from_pandas(X)), output(model, X), rtol=1e-7)


@each_class
def test_lists_of_numbers_and_texts_are_the_same_table(kind):
    X, y, labels = frame()
    X = X[["size", "kind", "noise"]].astype({"kind": object})
    expected = output(fitted(kind, X, y, labels), X)
    rows = X.to_numpy(dtype=object).tolist()
    assert_allclose(output(fitted(kind, rows, y, labels), rows), expected, rtol=1e-7)


@each_class
@pytest.mark.parametrize(
    "change",
    [lambda X: X["size"], lambda X: X["size"].to_numpy(), lambda X: X.T.to_dict()],
)
def test_what_is_no_table_is_refused(kind, change):
    X, y, labels = frame(30)
    with pytest.raises(ValueError, match=r"2D array|2-dimensional"):
        fitted(kind, change(X), y, labels)


@each_class
def test_constant_and_empty_columns_change_nothing(kind):
    X, y, labels, model = default(kind)
    expected = output(model, X)
    more = X.assign(one=1e6, none=None)
    with pytest.warns(UserWarning, match="'none'"):
        model = fitted(kind, more, y, labels)
    assert_allclose(output(model, more), expected, rtol=1e-7)


@each_class
def test_order_and_names_of_columns_are_held_to(kind):
    X, y, labels, model = default(kind)
    with pytest.raises(ValueError, match="same order"):
        model.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"size": "other"}))
    twice = pandas.concat([X, X[["size"]]], axis=1)
    with pytest.raises(ValueError, match="2 columns of the name 'size'"):
        fitted(kind, twice, y, labels)


@each_class
def test_a_word_in_a_column_of_numbers_is_named(kind):
    X, *_, model = default(kind)
    odd = X.astype({"size": object})
    odd.loc[7, "size"] = "large"
    with pytest.raises(ValueError, match="'size' of X has 'large' in row 7"):
        model.predict(odd)


@each_class
@pytest.mark.parametrize("columns", [["size"], ["kind"], ["shop"], ["sold"]])
def test_one_column_of_any_kind_is_enough(kind, columns):
    X, y, labels = frame(120)
    model = fitted(kind, X[columns], y, labels)
    assert np.isfinite(output(model, X[columns])).all()


@each_class
def test_columns_that_tell_nothing_give_the_mean(kind):
    _, y, labels = frame(100)
    found = output(fitted(kind, np.ones((100, 2)), y, labels), np.zeros((3, 2)))
    expected = [0.5, 0.5] if kind is TableClassifier else y.mean()
    assert_allclose(found, np.broadcast_to(expected, found.shape), atol=0.05)


# ---- rows ------------------------------------------------------------------------


@each_class
def test_a_row_is_predicted_by_itself(kind):
    X, *_, model = default(kind)
    expected = output(model, X)
    order = np.random.default_rng(1).permutation(len(X))
    assert_allclose(output(model, X.iloc[order]), expected[order], rtol=1e-9)
    assert_allclose(output(model, X[5:6]), expected[5:6], rtol=1e-9)


@each_class
@pytest.mark.parametrize("n", [4, 9, 20, 49])
def test_few_rows_are_enough(kind, n):
    X, y, labels = frame(n)
    labels = np.where(np.arange(n) < n // 2, "high", "low")
    model = fitted(kind, X, y, labels)
    assert np.isfinite(output(model, X)).all()


def test_a_class_of_one_row_has_a_probability():
    X, _, labels = frame(60)
    labels = np.where(np.arange(60) == 7, "rare", labels)
    P = TableClassifier(**FAST).fit(X, labels).predict_proba(X)
    assert P.shape == (60, 3)
    assert_allclose(P.sum(axis=1), 1)


@each_class
def test_a_factor_of_all_weights_changes_nothing(kind):
    X, y, labels = frame()
    targets = labels if kind is TableClassifier else y
    w = np.random.default_rng(3).uniform(0.5, 2, len(X))
    first, second = (
        output(kind(**FAST).fit(X, targets, sample_weight=f * w), X) for f in (1, 1000)
    )
    assert_allclose(first, second, rtol=1e-5, atol=1e-7)


@each_class
def test_a_row_without_weight_is_no_row(kind):
    X, y, labels = frame()
    targets = labels if kind is TableClassifier else y
    kept = np.arange(len(X)) % 3 > 0
    all_rows = kind(**FAST).fit(X, targets, sample_weight=kept * 1.0)
    some = kind(**FAST).fit(X[kept], targets[kept])
    assert_allclose(output(all_rows, X), output(some, X), rtol=1e-6)


def test_offset_and_scale_of_the_target_are_those_of_predictions():
    X, y, _, model = default(TableRegressor)
    for a, b in ((1e-3, 0.0), (1e3, 1e6)):
        other = TableRegressor(**FAST).fit(X, a * y + b)
        # Trees bin gradients of float32: equal splits may be chosen otherwise.
        difference = (other.predict(X) - b) / a - model.predict(X)
        assert np.sqrt(np.mean(difference**2)) < 0.05 * y.std()


# ---- votes -----------------------------------------------------------------------


@each_class
def test_the_committee_is_the_mean_of_its_members_by_votes(kind):
    X, *_, model = default(kind)
    if min(model.weights_.values()) == 0:
        pytest.skip("one member has all votes")
    alone = {}
    for name in model.weights_:
        member = copy.copy(model)
        member.weights_ = dict.fromkeys(model.weights_, 0.0) | {name: 1.0}
        alone[name] = output(member, X)
    expected = sum(w * alone[name] for name, w in model.weights_.items())
    assert_allclose(output(model, X), expected, rtol=1e-9)


@each_class
def test_the_committee_is_no_worse_than_its_members_on_held_out_rows(kind):
    *_, model = default(kind)
    scores = dict(model.scores_)
    assert scores.pop("committee") <= min(scores.values()) * (1 + 1e-12)
    told = model.explain()
    for name in ("kernel", "trees"):
        assert f"{name} {round(20 * model.weights_[name])} of 20 votes" in told


def test_far_from_all_rows_the_kernel_machine_is_held_near_the_trees():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = np.sin(4 * X[:, 1]) + 2 * (X[:, 0] > 0.3) + 0.3 * rng.normal(size=300)
    model = TableRegressor(**FAST).fit(X, y)
    assert 0 < model.weights_["kernel"] < 1
    dense, gappy = model._matrices(np.array([[40.0, 0.5]]))
    trees = np.mean([t.predict(gappy) for t in model.trees_])
    model._kernel_predictions = lambda *_: np.array([[1e6]])
    most = model.weights_["kernel"] * model._most_apart
    assert model._predictions(dense, gappy)[0, 0] == pytest.approx(trees + most)
    assert most < 3 * y.std()


@each_class
@pytest.mark.parametrize("name", ["kernel", "trees"])
def test_one_member_alone_has_all_votes(kind, name):
    X, y, labels = frame()
    model = fitted(kind, X, y, labels, members=[name])
    assert model.weights_ == {name: 1.0}
    assert (model.kernel_ is None) == (name == "trees")
    assert bool(model.trees_) == (name == "trees")
    assert np.isfinite(output(model, X)).all()


@pytest.mark.parametrize("scoring", ["log_loss", "roc_auc", "accuracy"])
def test_scoring_is_what_votes_are_shared_out_by(scoring):
    X, _, labels = frame()
    model = TableClassifier(scoring=scoring, **FAST).fit(X, labels)
    scores = dict(model.scores_)
    assert scores.pop("committee") <= min(scores.values()) * (1 + 1e-12)
    assert 0 <= min(scores.values()) <= max(scores.values()) < 0.7


def test_scores_tell_the_loss_of_new_rows():
    X, _, labels = frame(1200)
    model = TableClassifier(**FAST).fit(X[:600], labels[:600])
    found = log_loss(labels[600:], model.predict_proba(X[600:]))
    assert model.scores_["committee"] == pytest.approx(found, rel=0.3)


@each_class
def test_rows_of_a_group_do_not_judge_each_other(kind):
    """Rows come four times each: only folds of groups know how little is learned."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 4)
    X = rng.normal(size=(60, 3))[groups] + 1e-3 * rng.normal(size=(240, 3))
    y = rng.normal(size=60)[groups]
    targets = np.where(y > 0, 1, 0) if kind is TableClassifier else y
    blind = kind(**FAST).fit(X, targets)
    told = kind(**FAST).fit(X, targets, groups=groups)
    split = kind(cv=GroupKFold(3), **FAST).fit(X, targets, groups=groups)
    unit = 1 if kind is TableClassifier else y.std()
    least = 0.6 if kind is TableClassifier else 0.9
    for name in ("trees", "kernel"):
        assert blind.scores_[name] < least * unit
        assert min(told.scores_[name], split.scores_[name]) > least * unit


def test_one_group_cannot_be_held_out():
    X, _, labels = frame(40)
    with pytest.raises(ValueError, match="groups has one group only"):
        TableClassifier(**FAST).fit(X, labels, groups=np.zeros(40))


def test_rows_in_time_are_judged_by_those_before():
    X, y, _ = frame()
    for members in ("auto", ["trees"]):
        model = TableRegressor(cv=TimeSeriesSplit(3), members=members, **FAST)
        assert np.isfinite(model.fit(X, y).predict_interval(X)).all()
    assert len(model.trees_) == 6  # two of each fold, as there are categories


@each_class
def test_when_time_is_over_no_step_begins(kind):
    model = fitted(kind, *frame(), max_time=1e-6)
    assert len(model.trees_) == 2  # of one fold
    assert model.kernel_ is None
    told = model.explain()
    assert "Left out after max_time=1e-06 s: trees of 2 of 3 folds" in told
    assert "the kernel machine" in told


# ---- probabilities, sets, intervals, thresholds ----------------------------------


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_hold_the_classes_as_often_as_asked(score):
    X, _, labels = frame(1500)
    model = TableClassifier(**FAST).fit(X[:700], labels[:700])
    found = model.predict_set(X[700:], [0.7, 0.95], score=score)
    assert found.shape == (800, 2, 2)
    index = np.searchsorted(model.classes_, labels[700:])
    low, high = found[np.arange(800), index].mean(axis=0)
    assert low >= 0.65
    assert 0.9 <= high <= 1.0
    assert (found[:, :, 0] <= found[:, :, 1]).all()


def spread_frame(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 2))
    return X, np.sin(6 * X[:, 1]) + (0.05 + X[:, 0]) * rng.normal(size=n)


def test_intervals_are_as_wide_as_the_rows_near_by_are_wrong():
    X, y = spread_frame(1200)
    model = TableRegressor(**FAST).fit(X, y)
    new, truth = spread_frame(2000, 1)
    low, high = model.predict_interval(new, 0.9).T
    quiet = new[:, 0] < 0.3
    assert (high - low)[quiet].mean() < 0.5 * (high - low)[~quiet].mean()
    within = (low <= truth) & (truth <= high)
    for some in (slice(None), quiet, ~quiet):
        assert 0.82 < within[some].mean() < 0.97
    predicted = model.predict(new)
    assert ((low <= predicted) & (predicted <= high)).all()


def test_levels_of_intervals_that_need_more_rows_are_refused():
    X, y = spread_frame(20)
    model = TableRegressor(**FAST).fit(X, y)
    with pytest.raises(ValueError, match="needs at least 99 rows"):
        model.predict_interval(X, 0.99)


def rare(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.normal(size=n) > 2.8).astype(int)


def test_a_threshold_is_moved_by_rows_not_seen_without_another_fit():
    X, y = rare(3000, 0)
    trees = {"members": ["trees"], **FAST}  # sooner than a kernel machine
    plain = TableClassifier(**trees).fit(X, y)
    moved = TableClassifier(threshold="f1", **trees).fit(X, y)
    new, truth = rare(4000, 1)
    assert plain.threshold_ is None
    assert 0.05 < moved.threshold_ < 0.5
    assert_allclose(moved.predict_proba(new), plain.predict_proba(new), rtol=1e-7)
    scores = [f1_score(truth, model.predict(new)) for model in (plain, moved)]
    assert scores[1] > scores[0] + 0.02
    given = TableClassifier(threshold=f1_score, **trees).fit(X, y)
    assert given.threshold_ == pytest.approx(moved.threshold_)
    half = TableClassifier(threshold=0.25, **trees).fit(X, y)
    expected = half.predict_proba(new)[:, 1] >= 0.25
    assert (half.predict(new) == expected).all()


# ---- parameters, targets ---------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": ["kernel", "forest"]}, "members=.* must be 'auto', or"),
        ({"members": []}, "members="),
        ({"members": "kernel"}, "members='kernel' must be 'auto', or"),
        ({"scoring": "f1"}, "scoring='f1' must be one of"),
        ({"effort": "much"}, "effort='much' must be one of"),
        ({"threshold": "roc_auc"}, "threshold='roc_auc' is no metric of predicted"),
        ({"threshold": 1.5}, "threshold=1.5 must be a number between 0 and 1"),
        ({"max_time": 0}, "max_time=0 must be"),
        ({"memory_budget": "much"}, "memory_budget="),
    ],
)
def test_what_parameters_cannot_be(options, message):
    X, _, labels = frame(30)
    with pytest.raises(ValueError, match=message):
        TableClassifier(**options).fit(X, labels)


@each_class
def test_gaps_in_the_target_are_named(kind):
    X, y, labels = frame(30)
    y[4], labels = np.nan, labels.astype(object)
    labels[4] = None
    with pytest.raises(ValueError, match=r"y contains NaN.* 1 times, first in row 4"):
        fitted(kind, X, y, labels)


@pytest.mark.parametrize("targets", [["a"] * 30, np.ones(30)])
def test_one_class_is_nothing_to_learn(targets):
    with pytest.raises(ValueError, match="one class only"):
        TableClassifier(**FAST).fit(frame(30)[0], targets)


@each_class
def test_no_rows_are_an_error(kind):
    X, *_ = frame(30)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        kind(**FAST).fit(X[:0], [])


@each_class
def test_dask_collections_are_sent_to_what_takes_them(kind):
    dask = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"KMeansKernelClassifier.*fit rows of Dask"):
        kind(**FAST).fit(dask.ones((10, 2)), np.arange(10) % 2)


# ---- what is the user's, and what is left behind ---------------------------------


@each_class
def test_a_fitted_model_owns_its_arrays(kind):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200, 3)), rng.uniform(1, 2, 200)
    y = (X[:, 0] > 0).astype(float)
    model = kind(**FAST).fit(X, y, sample_weight=w)
    new = rng.normal(size=(20, 3))
    expected = output(model, new)
    X[:], y[:], w[:] = 0, 7, 9
    assert_allclose(output(model, new), expected, rtol=1e-12)


@each_class
def test_pickle_clone_and_a_second_fit(kind):
    X, y, labels, model = default(kind)
    expected = output(model, X)
    assert_allclose(output(pickle.loads(pickle.dumps(model)), X), expected, rtol=1e-9)
    assert clone(model).get_params() == kind(**FAST).get_params()
    few = fitted(kind, X[["noise"]], y, labels)
    few.fit(X, labels if kind is TableClassifier else y)
    assert_allclose(output(few, X), expected, rtol=1e-7)


@each_class
def test_ctrl_c_leaves_the_model_as_it_was(kind, monkeypatch):
    X, y, labels, model = copy.deepcopy(default(kind))
    before, expected = dict(vars(model)), output(model, X)

    def stop(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(tables, "choose_votes", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:100], (labels if kind is TableClassifier else y)[:100])
    assert vars(model).keys() == before.keys()
    assert_allclose(output(model, X), expected, rtol=1e-12)


def test_cross_validation_takes_frames():
    X, _, labels = frame()
    assert cross_val_score(TableClassifier(**FAST), X, labels, cv=3).mean() > 0.7


def test_rows_held_out_while_representatives_are_added_choose_votes(monkeypatch):
    """A quarter of them, which are as unseen as a validation set; no second fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=2400)
    fits, own, voters = [], TableRegressor._kernel_machine, []
    predicted = TableRegressor._unseen_predictions

    def counted(self, *rows):
        fits.append(own(self, *rows))
        return fits[-1]

    def noted(self, values, numbers, n):
        voters.extend(numbers)
        return predicted(self, values, numbers, n)

    monkeypatch.setattr(TableRegressor, "_kernel_machine", counted)
    monkeypatch.setattr(TableRegressor, "_unseen_predictions", noted)
    model = TableRegressor(effort="fast", random_state=0).fit(X, y)
    assert (len(fits), len(set(voters))) == (1, 600)
    assert len(fits[0].hard_rows_) > 0
    assert not set(voters) & set(fits[0].hard_rows_)
    assert 0.27 < model.scores_["kernel"] < 0.36


@pytest.mark.parametrize("threshold", [None, "f1"])
def test_some_rows_choose_votes_and_all_of_them_a_threshold(monkeypatch, threshold):
    monkeypatch.setattr(tables, "_JUDGES", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=150) > 0
    model = TableClassifier(random_state=0, threshold=threshold).fit(X, y)
    seen, labels = model._own
    assert len(seen) == len(labels) == (60 if threshold is None else 150)
    assert np.mean((seen[:, 1] > 0.5) == labels) > 0.8


def test_each_fold_draws_other_columns_for_its_trees():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 6)), rng.normal(size=120)
    same = [(np.arange(100), np.arange(100, 120))] * 2
    model = TableRegressor(random_state=0, members=["trees"], cv=same).fit(X, y)
    first, second = (trees.nodes["feature_idx"] for trees in model.trees_)
    assert first[:50].tolist() != second[:50].tolist()
