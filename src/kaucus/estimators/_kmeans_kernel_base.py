"""What the k-means kernel classifier and regressor share.

They check parameters and data, say what the targets are, and store what
:func:`kaucus.machines.fit_represented` finds.
"""

import contextlib
import copy
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    generator_from,
    is_sparse,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus.contract import FitsBatches
from kaucus.estimators._base import LSSVMBase, indefinite_kernel
from kaucus.estimators._kernel_input import in_precision_of, on_device
from kaucus.estimators._metric_options import (
    LEARN_METRIC,
    LearnedImportances,
    learns_metric,
    metric_options,
    warn_of_one_column,
)
from kaucus.estimators._parameters import NONE, POSITIVE, Constraint, count, one_of
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._ranges import check_coefficients, check_kernel_values
from kaucus.kernels import (
    kernel_class,
    kernels_with_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.machines import (
    AUTO_KERNELS,
    CS,
    GAMMA_FACTORS,
    SIZES,
    USUAL_JITTER,
    Model,
    PartialFit,
    Plan,
    Problem,
    fit_represented,
)
from kaucus.representatives import METRICS, KMeansOptions, Representatives
from kaucus.solvers import LSSVMSolution, SolveInfo, compress_columns

SIZE_WORDS = one_of(*SIZES)
_KMEANS: Mapping[str, Constraint] = {
    "init": one_of("random", "k-means++"),
    "n_init": count(),
    "max_iter": count(),
    "tol": POSITIVE,
}
_KMEANS_DEFAULTS = {"init": "random", "n_init": 1, "max_iter": 100, "tol": 1e-4}


def _is_mapping(value) -> bool:
    return isinstance(value, Mapping)


class RepresentativesBase(FitsBatches, LearnedImportances, LSSVMBase):
    """Representatives by k-means, and least squares of rows on their columns.

    Subclasses give ``_targets`` (of validated ``y``) and ``_size``.
    """

    _kernel_words = ("auto",)
    _dask_fit = "rows"
    _moves_intercept = _calibrates = False
    _parameters: ClassVar = {
        "C": (POSITIVE | one_of("auto")).advise("Try 1.0; larger fits closer."),
        "gamma": POSITIVE | one_of("tune", "scale", "auto", "median"),
        "metric": one_of(*METRICS),
        "refine": count() | one_of("auto", None),
        "learn_metric": LEARN_METRIC,
        "kmeans_params": Constraint(
            _is_mapping, f"a dict with some of the keys {list(_KMEANS)}"
        )
        | NONE,
    }

    def _check_combinations(self) -> None:
        if self._precomputed:
            raise ValueError(
                "kernel='precomputed' has no rows to cluster; pass the rows and a "
                f"kernel, or use {self._takes_matrices}(kernel='precomputed')."
            )
        for name, value in (self.kmeans_params or {}).items():
            if name not in _KMEANS:
                raise ValueError(
                    f"kmeans_params has the key {name!r}; expected some of "
                    f"{list(_KMEANS)}."
                )
            _KMEANS[name].check(f"kmeans_params[{name!r}]", value)
        if isinstance(self.n_representatives, str) and not (
            self.refine is None or isinstance(self.refine, str)
        ):
            raise ValueError(
                f"refine={self.refine} adds rows to a given number of representatives; "
                f"n_representatives={self.n_representatives!r} adds them by itself. "
                "Pass a number of representatives, or refine=None."
            )
        super()._check_combinations()

    # ---- fit -------------------------------------------------------------------------

    def _learn(self, X, targets, weight):
        """Fit the rows at once."""
        rng = generator_from(self.random_state)
        problem = Problem.of(self._placed(X), targets, weight)
        plan = self._plan(self._kernel_paths(X, problem.fit_weight), X)
        self._stream = None
        with self._own_errors():
            model = fit_represented(problem, plan, rng)
        self._store_model(X, model)
        self._remember_represented(X, problem, model)
        return self

    def _learn_part(self, X, targets, weight):
        """Take in a part of the rows; the model so far stays where that fails."""
        fit = PartialFit(
            self._plan([], X),
            lambda rows, weight: self._kernel_paths(as_like(rows, X), weight),
            targets,
            lambda rows: self._placed(as_like(rows, X)),
            lambda: generator_from(self.random_state),
        )
        model = self._as_model(X) if hasattr(self, "representatives_") else None
        rows = X if is_sparse(X) else to_numpy(X)
        stream = getattr(self, "_stream", None)
        weight = np.ones(X.shape[0]) if weight is None else weight
        with self._own_errors():
            if stream is None:
                rng = generator_from(self.random_state)
                empty = fit.begin(rows, targets.values, rng)
                stream = empty if model is None else fit.begin_with(model, rng)
            model, stream = fit.take_in(stream, model, rows, targets.values, weight)
        self._store_model(X, model)
        self._remember(None, "partial_fit keeps no rows")
        self._stream = stream
        return self

    @contextlib.contextmanager
    def _own_errors(self):
        """Context manager: errors of the core in the words of this estimator."""
        try:
            yield
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, error.C or np.nan) from error

    def _metric_options(self, X):
        """Return what a metric is chosen from, None where none is learned."""
        if not learns_metric(self.learn_metric, self.kernel, self.gamma):
            warn_of_one_column(X, self.kernel, getattr(self, "feature_names_in_", None))
            return None
        Cs = None if isinstance(self.C, str) else [float(self.C)]
        return metric_options(
            X, self.kernel, self.gamma, Cs, degree=self.degree, coef0=self.coef0
        )

    def _plan(self, kernels: list[list], X) -> Plan:
        """Return the parameters as the core takes them."""
        return Plan(
            metric=self._metric_options(X),
            kernels=kernels,
            Cs=CS if isinstance(self.C, str) else [float(self.C)],
            size=self._size(),
            kmeans=KMeansOptions(self.metric, **self._kmeans_options),
            refine=self.refine,
            fit_on=getattr(self, "fit_on", "all"),
            moves_intercept=self._moves_intercept,
            calibrates=self._calibrates,
            precision=self.precision,
            memory_budget=self.memory_budget,
            progress=lambda stage: share_reporter(self.verbose, stage),
        )

    @property
    def _kmeans_options(self) -> dict:
        return _KMEANS_DEFAULTS | dict(self.kmeans_params or {})

    def _size(self) -> int | list[int] | str:
        size = self.n_representatives
        return size if isinstance(size, str) else int(size)

    # ---- kernels to choose from ------------------------------------------------------

    def _kernel_paths(self, X, weight) -> list[list]:
        """Return the kernels to choose from, those of a name in the order of gamma."""
        kernel = self.kernel
        if isinstance(kernel, str) and kernel == "auto":
            names = AUTO_KERNELS
        elif isinstance(kernel, str) and kernel in kernels_with_gamma():
            names = (kernel,)
        else:
            gamma = "scale" if self._tunes_gamma else self.gamma
            return [[self._resolve_kernel(X, weight, gamma)]]
        if not self._tunes_gamma:
            gamma = self.gamma
            return [[self._resolve_kernel(X, weight, gamma, name)] for name in names]
        scale = resolve_gamma("scale", X, as_like(weight, X))
        # "scale" is for a squared distance.
        powers = [0.5 if kernel_class(name).of_length else 1.0 for name in names]
        return [
            [
                self._resolve_kernel(X, weight, float((scale * factor) ** power), name)
                for factor in GAMMA_FACTORS
            ]
            for name, power in zip(names, powers, strict=True)
        ]

    @property
    def _tunes_gamma(self) -> bool:
        return isinstance(self.gamma, str) and self.gamma == "tune"

    def _resolve_kernel(self, X, weight, gamma, name=None):
        """Return a kernel object; ``name`` is a choice that ``kernel`` leaves open."""
        if name is None or name == self.kernel:
            return super()._resolve_kernel(X, weight, gamma)
        gamma = resolve_gamma(gamma, X, as_like(weight, X), name)
        kernel = resolve_kernel(name, gamma=gamma)
        check_kernel_values(kernel, X)
        return kernel

    # ---- the model -------------------------------------------------------------------

    def _store_model(self, X, model: Model) -> None:
        """Store what was learned, in the kind of ``X``, and warn where it is needed."""
        chosen, solution = model.representatives, model.solution
        self.kernel_, self.C_, self.search_results_ = model[:3]
        self.gamma_ = getattr(model.kernel, "gamma", None)
        self._report_model(chosen, solution.info)
        check_coefficients(solution.dual_coef, self.kernel)
        self.hard_rows_ = as_like(model.hard_rows, X)
        self.refine_ = model.refine
        self.representatives_ = as_like(chosen.points, X)
        self.representative_weights_ = as_like(chosen.weights, X)
        self.dual_coef_ = as_like(solution.dual_coef, X)
        self.intercept_ = as_like(solution.intercept, X)
        self.solve_info_ = solution.info
        self.solver_ = solution.info.solver
        self.n_iter_ = max(chosen.n_iter, 1)

    def _as_model(self, X) -> Model:
        """Return the stored model, with its points where rows like ``X`` are fitted."""
        points = on_device(in_precision_of(self.representatives_, X), self.device)
        weights = to_numpy(self.representative_weights_).astype(np.float64)
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
        n_points = self.representatives_.shape[0]
        return (
            f"kernel={name!r}{width}, C={self.C_:g}: {how}. {n_points} "
            f"representatives, {len(self.hard_rows_)} of them training rows. "
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False  # there must be rows to cluster
        return tags

    # ---- warnings --------------------------------------------------------------------

    def _report_model(self, chosen: Representatives, info: SolveInfo) -> None:
        if not chosen.converged:
            max_iter = self._kmeans_options["max_iter"]
            warn_user(
                f"k-means stopped after max_iter={max_iter} steps before the centres "
                "came to rest; increase max_iter or tol in kmeans_params.",
                ConvergenceWarning,
            )
        if info.solver in ("normal_equations", "sketched_cg"):
            self._report_least_squares(info)
        else:
            self._report(info, self.C_)

    def _report_least_squares(self, info: SolveInfo) -> None:
        if info.interrupted:
            warn_user(
                "Interrupted; the coefficients are those of the rows seen so far.",
                ConvergenceWarning,
            )
        elif not info.converged:
            warn_user(
                f"Conjugate gradients stopped after {info.n_iter} steps at a relative "
                f"residual of {info.backward_error:.1e}. Lower C, or use fewer "
                "representatives, which are solved for directly.",
                ConvergenceWarning,
            )
        if info.relative_jitter > USUAL_JITTER[info.precision]:
            warn_user(
                f"The normal equations are singular in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to their diagonal. Lower "
                "C, use fewer representatives, or pass float64 rows.",
                LinAlgWarning,
            )
