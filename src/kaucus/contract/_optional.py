"""Packages that only some users need: imported late, missed with a remedy."""

import importlib
import importlib.util
from typing import Any


class MissingPackageError(ModuleNotFoundError):
    """An optional package is needed and not installed."""


def require(module: str, extra: str) -> Any:
    """Import a module, or name the extra that brings it.

    Parameters
    ----------
    module : str
        For example ``"skops.io"``.
    extra : str
        The extra of kaucus that has it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"{package} is not installed; this needs it: pip install 'kaucus[{extra}]'"
        )
    return importlib.import_module(module)
