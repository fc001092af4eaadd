"""The tables of the papers as data, and one runner that computes them.

A part of the repository, not of the package: ``python -m papers NAME`` in a checkout.
"""

from kaucus._base import MissingPackageError
from kaucus.evaluation.clustering import best_of, peak_memory, timed
from papers._data import Split, load_split
from papers._machine import describe_machine
from papers._picture_figures import draw_picture_model
from papers._runner import Settings, run_paper
from papers._spec import (
    SpecError,
    UnknownPaperError,
    list_papers,
    load_paper,
)
from papers._store import StoreError, one_line_each, replace_file

__all__ = [
    "MissingPackageError",
    "Settings",
    "SpecError",
    "Split",
    "StoreError",
    "UnknownPaperError",
    "best_of",
    "describe_machine",
    "draw_picture_model",
    "list_papers",
    "load_paper",
    "load_split",
    "one_line_each",
    "peak_memory",
    "replace_file",
    "run_paper",
    "timed",
]
