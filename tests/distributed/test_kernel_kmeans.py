"""Kernel k-means by landmarks of Dask collections is that of NumPy arrays."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import dask
import pandas as pd

from kaucus import KernelKMeans
from kaucus.datasets import make_rings
from kaucus.evaluation import clustering_accuracy
from tests.distributed.test_fits import chunked

N = 600
MODEL = KernelKMeans(
    4,
    kernel="rbf",
    gamma=1.0,
    approximation="nystrom",
    n_landmarks=30,
    random_state=0,
)


@pytest.fixture(autouse=True)
def no_threads():
    """Quicker than threads for rows as few as here."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def X():
    return make_rings(N, random_state=0)[0]


@pytest.fixture(scope="module")
def expected(X):
    return clone(MODEL).fit(X)


def fitted(rows, weight=None, **options):
    return clone(MODEL).set_params(**options).fit(rows, sample_weight=weight)


def assert_same(found, expected, X):
    assert_allclose(found.X_fit_, expected.X_fit_, rtol=1e-9, atol=1e-12)
    assert_allclose(found.transform(X), expected.transform(X), atol=1e-6)
    assert_allclose(found.center_norms_, expected.center_norms_, rtol=1e-6)
    assert_allclose(found.inertia_, expected.inertia_)
    assert found.n_iter_ == expected.n_iter_
    assert found.n_reseeded_ == expected.n_reseeded_


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_clusters_are_those_of_numpy(X, expected, n_parts):
    rows = chunked(X, n_parts)
    model = fitted(rows)
    assert_same(model, expected, X)
    assert isinstance(model.labels_, da.Array)
    assert model.labels_.dtype == expected.labels_.dtype
    assert_array_equal(model.labels_.compute(), expected.labels_)
    assert_array_equal(clone(MODEL).fit_predict(rows).compute(), expected.labels_)
    assert_allclose(model.score(rows), -model.inertia_)


@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": "uniform", "gamma": "scale"},
        {"landmarks": "rpcholesky", "gamma": "median"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": lambda X, Y: np.exp(-abs(X[:, None] - Y[None]).sum(axis=2))},
        {"init": "random", "n_init": 3},
        {"init": "random", "tol": 1e-2},
    ],
    ids=["uniform", "rpcholesky", "poly", "function", "starts", "tol"],
)
def test_every_option_means_the_same(X, options):
    expected, model = fitted(X, **options), fitted(chunked(X, 3), **options)
    assert_same(model, expected, X)


def test_clusters_to_begin_with_and_weights_are_in_partitions(X):
    weight, first = np.arange(N) % 3 + 0.5, np.arange(N) % 4
    expected = fitted(X, weight, init=first)
    model = fitted(chunked(X, 3), chunked(weight, 3), init=chunked(first, 3))
    assert_same(model, expected, X)


def test_the_scheduler_does_not_matter(X, expected, scheduler):
    assert_same(fitted(chunked(X, 3)), expected, X)


def test_frames_unknown_sizes_and_empty_partitions(X, expected):
    table = pd.DataFrame(X, columns=["a", "b"])
    frame = dd.from_pandas(table, npartitions=4)
    model = fitted(frame)
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert_same(model, fitted(table), table)
    assert_array_equal(model.labels_.compute(), expected.labels_)
    assert_same(fitted(frame.to_dask_array().persist()), expected, X)
    rows = chunked(X, 5)
    parts = [rows[:0], rows[:400], rows[:0], rows[400:], rows[:0]]
    assert_same(fitted(da.concatenate(parts).persist()), expected, X)


def test_float32_and_csr_partitions(X):
    single = X.astype(np.float32)
    expected, model = fitted(single), fitted(chunked(single, 3))
    assert model.X_fit_.dtype == np.float32
    assert_allclose(model.inertia_, expected.inertia_, rtol=1e-3)
    assert clustering_accuracy(model.labels_.compute(), expected.labels_) > 0.99
    sparse = np.maximum(X, 0)
    expected = fitted(scipy.sparse.csr_array(sparse))
    rows = chunked(sparse, 3).map_blocks(scipy.sparse.csr_array).persist()
    assert_same(fitted(rows), expected, sparse)
    chosen = fitted(rows, landmarks="uniform")
    assert scipy.sparse.issparse(chosen.X_fit_)


def test_a_fitted_model_is_an_ordinary_one(X):
    model = fitted(chunked(X, 3))
    stored = pickle.dumps(model)
    again = pickle.loads(stored)
    assert len(stored) < X.nbytes  # the rows are not in it
    assert_array_equal(again.predict(X), model.predict(X))
    assert isinstance(again.center_coef_, np.ndarray)


def test_an_entry_that_is_not_finite_is_named(X):
    bad = X.copy()
    bad[350, 1] = np.nan
    with pytest.raises(ValueError, match="partition 1, row 150 of it, column 1"):
        fitted(chunked(bad, 3))


def test_a_kernel_that_is_not_positive_semidefinite_is_told(X):
    with pytest.raises(ValueError, match="use another kernel"):
        fitted(chunked(X, 3), kernel="sigmoid", gamma=1.0)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"approximation": None}, "Pass approximation='nystrom'"),
        (
            {"kernel": "precomputed", "landmarks": "uniform"},
            "pass the rows, with a kernel by name",
        ),
    ],
    ids=["exact", "precomputed"],
)
def test_what_needs_all_rows_is_refused_at_once(X, options, remedy):
    def must_not_run(block):
        raise AssertionError("it was read")

    rows = chunked(X, 3).map_blocks(must_not_run, meta=X[:0])
    with pytest.raises(TypeError, match=f"needs all rows in one place.*{remedy}"):
        fitted(rows, **options)


def test_too_little_memory_is_told_before_the_work(X):
    with pytest.raises(MemoryError, match="lower n_landmarks"):
        fitted(chunked(X, 12), n_landmarks=200, memory_budget="100KiB")


def test_steps_are_shown_on_a_terminal_in_one_line(X, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    model = fitted(chunked(X, 3), verbose=1)
    first, steps, rest = capsys.readouterr().err.split("\n")
    assert f"kernel of {N} rows" in first
    assert f"step {model.n_iter_}, gain" in steps
    assert rest == ""
