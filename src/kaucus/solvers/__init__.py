"""A linear system, or its action, in; coefficients out.

Knows matrices, kernels and right-hand sides; not data sets, classes or models.
"""

from kaucus.representatives import randomly_pivoted_cholesky
from kaucus.solvers._calibration import (
    fit_temperature,
    softmax,
    sum_of_exponentials,
    two_columns,
)
from kaucus.solvers._cg import conjugate_gradient, operator_norm
from kaucus.solvers._fit import FitResult, Plan, fit_ls_svm, plan_ls_svm
from kaucus.solvers._iterative import solve_ls_svm_cg
from kaucus.solvers._low_rank import solve_on_representatives
from kaucus.solvers._ls_svm import solve_ls_svm
from kaucus.solvers._path import LSSVMSpectrum, decompose_ls_svm, solve_at
from kaucus.solvers._result import CGResult, LSSVMSolution, SolveInfo
from kaucus.solvers._scores import Score, classification_score, regression_score
from kaucus.solvers._search import LOOSearch, search_by_leave_one_out

__all__ = [
    "CGResult",
    "FitResult",
    "LOOSearch",
    "LSSVMSolution",
    "LSSVMSpectrum",
    "Plan",
    "Score",
    "SolveInfo",
    "classification_score",
    "conjugate_gradient",
    "decompose_ls_svm",
    "fit_ls_svm",
    "fit_temperature",
    "operator_norm",
    "plan_ls_svm",
    "randomly_pivoted_cholesky",
    "regression_score",
    "search_by_leave_one_out",
    "softmax",
    "solve_at",
    "solve_ls_svm",
    "solve_ls_svm_cg",
    "solve_on_representatives",
    "sum_of_exponentials",
    "two_columns",
]
