"""What the package offers, found by itself: a new public name needs no new test."""

import importlib
import inspect

from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor

# Where users import from.
PUBLIC_MODULES = [
    "kaucus",
    "kaucus.cli",
    "kaucus.datasets",
    "kaucus.evaluation",
    "kaucus.kernels",
    "kaucus.onnx",
    "kaucus.persistence",
    "kaucus.preprocessing",
]


def public_objects():
    """Return (module, name, object) of every public class and function."""
    found = []
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                found.append((module_name, name, value))
    return found


# Their rows must be pictures, with more pixels than most tests have columns;
# test_picture_contract.py holds them to the same contract.
OF_PICTURES = {"PatchDictionary", "PatchKernelClassifier", "PatchKernelRegressor"}

# They take frames with gaps and texts, are of NumPy alone, and fit a committee in every
# test; tests/estimators/test_tables.py holds them to scikit-learn's contract.
OF_FRAMES = {"TableClassifier", "TableRegressor"}


def estimators():
    """Return one default object of every public estimator and transformer of tables.

    With a fixed ``random_state``, where there is one, so that outputs compare; without
    the search of a metric, which takes a second a fit and has tests of its own.
    """
    classes = [
        value
        for module, name, value in public_objects()
        if module in ("kaucus", "kaucus.preprocessing")
        and inspect.isclass(value)
        and issubclass(value, BaseEstimator)
        and name not in OF_PICTURES | OF_FRAMES
    ]
    return [cls(**_quick_options(cls)) for cls in classes]


def _quick_options(cls):
    known = inspect.signature(cls).parameters
    options = {"random_state": 0, "learn_metric": False, "n_components": 10}
    if "gammas" in known:
        options |= {"kernel": "rbf", "gammas": None}
    if cls.__name__ == "LearnedMetric":
        options |= {"max_steps": 1, "kernel": "rbf", "kind": "diagonal", "power": 1.0}
    return {name: value for name, value in options.items() if name in known}


def classifiers():
    return [e for e in estimators() if is_classifier(e)]


def regressors():
    return [e for e in estimators() if is_regressor(e)]


def predictors():
    return [*classifiers(), *regressors()]


def transformers():
    return [e for e in estimators() if hasattr(e, "transform")]


def having(found, *parameters):
    """Return those estimators that have all these parameters."""
    return [e for e in found if set(parameters) <= set(e.get_params(deep=False))]


def without_rows(found):
    """Return those that take a kernel matrix in place of rows."""
    return [
        e
        for e in having(found, "kernel")
        if clone(e)
        .set_params(kernel="precomputed")
        .__sklearn_tags__()
        .input_tags.pairwise
    ]


def name_of(estimator):
    return type(estimator).__name__
