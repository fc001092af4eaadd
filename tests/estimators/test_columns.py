"""Columns far from zero, on other scales, or with wild values."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kaucus import (
    ClusterRBFSVC,
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus.kernels import Exponential, MahalanobisRBF

RBF = {"C": 10, "kernel": "rbf", "gamma": 0.2}


def table(rng, n=600):
    X = rng.normal(size=(n, 5))
    return X, X[:, 0] + np.sin(2 * X[:, 1])


# ---- offsets ---------------------------------------------------------------------


FAR = [("float32", 1e5), ("float64", 1e9)]


@pytest.mark.parametrize(("dtype", "offset"), FAR)
@pytest.mark.parametrize(
    "model",
    [
        KMeansKernelRegressor(50, random_state=0, **RBF),
        KMeansKernelClassifier(20, random_state=0, **RBF),
        LSSVMRegressor(**RBF),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_constant_column_changes_nothing(model, dtype, offset, rng):
    X, y = table(rng)
    y = y > 0 if isinstance(model, KMeansKernelClassifier) else y
    more = np.column_stack([X, np.full(len(X), offset)])
    expected = model.fit(X[:400].astype(dtype), y[:400]).score(X[400:], y[400:])
    assert model.fit(more[:400].astype(dtype), y[:400]).score(
        more[400:], y[400:]
    ) == pytest.approx(expected, abs=0.02)


def test_a_learned_metric_is_centred(rng):
    X, y = table(rng)

    def score(X):
        model = make_pipeline(LearnedMetric(random_state=0), LSSVMRegressor(C=10))
        return model.fit(X[:400], y[:400]).score(X[400:], y[400:])

    expected = score(X)
    for offset in (10.0, -1e6):
        assert score(X + offset) == pytest.approx(expected, abs=0.01)


# ---- wild values -----------------------------------------------------------------


DEFAULTS = [
    KMeansKernelRegressor(random_state=0),
    LSSVMRegressor("auto", kernel="auto", gamma="tune", random_state=0),
    make_pipeline(LearnedMetric(random_state=0), LSSVMRegressor(C=10)),
]


@pytest.mark.filterwarnings("ignore:.*of 1 rows:UserWarning")
@pytest.mark.parametrize("model", DEFAULTS, ids=lambda model: type(model).__name__)
def test_a_wild_value_takes_no_prediction_away(model, rng):
    # Where no column matters more than the others, columns stay on their scale.
    X = rng.normal(size=(300, 4))
    y = X.sum(axis=1)
    seen = model.fit(X, y).predict(X)
    for column, wild in itertools.product(range(4), (30.0, 1100.0, -1e12)):
        row = np.zeros((1, 4))
        row[0, column] = wild
        found = model.predict(row)[0]
        assert seen.min() - y.std() < found < seen.max() + y.std()


@pytest.mark.parametrize("model", DEFAULTS[:2], ids=lambda model: type(model).__name__)
def test_nor_does_one_in_sparse_rows(model, rng):
    X = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.4)
    y = X.sum(axis=1)
    seen = model.fit(csr_array(X), y).predict(csr_array(X))
    for column, wild in itertools.product(range(6), (30.0, 1e6, -1e12)):
        row = np.zeros((1, 6))
        row[0, column] = wild
        found = model.predict(csr_array(row))[0]
        assert seen.min() - y.std() < found < seen.max() + y.std()


@pytest.mark.parametrize("model", DEFAULTS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_far_from_all_that_were_seen_are_counted_once(model, dtype, rng):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(300, 3)).astype(dtype)
    X[::50, 2] = 40  # which was seen
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model.fit(frame, X[:, 0] + X[:, 1])
    new = frame[:50].copy()
    new.loc[:2, "a"] = [1e3, -1e3, 50.0]
    with pytest.warns(UserWarning, match=r"3 of 50 rows.*columns \['a'\]") as told:
        model.predict(new)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


def test_sets_and_intervals_tell_of_far_rows_too(rng):
    X, y = table(rng, 200)
    far = np.where(np.arange(5) == 1, 1e3, X[:4])
    model = KMeansKernelRegressor(random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="4 of 4 rows") as told:
        model.predict_interval(far)
    assert len(told) == 1
    model = KMeansKernelClassifier(random_state=0).fit(X, y > 0)
    with pytest.warns(UserWarning, match="4 of 4 rows") as told:
        model.predict_set(far)
    assert len(told) == 1


# ---- one column that hides the others ---------------------------------------------

NAMED = {"kernel": "rbf", "gamma": "scale"}
OF_DISTANCES = [
    LSSVMClassifier(**NAMED),
    LSSVMClassifier(kernel=Exponential(gamma=0.1), solver="cg"),
    LSSVMClassifier("auto", **NAMED),
    LSSVMRegressor(kernel="laplacian"),
    LSSVMRegressor("auto"),
    KMeansKernelClassifier(5, **NAMED),
    KMeansKernelRegressor(5, kernel="cauchy", gamma=1.0),
    KernelKMeans(2, **NAMED),
]
SCALE_FREE = [
    LSSVMClassifier(kernel="linear"),
    LSSVMClassifier(kernel=MahalanobisRBF(np.ones(4))),
    KMeansKernelRegressor(random_state=0),
    ClusterRBFSVC(2),
]


def names_of(models):
    return [type(model).__name__ for model in models]


@pytest.mark.parametrize("model", OF_DISTANCES, ids=names_of(OF_DISTANCES))
def test_a_column_that_hides_the_others_is_named_once(model, rng):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(120, 4))
    frame = pd.DataFrame(X * [1, 1, 8, 1], columns=list("abcd"))
    y = X[:, 0] > 0
    with pytest.warns(UserWarning, match="'c' carries 9") as told:
        clone(model).fit(frame, y)
    assert len([one for one in told if "carries" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*carries")
        make_pipeline(StandardScaler(), clone(model)).fit(frame, y)


@pytest.mark.parametrize("model", SCALE_FREE, ids=names_of(SCALE_FREE))
def test_no_column_hides_others_from_a_kernel_without_distances(model, rng):
    X = rng.normal(size=(120, 4)) * [1, 1, 8, 1]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*carries")
        model.fit(X, X[:, 0] > 0)
