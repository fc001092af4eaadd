"""n_representatives="fast", "balanced", "best" of the k-means kernel models."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, make_blobs, make_friedman1
from threadpoolctl import threadpool_limits

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.clustering._kmeans import KMeansOptions
from kaucus.fitting import _represented as growth
from kaucus.fitting._problem import ClassTargets, Plan, Problem
from kaucus.fitting._represented import (
    Size,
    grow_from,
    grow_openly,
    most_representatives,
    most_rows,
)
from kaucus.kernels import Gaussian
from kaucus.solvers._columns import bytes_per_row, columns_bytes
from kaucus.solvers._direct import solve_ls_svm
from tests.arrays import assert_to_rounding

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1000), slice(1000, None)
FIXED = {"C": 100.0, "kernel": "rbf", "gamma": "scale", "random_state": 0}


@pytest.fixture
def small_sizes(monkeypatch):
    """Sizes for a thousand rows."""
    sizes = {"fast": (80, 0.2), "balanced": (320, 0.05), "best": (560, 0.0)}
    sizes = {name: Size(*values) for name, values in sizes.items()}
    monkeypatch.setattr(growth, "SIZES", sizes)


# ---- plans -----------------------------------------------------------------------


def test_where_all_rows_are_one_factorisation_there_may_be_more_of_them():
    assert most_rows("balanced", 10**12, factored=False) == 6000
    assert most_rows("balanced", 10**12, factored=True) == 10_392


def test_many_rows_begin_with_an_eighth_and_double():
    plan = grow_openly("balanced", [30_000, 30_000], "equal", 6000)
    assert plan.numbers == [375, 375]
    assert plan.additions == [750, 1500, 3000]
    assert grow_openly("fast", [30_000, 30_000], "equal", 1000).numbers == [125, 125]
    assert plan.choices == ("residual", "random")
    assert (plan.least_gain, plan.n_held_out) == (0.01, 5000)


def test_no_rows_are_held_out_where_none_can_be_added():
    """For they would never join the others."""
    plan = grow_openly("fast", [900] * 300, "equal", 250)
    assert (plan.additions, plan.n_held_out) == ([], 0)


def test_memory_bounds_the_number():
    assert most_representatives("balanced", 88 * 1000**2) == 1000


def test_a_given_number_is_kept_and_refine_adds_to_it():
    plan = grow_from([3, 4], 200, None, 2)
    assert (plan.numbers, plan.additions, plan.n_held_out) == ([3, 4], [], 0)
    plan = grow_from([3, 4], 200, 15, 2)
    assert (plan.additions, plan.choices) == ([8, 7], ("residual",))
    plan = grow_from([3, 4], 200, "auto", 3)
    assert (plan.additions, plan.n_held_out) == ([5, 5, 4], 20)
    assert plan.choices == ("residual", "random")


# ---- models ----------------------------------------------------------------------


def test_without_an_argument_few_rows_are_all_representatives():
    m = KMeansKernelClassifier(random_state=0).fit(DIGITS[:300], LABELS[:300])
    assert len(m.representatives_) == 300
    assert m.refine_ is None


@pytest.mark.usefixtures("small_sizes")
def test_a_better_model_is_larger_and_no_worse():
    models = [
        KMeansKernelClassifier(size, **FIXED).fit(DIGITS[TRAIN], LABELS[TRAIN])
        for size in ("fast", "balanced", "best")
    ]
    sizes = [len(m.representatives_) for m in models]
    assert sizes[0] < sizes[1] < sizes[2] <= 560
    scores = [m.score(DIGITS[TEST], LABELS[TEST]) for m in models]
    assert scores[0] < scores[1] <= scores[2] + 0.01
    for m in models:
        assert m.representative_weights_.sum() == pytest.approx(1000)
        assert_to_rounding(
            m.representatives_[len(m.representatives_) - len(m.hard_rows_) :],
            DIGITS[TRAIN][m.hard_rows_],
        )


@pytest.mark.usefixtures("small_sizes")
def test_it_stops_where_nothing_is_gained():
    X, y = make_blobs(900, centers=2, cluster_std=3.0, random_state=0)
    m = KMeansKernelClassifier(**{**FIXED, "C": 1.0}).fit(X, y)
    assert len(m.representatives_) < 320


@pytest.mark.usefixtures("small_sizes")
def test_what_is_chosen_by_rows_held_out_is_one_of_both():
    m = KMeansKernelClassifier(8, refine="auto", **FIXED)
    m.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert m.refine_ in ("residual", "random")
    assert len(m.representatives_) == 240


@pytest.mark.usefixtures("small_sizes")
def test_weights_and_probabilities_go_with_rows_held_out():
    weight = np.where(np.arange(1000) % 3 == 0, 2.0, 1.0)
    weight[::10] = 0.0
    m = KMeansKernelClassifier(class_weight="balanced", **FIXED)
    m.fit(DIGITS[TRAIN], LABELS[TRAIN], sample_weight=weight)
    assert m.representative_weights_.sum() == pytest.approx(weight.sum())
    assert (weight[m.hard_rows_] > 0).all()
    assert m.predict_proba(DIGITS[TEST]).sum(axis=1) == pytest.approx(1)
    assert m.score(DIGITS[TEST], LABELS[TEST]) > 0.9


@pytest.mark.usefixtures("small_sizes")
def test_a_regressor_grows_as_well():
    X, y = make_friedman1(1200, n_features=5, noise=0.05, random_state=0)
    few, many = (
        KMeansKernelRegressor(size, **FIXED).fit(X[:900], y[:900])
        for size in ("fast", "best")
    )
    assert len(few.representatives_) < len(many.representatives_)
    assert few.score(X[900:], y[900:]) < many.score(X[900:], y[900:])
    assert many.representative_weights_.sum() == pytest.approx(900)


# ---- allocation ------------------------------------------------------------------


def unequal_blobs():
    sizes = [800, 80, 40]
    X, y = make_blobs(sizes, centers=None, cluster_std=2.0, random_state=0)
    return X, y


def test_a_number_is_of_each_class_and_a_dict_of_its_own():
    X, y = unequal_blobs()
    m = KMeansKernelClassifier(30, **FIXED).fit(X, y)
    assert_array_equal(np.bincount(m.representative_labels_), [30, 30, 30])
    m = KMeansKernelClassifier({0: 50, 1: 20, 2: 5}, **FIXED).fit(X, y)
    assert_array_equal(np.bincount(m.representative_labels_), [50, 20, 5])


def test_where_all_rows_are_representatives_nothing_is_to_be_shared_out(monkeypatch):
    X, y = unequal_blobs()
    m = KMeansKernelClassifier(**FIXED)
    with monkeypatch.context() as patch:
        patch.setattr(growth, "LeftOutColumns", lambda *a, **k: 1 / 0)
        m.fit(X, y)
    assert len(m.representatives_) == len(y)


def share(X, y):
    targets = ClassTargets(y, y.max() + 1, lambda weight, labels: weight)
    plan = Plan([], [], "balanced", KMeansOptions())
    tuning = growth.Choice(Gaussian(gamma=1.0), 100.0, [])
    problem, rng = Problem.of(X, targets, None), np.random.default_rng(0)
    return growth.choose_allocation(growth.Fit(problem, plan, tuning, rng), y)


def test_classes_of_about_equal_size_need_no_trial(monkeypatch):
    def reached(*args, **kwargs):
        pytest.fail("a trial was made")

    monkeypatch.setattr(growth, "LeftOutColumns", reached)
    assert share(DIGITS[:500], LABELS[:500]) == "equal"


def chessboard():
    """Two large classes are a chessboard, six small ones are a place each."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, size=(3000, 2))
    y = (np.sin(2 * X[:, 0]) * np.sin(2 * X[:, 1]) > 0).astype(int)
    places = np.array([[20.0 * k, 40.0] for k in range(6)])
    X = np.r_[X, np.repeat(places, 60, axis=0) + 0.1 * rng.normal(size=(360, 2))]
    return X, np.r_[y, np.repeat(np.arange(2, 8), 60)]


def test_a_trial_gives_representatives_to_the_classes_that_need_them():
    assert share(*chessboard()) in ("proportional", "sqrt")


@pytest.mark.usefixtures("small_sizes")
def test_an_open_number_is_shared_out_by_the_trial():
    X, y = chessboard()
    m = KMeansKernelClassifier(**{**FIXED, "gamma": 1.0}).fit(X, y)
    counts = np.bincount(m.representative_labels_)
    assert counts[:2].min() > 3 * counts[2:].max()


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"n_representatives": "all"},
            r"n_representatives='all' must be a whole number",
        ),
        ({"refine": "best"}, r"refine='best' must be a whole number"),
        ({"kmeans_params": 3}, r"kmeans_params=3 must be a dict with some of .*, or N"),
        ({"kmeans_params": {"k": 3}}, r"kmeans_params has the key 'k'; expected some"),
        ({"kmeans_params": {"tol": 0}}, r"kmeans_params\['tol'\]=0 must be a positive"),
    ],
)
def test_parameters_that_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        KMeansKernelClassifier().set_params(**params).fit(DIGITS[:100], LABELS[:100])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", ["fast", "balanced", "best"])
@pytest.mark.parametrize("budget", [2**23, 2**25, 2**26, 2**28, 2**30, 2**34])
def test_an_open_number_fits_into_the_budget(budget, size, threads):
    """What the estimator chooses itself is not refused afterwards."""
    with threadpool_limits(threads, user_api="blas"):
        m = most_representatives(size, budget)
        Z = np.empty((1, 20), np.float32)
        assert columns_bytes(m, Z) + bytes_per_row(m, Z) <= budget


@pytest.mark.parametrize("kernel", ["auto", "rbf"])
def test_c_is_the_best_of_the_system_that_is_solved(kernel):
    """Few columns bound a function by their number: their C is not that of all rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 3))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 2]) + 0.3 * rng.normal(size=800)
    m = KMeansKernelRegressor(learn_metric=False, kernel=kernel, random_state=0)
    m.fit(X, y)
    assert len(m.representatives_) == len(X)
    K, Y = m.kernel_(X), y[:, None]

    def loss(C):
        left_out = solve_ls_svm(K, Y, C=C, n_leave_one_out=len(X)).loo_decision
        return np.mean((left_out - Y) ** 2)

    for step in (10**0.5, 10**-0.5):
        assert loss(m.C_) < 1.01 * loss(step * m.C_)


def test_c_is_chosen_again_for_representatives_that_were_added():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(700, 3))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 2]) + 0.3 * rng.normal(size=len(X))
    m = KMeansKernelRegressor(180, refine="auto", kernel="rbf", gamma=5, random_state=0)
    results = m.fit(X, y).search_results_
    n_columns, tried = results["n_columns"], results["n_columns"].max()
    assert 2 * n_columns.min() < tried <= len(m.representatives_) < len(X)
    [chosen] = np.flatnonzero(results["chosen"])
    assert n_columns[chosen] == tried
    assert results["C"][chosen] == m.C_
    again = results["score"][n_columns == tried]
    assert results["score"][chosen] == again.max()
