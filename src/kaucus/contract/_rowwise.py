"""Methods that do something with each row by itself."""

import functools
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import device_of, is_tensor
from kaucus.contract._fitted_arrays import fitted_arrays
from kaucus.contract._partitions import is_dask


def rowwise(method: Any) -> Any:
    """Let a method of each row by itself, such as ``predict``, follow the kind of X.

    Of a Dask collection it returns a lazy Dask array, the method of each partition;
    other rows are held to scikit-learn's rule of one library and device.
    """

    @functools.wraps(method)
    def wrapped(self, X, **options):
        if is_dask(X):
            from kaucus.distributed import lazy_method

            check_is_fitted(self)
            return lazy_method(self, method.__name__, X, options)
        _check_follows_fit(self, X, method.__name__)
        return method(self, X, **options)

    return wrapped


def _check_follows_fit(estimator: BaseEstimator, X: Any, method: str) -> None:
    """With ``array_api_dispatch`` on, hold to scikit-learn's rule.

    Rows must then be of the library and on the device of the rows of ``fit``. With it
    off, results follow X, and the model's arrays are copied to where X is.
    """
    if not sklearn.get_config().get("array_api_dispatch"):
        return
    for _, fitted in fitted_arrays(estimator):
        if _place(fitted) == _place(X):
            return
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(): it was fitted on "
            f"{_place(fitted)}, X is of {_place(X)}. Move the rows, or the model with "
            "to_device."
        )


def _place(values: Any) -> tuple[str, str]:
    if not is_tensor(values):
        return "numpy", "cpu"
    return type(values).__module__.partition(".")[0], str(device_of(values))
