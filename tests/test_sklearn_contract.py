"""Every public estimator keeps scikit-learn's contract, and a few promises more."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kaucus import LSSVMClassifier, LSSVMRegressor
from kaucus._base import fitted_arrays
from kaucus.kernels import Exponential, Gaussian, Polynomial
from kaucus.preprocessing.rows import RowTransformer
from tests.arrays import assert_to_rounding
from tests.discovery import (
    estimators,
    having,
    name_of,
    predictors,
    transformers,
    without_rows,
)

each_estimator = pytest.mark.parametrize("estimator", estimators(), ids=name_of)
each_predictor = pytest.mark.parametrize("estimator", predictors(), ids=name_of)
each_kernel_predictor = pytest.mark.parametrize(
    "estimator", having(predictors(), "kernel"), ids=name_of
)
each_transformer = pytest.mark.parametrize("estimator", transformers(), ids=name_of)


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


def output(estimator, X):
    """Return whatever the estimator is for."""
    if hasattr(estimator, "transform"):
        return np.asarray(estimator.transform(X))
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)
    return estimator.predict(X)


def assert_same(actual, expected):
    """Compare up to rounding: the order of sums differs with the memory layout."""
    assert_allclose(actual, expected, rtol=1e-7, atol=1e-9)


def test_there_is_something_to_test():
    assert len(predictors()) >= 2
    assert len(transformers()) >= 1


REPEATED_ROWS = (
    "a row of weight 2 and two equal rows are different draws, of first centres or of "
    "rows that judge; scikit-learn's own KMeans is excused for the same reason"
)
WHOLE_ROWS = (
    "leave-one-out, which chooses C and calibrates probabilities, leaves out a row of "
    "weight 2, and one of two equal rows; with a given C decision values are the same "
    "(test_ls_svm_estimators, test_low_rank)"
)
NO_ARRAYS = "no array is fitted, so that rows of every library can be transformed"
SEEDED_FROM_ROWS = {
    *("ClusterRBFSVC", "KernelKMeans", "KernelOutlierDetector", "LearnedMetric"),
    *("LocalSVC", "SphericalKMeans"),
}
LEAVING_OUT_ROWS = {
    *("KMeansKernelClassifier", "KMeansKernelRegressor"),
    "LSSVMClassifier",
    "PatchVotingClassifier",
}


def excused(estimator):
    """Return the checks that cannot hold, with the reason."""
    checks = {}
    for names, why in (
        (SEEDED_FROM_ROWS, REPEATED_ROWS),
        (LEAVING_OUT_ROWS, WHOLE_ROWS),
    ):
        if name_of(estimator) in names:
            for kind in ("dense", "sparse"):
                checks[f"check_sample_weight_equivalence_on_{kind}_data"] = why
    of_rows = isinstance(estimator, RowTransformer)
    if of_rows and not list(fitted_arrays(clone(estimator).fit(np.ones((2, 4))))):
        checks["check_array_api_same_namespace"] = NO_ARRAYS
    return checks


# Some of the checks have fewer different rows than the default number of clusters.
@pytest.mark.filterwarnings("ignore:Only . of n_clusters=8 have rows")
# And some have fewer rows in a cell than features.
@pytest.mark.filterwarnings("ignore:The covariance .* is singular")
@parametrize_with_checks(estimators(), expected_failed_checks=excused)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@each_estimator
def test_pickle_gives_the_same_output(estimator, iris):
    X, y = iris
    fitted = clone(estimator).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_to_rounding(output(again, X), output(fitted, X))


@each_estimator
def test_joblib_gives_the_same_output(estimator, iris):
    X, y = iris
    fitted = clone(estimator).fit(X, y)
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    assert_to_rounding(output(joblib.load(file), X), output(fitted, X))


@each_kernel_predictor
def test_a_kernel_object_survives_clone_and_pickle(estimator, iris):
    X, y = iris
    model = clone(estimator).set_params(kernel=Gaussian(gamma=0.3))
    assert clone(model).kernel == Gaussian(gamma=0.3)
    fitted = clone(model).fit(X, y)
    assert_to_rounding(output(pickle.loads(pickle.dumps(fitted)), X), output(fitted, X))


@each_estimator
def test_clone_has_the_parameters_and_nothing_fitted(estimator, iris):
    X, y = iris
    copied = clone(clone(estimator).fit(X, y))
    assert copied.get_params() == estimator.get_params()
    assert not [name for name in vars(copied) if name.endswith("_")]


# ---- data frames -----------------------------------------------------------------


def pandas_frame(X, names):
    return pytest.importorskip("pandas").DataFrame(X, columns=names)


def polars_frame(X, names):
    return pytest.importorskip("polars").DataFrame(X, schema=names)


each_frame = pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
NAMES = ["a", "b", "c", "d"]


@each_frame
@each_estimator
def test_a_data_frame_is_its_values_with_names(estimator, frame, iris):
    X, y = iris
    fitted = clone(estimator).fit(frame(X, NAMES), y)
    assert list(fitted.feature_names_in_) == NAMES
    expected = output(clone(estimator).fit(X, y), X)
    assert_same(output(fitted, frame(X, NAMES)), expected)


@each_frame
@each_estimator
def test_other_names_are_refused(estimator, frame, iris):
    X, y = iris
    fitted = clone(estimator).fit(frame(X, NAMES), y)
    with pytest.raises(ValueError, match="feature names"):
        output(fitted, frame(X, ["a", "b", "c", "other"]))
    with pytest.raises(ValueError, match="same order"):
        output(fitted, frame(X[:, ::-1], NAMES[::-1]))


@pytest.mark.parametrize("method", ["transform", "fit_transform"])
@each_transformer
def test_set_output_gives_a_data_frame(estimator, method, iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame = pandas_frame(X, NAMES)
    transformer = clone(estimator).set_output(transform="pandas").fit(frame, y)
    targets = (y,) if method == "fit_transform" else ()
    given = getattr(transformer, method)(frame, *targets)
    assert isinstance(given, pandas.DataFrame)
    assert list(given.columns) == list(transformer.get_feature_names_out())
    assert_same(given.to_numpy(), clone(estimator).fit_transform(X, y))


@each_transformer
def test_set_output_knows_polars(estimator, iris):
    polars = pytest.importorskip("polars")
    X, y = iris
    given = clone(estimator).set_output(transform="polars").fit_transform(X, y)
    assert isinstance(given, polars.DataFrame)


@each_predictor
def test_labels_may_come_as_a_series(estimator, iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    as_series = clone(estimator).fit(X, pandas.Series(y, index=range(7, 7 + len(y))))
    assert_same(output(as_series, X), output(clone(estimator).fit(X, y), X))


# ---- inside scikit-learn's tools -------------------------------------------------


def test_grid_search_over_C_and_kernel_objects(iris):
    X, y = iris
    grid = {
        "C": [0.01, 10.0],
        "kernel": [Gaussian(0.5), Polynomial(degree=2, coef0=1.0), "cauchy"],
    }
    search = GridSearchCV(LSSVMClassifier(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["C"] == search.best_estimator_.C
    assert len(set(search.cv_results_["mean_test_score"])) > 1


@pytest.mark.slow
def test_grid_search_in_other_processes_gives_the_same(iris):
    X, y = iris
    grid = {"kernel": [Gaussian(0.5), Exponential(0.5)]}
    scores = [
        GridSearchCV(LSSVMRegressor(), grid, cv=3, n_jobs=n_jobs)
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for n_jobs in (1, 2)
    ]
    assert_allclose(scores[0], scores[1], rtol=1e-10)


def test_grid_search_slices_a_precomputed_matrix_on_both_sides(iris):
    X, y = iris
    by_name = GridSearchCV(LSSVMClassifier(kernel="linear"), {"C": [1.0]}, cv=3)
    given = GridSearchCV(LSSVMClassifier(kernel="precomputed"), {"C": [1.0]}, cv=3)
    assert_allclose(
        given.fit(X @ X.T, y).best_score_, by_name.fit(X, y).best_score_, rtol=1e-12
    )


@each_predictor
def test_in_a_pipeline(estimator, iris):
    X, y = iris
    chain = make_pipeline(StandardScaler(), clone(estimator)).fit(X, y)
    alone = clone(estimator).fit(StandardScaler().fit_transform(X), y)
    assert_same(chain.predict(X), alone.predict(StandardScaler().fit_transform(X)))
    assert chain.score(X, y) > 0.9


# ---- what is the user's stays as it was ------------------------------------------


def frozen(X, order):
    X = np.array(X, order=order)
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
@each_predictor
def test_read_only_data_is_enough(estimator, order, dtype, iris):
    X, y = iris
    X, y = frozen(X.astype(dtype), order), frozen(y, order)
    weight = frozen(np.linspace(0.5, 2, len(y)), order)
    output(clone(estimator).fit(X, y, sample_weight=weight), X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine", "precomputed"])
@each_kernel_predictor
def test_nothing_that_is_passed_is_changed(estimator, kernel, iris):
    if kernel == "precomputed" and not without_rows([estimator]):
        return
    X, y = iris
    X = X @ X.T if kernel == "precomputed" else X
    weight = np.linspace(0.5, 2, len(y))
    before = copy.deepcopy((X, y, weight))
    model = clone(estimator)
    if "kernel" in model.get_params():
        model.set_params(kernel=kernel)
    elif kernel != "rbf":
        return
    output(model.fit(X, y, sample_weight=weight), X)
    for value, old in zip((X, y, weight), before, strict=True):
        assert_array_equal(value, old)


@each_kernel_predictor
def test_parameters_are_not_changed(estimator, iris):
    X, y = iris
    params = {}
    if "kernel" in estimator.get_params():
        params["kernel"] = Polynomial(degree=2, gamma=0.1, coef0=1.0)
    if is_classifier(estimator):
        params["class_weight"] = {0: 1.0, 2: 3.0}
    before = copy.deepcopy(params)
    model = clone(estimator).set_params(**params)
    output(model.fit(X, y), X)
    assert params == before
    for name, value in params.items():
        assert getattr(model, name) is value


@each_transformer
def test_transformers_leave_their_input_alone(estimator, iris):
    X, y = iris
    before = X.copy()
    clone(estimator).fit_transform(X, y)
    assert_array_equal(X, before)


@each_predictor
def test_a_second_fit_forgets_the_first(estimator, iris):
    X, y = iris
    twice = clone(estimator).fit(X[:, :2], y).fit(X, y)
    assert_same(output(twice, X), output(clone(estimator).fit(X, y), X))
