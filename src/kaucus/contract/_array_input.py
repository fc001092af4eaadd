"""Check arrays of every library as scikit-learn checks its own.

One rule for every estimator and transformer: *results follow X*. Rows that are torch
tensors, CuPy arrays or arrays of array-api-strict are computed with where they are, and
what is made from them, fitted or returned, is of their library and on their device.
Labels, targets and weights may be of any library; they follow X too.

scikit-learn does the same once its setting ``array_api_dispatch`` is on, and converts
to NumPy while it is off. Here no setting is needed; with it on, its stricter rule
holds: what was fitted on one library predicts for rows of that library alone.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data as _validate_data

from kaucus.backend import (
    Array,
    RowSource,
    array_namespace,
    astype,
    dtype_name,
    is_tensor,
    to_numpy,
    warn_user,
    without_history,
)
from kaucus.contract._batches import is_large_map, map_rows_of
from kaucus.contract._partitions import gathered, is_dask, validate_partitions

# What scikit-learn says of columns that are not numbers, or have gaps.
_FRAME_ERRORS = ("Input X contains NaN", "could not convert string to float")


def on_host(values: Any) -> Any:
    """Return tensors and Dask vectors as NumPy arrays, everything else as it is."""
    values = gathered(values)
    return to_numpy(without_history(values)) if is_tensor(values) else values


def validate_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any = "no_validation",
    *,
    dtype: Any = "numeric",
    **options: Any,
) -> Any:
    """Check rows, and targets if given, as scikit-learn does; tensors stay tensors.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like, CSR matrix, tensor or Dask collection of shape (n, d)
    y : array-like, tensor or Dask collection, default="no_validation"
        Returned as a NumPy array.
    dtype : "numeric", NumPy type or tuple of them, default="numeric"
        As in scikit-learn: of several types the first is converted to.
    **options
        Of :func:`sklearn.utils.validation.validate_data`.

    Returns
    -------
    X or (X, y)
        Of a Dask collection, a row source; see ``validate_partitions``.
    """
    if hasattr(estimator, "image_shape"):
        _refuse_images(X)
    y = on_host(y)
    if not options.get("multi_output"):
        y = _one_column(y)
    if _is_read_in_batches(estimator, X, options.get("reset", True)):
        budget, name = estimator.memory_budget, type(estimator).__name__
        X = map_rows_of(X, dtype, budget, name)
    if is_dask(X) or isinstance(X, RowSource):
        reset = options.pop("reset", True)
        return validate_partitions(estimator, X, y, dtype=dtype, reset=reset, **options)
    if not is_tensor(X):
        with _line_for_frames(type(estimator).__name__):
            return _validate_data(estimator, X, y, dtype=dtype, **options)
    X = _as_dtype(without_history(X), dtype)
    # Shape, number of features and targets are looked at by scikit-learn itself, which
    # need not see the values for that.
    shape_alone = np.broadcast_to(np.zeros(()), tuple(X.shape))
    options.pop("accept_sparse", None)
    checked = _validate_data(
        estimator, shape_alone, y, ensure_all_finite=False, **options
    )
    _check_finite(X, type(estimator).__name__)
    return (X, *checked[1:]) if isinstance(checked, tuple) else X


def _refuse_images(X: Any) -> None:
    """Raise where pictures come with axes of their own, not as rows."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) in (3, 4):
        raise ValueError(
            f"X has shape {shape}, {len(shape)} axes; expected one row for each "
            f"picture: X.reshape(len(X), -1), with image_shape={shape[1:]}. Channels "
            "come first."
        )


@contextlib.contextmanager
def _line_for_frames(name: str) -> Iterator[None]:
    """Context manager: errors of gaps and text show the line that takes them."""
    try:
        yield
    except ValueError as error:
        if not any(text in str(error) for text in _FRAME_ERRORS):
            raise
        raise ValueError(
            f"{error}\nFor gaps, text and dates in columns: "
            f"skrub.tabular_pipeline({name}()), or a ColumnTransformer with "
            "SimpleImputer and OneHotEncoder before it."
        ) from error


def _is_read_in_batches(estimator: Any, X: Any, reset: bool) -> bool:
    """Tell whether rows to be fitted are a memory map that is not to be read whole."""
    return (
        reset
        and getattr(estimator, "_dask_fit", None) == "rows"
        and estimator.device in (None, "cpu")  # a GPU has its own way
        and is_large_map(X, estimator.memory_budget)
    )


def _one_column(y: Any) -> Any:
    """Return a single column of labels with one axis, and say so; others as given."""
    if not hasattr(y, "shape") or len(y.shape) != 2 or y.shape[1] != 1:
        return y
    warn_user(
        "A column-vector y was passed when a 1d array was expected. Please change the "
        "shape of y to (n_samples,), for example using ravel().",
        DataConversionWarning,
    )
    return np.asarray(y).reshape(-1)


def _as_dtype(X: Array, dtype: Any) -> Array:
    """Return X in the first of the types, if it is of none of them."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: shape {tuple(X.shape)}. "
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, "
            "X.reshape(1, -1) if it is a single sample."
        )
    if "complex" in dtype_name(X):
        raise ValueError(f"Complex data not supported: X is {dtype_name(X)}.")
    if isinstance(dtype, str) and dtype == "numeric":
        return astype(X, "float32") if dtype_name(X) == "bfloat16" else X
    names = [np.dtype(d).name for d in (dtype if isinstance(dtype, tuple) else [dtype])]
    return X if dtype_name(X) in names else astype(X, names[0])


def _check_finite(X: Array, name: str) -> None:
    if "float" not in dtype_name(X):
        return
    xp = array_namespace(X)
    # A finite sum tells it all, without a mask as large as X.
    if bool(xp.isfinite(xp.sum(X))) or bool(xp.all(xp.isfinite(X))):
        return
    what = "NaN" if bool(xp.any(xp.isnan(X))) else "infinity"
    raise ValueError(
        f"Input X contains {what}. {name} needs finite numbers; take those rows out, "
        "or fill them, for example with sklearn.impute.SimpleImputer."
    )


class HostAccuracy:
    """``score`` of a classifier, for tensors on any device."""

    def score(self, X, y, sample_weight=None):
        """Return the share of rows whose class is predicted right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            The right labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        if is_dask(X):
            from kaucus.distributed import score_accuracy

            return score_accuracy(self, X, y, sample_weight)
        from sklearn.metrics import accuracy_score  # not before: it imports rich

        predicted = on_host(self.predict(X))  # type: ignore[attr-defined]
        weight = on_host(sample_weight)
        return float(accuracy_score(on_host(y), predicted, sample_weight=weight))


class HostR2:
    """``score`` of a regressor, for tensors on any device."""

    def score(self, X, y, sample_weight=None):
        """Return R², the share of the variance that is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The right values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        if is_dask(X):
            from kaucus.distributed import score_r2

            return score_r2(self, X, y, sample_weight)
        from sklearn.metrics import r2_score  # not before: it imports rich

        predicted = on_host(self.predict(X))  # type: ignore[attr-defined]
        weight = on_host(sample_weight)
        return float(r2_score(on_host(y), predicted, sample_weight=weight))
