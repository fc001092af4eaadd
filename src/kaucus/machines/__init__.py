"""Kernel machines as pure functions: a problem and a plan in, a model out.

Knows rows, classes and numbers; not estimators, their parameters or their warnings.
"""

from kaucus.machines._partial import PartialFit
from kaucus.machines._problem import Model, Plan, Problem, Unseen
from kaucus.machines._represented import USUAL_JITTER, fit_represented
from kaucus.machines._sizes import SIZES
from kaucus.machines._stream import Stream
from kaucus.machines._targets import (
    ClassTargets,
    NumberTargets,
    all_classes,
    left_out_shares,
    one_vs_rest_targets,
)
from kaucus.machines._tuning import (
    AUTO_KERNELS,
    CS,
    GAMMA_FACTORS,
    gamma_of,
    rising_end,
    search_table,
    warn_at_edge,
)

__all__ = [
    "AUTO_KERNELS",
    "CS",
    "GAMMA_FACTORS",
    "SIZES",
    "USUAL_JITTER",
    "ClassTargets",
    "Model",
    "NumberTargets",
    "PartialFit",
    "Plan",
    "Problem",
    "Stream",
    "Unseen",
    "all_classes",
    "fit_represented",
    "gamma_of",
    "left_out_shares",
    "one_vs_rest_targets",
    "rising_end",
    "search_table",
    "warn_at_edge",
]
