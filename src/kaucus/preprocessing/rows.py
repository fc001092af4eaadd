"""Transformers of rows."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kaucus._array import namespace as nx
from kaucus._array.blocks import for_each_block, n_workers, row_blocks
from kaucus._array.namespace import Array
from kaucus._base import FollowsX, is_dask, rowwise, to_onnx, validate_data

# ----------------------------------------------------------------------------------
# Base class of transformers that treat each row by itself.
# ----------------------------------------------------------------------------------


class RowTransformer(FollowsX, TransformerMixin, BaseEstimator):
    """Base of transformers that learn nothing from the values of the data.

    A subclass has a table of parameters, ``_prepare(X)``, which stores what follows
    from the number of features, and ``_transform(X)``.
    """

    _dtype: Any = "numeric"
    _dask_fit: str | None = "columns"

    def fit(self, X, y=None) -> Self:
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
        self._check_parameters()
        self._prepare(validate_data(self, X, dtype=self._dtype))
        return self

    def fit_transform(self, X, y=None) -> np.ndarray:
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
        self._check_parameters()
        X = validate_data(self, X, dtype=self._dtype)
        self._prepare(X)
        return self._transform(X)

    @rowwise
    def transform(self, X) -> np.ndarray:
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
        """Store what follows from the number of features."""

    def _transform(self, X):
        """Return the transformed rows of checked data."""
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# ----------------------------------------------------------------------------------
# Scaling of single rows.
# ----------------------------------------------------------------------------------

_SCALING_BLOCK_BYTES = 2 * 2**20
# A GPU has no such cache, and wants to be filled.
_TENSOR_BYTES = 256 * 2**20


def centred_unit_rows(X: Array) -> Array:
    """Return (x − ⟨x⟩) / ‖x − ⟨x⟩‖ of each row; a constant row becomes zero.

    Means and norms are taken in float64, the result has the precision of ``X``. Rows
    are done in blocks that stay in cache, in threads.
    """
    xp = nx.array_namespace(X)
    out = xp.empty(X.shape, dtype=X.dtype, device=nx.device_of(X))

    def normalise(rows: slice) -> None:
        if nx.is_numpy(X):
            _centred_unit_block(X[rows], out[rows])
        else:
            out[rows, :] = _centred_unit_tensor(X[rows, :])

    step = _SCALING_BLOCK_BYTES if nx.is_numpy(X) else _TENSOR_BYTES
    blocks = row_blocks(X.shape[0], nx.itemsize(X) * X.shape[1], step)
    for_each_block(normalise, blocks, workers=n_workers(X))
    return out


def _centred_unit_block(X: np.ndarray, out: np.ndarray) -> None:
    """Write the centred unit rows of ``X`` into ``out``."""
    peaks = np.maximum(X.max(axis=1), -X.min(axis=1))
    centred = X.astype(np.float64)
    centred -= centred.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    # What is left of a constant row is rounding, not a direction: compare it with
    # the original row.
    rounding = np.finfo(X.dtype).eps * np.sqrt(X.shape[1])
    norms[norms <= 4 * rounding * peaks] = np.inf
    np.divide(centred, norms[:, None], out=out, casting="same_kind")


def _centred_unit_tensor(X: Array) -> Array:
    """Return the centred unit rows of an array of any library, newly allocated."""
    xp = nx.array_namespace(X)
    peaks = xp.max(xp.abs(X), axis=1)
    means = xp.mean(nx.astype(X, "float64"), axis=1, keepdims=True)
    centred = X - nx.astype(means, nx.dtype_name(X))
    norms = xp.sqrt(xp.sum(nx.astype(centred, "float64") ** 2, axis=1))
    rounding = nx.epsilon(X) * X.shape[1] ** 0.5
    constant = norms <= 4 * rounding * nx.astype(peaks, "float64")
    norms = xp.where(constant, xp.full_like(norms, float("inf")), norms)
    return centred / nx.astype(norms, nx.dtype_name(X))[:, None]


class UnitNormalizer(OneToOneFeatureMixin, RowTransformer):
    """Subtract the mean of each row and scale it to unit norm.

        x ← x − ⟨x⟩,    x ← x / ‖x‖

    (Andrecut 2016, eq. 61-62; 2020, eq. 21-22.) Every inner product then is a
    correlation coefficient. A constant row, which has no direction, becomes zero. The
    result has the precision of ``X``.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where ``X`` had names that are all strings.

    See Also
    --------
    sklearn.preprocessing.Normalizer : Scales rows without subtracting their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.preprocessing import UnitNormalizer
    >>> UnitNormalizer().fit_transform(np.array([[1.0, 3.0], [5.0, 5.0]])).round(4)
    array([[-0.7071,  0.7071],
           [ 0.    ,  0.    ]])
    """

    to_onnx = to_onnx
    _dtype = (np.float64, np.float32)

    def _transform(self, X):
        return centred_unit_rows(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
