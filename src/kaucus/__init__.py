"""Kernel machines in which a few representatives speak for all the data."""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kaucus.estimators import *  # noqa: F403
    from kaucus.export.report import report  # noqa: F401


def __getattr__(name: str):
    # scikit-learn and SciPy take a second to import; `kaucus --help` needs neither.
    if name == "report":
        return importlib.import_module("kaucus.export.report").report
    if name == "__all__" or name[:1].isupper():
        estimators = importlib.import_module("kaucus.estimators")
        if name == "__all__":
            return [*estimators.__all__, "report"]
        if name in estimators.__all__:
            return getattr(estimators, name)
    raise AttributeError(f"module 'kaucus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
