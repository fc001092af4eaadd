"""What the k-means kernel classifier and regressor share.

Cluster the rows, fit the kernel columns of the centres by least squares, store; what
the targets are, and what is clustered with what, the subclasses say.
"""

import sys
import warnings

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import dense_rows, to_numpy
from kaucus.estimators._base import LSSVMBase
from kaucus.estimators._kernel_input import beside
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._validation import check_choice, check_count, check_positive
from kaucus.representatives import (
    METRICS,
    KMeansOptions,
    Representatives,
    represent_classes,
    with_rows,
)
from kaucus.solvers import (
    LSSVMSolution,
    solve_on_representatives,
    solve_with_hard_rows,
)

INITS = ("random", "k-means++")
REFINEMENTS = (None, "residual")
# More on the diagonal than this, relative to its mean, is worth a warning.
_USUAL_JITTER = {"float64": 1e-9, "float32": 1e-5}


class RepresentativesBase(LSSVMBase):
    """Representatives by k-means, and least squares of rows on their columns."""

    def _represent(self, rows, groups, numbers, weight, *, rng, old=None):
        """Cluster each group of rows by itself."""
        chosen = represent_classes(
            rows,
            groups,
            numbers,
            options=KMeansOptions(
                self.metric, self.init, self.n_init, self.max_iter, self.tol
            ),
            sample_weight=weight,
            old=None if old is None else old._replace(points=beside(rows, old.points)),
            rng=rng,
            memory_budget=self.memory_budget,
            callback=share_reporter(self.verbose, self._what_is_clustered),
        )
        self._report_clustering(chosen)
        return chosen

    def _least_squares(self, rows, Y, chosen, weight, shares, loo_rows, hardness):
        """Fit the columns of the representatives, and of hard rows, to all rows.

        ``hardness`` orders the rows where ``refine`` asks for hard ones; None is none.

        Returns
        -------
        solution, hard_rows
        """
        points = chosen.points
        options = {
            "C": self.C,
            "sample_weight": beside(points, weight),
            "left_out": beside(points, shares),
            "loo_rows": loo_rows,
            "memory_budget": self.memory_budget,
            "callback": share_reporter(self.verbose, "row"),
        }
        Y = beside(points, Y)
        additions = self._additions(points.shape[0], rows.shape[0])
        if hardness is None or not additions:
            solution = solve_on_representatives(
                self.kernel_, rows, Y, points, **options
            )
            hard_rows = np.empty(0, dtype=np.int64)
        else:
            solution, hard_rows = solve_with_hard_rows(
                self.kernel_, rows, Y, points, additions, hardness, **options
            )
        self._report_least_squares(solution.info)
        return solution, hard_rows

    def _additions(self, n_first: int, n_rows: int) -> list[int]:
        """Return how many hard rows each round adds."""
        if self.refine is None:
            return []
        wanted = 2 * n_first if self.n_refine is None else self.n_refine
        parts = np.array_split(np.arange(min(wanted, n_rows)), self.refine_rounds)
        return [len(part) for part in parts if len(part)]

    def _with_hard_rows(self, chosen, rows, groups, weight, hard_rows):
        """Return the representatives with the hard rows among them."""
        weights = np.ones(len(groups)) if weight is None else weight
        return with_rows(
            chosen, dense_rows(rows, hard_rows), groups[hard_rows], weights[hard_rows]
        )

    def _store_model(
        self, chosen: Representatives, solution: LSSVMSolution, hard_rows
    ) -> None:
        self.hard_rows_ = hard_rows
        self.representatives_ = to_numpy(chosen.points)
        self.representative_weights_ = chosen.weights
        self.dual_coef_ = to_numpy(solution.dual_coef)
        self.intercept_ = to_numpy(solution.intercept)
        self.solve_info_ = solution.info
        self.solver_ = solution.info.solver
        self.n_iter_ = max(chosen.n_iter, 1)

    def _support_rows(self):
        check_is_fitted(self, "representatives_")
        return self.representatives_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False  # there must be rows to cluster
        return tags

    def _check_parameters(self) -> None:
        """Check everything that can be wrong before the data is looked at."""
        if self._precomputed:
            raise ValueError(
                "kernel='precomputed' has no rows to cluster; pass the rows and a "
                f"kernel, or use {self._takes_matrices}(kernel='precomputed')."
            )
        self._check_kernel_parameters()
        check_positive("C", self.C, remedy="Try 1.0; larger fits closer.")
        check_choice("metric", self.metric, METRICS)
        check_choice("init", self.init, INITS)
        check_count("n_init", self.n_init)
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)
        check_choice("refine", self.refine, REFINEMENTS)
        check_count("refine_rounds", self.refine_rounds)
        if self.n_refine is not None:
            check_count("n_refine", self.n_refine)

    def _report_clustering(self, chosen: Representatives) -> None:
        if chosen.interrupted:
            _warn_user(
                "Interrupted while clustering; the representatives so far are kept.",
                ConvergenceWarning,
            )
        elif not chosen.converged:
            _warn_user(
                f"k-means stopped after max_iter={self.max_iter} steps before the "
                "centres came to rest; increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _report_least_squares(self, info) -> None:
        if info.interrupted:
            _warn_user(
                "Interrupted; the coefficients are those of the rows seen so far.",
                ConvergenceWarning,
            )
        elif not info.converged:
            _warn_user(
                f"Conjugate gradients stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e}. Lower C, or use fewer "
                "representatives, which are solved for directly.",
                ConvergenceWarning,
            )
        if info.relative_jitter > _USUAL_JITTER[info.precision]:
            _warn_user(
                f"The normal equations are singular in {info.precision} at "
                f"C={self.C:g}; {info.jitter:.1e} was added to their diagonal. Lower "
                "C, use fewer representatives, or pass float64 rows.",
                LinAlgWarning,
            )


def _warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into this package, however deep we are."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals["__name__"].startswith("kaucus."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
