"""Metrics, searches over C and gamma, comparisons of kernels, displays.

``__all__`` is what users may rely on; tables as text, colours, times and memory serve
the package's own reports.
"""

from kaucus.evaluation._clustering import clustering_accuracy
from kaucus.evaluation._compare_kernels import compare_kernels, default_kernels
from kaucus.evaluation._coverage_displays import CoverageDisplay, SetSizeDisplay
from kaucus.evaluation._displays import HistoryDisplay, SearchDisplay
from kaucus.evaluation._drawing import COLOURS, figure_file
from kaucus.evaluation._grid_search import (
    C_GRID,
    GAMMA_GRID,
    GammaCSearch,
    grid_search_gamma_C,
)
from kaucus.evaluation._interval_display import IntervalDisplay
from kaucus.evaluation._kernel_comparison import (
    KernelComparison,
    KernelComparisonDisplay,
    KernelScore,
)
from kaucus.evaluation._measure import best_of, peak_memory, timed
from kaucus.evaluation._representatives_display import (
    RepresentativesDisplay,
    picture_sheet,
)
from kaucus.evaluation._tables import (
    format_seconds,
    format_table,
    markdown_table,
    print_table,
)
from kaucus.evaluation._tunability import (
    TunabilityCurve,
    TunabilityDisplay,
    tunability_auc,
    tunability_curve,
)

__all__ = [
    "C_GRID",
    "CoverageDisplay",
    "GAMMA_GRID",
    "GammaCSearch",
    "HistoryDisplay",
    "IntervalDisplay",
    "KernelComparison",
    "KernelComparisonDisplay",
    "KernelScore",
    "SetSizeDisplay",
    "RepresentativesDisplay",
    "SearchDisplay",
    "TunabilityCurve",
    "TunabilityDisplay",
    "clustering_accuracy",
    "compare_kernels",
    "default_kernels",
    "grid_search_gamma_C",
    "tunability_auc",
    "tunability_curve",
]
