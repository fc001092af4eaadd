"""What every LS-SVM estimator shares: rows in, core called, attributes stored."""

import sys
from typing import ClassVar

from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    astype,
    dtype_name,
    generator_from,
    owned,
    products_in,
    warn_user,
)
from kaucus.contract import ExportsONNX, FollowsX
from kaucus.estimators._kernel_input import (
    KernelInputMixin,
    map_rows,
    place_support,
)
from kaucus.estimators._parameters import POSITIVE, count, one_of
from kaucus.estimators._progress import step_reporter
from kaucus.estimators._ranges import check_coefficients
from kaucus.kernels import kernel_expansion
from kaucus.solvers import (
    FitResult,
    LSSVMSolution,
    SolveInfo,
    fit_ls_svm,
)

# Of every estimator; those with blocks have more.
SOLVERS = ("auto", "cholesky", "cg")


class LSSVMBase(ExportsONNX, FollowsX, KernelInputMixin, BaseEstimator):
    """Kernel, solver and prediction; subclasses say what the targets are.

    Parameters
    ----------
    precision : {None, "float64", "float32", "tf32"}
        What rows are cast to; None works in their own precision. Results have it, but
        for predictions of numbers, which are float64, as are sums and solves that need
        it. ``"tf32"`` is float32 with faster, coarser products of rows in the kernel
        on CUDA, where C allows it.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_targets,)
        b.
    solve_info_ : SolveInfo
        Precision, jitter and residual of the solution.
    """

    _parameters: ClassVar = {
        "tol": POSITIVE,
        "max_iter": count(),
        "solver": one_of(*SOLVERS),
    }

    def _fit_core(
        self,
        X,
        Y,
        C,
        sample_weight,
        *,
        leave_one_out: bool,
        kernel=None,
        options=None,
    ) -> FitResult:
        """Solve on the device, and say what ran; ``options`` go to the solver."""
        if kernel is None:
            kernel = self._resolve_kernel(X, sample_weight)
        self.kernel_ = kernel
        kernel, rows = self._kernel_and_rows(self.kernel_, X)
        try:
            with products_in(self.precision):
                fitted = fit_ls_svm(
                    kernel,
                    rows,
                    as_like(Y, rows),
                    C=C,
                    sample_weight=as_like(sample_weight, rows),
                    solver=self.solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    memory_budget=self.memory_budget,
                    leave_one_out=leave_one_out,
                    rng=generator_from(self.random_state),
                    callback=step_reporter(self.verbose, self.tol, self.max_iter),
                    **(options or {}),
                )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, C) from error
        if self.verbose:
            print(f"[kaucus] {fitted.plan.reason}", file=sys.stderr)
        self._report(fitted.solution.info, C)
        return fitted

    def _report(self, info: SolveInfo, C: float) -> None:
        """Store what ran, and warn once where the user must know."""
        self.solver_, self.n_iter_ = info.solver, max(info.n_iter, 1)
        self.solve_info_ = info
        if info.jitter > 0:
            warn_user(
                f"K + I/C is not positive definite in {info.precision} at C={C:g}; "
                f"{info.jitter:.1e} was added to its diagonal. Lower C to at most "
                f"{1 / info.jitter:.0e}, or take out repeated rows.",
                LinAlgWarning,
            )
        if info.n_fallbacks:
            warn_user(
                f"In {info.n_fallbacks} of {info.n_iter} steps rows of the block "
                "repeated each other, and its pseudo-inverse was found by eigenvalues, "
                "which is slower. Take out repeated rows, or lower C.",
                LinAlgWarning,
            )
        if not info.converged and info.stop != "callback":
            warn_user(
                f"{info.solver} stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e} (tol={self.tol:g}). Increase "
                "max_iter, lower C, or use solver='cholesky'.",
                ConvergenceWarning,
            )

    def _store(self, X, solution: LSSVMSolution) -> None:
        check_coefficients(solution.dual_coef, self.kernel)
        vars(self).pop("_iterate", None)
        self.dual_coef_ = as_like(solution.dual_coef, X)
        self.intercept_ = as_like(solution.intercept, X)
        if not self._precomputed:
            self.X_fit_ = owned(X)

    def _support_rows(self):
        """Return the rows whose kernel columns the model is made of."""
        return self.X_fit_

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t), in the kind of ``X``, and its precision or ``dtype``."""
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        if self._precomputed:
            values = astype(X, "float64") @ as_like(self.dual_coef_, X)
            values = values + as_like(self.intercept_, X)[None, :]
        else:
            values = map_rows(
                self._values_on_device, X, self.device, self.memory_budget
            )
        return astype(values, dtype_name(X) if dtype is None else dtype)

    def _values_on_device(self, rows):
        """Return f(x) of checked rows on their device, (n, t), in float64."""
        support = place_support(
            self._support_rows(), rows, self.device, self.memory_budget
        )
        with products_in(self.precision):
            sums = kernel_expansion(
                self.kernel_,
                rows,
                support,
                as_like(self.dual_coef_, rows),
                memory_budget=self.memory_budget,
            )
        return sums + as_like(self.intercept_, rows)[None, :]


def indefinite_kernel(kernel, C: float) -> ValueError:
    remedy = (
        "Use a positive semidefinite kernel ('rbf', 'exponential', 'cauchy', "
        "'laplacian', 'linear', 'cosine', 'poly' with coef0 of zero or more), or "
        "lower C."
    )
    if isinstance(kernel, str) and kernel == "precomputed":
        remedy = "Shift its eigenvalues, K + λ I, or lower C."
    return ValueError(
        f"K + I/C is indefinite at C={C:g}: kernel={kernel!r} is not positive "
        f"semidefinite on this data. {remedy}"
    )
