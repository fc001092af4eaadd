"""Names, objects and functions become kernels; gamma becomes a number."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import SVC

from kaucus import LSSVMClassifier
from kaucus.kernels import (
    CallableKernel,
    Exponential,
    Gaussian,
    Kernel,
    Linear,
    Polynomial,
    Sigmoid,
    kernel_names,
    known_by_name,
    resolve_kernel,
)
from kaucus.kernels._kernel import kernels_with_gamma, resolve_gamma
from tests.arrays import array
from tests.kernels.registry import CASES

NAMES = ["cauchy", "cosine", "exponential", "laplacian", "linear", "poly", "rbf"]
NAMES += ["matern32", "matern52", "rational_quadratic", "sigmoid"]


def test_the_documented_names_are_known_and_every_name_is_tested():
    assert set(NAMES) <= set(kernel_names())
    assert set(kernel_names()) <= {case.kernel.name for case in CASES}


def test_a_subclass_of_the_users_takes_no_name_away():
    class Mine(Gaussian):
        name = "rbf"

    class NoDataclass(Kernel):
        name = "linear"

    assert type(resolve_kernel("rbf", gamma=0.5)) is Gaussian
    others = set(kernel_names()) - set(kernels_with_gamma())
    assert others == {"cosine", "linear"}
    assert resolve_kernel(Mine(gamma=2.0)).gamma == 2.0
    assert LSSVMClassifier().fit(np.eye(4), [0, 1, 0, 1]).kernel_.name == "rbf"


def test_a_name_is_given_once():
    class Mine(Gaussian):
        name = "rbf"

    with pytest.raises(ValueError, match="'rbf' belongs to Gaussian; give Mine"):
        known_by_name(Mine)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_gives_its_kernel(name):
    kernel = resolve_kernel(name, gamma=0.5, degree=2, coef0=1.0)
    assert kernel.name == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", Linear()),
        ("rbf", Gaussian(gamma=0.5)),
        ("exponential", Exponential(gamma=0.5)),
        ("poly", Polynomial(degree=2, gamma=0.5, coef0=1.0)),
        ("sigmoid", Sigmoid(gamma=0.5, coef0=1.0)),
    ],
)
def test_a_kernel_takes_the_parameters_that_it_has(name, expected):
    assert resolve_kernel(name, gamma=0.5, degree=2, coef0=1.0) == expected


def test_objects_stay_and_functions_are_wrapped():
    kernel = Gaussian(gamma=3.0)
    assert resolve_kernel(kernel, gamma=0.5) is kernel
    assert resolve_kernel(max) == CallableKernel(max)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *(("rbff", "rbf"), ("ploy", "poly"), ("Cauchy", "cauchy"), ("lin", "linear")),
        *(("gaussian", "rbf"), ("Polynomial", "poly"), ("tanh", "sigmoid")),
    ],
)
def test_an_unknown_name_gets_a_hint(name, hint):
    message = rf"kernel='{name}' is not known; expected one of .*Did you mean '{hint}'"
    with pytest.raises(ValueError, match=message):
        resolve_kernel(name)


def test_a_hopeless_name_gets_the_list_alone():
    with pytest.raises(ValueError, match="is not known") as error:
        resolve_kernel("zzz", also=("precomputed",))
    assert all(name in str(error.value) for name in [*NAMES, "precomputed"])
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize("wrong", [None, 3, ["rbf"]])
def test_what_is_no_kernel_is_told(wrong):
    with pytest.raises(ValueError, match=r"is not a kernel; pass one of .*k\(X, Y\)"):
        resolve_kernel(wrong)


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, 4)) * [1, 2, 3, 4] + 5


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_is_that_of_svc(X, gamma, sparse):
    X = scipy.sparse.csr_matrix(X * (X > 4)) if sparse else X
    y = np.arange(30) % 2
    expected = SVC(gamma=gamma).fit(X, y)._gamma
    assert resolve_gamma(gamma, X) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
def test_gamma_is_the_same_on_every_library(xp, dtype, X, gamma):
    value = resolve_gamma(gamma, array(xp, X, dtype))
    assert type(value) is float
    expected = resolve_gamma(gamma, X.astype(dtype).astype(float))
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_weight_counts_as_repeated_rows(rng, X, sparse):
    weight = rng.integers(0, 4, size=30)
    make = scipy.sparse.csr_array if sparse else np.asarray
    repeated = resolve_gamma("scale", make(np.repeat(X, weight, axis=0)))
    weighted = resolve_gamma("scale", make(X), weight.astype(float))
    assert weighted == pytest.approx(repeated, rel=1e-12)
    assert weighted != pytest.approx(resolve_gamma("scale", make(X)), rel=1e-3)


def test_the_variance_keeps_its_digits_far_from_zero(X):
    near, far = resolve_gamma("scale", X), resolve_gamma("scale", X + 1e7)
    assert far == pytest.approx(near, rel=1e-7)


def test_equal_entries_give_one(xp, dtype):
    assert resolve_gamma("scale", array(xp, np.full((5, 3), 0.1), dtype)) == 1.0


def test_an_unknown_gamma_is_told(X):
    with pytest.raises(ValueError, match=r"gamma='scal' is not known; expected"):
        resolve_gamma("scal", X)
