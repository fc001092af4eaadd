"""Fits of Dask collections are those of NumPy arrays, however they are partitioned."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import dask
import pandas as pd

from kaucus import (
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LearnedMetric,
    SphericalKMeans,
)
from kaucus.preprocessing import FourierFeatures, UnitNormalizer

N = 900


@pytest.fixture(autouse=True)
def no_threads():
    """Quicker than threads for rows as few as here."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = np.where(X[:, 0] ** 2 + X[:, 1] > 1, "in", "out")
    y[X[:, 2] > 1.5] = "far"
    return X, y


def chunked(values, n_parts):
    chunks = (-(-len(values) // n_parts), *values.shape[1:])
    return da.from_array(values, chunks=chunks)


FEW_STEPS = {"tol": 3e-3}
GIVEN = {"C": 10.0, "kernel": "rbf", "gamma": 0.3, "kmeans_params": FEW_STEPS}
FITS = {
    "given": GIVEN,
    "searched": {},
    "refined": {**GIVEN, "refine": 20},
    "refined by rows held out": {**GIVEN, "refine": "auto"},
    "representatives": {**GIVEN, "fit_on": "representatives"},
    "spherical": {**GIVEN, "clustering": "spherical", "class_weight": "balanced"},
    "k-means++": {
        **GIVEN,
        "kmeans_params": {"init": "k-means++", "n_init": 2, **FEW_STEPS},
    },
    "median": {**GIVEN, "kernel": "cauchy", "gamma": "median"},
}


def assert_same_model(found, expected, rtol=1e-6):
    size = abs(expected.dual_coef_).max()
    assert_allclose(found.dual_coef_, expected.dual_coef_, rtol=rtol, atol=rtol * size)
    assert_allclose(found.intercept_, expected.intercept_, rtol=rtol, atol=rtol * size)
    points = expected.representatives_
    assert_allclose(found.representatives_, points, rtol=1e-8, atol=1e-12)
    assert_array_equal(found.hard_rows_, expected.hard_rows_)
    assert found.C_ == expected.C_


PARTS = [1, 2, 3, 7]
EACH_FIT = [(fit, 3) for fit in FITS] + [("given", 1), ("given", 2), ("given", 7)]


@pytest.mark.parametrize(("fit", "n_parts"), EACH_FIT)
def test_coefficients_of_a_classifier_are_those_of_numpy(data, fit, n_parts):
    X, y = data
    expected = KMeansKernelClassifier(12, random_state=0, **FITS[fit]).fit(X, y)
    model = KMeansKernelClassifier(12, random_state=0, **FITS[fit])
    model.fit(chunked(X, n_parts), chunked(y, n_parts))
    assert_same_model(model, expected)
    assert_array_equal(model.classes_, expected.classes_)
    assert_allclose(model.temperature_, expected.temperature_, rtol=1e-5)
    assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("fit", ["given", "refined"])
@pytest.mark.parametrize("n_parts", PARTS)
def test_coefficients_of_a_regressor_are_those_of_numpy(data, fit, n_parts):
    X, Y = data[0], np.sin(data[0][:, :2])
    expected = KMeansKernelRegressor(15, random_state=0, **FITS[fit]).fit(X, Y)
    model = KMeansKernelRegressor(15, random_state=0, **FITS[fit])
    model.fit(chunked(X, n_parts), chunked(Y, n_parts))
    assert_same_model(model, expected)
    assert_allclose(
        model.score(chunked(X, n_parts), chunked(Y, n_parts)), expected.score(X, Y)
    )


def test_an_open_number_of_representatives_grows_in_the_same_way(data, monkeypatch):
    from kaucus.fitting import _represented
    from kaucus.fitting._represented import SIZES

    sizes = {**SIZES, "fast": _represented.Size(60, 0.0)}
    monkeypatch.setattr(_represented, "SIZES", sizes)
    X, y = data
    expected = KMeansKernelClassifier("fast", random_state=0, **GIVEN).fit(X, y)
    model = KMeansKernelClassifier("fast", random_state=0, **GIVEN)
    model.fit(chunked(X, 3), chunked(y, 3))
    assert len(expected.hard_rows_)
    assert_same_model(model, expected)


def test_rows_near_the_boundary_are_the_same(data, monkeypatch):
    from kaucus.fitting import _represented

    monkeypatch.setattr(_represented, "_LEAST_ROWS", 100)
    X, y = data
    options = {**GIVEN, "fit_on": "boundary", "random_state": 0}
    expected = KMeansKernelClassifier(10, **options).fit(X, y)
    model = KMeansKernelClassifier(10, **options).fit(chunked(X, 3), chunked(y, 3))
    assert 100 <= len(expected.fit_rows_) < N
    assert_array_equal(model.fit_rows_, expected.fit_rows_)
    assert_same_model(model, expected)


def test_the_scheduler_does_not_matter(data, scheduler):
    X, y = data
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(X, y)
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    assert_same_model(model.fit(chunked(X, 3), y), expected)


@pytest.mark.parametrize("n_parts", PARTS)
def test_spherical_kmeans_finds_the_same_centres(data, n_parts):
    X, rows = data[0], chunked(data[0], n_parts)
    options = {"n_init": 2, "random_state": 0, **FEW_STEPS}
    expected = SphericalKMeans(6, **options).fit(X)
    model = SphericalKMeans(6, **options)
    assert_array_equal(model.fit_predict(rows).compute(), expected.labels_)
    assert isinstance(model.labels_, da.Array)
    assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-9)
    assert_allclose(model.inertia_, expected.inertia_)
    assert model.n_iter_ == expected.n_iter_
    weight = np.arange(N) % 3
    score = model.score(rows, sample_weight=weight)
    assert_allclose(score, expected.score(X, None, weight))


def test_weights_in_partitions(data):
    X, y = data
    weight = (np.arange(N) % 4).astype(float)
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(X, y, weight)
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    model.fit(chunked(X, 3), chunked(y, 3), chunked(weight, 3))
    assert_same_model(model, expected)


def test_a_frame_with_names_and_partitions_of_unknown_size(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(frame, y)
    rows = dd.from_pandas(frame, npartitions=4)
    labels = dd.from_pandas(pd.Series(y, dtype="category"), npartitions=4)
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(rows, labels)
    assert_array_equal(model.feature_names_in_, expected.feature_names_in_)
    assert_same_model(model, expected)
    again = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    again.fit(rows.to_dask_array().persist(), labels)
    assert_same_model(again, expected)
    assert not hasattr(again, "feature_names_in_")


def test_empty_partitions_and_a_class_in_one_partition_only(data):
    X, y = data
    order = np.argsort(y)
    X, y = X[order], y[order]
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(X, y)
    rows, labels = chunked(X, 5), chunked(y, 5)
    parts = [rows[:0], rows[:400], rows[:0], rows[400:], rows[:0]]
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    assert_same_model(model.fit(da.concatenate(parts).persist(), labels), expected)


def test_float32_and_csr_partitions(data):
    X, y = data
    single = X.astype(np.float32)
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(single, y)
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    model.fit(chunked(single, 3), y)
    assert model.representatives_.dtype == np.float32
    assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=0.01, atol=0.01)
    sparse = np.where(X > 0, X, 0.0)
    expected = KMeansKernelClassifier(10, random_state=0, **GIVEN)
    expected.fit(scipy.sparse.csr_array(sparse), y)
    rows = chunked(sparse, 3).map_blocks(scipy.sparse.csr_array).persist()
    assert_same_model(model.fit(rows, y), expected)


def test_a_fitted_model_is_an_ordinary_one(data):
    X, y = data
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(chunked(X, 3), y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert isinstance(again.dual_coef_, np.ndarray)
    clusters = SphericalKMeans(5, random_state=0).fit(chunked(X, 3))
    small = pickle.dumps(clusters)
    assert len(small) < X.nbytes / 4  # the rows are not in it
    assert_array_equal(pickle.loads(small).predict(X), clusters.predict(X))


def test_an_error_leaves_the_model_as_it_was(data):
    X, y = data
    model = KMeansKernelClassifier(10, random_state=0, **GIVEN).fit(X, y)
    before = model.predict(X)
    bad = X.copy()
    bad[500, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN: partition 1, row 200 of it, column 2"):
        model.fit(chunked(bad, 3), y)
    assert_array_equal(model.predict(X), before)


def test_labels_of_another_number_of_rows_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KMeansKernelClassifier(10).fit(chunked(X, 3), chunked(y[:-1], 3))


def test_too_little_memory_is_told_before_the_work(data):
    X, y = data
    model = KMeansKernelClassifier(200, memory_budget="4MiB", **GIVEN)
    with pytest.raises(MemoryError, match="fewer representatives"):
        model.fit(chunked(X, 3), y)


def test_ctrl_c_is_raised_and_leaves_the_model_as_it_was(data, monkeypatch):
    from kaucus.distributed import DaskRows

    X, y = data
    calls, reduce = [], DaskRows.reduce

    def interrupted(self, *args, label, **options):
        calls.append(label)
        if calls.count("assign-rows") > 3:
            raise KeyboardInterrupt
        return reduce(self, *args, label=label, **options)

    models = [
        KMeansKernelClassifier(10, random_state=0, **GIVEN),
        SphericalKMeans(5, random_state=0),
    ]
    for model in models:
        before = model.fit(X, y).predict(X)
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(DaskRows, "reduce", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.fit(chunked(X, 3), y)
        assert (model.predict(X) == before).all()


@pytest.mark.parametrize("n_parts", [1, 3, 7])
def test_a_metric_is_that_of_numpy(data, n_parts):
    X, y = (values[:400] for values in data)
    options = {"kind": "diagonal", "power": 1.0, "max_steps": 1, "kernel": "rbf"}
    metric = LearnedMetric(random_state=0, **options)
    expected = metric.fit(X, y).components_
    found = metric.fit(chunked(X, n_parts), chunked(y, n_parts))
    assert found.n_steps_ == 1
    assert_allclose(found.components_, expected, rtol=1e-9)
    assert isinstance(found.fit_transform(chunked(X, n_parts), y), da.Array)
    size = -(-len(X) // n_parts)
    starts = range(0, len(X), size)
    found.fit_batches(lambda: ((X[s : s + size], y[s : s + size]) for s in starts))
    assert_allclose(found.components_, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["frame", "unknown", "empty", "csr"])
def test_a_metric_takes_every_kind_of_collection(data, kind):
    X, y = (values[:400] for values in data)
    X = np.maximum(X, 0)
    rows, frame = chunked(X, 3), pd.DataFrame(X, columns=list("abcd"))
    table = dd.from_pandas(frame, npartitions=3)
    given, rows = {
        "frame": (frame, table),
        "unknown": (X, table.to_dask_array().persist()),
        "empty": (X, da.concatenate([rows[:0], rows, rows[:0]]).persist()),
        "csr": (
            scipy.sparse.csr_array(X),
            rows.map_blocks(scipy.sparse.csr_array).persist(),
        ),
    }[kind]
    options = {"kind": "diagonal", "power": 1.0, "max_steps": 1, "kernel": "rbf"}
    expected = LearnedMetric(random_state=0, **options).fit(given, y)
    metric = LearnedMetric(random_state=0, **options).fit(rows, y)
    assert_allclose(metric.components_, expected.components_, rtol=1e-6)
    assert hasattr(metric, "feature_names_in_") == (kind == "frame")
    found, wanted = metric.transform(rows).compute(), expected.transform(given)
    if kind == "csr":
        found, wanted = found.toarray(), wanted.toarray()
    assert_allclose(found, wanted, rtol=1e-6)


def test_a_pipeline_of_row_transformers_is_that_of_numpy(data):
    X, y = data
    model = make_pipeline(
        UnitNormalizer(),
        FourierFeatures((2, 2)),
        KMeansKernelClassifier(8, random_state=0, **GIVEN),
    )
    expected = clone(model).fit(X, y)
    model.fit(chunked(X, 3), chunked(y, 3))
    assert_same_model(model[-1], expected[-1])
    assert_array_equal(model.predict(chunked(X, 3)).compute(), expected.predict(X))
