"""Where a display draws."""

from typing import Any


def axes_for(display: Any, ax: Any) -> Any:
    """Return ``ax``, or the axes of a new figure; matplotlib is imported for that."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{type(display).__name__} needs matplotlib, which is not installed: pip "
            "install 'kaucus[plot]'"
        ) from error
    return pyplot.subplots()[1]
