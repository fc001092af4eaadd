"""Methods that do something with each row by itself."""

import functools
from typing import Any

from sklearn.utils.validation import check_is_fitted

from kaucus.contract._fitted_arrays import check_follows_fit
from kaucus.contract._partitions import is_dask


def rowwise(method: Any) -> Any:
    """Let a method of each row by itself, such as ``predict``, follow the kind of X.

    Of a Dask collection it returns a lazy Dask array, the method of each partition;
    other rows are held to :func:`check_follows_fit`.
    """

    @functools.wraps(method)
    def wrapped(self, X, **options):
        if is_dask(X):
            from kaucus.distributed import lazy_method

            check_is_fitted(self)
            return lazy_method(self, method.__name__, X, options)
        check_follows_fit(self, X, method.__name__)
        return method(self, X, **options)

    return wrapped
