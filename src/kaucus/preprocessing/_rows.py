"""Base class of transformers that treat each row by itself."""

from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kaucus.contract import (
    FollowsX,
    is_dask,
    rowwise,
    validate_data,
)


class RowTransformer(FollowsX, TransformerMixin, BaseEstimator):
    """Base of transformers that learn nothing from the values of the data.

    A subclass has ``_prepare(X)``, which checks its parameters and stores what follows
    from the number of features, and ``_transform(X)``.
    """

    _dtype: Any = "numeric"
    _dask_fit: str | None = "columns"

    def fit(self, X, y=None):
        """Check the data and the parameters; no value of the data is used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._prepare(validate_data(self, X, dtype=self._dtype))
        return self

    def fit_transform(self, X, y=None):
        """Transform the rows; the data is checked once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            As from ``transform``.
        """
        if is_dask(X):
            return self.fit(X).transform(X)
        X = validate_data(self, X, dtype=self._dtype)
        self._prepare(X)
        return self._transform(X)

    @rowwise
    def transform(self, X):
        """Transform each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Of the library and on the device of ``X``.
        """
        check_is_fitted(self)
        return self._transform(validate_data(self, X, reset=False, dtype=self._dtype))

    def _prepare(self, X) -> None:
        """Check the parameters, and store what follows from the number of features."""

    def _transform(self, X):
        """Return the transformed rows of checked data."""
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
