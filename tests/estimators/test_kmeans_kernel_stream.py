"""partial_fit: a fit of the first rows, and least squares of all on its columns."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_friedman1

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.solvers._columns import solve_on_representatives
from tests.arrays import assert_to_rounding
from tests.solvers.problems import of_rows

solve_on_representatives = of_rows(solve_on_representatives)

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
ORDER = np.random.default_rng(0).permutation(len(LABELS))
TRAIN, TEST = ORDER[:1000], ORDER[1000:]
X, Y = make_friedman1(700, n_features=5, noise=0.3, random_state=0)
FIXED = {"kernel": "rbf", "gamma": 0.05, "C": 30.0, "random_state": 0}
CLASSES = {"classes": np.arange(10)}


def parts(m, rows, targets, size, weight=None, **options):
    for start in range(0, rows.shape[0], size):
        s = slice(start, start + size)
        w = None if weight is None else weight[s]
        m.partial_fit(rows[s], targets[s], sample_weight=w, **options)
    return m


@pytest.mark.parametrize("options", [{}, {"n_representatives": 20, **FIXED}])
def test_the_first_call_is_a_fit(options):
    options = {"random_state": 0, "learn_metric": False, **options}
    whole = KMeansKernelClassifier(**options).fit(DIGITS[TRAIN], LABELS[TRAIN])
    m = KMeansKernelClassifier(**options)
    m.partial_fit(DIGITS[TRAIN], LABELS[TRAIN], **CLASSES)
    assert_allclose(
        m.decision_function(DIGITS[TEST]), whole.decision_function(DIGITS[TEST])
    )
    assert m.C_ == whole.C_
    assert m.temperature_ == pytest.approx(whole.temperature_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [350, 17])
def test_the_coefficients_are_those_of_one_fit_on_the_representatives(size, weighted):
    weight = np.linspace(0, 2, 700) if weighted else None
    m = parts(KMeansKernelRegressor(40, **FIXED), X, Y, size, weight)
    once = solve_on_representatives(
        m.kernel_, X, Y[:, None], m.representatives_, C=m.C_, sample_weight=weight
    )
    # The columns nearly depend on each other: values agree to more digits.
    largest = np.abs(once.dual_coef).max()
    assert_allclose(m.dual_coef_, once.dual_coef, atol=1e-5 * largest)
    values = m.kernel_(X, m.representatives_) @ once.dual_coef + once.intercept
    assert_allclose(m.predict(X), values[:, 0], rtol=1e-6)
    total = 700 if weight is None else weight.sum()
    assert m.representative_weights_.sum() == pytest.approx(total)


def test_the_classifier_s_coefficients_are_those_of_one_fit():
    weight, by_class = np.linspace(0.5, 2, 1000), {c: 1.0 + c for c in range(10)}
    m = KMeansKernelClassifier(10, class_weight=by_class, **FIXED)
    parts(m, DIGITS[TRAIN], LABELS[TRAIN], 400, weight, **CLASSES)
    targets = np.where(LABELS[TRAIN][:, None] == np.arange(10), 1.0, -1.0)
    once = solve_on_representatives(
        m.kernel_,
        DIGITS[TRAIN],
        targets,
        m.representatives_,
        C=m.C_,
        sample_weight=weight * (1 + LABELS[TRAIN]),
    )
    largest = np.abs(once.dual_coef).max()
    assert_allclose(m.dual_coef_, once.dual_coef, atol=1e-5 * largest)


@pytest.mark.parametrize("options", [{}, FIXED])
def test_more_rows_make_the_model_better(options):
    options = {"random_state": 0, "learn_metric": False, **options}
    m = KMeansKernelClassifier(20, **options)
    m.partial_fit(DIGITS[TRAIN[:300]], LABELS[TRAIN[:300]], **CLASSES)
    before = m.score(DIGITS[TEST], LABELS[TEST])
    parts(m, DIGITS[TRAIN[300:]], LABELS[TRAIN[300:]], 100)
    assert m.score(DIGITS[TEST], LABELS[TEST]) > before
    p = m.predict_proba(DIGITS[TEST])
    assert_allclose(p.sum(axis=1), 1)
    assert -np.log(p[np.arange(len(TEST)), LABELS[TEST]]).mean() < 0.35


def test_what_is_kept_does_not_grow():
    m, sizes = KMeansKernelClassifier(10, **FIXED), []
    for start in range(0, 1000, 200):
        part = TRAIN[start : start + 200]
        m.partial_fit(DIGITS[part], LABELS[part], **CLASSES)
        sizes.append(len(pickle.dumps(m)))
    assert max(sizes) < 1.01 * sizes[0]


def test_a_named_class_may_come_late():
    late = LABELS[TRAIN] == 7
    order = np.concatenate([TRAIN[~late], TRAIN[late]])
    m = KMeansKernelClassifier(20, **FIXED)
    parts(m, DIGITS[order], LABELS[order], 450, **CLASSES)
    sevens = TEST[LABELS[TEST] == 7]
    assert m.score(DIGITS[sevens], LABELS[sevens]) > 0.8


def test_a_class_that_was_not_named_is_an_error():
    m = KMeansKernelClassifier(5, **FIXED)
    few = LABELS < 5
    m.partial_fit(DIGITS[few][:200], LABELS[few][:200], classes=range(5))
    with pytest.raises(ValueError, match="name all classes at the first call"):
        m.partial_fit(DIGITS, LABELS)


def test_a_pickled_model_goes_on_as_itself():
    whole, m = (KMeansKernelClassifier(10, **FIXED) for _ in range(2))
    parts(whole, DIGITS[TRAIN], LABELS[TRAIN], 200, **CLASSES)
    parts(m, DIGITS[TRAIN[:600]], LABELS[TRAIN[:600]], 200, **CLASSES)
    m = pickle.loads(pickle.dumps(m))
    parts(m, DIGITS[TRAIN[600:]], LABELS[TRAIN[600:]], 200)
    assert_allclose(m.dual_coef_, whole.dual_coef_, rtol=1e-6, atol=1e-8)
    assert_array_equal(m.predict(DIGITS[TEST]), whole.predict(DIGITS[TEST]))


def test_csr_parts():
    dense, sparse = (KMeansKernelRegressor(30, **FIXED) for _ in range(2))
    rows = X * (X > 0.3)
    parts(dense, rows, Y, 350)
    parts(sparse, scipy.sparse.csr_array(rows), Y, 350)
    assert_allclose(sparse.predict(rows), dense.predict(rows), atol=1e-6)


def test_a_part_that_is_refused_changes_nothing():
    m = parts(KMeansKernelRegressor(30, **FIXED), X[:500], Y[:500], 250)
    before = m.predict(X)
    m.memory_budget = 1000
    with pytest.raises(MemoryError, match="30 representatives need"):
        m.partial_fit(X[500:], Y[500:])
    m.memory_budget = None
    assert_to_rounding(m.predict(X), before)


@pytest.mark.parametrize("m", [20, 1000])
def test_a_fit_goes_on_with_its_rows(m):
    """Also where every row is a representative."""
    weight = np.linspace(0.5, 2, 700)
    first, rest = slice(0, 400), slice(400, None)
    parts = KMeansKernelRegressor(m, **FIXED), KMeansKernelRegressor(m, **FIXED)
    parts[0].fit(X[first], Y[first], sample_weight=weight[first])
    parts[1].partial_fit(X[first], Y[first], sample_weight=weight[first])
    for model in parts:
        model.partial_fit(X[rest], Y[rest], sample_weight=weight[rest])
    assert_allclose(parts[0].predict(X), parts[1].predict(X), rtol=1e-6)


def test_a_model_without_equations_cannot_go_on():
    m = KMeansKernelRegressor(30, **FIXED).partial_fit(X, Y).compress(0.01)
    with pytest.raises(ValueError, match=r"no longer has: the model was compressed"):
        m.partial_fit(X, Y)
    m = pickle.loads(pickle.dumps(KMeansKernelRegressor(30, **FIXED).fit(X, Y)))
    with pytest.raises(ValueError, match=r"no longer has: a file or copy.*Begin with"):
        m.partial_fit(X, Y)


@pytest.mark.parametrize("fit_on", ["boundary", "representatives"])
def test_only_all_rows_can_be_added_to(fit_on):
    m = KMeansKernelClassifier(5, fit_on=fit_on, **FIXED)
    with pytest.raises(ValueError, match=rf"fit_on='{fit_on}'.*Use fit_on='all'"):
        m.partial_fit(DIGITS, LABELS, **CLASSES)


def test_balanced_classes_are_refused_in_a_stream():
    m = KMeansKernelClassifier(10, class_weight="balanced")
    with pytest.raises(ValueError, match=r"class_weight='balanced' needs.*pass a dict"):
        m.partial_fit(DIGITS[:50], LABELS[:50], **CLASSES)
