# pyright: basic, reportUnnecessaryTypeIgnoreComment=error
"""A user's script: `make lint` finds no error in it but those that are meant."""

import numpy as np

from kaucus import (
    KernelKMeans,
    KMeansKernelClassifier,
    KMeansKernelRegressor,
    LSSVMClassifier,
    TableClassifier,
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

    KMeansKernelClassifier(kernel="rfb")  # pyright: ignore[reportArgumentType]
    KMeansKernelClassifier(fit_on="al")  # pyright: ignore[reportArgumentType]
    LSSVMClassifier(solver="svd")  # pyright: ignore[reportArgumentType]
    LSSVMClassifier(gama=1.0)  # pyright: ignore[reportCallIssue]
    TableClassifier(effort="most")  # pyright: ignore[reportArgumentType]
