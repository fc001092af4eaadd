"""A linear system, or its action, in; coefficients out.

Knows matrices, kernels and right-hand sides; not data sets, classes or models.
"""

from kaucus.solvers._boundary import NearBoundary, rows_near_boundary
from kaucus.solvers._compress import compress_columns
from kaucus.solvers._conformal import (
    check_enough_rows,
    class_scores,
    conformal_quantiles,
    left_out_intervals,
    left_out_sets,
    split_sets,
    symmetric_intervals,
)
from kaucus.solvers._equations import RowData
from kaucus.solvers._few_columns import ColumnModels, solve_for_each_C
from kaucus.solvers._fit import FitResult, fit_ls_svm
from kaucus.solvers._growing import (
    GrownSolution,
    Hardness,
    Judge,
    margin_hardness,
    random_hardness,
    residual_hardness,
    solve_with_hard_rows,
)
from kaucus.solvers._grown_columns import (
    columns_bytes,
    columns_can_be_kept,
    rows_of_kept_columns,
)
from kaucus.solvers._left_out import ExactLeftOut, LeftOutRows, leave_out_rows
from kaucus.solvers._left_out_on_representatives import (
    LeftOutModels,
    RepresentedLeftOut,
    leave_out_on_representatives,
    move_left_out,
)
from kaucus.solvers._loo_search import LOOSearch, search_by_leave_one_out
from kaucus.solvers._low_rank import (
    RunningSums,
    add_rows,
    solve_on_representatives,
    solve_running,
)
from kaucus.solvers._low_rank_search import (
    affordable_search,
    search_on_representatives,
)
from kaucus.solvers._ls_svm import solve_ls_svm
from kaucus.solvers._plan import plan_ls_svm
from kaucus.solvers._result import (
    Callback,
    Interrupted,
    LSSVMSolution,
    SolveInfo,
    Validation,
)
from kaucus.solvers._scores import (
    classification_score,
    fit_shift,
    fit_temperature,
    log_losses,
    log_losses_of_rows,
    regression_score,
    softmax,
    sum_of_exponentials,
    two_columns,
)
from kaucus.solvers._systems import RANDOMIZED, Start
