"""What every LS-SVM estimator shares: rows in, core called, attributes stored."""

import sys
import warnings

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgWarning
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    generator_from,
    parse_bytes,
    to_device,
    to_numpy,
)
from kaucus.estimators._progress import step_reporter
from kaucus.estimators._validation import (
    check_choice,
    check_count,
    check_finite,
    check_positive,
    check_precomputed,
)
from kaucus.kernels import KernelOperator, Precomputed, resolve_gamma, resolve_kernel
from kaucus.solvers import FitResult, LSSVMSolution, SolveInfo, fit_ls_svm

# Of every estimator; those with blocks have more.
SOLVERS = ("auto", "cholesky", "cg")


class LSSVMBase(BaseEstimator):
    """Kernel, solver and prediction; subclasses say what the targets are."""

    _solvers = SOLVERS

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return ``X`` (and ``y``) as float arrays, CSR where they were sparse."""
        if self._precomputed and not reset:
            self._check_width(X)
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse=False if self._precomputed else "csr",
            dtype=(np.float64, np.float32),
            **options,
        )

    def _check_width(self, K) -> None:
        width = np.shape(K)[1:]
        if len(width) == 1 and width[0] != self.n_features_in_:
            raise ValueError(
                f"kernel='precomputed' needs k(X_new, X_fit), one column for each of "
                f"the {self.n_features_in_} training rows, got shape {np.shape(K)}."
            )

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_parameters(self) -> None:
        """Check everything that can be wrong before the data is looked at."""
        if not isinstance(self.gamma, str):
            check_positive("gamma", self.gamma, remedy="Or pass 'scale' or 'auto'.")
        check_count("degree", self.degree)
        check_finite("coef0", self.coef0)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_choice("solver", self.solver, self._solvers)
        if self.memory_budget is not None:
            parse_bytes(self.memory_budget)
        if not isinstance(self.random_state, np.random.RandomState):
            generator_from(self.random_state)  # advances nothing

    def _resolve_kernel(self, X, sample_weight, gamma=None):
        """Return the kernel object, with gamma as a number; None if precomputed."""
        if self._precomputed:
            check_precomputed(X)
            return None
        gamma = self.gamma if gamma is None else gamma
        kernel = resolve_kernel(
            self.kernel,
            gamma=resolve_gamma(gamma, X, sample_weight),
            degree=self.degree,
            coef0=self.coef0,
        )
        kernel(X[:2], X[:3])  # a function of the user's: does it return a matrix?
        return kernel

    def _fit_core(
        self,
        X,
        Y,
        C,
        sample_weight,
        left_out,
        *,
        leave_one_out: bool,
        gamma=None,
        options=None,
    ) -> FitResult:
        """Solve on the device, and say what ran; ``options`` go to the solver."""
        self.kernel_ = self._resolve_kernel(X, sample_weight, gamma)
        kernel, rows = self._kernel_and_rows(self.kernel_, X)
        try:
            fitted = fit_ls_svm(
                kernel,
                rows,
                beside(rows, Y),
                C=C,
                sample_weight=beside(rows, sample_weight),
                left_out=beside(rows, left_out),
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

    def _kernel_and_rows(self, kernel, X):
        """Return kernel and rows on the device; row numbers for a given matrix."""
        rows = on_device(X, self.device)
        if kernel is not None:
            return kernel, rows
        kernel = Precomputed(rows)
        return kernel, kernel.row_numbers()

    def _report(self, info: SolveInfo, C: float) -> None:
        """Store what ran, and warn once where the user must know."""
        self.solver_, self.n_iter_ = info.solver, max(info.n_iter, 1)
        self.solve_info_ = info
        if info.jitter > 0:
            warnings.warn(
                f"K + I/C is not positive definite in {info.precision} at C={C:g}; "
                f"{info.jitter:.1e} was added to its diagonal. Lower C to at most "
                f"{1 / info.jitter:.0e}, or take out repeated rows.",
                LinAlgWarning,
                stacklevel=4,
            )
        if info.n_fallbacks:
            warnings.warn(
                f"In {info.n_fallbacks} of {info.n_iter} steps rows of the block "
                "repeated each other, and its pseudo-inverse was found by eigenvalues, "
                "which is slower. Take out repeated rows, or lower C.",
                LinAlgWarning,
                stacklevel=4,
            )
        if info.interrupted:
            warnings.warn(
                f"Interrupted after {info.n_iter} steps; the best coefficients so "
                f"far are kept (relative residual {info.backward_error:.1e}).",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not info.converged and info.stop != "callback":
            warnings.warn(
                f"{info.solver} stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e} (tol={self.tol:g}). Increase "
                "max_iter, lower C, or use solver='cholesky'.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _store(self, X, solution: LSSVMSolution) -> None:
        self.dual_coef_ = to_numpy(solution.dual_coef)
        self.intercept_ = to_numpy(solution.intercept)
        if not self._precomputed:
            self.X_fit_ = X

    def _decision_values(self, X) -> np.ndarray:
        """Return f(x) for every right-hand side, (n, t), in the precision of ``X``."""
        check_is_fitted(self, "dual_coef_")
        X = self._validate(X, reset=False)
        if self._precomputed:
            values = X @ self.dual_coef_ + self.intercept_
            return values.astype(X.dtype, copy=False)
        rows, fitted = on_device(X, self.device), on_device(self.X_fit_, self.device)
        operator = KernelOperator(
            self.kernel_,
            rows,
            _in_precision_of(fitted, rows),
            memory_budget=self.memory_budget,
            store=False,
        )
        products = operator.matmul(beside(rows, self.dual_coef_))
        values = to_numpy(products) + self.intercept_
        return values.astype(X.dtype, copy=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags


def on_device(X, device):
    """Return ``X`` on the device; CSR matrices stay on the host."""
    if scipy.sparse.issparse(X):
        if device not in (None, "cpu"):
            raise ValueError(
                f"device={device!r} takes dense data only; X is sparse. Use "
                "device=None, or X.toarray()."
            )
        return X
    return to_device(X, device)


def beside(rows, values):
    """Return ``values`` in the library and on the device of ``rows``."""
    if values is None or scipy.sparse.issparse(rows):
        return values
    return as_like(values, rows)


def _in_precision_of(fitted, X):
    """Bring the training rows to the precision of the rows to predict, if wider."""
    if fitted.dtype == X.dtype:
        return fitted
    return fitted.astype(X.dtype) if hasattr(fitted, "astype") else fitted.to(X.dtype)


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
