# pyright: basic, reportUnnecessaryTypeIgnoreComment=error
"""A user's script: type checkers find no error in it but those that are meant.

`make lint` asks one of them, tests/test_typing.py all that are installed.
"""

from typing import assert_type

import numpy as np

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LSSVMClassifier,
    RepresentativeFeatures,
    TableClassifier,
    TableRegressor,
)
from kaucus.kernels import Gaussian


def main() -> None:
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])

    model = KMeansKernelClassifier(30, C=10, learn_metric=False, random_state=0)
    model.fit(X, y)
    print(model.representatives_.shape, model.predict_proba(X[:1]).argmax())
    exact = LSSVMClassifier(C="auto", kernel=Gaussian(0.5)).fit(X, y)
    print(exact.C_, round(exact.score(X, y), 3))
    KMeansKernelRegressor("best", kernel=lambda A, B: A @ B.T, gamma=1)
    LSSVMClassifier(C=[1, 10, 100], kernel=["rbf", "laplacian"], device="cuda")
    KernelKMeans(3, init=y, random_state=np.random.default_rng(0))
    TableClassifier(members=["trees"], threshold="f1", max_time=60)

    KMeansKernelClassifier(kernel="rfb")  # type: ignore[arg-type]
    KMeansKernelClassifier(fit_on="al")  # type: ignore[arg-type]
    LSSVMClassifier(solver="svd")  # type: ignore[arg-type]
    LSSVMClassifier(gama=1.0)  # type: ignore[call-arg]
    TableClassifier(effort="most")  # type: ignore[arg-type]


def results() -> None:
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    model = KMeansKernelClassifier().fit(X, y)
    assert_type(model, KMeansKernelClassifier)
    assert_type(model.predict(X), np.ndarray)
    assert_type(model.predict_proba(X), np.ndarray)
    assert_type(model.decision_function(X), np.ndarray)
    assert_type(model.predict_set(X), np.ndarray)
    assert_type(model.gradient(X), np.ndarray)
    assert_type(model.score(X, y), float)
    assert_type(model.explain(), str)
    numbers = KMeansKernelRegressor().fit(X, y)
    assert_type(numbers.predict(X), np.ndarray)
    assert_type(numbers.predict_interval(X), np.ndarray)
    assert_type(numbers.predict(X, True), tuple[np.ndarray, np.ndarray])
    assert_type(TableClassifier().fit(X, y).predict_proba(X), np.ndarray)
    assert_type(TableRegressor().fit(X, y).predict_interval(X), np.ndarray)
    assert_type(RepresentativeFeatures().fit(X).transform(X), np.ndarray)
    assert_type(KernelKMeans(2).fit(X).predict(X), np.ndarray)
