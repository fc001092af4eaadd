"""The tables of the papers as data, and one runner that reproduces them."""

from kaucus.contract import MissingPackageError
from kaucus.experiments._data import Split, load_split
from kaucus.experiments._measure import best_of, describe_machine, peak_memory, timed
from kaucus.experiments._picture_figures import draw_picture_model
from kaucus.experiments._runner import Settings, run_paper
from kaucus.experiments._spec import (
    SpecError,
    UnknownPaperError,
    list_papers,
    load_paper,
)
from kaucus.experiments._store import StoreError, replace_file

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
    "peak_memory",
    "replace_file",
    "run_paper",
    "timed",
]
