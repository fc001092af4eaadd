"""What users get wrong: refused before any long work, in words that help."""

import copy
import sys

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from kaucus import LSSVMClassifier, LSSVMRegressor
from tests.arrays import assert_to_rounding
from tests.discovery import (
    classifiers,
    having,
    name_of,
    predictors,
    regressors,
    without_rows,
)

X_GOOD, Y_GOOD = (part[::3] for part in load_iris(return_X_y=True))
N = len(X_GOOD)
K_GOOD = X_GOOD @ X_GOOD.T

each_predictor = pytest.mark.parametrize("estimator", predictors(), ids=name_of)
each_classifier = pytest.mark.parametrize("estimator", classifiers(), ids=name_of)
each_kernel_predictor = pytest.mark.parametrize(
    "estimator", having(predictors(), "kernel"), ids=name_of
)
each_pairwise = pytest.mark.parametrize(
    "estimator", without_rows(predictors()), ids=name_of
)
each_regressor = pytest.mark.parametrize("estimator", regressors(), ids=name_of)


@pytest.fixture
def no_work(monkeypatch):
    """Fail the test when a solver is reached."""

    def reached(*args, **kwargs):
        pytest.fail("the solver was reached with bad input")

    for module in estimator_modules():
        for name in (
            "fit_ls_svm",
            "search_by_leave_one_out",
            "represent_classes",
            "fit_partition",
        ):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, reached)


def estimator_modules():
    folders = ("kaucus.estimators", "kaucus.fitting")
    return [m for n, m in sys.modules.items() if n.startswith(folders)]


def refused(estimator, match, X=X_GOOD, y=Y_GOOD, error=ValueError, **fit):
    """Check the message, and that what was passed is as it was."""
    before = copy.deepcopy((X, y, fit))
    with pytest.raises(error, match=match):
        clone(estimator, safe=False).fit(X, y, **fit)
    for value, old in zip((X, y), before[:2], strict=True):
        if not scipy.sparse.issparse(value) and not isinstance(value, list):
            assert_array_equal(value, old)
    for name, value in fit.items():
        assert_array_equal(value, before[2][name])


def with_entry(value):
    X = X_GOOD.copy()
    X[3, 1] = value
    return X


def test_the_guard_works(no_work):
    """Good input does reach the solver: else the tests below prove nothing."""
    for estimator in predictors():
        # Without a C there is no system to solve, and nothing that could be reached.
        if not {"C", "estimator"} & set(estimator.get_params(deep=False)):
            continue
        with pytest.raises(pytest.fail.Exception, match="the solver was reached"):
            clone(estimator).fit(X_GOOD, Y_GOOD)


# ---- rows ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (with_entry(np.nan), r"Input X contains NaN"),
        (with_entry(np.inf), r"Input X contains infinity"),
        (X_GOOD[:0], r"0 sample\(s\) .*minimum of 2"),
        (X_GOOD[:, :0], r"0 feature\(s\) .*minimum of 1"),
        (X_GOOD[:, 0], r"Expected 2D array, got 1D array.*\n*.*[Rr]eshape"),
        (X_GOOD[:-1], r"inconsistent numbers of samples: \[49, 50\]"),
        (X_GOOD + 1j, r"Complex data not supported"),
        (np.full((N, 2), "a", dtype=object), r"could not convert string to float: 'a'"),
    ],
    ids=["nan", "inf", "no rows", "no columns", "1-D", "length", "complex", "text"],
)
@each_predictor
def test_rows(estimator, X, match, no_work):
    if len(X) == 0:
        refused(estimator, match, X, Y_GOOD[:0])
    else:
        refused(estimator, "(?s)" + match, X)


@each_predictor
def test_one_row(estimator, no_work):
    refused(estimator, r"1 sample\(s\).*minimum of 2", X_GOOD[:1], Y_GOOD[:1])


@each_predictor
def test_another_number_of_features(estimator):
    fitted = clone(estimator).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match=r"X has 2 features, .*expecting 4 features"):
        fitted.predict(X_GOOD[:, :2])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@each_predictor
def test_rows_to_predict(estimator, value):
    fitted = clone(estimator).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match="Input X contains"):
        fitted.predict(with_entry(value))


@each_predictor
def test_predict_before_fit(estimator):
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        clone(estimator).predict(X_GOOD)


@each_predictor
def test_constant_columns_are_no_harm(estimator):
    X = np.c_[X_GOOD, np.ones(N), np.zeros(N)]
    assert np.isfinite(clone(estimator).fit(X, Y_GOOD).predict(X)).all()


@each_predictor
def test_constant_rows_are_no_harm(estimator):
    """Nothing can be learned, and the answer is still a number or a class."""
    X = np.ones((N, 3))
    assert np.isfinite(clone(estimator).fit(X, Y_GOOD).predict(X)).all()


@each_predictor
def test_object_arrays_of_numbers_are_numbers(estimator):
    by_object = clone(estimator).fit(X_GOOD.astype(object), Y_GOOD)
    by_number = clone(estimator).fit(X_GOOD, Y_GOOD)
    assert_to_rounding(by_object.predict(X_GOOD), by_number.predict(X_GOOD))


@pytest.mark.parametrize("estimator", [LSSVMClassifier(), LSSVMRegressor()])
def test_rows_that_overflow(estimator):
    refused(estimator, "value of size .*e.200.*at most 1e.100.*Scale X", X_GOOD * 1e200)
    refused(estimator, "vanish.*at least 1e-100.*Scale X", X_GOOD * 1e-160)
    rows = (X_GOOD * 1e30).astype(np.float32)
    refused(estimator, "float32 numbers overflow.*at most 1e.15.*Pass X as float", rows)
    estimator = clone(estimator).set_params(kernel="poly", gamma=1.0)
    refused(estimator, "kernel of some row.*Scale the data", X_GOOD * 1e90)


# ---- labels and targets ----------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.zeros(N), r"one class only \(0\.0\); .*two classes.*Check how"),
        (np.full(N, "cat"), r"one class only \('cat'\)"),
        (X_GOOD[:, 0] + 0.01, r"label type: continuous.*5\.1.*Use a regressor"),
        (np.r_[np.nan, Y_GOOD[1:]], r"Input y contains NaN"),
        (np.c_[Y_GOOD, Y_GOOD], r"y should be a 1d array.*\(50, 2\)"),
        (np.array(["a", 1] * 25, dtype=object), r"types number, str; .*Convert them"),
        (["a", 1] * 25, r"types number, str; .*\[str\(label\) for label in y\]"),
        (["a", None] * 25, r"NoneType, str; .*Take out the rows"),
        (None, r"requires y to be passed"),
    ],
    ids=[
        *("one class", "one text", "continuous", "nan", "2-D"),
        *("mixed array", "mixed list", "none among them", "none"),
    ],
)
@each_classifier
def test_labels(estimator, y, match, no_work):
    refused(estimator, match, y=y)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.r_[np.nan, Y_GOOD[1:]], r"Input y contains NaN"),
        (np.r_[np.inf, Y_GOOD[1:]], r"Input y contains infinity"),
        (np.array(["a"] * N), r"such as 'a', .*needs numbers.*use a classifier"),
        (Y_GOOD.astype(str), r"such as '0', .*y\.astype\(float\)"),
        (np.ones((N, 2, 2)), r"dim 3"),
    ],
    ids=["nan", "inf", "words", "digits", "3-D"],
)
@each_regressor
def test_targets(estimator, y, match, no_work):
    refused(estimator, match, y=y)


# ---- parameters ------------------------------------------------------------------

POSITIVE = "must be a positive, finite number"
COUNT = "must be a whole number, 1 or more"
BAD_PARAMETERS = [
    *[("C", value, POSITIVE) for value in (-1, 0, np.inf, np.nan, "1", True, None)],
    *[("gamma", value, POSITIVE) for value in (-1, 0, np.nan, True, None)],
    ("gamma", "scael", "a positive, finite number, or one of .*'scale', 'auto'"),
    *[("tol", value, POSITIVE) for value in (0, -1e-3, np.nan, "a")],
    *[("max_iter", value, COUNT) for value in (0, -1, 1.5, None)],
    *[("max_samples", v, "whole number, 2 or more") for v in (0, -1, 1, 1.5, "a")],
    *[("block_size", value, COUNT) for value in (0, -1, 1.5, "a")],
    *[("n_runs", value, COUNT) for value in (0, -1, 1.5, None)],
    *[("warm_start", value, "must be True or False") for value in (1, "yes", None)],
    ("callback", 3, "must be a function of step and state"),
    *[("degree", value, COUNT) for value in (0, -1, 1.5, "a", None)],
    *[("coef0", value, "must be a finite number") for value in (np.nan, "a", None)],
    *[("n_clusters", value, COUNT) for value in (0, -1, 1.5, None)],
    ("partition", "kmean", r"must be one of \['kmeans', .*function of rows"),
    *[
        ("partition", value, "must be one of .*, or a function")
        for value in (None, 3, int)
    ],
    *[("covariance", value, "'full', 'diag', 'radial'") for value in ("all", None)],
    *[("normalization", v, "'unit', 'determinant', 'density'") for v in ("no", None)],
    ("kernel", "rbff", r"is not known; expected one of .*Did you mean 'rbf'\?"),
    *[("kernel", value, "a kernel object or a function") for value in (None, 3)],
    *[("solver", v, r"\['auto', 'cholesky', 'cg'") for v in ("svd", None)],
    *[("probability", v, "softmax.*sum_exp.*False") for v in (True, "platt", None)],
    *[("scoring", v, "must be one of.*neg_mean_squared_error") for v in ("r3", None)],
    *[
        ("memory_budget", v, "is not a size; pass a positive number.*'4GiB'")
        for v in ("4 parsecs", -1, 0, True, np.nan, np.inf, [1])
    ],
    *[("Cs", v, "sequence of positive") for v in ([], [1, -1], [np.nan], "a", [[1]])],
    *[("gammas", v, "sequence of positive") for v in ([], [0], "atuo")],
]


@pytest.mark.parametrize(("name", "value", "match"), BAD_PARAMETERS)
@each_predictor
def test_parameters(estimator, name, value, match, no_work):
    if name not in estimator.get_params():
        return
    params = {"kernel": "poly"} if name in ("degree", "coef0") else {}
    bad = clone(estimator).set_params(**{**params, name: value})
    refused(bad, "(?s)" + rf"{name}=.*{match}")


def test_the_message_names_the_value_and_a_remedy(no_work):
    refused(
        LSSVMClassifier(C=-3),
        r"C=-3 must be a positive, finite number, or .*\. Try 1\.0",
    )


@pytest.mark.parametrize("value", ["a", 1.5, -1, [1], True])
@pytest.mark.parametrize("estimator", having(predictors(), "random_state"), ids=name_of)
def test_random_state(estimator, value, no_work):
    bad = clone(estimator).set_params(random_state=value)
    refused(bad, r"random_state=.* cannot seed a generator; pass None, an int of 0")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("balance", "class_weight='balance' must be None, 'balanced' or a dict"),
        (3, "class_weight=3 must be None"),
        (np.ones(3), "must be None, 'balanced' or a dict"),
        ({7: 1.0}, r"has 7, which is not a class of y; the classes are \[0, 1, 2\]"),
        ({0: -1.0}, r"class_weight\[0\]=-1.0 must be a finite number, zero or more"),
        ({0: np.nan}, r"class_weight\[0\]=nan must be a finite number"),
        ({0: "a"}, r"class_weight\[0\]='a' must be a finite number"),
        ({0: 1, 1: 0, 2: 0}, r"\[0, 1, 2\] only \[0\] have rows.*at least two"),
        ({0: 0, 1: 0, 2: 0}, r"only \[\] have rows.*Check .*class_weight"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "estimator", having(classifiers(), "class_weight"), ids=name_of
)
def test_class_weight(estimator, value, match, no_work):
    refused(clone(estimator).set_params(class_weight=value), match)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (np.r_[-1.0, np.ones(N - 1)], r"negative value -1; weights must be zero or"),
        (np.ones(N - 1), r"shape \(49,\); expected one weight per row.*\(50,\)"),
        (np.ones((N, 1)), r"shape \(50, 1\); expected one weight per row.*\(50,\)"),
        (np.zeros(N), r"zero for every row; give some row weight"),
        (np.full(N, np.nan), r"sample_weight contains NaN"),
        (np.full(N, np.inf), r"sample_weight contains infinity"),
        (np.full(N, "a"), r"sample_weight has values such as \['a'\]; expected num"),
    ],
    ids=["negative", "length", "2-D", "zero", "nan", "inf", "text"],
)
@each_predictor
def test_sample_weight(estimator, weight, match, no_work):
    refused(estimator, match, sample_weight=weight)


@each_classifier
def test_weights_that_leave_one_class(estimator, no_work):
    weight = (Y_GOOD == 0).astype(float)
    refused(estimator, r"only \[0\] have rows of positive weight", sample_weight=weight)


# ---- kernel matrices and functions -----------------------------------------------


def indefinite():
    """Return a matrix whose 2 × 2 minors are all right and which is yet indefinite."""
    K = np.eye(N)
    for i, j, value in ((0, 1, 0.9), (0, 2, 0.9), (1, 2, -0.9)):
        K[i, j] = K[j, i] = value
    return K


@pytest.mark.parametrize(
    ("K", "match"),
    [
        (K_GOOD[:, :-1], r"square matrix.*\(50, 49\); pass k\(X, X\) to fit"),
        (K_GOOD + np.triu(np.ones((N, N)), 1), r"not symmetric: K\[.*Pass \(K \+ K"),
        (-K_GOOD, r"diagonal of a positive semidefinite matrix is not negative"),
        (K_GOOD - 5 * np.eye(N), r"indefinite: K\[.*exceeds.*K \+ λ I"),
        (np.where(np.eye(N) > 0, np.nan, K_GOOD), r"contains NaN"),
    ],
    ids=["not square", "not symmetric", "negative", "indefinite", "nan"],
)
@each_pairwise
def test_a_precomputed_matrix(estimator, K, match, no_work):
    refused(clone(estimator).set_params(kernel="precomputed"), match, K)


@each_pairwise
def test_a_sparse_precomputed_matrix(estimator, no_work):
    bad = clone(estimator).set_params(kernel="precomputed")
    K = scipy.sparse.csr_array(K_GOOD)
    refused(bad, r"dense data is required.*toarray", K, error=TypeError)


@pytest.mark.parametrize("estimator", [LSSVMClassifier(C=1e3), LSSVMRegressor(C=1e3)])
def test_an_indefinite_matrix_that_only_the_factorisation_finds(estimator):
    bad = clone(estimator).set_params(kernel="precomputed")
    refused(bad, r"indefinite at C=1000: kernel='precomputed'.*lower C", indefinite())


@pytest.mark.parametrize("estimator", [LSSVMClassifier(), LSSVMRegressor()])
def test_a_polynomial_that_is_no_kernel(estimator):
    bad = clone(estimator).set_params(kernel="poly", coef0=-1.0)
    refused(bad, r"indefinite.*'poly' with coef0 of zero or more")


@each_pairwise
def test_a_precomputed_row_of_the_wrong_width(estimator):
    K = K_GOOD + np.eye(N)
    fitted = clone(estimator).set_params(kernel="precomputed").fit(K, Y_GOOD)
    for method in ("predict", "predict_proba"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match=r"50 training rows, got .*\(3, 49\)"):
                getattr(fitted, method)(K[:3, :-1])


def one_number(X, Y):
    return 1.0


def too_short(X, Y):
    return np.ones(3)


def transposed(X, Y):
    return Y @ X.T


def as_list(X, Y):
    return (X @ Y.T).tolist()


def not_a_number(X, Y):
    return X @ Y.T * np.nan


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (one_number, r"one_number returned a float .*expected \(2, 3\)"),
        (too_short, r"returned shape \(3,\) for 2 and 3 rows; expected \(2, 3\)"),
        (transposed, r"returned shape \(3, 2\) for 2 and 3 rows"),
        (as_list, r"returned a list .*matrix of all pairs, an array"),
        (not_a_number, r"returned NaN or infinity; every entry must be finite"),
    ],
)
@each_kernel_predictor
def test_a_function_that_is_no_kernel(estimator, function, match, no_work):
    refused(clone(estimator).set_params(kernel=function), match)


# ---- a ridge too small -----------------------------------------------------------


@pytest.mark.parametrize("estimator", [LSSVMClassifier(), LSSVMRegressor()])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_C_that_makes_the_system_singular(estimator, kernel):
    """Repeated rows and no ridge to speak of: told, and still answered."""
    X, y = np.r_[X_GOOD, X_GOOD], np.r_[Y_GOOD, Y_GOOD]
    model = clone(estimator).set_params(C=1e18, kernel=kernel)
    with pytest.warns(LinAlgWarning, match=r"C=1e\+18; .*Lower C to at most 1?[0-9]e"):
        model.fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    if is_classifier(model):
        assert np.isfinite(model.decision_function(X)).all()
        assert np.isfinite(model.predict_proba(X)).all()
    assert model.solve_info_.jitter > 0


@pytest.mark.parametrize("C", [1e-300, 1e300])
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_the_ends_of_the_range_of_C(C):
    model = LSSVMClassifier(C=C).fit(X_GOOD, Y_GOOD)
    assert np.isfinite(model.decision_function(X_GOOD)).all()
    assert np.isfinite(model.predict_proba(X_GOOD)).all()
