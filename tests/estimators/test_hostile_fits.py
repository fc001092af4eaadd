"""Rows, weights and targets of any size: a finite result, or an error that helps."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier, is_regressor

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LocalSVC,
    LSSVMClassifier,
    LSSVMRegressor,
    SphericalKMeans,
)
from tests.conftest import namespace

N = 30
X = np.random.default_rng(0).normal(size=(N, 3))
LABELS = (X[:, 0] * X[:, 1] > 0).astype(int)
TARGETS = X[:, 0] + X[:, 1] ** 2
SOLVERS = ("cholesky", "cg", "block_descent", "nystrom", "kaczmarz", "kaczmarz_mp")
KERNELS = ("rbf", "linear", "poly", "laplacian", "cosine", "cauchy")

ESTIMATORS = {
    "cls": LSSVMClassifier(max_iter=20, random_state=0),
    "reg": LSSVMRegressor(max_iter=20, random_state=0),
    "cls_cv": LSSVMClassifier("auto", random_state=0),
    "reg_cv": LSSVMRegressor("auto", random_state=0),
    "representatives": KMeansKernelClassifier(4, kernel="rbf", gamma="scale", C=1.0),
    "representatives_reg": KMeansKernelRegressor(
        4, kernel="rbf", gamma="scale", C=1.0, random_state=0
    ),
    "kernel_kmeans": KernelKMeans(2, n_init=1, random_state=0),
    "spherical": SphericalKMeans(2, n_init=1, random_state=0),
    "cluster_rbf": ClusterRBFSVC(random_state=0),
    "local": LocalSVC(random_state=0),
}


class Hostile(NamedTuple):
    """What is drawn for one fit."""

    name: str
    kernel: str
    solver: str
    dtype: str
    sparse: bool
    scale: float
    outlier: float | None
    weight: float | None
    other_weight: float
    new_scale: float
    n: int


def powers(low, high):
    return st.integers(low, high).map(lambda e: 10.0**e)


hostile = st.builds(
    Hostile,
    name=st.sampled_from(list(ESTIMATORS)),
    kernel=st.sampled_from(KERNELS),
    solver=st.sampled_from(SOLVERS),
    dtype=st.sampled_from(["float32", "float64"]),
    sparse=st.booleans(),
    scale=powers(-320, 307),
    outlier=st.one_of(st.none(), powers(-40, 307)),
    weight=st.one_of(st.none(), powers(-323, 307)),
    other_weight=st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e300]),
    new_scale=powers(-320, 307),
    n=st.integers(4, N),
)
# Sizes that are extreme for one of the precisions, but do pass.
ordinary = st.builds(
    Hostile,
    name=st.sampled_from(list(ESTIMATORS)),
    kernel=st.sampled_from(KERNELS),
    solver=st.sampled_from(SOLVERS),
    dtype=st.sampled_from(["float32", "float64"]),
    sparse=st.booleans(),
    scale=powers(-14, 14),
    outlier=st.one_of(st.none(), powers(-14, 14)),
    weight=st.one_of(st.none(), powers(-29, 29)),
    other_weight=st.sampled_from([0.0, 5e-324, 1e-10, 1.0]),
    new_scale=powers(-40, 14),
    n=st.integers(4, N),
)


def scaled(rows, case, scale, outlier=None):
    with np.errstate(over="ignore", under="ignore"):
        rows = (rows * scale).astype(case.dtype)
        if outlier is not None:
            rows[1, 1] = outlier
    rows[~np.isfinite(rows)] = np.finfo(case.dtype).max
    can_be_sparse = case.name not in ("cluster_rbf", "local")
    return scipy.sparse.csr_array(rows) if case.sparse and can_be_sparse else rows


def problem(case):
    model = clone(ESTIMATORS[case.name])
    known = model.get_params()
    model.set_params(
        **{k: v for k, v in case._asdict().items() if k in ("kernel", "solver")}
        if case.name in ("cls", "reg")
        else ({"kernel": case.kernel} if "kernel" in known else {})
    )
    y = TARGETS if is_regressor(model) else LABELS
    weight = None
    if case.weight is not None:
        weight = np.where(np.arange(case.n) % 3 == 0, case.other_weight, case.weight)
    return model, scaled(X[: case.n], case, case.scale, case.outlier), y, weight


def results(model, rows):
    names = ("decision_function", "predict_proba", "predict", "transform")
    return [getattr(model, name)(rows) for name in names if hasattr(model, name)]


def fit_and_predict(case):
    """Return all results, or the error that helps."""
    model, rows, y, weight = problem(case)
    before = None if weight is None else weight.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, of singular matrices
        try:
            model.fit(rows, y[: case.n], sample_weight=weight)
            found = results(model, rows)
            found += results(model, scaled(X, case, case.new_scale))
        except ValueError as error:
            return str(error)
    assert before is None or (before == weight).all()
    return found


def assert_finite_or_helpful(outcome):
    if isinstance(outcome, str):
        # A value, and a sentence that begins with what to do.
        assert any(c.isdigit() for c in outcome), outcome
        remedies = ("Pass", "Scale", "Lower", "lower", "Use", "Check", "Try", "give")
        assert any(word in outcome for word in remedies), outcome
        return
    for values in outcome:
        assert np.isfinite(np.asarray(values, dtype=float)).all()


@settings(max_examples=200)
@given(hostile)
def test_any_scale_is_finite_or_refused(case):
    assert_finite_or_helpful(fit_and_predict(case))


@settings(max_examples=60)
@given(ordinary)
def test_scales_that_are_not_refused_give_finite_results(case):
    outcome = fit_and_predict(case)
    if isinstance(outcome, str):
        # Reasons that are none of the scale's, and its powers in float32.
        expected = ["positive weight", "one class"]
        expected += ["overflow"] if case.kernel in ("poly", "linear") else []
        assert any(reason in outcome for reason in expected), outcome
    assert_finite_or_helpful(outcome)


# ---- what was found by hand, once ------------------------------------------------


def fit(name, rows=X, weight=None, y=None, **params):
    model = clone(ESTIMATORS[name]).set_params(**params)
    y = (TARGETS if is_regressor(model) else LABELS) if y is None else y
    return model.fit(rows, y, sample_weight=weight)


def one_value(value, dtype):
    rows = X.astype(dtype)
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X.astype("float32") * np.float32(1e20), r"size 2.*e\+20; .*Pass X as float64"),
        (
            X.astype("float32") * np.float32(1e-20),
            r"e-20; .*vanish.* X as float64",
        ),
        (one_value(1e30, "float32"), r"size 1e\+30.*take the value out"),
        (X * 1e-160, r"e-160; squares of such float64 numbers vanish.*Scale X"),
        (X * 1e200, r"e\+200; squares of such float64 numbers overflow.*X / 1e200"),
    ],
    ids=["1e20", "1e-20", "one 1e30", "1e-160", "1e200"],
)
@pytest.mark.parametrize("name", ["cls", "reg_cv", "representatives", "kernel_kmeans"])
def test_rows_out_of_range_are_refused(name, rows, message):
    with pytest.raises(ValueError, match=message):
        fit(name, rows)


@pytest.mark.parametrize("scale", [1e20, 1e-20])
@pytest.mark.parametrize("name", ["cls", "cls_cv", "representatives"])
def test_the_remedy_of_float32_rows_out_of_range_works(name, scale):
    rows = X.astype("float32") * np.float32(scale)
    expected = fit(name, X.astype("float32").astype("float64")).predict(X)
    found = fit(name, rows.astype("float64")).predict(rows.astype("float64"))
    # Rounding may decide between kernels that are as good as each other.
    assert (found == expected).mean() > 0.8
    model = fit(name, rows, precision="float64")
    assert (model.predict(rows) == expected).mean() > 0.8


@pytest.mark.parametrize("name", ["cls", "cls_cv", "representatives", "kernel_kmeans"])
def test_a_kernel_that_overflows_is_not_called_indefinite(name):
    params = {"kernel": "poly", "gamma": 1.0}
    with pytest.raises(ValueError, match=r"some row with itself is.*Scale"):
        fit(name, X * 1e90, **params)


def test_a_gamma_out_of_float32_is_refused():
    with pytest.raises(ValueError, match=r"gamma=1e\+50 is out of .* float32"):
        fit("cls", X.astype("float32"), gamma=1e50)


@pytest.mark.parametrize("name", ["cls", "reg", "representatives", "kernel_kmeans"])
def test_rows_to_predict_out_of_range_are_refused(name):
    model = fit(name, X.astype("float32"))
    rows = np.full((2, 3), 3e38, dtype="float32")
    method = "predict_proba" if is_classifier(model) else "predict"
    with pytest.raises(ValueError, match=r"value of size 3e\+38.*Pass X as float64"):
        getattr(model, method)(rows)


def test_rows_to_predict_may_all_be_small():
    model = fit("cls", X.astype("float32"))
    assert np.isfinite(model.predict_proba(np.zeros((1, 3), "float32") + 1e-30)).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, in threads
def test_decision_values_that_overflow_are_refused():
    model = fit("reg", X, kernel="poly", gamma=1.0, degree=9)
    with (
        pytest.raises(ValueError, match=r"result for row 1 of X is \[.*Scale X"),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        model.predict(np.stack([X[0], np.full(3, 1e40)]))


@pytest.mark.parametrize("weight", [1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_out_of_range_are_refused(name, weight):
    message = r"largest weight of a row is .*expected 1e-30 to 1e\+30.*Pass"
    with pytest.raises(ValueError, match=message):
        fit(name, weight=np.full(N, weight))
    if "class_weight" in ESTIMATORS[name].get_params():
        with pytest.raises(ValueError, match=message):
            fit(name, class_weight={0: weight, 1: weight})


@pytest.mark.parametrize("name", ["reg", "reg_cv", "representatives_reg"])
@pytest.mark.parametrize("bad", [None, np.nan])
@pytest.mark.parametrize("make", [list, np.array], ids=["list", "array"])
def test_a_missing_target_is_named(name, bad, make):
    y = make([bad, *TARGETS[1:].tolist()])
    with pytest.raises(ValueError, match=r"y\[0\] is \[nan\].*Take|y contains NaN"):
        fit(name, y=y)


@pytest.mark.parametrize("name", ["reg", "reg_cv", "representatives_reg"])
def test_targets_whose_squares_overflow_are_refused(name):
    with pytest.raises(ValueError, match=r"size .*e\+200, whose square.*Scale y"):
        fit(name, y=TARGETS * 1e200)


@pytest.mark.parametrize("tol", [1.0, 1e300])
@pytest.mark.parametrize("name", ["cls", "reg"])
def test_a_loose_tolerance_takes_a_step(name, tol):
    model = fit(name, solver="cg", tol=tol)
    assert model.n_iter_ == 1
    assert np.isfinite(model.dual_coef_).all()
    assert model.score(X, LABELS if name == "cls" else TARGETS) > 0.5


@pytest.mark.parametrize("n", [2, 3, 5, 19])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_few_rows_are_enough_for_every_solver(n, solver):
    labels = np.arange(n) % 2
    model = LSSVMClassifier(solver=solver, tol=1e-6, random_state=0)
    p = model.fit(X[:n], labels).predict_proba(X)
    assert np.isfinite(p).all()
    expected = LSSVMClassifier().fit(X[:n], labels).decision_function(X)
    if solver in ("cholesky", "cg", "block_descent"):
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)


@pytest.mark.parametrize("name", ["kernel_kmeans", "spherical"])
def test_score_takes_lists_and_weights(name):
    model = fit(name)
    weight = np.arange(N) + 1.0
    expected = model.score(X, sample_weight=weight)
    assert model.score(X.tolist(), sample_weight=weight.tolist()) == expected


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 10**400}, r"C=1000.* \(401 characters\) must be a positive, finite"),
        ({"tol": 10**400}, r"tol=1000.* must be a .*finite number"),
        ({"gamma": 10**400}, r"gamma=1000.* must be a positive, finite number"),
        ({"coef0": 10**400}, r"coef0=1000.* must be a finite number"),
        ({"max_iter": 10**400}, r"max_iter=1000.* must be .* at most"),
        ({"Cs": [10**400]}, r"Cs=\[1000.* must be .* finite numbers, or None"),
        ({"C": 5e-324}, r"C=5e-324 must be .* 1e-300 or more"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_that_no_float_can_hold_are_refused(name, params, message):
    if not set(params) <= set(ESTIMATORS[name].get_params()):
        pytest.skip("no such parameter")
    with pytest.raises(ValueError, match=message):
        fit(name, **params)


@pytest.mark.parametrize("name", ["cluster_rbf", "local"])
def test_steps_that_libsvm_cannot_count_are_refused(name):
    with pytest.raises(
        ValueError, match=r"max_iter=1000000000000 must be .*, at most 2147"
    ):
        fit(name, max_iter=10**12)


@pytest.mark.parametrize("name", ["cls", "representatives", "spherical"])
def test_many_steps_may_be_allowed(name):
    params = {"max_iter": 10**12}
    if name == "representatives":
        params = {"kmeans_params": params}
    assert fit(name, **params).n_iter_ < 1000


@pytest.mark.parametrize("device", ["mps", "xpu"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_device_without_float64_is_refused(name, device):
    namespace("torch")
    with pytest.raises(ValueError, match=f"{device}.* is not supported.*Use None"):
        fit(name, device=device)


@pytest.mark.parametrize(
    ("name", "params", "offered", "not_offered"),
    [
        ("representatives", {"kernel": "rbff"}, ["auto", "rbf"], ["precomputed"]),
        ("representatives", {"kernel": 3}, ["auto", "rbf"], ["precomputed"]),
        ("cls", {"kernel": "rbff"}, ["precomputed", "rbf", "auto"], ["tune"]),
        ("representatives", {"gamma": "x"}, ["tune", "scale", "auto", "median"], []),
        ("representatives", {"gamma": -1}, ["tune", "scale", "auto", "median"], []),
        ("cls", {"gamma": "x"}, ["scale", "auto", "median", "tune", "sequence"], []),
        (
            "representatives",
            {"n_representatives": "x"},
            ["fast", "balanced", "best", "whole", "dict"],
            [],
        ),
        ("representatives_reg", {"n_representatives": 0}, ["fast", "whole"], []),
        ("representatives_reg", {"n_representatives": "x"}, ["best", "whole"], []),
        ("kernel_kmeans", {"n_init": "x"}, ["auto", "whole"], []),
        ("kernel_kmeans", {"init": "x"}, ["k-means++", "random", "cluster of"], []),
        ("spherical", {"init": "x"}, ["k-means++", "random", "centres"], []),
        ("cls", {"C": "x"}, ["auto", "sequence"], ["tune"]),
        ("cls_cv", {"max_samples": 0}, ["None"], []),
    ],
)
def test_errors_offer_all_that_is_valid_and_nothing_else(
    name, params, offered, not_offered
):
    with pytest.raises(ValueError, match="=") as caught:
        fit(name, **params)
    message = str(caught.value)
    assert [word for word in offered if word not in message] == []
    assert [word for word in not_offered if repr(word) in message] == []
