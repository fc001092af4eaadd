"""refine= of the k-means kernel estimators: hard rows as representatives."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_blobs, make_friedman1

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.solvers._columns import solve_on_representatives
from tests.solvers.problems import of_rows

solve_on_representatives = of_rows(solve_on_representatives)

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1000), slice(1000, None)


def model(n=8, **params):
    options = {
        "refine": 160,
        "random_state": 0,
        "C": 100.0,
        "gamma": "scale",
        "kernel": "rbf",
    }
    options |= params
    return KMeansKernelClassifier(n, **options)


@pytest.fixture(scope="module")
def refined():
    return model().fit(DIGITS[TRAIN], LABELS[TRAIN])


def test_what_is_stored(refined):
    assert refined.hard_rows_.shape == (160,)
    assert refined.representatives_.shape == (240, 64)
    assert_array_equal(refined.representatives_[80:], DIGITS[TRAIN][refined.hard_rows_])
    assert_array_equal(
        refined.representative_labels_[80:], LABELS[TRAIN][refined.hard_rows_]
    )
    assert refined.dual_coef_.shape == (240, 10)


def test_what_all_stand_for_is_all_rows(refined):
    weights = refined.representative_weights_
    assert_array_equal(weights[80:], 1)
    assert (weights >= 0).all()
    for c in range(10):
        total = weights[refined.representative_labels_ == c].sum()
        assert total == pytest.approx((LABELS[TRAIN] == c).sum())


def test_it_is_the_least_squares_of_all_its_representatives(refined):
    Y = np.where(LABELS[TRAIN][:, None] == np.arange(10), 1.0, -1.0)
    once = solve_on_representatives(
        refined.kernel_, DIGITS[TRAIN], Y, refined.representatives_, C=100.0
    )
    assert_allclose(
        refined.decision_function(DIGITS[TEST]),
        refined.kernel_(DIGITS[TEST], refined.representatives_) @ once.dual_coef
        + once.intercept,
        rtol=1e-5,
        atol=1e-6,
    )


def test_the_number_added_is_what_was_asked_for():
    for refine in (1, 2, 31):
        m = model(refine=refine).fit(DIGITS[:300], LABELS[:300])
        assert len(m.hard_rows_) == refine
        assert len(m.representatives_) == 80 + refine
        assert m.refine_ == "residual"


def test_without_a_number_there_are_twice_as_many_rows_as_representatives():
    m = model(refine="auto").fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert len(m.hard_rows_) == 160
    assert m.refine_ in ("residual", "random")


def test_hard_rows_are_better_than_as_many_centres_of_digits():
    """Over three seeds, of 1,000 digits and 24 representatives a class."""
    wrong = np.zeros(2)
    for seed in range(3):
        few = model(random_state=seed).fit(DIGITS[TRAIN], LABELS[TRAIN])
        many = model(24, refine=None, random_state=seed)
        many.fit(DIGITS[TRAIN], LABELS[TRAIN])
        assert abs(len(few.dual_coef_) - len(many.dual_coef_)) == 0
        wrong += [1 - m.score(DIGITS[TEST], LABELS[TEST]) for m in (few, many)]
    assert wrong[0] < wrong[1]


def test_the_hard_rows_are_near_the_boundary():
    X, y = make_blobs(600, centers=[[-2, 0], [2, 0]], cluster_std=1.0, random_state=0)
    m = model(5, refine=20).fit(X, y)
    assert np.abs(X[m.hard_rows_, 0]).max() < np.median(np.abs(X[:, 0]))


def test_with_two_classes_weights_and_probabilities():
    X, y = make_blobs(400, centers=2, cluster_std=3.0, random_state=0)
    weight = np.where(np.arange(400) % 5 == 0, 0.0, 2.0)
    m = model(5, refine=30, class_weight="balanced").fit(X, y, sample_weight=weight)
    assert (weight[m.hard_rows_] > 0).all()
    assert_array_equal(m.representative_weights_[-30:], 2.0)
    assert m.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert m.score(X, y) > 0.7


def test_sparse_rows_are_their_dense_ones(refined):
    sparse = model().fit(scipy.sparse.csr_array(DIGITS[TRAIN]), LABELS[TRAIN])
    assert_array_equal(sparse.hard_rows_, refined.hard_rows_)
    assert_allclose(
        sparse.decision_function(DIGITS[:50]),
        refined.decision_function(DIGITS[:50]),
        rtol=1e-4,
        atol=1e-6,
    )


def test_the_memory_budget_changes_nothing_but_rounding(refined):
    small = model(memory_budget="5MiB").fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert_array_equal(small.hard_rows_, refined.hard_rows_)
    assert_allclose(
        small.decision_function(DIGITS[TEST]),
        refined.decision_function(DIGITS[TEST]),
        rtol=1e-4,
        atol=1e-6,
    )


def test_a_regressor_adds_the_largest_residuals():
    X, y = make_friedman1(900, n_features=5, noise=0.01, random_state=0)
    plain = KMeansKernelRegressor(30, C=1e4, random_state=0, learn_metric=False).fit(
        X[:600], y[:600]
    )
    residuals = np.abs(y[:600] - plain.predict(X[:600]))
    m = KMeansKernelRegressor(30, C=1e4, random_state=0, learn_metric=False, refine=40)
    m.fit(X[:600], y[:600])
    assert set(m.hard_rows_[:20]) == set(np.argsort(-residuals)[:20])
    assert m.representative_weights_.sum() == pytest.approx(600)
    assert m.score(X[600:], y[600:]) > plain.score(X[600:], y[600:])


def test_outputs_of_any_unit_are_as_hard():
    X, y = make_friedman1(300, n_features=5, noise=0.01, random_state=0)
    both = np.c_[y, np.sin(7 * X[:, 0])]
    first, second = (
        KMeansKernelRegressor(20, random_state=0, learn_metric=False, refine=15).fit(
            X, both * unit
        )
        for unit in (1.0, np.array([1.0, 1e3]))
    )
    assert_array_equal(first.hard_rows_, second.hard_rows_)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"refine": "margin"}, r"refine='margin' must be a whole number.*'auto', None"),
        ({"refine": 0}, r"refine=0 must be a whole number, 1"),
        ({"n_representatives": "best"}, r"n_representatives='best' adds them by its"),
        ({"fit_on": "representatives"}, r"fit_on='representatives' is no such fit"),
    ],
)
def test_parameters_that_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        model().set_params(**params).fit(DIGITS[:100], LABELS[:100])


def test_verbose_shows_rows_done_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    model(verbose=1).fit(DIGITS[:200], LABELS[:200])
    assert "row 200 of 200 in " in capsys.readouterr().err


def test_a_budget_too_small_says_what_to_lower():
    with pytest.raises(MemoryError, match=r"240 representatives need .*add fewer rows"):
        model(memory_budget="1MiB").fit(DIGITS[TRAIN], LABELS[TRAIN])
