"""A fitted model owns its arrays: writing into its training data changes nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.validation import has_fit_parameter

from kaucus import KMeansKernelClassifier, LSSVMClassifier, LSSVMRegressor
from tests.discovery import estimators, name_of
from tests.interrupts import variants

MORE = {
    "LSSVMClassifier-linear": LSSVMClassifier(kernel="linear", C=10.0),
    "LSSVMRegressor-poly": LSSVMRegressor(kernel="poly", C=10.0),
    "KMeansKernelClassifier-every-row": KMeansKernelClassifier(
        100, C=10.0, kernel="rbf", gamma=0.5
    ),
}
ALL = {**{name_of(e): e for e in estimators()}, **variants(), **MORE}
METHODS = ("predict", "transform", "predict_proba", "decision_function")
WITH_ROWS = ("predict_interval", "predict_set")


def results(model, X):
    """Return what every method says of new rows."""
    found = {}
    for name in (*METHODS, *WITH_ROWS):
        if hasattr(model, name):
            try:
                found[name] = np.asarray(getattr(model, name)(X), dtype=float)
            except ValueError:
                if name in METHODS:
                    raise
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["float64", "float32", "frame"])
@pytest.mark.parametrize("estimator", ALL.values(), ids=ALL.keys())
def test_writing_into_the_training_data_changes_no_prediction(estimator, kind):
    X, y = load_iris(return_X_y=True)
    X, y, new = X[::2].astype(np.float64), y[::2].astype(float), X[1::4]
    rows = given = X.astype(kind) if kind != "frame" else X.copy()
    if kind == "frame":
        pandas = pytest.importorskip("pandas")
        given = pandas.DataFrame(rows, columns=list("abcd"), copy=False)
        new = pandas.DataFrame(new, columns=list("abcd"))
    weight = np.linspace(0.5, 2.0, len(y))
    options = {}
    if has_fit_parameter(estimator, "sample_weight"):
        options["sample_weight"] = weight
    model, untouched = clone(estimator), clone(estimator)
    untouched.fit(
        given.copy(), y.copy(), **{name: v.copy() for name, v in options.items()}
    )
    model.fit(given, y, **options)
    rows[...] = -7.0
    y[...] = 0.0
    weight[...] = 1e9
    expected = results(untouched, new)
    found = results(model, new)
    assert found.keys() == expected.keys()
    for name in found:
        assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-3)
