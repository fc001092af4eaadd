"""Columns far from zero, on other scales, or with wild values."""

import numpy as np
import pytest

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor, LSSVMRegressor

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
