"""The tables of the papers as data, and one runner that reproduces them."""

from kaucus.experiments._data import Split, load_split
from kaucus.experiments._figures import MissingPackageError
from kaucus.experiments._measure import (
    best_of,
    describe_machine,
    peak_memory,
    timed,
)
from kaucus.experiments._registry import (
    MEASUREMENTS,
    METHODS,
    METRICS,
    build_method,
)
from kaucus.experiments._report import (
    HEADERS,
    make_labels,
    markdown_report,
    report_lines,
    report_rows,
    summarise,
)
from kaucus.experiments._runner import Outcome, Settings, run_paper
from kaucus.experiments._spec import (
    Cell,
    Figure,
    Paper,
    SpecError,
    UnknownPaperError,
    list_papers,
    load_paper,
    load_paper_file,
)
from kaucus.experiments._store import ResultStore, StoreError, replace_file

__all__ = [
    "Cell",
    "Figure",
    "HEADERS",
    "MEASUREMENTS",
    "METHODS",
    "METRICS",
    "MissingPackageError",
    "Outcome",
    "Paper",
    "ResultStore",
    "Settings",
    "SpecError",
    "Split",
    "StoreError",
    "UnknownPaperError",
    "best_of",
    "build_method",
    "describe_machine",
    "list_papers",
    "load_paper",
    "load_paper_file",
    "load_split",
    "make_labels",
    "markdown_report",
    "peak_memory",
    "replace_file",
    "report_lines",
    "report_rows",
    "run_paper",
    "summarise",
    "timed",
]
