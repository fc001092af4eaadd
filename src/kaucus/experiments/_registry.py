"""Names in the tables -> the functions and classes behind them.

A function or class is named as ``"module:name"``, so that nothing is imported before
use; tests put others in its place.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Named = str | Callable[..., Any]
"""``"module:name"``, or the function or class itself."""

# Classes of estimators, and functions of the parameters that return one.
METHODS: dict[str, Named] = {
    "ls-svm": "kaucus:LSSVMClassifier",
    "kmeans-kernel": "kaucus.experiments._digit_methods:raw",
    "kmeans-kernel, all rows": "kaucus.experiments._digit_methods:raw",
    "FFT, kmeans-kernel": "kaucus.experiments._digit_methods:fourier",
    "FFT, kmeans-kernel, all rows": "kaucus.experiments._digit_methods:fourier",
    "patches, kmeans-kernel": "kaucus.experiments._digit_methods:patches",
    "patches, kmeans-kernel, all rows": "kaucus.experiments._digit_methods:patches",
    "patches of 26 x 26, kmeans-kernel, all rows": (
        "kaucus.experiments._digit_methods:patches"
    ),
    "kernel-kmeans-runs": "kaucus.experiments._clustering:ClusterRuns",
    "picked-kernel": "kaucus.experiments._clustering:PickedKernel",
    "kaczmarz-mp as printed": "kaucus.experiments._printed_hybrid:PrintedHybrid",
}

# Functions of (dataset, params, seed, data_home) that return a Measurement, for numbers
# that are not one fit and one prediction, such as a cross-validated grid.
MEASUREMENTS: dict[str, Named] = {
    "svm-grid": "kaucus.experiments._svm_grid:measure_grid",
}

# Functions of (paper, outcome, output folder, data_home) that return what is Derived.
DERIVATIONS: dict[str, Named] = {
    "cluster-rbf": "kaucus.experiments._cluster_rbf_tables:derive",
}


class Measurement(NamedTuple):
    """What a cell's number is, and what it was made from."""

    value: float
    n_rows: int
    seconds: float
    detail: dict[str, Any]
    """For derived tables and figures; plain numbers, lists and texts."""


class Derived(NamedTuple):
    """Tables and figures that are made from a paper's results, not run themselves."""

    markdown: str
    files: list[Path]
    lines: list[str]
    """What to print at the end of a run."""


def check_name(name: str, table: Mapping[str, Any], kind: str = "Method") -> None:
    """Raise a ValueError unless the name is in the table."""
    if name not in table:
        raise ValueError(
            f"{kind} {name!r} is not known; use one of {', '.join(sorted(table))}."
        )


def look_up(
    name: str, table: Mapping[str, Named], kind: str = "Method"
) -> Callable[..., Any]:
    """Return the function or class behind a name.

    Examples
    --------
    >>> look_up("dict", {"dict": "builtins:dict"})
    <class 'dict'>
    """
    check_name(name, table, kind)
    found = table[name]
    if isinstance(found, str):
        module, attribute = found.split(":")
        found = getattr(importlib.import_module(module), attribute)
    return found
