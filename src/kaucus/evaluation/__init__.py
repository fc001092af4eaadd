"""Metrics, searches over C and gamma, comparisons of kernels, displays.

``__all__`` is what users may rely on; tables as text, colours, times and memory serve
the package's own reports.
"""

from kaucus.evaluation.clustering import (
    KernelComparison,
    KernelComparisonDisplay,
    KernelScore,
    clustering_accuracy,
    compare_kernels,
    default_kernels,
)
from kaucus.evaluation.displays import (
    CoverageDisplay,
    HistoryDisplay,
    IntervalDisplay,
    RepresentativesDisplay,
    SearchDisplay,
    SetSizeDisplay,
)
from kaucus.evaluation.tunability import (
    C_GRID,
    GAMMA_GRID,
    GammaCSearch,
    TunabilityCurve,
    TunabilityDisplay,
    grid_search_gamma_C,
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
    "RepresentativesDisplay",
    "SearchDisplay",
    "SetSizeDisplay",
    "TunabilityCurve",
    "TunabilityDisplay",
    "clustering_accuracy",
    "compare_kernels",
    "default_kernels",
    "grid_search_gamma_C",
    "tunability_auc",
    "tunability_curve",
]
