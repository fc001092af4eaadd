"""The problem of a fit: rows, targets, weights; the plan and the model."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import resolve_budget
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import Array
from kaucus._array.rows import HostRows
from kaucus._array.segments import draw_some
from kaucus.clustering._kmeans import KMeansOptions, Representatives
from kaucus.kernels._kernel import Kernel
from kaucus.kernels._matrix import kernel_expansion
from kaucus.kernels._metric import RowMap
from kaucus.solvers._columns import (
    Hardness,
    margin_hardness,
    random_hardness,
    residual_hardness,
)
from kaucus.solvers._system import (
    LSSVMSolution,
    classification_score,
    fit_shift,
    log_losses_of_rows,
    regression_score,
    two_columns,
)

if TYPE_CHECKING:
    from kaucus.fitting._search import MetricOptions

# ----------------------------------------------------------------------------------
# Targets of a fit, classes or numbers, and scores of its decision values.
#
# Both kinds of targets answer the same questions, so that one fit serves both: which
# columns the least squares are of, which rows are clustered together, how good decision
# values are, and which rows are hard.
# ----------------------------------------------------------------------------------


class TargetUnit(NamedTuple):
    """Origin and size of a regressor's targets, y = offset + scale z.

    Fits are of z, so that an offset of the targets costs no digits of their spread, and
    a tolerance is relative to that. The scale is a power of two: it rounds nothing.
    """

    offset: np.ndarray
    """(t,)."""
    scale: np.ndarray
    """(t,)."""

    @classmethod
    def of(cls, Y: np.ndarray, weight: np.ndarray | None) -> "TargetUnit":
        """Return the weighted mean of each output, and the spread.

        Rows of weight zero are passed over.
        """
        if weight is not None:
            Y, weight = Y[weight > 0], weight[weight > 0]
        # From the first row on: the mean of equal targets has no rounding then.
        offset = Y[0] + np.average(Y - Y[0], axis=0, weights=weight)
        largest = np.max(np.abs(Y - offset), axis=0)
        scale = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        return cls(offset, np.where(largest > 0, scale, 1.0))

    def standard(self, Y: np.ndarray) -> np.ndarray:
        """Return z of targets, (n, t)."""
        return (Y - self.offset) / self.scale

    def values(self, Z: Array) -> Array:
        """Return y of standard targets or predictions, (n, t)."""
        return Z * nx.as_like(self.scale, Z) + nx.as_like(self.offset, Z)

    def restored(self, model: Any) -> Any:
        """Return a model of standard targets with coefficients for y.

        ``model`` is any named tuple with ``dual_coef`` and ``intercept``.
        """
        coef, intercept = model.dual_coef, model.intercept
        coef, intercept = coef * nx.as_like(self.scale, coef), self.values(intercept)
        return model._replace(dual_coef=coef, intercept=intercept)

    def standardised(self, model: Any) -> Any:
        """Return a model of y with coefficients for standard targets."""
        coef, intercept = model.dual_coef, model.intercept
        offset, scale = (nx.as_like(part, intercept) for part in self)
        coef = coef / nx.as_like(self.scale, coef)
        return model._replace(dual_coef=coef, intercept=(intercept - offset) / scale)


NO_UNIT = TargetUnit(np.zeros(1), np.ones(1))
"""That of targets which are fitted as they are: classes."""

RowWeights = Callable[[np.ndarray | None, np.ndarray], np.ndarray | None]
"""(weights of rows, their labels) to weights that count their classes' weights too."""


class ClassTargets(NamedTuple):
    """Labels 0 to k − 1, fitted as columns of ±1 and judged by the log-loss."""

    values: np.ndarray
    """The label of each row, (n,)."""
    n_classes: int
    weigh: RowWeights

    clustered, unit = "class", NO_UNIT

    @property
    def n_groups(self) -> int:
        """Number of groups of which a stream counts the rows: the classes."""
        return self.n_classes

    def like(self, values: np.ndarray) -> "ClassTargets":
        """Return the targets of other rows."""
        return self._replace(values=values)

    def columns(self) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return one_vs_rest_targets(self.values, self.n_classes)

    def clusters(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the groups of rows that are clustered apart, (n,)."""
        return self.values

    def groups(self) -> np.ndarray:
        """Return the numbers of the groups of which a stream counts the rows, (n,)."""
        return self.values

    def fit_weights(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows in the least squares, (n,)."""
        return self.weigh(weight, self.values)

    def scaled(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the columns by whose losses candidates are compared, (n, t)."""
        return self.columns()

    def losses(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> np.ndarray:
        """Return the log-loss of each of some rows by c models, (r, c)."""
        return log_losses_of_rows(values, self.values[rows], of_rows(weight, rows))

    def score(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> float:
        """Return minus the log-loss of the decision values of some rows, (r, t)."""
        return classification_score(
            all_classes(values),
            self.values[rows],
            "neg_log_loss",
            of_rows(weight, rows),
        ).value

    def hardness(
        self, weight: np.ndarray | None, like: Array, rng: np.random.Generator
    ) -> Mapping[str, Hardness]:
        """Return the ways to order rows of which some are to be representatives."""
        return {"residual": margin_hardness, "random": random_hardness(rng)}


class NumberTargets(NamedTuple):
    """Numbers, judged by the squared error, each output in its own unit."""

    values: np.ndarray
    """The outputs of each row in ``unit``, (n, t)."""
    n_bins: int
    unit: TargetUnit = NO_UNIT

    clustered, n_groups = "bin", 1

    @classmethod
    def of(
        cls,
        Y: np.ndarray,
        n_bins: int,
        weight: np.ndarray | None,
        unit: TargetUnit | None = None,
    ) -> "NumberTargets":
        """Return the targets of a fit, in a given unit or that of the rows."""
        unit = TargetUnit.of(Y, weight) if unit is None else unit
        return cls(unit.standard(Y), n_bins, unit)

    def like(self, values: np.ndarray) -> "NumberTargets":
        """Return the targets of other rows."""
        return self._replace(values=values)

    def columns(self) -> np.ndarray:
        """Return the columns of the least squares, (n, t)."""
        return self.values

    def clusters(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the groups of rows that are clustered apart, (n,)."""
        return target_bins(self.values, weight, self.n_bins)

    def groups(self) -> np.ndarray:
        """Return the numbers of the groups of which a stream counts the rows, (n,)."""
        return np.zeros(len(self.values), dtype=np.int64)

    def fit_weights(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows in the least squares, (n,)."""
        return weight

    def scaled(self, weight: np.ndarray | None) -> np.ndarray:
        """Return the columns by whose losses candidates are compared, (n, t)."""
        return self.values / output_spread(self.values, weight)

    def losses(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> np.ndarray:
        """Return the squared error of each of some rows by c models, (r, c).

        ``values`` and targets are in units of each output's spread.
        """
        targets = self.scaled(weight)[rows]
        return np.mean((values - targets[:, None, :]) ** 2, axis=2)

    def score(
        self, values: np.ndarray, weight: np.ndarray | None, rows: np.ndarray
    ) -> float:
        """Return minus the mean squared error of predictions of some rows, (r, t)."""
        unit = output_spread(self.values, weight)
        return regression_score(
            values / unit,
            self.values[rows] / unit,
            "neg_mean_squared_error",
            of_rows(weight, rows),
        ).value

    def hardness(
        self, weight: np.ndarray | None, like: Array, rng: np.random.Generator
    ) -> Mapping[str, Hardness]:
        """Return the ways to order rows of which some are to be representatives."""
        unit = nx.as_like(output_spread(self.values, weight), like)
        return {
            "residual": lambda values, targets: residual_hardness(
                values / unit, targets / unit
            ),
            "random": random_hardness(rng),
        }


Targets = ClassTargets | NumberTargets


def all_classes(values: Array) -> Array:
    """Return one column of decision values for each class, also for two classes."""
    return two_columns(values) if values.shape[1] == 1 else values


def one_vs_rest_targets(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return targets of ±1, (n, t): t is 1 for two classes, else one per class.

    The papers code the classes as 0 and 1; with an intercept, both codes give the
    same classifier (decision values 2 f − 1).
    """
    if n_classes == 2:
        return np.where(labels == 1, 1.0, -1.0)[:, None]
    return np.where(labels[:, None] == np.arange(n_classes)[None, :], 1.0, -1.0)


def target_bins(Y: np.ndarray, weight: np.ndarray | None, n_bins: int) -> np.ndarray:
    """Return the bin of each row's target, (n,): equal weights in each, 0 is lowest.

    Several outputs are binned by the first principal component of their standardised
    values. Equal targets are in one bin, so that there may be fewer of them.
    """
    s = np.ones(len(Y)) if weight is None else weight
    centred = Y - np.average(Y, axis=0, weights=s)
    scaled = centred / output_spread(Y, s)
    _, directions = np.linalg.eigh(scaled.T @ (s[:, None] * scaled))
    first = directions[:, -1] * (1 if directions[0, -1] >= 0 else -1)
    order, groups = np.unique(scaled @ first, return_inverse=True)
    mass = np.bincount(groups, weights=s, minlength=len(order))
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bins = np.minimum((n_bins * middle).astype(np.int64), n_bins - 1)
    return np.unique(bins, return_inverse=True)[1][groups]


def output_spread(Y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the standard deviation of each output; 1 for a constant."""
    mean = np.average(Y, axis=0, weights=weight)
    spread = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    return np.where(spread > 0, spread, 1.0)


def of_rows(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return the values, such as weights, of some rows; None where there are none."""
    return None if values is None else values[rows]


# ----------------------------------------------------------------------------------
# Problems, plans and models of kernel machines on representatives.
# ----------------------------------------------------------------------------------

# Rows whose values by models that have not seen them are wanted.
UNSEEN_ROWS = 2000
NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows with targets and weights."""

    rows: Array
    """(n, d): an array, a CSR matrix, or rows of the host for a device."""
    targets: Targets
    weight: np.ndarray | None
    """Precision of each row: what multiplies its squared error, (n,)."""
    fit_weight: np.ndarray | None
    """The same times the weight of its class, (n,)."""
    row_map: RowMap | None = None
    """By which the rows were mapped to a learned metric."""

    @classmethod
    def of(cls, rows: Array, targets: Targets, weight: np.ndarray | None) -> "Problem":
        """Return the problem of all rows."""
        return cls(rows, targets, weight, targets.fit_weights(weight))

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    def present(self) -> np.ndarray:
        """Return the numbers of the rows that have a weight."""
        weight = self.fit_weight
        return np.arange(self.n) if weight is None else np.flatnonzero(weight)

    def part(self, numbers: np.ndarray) -> "Problem":
        """Return the problem of some of the rows."""
        targets = self.targets.like(self.targets.values[numbers])
        weights = (of_rows(w, numbers) for w in (self.weight, self.fit_weight))
        rows = nx.take_rows(self.rows, numbers)
        return Problem(rows, targets, *weights, self.row_map)

    def mapped(self, row_map: RowMap, memory_budget: int | str | None) -> "Problem":
        """Return the problem with its rows in a metric.

        Copies that would take more than a quarter of the budget are made block by
        block, whenever they are needed.
        """
        rows, budget = self.rows, resolve_budget(memory_budget, self.rows)
        size = nx.itemsize(rows) * self.n * row_map.n_components
        if nx.is_numpy(rows) and 4 * size > budget:
            rows = HostRows(rows, rows[:1, :], budget // 8)
        return replace(self, rows=row_map(rows), row_map=row_map)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a problem is to be solved."""

    kernels: Sequence[Sequence[Kernel]]
    """To choose from; in each sequence they differ by gamma, in its order."""
    Cs: Sequence[float]
    size: int | list[int] | str
    """Representatives: in all, of each group, or one of ``SIZES``."""
    kmeans: KMeansOptions
    refine: int | str | None = None
    """Rows to be added to a given number of representatives; see ``grow_from``."""
    fit_on: str = "all"
    """Which rows the least squares are of: "all", "boundary", "representatives"."""
    moves_intercept: bool = False
    calibrates: bool = False
    """Whether ``model.unseen`` is wanted."""
    n_unseen: int = UNSEEN_ROWS
    """How many rows it shall have, where every row is a representative."""
    precision: str | None = None
    memory_budget: int | str | None = None
    progress: Callable[[str], Callable[[int, int], object] | None] = lambda stage: None
    """Returns the callback ``(n_done, n_total)`` of a stage, or None."""
    metric: "MetricOptions | None" = None
    """Where a metric is searched together with kernel and C."""


class Unseen(NamedTuple):
    """Held-out decision values of some rows."""

    values: np.ndarray
    """(r, t)."""
    labels: np.ndarray
    weight: np.ndarray | None
    numbers: np.ndarray = NO_ROWS
    """Numbers of the rows, (r,); empty where nobody asks for them."""


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted machine, f(x) = Σ_q a_q k(x, z_q) + b, with its search."""

    kernel: Kernel
    C: float
    search_results: dict[str, np.ndarray]
    """Candidates for kernel and C, with their scores."""
    representatives: Representatives
    solution: LSSVMSolution
    hard_rows: np.ndarray = field(default_factory=lambda: NO_ROWS)
    """Numbers of the rows that are the last of the representatives."""
    refine: str | None = None
    """How these were chosen: "residual" or "random"."""
    fit_rows: np.ndarray | None = None
    """Numbers of the rows that were fitted; None: all, or representatives."""
    unseen: Unseen | None = None
    order: np.ndarray | None = None
    """Row numbers of the representatives where every row is one."""


def calibrated(model: Model, problem: Problem, plan: Plan, rng) -> Model:
    """Return the model with its intercept where unseen rows have the least loss."""
    if plan.moves_intercept and model.fit_rows is None:
        model = _with_shift(model)
    if plan.calibrates and model.unseen is None:
        # Representatives left out one by one are much too careful: a centre is far from
        # the others. On MNIST with 100 of them a class the log-loss of 10,000 test
        # digits was 0.21 by them, 0.113 by 2,000 training rows that only
        # representatives spoke for; the least possible was 0.110.
        some = draw_some(rng, problem.n, UNSEEN_ROWS)
        unseen = values_of(model, problem, some, plan)
        model = replace(model, unseen=unseen)
    return model


def values_of(model: Model, problem: Problem, some: np.ndarray, plan: Plan) -> Unseen:
    """Return the decision values of some rows by the model."""
    points, solution = model.representatives.points, model.solution
    rows, budget = nx.take_rows(problem.rows, some), plan.memory_budget
    given = (model.kernel, nx.as_like(rows, points), points, solution.dual_coef)
    sums = kernel_expansion(*given, memory_budget=budget)
    return unseen_values(sums + solution.intercept[None, :], problem, some)


@contextlib.contextmanager
def errors_at(C: float) -> Iterator[None]:
    """Context manager: errors of an indefinite kernel name the value of C."""
    try:
        yield
    except NotPositiveDefiniteError as error:
        error.C = C
        raise


def unseen_values(values: Array, problem: Problem, some: np.ndarray) -> Unseen:
    """Return decision values of some rows with their labels and weights."""
    labels, weight = problem.targets.values[some], problem.fit_weight
    values = np.empty((0, 1)) if values is None else nx.to_numpy(values)
    return Unseen(values, labels, None if weight is None else weight[some])


def joined_unseen(first: Unseen, second: Unseen) -> Unseen:
    """Return the rows of both; the first may be empty."""
    if len(first.labels) == 0:
        return second
    pairs = zip(first, second, strict=True)
    return Unseen(*(None if a is None else np.concatenate([a, b]) for a, b in pairs))


def _with_shift(model: Model) -> Model:
    """Move the intercept to where the log-loss of unseen rows is least."""
    if model.unseen is None or len(model.unseen.labels) == 0:
        return model
    values, labels, weight, _ = model.unseen
    shift = fit_shift(all_classes(values), labels, weight)
    if values.shape[1] == 1:
        shift = shift[1:] - shift[:1]
    intercept = model.solution.intercept
    moved = intercept + nx.as_like(shift, intercept, dtype=nx.dtype_name(intercept))
    return replace(
        model,
        solution=model.solution._replace(intercept=moved),
        unseen=model.unseen._replace(values=values + shift),
    )


def in_given_columns(
    model: Model, problem: Problem, row_map: RowMap
) -> Representatives:
    """Return the representatives of a model of mapped rows in the columns of the rows.

    Those that are rows are taken from them.
    """
    chosen, n_rows = model.representatives, len(model.hard_rows)
    if model.order is not None:
        rows = nx.dense_rows(problem.rows, model.order)
        return replace(chosen, points=nx.as_like(rows, chosen.points))
    points = row_map.back(chosen.points[: chosen.points.shape[0] - n_rows, :])
    if n_rows:
        hard = nx.as_like(nx.dense_rows(problem.rows, model.hard_rows), points)
        points = nx.concat_rows(points, nx.astype(hard, nx.dtype_name(points)))
    return replace(chosen, points=points)
