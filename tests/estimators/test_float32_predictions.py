"""Models predict float32 rows as they predict the same rows in float64, for any C."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits

from kaucus import (
    ClusterRBFSVC,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LocalSVC,
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus._array.namespace import to_numpy
from tests.conftest import namespace

SOLVERS = ("auto", "cg", "nystrom", "kaczmarz", "matching_pursuit", "block_descent")
KERNELS = ("linear", "poly", "rbf", "exponential", "cauchy", "laplacian", "cosine")
pytestmark = pytest.mark.filterwarnings("ignore")  # of large C: jitter, early ends


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400], X[400:700].astype(np.float32), y[400:700]


def assert_agree(model, X32, convert=np.asarray):
    """Compare decision values of the same rows in both precisions."""
    values = getattr(model, "decision_function", model.predict)
    got = to_numpy(values(convert(X32)))
    exact = to_numpy(values(convert(X32.astype(np.float64))))
    spread = np.quantile(np.abs(exact - np.median(exact, axis=0)), 0.9, axis=0)
    np.testing.assert_array_less(
        np.abs(got - exact), 2.0**-7 * (spread + np.abs(exact)) + 1e-30
    )


@pytest.mark.parametrize("fitted_in", ["float32", "float64"])
@pytest.mark.parametrize("C", [1e4, 1e8])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver(solver, C, fitted_in, digits):
    X, y, X32, y_test = digits
    model = LSSVMClassifier(
        C=C, kernel="linear", solver=solver, max_iter=30, block_size=50, random_state=0
    )
    model.fit(X.astype(fitted_in), y)
    assert_agree(model, X32)
    wide = model.score(X32.astype(np.float64), y_test)
    assert model.score(X32, y_test) == pytest.approx(wide, abs=0.02)


@pytest.mark.parametrize("library", ["numpy", "torch", "csr"])
@given(
    kernel=st.sampled_from(KERNELS),
    log_C=st.floats(0, 12),
    log_scale=st.floats(-3, 3),
    classifier=st.booleans(),
    few=st.booleans(),
)
@settings(max_examples=15)
def test_every_kernel_scale_and_C(
    library, kernel, log_C, log_scale, classifier, few, digits
):
    X, y, X32, _ = digits
    scale = 10**log_scale
    params = {"kernel": kernel, "C": 10**log_C, "gamma": 1 / (64 * (6 * scale) ** 2)}
    if few:
        cls = KMeansKernelClassifier if classifier else KMeansKernelRegressor
        model = cls(5 if classifier else 40, refine=None, random_state=0, **params)
    else:
        model = (LSSVMClassifier if classifier else LSSVMRegressor)(**params)
    convert = {
        "numpy": np.asarray,
        "csr": scipy.sparse.csr_array,
        "torch": lambda Z: namespace("torch").asarray(Z),
    }[library]
    model.fit(convert((scale * X[:150]).astype(np.float32)), y[:150])
    assert_agree(model, scale * X32[:100], convert)


@pytest.mark.parametrize("probability", ["softmax", "sum_exp"])
def test_probabilities(probability, digits):
    X, y, X32, _ = digits
    model = LSSVMClassifier(C=1e4, kernel="linear", probability=probability).fit(X, y)
    got, exact = (model.predict_proba(Z) for Z in (X32, X32.astype(np.float64)))
    np.testing.assert_allclose(got, exact, atol=1e-3)


@pytest.mark.parametrize("C", [1e3, 1e6])
def test_a_wide_kernel_and_a_large_C_lose_nothing(C, rng):
    """Where float32 has too few digits for the equations, they are of float64."""
    X, new = rng.normal(size=(2, 400, 5))
    y, right = (Z[:, 0] + np.sin(2 * Z[:, 1]) for Z in (X, new))
    model = KMeansKernelRegressor(60, kernel="rbf", gamma=0.01, C=C, random_state=0)
    wide = model.fit(X, y).score(new, right)
    assert model.fit(X.astype(np.float32), y).score(new, right) > wide - 0.01


def test_a_C_that_leave_one_out_has_chosen():
    """Raw columns of very different units: leave-one-out asks for a large C."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LSSVMClassifier("auto", kernel="linear").fit(
        X[:300].astype(np.float32), y[:300]
    )
    assert_agree(model, X[300:].astype(np.float32))


@pytest.mark.parametrize("model", [ClusterRBFSVC(C=1e6), LocalSVC(C=1e6)], ids=repr)
def test_machines_on_a_partition(model, digits):
    X, y, X32, _ = digits
    model = clone(model).set_params(random_state=0).fit(X[:, 20:30], y % 2)
    assert_agree(model, X32[:, 20:30])


@pytest.mark.parametrize("C", [1.0, 1e4, 1e8])
@pytest.mark.parametrize(
    "model",
    [
        LSSVMRegressor(gamma=1e-4),
        KMeansKernelRegressor(30, kernel="rbf", gamma=1e-4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_intervals_and_standard_deviations(model, C, digits):
    X, y, X32, _ = digits
    model = clone(model).set_params(C=C).fit(X.astype(np.float32), y.astype(float))
    wide = X32.astype(np.float64)
    ends, exact = model.predict_interval(X32), model.predict_interval(wide)
    assert ends.dtype == np.float64
    width = (exact[:, 1] - exact[:, 0])[:, None]
    assert (np.abs(ends - exact) < 2.0**-7 * width).all()
    _, std = model.predict(X32, return_std=True)
    _, exact_std = model.predict(wide, return_std=True)
    np.testing.assert_allclose(std, exact_std, rtol=1e-4)
