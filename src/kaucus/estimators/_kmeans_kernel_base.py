"""What the k-means kernel classifier and regressor share.

Cluster the rows, fit the kernel columns of the centres by least squares, store; what
the targets are, and what is clustered with what, the subclasses say.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    astype,
    dense_rows,
    dtype_name,
    release_freed_memory,
    resolve_budget,
    take_rows,
    warn_user,
)
from kaucus.estimators._base import LSSVMBase, indefinite_kernel
from kaucus.estimators._kernel_input import beside
from kaucus.estimators._kmeans_kernel_compress import CompressMixin
from kaucus.estimators._kmeans_kernel_growth import (
    REFINEMENTS,
    TARGETS,
    Growth,
    plan_growth,
)
from kaucus.estimators._kmeans_kernel_tuning import (
    AUTO_KERNELS,
    CS,
    GAMMA_FACTORS,
    tune,
)
from kaucus.estimators._parameters import NONE, POSITIVE, count, one_of
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._ranges import check_coefficients, check_kernel_values
from kaucus.kernels import (
    kernel_class,
    kernels_with_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.representatives import (
    METRICS,
    KMeansOptions,
    Representatives,
    represent_classes,
    with_rows,
)
from kaucus.solvers import (
    GrownSolution,
    Judge,
    LSSVMSolution,
    solve_on_representatives,
    solve_with_hard_rows,
)

INITS = ("random", "k-means++")
# More on the diagonal than this, relative to its mean, is worth a warning.
_USUAL_JITTER = {"float64": 1e-9, "float32": 1e-5}


class FitTask(NamedTuple):
    """What kernel columns are fitted to, in whichever precision."""

    Y: np.ndarray
    weight: np.ndarray | None
    """Of all rows, those held out included."""
    growth: Growth
    held: np.ndarray
    """Rows that are held out while columns are added."""
    judge: Callable[[np.ndarray], float]
    """Judges the decision values of the rows held out; minus a loss."""
    hardness: Mapping[str, Callable]
    """What orders the rows, for each of the choices of ``growth``."""
    shares: np.ndarray | None = None
    """Of their weights, that leave-one-out leaves out."""
    loo_rows: np.ndarray | None = None
    first_fit: LSSVMSolution | None = None
    """Of the representatives, by which the first rows to be added are chosen."""


class RepresentativesBase(CompressMixin, LSSVMBase):
    """Representatives by k-means, and least squares of rows on their columns."""

    _kernel_words = ("auto",)
    _parameters: ClassVar = {
        "C": (POSITIVE | one_of("auto")).advise("Try 1.0; larger fits closer."),
        "gamma": POSITIVE | one_of("tune", "scale", "auto", "median"),
        "metric": one_of(*METRICS),
        "init": one_of(*INITS),
        "n_init": count(),
        "refine": one_of(*REFINEMENTS),
        "target": one_of(*TARGETS),
        "refine_rounds": count(),
        "n_refine": count() | NONE,
    }

    def _choose_kernel(self, X, rows, Y, loss, weight, shares, rng) -> None:
        """Store kernel and C, by leave-one-out where they were not given."""
        paths = self._kernel_paths(X, weight)
        Cs = CS if isinstance(self.C, str) else [self.C]
        try:
            chosen = tune(
                paths,
                Cs,
                rows,
                Y,
                loss=loss,
                weight=weight,
                shares=shares,
                rng=rng,
                callback=share_reporter(self.verbose, "kernel"),
                memory_budget=self.memory_budget,
            )
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, max(Cs)) from error
        self.kernel_, self.C_, self.search_results_ = chosen
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        release_freed_memory()

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
            how = f"of {n_tried} pairs tried by leave-one-out (loss {-best:.4g})"
        n_points = self.representatives_.shape[0]
        return (
            f"kernel={name!r}{width}, C={self.C_:g}: {how}. {n_points} "
            f"representatives, {len(self.hard_rows_)} of them training rows. "
            f"solver={self.solver_!r}."
        )

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
        scale = resolve_gamma("scale", X, beside(X, weight))
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
            kernel = super()._resolve_kernel(X, weight, gamma)
        else:
            gamma = resolve_gamma(gamma, X, beside(X, weight), name)
            kernel = resolve_kernel(name, gamma=gamma)
            check_kernel_values(kernel, X)
        return kernel

    def _represent(self, rows, groups, numbers, weight, *, rng, old=None, held=()):
        """Cluster each group of rows by itself, but for those held out."""
        chosen = represent_classes(
            rows,
            groups,
            numbers,
            options=KMeansOptions(
                self.metric, self.init, self.n_init, self.max_iter, self.tol
            ),
            sample_weight=without_rows(weight, held, len(groups)),
            old=None if old is None else old._replace(points=beside(rows, old.points)),
            rng=rng,
            memory_budget=self.memory_budget,
            device=self.device,
            callback=share_reporter(self.verbose, self._what_is_clustered),
        )
        release_freed_memory()
        self._report_clustering(chosen)
        if len(held) == 0:
            return chosen
        # Rows held out are spoken for, too.
        all_rows = len(groups) if weight is None else weight.sum()
        return chosen._replace(weights=chosen.weights * all_rows / chosen.weights.sum())

    def _plan(
        self, numbers, sizes, allocation: str, like, *, factored: bool = False
    ) -> Growth:
        """Return how many representatives to begin with, and what to add."""
        return plan_growth(
            numbers,
            sizes,
            allocation=allocation,
            target=self.target,
            refine=self.refine,
            n_refine=self.n_refine,
            rounds=self.refine_rounds,
            budget=resolve_budget(self.memory_budget, like),
            factored=factored,
        )

    def _hold_out(self, growth: Growth, weight, n: int, rng) -> np.ndarray:
        """Return the rows that are held out."""
        present = np.arange(n) if weight is None else np.flatnonzero(weight)
        if growth.n_held_out == 0:
            return present[:0]
        return rng.permutation(present)[: growth.n_held_out]

    def _least_squares(self, rows, points, task: FitTask):
        """Fit the columns of the representatives, and of rows added, to all rows.

        Where that is singular in float32, once more in float64, unless a precision was
        asked for; ``solve_info_`` tells which it was.

        Returns
        -------
        solution, added_rows
        """

        def fit(rows, points) -> GrownSolution:
            return self._fit_columns(rows, points, task)

        found = self._widened(fit, rows, points)
        info = found.solution.info
        if self.precision is None and _is_singular(info) and not info.interrupted:
            found = fit(*_wide(rows, points))
        solution, added, choice, _ = found
        self.refine_ = task.growth.choices[choice] if len(added) else None
        self._report_least_squares(solution.info)
        return solution, added

    def _widened(self, fit, rows, points):
        """Return ``fit(rows, points)``, in float64 where float32 is indefinite."""
        try:
            return fit(rows, points)
        except NotPositiveDefiniteError:
            if self.precision is not None or dtype_name(rows) != "float32":
                raise
        return fit(*_wide(rows, points))

    def _fit_columns(self, rows, points, task: FitTask) -> GrownSolution:
        Y, weight, growth, held = task.Y, task.weight, task.growth, task.held
        problem = (self.kernel_, rows, beside(points, Y), points)
        options = {
            "C": self.C_,
            "sample_weight": beside(points, without_rows(weight, held, len(Y))),
            "left_out": beside(points, task.shares),
            "loo_rows": task.loo_rows,
            "memory_budget": self.memory_budget,
            "callback": share_reporter(self.verbose, "row"),
        }
        if not growth.additions:
            solution = solve_on_representatives(*problem, **options)
            return GrownSolution(solution, np.empty(0, dtype=np.int64), 0, [])
        if len(held):
            options["judge"] = Judge(
                take_rows(rows, beside(rows, held)),
                beside(points, Y[held]),
                None if weight is None else beside(points, weight[held]),
                task.judge,
                growth.least_gain,
            )
        options["first_fit"] = task.first_fit
        choices = [task.hardness[choice] for choice in growth.choices]
        return solve_with_hard_rows(*problem, growth.additions, choices, **options)

    def _with_hard_rows(self, chosen, rows, groups, weight, hard_rows):
        """Return the representatives with the hard rows among them."""
        weights = np.ones(len(groups)) if weight is None else weight
        return with_rows(
            chosen,
            beside(chosen.points, dense_rows(rows, hard_rows)),
            groups[hard_rows],
            weights[hard_rows],
        )

    def _store_model(
        self, X, chosen: Representatives, solution: LSSVMSolution, hard_rows
    ) -> None:
        """Store what was learned, in the kind of ``X``."""
        check_coefficients(solution.dual_coef, self.kernel)
        self.hard_rows_ = as_like(hard_rows, X)
        self.representatives_ = as_like(chosen.points, X)
        self.representative_weights_ = as_like(chosen.weights, X)
        self.dual_coef_ = as_like(solution.dual_coef, X)
        self.intercept_ = as_like(solution.intercept, X)
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

    def _check_combinations(self) -> None:
        if self._precomputed:
            raise ValueError(
                "kernel='precomputed' has no rows to cluster; pass the rows and a "
                f"kernel, or use {self._takes_matrices}(kernel='precomputed')."
            )
        super()._check_combinations()

    def _report_clustering(self, chosen: Representatives) -> None:
        if not chosen.converged:
            warn_user(
                f"k-means stopped after max_iter={self.max_iter} steps before the "
                "centres came to rest; increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _report_least_squares(self, info) -> None:
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
        if info.relative_jitter > _USUAL_JITTER[info.precision]:
            warn_user(
                f"The normal equations are singular in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to their diagonal. Lower "
                "C, use fewer representatives, or pass float64 rows.",
                LinAlgWarning,
            )


def _wide(rows, points):
    return astype(rows, "float64"), astype(points, "float64")


def _is_singular(info) -> bool:
    """Tell whether float32 had to be helped by more than is usual."""
    narrow = info.precision == "float32"
    return narrow and info.relative_jitter > _USUAL_JITTER["float32"]


def without_rows(weight: np.ndarray | None, held, n: int) -> np.ndarray | None:
    """Return weights that are zero for the rows held out."""
    if len(held) == 0:
        return weight
    without = np.ones(n) if weight is None else weight.copy()
    without[held] = 0.0
    return without
