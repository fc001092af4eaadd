"""Problems, plans and models of kernel machines on representatives."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    NotPositiveDefiniteError,
    as_like,
    astype,
    concat_rows,
    dense_rows,
    draw_some,
    dtype_name,
    is_numpy,
    itemsize,
    resolve_budget,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel, RowMap, kernel_expansion
from kaucus.machines._targets import Targets, all_classes
from kaucus.representatives import KMeansOptions, Representatives
from kaucus.solvers import LSSVMSolution, fit_shift

if TYPE_CHECKING:
    from kaucus.machines._metric_search import MetricOptions

# Rows whose values by models that have not seen them are wanted.
UNSEEN_ROWS = 2000
NO_ROWS = np.empty(0, dtype=np.int64)


class Problem(NamedTuple):
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
        weights = (None if w is None else w[numbers] for w in self[2:4])
        rows = take_rows(self.rows, numbers)
        return Problem(rows, targets, *weights, self.row_map)

    def mapped(self, row_map: RowMap, memory_budget: int | str | None) -> "Problem":
        """Return the problem with its rows in a metric.

        Copies that would take more than a quarter of the budget are made block by
        block, whenever they are needed.
        """
        rows, budget = self.rows, resolve_budget(memory_budget, self.rows)
        size = itemsize(rows) * self.n * row_map.n_components
        if is_numpy(rows) and 4 * size > budget:
            rows = HostRows(rows, rows[:1, :], budget // 8)
        return self._replace(rows=row_map(rows), row_map=row_map)


class Plan(NamedTuple):
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
    precision: str | None = None
    memory_budget: int | str | None = None
    progress: Callable[[str], Callable[[int, int], object] | None] = lambda stage: None
    """Returns the callback ``(n_done, n_total)`` of a stage, or None."""
    metric: "MetricOptions | None" = None
    """Where a metric is searched together with kernel and C."""
    streamed: bool = False
    """Whether more rows will come, whose equations are added to those of these."""
    grows_fully: bool = False
    """Whether to add representatives even where rows held out see no gain."""


class Unseen(NamedTuple):
    """Decision values of rows by a model that has not seen them."""

    values: np.ndarray
    """(r, t)."""
    labels: np.ndarray
    weight: np.ndarray | None


class Model(NamedTuple):
    """A fitted machine, f(x) = Σ_q a_q k(x, z_q) + b, and how it came about."""

    kernel: Kernel
    C: float
    search_results: dict[str, np.ndarray]
    """What was tried for kernel and C."""
    representatives: Representatives
    solution: LSSVMSolution
    hard_rows: np.ndarray = NO_ROWS
    """Numbers of the rows that are the last of the representatives."""
    refine: str | None = None
    """How these were chosen: "residual" or "random"."""
    fit_rows: np.ndarray | None = None
    """Numbers of the rows that were fitted; None: all, or representatives."""
    unseen: Unseen | None = None


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
        model = model._replace(unseen=unseen)
    return model


def values_of(model: Model, problem: Problem, some: np.ndarray, plan: Plan) -> Unseen:
    """Return the decision values of some rows by the model."""
    rows = as_like(take_rows(problem.rows, some), model.representatives.points)
    solution = model.solution
    sums = kernel_expansion(
        model.kernel,
        rows,
        model.representatives.points,
        solution.dual_coef,
        memory_budget=plan.memory_budget,
    )
    return unseen_values(sums + solution.intercept[None, :], problem, some)


@contextlib.contextmanager
def errors_at(C: float) -> Iterator[None]:
    """Context manager that tells an error of an indefinite kernel at which C it was."""
    try:
        yield
    except NotPositiveDefiniteError as error:
        error.C = C
        raise


def unseen_values(values: Array, problem: Problem, some: np.ndarray) -> Unseen:
    """Return decision values of some rows with their labels and weights."""
    labels, weight = problem.targets.values[some], problem.fit_weight
    values = np.empty((0, 1)) if values is None else to_numpy(values)
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
    values, labels, weight = model.unseen
    shift = fit_shift(all_classes(values), labels, weight)
    if values.shape[1] == 1:
        shift = shift[1:] - shift[:1]
    intercept = model.solution.intercept
    moved = intercept + as_like(shift, intercept, dtype=dtype_name(intercept))
    return model._replace(
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
    n = chosen.points.shape[0]
    if n == problem.n and n_rows == 0:
        groups = problem.targets.clusters(problem.weight)
        rows = dense_rows(problem.rows, np.argsort(groups, kind="stable"))
        return chosen._replace(points=as_like(rows, chosen.points))
    points = row_map.back(chosen.points[: n - n_rows, :])
    if n_rows:
        hard = as_like(dense_rows(problem.rows, model.hard_rows), points)
        points = concat_rows(points, astype(hard, dtype_name(points)))
    return chosen._replace(points=points)
