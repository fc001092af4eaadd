"""compress() of the k-means kernel estimators."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, make_friedman1
from sklearn.exceptions import NotFittedError

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor

DIGITS, LABELS = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 1000), slice(1000, None)


@pytest.fixture(scope="module")
def fitted():
    m = KMeansKernelClassifier(15, refine=100, random_state=0)
    m.set_params(kernel="rbf", gamma="scale", C=10.0)
    return m.fit(DIGITS[TRAIN], LABELS[TRAIN])


@pytest.mark.parametrize("tol", [0.3, 0.03])
@pytest.mark.parametrize("rows", ["training rows", "representatives"])
def test_no_value_changes_by_more_than_promised(fitted, tol, rows):
    X = DIGITS[TRAIN] if rows == "training rows" else fitted.representatives_
    small = fitted.compress(tol, None if rows == "representatives" else X)
    changes = small.decision_function(X) - fitted.decision_function(X)
    assert np.abs(changes).max() <= tol * (1 + 1e-6)
    if tol == 0.3:
        assert len(small.representatives_) < len(fitted.representatives_)


def test_what_is_left_belongs_together(fitted):
    small = fitted.compress(0.3, DIGITS[TRAIN])
    n = len(small.representatives_)
    assert small.dual_coef_.shape == (n, 10)
    assert len(small.representative_labels_) == len(small.representative_weights_) == n
    assert small.representative_weights_.sum() == pytest.approx(1000)
    n_hard = len(small.hard_rows_)
    assert_array_equal(
        small.representatives_[n - n_hard :], DIGITS[TRAIN][small.hard_rows_]
    )
    assert small.predict_proba(DIGITS[TEST]).shape == (797, 10)
    assert small.score(DIGITS[TEST], LABELS[TEST]) > 0.9
    assert len(pickle.dumps(small)) < len(pickle.dumps(fitted))


def test_the_model_itself_stays_as_it_is(fitted):
    before = fitted.decision_function(DIGITS[TEST])
    fitted.compress(0.3)
    assert len(fitted.representatives_) == 250
    assert_array_equal(fitted.decision_function(DIGITS[TEST]), before)


def test_a_regressor_by_sparse_rows():
    X, y = make_friedman1(600, n_features=5, random_state=0)
    m = KMeansKernelRegressor(200, C=100.0, kernel="rbf", gamma="scale", random_state=0)
    m.fit(X, y)
    small = m.compress(0.1, scipy.sparse.csr_array(X))
    assert len(small.representatives_) < 200
    assert np.abs(small.predict(X) - m.predict(X)).max() <= 0.1 * (1 + 1e-6)


def test_what_is_refused(fitted):
    with pytest.raises(ValueError, match=r"tol=0 must be a positive.*Try 0.01"):
        fitted.compress(0)
    with pytest.raises(NotFittedError):
        KMeansKernelClassifier().compress(0.1)
    with pytest.raises(ValueError, match="features"):
        fitted.compress(0.1, DIGITS[:, :5])
