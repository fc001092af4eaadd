"""precision= of every estimator that has it."""

import numpy as np
import pytest
import threadpoolctl
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_iris

from kaucus import KMeansKernelClassifier, LSSVMClassifier, LSSVMRegressor
from kaucus._array.namespace import dtype_name
from kaucus.kernels import Gaussian
from tests.arrays import array, assert_close
from tests.conftest import namespace
from tests.discovery import estimators, having, name_of

PRECISE = having(estimators(), "precision")
each_estimator = pytest.mark.parametrize("estimator", PRECISE, ids=name_of)
# That tf32 is float32 on the host is told by a warning, of which one test is.
pytestmark = pytest.mark.filterwarnings("ignore:precision='tf32' is for a GPU")
each_precision = pytest.mark.parametrize("precision", ["float64", "float32", "tf32"])
WORK = {"float64": "float64", "float32": "float32", "tf32": "float32"}


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3] + np.random.default_rng(0).normal(0, 0.01, X[::3].shape), y[::3]


def output(model, X):
    for method in ("decision_function", "transform", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)


def test_every_kernel_estimator_has_it():
    assert {name_of(e) for e in having(estimators(), "kernel", "coef0")} <= {
        name_of(e) for e in PRECISE
    }


@each_precision
@pytest.mark.parametrize("library", ["numpy", "torch"])
@each_estimator
def test_it_is_a_cast_of_the_rows(estimator, precision, library, dtype, iris):
    X, y = iris
    work = WORK[precision]
    model = clone(estimator).set_params(precision=precision)
    Z = array(namespace(library), X, dtype)
    got = output(model.fit(Z, y), Z)
    # Targets may have more digits than rows.
    assert dtype_name(got) == ("float64" if is_regressor(estimator) else work)
    X = X.astype(dtype).astype(work)
    expected = output(clone(estimator).fit(X, y), X)
    tolerance = 1e-7 if work == "float64" else 2e-3
    assert_close(got, expected, rtol=tolerance, atol=tolerance)


@each_estimator
def test_other_names_are_refused(estimator, iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"precision='half' must be one of .*'tf32'"):
        clone(estimator).set_params(precision="half").fit(X, y)


def test_tf32_knows_its_rounding(monkeypatch, iris):
    """With products of ten bits, as a GPU has them, the answer is still right."""
    torch = pytest.importorskip("torch")
    from kaucus._array import namespace as _precision
    from kaucus._array import on_torch as _torch

    def coarse(x):  # cut off to ten bits, as tf32 may
        bits = x.view(torch.int32)
        return (bits & ~0x1FFF).view(torch.float32)

    calls = []

    def product(X, Y):
        if not _precision._is_rough(X):
            return X @ Y.T
        calls.append(X.shape)
        return coarse(X) @ coarse(Y).T

    from kaucus.kernels import _kernel

    monkeypatch.setattr(_torch, "has_tf32", lambda x: x.dtype == torch.float32)
    monkeypatch.setattr(_precision, "product", product)
    monkeypatch.setattr(_kernel, "_FEW_FEATURES", 0)  # which have no tf32
    X, y = iris
    Z = torch.tensor(X, dtype=torch.float32)
    K = Gaussian(0.5)(Z)
    with _precision.products_in("tf32"):
        rough = Gaussian(0.5)(Z)
    assert calls
    # Equal rows stay equal, and near ones keep their digits.
    assert bool((rough.diagonal() == 1).all())
    assert_close(rough, K, atol=2e-2)
    model = LSSVMRegressor(precision="tf32").fit(Z, y)
    calls.clear()
    many = np.tile(X, (2, 1))  # a few rows are predicted in float64
    got = model.predict(torch.tensor(many, dtype=torch.float32))
    assert_close(got, LSSVMRegressor().fit(X, y).predict(many), atol=1e-2)
    assert calls


def test_where_C_is_large_the_kernel_is_fitted_in_float64(monkeypatch, iris):
    torch = pytest.importorskip("torch")
    from kaucus._array import on_torch as _torch

    monkeypatch.setattr(_torch, "has_tf32", lambda x: x.dtype == torch.float32)
    X, y = iris
    Z = torch.tensor(X, dtype=torch.float32)
    model = LSSVMRegressor(C=1e4, precision="tf32").fit(Z, y)
    expected = LSSVMRegressor(C=1e4).fit(Z.to(torch.float64), y)
    assert_close(model.dual_coef_, expected.dual_coef_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        LSSVMClassifier(C=10, kernel="rbf", gamma=0.1),
        LSSVMClassifier(C=10, kernel="rbf", gamma=0.1, solver="cg", tol=1e-8),
        KMeansKernelClassifier(20, C=10, kernel="rbf", gamma=0.1, random_state=0),
    ],
    ids=["cholesky", "cg", "representatives"],
)
def test_another_number_of_threads_is_a_matter_of_rounding(model, rng):
    X = rng.normal(size=(700, 6))
    y = X[:, 0] * X[:, 1] > 0
    found = []
    for n_threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(n_threads):
            found.append(clone(model).fit(X, y).decision_function(X))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-5)


def test_on_the_host_tf32_is_told_to_be_float32(iris):
    model = KMeansKernelClassifier(5, precision="tf32", random_state=0)
    with pytest.warns(UserWarning, match="in float32. Pass device='cuda', or"):
        model.fit(*iris)
