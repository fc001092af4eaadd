"""What the k-means kernel classifier and regressor share.

They check parameters and data, say what the targets are, and store what
:func:`kaucus.machines.fit_represented` finds.
"""

import contextlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from kaucus.backend import (
    NotPositiveDefiniteError,
    as_like,
    generator_from,
    is_sparse,
    to_numpy,
)
from kaucus.contract import FitsBatches
from kaucus.estimators._base import indefinite_kernel
from kaucus.estimators._metric_options import (
    LEARN_METRIC,
    learns_metric,
    metric_options,
    warn_of_one_column,
)
from kaucus.estimators._parameters import NONE, POSITIVE, Constraint, count, one_of
from kaucus.estimators._progress import share_reporter
from kaucus.estimators._ranges import check_kernel_values
from kaucus.estimators._represented_model import RepresentedModel
from kaucus.estimators._validation import mean_weight, relative_weights
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
    Model,
    PartialFit,
    Plan,
    Problem,
    TargetUnit,
    fit_represented,
)
from kaucus.representatives import KMeansOptions

SIZE_WORDS = one_of(*SIZES)
_KMEANS: Mapping[str, Constraint] = {
    "init": one_of("random", "k-means++"),
    "n_init": count(),
    "max_iter": count(),
    "tol": POSITIVE,
}
_KMEANS_DEFAULTS = {"init": "random", "n_init": 1, "max_iter": 100, "tol": 1e-4}


def _in_unit(model: Model, unit: TargetUnit) -> Model:
    """Return a model of standard targets with coefficients for those of the user."""
    return model._replace(solution=unit.restored(model.solution))


def _is_mapping(value) -> bool:
    return isinstance(value, Mapping)


# Ways to find representatives, and the geometry of each.
CLUSTERINGS = {"kmeans": "euclidean", "spherical": "cosine"}


class RepresentativesBase(FitsBatches, RepresentedModel):
    """Representatives by k-means, and least squares of rows on their columns.

    Subclasses give ``_targets`` (of validated ``y``) and ``_size``.

    Parameters
    ----------
    clustering : {"kmeans", "spherical"}
        k-means by distance, or by angle (spherical k-means, the paper's). By angle, a
        representative has the direction of its centre and the mean norm of its rows.
    kernel : str, kernel object or callable
        ``"auto"``: ``"rbf"`` or ``"exponential"``, chosen as C and gamma are.
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"tune", "scale", "auto", "median"} or float
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, as in scikit-learn; ``"tune"`` chooses, as C, among 1/16 ... 16
        times ``"scale"`` (1/4 ... 4 times its root for ``"exponential"`` and
        ``"laplacian"``, which are functions of the distance, not of its square).
    learn_metric : "auto" or bool
        Whether columns are put on a common scale, which outliers do not spoil, and
        weighed or mixed by a metric that is learned from ``y``: the average outer
        product of the gradients of a first fit, in a few steps. Kernel, width, C,
        metric and the number of steps, which may be none, and whether columns are
        scaled at all, are then chosen by rows held out. ``"auto"``: where ``kernel``
        and ``gamma`` are left to be chosen; who gives them means the distances of the
        rows as they are. ``kernel="auto"`` then chooses among ``"laplacian"`` too, up
        to 64 columns.
    kmeans_params : dict
        What k-means is to do otherwise: ``init`` (``"random"``, the default, or
        ``"k-means++"``), ``n_init`` (1; starts, of which the best is kept),
        ``max_iter`` (100 steps at most), ``tol`` (1e-4; it stops when the centres move
        by no more: the alignment deviation δ with ``"cosine"``, the mean squared move
        over the variance with ``"euclidean"``).
    memory_budget : int or str
        Bytes, or a text such as ``"4GiB"``; None is three quarters of what is free. The
        kernel matrix of all rows is never held; blocks of it are.
    """

    _kernel_words = ("auto",)
    _dask_fit = "rows"
    _moves_intercept = _calibrates = False
    _parameters: ClassVar = {
        "C": (POSITIVE | one_of("auto")).advise("Try 1.0; larger fits closer."),
        "gamma": POSITIVE | one_of("tune", "scale", "auto", "median"),
        "clustering": one_of(*CLUSTERINGS),
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
        self._weight_unit = 1.0
        if self._chooses_C:
            self._weight_unit = mean_weight(weight)
            weight = relative_weights(weight)
        problem = Problem.of(self._placed(X), targets, weight)
        plan = self._plan(self._kernel_paths(X, problem.fit_weight), X)
        self._stream = None
        with self._own_errors():
            model = fit_represented(problem, plan, rng)
        self._store_model(X, _in_unit(model, targets.unit))
        self._remember_represented(X, problem, model)
        return self

    def _learn_part(self, X, targets, weight):
        """Take in a part of the rows; the model so far stays where that fails.

        ``targets`` are in the unit of the stream, if there is one.
        """
        fit = PartialFit(
            self._plan([], X),
            lambda rows, weight: self._kernel_paths(as_like(rows, X), weight),
            targets,
            lambda rows: self._placed(as_like(rows, X)),
            lambda: generator_from(self.random_state),
        )
        model = None
        if hasattr(self, "representatives_"):
            model = self._as_model(X)
            standard = targets.unit.standardised(model.solution)
            model = model._replace(solution=standard)
        rows = X if is_sparse(X) else to_numpy(X)
        stream = getattr(self, "_stream", None)
        if model is None:  # all parts have the unit of the first
            self._weight_unit = mean_weight(weight) if self._chooses_C else 1.0
        weight = np.ones(X.shape[0]) if weight is None else weight
        weight = weight / self._weight_unit
        with self._own_errors():
            if stream is None:
                rng = generator_from(self.random_state)
                empty = fit.begin(rows, targets.values, rng)
                stream = empty if model is None else fit.begin_with(model, rng)
            model, stream = fit.take_in(stream, model, rows, targets.values, weight)
        self._store_model(X, _in_unit(model, targets.unit))
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
        Cs = None if self._chooses_C else [float(self.C)]
        return metric_options(
            X, self.kernel, self.gamma, Cs, degree=self.degree, coef0=self.coef0
        )

    def _plan(self, kernels: list[list], X) -> Plan:
        """Return the parameters as the core takes them."""
        return Plan(
            metric=self._metric_options(X),
            kernels=kernels,
            Cs=CS if self._chooses_C else [float(self.C)],
            size=self._size(),
            kmeans=KMeansOptions(CLUSTERINGS[self.clustering], **self._kmeans_options),
            refine=self.refine,
            fit_on=getattr(self, "fit_on", "all"),
            moves_intercept=self._moves_intercept,
            calibrates=self._calibrates,
            precision=self.precision,
            memory_budget=self.memory_budget,
            progress=lambda stage: share_reporter(self.verbose, stage),
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False  # there must be rows to cluster
        return tags
