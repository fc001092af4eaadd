"""Dask collections at the edge: fitted part by part, or refused at once.

Rows of a Dask array or frame are never read into one place behind anybody's back. What
is a function of each row by itself is lazy (``rowwise``), scores are sums over
partitions, and a fit takes the rows as a source of parts, if the estimator can
(``_dask_fit``), or says what to do.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data as _validate_data

from kaucus.backend import RowSource, is_sparse


def is_dask(values: Any) -> bool:
    """Tell whether values are a Dask collection, without importing dask."""
    return hasattr(values, "__dask_graph__")


def gathered(values: Any) -> Any:
    """Return labels, targets or weights of a Dask collection as a NumPy array."""
    if not is_dask(values):
        return values
    from kaucus.distributed import values_of

    return values_of(values)


def validate_partitions(
    estimator: BaseEstimator, X: Any, y: Any, *, dtype: Any, reset: bool, **options: Any
) -> Any:
    """Return rows in partitions, or a row source, as a source; targets as an array.

    Of an estimator that learns nothing from the values, a row of zeros.
    """
    how = getattr(estimator, "_dask_fit", None)
    if how is None or not reset:
        raise refusal(estimator, "fit" if reset else "this method")
    if is_sparse(getattr(X, "_meta", None)) and not options.get("accept_sparse"):
        raise TypeError(
            f"The partitions of X are sparse, and {type(estimator).__name__} needs "
            "dense rows; pass X.map_blocks(lambda block: block.toarray())."
        )
    types = dtype if isinstance(dtype, tuple) else (np.float64, np.float32)
    if isinstance(X, RowSource):
        rows = X
    elif how == "columns":
        rows = np.zeros((1, X.shape[1]), X.dtype if hasattr(X, "chunks") else types[0])
    else:
        from kaucus.distributed import rows_of

        rows = rows_of(
            X,
            types,
            memory_budget=getattr(estimator, "memory_budget", None),
            device=getattr(estimator, "device", None),
            name=type(estimator).__name__,
        )
    # Shape and targets are looked at by scikit-learn itself, which need not see the
    # values for that; and the names of a frame's columns.
    shape_alone = np.broadcast_to(np.zeros(()), tuple(rows.shape))
    options = {name: o for name, o in options.items() if name != "accept_sparse"}
    checked = _validate_data(
        estimator, shape_alone, y, ensure_all_finite=False, **options
    )
    if hasattr(X, "columns"):
        remember_columns(estimator, X._meta_nonempty)
    return (rows, *checked[1:]) if isinstance(checked, tuple) else rows


def remember_columns(estimator: BaseEstimator, frame: Any) -> None:
    """Store number and names of the columns of a frame, as scikit-learn does."""
    _validate_data(estimator, frame, reset=True, skip_check_array=True)


def refusal(
    estimator: Any,
    method: str,
    what: str = "a Dask collection",
    some: str = "X[:10_000].compute()",
) -> TypeError:
    """Return the error of a method that needs all rows in one place.

    ``what`` the rows are, and how to get ``some`` of them.
    """
    name = type(estimator).__name__
    if method == "partial_fit":
        remedy = (
            "Call fit, which takes Dask collections as they are, or partial_fit with "
            "each partition in turn, X.partitions[i].compute()."
        )
    else:
        others = (
            "KMeansKernelClassifier, KMeansKernelRegressor, SphericalKMeans, "
            "LearnedMetric and KernelKMeans(approximation='nystrom') fit rows of Dask "
            "collections."
        )
        remedy = (
            f"{getattr(estimator, '_dask_remedy', others)} Or fit {name} to a part of "
            f"the rows in memory, for example {some}, and apply it to all."
        )
    return TypeError(
        f"{method} of {name} needs all rows in one place, and X is {what}, which is "
        f"not read into memory as a whole. {remedy}"
    )
