"""n_representatives, refine and allocation = "auto" of the k-means kernel models."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, make_blobs, make_friedman1
from threadpoolctl import threadpool_limits

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.estimators import _kmeans_kernel_growth as growth
from kaucus.estimators._kmeans_kernel_growth import (
    Target,
    most_representatives,
    plan_growth,
)
from kaucus.solvers import columns_bytes
from kaucus.solvers._low_rank import bytes_per_row

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1000), slice(1000, None)
FIXED = {"C": 100.0, "kernel": "rbf", "gamma": "scale", "random_state": 0}
PLAN = {
    "allocation": "equal",
    "target": "balanced",
    "refine": None,
    "n_refine": None,
    "rounds": 2,
    "budget": 10**12,
}


@pytest.fixture
def small_targets(monkeypatch):
    """Targets for a thousand rows."""
    sizes = {"fastest": (80, 0.2), "balanced": (320, 0.05), "best": (560, 0.0)}
    targets = {name: Target(*values) for name, values in sizes.items()}
    monkeypatch.setattr(growth, "TARGETS", targets)


# ---- plans -----------------------------------------------------------------------


def test_few_rows_are_all_representatives():
    plan = plan_growth(None, [1500, 2500], **PLAN)
    assert plan == ([1500, 2500], [], (), -np.inf, 0)


def test_where_all_rows_are_one_factorisation_there_may_be_more_of_them():
    sizes = [5000, 5300]
    assert plan_growth(None, sizes, **PLAN).additions
    plan = plan_growth(None, sizes, **PLAN, factored=True)
    assert plan == (sizes, [], (), -np.inf, 0)
    assert plan_growth(None, [5000, 5400], **PLAN, factored=True).additions


def test_many_rows_begin_with_a_quarter_and_double():
    plan = plan_growth(None, [30_000, 30_000], **PLAN)
    assert plan.numbers == [750, 750]
    assert plan.additions == [1500, 3000]
    assert plan.choices == ("residual", "random")
    assert plan.n_held_out == 5000


def test_memory_bounds_the_number():
    plan = plan_growth(None, [30_000, 30_000], **{**PLAN, "budget": 88 * 1000**2})
    assert sum(plan.numbers) + sum(plan.additions) == 1000


def test_a_given_number_is_kept_and_refine_adds_to_it():
    assert plan_growth([3, 4], [100, 100], **PLAN) == ([3, 4], [], (), -np.inf, 0)
    given = {**PLAN, "refine": "residual"}
    assert plan_growth([3, 4], [100, 100], **given).additions == [7, 7]
    given |= {"n_refine": 5, "rounds": 3, "refine": "auto"}
    plan = plan_growth([3, 4], [100, 100], **given)
    assert (plan.additions, plan.n_held_out) == ([2, 2, 1], 20)
    assert plan.choices == ("residual", "random")


# ---- models ----------------------------------------------------------------------


def test_without_an_argument_few_rows_are_all_representatives():
    m = KMeansKernelClassifier(random_state=0).fit(DIGITS[:300], LABELS[:300])
    assert len(m.representatives_) == 300
    assert m.refine_ is None


@pytest.mark.usefixtures("small_targets")
def test_a_better_target_is_larger_and_no_worse():
    models = [
        KMeansKernelClassifier(target=target, **FIXED).fit(DIGITS[TRAIN], LABELS[TRAIN])
        for target in ("fastest", "balanced", "best")
    ]
    sizes = [len(m.representatives_) for m in models]
    assert sizes[0] < sizes[1] < sizes[2] <= 560
    scores = [m.score(DIGITS[TEST], LABELS[TEST]) for m in models]
    assert scores[0] < scores[1] <= scores[2] + 0.01
    for m in models:
        assert m.representative_weights_.sum() == pytest.approx(1000)
        assert_array_equal(
            m.representatives_[len(m.representatives_) - len(m.hard_rows_) :],
            DIGITS[TRAIN][m.hard_rows_],
        )


@pytest.mark.usefixtures("small_targets")
def test_it_stops_where_nothing_is_gained():
    X, y = make_blobs(900, centers=2, cluster_std=3.0, random_state=0)
    m = KMeansKernelClassifier(**{**FIXED, "C": 1.0}).fit(X, y)
    assert len(m.representatives_) < 320


@pytest.mark.usefixtures("small_targets")
def test_what_is_chosen_by_rows_held_out_is_one_of_both():
    m = KMeansKernelClassifier(8, refine="auto", n_refine=60, **FIXED)
    m.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert m.refine_ in ("residual", "random")
    assert len(m.representatives_) == 140
    either = KMeansKernelClassifier(8, refine="random", n_refine=60, **FIXED)
    either.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert either.refine_ == "random"


@pytest.mark.usefixtures("small_targets")
def test_weights_and_probabilities_go_with_rows_held_out():
    weight = np.where(np.arange(1000) % 3 == 0, 2.0, 1.0)
    weight[::10] = 0.0
    m = KMeansKernelClassifier(class_weight="balanced", **FIXED)
    m.fit(DIGITS[TRAIN], LABELS[TRAIN], sample_weight=weight)
    assert m.representative_weights_.sum() == pytest.approx(weight.sum())
    assert (weight[m.hard_rows_] > 0).all()
    assert m.predict_proba(DIGITS[TEST]).sum(axis=1) == pytest.approx(1)
    assert m.score(DIGITS[TEST], LABELS[TEST]) > 0.9


@pytest.mark.usefixtures("small_targets")
def test_a_regressor_grows_as_well():
    X, y = make_friedman1(1200, n_features=5, noise=0.05, random_state=0)
    few, many = (
        KMeansKernelRegressor(target=t, **FIXED).fit(X[:900], y[:900])
        for t in ("fastest", "best")
    )
    assert len(few.representatives_) < len(many.representatives_)
    assert few.score(X[900:], y[900:]) < many.score(X[900:], y[900:])
    assert many.representative_weights_.sum() == pytest.approx(900)


def test_every_row_of_a_short_stream_speaks_as_in_a_fit():
    m = KMeansKernelClassifier(**FIXED)
    m.partial_fit(DIGITS[:50], LABELS[:50], classes=np.arange(10))
    m.partial_fit(DIGITS[50:1300], LABELS[50:1300])
    assert len(m.representatives_) == 1300


# ---- allocation ------------------------------------------------------------------


def unequal_blobs():
    sizes = [800, 80, 40]
    X, y = make_blobs(sizes, centers=None, cluster_std=2.0, random_state=0)
    return X, y


@pytest.mark.parametrize(
    ("allocation", "counts"),
    [("equal", [30, 30, 30]), ("proportional", [78, 8, 4]), ("sqrt", [58, 19, 13])],
)
def test_an_allocation_shares_out_the_same_total(allocation, counts):
    X, y = unequal_blobs()
    m = KMeansKernelClassifier(30, allocation=allocation, **FIXED).fit(X, y)
    found = np.bincount(m.representative_labels_)
    assert np.abs(found - counts).max() <= 2
    assert len(m.representatives_) == 90
    assert m.allocation_ == allocation


def test_where_all_rows_are_representatives_nothing_is_to_be_shared_out(monkeypatch):
    X, y = unequal_blobs()
    m = KMeansKernelClassifier(**FIXED)
    with monkeypatch.context() as patch:
        patch.setattr(growth, "search_on_representatives", lambda *a, **k: 1 / 0)
        m.fit(X, y)
    assert len(m.representatives_) == len(y)
    assert m.allocation_ == "proportional"


def test_classes_of_about_equal_size_need_no_trial(monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("a trial was made")

    monkeypatch.setattr(growth, "search_on_representatives", reached)
    m = KMeansKernelClassifier(5, **FIXED).fit(DIGITS[:500], LABELS[:500])
    assert m.allocation_ == "equal"


def test_a_trial_gives_representatives_to_the_classes_that_need_them():
    """Two large classes are a chessboard, six small ones are a place each."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, size=(3000, 2))
    y = (np.sin(2 * X[:, 0]) * np.sin(2 * X[:, 1]) > 0).astype(int)
    places = np.array([[20.0 * k, 40.0] for k in range(6)])
    X = np.r_[X, np.repeat(places, 60, axis=0) + 0.1 * rng.normal(size=(360, 2))]
    y = np.r_[y, np.repeat(np.arange(2, 8), 60)]
    given = {**FIXED, "gamma": 1.0}
    m = KMeansKernelClassifier(15, **given).fit(X, y)
    equal = KMeansKernelClassifier(15, allocation="equal", **given).fit(X, y)
    assert m.allocation_ in ("proportional", "sqrt")
    assert m.score(X, y) > equal.score(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"n_representatives": "all"},
            r"n_representatives='all' must be a whole number",
        ),
        ({"target": "cheap"}, r"target='cheap' must be one of \['fastest'"),
        ({"allocation": "fair"}, r"allocation='fair' must be one of"),
        ({"refine": "best"}, r"refine='best' must be one of"),
    ],
)
def test_parameters_that_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        KMeansKernelClassifier().set_params(**params).fit(DIGITS[:100], LABELS[:100])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("target", ["fastest", "balanced", "best"])
@pytest.mark.parametrize("budget", [2**23, 2**25, 2**26, 2**28, 2**30, 2**34])
def test_an_open_number_fits_into_the_budget(budget, target, threads):
    """What the estimator chooses itself is not refused afterwards."""
    with threadpool_limits(threads, user_api="blas"):
        m = most_representatives(target, budget)
        Z = np.empty((1, 20), np.float32)
        assert columns_bytes(m, Z) + bytes_per_row(m, Z) <= budget
