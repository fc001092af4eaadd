"""What the package offers, found by itself: a new public name needs no new test."""

import importlib
import inspect

from sklearn.base import BaseEstimator, is_classifier, is_regressor

# Where users import from.
PUBLIC_MODULES = [
    "kaucus",
    "kaucus.cli",
    "kaucus.datasets",
    "kaucus.evaluation",
    "kaucus.kernels",
    "kaucus.preprocessing",
]


def public_objects():
    """Return (module, name, object) of every public class and function."""
    found = []
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.append((module_name, name, value))
    return found


def estimators():
    """Return one default object of every public estimator and transformer.

    With a fixed ``random_state``, where there is one, so that outputs compare.
    """
    classes = [
        value
        for module, _, value in public_objects()
        if module in ("kaucus", "kaucus.preprocessing")
        and inspect.isclass(value)
        and issubclass(value, BaseEstimator)
    ]
    return [cls(**({"random_state": 0} if _is_random(cls) else {})) for cls in classes]


def _is_random(cls):
    return "random_state" in inspect.signature(cls).parameters


def classifiers():
    return [e for e in estimators() if is_classifier(e)]


def regressors():
    return [e for e in estimators() if is_regressor(e)]


def predictors():
    return [*classifiers(), *regressors()]


def kernel_machines():
    """Return the predictors that take any kernel."""
    return [e for e in predictors() if "kernel" in e.get_params()]


def transformers():
    return [e for e in estimators() if hasattr(e, "transform")]


def name_of(estimator):
    return type(estimator).__name__
