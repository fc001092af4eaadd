"""Learn a metric from the targets: which columns, and which directions, matter.

    1  scale    columns as they are, or on a common scale: which is better?
    2  step     fit f on few kernel columns; M = mean of Σ_j ∇f_j ∇f_jᵀ over the rows
                (the average gradient outer product); map the rows by M^(p/2); again.
                Of many columns, also M of what each explains alone (``_main_effects``)
    3  decide   whether a step, its kind (full or diagonal M) and power p pay, by rows
                that neither fit nor metric has seen (``_metric_search``)
    4  refine   kernel, width and C, by the same rows, with as many columns as there are
                rows (``_metric_refine``)
    5  relearn  the metric of the chosen path, from all rows and more columns

References: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for
feature learning in neural networks and backpropagation-free machine learning models"
(Science, 2024). What differs here: few columns decide, a metric has to gain more than
1.5 standard errors, and columns are bounded.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import draw_some, one_blas_thread
from kaucus.kernels import Kernel, RowMap
from kaucus.machines._folds import make_fold
from kaucus.machines._gradients import composed_weights, gradient_product
from kaucus.machines._main_effects import screening_product
from kaucus.machines._metric_refine import refine
from kaucus.machines._metric_search import Candidate, MetricOptions, MetricSearch
from kaucus.machines._problem import Problem
from kaucus.machines._scale import scale_maps
from kaucus.solvers import solve_on_representatives

# With fewer rows, folds tell nothing.
_LEAST_ROWS = 50
# Columns by which the metric that was chosen is learned from all rows.
_LAST_COLUMNS = 1100


class FoundMetric(NamedTuple):
    """What was chosen, and what was tried."""

    row_map: RowMap
    kernel: Kernel
    """For mapped rows."""
    C: float
    results: dict[str, np.ndarray]
    scale: str
    kind: str
    power: float
    n_steps: int


def search_metric(
    problem: Problem,
    options: MetricOptions,
    rng: np.random.Generator,
    *,
    callback: Callable[[int, int], object] | None = None,
    memory_budget: int | str | None = None,
) -> FoundMetric:
    """Choose scale, metric, kernel, width and C by rows that were not learned from.

    Parameters
    ----------
    problem : Problem
    options : MetricOptions
    rng : numpy.random.Generator
        Draws the rows that learn and those that judge.
    callback : callable, default=None
        ``callback(n_done, n_total)`` after each stage.
    memory_budget : int, str or None, default=None
        Where it is short, fewer rows are looked at.
    """
    search = MetricSearch(problem, options, rng, memory_budget)
    # Fits beside each other, not threads within a fit: those of BLAS wait for each
    # other by spinning. With another program on one of two cores, a search with BLAS
    # threads took ten times as long.
    with one_blas_thread():
        best = search.best_scale()
        _tell(callback, 1)
        finalists = search.best_paths(best)
        _tell(callback, 2)
        best = refine(search, finalists)
        _tell(callback, 3)
        found = _relearned(search, best)
    _tell(callback, 4)
    return found


def enough_rows(n: int, weight: np.ndarray | None) -> bool:
    """Tell whether there are rows enough that some may judge and others learn."""
    return (n if weight is None else np.count_nonzero(weight)) >= _LEAST_ROWS


def only_scaled(problem: Problem, options: MetricOptions, rng) -> FoundMetric:
    """Return the common scale of the columns, without a metric or a search."""
    row_map = scale_maps(problem.rows, problem.fit_weight, rng)["standard"]
    family = options.families[0]
    rows = row_map(problem.rows)
    kernel = family.at(family.unit(rows), 1.0)
    results = _as_columns([])
    return FoundMetric(row_map, kernel, 1.0, results, "standard", "identity", 0.0, 0)


def _tell(callback, n_done: int) -> None:
    if callback is not None:
        callback(n_done, 4)


def _relearned(search: MetricSearch, best: Candidate) -> FoundMetric:
    """Learn the metric of the chosen path from all rows, up to a sample."""
    problem, family = search.problem, best.family
    row_map = base = search.maps[best.scale]
    n_rows = max(2 * _LAST_COLUMNS, search.options.max_samples)
    d = problem.rows.shape[1]
    most = int(search.budget / 2 / 8 / (4 * d + 4 * _LAST_COLUMNS))
    size = max(min(n_rows, most), 20)
    some = draw_some(search.rng, problem.present(), size)
    rows, Y, weight, *_ = make_fold(problem, search.Y, some, some[:0])
    for step in best.path:
        if step is None:
            M = screening_product(rows, Y, weight, base)
        else:
            M = _product(search, best, row_map, (rows, Y, weight), step)
        row_map = base.weighed(composed_weights(base.weights, M, best.power))
    judged = best.judged
    kernel = family.at(family.unit(row_map(rows)), judged.factor)
    return FoundMetric(
        row_map,
        kernel,
        judged.C,
        _as_columns(search.table),
        best.scale,
        best.kind,
        best.power,
        len(best.path),
    )


def _product(
    search: MetricSearch, best: Candidate, row_map: RowMap, data, step
) -> np.ndarray:
    """Return M of the fit before a step, whose width and C the step tells."""
    (rows, Y, weight), (factor, C), family = data, step, best.family
    Z = row_map(rows)
    columns = Z[: min(_LAST_COLUMNS, Z.shape[0]), :]
    kernel = family.at(family.unit(Z), factor)
    coef = solve_on_representatives(
        kernel, Z, Y, columns, C=C, sample_weight=weight
    ).dual_coef
    return gradient_product(
        *(kernel, Z, columns, coef, weight, row_map, best.kind),
        workers=search.n_threads,
    )


_TABLE = (
    *("kernel", "gamma", "C", "score"),
    *("scale", "kind", "power", "n_steps", "n_columns"),
)


def _as_columns(table: Sequence[tuple]) -> dict[str, np.ndarray]:
    """Return what was tried as columns that pandas takes."""
    texts = ("kernel", "scale", "kind")
    columns = zip(*table, strict=True) if table else ([] for _ in _TABLE)
    return {
        name: np.asarray(list(column), dtype=object if name in texts else None)
        for name, column in zip(_TABLE, columns, strict=True)
    }
