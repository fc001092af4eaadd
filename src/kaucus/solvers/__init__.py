"""A linear system, or its action, in; coefficients out.

Knows matrices, kernels and right-hand sides; not data sets, classes or models.
"""

from kaucus.solvers._boundary import NearBoundary, rows_near_boundary
from kaucus.solvers._calibration import (
    fit_shift,
    fit_temperature,
    softmax,
    sum_of_exponentials,
    two_columns,
)
from kaucus.solvers._cg import conjugate_gradient, operator_norm
from kaucus.solvers._checkpoint import CheckpointError
from kaucus.solvers._compress import Compressed, compress_columns
from kaucus.solvers._fit import FitResult, fit_ls_svm
from kaucus.solvers._growing import (
    GrownSolution,
    Judge,
    margin_hardness,
    random_hardness,
    residual_hardness,
    solve_with_hard_rows,
)
from kaucus.solvers._grown_columns import columns_bytes
from kaucus.solvers._history import StepState, Validation, Watch
from kaucus.solvers._iterative import solve_ls_svm_cg
from kaucus.solvers._low_rank import RowData, solve_on_representatives
from kaucus.solvers._low_rank_search import (
    LowRankSearch,
    affordable_search,
    search_on_representatives,
)
from kaucus.solvers._ls_svm import solve_ls_svm
from kaucus.solvers._path import LSSVMSpectrum, decompose_ls_svm, solve_at
from kaucus.solvers._plan import Plan, plan_ls_svm
from kaucus.solvers._randomized import RandomizedResult, solve_ls_svm_randomized
from kaucus.solvers._result import CGResult, LSSVMSolution, SolveInfo
from kaucus.solvers._running import RunningSums, add_rows, solve_running
from kaucus.solvers._scores import (
    Score,
    classification_score,
    log_losses,
    regression_score,
)
from kaucus.solvers._search import LOOSearch, search_by_leave_one_out
from kaucus.solvers._systems import RANDOMIZED, Start

__all__ = [
    "CGResult",
    "CheckpointError",
    "Compressed",
    "FitResult",
    "GrownSolution",
    "Judge",
    "LOOSearch",
    "LSSVMSolution",
    "LSSVMSpectrum",
    "LowRankSearch",
    "NearBoundary",
    "Plan",
    "RANDOMIZED",
    "RandomizedResult",
    "RowData",
    "RunningSums",
    "Score",
    "SolveInfo",
    "Start",
    "StepState",
    "Validation",
    "Watch",
    "add_rows",
    "affordable_search",
    "classification_score",
    "columns_bytes",
    "compress_columns",
    "conjugate_gradient",
    "decompose_ls_svm",
    "fit_ls_svm",
    "fit_shift",
    "fit_temperature",
    "log_losses",
    "margin_hardness",
    "operator_norm",
    "plan_ls_svm",
    "random_hardness",
    "regression_score",
    "residual_hardness",
    "rows_near_boundary",
    "search_by_leave_one_out",
    "search_on_representatives",
    "softmax",
    "solve_at",
    "solve_ls_svm",
    "solve_ls_svm_cg",
    "solve_on_representatives",
    "solve_ls_svm_randomized",
    "solve_running",
    "solve_with_hard_rows",
    "sum_of_exponentials",
    "two_columns",
]
