"""Helpers of displays: axes, files, attributes of fitted models, last steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import is_sparse, to_numpy
from kaucus.contract import require

# Dark enough on white, and apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Settings of figures that are files.
STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
}


@contextmanager
def figure_file(
    path: str | Path, width: float = 7.0, height: float = 4.5, **style: Any
) -> Iterator[Any]:
    """Yield an empty matplotlib figure, which is written to a PNG file at the end.

    Parameters
    ----------
    path : path
        The PNG file to write.
    width, height : float
        In inches.
    **style
        Settings of matplotlib that differ from ``STYLE``.
    """
    require("matplotlib", "plot")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with rc_context({**STYLE, **style}):
        figure = Canvas(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # draws without a screen
        yield figure
        figure.savefig(path)


def new_axes(ax: Any = None, **options) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plot")
    return pyplot.subplots(**options)[1]


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def needed(model: Any, name: str, remedy: str) -> Any:
    """Return an attribute of a fitted estimator, or say how to get it."""
    check_is_fitted(model)
    model = last_step(model)
    if not hasattr(model, name):
        raise ValueError(f"{type(model).__name__} has no {name}; {remedy}")
    return getattr(model, name)


def dense_rows(rows: Any) -> np.ndarray:
    """Return fitted rows as a NumPy array."""
    return rows.toarray() if is_sparse(rows) else to_numpy(rows)
