"""Names of methods in the tables -> unfitted scikit-learn estimators."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from kaucus.experiments._preprocessing import make_preprocessing

# One line per method: the class by name, so that nothing is imported before use,
# or a function of the parameters that returns the estimator.
METHODS: dict[str, str | Callable[..., Any]] = {
    "ls-svm": "kaucus:LSSVMClassifier",
    "kmeans-kernel": "kaucus.experiments._digit_methods:raw",
    "kmeans-kernel, all rows": "kaucus.experiments._digit_methods:raw",
    "FFT, kmeans-kernel": "kaucus.experiments._digit_methods:fourier",
    "FFT, kmeans-kernel, all rows": "kaucus.experiments._digit_methods:fourier",
    "patches, kmeans-kernel": "kaucus.experiments._digit_methods:patches",
    "patches, kmeans-kernel, all rows": "kaucus.experiments._digit_methods:patches",
    "patches of 26 x 26, kmeans-kernel, all rows": (
        "kaucus.experiments._digit_methods:patches"
    ),
    "kernel-kmeans-runs": "kaucus.experiments._clustering:ClusterRuns",
    "picked-kernel": "kaucus.experiments._clustering:PickedKernel",
    "kaczmarz-mp as printed": "kaucus.experiments._printed_hybrid:PrintedHybrid",
}


def build_method(
    method: str,
    params: Mapping[str, Any],
    *,
    normalize: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    memory_budget: int | str | None = None,
    methods: Mapping[str, str | Callable[..., Any]] = METHODS,
) -> Any:
    """Build the unfitted estimator of a cell.

    Parameters
    ----------
    method : str
        A name in ``methods``.
    params : mapping
        Parameters of the estimator.
    normalize : str, default=None
        What is put before it, a name in ``PREPROCESSING``; ``"unit"`` is
        :class:`~kaucus.preprocessing.UnitNormalizer`.
    device : str, default=None
        Where the estimator computes; None leaves that to the data.
    seed : int, default=None
        Its ``random_state``, if it has one.
    memory_budget : int or str, default=None
        Its ``memory_budget``; None leaves the estimator's own.
    methods : mapping, default=METHODS
        Registry of names.

    Returns
    -------
    estimator
        Ready to be fitted.

    Raises
    ------
    ValueError
        When the method is unknown, or has no such device or budget.
    """
    estimator = find_method(method, methods)(**params)
    if "random_state" not in params:
        _set_everywhere(estimator, "random_state", seed)
    for name, value in (("device", device), ("memory_budget", memory_budget)):
        if value is None:
            continue
        if not _set_everywhere(estimator, name, value):
            raise ValueError(
                f"{name}={value!r} was asked for, but method {method!r} has no such "
                f"parameter; leave the {name} out for it."
            )
    return _normalized(estimator, normalize)


def _set_everywhere(estimator: Any, name: str, value: Any) -> bool:
    """Set a parameter of an estimator and of those inside it; tell if any has it."""
    known = estimator.get_params(deep=True)
    found = [key for key in known if key == name or key.endswith(f"__{name}")]
    estimator.set_params(**dict.fromkeys(found, value))
    return bool(found)


def check_method(method: str, methods: Mapping[str, Any] = METHODS) -> None:
    """Raise a ValueError unless the method's name is known."""
    if method not in methods:
        raise ValueError(
            f"Method {method!r} is not known; use one of {', '.join(sorted(methods))}."
        )


def find_method(
    method: str, methods: Mapping[str, str | Callable[..., Any]] = METHODS
) -> Callable[..., Any]:
    """Return the class or function behind a method's name.

    Examples
    --------
    >>> find_method("dict", {"dict": "builtins:dict"})
    <class 'dict'>
    """
    check_method(method, methods)
    builder = methods[method]
    if isinstance(builder, str):
        module, name = builder.split(":")
        builder = getattr(importlib.import_module(module), name)
    return builder


def _normalized(estimator: Any, normalize: str | None) -> Any:
    """Put the asked normalisation before the estimator."""
    if normalize is None:
        return estimator
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*make_preprocessing(normalize), estimator)
