"""RepresentativeFeatures: the Nyström identity, and what a transformer promises."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from kaucus import RepresentativeFeatures
from tests.arrays import array, assert_close

X, Y = load_iris(return_X_y=True)
WAYS = ("k-means", "uniform", "rpcholesky")


@pytest.mark.parametrize("landmarks", [*WAYS, X[::10] + 0.01])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_products_of_features_are_the_kernel_where_a_row_is_a_representative(
    kernel, landmarks
):
    model = RepresentativeFeatures(
        15, kernel=kernel, gamma=0.2, landmarks=landmarks, random_state=0
    ).fit(X)
    Z = model.representatives_
    F, P = model.transform(X), model.transform(Z)
    assert F.shape == (150, 15)
    K = model.kernel_(X, Z)
    assert_close(F @ P.T, K, rtol=0, atol=1e-5 * np.abs(K).max())


def test_with_all_rows_a_linear_model_is_the_kernel_machine():
    model = RepresentativeFeatures(500, gamma=0.3).fit(X)
    y = np.sin(X[:, 0])
    ridge = Ridge(alpha=0.1, fit_intercept=False)
    found = make_pipeline(model, ridge).fit(X, y).predict(X)
    K = model.kernel_(X)
    expected = K @ np.linalg.solve(K + 0.1 * np.eye(150), y)
    assert_close(found, expected, rtol=0, atol=1e-5)


def test_rows_of_any_kind_give_the_same_features(xp, dtype):
    given = X[::10]
    options = {"landmarks": given, "gamma": 0.2}
    expected = RepresentativeFeatures(**options).fit(X).transform(X)
    rows = array(xp, X.astype(dtype))
    found = RepresentativeFeatures(**options).fit(rows).transform(rows)
    assert type(found) is type(rows)
    tolerance = {"float64": 1e-8, "float32": 2e-2}[dtype]
    assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("landmarks", WAYS)
def test_sparse_rows(landmarks):
    model = RepresentativeFeatures(10, landmarks=landmarks, gamma=0.2, random_state=0)
    model.fit(scipy.sparse.csr_array(X))
    found = model.transform(scipy.sparse.csr_array(X))
    assert_close(found, model.transform(X), rtol=0, atol=1e-8)


def test_dask_rows():
    da = pytest.importorskip("dask.array")
    rows = da.from_array(X, chunks=(40, 4))
    model = RepresentativeFeatures(10, gamma=0.2, random_state=0).fit(rows)
    found = model.transform(rows)
    assert isinstance(found, da.Array)
    assert_close(found.compute(), model.transform(X), rtol=0, atol=1e-8)


def test_a_learned_metric_weighs_the_columns_that_matter(rng):
    rows = rng.normal(size=(300, 5))
    y = np.sin(3 * rows[:, 0])
    model = RepresentativeFeatures(30, learn_metric=True, random_state=0).fit(rows, y)
    assert int(np.argmax(model.kernel_.row_map.importances())) == 0
    plain = RepresentativeFeatures(30, random_state=0).fit(rows)
    errors = [
        1 - Ridge(1e-3).fit(m.transform(rows), y).score(m.transform(rows), y)
        for m in (model, plain)
    ]
    assert errors[0] < errors[1] / 2


def test_names_of_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = RepresentativeFeatures(3, gamma=0.2, random_state=0)
    out = model.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == [f"representativefeatures{k}" for k in range(3)]


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"n_components": 0}, ValueError, "n_components=0 must be"),
        ({"landmarks": "kmeans"}, ValueError, "landmarks='kmeans'"),
        ({"landmarks": X[:, :2]}, ValueError, "2 features"),
        ({"kernel": "precomputed"}, ValueError, "kernel='precomputed' is not known"),
        ({"learn_metric": True}, ValueError, "y is None"),
        ({"kernel": "sigmoid", "coef0": -3.0}, ValueError, "not positive semidefinite"),
        ({"memory_budget": "100KiB"}, MemoryError, "representatives need"),
    ],
)
def test_errors(params, error, match):
    with pytest.raises(error, match=match):
        RepresentativeFeatures(**params).fit(X)
