"""Results follow X: every public estimator, on arrays of every library."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    LSSVMClassifier,
    LSSVMRegressor,
    PatchVotingClassifier,
)
from kaucus._array.namespace import device_of, dtype_name, to_numpy
from kaucus._base import fitted_arrays
from kaucus.kernels import Gaussian
from kaucus.preprocessing import FourierFeatures, UnitNormalizer
from tests.arrays import array, assert_close
from tests.conftest import namespace
from tests.discovery import (
    classifiers,
    estimators,
    having,
    name_of,
    predictors,
    regressors,
    transformers,
    without_rows,
)

each_estimator = pytest.mark.parametrize("estimator", estimators(), ids=name_of)
each_predictor = pytest.mark.parametrize("estimator", predictors(), ids=name_of)
each_classifier = pytest.mark.parametrize("estimator", classifiers(), ids=name_of)
each_regressor = pytest.mark.parametrize("estimator", regressors(), ids=name_of)
each_transformer = pytest.mark.parametrize("estimator", transformers(), ids=name_of)
each_of_a_matrix = pytest.mark.parametrize(
    "estimator", without_rows(estimators()), ids=name_of
)

METHODS = [
    "decision_function",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "transform",
]
# A C that was chosen for float32 rows leaves four or five digits of the values.
TOLERANCE = {"float64": 1e-7, "float32": 1e-2}


@pytest.fixture(params=["another device", "torch"])
def xp(request):
    """Each library beside NumPy; array-api-strict with its stand-in for a GPU."""
    if request.param != "another device":
        return namespace(request.param)
    strict = namespace("array_api_strict")
    there = strict.Device("device1")
    return SimpleNamespace(asarray=functools.partial(strict.asarray, device=there))


@pytest.fixture
def iris():
    # Features of their own scale and rows that are not equal: nothing is decided by
    # rounding.
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


def outputs(model, X):
    """Return whatever the model has to say of rows."""
    return {m: getattr(model, m)(X) for m in METHODS if hasattr(model, m)}


FITTED = {}


def fitted(estimator, X, y):
    """Fit rows of iris as they are once, for tests that change no model."""
    key = name_of(estimator), type(X), str(device_of(X))
    if key not in FITTED:
        FITTED[key] = clone(estimator).fit(X, y)
    return FITTED[key]


def assert_follows(got, X):
    """Check library and device."""
    assert type(got) is type(X)
    assert device_of(got) == device_of(X)


# ---- the law ---------------------------------------------------------------------


@each_estimator
def test_tensors_give_tensors_with_the_values_of_numpy(estimator, xp, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    expected = clone(estimator).fit(X, y)
    Z = array(xp, X)
    model = clone(estimator).fit(Z, array(xp, y))
    for method, value in outputs(model, Z).items():
        assert_follows(value, Z)
        right = getattr(expected, method)(X)
        assert dtype_name(value) == right.dtype.name
        assert_close(value, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@each_estimator
def test_fitted_arrays_follow_X(estimator, xp, iris):
    X, y = iris
    expected = dict(fitted_arrays(fitted(estimator, X, y)))
    Z = array(xp, X)
    found = dict(fitted_arrays(fitted(estimator, Z, array(xp, y))))
    assert set(found) == set(expected)
    for name, value in found.items():
        assert_follows(value, Z)
        assert dtype_name(value) == expected[name].dtype.name, name
        assert_close(value, expected[name], rtol=1e-6, atol=1e-6)


@each_predictor
def test_scores_are_plain_numbers(estimator, xp, iris):
    X, y = iris
    weight = np.linspace(0.5, 2, len(y))
    expected = clone(estimator).fit(X, y, sample_weight=weight)
    Z, t, w = (array(xp, values) for values in (X, y, weight))
    model = clone(estimator).fit(Z, t, sample_weight=w)
    score = model.score(Z, t, sample_weight=w)
    assert isinstance(score, float)
    assert score == pytest.approx(expected.score(X, y, sample_weight=weight), abs=1e-7)


@each_predictor
def test_labels_and_weights_may_be_of_another_library(estimator, xp, iris):
    X, y = iris
    weight = np.linspace(0.5, 2, len(y))
    Z, t, w = (array(xp, values) for values in (X, y, weight))
    same = clone(estimator).fit(Z, t, sample_weight=w)
    mixed = clone(estimator).fit(Z, y.tolist(), sample_weight=weight)
    assert_array_equal(to_numpy(mixed.predict(Z)), to_numpy(same.predict(Z)))
    on_numpy = clone(estimator).fit(X, t, sample_weight=w)
    assert isinstance(on_numpy.predict(X), np.ndarray)


@each_classifier
def test_texts_stay_numpy(estimator, xp, iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    Z = array(xp, X)
    model = clone(estimator).fit(Z, names)
    got = model.predict(Z)
    assert isinstance(got, np.ndarray)
    assert_array_equal(got, clone(estimator).fit(X, names).predict(X))
    assert isinstance(model.classes_, np.ndarray)


@each_classifier
def test_two_classes(estimator, xp, iris):
    X, y = iris
    X, y = X[y > 0], (y[y > 0] == 1) * 2.0 - 1  # the labels are ±1
    Z = array(xp, X)
    model = clone(estimator).fit(Z, array(xp, y))
    expected = clone(estimator).fit(X, y)
    assert_close(model.decision_function(Z), expected.decision_function(X), rtol=1e-6)
    assert_array_equal(to_numpy(model.predict(Z)), expected.predict(X))
    assert_follows(model.predict(Z), Z)


@each_estimator
def test_a_model_of_one_library_predicts_for_rows_of_another(estimator, xp, iris):
    X, y = iris
    Z = array(xp, X)
    on_numpy = fitted(estimator, X, y)
    right = outputs(on_numpy, X)
    for model, rows in [(on_numpy, Z), (fitted(estimator, Z, array(xp, y)), X)]:
        for method, value in outputs(model, rows).items():
            assert_follows(value, rows)
            assert_close(value, right[method], rtol=1e-6, atol=1e-7)


@each_of_a_matrix
def test_a_given_matrix_may_be_a_tensor(estimator, xp, iris):
    X, y = iris
    K = Gaussian(0.5)(X)
    expected = clone(estimator).set_params(kernel="precomputed").fit(K, y)
    Z = array(xp, K)
    model = clone(estimator).set_params(kernel="precomputed").fit(Z, array(xp, y))
    assert_follows(model.predict(Z), Z)
    assert_close(model.predict(Z), expected.predict(K), rtol=1e-6)


@each_of_a_matrix
def test_a_bad_matrix_is_refused_as_a_tensor_too(estimator, xp, iris):
    X, y = iris
    K = Gaussian(0.5)(X)
    K[1, 2] += 0.1
    model = clone(estimator).set_params(kernel="precomputed")
    with pytest.raises(ValueError, match=r"not symmetric: K\[1, 2\]"):
        model.fit(array(xp, K), y)


@each_estimator
def test_the_users_tensor_is_not_changed(estimator, xp, iris):
    X, y = iris
    Z = array(xp, X)
    outputs(clone(estimator).fit(Z, y), Z)
    assert_array_equal(to_numpy(Z), X)


# ---- what is wrong with a tensor -------------------------------------------------


@each_estimator
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: X[:, 0], r"Expected 2D array, got 1D array instead: shape \(50,\)"),
        (lambda X: np.where(X > 7, np.nan, X), "Input X contains NaN"),
        (lambda X: np.where(X > 7, np.inf, X), "Input X contains infinity"),
        (lambda X: X[:0], "Found array with 0 sample"),
        (lambda X: X[:, :0], "Found array with 0 feature"),
        (lambda X: X + 0j, "Complex data not supported"),
    ],
)
def test_bad_tensors_are_refused(estimator, make, message, xp, iris):
    X, y = iris
    bad = make(X)
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(array(xp, bad), y[: len(bad)])


@each_estimator
def test_other_widths_are_refused(estimator, xp, iris):
    X, y = iris
    model = fitted(estimator, array(xp, X), array(xp, y))
    with pytest.raises(ValueError, match="X has 3 features"):
        outputs(model, array(xp, X[:, :3]))


@each_predictor
def test_as_many_labels_as_rows(estimator, xp, iris):
    X, y = iris
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(estimator).fit(array(xp, X), array(xp, y[:-1]))


@each_estimator
def test_whole_numbers_count_as_float64(estimator, xp, iris):
    X, y = iris
    X = np.round(10 * X)
    given = outputs(clone(estimator).fit(array(xp, X, "int64"), y), array(xp, X))
    expected = outputs(clone(estimator).fit(X, y), X)
    for method, value in given.items():
        assert_close(value, expected[method], rtol=1e-6, atol=1e-7)


def test_tensors_with_gradients_and_sparse_ones(iris):
    torch = pytest.importorskip("torch")
    X, y = iris
    Z = torch.tensor(X, requires_grad=True)
    model = LSSVMClassifier().fit(Z, y)
    assert not model.decision_function(Z).requires_grad
    with pytest.raises(ValueError, match=r"sparse tensor.*to_dense"):
        LSSVMClassifier().fit(torch.tensor(X).to_sparse(), y)


# ---- what one estimator has and others do not ------------------------------------


@each_regressor
def test_several_outputs(estimator, xp, iris):
    X, _ = iris
    Z = array(xp, X)
    model = clone(estimator).fit(Z, array(xp, X[:, :2]))
    expected = clone(estimator).fit(X, X[:, :2])
    assert_follows(model.predict(Z), Z)
    assert_close(model.predict(Z), expected.predict(X), rtol=1e-6)


@pytest.mark.parametrize("probability", ["softmax", "sum_exp"])
@pytest.mark.parametrize("estimator", having(classifiers(), "probability"), ids=name_of)
def test_both_probabilities(estimator, probability, xp, iris):
    X, y = iris
    Z = array(xp, X)
    given = clone(estimator).set_params(probability=probability)
    p = given.fit(Z, y).predict_proba(Z)
    assert_follows(p, Z)
    assert_close(p, clone(given).fit(X, y).predict_proba(X), rtol=1e-6, atol=1e-9)


SOLVERS = ["cg", "block_descent", "nystrom", "kaczmarz", "matching_pursuit"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_with_history_and_validation(solver, xp, iris):
    X, y = iris
    Z, t = array(xp, X), array(xp, y)

    def fitted(X, y):
        model = LSSVMClassifier(
            solver=solver,
            block_size=20,
            max_iter=200,
            random_state=0,
        )
        return model.fit(X, y, X_val=X[:20, :], y_val=y[:20])

    model, expected = fitted(Z, t), fitted(X, y)
    assert_follows(model.dual_coef_, Z)
    assert_close(model.decision_function(Z), expected.decision_function(X), atol=1e-5)
    found = model.history_["validation_error"]
    assert found == expected.history_["validation_error"]


def test_a_warm_start_goes_on_from_tensors(xp, iris):
    X, y = iris
    Z = array(xp, X)
    model = LSSVMRegressor(
        solver="block_descent", block_size=20, warm_start=True, random_state=0
    )
    first = model.fit(Z, y).n_iter_
    assert model.fit(Z, y).n_iter_ < first
    assert "block_descent" in model.explain(Z, array(xp, y))


def test_partial_fit_takes_tensors_and_goes_on_with_arrays(xp, iris):
    X, y = iris

    def streamed(*parts):
        model = KMeansKernelClassifier(
            n_representatives=5, random_state=0, learn_metric=False
        )
        for rows, labels in parts:
            model.partial_fit(rows, labels, classes=[0, 1, 2])
        return model

    half = len(X) // 2
    Z, t = array(xp, X), array(xp, y)
    model = streamed((Z[::2, :], t[::2]), (Z[1::2, :], t[1::2]))
    expected = streamed((X[::2], y[::2]), (X[1::2], y[1::2]))
    assert_follows(model.representatives_, Z)
    assert_close(model.representatives_, expected.representatives_, rtol=1e-9)
    back = streamed((Z[:half, :], t[:half]), (X[half:], y[half:]))
    assert isinstance(back.representatives_, np.ndarray)


@pytest.mark.parametrize("landmarks", ["k-means", "uniform", "rpcholesky"])
def test_landmarks_of_tensors(landmarks, xp, iris):
    X, _ = iris
    model = KernelKMeans(
        3, approximation="nystrom", n_landmarks=20, landmarks=landmarks, random_state=0
    )
    Z = array(xp, X)
    given, expected = clone(model).fit(Z), clone(model).fit(X)
    assert_follows(given.X_fit_, Z)
    assert_array_equal(to_numpy(given.labels_), expected.labels_)


def test_a_function_sees_tensors_and_may_return_arrays(xp, iris):
    X, y = iris
    seen = []

    def linear(A, B):
        seen.append(type(A))
        return to_numpy(A) @ to_numpy(B).T

    Z = array(xp, X)
    model = LSSVMClassifier(kernel=linear).fit(Z, y)
    assert set(seen) == {type(Z)}
    expected = LSSVMClassifier(kernel="linear").fit(X, y)
    assert_close(model.decision_function(Z), expected.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize("voting", ["majority", "sum"])
def test_patches_of_tensors_in_a_pipeline(voting, xp, rng):
    X, y = rng.random((40, 30)), np.arange(40) % 2
    X[y == 1, 7] += 1
    inner = make_pipeline(UnitNormalizer(), LSSVMClassifier())
    model = PatchVotingClassifier(
        inner, patch_size=4, image_shape=(5, 6), voting=voting
    )
    Z = array(xp, X)
    given, expected = clone(model).fit(Z, y), clone(model).fit(X, y)
    assert_follows(given.predict(Z), Z)
    assert_close(given.predict_proba(Z), expected.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("fft", ["1d", "2d", "nd"])
@pytest.mark.parametrize("concatenate", [True, False])
def test_spectra_of_tensors(fft, concatenate, xp, dtype, rng):
    X = rng.random((5, 2 * 4 * 6)).astype(dtype)
    fourier = FourierFeatures((2, 4, 6), fft=fft, concatenate=concatenate)
    Z = array(xp, X)
    got, expected = fourier.fit_transform(Z), fourier.fit_transform(X)
    assert_follows(got, Z)
    assert_close(got, expected, atol=1e-5 if dtype == "float32" else 1e-12)


@each_transformer
def test_constant_rows_are_no_trouble(estimator, xp):
    X = np.ones((10, 6))
    X[1::2] += np.random.default_rng(0).random((5, 6))
    if is_classifier(estimator) or hasattr(estimator, "n_clusters"):
        estimator = clone(estimator).set_params(n_clusters=2)
    Z = array(xp, X)
    y = np.arange(10) % 2
    got = clone(estimator).fit(Z, y).transform(Z)
    expected = clone(estimator).fit(X, y).transform(X)
    assert_close(got, expected, rtol=1e-6, atol=1e-7)
