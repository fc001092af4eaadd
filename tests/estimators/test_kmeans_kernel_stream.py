"""partial_fit: parts of any size come to what one fit of all rows comes to."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_friedman1

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus.fitting import _represented as stream_module
from kaucus.solvers._columns import solve_on_representatives

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
ORDER = np.random.default_rng(0).permutation(len(LABELS))
TRAIN, TEST = ORDER[:1000], ORDER[1000:]
X, Y = make_friedman1(700, n_features=5, noise=0.3, random_state=0)
FIXED = {"kernel": "rbf", "gamma": 0.05, "C": 30.0, "random_state": 0}


def parts(m, rows, targets, size, weight=None, **options):
    for start in range(0, rows.shape[0], size):
        s = slice(start, start + size)
        w = None if weight is None else weight[s]
        m.partial_fit(rows[s], targets[s], sample_weight=w, **options)
    return m


@pytest.fixture
def few_rows_are_kept(monkeypatch):
    """From 300 rows on, as is else the case from 10,000 on."""
    monkeypatch.setattr(stream_module, "_LEAST_KEPT", 300)
    monkeypatch.setattr(stream_module, "_KEPT_EACH", 0)


@pytest.mark.parametrize("size", [350, 70])
def test_parts_are_within_half_a_point_of_one_fit(size):
    whole = KMeansKernelClassifier(random_state=0, learn_metric=False).fit(
        DIGITS[TRAIN], LABELS[TRAIN]
    )
    m = KMeansKernelClassifier(random_state=0, learn_metric=False)
    parts(m, DIGITS[TRAIN], LABELS[TRAIN], size, classes=np.arange(10))
    expected = whole.score(DIGITS[TEST], LABELS[TEST])
    assert m.score(DIGITS[TEST], LABELS[TEST]) >= expected - 0.005


@pytest.mark.parametrize("fit_on", ["all", "boundary", "representatives"])
@pytest.mark.usefixtures("few_rows_are_kept")
def test_when_rows_are_gone_parts_still_are_near_one_fit(fit_on):
    m = KMeansKernelClassifier(20, fit_on=fit_on, **FIXED)
    whole = KMeansKernelClassifier(20, fit_on=fit_on, **FIXED)
    whole.fit(DIGITS[TRAIN], LABELS[TRAIN])
    parts(m, DIGITS[TRAIN], LABELS[TRAIN], 100, classes=np.arange(10))
    expected = whole.score(DIGITS[TEST], LABELS[TEST])
    assert m.score(DIGITS[TEST], LABELS[TEST]) >= expected - 0.02
    assert m.representative_weights_.sum() == pytest.approx(1000)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [100, 17])
@pytest.mark.usefixtures("few_rows_are_kept")
def test_the_coefficients_are_those_of_one_fit_on_the_representatives(size, weighted):
    """To rounding, though the rows are gone."""
    weight = np.linspace(0, 2, 700) if weighted else None
    m = parts(KMeansKernelRegressor(40, **FIXED), X, Y, size, weight)
    assert not m._stream.all_kept
    once = solve_on_representatives(
        m.kernel_, X, Y[:, None], m.representatives_, C=m.C_, sample_weight=weight
    )
    assert_allclose(m.dual_coef_, once.dual_coef, rtol=1e-6, atol=1e-9)
    assert_allclose(m.intercept_, once.intercept, rtol=1e-6)


@pytest.mark.usefixtures("few_rows_are_kept")
def test_the_classifier_s_coefficients_are_those_of_one_fit():
    weight, by_class = np.linspace(0.5, 2, 1000), {c: 1.0 + c for c in range(10)}
    m = KMeansKernelClassifier(10, class_weight=by_class, **FIXED)
    parts(m, DIGITS[TRAIN], LABELS[TRAIN], 90, weight, classes=np.arange(10))
    Y = np.where(LABELS[TRAIN][:, None] == np.arange(10), 1.0, -1.0)
    once = solve_on_representatives(
        m.kernel_,
        DIGITS[TRAIN],
        Y,
        m.representatives_,
        C=m.C_,
        sample_weight=weight * (1 + LABELS[TRAIN]),
    )
    assert_allclose(m.dual_coef_, once.dual_coef, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("few_rows_are_kept")
def test_what_is_kept_does_not_grow():
    m, sizes = KMeansKernelClassifier(10, **FIXED), []
    for start in range(0, 1000, 100):
        part = TRAIN[start : start + 100]
        m.partial_fit(DIGITS[part], LABELS[part], classes=np.arange(10))
        sizes.append(len(pickle.dumps(m)))
    assert max(sizes[5:]) < 1.01 * sizes[4]
    assert m._stream.n_seen == 1000


@pytest.mark.usefixtures("few_rows_are_kept")
def test_a_class_that_comes_late_is_learned():
    late = LABELS[TRAIN] == 7
    order = np.concatenate([TRAIN[~late], TRAIN[late]])
    m = KMeansKernelClassifier(20, **FIXED)
    parts(m, DIGITS[order], LABELS[order], 50, classes=np.arange(10))
    sevens = TEST[LABELS[TEST] == 7]
    assert m.score(DIGITS[sevens], LABELS[sevens]) > 0.9
    assert m.score(DIGITS[TEST], LABELS[TEST]) > 0.94
    assert (m.representative_labels_ == 7).sum() >= 10


@pytest.mark.usefixtures("few_rows_are_kept")
def test_a_very_large_first_part_is_one_fit():
    m = KMeansKernelRegressor(40, **FIXED).partial_fit(X, Y)
    once = solve_on_representatives(
        m.kernel_, X, Y[:, None], m.representatives_, C=m.C_
    )
    assert_allclose(m.dual_coef_, once.dual_coef, rtol=1e-6, atol=1e-9)
    assert m.representative_weights_.sum() == pytest.approx(700)


@pytest.mark.usefixtures("few_rows_are_kept")
def test_a_pickled_model_goes_on_as_itself():
    whole, m = (KMeansKernelClassifier(10, **FIXED) for _ in range(2))
    parts(whole, DIGITS[TRAIN], LABELS[TRAIN], 200, classes=np.arange(10))
    parts(m, DIGITS[TRAIN[:600]], LABELS[TRAIN[:600]], 200, classes=np.arange(10))
    m = pickle.loads(pickle.dumps(m))
    parts(m, DIGITS[TRAIN[600:]], LABELS[TRAIN[600:]], 200)
    assert_allclose(m.dual_coef_, whole.dual_coef_, rtol=1e-9, atol=1e-12)
    assert_array_equal(m.predict(DIGITS[TEST]), whole.predict(DIGITS[TEST]))


@pytest.mark.usefixtures("few_rows_are_kept")
def test_csr_parts():
    dense, sparse = (KMeansKernelRegressor(30, **FIXED) for _ in range(2))
    rows = X * (X > 0.3)
    parts(dense, rows, Y, 150)
    parts(sparse, scipy.sparse.csr_array(rows), Y, 150)
    assert_allclose(sparse.predict(rows), dense.predict(rows), atol=1e-6)


@pytest.mark.usefixtures("few_rows_are_kept")
def test_a_part_that_is_refused_changes_nothing():
    m = parts(KMeansKernelRegressor(30, **FIXED), X[:500], Y[:500], 100)
    before = m.predict(X), m._stream.n_seen
    m.memory_budget = 1000
    with pytest.raises(MemoryError, match="30 representatives need"):
        m.partial_fit(X[500:], Y[500:])
    m.memory_budget = None
    assert_array_equal(m.predict(X), before[0])
    assert m._stream.n_seen == before[1]


def test_balanced_classes_are_refused_in_a_stream():
    m = KMeansKernelClassifier(10, class_weight="balanced")
    with pytest.raises(ValueError, match=r"class_weight='balanced' needs.*pass a dict"):
        m.partial_fit(DIGITS[:50], LABELS[:50], classes=np.arange(10))
