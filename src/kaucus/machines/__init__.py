"""Kernel machines as pure functions: a problem and a plan in, a model out.

Knows rows, classes and numbers; not estimators, their parameters or their warnings.
"""

from kaucus.machines._cell_metrics import COVARIANCES, cell_covariances
from kaucus.machines._folds import Family
from kaucus.machines._metric import (
    FoundMetric,
    enough_rows,
    only_scaled,
    search_metric,
)
from kaucus.machines._metric_search import MetricOptions
from kaucus.machines._partial import PartialFit
from kaucus.machines._picture_plan import PictureModel, PicturePlan
from kaucus.machines._picture_search import ALTERNATIVES
from kaucus.machines._picture_search import CS as PICTURE_CS
from kaucus.machines._picture_search import GAMMAS as PICTURE_GAMMAS
from kaucus.machines._pictures import fit_pictures, picture_decision_values
from kaucus.machines._problem import Model, Plan, Problem
from kaucus.machines._represented import USUAL_JITTER, fit_represented
from kaucus.machines._sizes import SIZES
from kaucus.machines._targets import (
    NO_UNIT,
    ClassTargets,
    NumberTargets,
    TargetUnit,
    all_classes,
    of_rows,
    one_vs_rest_targets,
)
from kaucus.machines._tuning import (
    AUTO_KERNELS,
    CS,
    GAMMA_FACTORS,
    search_table,
    warn_at_edge,
)
