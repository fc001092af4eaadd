"""The search for C, and gamma if asked, by leave-one-out over all rows."""

from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    generator_from,
    take_rows,
    to_numpy,
)
from kaucus.estimators._base import LSSVMBase, indefinite_kernel
from kaucus.estimators._metric_options import (
    LEARN_METRIC,
    LearnedImportances,
    is_auto,
    metric_options,
    warn_of_one_column,
)
from kaucus.estimators._parameters import NONE, SEQUENCE, count, one_of
from kaucus.estimators._progress import share_reporter
from kaucus.kernels import (
    MappedKernel,
    kernels_with_gamma,
    median_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.machines import (
    AUTO_KERNELS,
    Problem,
    search_metric,
    search_table,
    warn_at_edge,
)
from kaucus.solvers import LOOSearch, search_by_leave_one_out

# To the constant at one end and, to rounding, an interpolation at the other: nothing
# is beyond them. Another C costs little.
_DEFAULT_CS = 10.0 ** np.arange(-5, 10)
_AUTO_GAMMAS = 4.0 ** np.arange(-3, 4)


class LeaveOneOutSearch(LearnedImportances, LSSVMBase):
    """The search that classifier and regressor share.

    Parameters
    ----------
    Cs : array-like of float
        Values of C to choose from; None: 1e-5, 1e-4, ..., 1e9.
    gammas : "auto", array-like of float or None
        Values of gamma to choose from. None: ``gamma`` alone. ``"auto"``: with
        ``kernel="auto"`` as wide and as narrow as rows held out say; else ``gamma``
        times 4⁻³, 4⁻², ..., 4³.
    kernel : str, kernel object or callable
        ``"auto"``: ``"exponential"``, ``"rbf"`` or, up to 64 columns, ``"laplacian"``,
        chosen by rows held out, many times faster than all pairs by leave-one-out.
        Else as in :class:`LSSVMClassifier`, and C and gamma are those of the best
        leave-one-out score; of more than 1,000 rows, models of few kernel columns
        choose three pairs, of which the best by exact leave-one-out is taken.
        ``"auto"`` does that too below 50 rows.
    gamma : {"scale", "auto", "median"} or float
        As in :class:`LSSVMClassifier`; not used with ``kernel="auto"``.
    learn_metric : "auto" or bool
        Whether columns are scaled, weighed and mixed by a metric learned from ``y``, as
        in :class:`KMeansKernelClassifier`. ``"auto"``: with ``kernel="auto"``.
    solver : {"auto", "cholesky", "cg"}
        Of the last fit, where there are more than ``max_samples`` rows.
    tol : float
        Relative residual at which ``"cg"`` stops.
    max_iter : int
        Most steps of ``"cg"``.
    random_state : int, RandomState or Generator
        Draws the rows on which C is chosen, and what the solver draws.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    gamma_ : float or None
        The gamma that was chosen; None for a kernel without one.
    best_score_ : float
        Leave-one-out score of that choice.
    search_results_ : dict of ndarrays
        What was tried, a row for each pair: ``kernel``, ``gamma``, ``C``, ``score``,
        the larger the better, NaN where Ctrl-C came before, and ``n_columns``, the
        kernel columns of the model that was judged: all rows for an exact one. Where
        rows held out judged, the score is minus their loss, and more columns tell of
        the metric, as in :class:`LearnedMetric`. For
        ``pandas.DataFrame(model.search_results_)``.
    X_fit_ : array or CSR matrix of shape (n_samples, n_features)
        The training rows; absent with a precomputed kernel.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; None if precomputed. In a learned
        metric, that of rows which ``kernel_.row_map`` maps.
    solver_ : str
        ``"eigh"``, ``"cholesky"``, or the solver of the last fit.
    n_iter_ : int
        Its steps.
    """

    _parameters: ClassVar = {
        "Cs": SEQUENCE | NONE,
        "gammas": one_of("auto") | SEQUENCE | NONE,
        "learn_metric": LEARN_METRIC,
        # One row left out must leave one.
        "max_samples": count(least=2) | NONE,
    }

    _kernel_words = ("precomputed", "auto")

    @property
    def _is_open(self) -> bool:
        """Whether kernel and width are searched by rows held out, with a metric."""
        return self.learn_metric is True or is_auto(self.kernel)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        given = self.gammas is not None and not isinstance(self.gammas, str)
        if is_auto(self.kernel) and not isinstance(self.gammas, str):
            raise ValueError(
                f"gammas={self.gammas!r} are widths of one kernel; kernel='auto' "
                "chooses among several. Use gammas='auto', or name a kernel."
            )
        if is_auto(self.kernel):
            return
        if self.learn_metric is True and given:
            raise ValueError(
                f"gammas={self.gammas!r} are widths for the distances of X; "
                "learn_metric=True changes these. Use gammas='auto', or None and gamma."
            )
        if self.learn_metric is True and self._precomputed:
            raise ValueError(
                "learn_metric=True needs rows; kernel='precomputed' has none. Use "
                "learn_metric=False."
            )
        if given and not self._has_gamma:  # "auto" is for kernels that have one
            raise ValueError(
                f"gammas={self.gammas!r} needs a named kernel that has a gamma, one of "
                f"{kernels_with_gamma()}; kernel={self.kernel!r}. Use gammas=None."
            )

    @property
    def _has_gamma(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in kernels_with_gamma()

    def _grid_of_C(self) -> np.ndarray:
        return _DEFAULT_CS if self.Cs is None else np.ravel(self.Cs).astype(float)

    def _gammas(self, X, sample_weight) -> list:
        """Return the gammas to try, as numbers."""
        if self.gammas is None or not self._has_gamma:
            return [self.gamma]
        if isinstance(self.gammas, str) and self.gammas == "auto":
            weight = as_like(sample_weight, X)
            middle = resolve_gamma(self.gamma, X, weight, self.kernel)
            return [float(g) for g in middle * _AUTO_GAMMAS]
        return np.ravel(self.gammas).astype(float).tolist()

    def _kernels(self, X, weight) -> list:
        """Return the kernels to try on all rows."""
        if not is_auto(self.kernel):
            gammas = self._gammas(X, weight)
            return [self._resolve_kernel(X, weight, gamma) for gamma in gammas]
        return [
            resolve_kernel(name, gamma=float(factor) * median_gamma(X, kernel=name))
            for name in AUTO_KERNELS
            for factor in _AUTO_GAMMAS
        ]

    def _search(self, X, Y, Cs, score, sample_weight) -> LOOSearch:
        """Try every gamma and C, and store what was found."""
        kernels = self._kernels(X, sample_weight)
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
                memory_budget=self.memory_budget,
                callback=share_reporter(self.verbose, "pair of gamma and C"),
            )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, max(Cs)) from error
        self.kernel_ = kernels[search.best_kernel]
        self.C_ = search.best_C
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.search_results_ = {
            **search_table(kernels, Cs, search.scores),
            "n_columns": search.n_columns.ravel(),
        }
        self.best_score_ = search.best_score
        self._n_searched = rows.shape[0]
        if self.Cs is not None:
            warn_at_edge("Cs", Cs, search.scores.max(axis=0))
        if self._has_gamma and len(kernels) > 1:
            gammas = [kernel.gamma for kernel in kernels]
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
        if "n_steps" in table:
            return self._explain_metric()
        width = "" if self.gamma_ is None else f" and gamma={self.gamma_:.4g}"
        n_widths = len(np.unique(table["gamma"]))
        widths = f" and {n_widths} gammas" if n_widths > 1 else ""
        return (
            f"C={self.C_:g}{width} of {len(np.unique(table['C']))} Cs{widths}, by "
            f"{self.scoring} of {self._n_searched} rows left out one by one "
            f"({self.best_score_:.4g}). solver={self.solver_!r}."
        )

    def _explain_metric(self) -> str:
        how = "in a learned metric" if self._has_metric else "of rows as they are"
        n_tried = len(self.search_results_["score"])
        width = "" if self.gamma_ is None else f" and gamma={self.gamma_:.4g}"
        return (
            f"kernel={self.kernel_.name!r} {how}, C={self.C_:g}{width} of {n_tried} "
            f"pairs, by rows held out; {self.scoring} of {self._n_searched} rows left "
            f"out one by one is {self.best_score_:.4g}. solver={self.solver_!r}."
        )

    def _search_openly(self, X, problem: Problem, data, losses, score):
        """Choose a metric with kernel, width and C by rows held out, and fit all rows.

        Returns
        -------
        solution, loo_rows
            Its leave-one-out values are of these rows.
        """
        options = metric_options(
            X,
            self.kernel,
            self.gamma if self.gammas is None else "tune",
            None if self.Cs is None else self._grid_of_C(),
            degree=self.degree,
            coef0=self.coef0,
        )._replace(losses=losses)
        if self.learn_metric is False:
            warn_of_one_column(X, self.kernel, getattr(self, "feature_names_in_", None))
            options = options._replace(max_steps=0, scales=("given",))
        if self.max_samples is not None:
            options = options._replace(max_samples=self.max_samples)
        found = search_metric(
            problem,
            options,
            generator_from(self.random_state),
            callback=share_reporter(self.verbose, "stage"),
            memory_budget=self.memory_budget,
        )
        self.C_, self.gamma_ = found.C, getattr(found.kernel, "gamma", None)
        self.search_results_ = found.results
        kernel = MappedKernel(found.kernel, found.row_map)
        if self.learn_metric is False:
            kernel = found.kernel
        fitted = self._fit_core(X, C=self.C_, kernel=kernel, leave_one_out=True, **data)
        values, rows = fitted.solution.loo_decision, fitted.loo_rows
        self._n_searched = len(rows)
        self.best_score_ = float(score(to_numpy(values), rows).value)
        return fitted.solution, rows

    def _search_and_fit(self, X, data, Cs, score, rows, *, leave_one_out: bool):
        """Search on ``rows`` (None: all), and fit all.

        Returns
        -------
        solution, loo_rows
            Its leave-one-out values are of these rows.
        """

        def score_part(values):
            return score(values, rows)

        if rows is None:
            solution = self._search(X, Cs=Cs, score=score_part, **data).solution
            self._report(solution.info, self.C_)
            return solution, np.arange(X.shape[0])
        part = {name: picked(values, rows) for name, values in data.items()}
        some = take_rows(X, rows)
        if self._precomputed:
            some = take_rows(some.T, rows).T
        self._search(some, Cs=Cs, score=score_part, **part)
        fitted = self._fit_core(
            X, C=self.C_, kernel=self.kernel_, leave_one_out=leave_one_out, **data
        )
        return fitted.solution, fitted.loo_rows

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
