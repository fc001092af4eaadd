"""What a fit leaves behind: arrays of X's library, where X was.

Kernels and partitions keep their own arrays, which are small, with NumPy, and copy them
to where they are asked; labels stay NumPy arrays as well. All other arrays of a fitted
estimator follow X.
"""

from collections.abc import Iterator
from typing import Any

import sklearn
from sklearn.base import BaseEstimator

from kaucus.backend import Array, device_of, is_numpy, is_tensor


class FollowsX:
    """Mixin of every estimator: fitted arrays are where the rows of ``fit`` were."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = True
        return tags


def fitted_arrays(estimator: Any) -> Iterator[tuple[str, Array]]:
    """Yield name and value of the arrays that follow X, also of estimators within.

    Of other packages' estimators within, none: these keep what they like.
    """
    if hasattr(estimator, "steps"):  # a pipeline
        for _, step in estimator.steps:
            yield from fitted_arrays(step)
    if not isinstance(estimator, FollowsX):
        return
    for name, value in vars(estimator).items():
        if not name.endswith("_") or name == "classes_":
            continue
        if is_numpy(value) or is_tensor(value):
            yield name, value
        elif isinstance(value, BaseEstimator):
            yield from fitted_arrays(value)


def check_follows_fit(estimator: BaseEstimator, X: Any, method: str) -> None:
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
