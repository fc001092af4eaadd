"""Numbers of a table that are not one fit and one prediction.

A cross-validated grid, for example: the function behind a method's name does the whole
of it, and returns the number with whatever else tables and figures are made from.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Measurement(NamedTuple):
    """What a cell's number is, and what it was made from."""

    value: float
    n_rows: int
    seconds: float
    detail: dict[str, Any]
    """For derived tables and figures; plain numbers, lists and texts."""


# One line per method: a function of (dataset, params, seed, data_home).
MEASUREMENTS: dict[str, str | Callable[..., Measurement]] = {
    "svm-grid": "kaucus.experiments._svm_grid:measure_grid",
}


def measure(
    method: str,
    dataset: str,
    params: Mapping[str, Any],
    *,
    seed: int,
    data_home: Any = None,
) -> Measurement:
    """Run the measurement behind a method's name."""
    function = MEASUREMENTS[method]
    if isinstance(function, str):
        module, name = function.split(":")
        function = getattr(importlib.import_module(module), name)
    return function(dataset, params, seed=seed, data_home=data_home)
