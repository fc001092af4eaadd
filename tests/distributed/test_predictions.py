"""What a fitted model does with each row by itself, it does lazily with partitions."""

import contextlib
import warnings

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_clusterer, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import dask
import pandas as pd

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LSSVMClassifier,
    LSSVMRegressor,
)
from kaucus.preprocessing import PatchDictionary
from tests.discovery import estimators, name_of

ESTIMATORS = estimators()
METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)


@pytest.fixture(autouse=True)
def no_threads():
    """Quicker than threads for rows as few as here."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).round(3)
    return X, np.where(X[:, 0] + X[:, 1] ** 2 > 1, "yes", "no")


@contextlib.contextmanager
def quiet():
    """Few rows, and default parameters, are worth a warning here and there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fitted(estimator, X, y):
    with quiet():
        return clone(estimator).fit(X, X[:, 0] if is_regressor(estimator) else y)


def assert_close(found, expected):
    if expected.dtype.kind == "U":
        assert_array_equal(found, expected)
    else:
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@each_estimator
def test_results_are_lazy_and_those_of_numpy(estimator, data):
    X, y = data
    model, rows = fitted(estimator, X, y), da.from_array(X, chunks=(40, 4))
    methods = [name for name in METHODS if hasattr(model, name)]
    assert methods
    for name in methods:
        expected = getattr(model, name)(X)
        found = getattr(model, name)(rows)
        assert isinstance(found, da.Array), name
        assert found.dtype == expected.dtype, name
        assert found.shape == expected.shape, name
        assert found.chunks[0] == rows.chunks[0], name
        assert_close(found.compute(), expected)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "score")], ids=name_of
)
def test_scores_are_those_of_numpy(estimator, data):
    X, y = data
    model, rows = fitted(estimator, X, y), da.from_array(X, chunks=(40, 4))
    y = X[:, 0] if is_regressor(estimator) else y
    weight = np.arange(90) % 5
    weight[:40] = 0  # all of a partition
    if is_clusterer(estimator):
        assert_allclose(model.score(rows), model.score(X))
        expected = model.score(X, sample_weight=weight)
        assert_allclose(model.score(rows, sample_weight=weight), expected)
        return
    labels = da.from_array(y, chunks=40)
    assert_allclose(model.score(rows, labels), model.score(X, y))
    assert_allclose(model.score(rows, y, weight), model.score(X, y, weight))


@each_estimator
def test_a_fit_takes_partitions_or_says_at_once_what_to_do(estimator, data):
    X, y = data
    y = X[:, 0] if is_regressor(estimator) else y
    read = []

    def seen(block):
        read.append(len(block))
        return block

    rows = da.from_array(X, chunks=(40, 4)).map_blocks(seen, meta=X[:0])
    model = clone(estimator)
    if getattr(estimator, "_dask_fit", None) is not None:
        with quiet():
            assert model.fit(rows, y) is model
        if hasattr(model, "partial_fit"):
            with pytest.raises(TypeError, match="partition in turn"):
                model.partial_fit(rows, y)
        return
    with pytest.raises(TypeError, match=f"fit of {name_of(model)} needs all rows"):
        model.fit(rows, y)
    assert not read


def test_a_dictionary_of_patches_is_not_learned_from_partitions():
    X = da.zeros((90, 64), chunks=(40, 64))
    with pytest.raises(TypeError, match="fit of PatchDictionary needs all rows"):
        PatchDictionary(image_shape=(8, 8)).fit(X)


DENSE = [
    e
    for e in ESTIMATORS
    if getattr(e, "_dask_fit", None) and not get_tags(e).input_tags.sparse
]


@pytest.mark.parametrize("estimator", DENSE, ids=name_of)
def test_a_fit_of_sparse_partitions_is_refused_where_that_of_sparse_rows_is(
    estimator, data
):
    rows = da.from_array(data[0], chunks=(40, 4)).map_blocks(scipy.sparse.csr_array)
    with pytest.raises(TypeError, match=r"map_blocks\(lambda block: block.toarray"):
        clone(estimator).fit(rows, data[1])


@pytest.mark.parametrize("method", ["predict", "score"])
def test_an_entry_that_is_not_finite_is_named_by_its_partition(data, method):
    X, y = data
    model = KMeansKernelClassifier(5, random_state=0).fit(X, y)
    bad = X.copy()
    bad[60, 2] = np.nan
    rows = da.from_array(bad, chunks=(40, 4))
    given = (rows,) if method == "predict" else (rows, y)
    with pytest.raises(ValueError, match=r"Partition 1 of X: .* Input X contains NaN"):
        np.asarray(getattr(model, method)(*given))


def test_those_that_fit_partitions_are_named_in_the_refusal(data):
    X, y = data
    able = {name_of(e) for e in ESTIMATORS if getattr(e, "_dask_fit", "") == "rows"}
    with pytest.raises(TypeError) as refused:
        LSSVMClassifier().fit(da.from_array(X), y)
    assert able == {name for name in able if name in str(refused.value)}


def test_rows_of_another_width_are_refused_at_once(data):
    X, y = data
    model = KMeansKernelClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(da.from_array(X[:, :3]))
    with pytest.raises(ValueError, match="Expected 2D rows"):
        model.predict(da.from_array(X[:, 0]))


def test_an_unfitted_model_says_so_at_once(data):
    with pytest.raises(NotFittedError):
        KMeansKernelClassifier().predict(da.from_array(data[0]))


@pytest.mark.parametrize("estimator", [KMeansKernelClassifier(5), LSSVMRegressor()])
def test_frames_keep_their_names(estimator, data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(estimator)
    model.fit(frame, X[:, 0] if is_regressor(estimator) else y)
    rows = dd.from_pandas(frame, npartitions=3)
    found = model.predict(rows)
    assert found.dtype == model.predict(frame).dtype
    assert_close(found.compute(), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows.rename(columns={"a": "other"}))


def test_empty_unknown_sparse_and_single_precision_partitions(data):
    X, y = data
    model = KMeansKernelClassifier(5, random_state=0).fit(X, y)
    expected = model.decision_function(X)
    rows = da.from_array(X, chunks=(40, 4))
    empty = da.concatenate([rows[:0], rows, rows[:0]])
    assert_allclose(model.decision_function(empty).compute(), expected)
    unknown = rows[da.from_array(np.ones(90, bool), chunks=40)]
    assert np.isnan(unknown.shape[0])
    assert_allclose(model.decision_function(unknown).compute(), expected)
    sparse = rows.map_blocks(scipy.sparse.csr_array)
    assert_allclose(model.decision_function(sparse).compute(), expected)
    single = model.predict_proba(rows.astype(np.float32))
    assert single.dtype == np.float32
    assert single.compute().dtype == np.float32


def test_a_lazy_result_is_of_the_model_as_it_was(data):
    X = data[0]
    model = KMeansKernelRegressor(5, random_state=0).fit(X, X[:, 0])
    expected, lazy = model.predict(X), model.predict(da.from_array(X))
    model.fit(X, X[:, 1])
    assert_allclose(lazy.compute(), expected)


def test_kernel_kmeans_by_landmarks_predicts_partitions(data):
    X = data[0]
    model = KernelKMeans(3, approximation="nystrom", n_landmarks=20, random_state=0)
    model.fit(X)
    assert_array_equal(
        model.predict(da.from_array(X, chunks=(40, 4))), model.predict(X)
    )


def test_a_score_of_rows_parted_otherwise_is_refused(data):
    X, y = data
    model = KMeansKernelClassifier(5, random_state=0).fit(X, y)
    rows = da.from_array(X, chunks=(40, 4))
    with pytest.raises(ValueError, match="partition them alike"):
        model.score(rows, da.from_array(y, chunks=30))
    with pytest.raises(ValueError, match="partition them alike"):
        model.score(rows, da.from_array(y, chunks=(30, 50, 10)))
    with pytest.raises(ValueError, match="one for each row"):
        model.score(rows, y[:-1])


@pytest.mark.parametrize("given", ["predictions", "score"])
def test_far_rows_of_many_partitions_are_worth_one_warning(data, given):
    X = data[0] + 1000  # a row of zeros, which is tried first, is far away itself
    model = KMeansKernelRegressor(20, learn_metric=True, random_state=0)
    model.fit(X, X[:, 0])
    far = np.where(np.arange(90)[:, None] % 4 == 0, X * 50, X)
    for rows, n_warnings in ((X, 0), (far, 1)):
        parts = da.from_array(rows, chunks=(30, 4))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if given == "score":
                model.score(parts, da.from_array(X[:, 0], chunks=30))
            else:
                model.predict(parts).compute()
        told = [one for one in told if "beyond every training row" in str(one.message)]
        assert len(told) == n_warnings
