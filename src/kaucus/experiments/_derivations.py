"""Tables and figures that are made from a paper's results, not run themselves."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Derived(NamedTuple):
    """What a derivation adds to a report."""

    markdown: str
    files: list[Path]
    lines: list[str]
    """What to print at the end of a run."""


# One line per paper: a function of (paper, outcome, output folder, data_home).
DERIVATIONS: dict[str, str | Callable[..., Derived]] = {
    "cluster-rbf": "kaucus.experiments._cluster_rbf_tables:derive",
}


def derive(name: str, *arguments: Any) -> Derived:
    """Run a derivation by its name; an empty name derives nothing."""
    if not name:
        return Derived("", [], [])
    if name not in DERIVATIONS:
        raise ValueError(
            f"derive = {name!r} is not known; use one of {', '.join(DERIVATIONS)}."
        )
    function = DERIVATIONS[name]
    if isinstance(function, str):
        module, attribute = function.split(":")
        function = getattr(importlib.import_module(module), attribute)
    return function(*arguments)
