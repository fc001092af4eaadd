"""Fit a partition, given as a name, a clusterer or a function, and find its cells.

Unsupervised: k-means, Gaussian mixtures, any clusterer. Supervised, as the paper's
conclusion proposes: the classes that a linear classifier predicts, or the leaves of a
small tree.
"""

import contextlib
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import threadpoolctl
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kaucus.kernels import NearestCenter

SUPERVISED = ("linear", "tree")
# As in the paper: the best of ten starts of k-means++.
_N_INIT = 10
# See _few_threads.
_FEW_ROWS = 5000


class PartitionedRows(NamedTuple):
    """A partition and the cells of the rows it was fitted on."""

    partition: Any
    """A function of rows that returns cell numbers, 0 to ``n_cells`` − 1."""
    cells: np.ndarray
    """The cell of each row, (n,); every cell has a row."""
    n_cells: int


@dataclass(frozen=True)
class ModelCells:
    """The labels that a fitted model gives to rows, or the leaves of a tree."""

    model: Any
    leaves: bool = False

    def __call__(self, X):
        """Return the labels, or the numbers of the leaves, (n,)."""
        return self.model.apply(X) if self.leaves else self.model.predict(X)


class KnownCells:
    """Cells numbered by the labels that the training rows have.

    Parameters
    ----------
    function : callable
        Returns labels of any one type.
    labels : ndarray of shape (k,)
        The labels that occur, sorted.
    means : ndarray of shape (k, d)
        Means of their rows. A row with another label goes where the mean is nearest.
    """

    def __init__(self, function, labels, means):
        self.function = function
        self.labels = labels
        self.nearest = NearestCenter(means)

    def __call__(self, X):
        """Return the cells of rows, (n,)."""
        found = np.asarray(self.function(X))
        places = np.searchsorted(self.labels, found)
        places = np.minimum(places, len(self.labels) - 1)
        unknown = self.labels[places] != found
        if unknown.any():
            places[unknown] = self.nearest(X[unknown])
        return places


def check_partition_parameter(partition: Any) -> None:
    """Check that a partition is a known name, a function or a clusterer."""
    if isinstance(partition, str | type):
        is_good = partition in PARTITIONS
    else:
        is_good = callable(partition) or hasattr(partition, "predict")
    if not is_good:
        raise ValueError(
            f"partition={partition!r} must be one of {list(PARTITIONS)}, a clusterer "
            "(an object, not its class) with predict, or a function of rows that "
            "returns their cell numbers."
        )


def fit_partition(
    partition: Any,
    n_clusters: int,
    X: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray,
    rng: np.random.Generator,
) -> PartitionedRows:
    """Fit a partition, and number the cells in which there are rows.

    Parameters
    ----------
    partition : str, clusterer or callable
        A name of ``PARTITIONS``; a clusterer or classifier, of which a clone is fitted
        if it is not fitted; or a function of rows.
    n_clusters : int
        Number of cells; the most there can be for ``"dpgmm"`` and ``"tree"``.
        ``"linear"`` has one for each class, an object what it has.
    X : ndarray of shape (n, d)
        All rows; the first ``len(y)`` are labelled.
    y : ndarray of shape (n_labelled,)
        Numbers of their classes, for the supervised partitions.
    sample_weight : ndarray of shape (n,)
        Used by k-means, the tree and the linear classifier.
    rng : Generator
    """
    with _few_threads(len(X)):
        return _fit(partition, n_clusters, X, y, sample_weight, rng)


def _fit(partition, n_clusters, X, y, sample_weight, rng) -> PartitionedRows:
    seed = int(rng.integers(2**31 - 1))
    if isinstance(partition, str):
        fit = _FITS[partition]
        return _numbered(fit(n_clusters, X, y, sample_weight, seed), X)
    if not isinstance(partition, BaseEstimator) or _is_fitted(partition):
        function = partition if callable(partition) else ModelCells(partition)
        return _numbered(function, X)
    model = clone(partition)
    model = model.fit(X[: len(y)], y) if is_classifier(model) else model.fit(X)
    return _numbered(ModelCells(model), X)


@functools.cache
def _threads() -> threadpoolctl.ThreadpoolController:
    # Finding the loaded libraries takes milliseconds: once per process.
    return threadpoolctl.ThreadpoolController()


def _few_threads(n_rows: int) -> contextlib.AbstractContextManager:
    """Hold BLAS and OpenMP to one thread where there is little to share.

    Their threads wait for each other by spinning: on a busy machine k-means of 300 rows
    took 2.6 s with two threads and 0.02 s with one; on an idle one, both 0.01 s.
    """
    return (
        _threads().limit(limits=1) if n_rows <= _FEW_ROWS else contextlib.nullcontext()
    )


# Each returns the function of rows that gives their cells. scikit-learn's models are
# imported where they are used: some import rich where it is installed, which is not for
# everybody who imports kaucus.


def _fit_kmeans(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.cluster import KMeans

    n_different = len(np.unique(X, axis=0)) if len(X) else 0
    k = min(n_clusters, n_different)  # no more cells than there are different rows
    model = KMeans(k, n_init=_N_INIT, random_state=seed)
    return NearestCenter(model.fit(X, sample_weight=sample_weight).cluster_centers_)


def _fit_mixture(n_clusters: int, X, y, sample_weight, seed: int, *, bayesian=False):
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

    make = BayesianGaussianMixture if bayesian else GaussianMixture
    model = make(
        n_components=min(n_clusters, len(X)),
        # In units of the data: scikit-learn's own default knows none.
        reg_covar=1e-6 * max(float(np.var(X, axis=0).mean()), 1e-300),
        max_iter=1000,
        random_state=seed,
    )
    return ModelCells(model.fit(X))


def _fit_linear(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    n = len(y)
    model.fit(X[:n], y, logisticregression__sample_weight=sample_weight[:n])
    return ModelCells(model)


def _fit_tree(n_clusters: int, X, y, sample_weight, seed: int):
    from sklearn.tree import DecisionTreeClassifier

    leaves, n = max(n_clusters, 2), len(y)
    model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)
    model.fit(X[:n], y, sample_weight=sample_weight[:n])
    return ModelCells(model, leaves=True)


_FITS = {
    "kmeans": _fit_kmeans,
    "gmm": _fit_mixture,
    "dpgmm": functools.partial(_fit_mixture, bayesian=True),  # of a Dirichlet process
    "linear": _fit_linear,
    "tree": _fit_tree,
}
PARTITIONS = tuple(_FITS)


def _is_fitted(model: BaseEstimator) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _numbered(function: Any, X: np.ndarray) -> PartitionedRows:
    """Return the partition with numbers for the cells that have rows."""
    found = np.asarray(function(X))
    if found.shape != (len(X),):
        raise ValueError(
            f"The partition returned shape {found.shape} for {len(X)} rows; expected "
            f"one cell for each row, shape ({len(X)},)."
        )
    labels, cells = np.unique(found, return_inverse=True)
    exact = isinstance(function, NearestCenter) and len(labels) == len(function.centers)
    if not exact:
        means = np.stack([X[cells == i].mean(axis=0) for i in range(len(labels))])
        function = KnownCells(function, labels, means)
    return PartitionedRows(function, cells, len(labels))
