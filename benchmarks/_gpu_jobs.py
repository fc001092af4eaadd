"""The jobs of the benchmark ``gpu``: what is fitted, on what, and how long it may take.

Data is put on the device, and made ready, before the clock starts.
"""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.lssvm import KERNEL
from kaucus._array.namespace import Array, astype, synchronize, to_device, to_numpy
from papers import _methods


class Sizes(NamedTuple):
    """How large the jobs are."""

    n_train: int | None = None
    representatives: int = 2500
    patch_representatives: int = 5000
    block_size: int = 2000
    n_steps: int = 100
    kmeans_rows: int = 1_000_000
    kmeans_features: int = 128
    kmeans_centres: int = 1024
    clustering_rows: int = 50_000
    product: int = 16_384


QUICK = Sizes(1000, 10, 10, 100, 3, 4000, 16, 32, 500, 512)


class Digits(NamedTuple):
    """Images on the device, and their labels on the host."""

    X_train: Array
    y_train: np.ndarray
    X_test: Array
    y_test: np.ndarray
    sides: tuple[int, int] = (28, 28)


class Job(NamedTuple):
    """Something to time."""

    name: str
    bar: float
    """Seconds."""
    run: Callable[[], Any]
    error: Callable[[Any], float] | None = None
    """Test error in per cent, of what ``run`` returns."""
    steps: Callable[[], list[float]] | None = None
    """Seconds of each step, in place of the whole run."""


def load_digits_to(device: str, n_train: int | None, data_home) -> Digits:
    """Load MNIST as float64 tensors on the device."""
    from papers.datasets import load_mnist

    mnist = load_mnist(data_home=data_home)
    return Digits(
        tensor(np.asarray(mnist.X_train[:n_train], dtype=np.float64), device),
        np.asarray(mnist.y_train[:n_train]),
        tensor(np.asarray(mnist.X_test[:n_train], dtype=np.float64), device),
        np.asarray(mnist.y_test[:n_train]),
    )


def tensor(X: np.ndarray, device: str) -> Array:
    """Return a tensor on the device, of torch on the host too."""
    return to_device(X, "cpu:0" if device == "cpu" else device)


def make_jobs(digits: Digits, device: str, sizes: Sizes) -> list[Job]:
    """List the jobs."""
    return [
        exact_job(digits),
        kmeans_kernel_job(digits, sizes),
        patch_job(digits, sizes),
        pursuit_job(digits, sizes),
        spherical_job(device, sizes),
        kernel_kmeans_job(device, sizes),
    ]


def unit_rows_of(digits: Digits, dtype: str) -> tuple[Array, Array]:
    """Return the training and the test rows, minus their mean and of unit norm."""
    from kaucus.preprocessing import UnitNormalizer

    scale = UnitNormalizer().fit_transform
    return tuple(astype(scale(X), dtype) for X in (digits.X_train, digits.X_test))


def fit_job(name: str, bar: float, model: Any, rows: tuple, digits: Digits) -> Job:
    """Fit a classifier to rows that are ready; its error is looked at afterwards."""
    from sklearn.base import clone

    train, test = rows

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged after few steps, and meant
            return clone(model).fit(train, digits.y_train)

    return Job(name, bar, run, lambda fitted: _error(fitted.predict(test), digits))


def _error(labels: Array, digits: Digits) -> float:
    return 100 * float(np.mean(to_numpy(labels) != digits.y_test))


def exact_job(digits: Digits) -> Job:
    """Solve the LS-SVM of all rows by one factorisation."""
    rows = unit_rows_of(digits, "float64")
    name = f"exact LS-SVM, {rows[0].shape[0]:,} rows, float64"
    return fit_job(name, 2.2, _ls_svm(solver="cholesky"), rows, digits)


def pursuit_job(digits: Digits, sizes: Sizes) -> Job:
    """Take some steps of matching pursuit."""
    J, steps = sizes.block_size, sizes.n_steps
    model = _ls_svm(solver="matching_pursuit", block_size=J, max_iter=steps, tol=1e-9)
    name = f"matching pursuit, J = {J}, {steps} steps, float64"
    return fit_job(name, 1.5, model, unit_rows_of(digits, "float64"), digits)


def _ls_svm(**options: Any) -> Any:
    from kaucus import LSSVMClassifier

    return LSSVMClassifier(
        C=1e4, probability=False, random_state=0, **KERNEL, **options
    )


def kmeans_kernel_job(digits: Digits, sizes: Sizes) -> Job:
    """Fit the paper's classifier of pixels."""
    q = sizes.representatives
    model = _methods.digit_classifier(q).set_params(random_state=0)
    name = f"k-means kernel, Q = {q}, raw, float32"
    return fit_job(name, 0.30, model, unit_rows_of(digits, "float32"), digits)


def patch_job(digits: Digits, sizes: Sizes) -> Job:
    """Fit and predict by a vote of patches, from the images on."""
    train, test = (astype(X, "float32") for X in (digits.X_train, digits.X_test))
    q, side = sizes.patch_representatives, digits.sides[0] - 3

    def run():
        model = _methods.patch_classifier(q, side, sides=digits.sides)
        model.estimator[-1].set_params(random_state=0)
        return model.fit(train, digits.y_train).predict(test)

    name = f"patches of {side} × {side}, Q = {q}, fit and predict, float32"
    return Job(name, 5.0, run, lambda labels: _error(labels, digits))


def spherical_job(device: str, sizes: Sizes) -> Job:
    """Cluster random directions; timed by the step."""
    from kaucus.clustering._kmeans import kmeans

    n, d, k = sizes.kmeans_rows, sizes.kmeans_features, sizes.kmeans_centres
    rng = np.random.default_rng(0)
    X = tensor(rng.normal(size=(n, d)).astype(np.float32), device)

    def steps():
        ends: list[float] = []

        def end(step, moved, centers):
            synchronize(X)
            ends.append(perf_counter())

        kmeans(
            X,
            k,
            metric="cosine",
            init="random",
            max_iter=20,
            tol=0.0,
            rng=np.random.default_rng(0),
            callback=end,
        )
        return list(np.diff(ends)[2:])

    name = f"spherical k-means, {n:,} × {d}, {k} centres, a step, float32"
    return Job(name, 0.008, steps, None, steps)


def kernel_kmeans_job(device: str, sizes: Sizes) -> Job:
    """Cluster by a Gaussian kernel, 30 steps at most."""
    from benchmarks.kernel_kmeans import GAMMA, make_rows
    from kaucus import KernelKMeans

    n = sizes.clustering_rows
    X = tensor(make_rows(n, "float32"), device)

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged after 30 steps, and meant
            return KernelKMeans(
                10, gamma=GAMMA, init="random", n_init=1, max_iter=30, random_state=0
            ).fit(X)

    return Job(f"kernel k-means, {n:,} rows, 10 clusters, float32", 2.0, run)
