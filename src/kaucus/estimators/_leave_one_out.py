"""The search for C, and gamma if asked, by leave-one-out over all rows."""

from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    generator_from,
    take_rows,
)
from kaucus.estimators._base import LSSVMBase, indefinite_kernel
from kaucus.estimators._parameters import NONE, SEQUENCE, count, one_of
from kaucus.estimators._progress import share_reporter
from kaucus.kernels import kernels_with_gamma, resolve_gamma
from kaucus.machines import search_table, warn_at_edge
from kaucus.solvers import LOOSearch, search_by_leave_one_out

# To the constant at one end and, to rounding, an interpolation at the other: nothing
# is beyond them. Another C costs little.
_DEFAULT_CS = 10.0 ** np.arange(-5, 10)
_AUTO_GAMMAS = 4.0 ** np.arange(-3, 4)


class LeaveOneOutSearch(LSSVMBase):
    """The search that classifier and regressor share."""

    _parameters: ClassVar = {
        "Cs": SEQUENCE | NONE,
        "gammas": one_of("auto") | SEQUENCE | NONE,
        # One row left out must leave one.
        "max_samples": count(least=2) | NONE,
    }

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.gammas is not None and self.kernel not in kernels_with_gamma():
            raise ValueError(
                f"gammas={self.gammas!r} needs a named kernel that has a gamma, one of "
                f"{kernels_with_gamma()}; kernel={self.kernel!r}. Use gammas=None."
            )

    def _grid_of_C(self) -> np.ndarray:
        return _DEFAULT_CS if self.Cs is None else np.ravel(self.Cs).astype(float)

    def _gammas(self, X, sample_weight) -> list:
        """Return the gammas to try, as numbers."""
        if self.gammas is None:
            return [self.gamma]
        if isinstance(self.gammas, str) and self.gammas == "auto":
            weight = as_like(sample_weight, X)
            middle = resolve_gamma(self.gamma, X, weight, self.kernel)
            return [float(g) for g in middle * _AUTO_GAMMAS]
        return np.ravel(self.gammas).astype(float).tolist()

    def _search(self, X, Y, Cs, score, sample_weight, left_out) -> LOOSearch:
        """Try every gamma and C, and store what was found."""
        gammas = self._gammas(X, sample_weight)
        kernels = [self._resolve_kernel(X, sample_weight, gamma) for gamma in gammas]
        pairs = [self._kernel_and_rows(kernel, X) for kernel in kernels]
        rows = pairs[0][1]
        try:
            # Not in tf32: the eigenvalues of K decide, down to 1/C.
            search = search_by_leave_one_out(
                [kernel for kernel, _ in pairs],
                rows,
                as_like(Y, rows),
                Cs,
                score,
                sample_weight=as_like(sample_weight, rows),
                left_out=as_like(left_out, rows),
                memory_budget=self.memory_budget,
                callback=share_reporter(self.verbose, "pair of gamma and C"),
            )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, max(Cs)) from error
        self.kernel_ = kernels[search.best_kernel]
        self.C_ = search.best_C
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.search_results_ = search_table(kernels, Cs, search.scores)
        self.best_score_ = float(np.nanmax(search.scores))
        self._n_searched = rows.shape[0]
        if not search.solution.info.interrupted:
            if self.Cs is not None:
                warn_at_edge("Cs", Cs, search.scores.max(axis=0))
            if self.gammas is not None:
                warn_at_edge("gammas", gammas, search.scores.max(axis=1))
        return search

    def explain(self):
        """Say in words what the last fit has chosen, among what, and by what.

        Returns
        -------
        str
        """
        check_is_fitted(self, "search_results_")
        table = self.search_results_
        width = "" if self.gamma_ is None else f" and gamma={self.gamma_:.4g}"
        n_widths = len(np.unique(table["gamma"]))
        widths = f" and {n_widths} gammas" if n_widths > 1 else ""
        return (
            f"C={self.C_:g}{width} of {len(np.unique(table['C']))} Cs{widths}, by "
            f"{self.scoring} of {self._n_searched} rows left out one by one "
            f"({self.best_score_:.4g}). solver={self.solver_!r}."
        )

    def _search_and_fit(self, X, data, Cs, score, rows, *, leave_one_out: bool):
        """Search on ``rows`` (None: all), fit on all, and return unseen values.

        Returns
        -------
        loo_decision, loo_rows
            Decision values of models fitted without the row, and which rows.
        """
        if rows is None:
            solution = self._search(X, Cs=Cs, score=score, **data).solution
            self._report(solution.info, self.C_)
            self._store(X, solution)
            return solution.loo_decision, np.arange(X.shape[0])
        part = {name: picked(values, rows) for name, values in data.items()}
        some = take_rows(X, rows)
        if self._precomputed:
            some = take_rows(some.T, rows).T
        if self._search(some, Cs=Cs, score=score, **part).solution.info.interrupted:
            raise KeyboardInterrupt  # the fit of all rows is still to come
        fitted = self._fit_core(
            X, C=self.C_, gamma=self.gamma_, leave_one_out=leave_one_out, **data
        )
        self._store(X, fitted.solution)
        return fitted.solution.loo_decision, fitted.loo_rows

    def _rows_for_search(self, n_samples: int, groups=None) -> np.ndarray | None:
        """Return some rows, of every group, or None for all of them."""
        if self.max_samples is None or n_samples <= self.max_samples:
            return None
        order = generator_from(self.random_state).permutation(n_samples)
        if groups is None:
            return np.sort(order[: self.max_samples])
        # As many of each class as its share, but at least two.
        share = self.max_samples / n_samples
        members = [order[groups[order] == g] for g in np.unique(groups)]
        chosen = [m[: max(2, round(share * len(m)))] for m in members]
        return np.sort(np.concatenate(chosen))


def picked(values, rows):
    return values if values is None or rows is None else values[rows]
