"""The tables of the papers as data, and one runner that reproduces them."""

from kaucus.experiments._data import Split, load_split
from kaucus.experiments._figures import draw_curve
from kaucus.experiments._measure import (
    MemoryUse,
    best_of,
    describe_machine,
    peak_memory,
    timed,
)
from kaucus.experiments._methods import build_method
from kaucus.experiments._metrics import METRICS, Metric
from kaucus.experiments._optional import MissingPackageError
from kaucus.experiments._registry import (
    DERIVATIONS,
    MEASUREMENTS,
    METHODS,
    Derived,
    Measurement,
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
    "DERIVATIONS",
    "Derived",
    "Figure",
    "HEADERS",
    "MEASUREMENTS",
    "METHODS",
    "METRICS",
    "Measurement",
    "MemoryUse",
    "Metric",
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
    "draw_curve",
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
