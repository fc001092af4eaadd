"""fit_on="boundary" of the k-means kernel classifier: fewer rows, well chosen."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss

from kaucus import KMeansKernelClassifier
from kaucus.fitting import _represented
from kaucus.solvers._columns import solve_on_representatives
from tests.arrays import assert_to_rounding
from tests.solvers.problems import of_rows

solve_on_representatives = of_rows(solve_on_representatives)

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1300), slice(1300, None)


@pytest.fixture(autouse=True, scope="module")
def few_rows_will_do():
    """A fit is of at least 10,000 rows, which are more than there are here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_represented, "_LEAST_ROWS", 1)
        yield


def model(n=4, **params):
    options = {
        "fit_on": "boundary",
        "random_state": 0,
        "C": 100.0,
        "gamma": "scale",
        "kernel": "rbf",
    }
    options |= params
    return KMeansKernelClassifier(n, **options)


@pytest.fixture(scope="module")
def fitted():
    m = model(refine=60)
    return m.fit(DIGITS[TRAIN], LABELS[TRAIN])


def targets(labels):
    return np.where(labels[:, None] == np.arange(10), 1.0, -1.0)


def test_what_is_stored(fitted):
    assert fitted.representatives_.shape == (100, 64)
    assert fitted.fit_rows_.shape == (500,)  # five for each representative
    assert set(fitted.hard_rows_) <= set(fitted.fit_rows_)
    assert_array_equal(fitted.representatives_[40:], DIGITS[fitted.hard_rows_])
    assert_array_equal(fitted.representative_labels_[40:], LABELS[fitted.hard_rows_])
    assert fitted.representative_weights_.sum() == pytest.approx(1300)


def test_it_is_the_least_squares_of_its_rows(fitted):
    rows = fitted.fit_rows_
    once = solve_on_representatives(
        fitted.kernel_,
        DIGITS[rows],
        targets(LABELS[rows]),
        fitted.representatives_,
        C=100.0,
    )
    assert_allclose(
        fitted.decision_function(DIGITS[TEST]),
        fitted.kernel_(DIGITS[TEST], fitted.representatives_) @ once.dual_coef
        + once.intercept,
        rtol=1e-5,
        atol=1e-6,
    )


def test_fewer_rows_are_no_worse_than_all_where_hard_ones_are_added():
    """Over three seeds, of 1,300 digits and 100 representatives: 38 % of the rows."""
    wrong = np.zeros(2)
    for seed in range(3):
        wrong += [
            np.sum(m.predict(DIGITS[TEST]) != LABELS[TEST])
            for m in (
                model(refine=60, random_state=seed, fit_on=fit_on).fit(
                    DIGITS[TRAIN], LABELS[TRAIN]
                )
                for fit_on in ("boundary", "all")
            )
        ]
    assert wrong[0] <= wrong[1]


def test_a_fit_has_a_least_number_of_rows(monkeypatch):
    monkeypatch.setattr(_represented, "_LEAST_ROWS", 400)
    assert len(model(4).fit(DIGITS[TRAIN], LABELS[TRAIN]).fit_rows_) == 400
    assert len(model(9).fit(DIGITS[TRAIN], LABELS[TRAIN]).fit_rows_) == 450


def test_few_rows_are_all_fitted():
    few = model(30).fit(DIGITS[:600], LABELS[:600])
    every = model(30, fit_on="all").fit(DIGITS[:600], LABELS[:600])
    assert few.fit_rows_ is None
    assert every.fit_rows_ is None
    assert_to_rounding(few.dual_coef_, every.dual_coef_)


def test_the_boundary_of_classes_that_overlap_stays(monkeypatch):
    """A quarter of one class lies in the other: all rows and some say the same."""
    monkeypatch.setattr(_represented, "_LEAST_ROWS", 600)
    X, y = make_blobs(3000, centers=[[-1, 0], [1, 0]], cluster_std=1.5, random_state=0)
    some, every = (
        model(10, C=1.0, fit_on=fit_on).fit(X[:2000], y[:2000])
        for fit_on in ("boundary", "all")
    )
    assert len(some.fit_rows_) == 600
    assert some.score(X[2000:], y[2000:]) > every.score(X[2000:], y[2000:]) - 0.02


def test_probabilities_are_of_rows_that_were_not_seen(fitted):
    """Not of the rows of the fit alone, half of which are undecided."""
    proba = fitted.predict_proba(DIGITS[TEST])
    values = fitted.decision_function(DIGITS[TEST])

    def loss(temperature):
        scores = np.exp(values / temperature)
        return log_loss(LABELS[TEST], scores / scores.sum(axis=1, keepdims=True))

    assert_allclose(log_loss(LABELS[TEST], proba), loss(fitted.temperature_))
    best = min(loss(t) for t in np.geomspace(0.02, 2, 60))
    assert loss(fitted.temperature_) < 1.1 * best


def test_weights_two_classes_and_rows_held_out():
    X, y = make_blobs(900, centers=2, cluster_std=3.0, random_state=0)
    weight = np.where(np.arange(900) % 5 == 0, 0.0, 2.0)
    m = model(5, refine="auto", class_weight="balanced")
    m.fit(X, y, sample_weight=weight)
    assert (weight[m.fit_rows_] > 0).all()
    assert len(m.fit_rows_) == 5 * 30 + 72  # those held out join in the end
    assert m.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert m.score(X, y) > 0.7


def test_sparse_rows_are_their_dense_ones(fitted):
    sparse = model(refine=60)
    sparse.fit(scipy.sparse.csr_array(DIGITS[TRAIN]), LABELS[TRAIN])
    assert_array_equal(sparse.fit_rows_, fitted.fit_rows_)
    assert_array_equal(sparse.hard_rows_, fitted.hard_rows_)
    assert_allclose(sparse.temperature_, fitted.temperature_, rtol=1e-3)


def test_the_memory_budget_changes_nothing_but_rounding(fitted):
    small = model(refine=60, memory_budget="2MiB")
    small.fit(DIGITS[TRAIN], LABELS[TRAIN])
    assert_array_equal(small.fit_rows_, fitted.fit_rows_)
    assert_allclose(
        small.decision_function(DIGITS[TEST]),
        fitted.decision_function(DIGITS[TEST]),
        rtol=1e-4,
        atol=1e-6,
    )
