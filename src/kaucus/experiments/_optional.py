"""Optional packages: asked for by name, with a remedy when they are missing."""

import importlib.util


class MissingPackageError(ModuleNotFoundError):
    """An optional package is needed and not installed."""


def require(module: str, *, extra: str) -> None:
    """Check that an optional package is installed, without importing it.

    Parameters
    ----------
    module : str
        Name by which the package is imported.
    extra : str
        The extra of kaucus that installs it.

    Raises
    ------
    MissingPackageError
        With the command that installs it.

    Examples
    --------
    >>> require("numpy", extra="none")
    """
    if importlib.util.find_spec(module) is None:
        raise MissingPackageError(
            f"{module} is not installed; this needs it: pip install 'kaucus[{extra}]'"
        )
