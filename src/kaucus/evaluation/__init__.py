"""Predictions in; metrics, timings, tables and figures out."""

from kaucus.evaluation._clustering import clustering_accuracy
from kaucus.evaluation._compare_kernels import compare_kernels, default_kernels
from kaucus.evaluation._grid_search import (
    C_GRID,
    GAMMA_GRID,
    GammaCSearch,
    grid_search_gamma_C,
)
from kaucus.evaluation._kernel_comparison import KernelComparison, KernelScore
from kaucus.evaluation._machine import describe_machine
from kaucus.evaluation._tables import (
    format_seconds,
    format_table,
    markdown_table,
    print_table,
)
from kaucus.evaluation._timing import (
    IsolatedRun,
    MemoryUse,
    Stopwatch,
    best_of,
    peak_memory,
    run_isolated,
    timed,
)
from kaucus.evaluation._tunability import (
    TunabilityCurve,
    TunabilityDisplay,
    tunability_auc,
    tunability_curve,
)

__all__ = [
    "C_GRID",
    "GAMMA_GRID",
    "GammaCSearch",
    "IsolatedRun",
    "KernelComparison",
    "KernelScore",
    "MemoryUse",
    "Stopwatch",
    "TunabilityCurve",
    "TunabilityDisplay",
    "best_of",
    "clustering_accuracy",
    "compare_kernels",
    "default_kernels",
    "describe_machine",
    "format_seconds",
    "format_table",
    "grid_search_gamma_C",
    "markdown_table",
    "peak_memory",
    "print_table",
    "run_isolated",
    "timed",
    "tunability_auc",
    "tunability_curve",
]
