"""Clusters of new rows by their distances from means in feature space."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    array_namespace,
    as_like,
    astype,
    dtype_name,
    products_in,
    to_numpy,
)
from kaucus.contract import rowwise
from kaucus.estimators._clusters import Clusterer
from kaucus.estimators._kernel_input import map_rows, place_support
from kaucus.estimators._ranges import check_results
from kaucus.kernels import KernelOperator
from kaucus.representatives import distances_from_sums


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
