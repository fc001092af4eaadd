"""Fewer representatives after the fit."""

import copy

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.estimators._validation import check_positive
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
        check_positive("tol", tol, remedy="Try 0.01.")
        rows = self.representatives_
        if X is not None:
            rows = self._validate(X, reset=False)
        K = np.asarray(self.kernel_(rows, self.representatives_), dtype=np.float64)
        small = compress_columns(K, self.dual_coef_, self.intercept_, float(tol))
        model = copy.copy(self)
        model._keep(small.kept)
        model.dual_coef_, model.intercept_ = small.dual_coef, small.intercept
        return model

    def _keep(self, kept: np.ndarray) -> None:
        """Forget representatives; those kept stand for the rows of the others."""
        n_first = len(self.representatives_) - len(self.hard_rows_)
        weights = self.representative_weights_
        self.hard_rows_ = self.hard_rows_[kept[kept >= n_first] - n_first]
        share = weights.sum() / max(weights[kept].sum(), 1e-300)
        self.representative_weights_ = weights[kept] * share
        self.representatives_ = self.representatives_[kept]
