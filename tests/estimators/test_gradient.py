"""Gradients of models equal central differences, whatever the kernel and the metric."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from kaucus import (
    KernelOutlierDetector,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LSSVMClassifier,
    LSSVMRegressor,
)
from tests.arrays import assert_close

MODELS = {
    "learned metric": KMeansKernelClassifier(random_state=0),
    "given kernel": KMeansKernelClassifier(
        5, kernel="matern52", gamma=0.3, C=10.0, random_state=0
    ),
    "polynomial": LSSVMClassifier(kernel="poly", gamma=0.1, coef0=1.0),
    "numbers": KMeansKernelRegressor(kernel="rbf", learn_metric=True, random_state=0),
    "several outputs": LSSVMRegressor(kernel="rational_quadratic", gamma=0.2),
}


def values(model, X):
    """Return f of the rows, (n, t)."""
    name = "decision_function" if hasattr(model, "classes_") else "predict"
    return np.asarray(getattr(model, name)(X)).reshape(len(X), -1)


def problem(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    if name == "numbers":
        return X, 100 + 5 * f
    if name == "several outputs":
        return X, np.stack([f, X[:, 3] ** 2], axis=1)
    return X, np.digitize(f, [-0.5, 0.5] if name == "learned metric" else [0.0])


@pytest.mark.filterwarnings("ignore:.*beyond:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_central_differences(name):
    X, y = problem(name)
    model = MODELS[name].fit(X, y)
    rows, step = X[:7] + 0.01, 1e-5
    rows[0, 3] = 40.0  # where a learned scale of columns is bounded
    found, f = model.gradient(rows), values(model, rows)
    expected = np.empty((*f.shape, 4))
    for c in range(4):
        moved = step * (np.arange(4) == c)
        above, below = values(model, rows + moved), values(model, rows - moved)
        expected[:, :, c] = (above - below) / (2 * step)
    assert found.shape == ((7, 4) if f.shape[1] == 1 else expected.shape)
    found = found.reshape(expected.shape)
    assert_close(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_blocks_and_precision_change_gradients_by_rounding_alone(monkeypatch):
    from kaucus.kernels import _matrix

    X, y = problem("numbers")
    model = LSSVMRegressor(kernel="rbf", gamma=0.3).fit(X, y)
    expected = model.gradient(X)
    assert model.gradient(X.astype(np.float32)).dtype == np.float32
    monkeypatch.setattr(_matrix, "_GRADIENT_BYTES", 5000)
    assert_close(model.gradient(X), expected, rtol=1e-10, atol=1e-10)
    assert_close(model.gradient(X.astype("f4")), expected, rtol=1e-3, atol=1e-3)


def test_a_model_of_sparse_rows_has_the_same_gradients():
    X, y = problem("numbers")
    model = LSSVMRegressor(kernel="rbf", gamma=0.3)
    expected = clone(model).fit(X, y).gradient(X)
    found = model.fit(scipy.sparse.csr_array(X), y).gradient(X)
    assert_close(found, expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(TypeError, match="dense rows"):
        model.gradient(scipy.sparse.csr_array(X))


def test_models_without_a_gradient_say_so():
    X, y = problem("polynomial")
    with pytest.raises(NotImplementedError, match="no gradient here; use 'rbf'"):
        LSSVMClassifier(kernel="cosine").fit(X, y).gradient(X)
    with pytest.raises(ValueError, match="no columns to derive by"):
        LSSVMClassifier(kernel="precomputed").fit(X @ X.T, y).gradient(X @ X.T)


@pytest.mark.parametrize("kernel", ["exponential", "rbf", "laplacian"])
def test_gradients_of_a_density_equal_central_differences(kernel):
    X = np.random.default_rng(0).normal(size=(90, 3)) * [1.0, 50.0, 0.01]
    model = KernelOutlierDetector(kernel=kernel, random_state=0).fit(X)
    step = 1e-5 * X.std(axis=0)
    rows, expected = X[:7] + 1.5 * X.std(axis=0), np.empty((7, 3))
    for c in range(3):
        moved = step[c] * (np.arange(3) == c)
        above, below = map(model.score_samples, (rows + moved, rows - moved))
        expected[:, c] = (above - below) / (2 * step[c])
    found = model.gradient(rows)
    scale = np.abs(expected).max(axis=0)
    assert_close(found / scale, expected / scale, rtol=0, atol=1e-6)
    assert model.gradient(rows.astype("float32")).dtype == np.float32
    assert_close(model.gradient(1e9 * rows), np.zeros((7, 3)), rtol=0, atol=0)
    with pytest.raises(TypeError, match="gradient takes dense rows"):
        model.gradient(scipy.sparse.csr_array(rows))
