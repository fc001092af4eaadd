"""What a fit leaves behind: a whole model or none, with its arrays where X was.

Kernels and partitions keep their own arrays, which are small, with NumPy, and copy them
to where they are asked; labels stay NumPy arrays as well. All other arrays of a fitted
estimator follow X, and so do results of methods of each row (:func:`rowwise`).

An error or Ctrl-C during ``fit`` or ``partial_fit`` reaches the caller, and leaves the
estimator as it was before the call. What is long and compiled is cut, or runs in a
thread (:func:`kaucus.backend.interruptible`), so that Ctrl-C is answered within about a
second.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    Array,
    device_is_here,
    device_of,
    is_cupy,
    is_numpy,
    is_tensor,
    is_torch,
    place_of,
    tensor_near,
    to_device,
    to_numpy,
    warn_user,
)
from kaucus.contract._docstrings import LinksToDocs, complete_docstring
from kaucus.contract._partitions import is_dask, refusal


class Packed(NamedTuple):
    """A tensor on its way to another machine, which may have neither GPU nor torch."""

    values: np.ndarray
    place: str


class FollowsX(LinksToDocs):
    """Mixin of every estimator: ``fit`` leaves a whole model where its rows were.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where ``X`` had names that are all strings.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        complete_docstring(cls)
        for name in ("fit", "fit_transform", "partial_fit"):
            if name in vars(cls):
                setattr(cls, name, _whole(vars(cls)[name]))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = True
        return tags

    def to_device(self, device):
        """Move the fitted model, in place.

        Parameters
        ----------
        device : str
            ``"cuda"`` or ``"cuda:1"``: its arrays become tensors there. ``"cpu"``:
            tensors come to the host, NumPy arrays stay what they are. ``"numpy"``: all
            become NumPy arrays. Labels (``classes_``), CSR rows and the small arrays
            within kernels stay on the host.

        Returns
        -------
        self : object
            The parameter ``device``, where there is one, follows: rows to predict
            travel to the GPU that is named, or are worked on where they are.
        """
        on_host = device in ("cpu", "numpy")
        if not on_host:
            to_device(np.zeros(0), device)  # before anything is moved: is it there?
        for name, value in fitted_attributes(self):
            setattr(self, name, _mapped(value, lambda x: _moved(x, device)))
        if hasattr(self, "device"):
            self.device = None if on_host else device
        return self

    def __getstate__(self):
        state = super().__getstate__()  # type: ignore[misc]
        # Lazy results, such as labels, are of data that stays where it is.
        kept = {name: value for name, value in state.items() if not is_dask(value)}
        return {name: _mapped(value, _pack) for name, value in kept.items()}

    def __setstate__(self, state):
        state = {name: _mapped(value, _unpack) for name, value in state.items()}
        device = state.get("device")
        if isinstance(device, str) and not device_is_here(device):
            warn_user(
                f"{type(self).__name__} was made with device={device!r}, which is not "
                "here; device=None from now on: rows are worked on where they are.",
                UserWarning,
            )
            state["device"] = None
        super().__setstate__(state)  # type: ignore[misc]


def _whole(method: Any) -> Any:
    """Return the method, restoring the estimator's state if it raises.

    What an exception has as ``kept`` stays: the iterate of an interrupted solver.
    """

    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        X = args[0] if args else kwargs.get("X")
        if method.__name__ == "partial_fit" and is_dask(X):
            raise refusal(self, "partial_fit")
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            # One assignment: a second Ctrl-C finds the one state or the other.
            self.__dict__ = {**before, **getattr(error, "kept", {})}
            raise

    return wrapped


def fitted_attributes(estimator: FollowsX) -> list[tuple[str, Any]]:
    """Return the fitted attributes that may be, or hold, arrays that follow X."""
    kept = ("classes_", "feature_names_in_")
    found = vars(estimator).items()
    return [(k, v) for k, v in found if k.endswith("_") and k not in kept]


def fitted_arrays(estimator: Any) -> Iterator[tuple[str, Array]]:
    """Yield name and value of the arrays that follow X, also of estimators within.

    Of other packages' estimators within, none: these keep what they like.
    """
    if hasattr(estimator, "steps"):  # a pipeline
        for _, step in estimator.steps:
            yield from fitted_arrays(step)
    if not isinstance(estimator, FollowsX):
        return
    for name, value in fitted_attributes(estimator):
        for part in value if isinstance(value, list) else [value]:
            if is_numpy(part) or is_tensor(part):
                yield name, part
            elif isinstance(part, BaseEstimator):
                yield from fitted_arrays(part)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a function of a value, or of each value of a list."""
    return [function(v) for v in value] if isinstance(value, list) else function(value)


def _moved(value: Any, device: str) -> Any:
    """Return an array on the device; estimators within move themselves."""
    if isinstance(value, FollowsX):
        return value.to_device(device)
    if hasattr(value, "steps"):  # a pipeline
        for _, step in value.steps:
            _moved(step, device)
    if not (is_numpy(value) or is_tensor(value)):
        return value
    if device == "numpy":
        return to_numpy(value)
    if is_numpy(value) and value.dtype.kind not in "fiub":
        return value  # labels that are texts
    return to_device(value, device)


def _pack(value: Any) -> Any:
    if not (is_torch(value) or is_cupy(value)):
        return value
    return Packed(to_numpy(value), place_of(value))


def _unpack(value: Any) -> Any:
    return tensor_near(*value) if isinstance(value, Packed) else value


# ---- methods of each row by itself ---------------------------------------------------


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
