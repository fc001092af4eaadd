"""Helpers of displays: axes, attributes of fitted models, last steps of pipelines."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import is_sparse, to_numpy
from kaucus.contract import require

# Dark enough on white, and apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


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
