"""A fitted model of representatives: stored, explained, compressed."""

import copy
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import as_like, owned, take_rows, to_numpy, warn_user
from kaucus.estimators._base import LSSVMBase
from kaucus.estimators._kernel_input import in_precision_of, on_device
from kaucus.estimators._metric_options import LearnedImportances
from kaucus.estimators._parameters import POSITIVE
from kaucus.estimators._ranges import check_coefficients
from kaucus.machines import USUAL_JITTER, Model
from kaucus.representatives import Representatives
from kaucus.solvers import LSSVMSolution, SolveInfo, compress_columns


class RepresentedModel(LearnedImportances, LSSVMBase):
    """What a fit on representatives leaves behind, and what can be done with it.

    Attributes
    ----------
    refine_ : {"residual", "random"} or None
        How rows were chosen that became representatives; None: there are none.
    hard_rows_ : ndarray of shape (n_hard_rows,)
        Numbers of the training rows that ``refine`` made representatives; they are the
        last of them.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; in a learned metric, that of rows
        which ``kernel_.row_map`` maps.
    C_ : float
        The C that was used.
    gamma_ : float or None
        The gamma that was used; None for a kernel without one.
    search_results_ : dict of ndarrays
        What was tried for C and gamma, a row for each pair: ``kernel``, ``gamma``,
        ``C`` and ``score``, minus the leave-one-out loss; empty where all were given.
        For ``pandas.DataFrame(model.search_results_)``.
    solver_ : str
        How the least squares were solved.
    """

    _kmeans_options: Any
    _weight_unit = 1.0
    """The ``sample_weight`` that is a weight of 1 in the fit."""

    def _store_model(self, X, model: Model) -> None:
        """Store what was learned, in the kind of ``X``, and warn where it is needed."""
        chosen, solution = model.representatives, model.solution
        self.kernel_, self.C_, self.search_results_ = model[:3]
        self.gamma_ = getattr(model.kernel, "gamma", None)
        self._report_model(chosen, solution.info)
        check_coefficients(solution.dual_coef, self.kernel)
        self.hard_rows_ = as_like(model.hard_rows, X)
        self.refine_ = model.refine
        self.representatives_ = owned(as_like(chosen.points, X))
        self.representative_weights_ = as_like(chosen.weights * self._weight_unit, X)
        self.dual_coef_ = as_like(solution.dual_coef, X)
        self.intercept_ = as_like(solution.intercept, X)
        self.solve_info_ = solution.info
        self.solver_ = solution.info.solver
        self.n_iter_ = max(chosen.n_iter, 1)

    def _as_model(self, X) -> Model:
        """Return the stored model, with its points where rows like ``X`` are fitted."""
        points = on_device(in_precision_of(self.representatives_, X), self.device)
        weights = to_numpy(self.representative_weights_).astype(np.float64)
        weights = weights / self._weight_unit
        labels = self._representative_groups()
        return Model(
            self.kernel_,
            self.C_,
            self.search_results_,
            Representatives(points, labels, weights, self.n_iter_, 0, True),
            LSSVMSolution(
                as_like(self.dual_coef_, points),
                as_like(self.intercept_, points),
                None,
                self.solve_info_,
            ),
            to_numpy(self.hard_rows_),
            self.refine_,
        )

    def _representative_groups(self) -> np.ndarray:
        return np.zeros(self.representatives_.shape[0], dtype=np.int64)

    def _support_rows(self):
        check_is_fitted(self, "representatives_")
        return self.representatives_

    def explain(self):
        """Say in words what the last fit has chosen, and what it is made of.

        Returns
        -------
        str
        """
        check_is_fitted(self, "representatives_")
        n_tried = len(self.search_results_["score"])
        width = "" if self.gamma_ is None else f", gamma={self.gamma_:.4g}"
        name = getattr(self.kernel_, "name", repr(self.kernel_))
        how = "as given"
        if n_tried:
            best = np.max(self.search_results_["score"])
            judges = "rows held out" if self._has_metric else "leave-one-out"
            how = f"of {n_tried} pairs tried by {judges} (loss {-best:.4g})"
        n_hard = len(self.hard_rows_)
        hard = f", {n_hard} of them hard training rows" if n_hard else ""
        return (
            f"kernel={name!r}{width}, C={self.C_:g}: {how}. "
            f"{self.representatives_.shape[0]} representatives{hard}. "
            f"solver={self.solver_!r}.{self._metric_text()}"
        )

    def compress(self, tol, X=None):
        """Return a smaller model of nearly the same decision values.

        Representatives that others can stand in for are dropped, and the coefficients
        of the rest solved for anew, so that no decision value (prediction, for a
        regressor) of the given rows changes by more than ``tol``.

        Parameters
        ----------
        tol : float
            The largest change; a classifier's targets are ±1, a regressor's are those
            of ``y``.
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Rows for which that holds, such as the training rows or some thousands of
            them; None: the representatives.

        Returns
        -------
        compressed : estimator
            A copy; the model itself stays as it is.

        Notes
        -----
        2 n m² multiplications for n rows and m representatives, in float64.
        """
        check_is_fitted(self, "representatives_")
        POSITIVE.advise("Try 0.01.").check("tol", tol)
        points = self.representatives_
        rows = points if X is None else self._validate(X, reset=False)
        K = to_numpy(self.kernel_(rows, as_like(points, rows))).astype(np.float64)
        coef, intercept = to_numpy(self.dual_coef_), to_numpy(self.intercept_)
        small = compress_columns(K, coef, intercept, float(tol))
        model = copy.copy(self)
        model._keep(small.kept)
        model._stream = None  # of the representatives there were
        model._remember(None, "the model was compressed")
        model.dual_coef_ = as_like(small.dual_coef, points)
        model.intercept_ = as_like(small.intercept, points)
        return model

    def _keep(self, kept: np.ndarray) -> None:
        """Forget representatives; those kept stand for the rows of the others."""
        hard_rows = to_numpy(self.hard_rows_)
        n_first = self.representatives_.shape[0] - len(hard_rows)
        weights, points = to_numpy(self.representative_weights_), self.representatives_
        hard_rows = hard_rows[kept[kept >= n_first] - n_first]
        self.hard_rows_ = as_like(hard_rows, points)
        share = weights.sum() / max(weights[kept].sum(), 1e-300)
        self.representative_weights_ = as_like(weights[kept] * share, points)
        self.representatives_ = take_rows(points, kept)

    # ---- warnings --------------------------------------------------------------------

    def _report_model(self, chosen: Representatives, info: SolveInfo) -> None:
        if not chosen.converged:
            max_iter = self._kmeans_options["max_iter"]
            warn_user(
                f"k-means stopped after max_iter={max_iter} steps before the centres "
                "came to rest; increase max_iter or tol in kmeans_params.",
                ConvergenceWarning,
            )
        if info.solver == "normal_equations":
            self._report_least_squares(info)
        else:
            self._report(info, self.C_)

    def _report_least_squares(self, info: SolveInfo) -> None:
        if info.relative_jitter > USUAL_JITTER[info.precision]:
            warn_user(
                f"The normal equations are singular in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to their diagonal. Lower "
                "C, use fewer representatives, or pass float64 rows.",
                LinAlgWarning,
            )
