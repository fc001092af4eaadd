"""CuPy's arrays take the door of the array API standard: ``pytest -m gpu``."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from kaucus._array.blocks import free_memory
from kaucus._array.namespace import is_tensor, on_gpu, to_numpy
from kaucus._array.segments import segment_sum
from kaucus._base import fitted_arrays
from tests.arrays import assert_close
from tests.discovery import estimators, name_of, predictors

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu

METHODS = ["decision_function", "predict", "predict_proba", "transform"]
# Products on a GPU add up in another order; float32 models may differ by more.
TOLERANCE = {"float64": 1e-6, "float32": 5e-3}


@pytest.fixture(scope="module", autouse=True)
def _gpu():
    if cupy.cuda.runtime.getDeviceCount() == 0:
        pytest.skip("no CUDA device")


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


@pytest.mark.parametrize("estimator", estimators(), ids=name_of)
def test_arrays_of_cupy_give_arrays_of_cupy(estimator, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    reference = clone(estimator).fit(X, y)
    Z = cupy.asarray(X)
    model = clone(estimator).fit(Z, cupy.asarray(y))
    for name, value in fitted_arrays(model):
        assert isinstance(value, cupy.ndarray), name
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for method in METHODS:
        if hasattr(model, method):
            value = getattr(model, method)(Z)
            assert isinstance(value, cupy.ndarray)
            assert_close(value, getattr(reference, method)(X), **tolerance)
    assert np.array_equal(cupy.asnumpy(Z), X)  # as it was


@pytest.mark.parametrize("estimator", predictors(), ids=name_of)
def test_a_model_of_cupy_comes_back_to_the_host(estimator, iris):
    X, y = iris
    model = clone(estimator).fit(cupy.asarray(X), cupy.asarray(y))
    expected = to_numpy(model.predict(cupy.asarray(X)))
    model.to_device("numpy")
    assert isinstance(model.predict(X), np.ndarray)
    assert_close(model.predict(X), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("estimator", predictors(), ids=name_of)
def test_pickles_of_cupy_are_read_with_and_without_it(estimator, iris, monkeypatch):
    X, y = iris
    model = clone(estimator).fit(cupy.asarray(X), cupy.asarray(y))
    expected = to_numpy(model.predict(cupy.asarray(X)))
    text = pickle.dumps(model)
    again = pickle.loads(text)
    assert all(isinstance(value, cupy.ndarray) for _, value in fitted_arrays(again))
    assert_close(again.predict(cupy.asarray(X)), expected, rtol=1e-6, atol=1e-6)
    monkeypatch.setitem(sys.modules, "cupy", None)  # a machine without it
    on_host = pickle.loads(text)
    assert all(isinstance(value, np.ndarray) for _, value in fitted_arrays(on_host))
    assert_close(on_host.predict(X), expected, rtol=1e-6, atol=1e-6)


def test_cupy_is_known_for_what_it_is():
    x = cupy.zeros((2, 2))
    assert is_tensor(x)
    assert on_gpu(x)
    assert 0 < free_memory(x) <= x.device.mem_info[1]


def test_sums_of_segments(dtype, rng):
    values, labels = rng.normal(size=(500, 7)).astype(dtype), rng.integers(9, size=500)
    sums = segment_sum(cupy.asarray(values), cupy.asarray(labels), 9)
    assert_close(sums, segment_sum(values, labels, 9), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("estimator", predictors(), ids=name_of)
def test_intervals_and_sets_follow_X(estimator, iris):
    X, y = iris
    on_host = clone(estimator).fit(X, y)
    model = clone(estimator).fit(cupy.asarray(X), cupy.asarray(y))
    # Not the training rows: their scores tie with their own, and rounding decides.
    new = X + np.random.default_rng(0).normal(scale=0.1, size=X.shape)
    for method in ("predict_interval", "predict_set"):
        if hasattr(model, method):
            value = getattr(model, method)(cupy.asarray(new), [0.5, 0.9])
            assert isinstance(value, cupy.ndarray)
            expected = getattr(on_host, method)(new, [0.5, 0.9])
            assert_close(value, expected, rtol=1e-6, atol=1e-6)
