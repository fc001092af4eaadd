"""The one registry: names in the TOML files -> metrics, transformers and methods."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from kaucus import LSSVMClassifier
from kaucus.evaluation import clustering_accuracy
from kaucus.preprocessing import FourierFeatures, GaussianWindow, UnitNormalizer
from papers._cluster_rbf_table_1 import measure_clusters
from papers._ends import measure_ends, measure_shape
from papers._methods import (
    ClusterRuns,
    PickedKernel,
    PrintedHybrid,
    fourier_classifier,
    patch_classifier,
    picture_classifier,
    pixel_classifier,
)
from papers._solvers import measure_equations, measure_step
from papers._svm_grid import measure_grid


class Metric(NamedTuple):
    """A function of true and predicted targets, and how to write its value."""

    label: str
    digits: int
    score: Callable[[np.ndarray, np.ndarray], float]


def _error_percent(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(100 * np.mean(np.asarray(y_true) != np.asarray(y_pred)))


def _accuracy_percent(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return 100 - _error_percent(y_true, y_pred)


METRICS: dict[str, Metric] = {
    "error_percent": Metric("test error (%)", 2, _error_percent),
    "accuracy": Metric("accuracy", 3, lambda t, p: _accuracy_percent(t, p) / 100),
    "accuracy_percent": Metric("test accuracy (%)", 2, _accuracy_percent),
    "clustering_accuracy": Metric("accuracy", 3, clustering_accuracy),
    # Of measurements, which have their value.
    "count": Metric("number", 0, lambda t, p: np.nan),
    "seconds": Metric("seconds", 1, lambda t, p: np.nan),
    "GB": Metric("GB", 2, lambda t, p: np.nan),
}

# Transformers before a method, by the equations of Andrecut (2016). He does not say
# which transform he takes: 1-D is that of the flattened image.
PREPROCESSING: dict[str, list[Any]] = {
    "unit": [UnitNormalizer()],  # eq. 61-62
    "fourier-1d": [FourierFeatures(fft="1d")],  # eq. 69-75
    "fourier-2d-root": [FourierFeatures((28, 28), fft="2d")],
    "fourier-2d": [FourierFeatures((28, 28), fft="2d", power=1.0)],  # ours: no root
    "window-unit": [GaussianWindow((3, 32, 32)), UnitNormalizer()],  # 76, 61-62
    "window-fourier-1d": [GaussianWindow((3, 32, 32)), FourierFeatures(fft="1d")],
}

# Classes of estimators, and functions of the parameters that return one.
METHODS: dict[str, Callable[..., Any]] = {
    "ls-svm": LSSVMClassifier,
    "kmeans-kernel": pixel_classifier,
    "kmeans-kernel, all rows": pixel_classifier,
    "FFT as printed, 1-D": fourier_classifier,
    "FFT as printed, 2-D": fourier_classifier,
    "FFT, kmeans-kernel": fourier_classifier,
    "FFT, kmeans-kernel, all rows": fourier_classifier,
    "patches, kmeans-kernel": patch_classifier,
    "patches, kmeans-kernel, all rows": patch_classifier,
    "patches of 26 x 26, kmeans-kernel, all rows": patch_classifier,
    "author's program": fourier_classifier,
    "author's program, patches": patch_classifier,
    "patch-kernel": picture_classifier,
    "kernel-kmeans-runs": ClusterRuns,
    "picked-kernel": PickedKernel,
    "kaczmarz-mp as printed": PrintedHybrid,
}

# Functions of (dataset, params, seed, data_home) that return a Measurement, for numbers
# that are not one fit and one prediction, such as a cross-validated grid.
MEASUREMENTS: dict[str, Callable[..., Any]] = {
    "svm-grid": measure_grid,
    "two clusters": measure_clusters,
    "ends of runs": measure_ends,
    "shape": measure_shape,
    "equations": measure_equations,
    "one step": measure_step,
}


def look_up(name: str, table: Mapping[str, Any], kind: str = "Method") -> Any:
    """Return the entry of a name, or raise a ValueError that lists the names."""
    if name not in table:
        raise ValueError(
            f"{kind} {name!r} is not known; use one of {', '.join(sorted(table))}."
        )
    return table[name]


def build_method(
    method: str,
    params: Mapping[str, Any],
    *,
    normalize: str | None = None,
    device: str | None = None,
    seed: int | None = None,
    memory_budget: int | str | None = None,
    methods: Mapping[str, Callable[..., Any]] = METHODS,
) -> Any:
    """Build the unfitted estimator of a cell.

    Parameters
    ----------
    method : str
        A name in ``methods``.
    params : mapping
        Parameters of the estimator.
    normalize : str, default=None
        A name in ``PREPROCESSING``; its transformers come before the estimator.
    device, memory_budget : default=None
        The estimator's ``device`` and ``memory_budget``; None leaves its own.
    seed : int, default=None
        Its ``random_state``, if it has one.
    methods : mapping, default=METHODS
        Registry of names.

    Raises
    ------
    ValueError
        When a name is unknown, or the method has no such device or budget.
    """
    estimator = look_up(method, methods)(**params)
    if "random_state" not in params:
        _set_everywhere(estimator, "random_state", seed)
    for name, value in (("device", device), ("memory_budget", memory_budget)):
        if value is not None and not _set_everywhere(estimator, name, value):
            raise ValueError(
                f"{name}={value!r} was asked for, but method {method!r} has no such "
                f"parameter; leave the {name} out for it."
            )
    if normalize is None:
        return estimator
    before = look_up(normalize, PREPROCESSING, "Preprocessing")
    return make_pipeline(*map(clone, before), estimator)


def _set_everywhere(estimator: Any, name: str, value: Any) -> bool:
    """Set a parameter of an estimator and of those inside it; tell if any has it."""
    known = estimator.get_params(deep=True)
    found = [key for key in known if key == name or key.endswith(f"__{name}")]
    estimator.set_params(**dict.fromkeys(found, value))
    return bool(found)
