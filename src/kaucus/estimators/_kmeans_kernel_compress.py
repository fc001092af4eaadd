"""Fewer representatives after the fit."""

import copy

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import as_like, take_rows, to_numpy
from kaucus.estimators._kernel_input import beside
from kaucus.estimators._parameters import POSITIVE
from kaucus.solvers import compress_columns


class CompressMixin:
    """For estimators with representatives_, hard_rows_, dual_coef_ and intercept_."""

    def compress(self, tol, X=None):
        """Return a smaller model of nearly the same decision values.

        Representatives that others can stand in for are dropped, and the coefficients
        of the rest solved for anew, so that no decision value (prediction, for a
        regressor) of the given rows changes by more than ``tol``.

        Parameters
        ----------
        tol : float
            The largest change; a classifier's targets are ±1, a regressor's are those
            of ``y``.
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Rows for which that holds, such as the training rows or some thousands of
            them; None: the representatives.

        Returns
        -------
        compressed : estimator
            A copy; the model itself stays as it is.

        Notes
        -----
        2 n m² multiplications for n rows and m representatives, in float64.
        """
        check_is_fitted(self, "representatives_")
        POSITIVE.advise("Try 0.01.").check("tol", tol)
        rows = self.representatives_
        if X is not None:
            rows = self._validate(X, reset=False)
        points = self.representatives_
        K = to_numpy(self.kernel_(rows, beside(rows, points))).astype(np.float64)
        coef, intercept = to_numpy(self.dual_coef_), to_numpy(self.intercept_)
        small = compress_columns(K, coef, intercept, float(tol))
        model = copy.copy(self)
        model._keep(small.kept)
        model._stream = None  # of the representatives there were
        model.dual_coef_ = as_like(small.dual_coef, points)
        model.intercept_ = as_like(small.intercept, points)
        return model

    def _keep(self, kept: np.ndarray) -> None:
        """Forget representatives; those kept stand for the rows of the others."""
        hard_rows = to_numpy(self.hard_rows_)
        n_first = self.representatives_.shape[0] - len(hard_rows)
        weights, points = to_numpy(self.representative_weights_), self.representatives_
        hard_rows = hard_rows[kept[kept >= n_first] - n_first]
        self.hard_rows_ = as_like(hard_rows, points)
        share = weights.sum() / max(weights[kept].sum(), 1e-300)
        self.representative_weights_ = as_like(weights[kept] * share, points)
        self.representatives_ = take_rows(points, as_like(kept, points))
