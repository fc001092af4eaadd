"""Kernel machines on representatives."""

import contextlib
import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.segments import draw_some
from kaucus.clustering._kmeans import KMeansOptions, Representatives
from kaucus.estimators._predict import (
    LEVELS,
    IntervalPredictions,
    SetPredictions,
    refuse_dask,
)
from kaucus.estimators.ls_svm import LSSVMBase, indefinite_kernel
from kaucus.fitting._problem import (
    ClassTargets,
    Model,
    NumberTargets,
    Plan,
    Problem,
    TargetUnit,
    Unseen,
    of_rows,
)
from kaucus.fitting._represented import (
    SIZES,
    USUAL_JITTER,
    begin_stream,
    fit_represented,
    learn_part,
)
from kaucus.fitting._search import (
    AUTO_KERNELS,
    CS,
    GAMMA_FACTORS,
    metric_options,
    told_choice,
)
from kaucus.kernels._kernel import (
    kernel_class,
    kernels_with_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.kernels._matrix import kernel_expansion
from kaucus.solvers._columns import RowData, compress_columns
from kaucus.solvers._quantiles import rows_that_fit, solve_quantiles
from kaucus.solvers._system import LSSVMSolution, SolveInfo

# ----------------------------------------------------------------------------------
# What the k-means kernel classifier and regressor share.
#
# They check parameters and data, say what the targets are, and store what
# :func:`kaucus.fitting._represented.fit_represented` finds.
# ----------------------------------------------------------------------------------

SIZE_WORDS = base.one_of(*SIZES)
_KMEANS: Mapping[str, base.Constraint] = {
    "init": base.one_of("random", "k-means++"),
    "n_init": base.count(),
    "max_iter": base.count(),
    "tol": base.POSITIVE,
}
_KMEANS_DEFAULTS = {"init": "random", "n_init": 1, "max_iter": 100, "tol": 1e-4}


def _in_unit(model: Model, unit: TargetUnit) -> Model:
    """Return a model of standard targets with coefficients for those of the user."""
    return replace(model, solution=unit.restored(model.solution))


# Ways to find representatives, and the geometry of each.
CLUSTERINGS = {"kmeans": "euclidean", "spherical": "cosine"}


class RepresentativesBase(LSSVMBase):
    """Representatives by k-means, and least squares of rows on their columns.

    Subclasses give ``_targets`` (of validated ``y``) and ``_size``.

    Parameters
    ----------
    clustering : {"kmeans", "spherical"}
        k-means by distance or, as in the paper, by angle.
    kernel : str, kernel object or callable
        A name, an object of :mod:`kaucus.kernels`, or a function ``k(X, Y)``.
    gamma : {"tune", "scale", "auto", "median"} or float
        Width of the kernel; ``"tune"`` chooses it, other words set it by ``X`` alone.
    learn_metric : "auto" or bool
        Whether columns are scaled and weighed by a metric that is learned from ``y``.
    kmeans_params : dict
        Options of k-means: ``init``, ``n_init``, ``max_iter`` and ``tol``.
    memory_budget : int or str
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free.

    Attributes
    ----------
    refine_ : {"residual", "random"} or None
        How rows were chosen that became representatives; None: there are none.
    hard_rows_ : ndarray of shape (n_hard_rows,)
        Numbers of the training rows that became representatives, the last of them.
    kernel_ : kernel object
        The kernel; ``kernel_.row_map`` maps rows into a learned metric.
    C_ : float
        The C that was used.
    gamma_ : float or None
        The gamma that was used; None for a kernel without one.
    search_results_ : dict of ndarrays
        What was tried, for ``pandas.DataFrame(model.search_results_)``.
    solver_ : str
        How the least squares were solved.
    """

    fit_batches = base.fit_batches
    _weight_unit = 1.0
    """The ``sample_weight`` that is a weight of 1 in the fit."""
    _kernel_words = ("auto",)
    _dask_fit = "rows"
    _moves_intercept = _calibrates = _keeps_unseen = False
    _n_unseen = Plan.n_unseen
    _unseen: Unseen | None = None
    """Where they are kept: decision values of rows by models without each."""
    _parameters: ClassVar = {
        "C": (base.POSITIVE | base.one_of("auto")).advise(
            "Try 1.0; larger fits closer."
        ),
        "gamma": base.POSITIVE | base.one_of("tune", "scale", "auto", "median"),
        "clustering": base.one_of(*CLUSTERINGS),
        "refine": base.count() | base.one_of("auto", None),
        "learn_metric": base.LEARN_METRIC,
        "kmeans_params": base.instance_of(
            Mapping, f"a dict with some of the keys {list(_KMEANS)}"
        )
        | base.NONE,
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

    def _posed(self, X, targets, weight) -> tuple[Problem, Plan]:
        """Return the problem of all rows and the plan of its fit."""
        self._weight_unit = 1.0
        if self._chooses_C:
            self._weight_unit = base.mean_weight(weight)
            weight = base.relative_weights(weight)
        problem = Problem.of(self._placed(X), targets, weight)
        self._stream = None
        return problem, self._plan(self._kernel_paths(X, problem.fit_weight), X)

    def _learned(self, X, problem: Problem, model: Model):
        """Store the model and the data for intervals."""
        self._store_model(X, _in_unit(model, problem.targets.unit))
        self._remember_represented(X, problem, model)
        if self._keeps_unseen and model.unseen and len(model.unseen.numbers):
            values = problem.targets.unit.values(model.unseen.values)
            self._unseen = model.unseen._replace(values=values)
        return self

    def _learn_part(self, X, targets, weight):
        """Fit the first rows, or add the equations of more."""
        if getattr(self, "fit_on", "all") != "all":
            raise ValueError(
                f"fit_on={self.fit_on!r} fits chosen rows; partial_fit adds all that "
                "come. Use fit_on='all'."
            )
        rng = base.generator_from(self.random_state)
        with self._own_errors():
            if not hasattr(self, "representatives_"):
                problem, plan = self._posed(X, targets, weight)
                model = fit_represented(
                    problem, plan, base.generator_from(self.random_state)
                )
                self._learned(X, problem, model)
                stream = begin_stream(problem, plan, model, rng)
            else:
                plan, model = self._plan([], X), self._as_model(X)
                stream = getattr(self, "_stream", None)
                if stream is None:  # after fit
                    before = self._training_problem(X, targets)
                    stream = begin_stream(before, plan, model, rng)
                weight = None if weight is None else weight / self._weight_unit
                problem = Problem.of(self._placed(X), targets, weight)
                first = Problem.of(
                    self._placed(nx.as_like(stream.rows, X)),
                    targets.like(stream.targets),
                    stream.weight,
                )
                model, stream = learn_part(stream, problem, first, plan, model, rng)
                self._store_model(X, _in_unit(model, targets.unit))
        self._stream = stream
        self._remember(None, "partial_fit keeps no rows")
        return self

    def _training_problem(self, X, targets) -> Problem:
        """Return the problem of the rows of the last fit."""
        training = self._training
        if training is None:
            raise ValueError(
                "partial_fit adds to the equations of the rows before, which this "
                f"model no longer has: {self._no_training}. Begin with partial_fit on "
                "a new model, or fit all rows."
            )
        rows = self.representatives_ if training.rows is None else training.rows
        values, weight = targets.like(training.values), training.weight
        return Problem(self._placed(nx.as_like(rows, X)), values, weight, weight)

    @contextlib.contextmanager
    def _own_errors(self):
        """Context manager: errors of the core in the words of this estimator."""
        try:
            yield
        except NotPositiveDefiniteError as error:
            raise indefinite_kernel(self.kernel, error.C or np.nan) from error

    def _metric_options(self, X):
        """Return the options of the metric search; None where no metric is learned."""
        if not base.learns_metric(self.learn_metric, self.kernel, self.gamma):
            self._warn_of_one_column(X)
            return None
        Cs = None if self._chooses_C else [float(self.C)]
        return metric_options(
            X, self.kernel, self.gamma, Cs, degree=self.degree, coef0=self.coef0
        )

    def _plan(self, kernels: list[list], X) -> Plan:
        """Return the plan of a fit from the parameters."""
        return Plan(
            metric=self._metric_options(X),
            kernels=kernels,
            Cs=CS if self._chooses_C else [float(self.C)],
            size=self._size(),
            kmeans=KMeansOptions(CLUSTERINGS[self.clustering], **self._kmeans_options),
            refine=self.refine,
            fit_on=getattr(self, "fit_on", "all"),
            moves_intercept=self._moves_intercept,
            calibrates=self._calibrates or self._keeps_unseen,
            n_unseen=self._n_unseen,
            precision=self.precision,
            memory_budget=self.memory_budget,
            progress=lambda stage: base.share_reporter(self.verbose, stage),
        )

    @property
    def _chooses_C(self) -> bool:
        return isinstance(self.C, str)

    @property
    def _kmeans_options(self) -> dict:
        return _KMEANS_DEFAULTS | dict(self.kmeans_params or {})

    def _size(self) -> int | list[int] | str:
        size = self.n_representatives
        return size if isinstance(size, str) else int(size)

    # ---- kernels to choose from ------------------------------------------------------

    def _kernel_paths(self, X, weight) -> list[list]:
        """Return the candidate kernels, a list for each name in the order of gamma."""
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
        scale = resolve_gamma("scale", X, nx.as_like(weight, X))
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
        gamma = resolve_gamma(gamma, X, nx.as_like(weight, X), name)
        kernel = resolve_kernel(name, gamma=gamma)
        base.check_kernel_values(kernel, X)
        return kernel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False  # there must be rows to cluster
        return tags

    # ---- the fitted model: stored, explained, compressed -----------------------------

    def _store_model(self, X, model: Model) -> None:
        """Store the fitted attributes as arrays of X's library; warn where needed."""
        chosen, solution = model.representatives, model.solution
        self.kernel_, self.C_ = model.kernel, model.C
        self.search_results_ = model.search_results
        self.gamma_ = getattr(model.kernel, "gamma", None)
        self._report_model(chosen, solution.info)
        base.check_coefficients(solution.dual_coef, self.kernel)
        self.hard_rows_ = nx.as_like(model.hard_rows, X)
        self.refine_ = model.refine
        self.representatives_ = nx.owned(nx.as_like(chosen.points, X))
        self.representative_weights_ = nx.as_like(chosen.weights * self._weight_unit, X)
        self.dual_coef_ = nx.as_like(solution.dual_coef, X)
        self.intercept_ = nx.as_like(solution.intercept, X)
        self.solve_info_ = solution.info
        self.solver_ = solution.info.solver
        self.n_iter_ = max(chosen.n_iter, 1)

    def _as_model(self, X) -> Model:
        """Return the stored model, with its points where rows like ``X`` are fitted."""
        points = base.in_precision_of(self.representatives_, X)
        points = base.on_device(points, self.device)
        weights = nx.to_numpy(self.representative_weights_).astype(np.float64)
        weights, labels = weights / self._weight_unit, self._representative_groups()
        chosen = Representatives(points, labels, weights, self.n_iter_, 0, True)
        coef, b = (nx.as_like(v, points) for v in (self.dual_coef_, self.intercept_))
        solution = LSSVMSolution(coef, b, None, self.solve_info_)
        tuned = (self.kernel_, self.C_, self.search_results_)
        hard_rows = nx.to_numpy(self.hard_rows_)
        return Model(*tuned, chosen, solution, hard_rows, self.refine_)

    def _representative_groups(self) -> np.ndarray:
        return np.zeros(self.representatives_.shape[0], dtype=np.int64)

    def _support_rows(self):
        check_is_fitted(self, "representatives_")
        return self.representatives_

    def explain(self) -> str:
        """Return a description of the chosen parameters and of the system.

        Returns
        -------
        str
        """
        check_is_fitted(self, "representatives_")
        width = "" if self.gamma_ is None else f", gamma={self.gamma_:.4g}"
        name = getattr(self.kernel_, "name", repr(self.kernel_))
        judges = "rows held out" if self._has_metric else "leave-one-out"
        how = told_choice(self.search_results_, judges)
        n_hard = len(self.hard_rows_)
        hard = f", {n_hard} of them hard training rows" if n_hard else ""
        parts = {
            "chosen": f"kernel={name!r}{width}, C={self.C_:g}: {how}.",
            "size": f"{self.representatives_.shape[0]} representatives{hard}.",
            "solver": f"solver={self.solver_!r}.",
            "metric": self._metric_text(),
        }
        return self._told(parts)

    def compress(self, tol, X=None) -> Self:
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
            Rows for which that holds; None: the representatives.
            The training rows, for instance, or some thousands of them.

        Returns
        -------
        compressed : estimator
            A copy; the model itself stays as it is.

        Notes
        -----
        2 n m² multiplications for n rows and m representatives, in float64.
        """
        check_is_fitted(self, "representatives_")
        base.POSITIVE.advise("Try 0.01.").check("tol", tol)
        points = self.representatives_
        rows = points if X is None else self._validate(X, reset=False)
        K = nx.to_numpy(self.kernel_(rows, nx.as_like(points, rows))).astype(np.float64)
        coef, intercept = nx.to_numpy(self.dual_coef_), nx.to_numpy(self.intercept_)
        small = compress_columns(K, coef, intercept, float(tol))
        model = copy.copy(self)
        model._keep(small.kept)
        model._stream = None  # of the representatives there were
        model._remember(None, "the model was compressed")
        model.dual_coef_ = nx.as_like(small.dual_coef, points)
        model.intercept_ = nx.as_like(small.intercept, points)
        return model

    def _keep(self, kept: np.ndarray) -> None:
        """Drop representatives; assign their rows to the remaining ones."""
        hard_rows = nx.to_numpy(self.hard_rows_)
        n_first = self.representatives_.shape[0] - len(hard_rows)
        points = self.representatives_
        weights = nx.to_numpy(self.representative_weights_)
        hard_rows = hard_rows[kept[kept >= n_first] - n_first]
        self.hard_rows_ = nx.as_like(hard_rows, points)
        share = weights.sum() / max(weights[kept].sum(), 1e-300)
        self.representative_weights_ = nx.as_like(weights[kept] * share, points)
        self.representatives_ = nx.take_rows(points, kept)

    # ---- warnings --------------------------------------------------------------------

    def _report_model(self, chosen: Representatives, info: SolveInfo) -> None:
        if not chosen.converged:
            max_iter = self._kmeans_options["max_iter"]
            nx.warn_user(
                f"k-means stopped after max_iter={max_iter} steps before the centres "
                "came to rest; increase max_iter or tol in kmeans_params.",
                ConvergenceWarning,
            )
        if info.solver in ("normal_equations", "quantiles"):
            self._report_least_squares(info)
        else:
            self._report(info, self.C_)

    def _report_least_squares(self, info: SolveInfo) -> None:
        if info.relative_jitter > USUAL_JITTER[info.precision]:
            nx.warn_user(
                f"The normal equations are singular in {info.precision} at "
                f"C={self.C_:g}; {info.jitter:.1e} was added to their diagonal. Lower "
                "C, use fewer representatives, or pass float64 rows.",
                LinAlgWarning,
            )
        if not info.converged:
            nx.warn_user(
                f"The quantiles still moved after {info.n_iter} steps; lower C, or use "
                "fewer representatives.",
                ConvergenceWarning,
            )


# ----------------------------------------------------------------------------------
# The k-means kernel classifier: a few representatives of each class, and an LS-SVM.
# ----------------------------------------------------------------------------------

FIT_ON = ("all", "boundary", "representatives")


class KMeansKernelClassifier(SetPredictions, RepresentativesBase):
    """Kernel classifier in which a few representatives speak for each class.

    Each class is clustered by k-means; its centres z_q become the kernel's columns:

        f_j(x) = Σ_q a_qj k(x, z_q) + b_j,

    fitted to targets ±1 by regularised least squares. The model has the size you
    choose, whatever the number of rows. Without an argument everything is chosen.

    Parameters
    ----------
    n_representatives : int, dict or {"fast", "balanced", "best"}, default="balanced"
        Number for each class, ``{class: number}``, or how much to spend in all.
    fit_on : {"all", "boundary", "representatives"}, default="all"
        Rows of the least squares: all, those near the boundary, or representatives.
    refine : int, "auto" or None, default=None
        How many training rows with small margins become representatives too.
    C : "auto" or float, default="auto"
        Inverse strength of the regularisation; larger fits closer.
    random_state : int, RandomState or Generator, default=None
        Seed of the first centres and of rows that are drawn.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_representatives_total, n_features)
        The representatives, class by class, and after them the hard rows.
    representative_labels_ : ndarray of shape (n_representatives_total,)
        Their classes.
    representative_weights_ : ndarray of shape (n_representatives_total,)
        How many rows each stands for, with their weights.
    fit_rows_ : ndarray or None
        Numbers of the training rows that were fitted; None: all, or representatives.
    dual_coef_ : ndarray of shape (n_representatives_total, n_targets)
        A; n_targets is 1 for two classes, else n_classes.
    n_iter_ : int
        Most steps of k-means that a class needed.

    See Also
    --------
    LSSVMClassifier : The same with every training row as representative.
    PatchVotingClassifier : For pictures: a vote of patches.

    Notes
    -----
    ``n_representatives``: the words allow 1,000, 6,000 or 12,000 in all; fewer rows are
    all representatives. ``fit_on="boundary"`` is several times faster with many rows.
    ``refine`` helps where classes hardly overlap. ``C="auto"`` and ``gamma="tune"``
    have the least leave-one-out loss. ``learn_metric="auto"`` learns a metric if
    ``kernel`` and ``gamma`` are left at their defaults. ``class_weight="balanced"``
    finds most rows of a rare class, with more false alarms.

    For n rows, m representatives and d features a fit takes n m d + n m²/2
    multiplications, the prediction of a row m d. In memory, not in a file, the model
    keeps the training rows for :meth:`predict_set`.

    Each parameter in full: :doc:`/theory/kmeans-kernel`.

    References
    ----------
    M. Andrecut, "K-means kernel classifier" (2020).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kaucus import KMeansKernelClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KMeansKernelClassifier(30, learn_metric=False, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> model.representatives_.shape
    (300, 64)
    >>> round(model.score(X[1000:], y[1000:]), 2)
    0.97
    """

    _takes_matrices = "LSSVMClassifier"

    _parameters: ClassVar = {
        "n_representatives": base.count()
        | SIZE_WORDS
        | base.instance_of(dict, "a dict {class: number}"),
        "fit_on": base.one_of(*FIT_ON),
    }

    @base.stored
    def __init__(
        self,
        n_representatives: int
        | Literal["fast", "balanced", "best"]
        | Mapping[Any, Any] = "balanced",
        *,
        clustering: Literal["kmeans", "spherical"] = "kmeans",
        fit_on: Literal["all", "boundary", "representatives"] = "all",
        refine: int | Literal["auto"] | None = None,
        C: float | Literal["auto"] = "auto",
        kernel: base.KernelLike = "auto",
        gamma: float | Literal["tune", "scale", "auto", "median"] = "tune",
        learn_metric: bool | Literal["auto"] = "auto",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        probability: Literal["softmax", "sum_exp", False] = "softmax",
        kmeans_params: Mapping[Any, Any] | None = None,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
        """Choose representatives, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels of any one type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in k-means, and their precisions in the least squares: a
            weight multiplies the row's squared error. A factor of all weights is one of
            C, and changes nothing with ``C="auto"``.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        X, indices = self._validate_labels(X, y)
        weight = base.check_weights(sample_weight, X)
        # Before any long work: are there two classes with weight?
        base.weights_with_classes(weight, self.class_weight, self.classes_, indices)
        problem, plan = self._posed(X, self._targets(indices), weight)
        rng = base.generator_from(self.random_state)
        with self._own_errors():
            model = fit_represented(problem, plan, rng)
        return self._learned(X, problem, model)

    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Fit the first rows, or add more rows to the fit.

        The first call is a :meth:`fit`: it chooses kernel, C and representatives, and
        should have some thousands of rows. Later calls add the normal equations of
        their rows, m × m numbers for m representatives, so that the coefficients are
        those of the least squares of all rows seen on these representatives.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KMeansKernelClassifier
        """
        self._check_parameters()
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs the numbers of all rows, "
                "which partial_fit does not know; pass a dict, for example from "
                "sklearn.utils.class_weight.compute_class_weight, or sample_weight."
            )
        first = not hasattr(self, "representatives_")
        base.check_one_label_type(y)
        X, y = self._validate(X, y, reset=first)
        self.classes_, indices = base.check_known_labels(
            y, classes, None if first else self.classes_
        )
        weight = base.check_weights(sample_weight, X)
        return self._learn_part(X, self._targets(indices), weight)

    def _targets(self, indices: np.ndarray) -> ClassTargets:
        return ClassTargets(
            indices,
            len(self.classes_),
            functools.partial(_weigh, self.class_weight, self.classes_),
        )

    def _size(self):
        """Return the number of representatives of each class, or the word."""
        wanted, classes = self.n_representatives, self.classes_.tolist()
        if isinstance(wanted, str):
            return wanted
        if not isinstance(wanted, dict):
            return [int(wanted)] * len(classes)
        if set(wanted) != set(classes):
            raise ValueError(
                f"n_representatives has the keys {sorted(wanted, key=str)}; expected "
                f"one for each class of y, {classes}."
            )
        for c in classes:
            base.count().check(f"n_representatives[{c!r}]", wanted[c])
        return [int(wanted[c]) for c in classes]

    @property
    def _moves_intercept(self) -> bool:
        """Whether the intercept is chosen as C is."""
        return self._chooses_C and self.fit_on != "representatives"

    @property
    def _calibrates(self) -> bool:
        return self.probability == "softmax"

    def _store_model(self, X, model: Model) -> None:
        super()._store_model(X, model)
        labels = self.classes_[model.representatives.labels]
        self.representative_labels_ = nx.label_array(labels, X)
        self.fit_rows_ = nx.as_like(model.fit_rows, X)
        if self._calibrates:
            self._calibrate(*model.unseen[:3])

    def _representative_groups(self) -> np.ndarray:
        labels = nx.to_numpy(self.representative_labels_)
        return np.searchsorted(self.classes_, labels)

    def _keep(self, kept: np.ndarray) -> None:
        super()._keep(kept)
        self.representative_labels_ = nx.take_rows(self.representative_labels_, kept)

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if self.refine is not None and self.fit_on == "representatives":
            raise ValueError(
                f"refine={self.refine!r} adds the rows that a fit of rows finds hard; "
                f"fit_on={self.fit_on!r} is no such fit. Use fit_on='all'."
            )


def _weigh(class_weight, classes, weight, labels):
    return base.weights_with_classes(weight, class_weight, classes, labels, at_least=1)


# ----------------------------------------------------------------------------------
# The k-means kernel regressor: representatives, and least squares of all rows.
# ----------------------------------------------------------------------------------


# Of more rows so many are drawn: their columns are read twice in each step.
_QUANTILE_ROWS = 100_000
# Of more representatives quantiles near 0 and 1 follow single rows: with all of 4,000
# rows of houses, 11 % of new ones were below the quantile of 5 %, with 1,000 8 %.
# With C="auto": shares of the C of the squared error, tried in turn on so many rows, of
# which a quarter judge. Of 2,000 rows 1/16 lowered the loss of new ones by a tenth on
# cpu_act, 1/256 by an eighth on diamonds; all of it was best on houses.
_C_SHARES, _JUDGED_ROWS = (1, 1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 1024), 5000
_QUANTILE_SIZES = {"fast": 300, "balanced": 1000, "best": 2000}


class KMeansKernelRegressor(IntervalPredictions, RepresentativesBase):
    """Kernel regressor in which a few representatives speak for all rows.

    Rows with like targets are clustered by k-means; the centres z_q become the kernel's
    columns:

        f(x) = Σ_q a_q k(x, z_q) + b,

    fitted to all rows by regularised least squares. The model has the size you choose,
    whatever the number of rows. Without an argument everything is chosen.

    Parameters
    ----------
    n_representatives : int or {"fast", "balanced", "best"}, default="balanced"
        Number of representatives, or how much to spend on them.
    n_bins : int, default=5
        Groups of rows, from low to high targets, that are clustered apart.
    refine : int, "auto" or None, default=None
        How many training rows with large residuals become representatives too.
    loss : {"squared_error", "quantile"}, default="squared_error"
        What is predicted: the mean of y, or quantiles.
    quantile : float or sequence of float, default=0.5
        Levels of ``loss="quantile"``; several are columns, which never cross.
    C : "auto" or float, default="auto"
        Inverse strength of the regularisation; larger fits closer.
    random_state : int, RandomState or Generator, default=None
        Seed of the first centres and of rows that are drawn.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_representatives, n_features)
        The representatives, and after them the hard rows.
    representative_weights_ : ndarray of shape (n_representatives,)
        How many rows each stands for, with their weights.
    dual_coef_ : ndarray of shape (n_representatives, n_outputs)
        a.
    intercept_ : ndarray of shape (n_outputs,)
        b.
    quantiles_ : ndarray of shape (n_outputs,) or None
        The levels of ``loss="quantile"``.
    n_iter_ : int
        Steps of k-means.

    See Also
    --------
    KMeansKernelClassifier : The same for classes.
    LSSVMRegressor : The same with every training row as representative.

    Notes
    -----
    ``n_representatives``: the words allow 1,000, 6,000 or 12,000, for quantiles 300,
    1,000 and 2,000; fewer rows are all representatives. ``refine`` helps where targets
    have little noise. ``C="auto"`` and ``gamma="tune"`` have the least leave-one-out
    loss, for quantiles the least pinball loss of rows held out.
    ``learn_metric="auto"`` learns a metric if ``kernel`` and ``gamma`` are left at
    their defaults. ``n_bins=1`` clusters all rows together; several outputs are grouped
    by their first principal component.

    In memory, not in a file, the model keeps the training rows for
    :meth:`predict_interval`.

    Each parameter in full: :doc:`/theory/kmeans-kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import KMeansKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(2000, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = KMeansKernelRegressor(20, random_state=0).fit(X, y)
    >>> model.representatives_.shape
    (20, 1)
    >>> round(model.score(X, y), 2)
    0.98
    >>> ends = KMeansKernelRegressor(20, loss="quantile", quantile=[0.1, 0.9])
    >>> low, high = ends.set_params(random_state=0).fit(X, y).predict(X).T
    >>> round(float(((low < y) & (y < high)).mean()), 1)
    0.8
    """

    _takes_matrices = "LSSVMRegressor"

    _parameters: ClassVar = {
        "n_representatives": base.count() | SIZE_WORDS,
        "n_bins": base.count(),
        "loss": base.one_of("squared_error", "quantile"),
        "quantile": LEVELS.advise("Try 0.5, or [0.1, 0.5, 0.9]."),
    }

    @base.stored
    def __init__(
        self,
        n_representatives: int | Literal["fast", "balanced", "best"] = "balanced",
        *,
        n_bins: int = 5,
        clustering: Literal["kmeans", "spherical"] = "kmeans",
        refine: int | Literal["auto"] | None = None,
        loss: Literal["squared_error", "quantile"] = "squared_error",
        quantile: float | Sequence[float] = 0.5,
        C: float | Literal["auto"] = "auto",
        kernel: base.KernelLike = "auto",
        gamma: float | Literal["tune", "scale", "auto", "median"] = "tune",
        learn_metric: bool | Literal["auto"] = "auto",
        degree: int = 3,
        coef0: float = 0.0,
        kmeans_params: Mapping[Any, Any] | None = None,
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y, sample_weight=None) -> Self:
        """Choose representatives, and fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in k-means, and their precisions in the least squares: a
            weight multiplies the row's squared error. A factor of all weights is one of
            C, and changes nothing with ``C="auto"``.

        Returns
        -------
        self : KMeansKernelRegressor
        """
        self._check_parameters()
        X, Y = self._validate_outputs(X, y)
        self.quantiles_ = None
        if self.loss == "quantile" and Y.shape[1] > 1:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, and loss='quantile' is of one; fit one "
                "model for each output."
            )
        weight = base.check_weights(sample_weight, X)
        problem, plan = self._posed(X, NumberTargets.of(Y, self.n_bins, weight), weight)
        rng = base.generator_from(self.random_state)
        with self._own_errors():
            model = fit_represented(problem, plan, rng)
            if self.loss == "quantile":
                model = self._at_quantiles(problem, model, rng)
        return self._learned(X, problem, model)

    def _size(self) -> int | list[int] | str:
        if self.loss == "quantile" and isinstance(self.n_representatives, str):
            return _QUANTILE_SIZES[self.n_representatives]
        return super()._size()

    def _at_quantiles(self, problem: Problem, model: Model, rng) -> Model:
        """Return the model with quantiles on its representatives, of rows in memory."""
        levels = [float(level) for level in np.atleast_1d(self.quantile)]
        self.quantiles_, self._single_output = np.array(levels), len(levels) == 1
        points = model.representatives.points
        most = rows_that_fit(points.shape[0], self.memory_budget, points)
        some = draw_some(rng, problem.present(), min(most, _QUANTILE_ROWS))
        if self._chooses_C:
            C = self._quantile_C(problem, model, some[:_JUDGED_ROWS])
            model = replace(model, C=C)
        solution, _ = self._quantiles_of(problem, model, some, model.C)
        return replace(model, solution=solution)

    def _quantile_C(self, problem: Problem, model: Model, some) -> float:
        """Return C, less as long as that lowers the pinball loss of rows held out."""
        held, fitted = np.array_split(some, [len(some) // 4])
        if len(held) == 0:
            return model.C
        y, weight = problem.targets.values[held], of_rows(problem.weight, held)
        best, least = model.C, np.inf
        for share in _C_SHARES:
            C = share * model.C
            solution, points = self._quantiles_of(problem, model, fitted, C)
            rows = nx.astype(nx.take_rows(problem.rows, held), "float64")
            f = kernel_expansion(model.kernel, rows, points, solution.dual_coef)
            r = y - nx.to_numpy(f + solution.intercept[None, :])
            losses = np.maximum(self.quantiles_ * r, (self.quantiles_ - 1) * r)
            loss = float(np.average(losses.mean(axis=1), weights=weight))
            if loss >= least:
                break
            best, least = C, loss
        return best

    def _quantiles_of(self, problem: Problem, model: Model, some, C: float):
        """Return the quantiles of some rows, and the points."""
        rows, weight = nx.take_rows(problem.rows, some), problem.weight
        like = np.empty(0) if nx.is_sparse(rows) else rows
        points = nx.as_like(model.representatives.points, like)
        points = nx.astype(points, "float64")
        coef, b = (nx.as_like(part, points) for part in model.solution[:2])
        given = problem.targets.values[some], of_rows(weight, some)
        y, weight = (nx.as_like(part, points) for part in given)
        solution = solve_quantiles(
            RowData(model.kernel, nx.astype(rows, "float64"), y, weight),
            points,
            self.quantiles_.tolist(),
            start=LSSVMSolution(coef, b, None, model.solution.info),
            C=C,
            memory_budget=self.memory_budget,
            callback=base.step_reporter(self.verbose, 1e-3, 1000),
        )
        return solution, points

    def _decision_values(self, X, dtype=None):
        """Return f(x), (n, t); quantiles in the order of their levels, (n, t)."""
        values = super()._decision_values(X, dtype)
        levels = getattr(self, "quantiles_", None)
        if levels is None or len(levels) == 1:
            return values
        rank = np.argsort(np.argsort(nx.to_numpy(levels), kind="stable"))
        values = nx.array_namespace(values).sort(values, axis=1)
        return nx.array_namespace(values).stack([values[:, k] for k in rank], axis=1)

    def _band(self, f):
        """Return the outer quantiles, (n, 1) each, or the mean twice."""
        levels = getattr(self, "quantiles_", None)
        if levels is None:
            return super()._band(f)
        if len(levels) < 2:
            raise ValueError(
                f"Intervals need two quantiles, and quantile={self.quantile!r} is one; "
                "fit with quantile=[0.05, 0.95]."
            )
        order = np.argsort(nx.to_numpy(levels))
        return tuple(f[:, int(k) : int(k) + 1] for k in (order[0], order[-1]))

    def score(self, X, y, sample_weight=None) -> float:
        """Return R²; with ``loss="quantile"`` its form for the pinball loss.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            With ``loss="quantile"`` ``sklearn.metrics.d2_pinball_score``, the mean over
            the levels: 1 less the loss over that of the quantile of ``y``.
        """
        levels = getattr(self, "quantiles_", None)
        if levels is None:
            return super().score(X, y, sample_weight)
        refuse_dask(X, "score of quantiles")
        from sklearn.metrics import d2_pinball_score  # not before: imports rich

        f, y = nx.to_numpy(self._decision_values(X, "float64")), base.on_host(y)
        options = {"sample_weight": base.on_host(sample_weight)}
        scores = [
            d2_pinball_score(y, f[:, k], alpha=level, **options)
            for k, level in enumerate(nx.to_numpy(levels))
        ]
        return float(np.mean(scores))

    def partial_fit(self, X, y, sample_weight=None) -> Self:
        """Fit the first rows, or add more rows to the fit.

        The first call is a :meth:`fit`: it chooses kernel, C and representatives, and
        should have some thousands of rows. Later calls add the normal equations of
        their rows, m × m numbers for m representatives, so that the coefficients are
        those of the least squares of all rows seen on these representatives.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            More rows; at least two at the first call.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : KMeansKernelRegressor
        """
        self._check_parameters()
        if self.loss != "squared_error":
            raise ValueError(
                f"loss={self.loss!r} is fitted to all rows at once; partial_fit adds "
                "the equations of squared errors. Use fit, or loss='squared_error'."
            )
        first, self.quantiles_ = not hasattr(self, "representatives_"), None
        X, Y = self._validate_outputs(X, y, reset=first)
        weight = base.check_weights(sample_weight, X)
        n_outputs = Y.shape[1] if first else self.dual_coef_.shape[1]
        if Y.shape[1] != n_outputs:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, and had {n_outputs} at the first call; "
                "pass as many, or fit a new model."
            )
        before = getattr(self, "_stream", None) or self._training
        unit = None if first or before is None else before.unit
        targets = NumberTargets.of(Y, self.n_bins, weight, unit)
        return self._learn_part(X, targets, weight)
