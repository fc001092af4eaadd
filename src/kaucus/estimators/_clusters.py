"""What clusterers share: parameters, score, checks, warnings; means of a kernel."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    array_namespace,
    as_like,
    astype,
    dtype_name,
    products_in,
    to_numpy,
    warn_user,
)
from kaucus.contract import is_dask, rowwise
from kaucus.estimators._kernel_input import map_rows, place_support
from kaucus.estimators._parameters import count, one_of
from kaucus.estimators._ranges import check_results
from kaucus.estimators._validation import check_weights
from kaucus.kernels import KernelOperator
from kaucus.representatives import KernelKMeansResult, KMeansResult, distances_from_sums

INITS = ("k-means++", "random")


class Clusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin):
    """Parameters and the score of a clusterer.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    max_iter : int
        Most steps of one start.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each training row.
    n_iter_ : int
        Steps of the best start.
    n_reseeded_ : int
        How often a cluster that had lost all its rows was given the worst represented
        one.
    """

    _parameters: ClassVar = {
        "n_clusters": count(),
        "n_init": count() | one_of("auto"),
        "max_iter": count(),
    }
    _row_scores: Any  # a method: minus the cost of each row, (n,)

    def score(self, X, y=None, sample_weight=None):
        """Return minus the sum of the costs of rows, as ``inertia_`` counts them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Not a precomputed kernel matrix: k(X, X_fit) does not tell k(x, x).
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        if is_dask(X):
            from kaucus.distributed import score_sum

            return score_sum(self, X, sample_weight)
        scores = self._row_scores(X)
        weight = check_weights(sample_weight, scores)
        return float(scores.sum() if weight is None else weight @ scores)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_rows(X, n_clusters: int) -> None:
    """Check that there are as many rows as clusters."""
    if X.shape[0] < n_clusters:
        raise ValueError(
            f"n_samples={X.shape[0]} should be >= n_clusters={n_clusters}; lower "
            "n_clusters or pass more rows."
        )


def report_kmeans(result: KMeansResult, n_clusters: int, max_iter: int) -> None:
    """Warn where k-means has ended early or found fewer clusters."""
    _warn_of_empty_clusters(result, n_clusters)
    if not result.converged:
        warn_user(
            f"k-means stopped after max_iter={max_iter} steps before the centres came "
            "to rest; increase max_iter or tol.",
            ConvergenceWarning,
        )


def report_kernel_kmeans(
    best: KernelKMeansResult, n_clusters: int, max_iter: int, kernel
) -> None:
    """Warn where kernel k-means has ended early or found fewer clusters."""
    _warn_of_empty_clusters(best, n_clusters)
    if best.rose:
        text = (
            f"Stopped after {best.n_iter} steps, because the next one would have "
            f"raised the objective: kernel={kernel!r} is not positive semidefinite on "
            "this data. The clusters before it are kept; use another kernel for more."
        )
    elif not best.converged:
        text = (
            f"Kernel k-means stopped after max_iter={max_iter} steps while rows still "
            "moved; increase max_iter or tol."
        )
    else:
        return
    warn_user(text, ConvergenceWarning)


def _warn_of_empty_clusters(
    result: KMeansResult | KernelKMeansResult, n_clusters: int
) -> None:
    if result.labels is None:  # of a row source
        n_found = np.count_nonzero(result.weights)
    else:
        n_found = len(np.unique(to_numpy(result.labels)))
    if n_found < n_clusters:
        warn_user(
            f"Only {n_found} of n_clusters={n_clusters} have rows: X has too few "
            "different rows. Lower n_clusters.",
            ConvergenceWarning,
        )


# ---- means in feature space ----------------------------------------------------------


class FeatureMeansMixin(Clusterer):
    """``predict`` and ``transform`` of a clusterer with a kernel.

    The means are Σ center_coef_[i, c] φ(X_fit_[i]), with the squared norms
    ``center_norms_``.
    """

    X_fit_: Any
    center_coef_: Any
    center_norms_: Any
    kernel_: Any
    device: str | None
    memory_budget: int | str | None
    precision: str | None
    _precomputed: Any
    _validate: Any

    @rowwise
    def predict(self, X):
        """Return the cluster of the nearest mean in feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Or k(X, X_fit), with ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        D = self._squared_distances(X)
        return astype(array_namespace(D).argmin(D, axis=1), "int32")

    @rowwise
    def transform(self, X):
        """Return the distances from the means in feature space.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Not with a precomputed kernel: k(X, X_fit) does not tell k(x, x).

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        D = self._true_distances(X, "transform")
        return array_namespace(D).sqrt(D)

    def _row_scores(self, X):
        D = to_numpy(self._true_distances(X, "score"))
        return -D.min(axis=1).astype(np.float64)

    def _true_distances(self, X, method: str):
        check_is_fitted(self, "center_coef_")
        if self._precomputed:
            raise ValueError(
                f"{method} needs k(x, x) of the new rows, which a precomputed matrix "
                "k(X, X_fit) does not have; use predict, or give the kernel as an "
                "object or a function."
            )
        return self._squared_distances(X)

    def _squared_distances(self, X):
        """Return eq. (7); for a precomputed kernel without its first term."""
        check_is_fitted(self, "center_coef_")
        X = self._validate(X, reset=False)
        if self._precomputed:
            sums = astype(X, "float64") @ as_like(self.center_coef_, X)
            return check_results(as_like(self.center_norms_, X)[None, :] - 2 * sums)
        D = map_rows(self._distances_of_rows, X, self.device, self.memory_budget)
        return check_results(astype(D, dtype_name(X)))

    def _distances_of_rows(self, rows):
        """Return eq. (7) for checked rows, where they are."""
        support = place_support(self.X_fit_, rows, self.device, self.memory_budget)
        operator = KernelOperator(
            self.kernel_,
            rows,
            astype(support, dtype_name(rows)),
            memory_budget=self.memory_budget,
            keep=None,
        )
        with products_in(self.precision):
            sums = operator.matmul(as_like(self.center_coef_, rows))
        return distances_from_sums(
            sums,
            astype(self.kernel_.diag(rows), "float64"),
            as_like(self.center_norms_, rows),
        )
