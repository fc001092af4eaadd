"""Rows that learn and rows that judge: candidates for a metric, compared in pairs.

Every candidate, a map of the rows with a kernel and C, is fitted to the learning rows
of each fold and judged by its other rows. A metric is learned anew in each fold, so no
row judges a metric that has seen its label; leave-one-out would not tell: it takes the
row out of the fit, but not out of the metric.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    dense_rows,
    draw_some,
    to_numpy,
)
from kaucus.kernels import Kernel, RowMap, resolve_gamma
from kaucus.machines._problem import Problem
from kaucus.solvers import ColumnModels, solve_for_each_C, solve_ls_svm

# With fewer rows than this, every row judges once, in more folds the fewer there are;
# else a third of them do.
_FEW_ROWS, _VERY_FEW = 1500, 300
# Columns of few rows: a quarter of them, or so many, but no more than half.
_FEW_COLUMNS = 100
# Of the factorisations by which models of all rows are compared. Kernel columns are in
# float64: of wide kernels, the rounding of float32 products, which depends on the
# number of threads, changed losses by up to a hundredth.
_PRECISION = "float32"
# The median distance is that of so many rows.
_MEDIAN_ROWS = 300


class Family(NamedTuple):
    """Kernels that differ by gamma, or one kernel."""

    kernel: Kernel
    gamma: str | None
    """"tune": searched; "scale", "auto", "median": that of the mapped rows, as in
    ``resolve_gamma``; None: the kernel's own."""

    @property
    def widens(self) -> bool:
        """Whether gamma is searched."""
        return self.gamma == "tune"

    def at(self, unit: float, factor: float) -> Kernel:
        """Return the kernel whose gamma is ``factor`` times ``unit``."""
        if self.gamma is None:
            return self.kernel
        return replace(self.kernel, gamma=float(unit * factor))  # type: ignore[type-var]

    def unit(self, rows: Array) -> float:
        """Return the gamma that a factor of 1 stands for: of the median distance."""
        if self.gamma is None:
            return 1.0
        how = "median" if self.widens else self.gamma
        some = rows[: min(_MEDIAN_ROWS, rows.shape[0]), :]
        return resolve_gamma(how, some, None, self.kernel.name)


class Fold(NamedTuple):
    """Rows that learn, in random order, and rows that judge, (r, d), all in float64."""

    rows: Array
    Y: Array
    weight: Array | None
    judging: Array
    numbers: np.ndarray
    """Numbers of the judging rows in the problem."""

    def mapped(self, row_map: RowMap, n_columns: int) -> "MappedFold":
        """Return the rows in a metric; the first of them are the columns."""
        rows, judging = row_map(self.rows), row_map(self.judging)
        return MappedFold(self, row_map, rows, judging, 0, {}).with_columns(n_columns)


class MappedFold(NamedTuple):
    """A fold whose rows are in a metric."""

    fold: Fold
    row_map: RowMap
    rows: Array
    judging: Array
    n_columns: int
    units: dict[str, float]
    """Gamma of the median distance for each kernel that was asked for."""

    def kernel(self, family: Family, factor: float) -> Kernel:
        """Return a kernel whose gamma is so many times that of the median distance."""
        name = family.kernel.name
        if name not in self.units:
            self.units[name] = family.unit(self.rows)
        return family.at(self.units[name], factor)

    def with_columns(self, n_columns: int) -> "MappedFold":
        """Return the fold with so many columns, but of few rows only a part of them."""
        n = self.rows.shape[0]
        most = max(n // 4, min(n // 2, _FEW_COLUMNS), 1)
        return self._replace(n_columns=min(n_columns, most))

    @property
    def columns(self) -> Array:
        """Rows whose kernel columns are fitted, (m, r)."""
        return self.rows[: min(self.n_columns, self.rows.shape[0]), :]

    def models(self, kernel: Kernel, Cs: Sequence[float]) -> ColumnModels:
        """Return the least squares on the columns for each C."""
        Y, weight = self.fold.Y, self.fold.weight
        return solve_for_each_C(kernel, self.rows, Y, self.columns, Cs, weight)

    def values(self, kernel: Kernel, Cs: Sequence[float]) -> np.ndarray:
        """Return the decision values of the judging rows for each C, (r, c, t)."""
        is_exact = self.n_columns >= self.rows.shape[0]
        models = self._exact(kernel, Cs) if is_exact else self.models(kernel, Cs)
        return to_numpy(models.values(kernel(self.judging, self.columns)))

    def _exact(self, kernel: Kernel, Cs: Sequence[float]) -> ColumnModels:
        """Return the LS-SVM of all learning rows for each C."""
        K, (_, Y, weight, *_) = kernel(self.rows), self.fold
        options = {"sample_weight": weight, "precision": _PRECISION}
        fits = [
            solve_ls_svm(K, Y, C=C, overwrite_K=k == len(Cs), **options)
            for k, C in enumerate(Cs, start=1)
        ]
        xp = array_namespace(Y)
        return ColumnModels(
            xp.stack([fit.dual_coef for fit in fits], axis=1),
            xp.stack([fit.intercept for fit in fits]),
        )


class Judged(NamedTuple):
    """A kernel's best C, as the judging rows of all folds see it."""

    loss: float
    losses: np.ndarray
    """Of each judging row, (r,)."""
    factor: float
    """Of gamma, in units of the median distance's."""
    C: float
    table: np.ndarray
    """Losses for every C, (c,)."""


def make_folds(
    problem: Problem, Y: np.ndarray, n_rows: int, cv: int | None, rng
) -> list[Fold]:
    """Split at most ``n_rows`` rows into folds; ``cv`` of them, or as many as help."""
    some = draw_some(rng, problem.present(), n_rows)
    if cv is None:
        parts = np.array_split(some, 3 if len(some) >= _VERY_FEW else 4)
        judges = parts[:1] if len(some) >= _FEW_ROWS else parts
    else:
        judges = np.array_split(some, cv)
    return [
        make_fold(problem, Y, some[~np.isin(some, judging)], judging)
        for judging in judges
        if 0 < len(judging) < len(some)
    ]


def make_fold(
    problem: Problem, Y: np.ndarray, learning: np.ndarray, judging: np.ndarray
) -> Fold:
    """Return the fold of the rows with these numbers."""
    rows = wide_rows(problem, learning)
    weight = problem.fit_weight
    weight = None if weight is None else as_like(weight[learning], rows)
    judges = wide_rows(problem, judging)
    return Fold(rows, as_like(Y[learning], rows), weight, judges, judging)


def wide_rows(problem: Problem, numbers: np.ndarray) -> Array:
    """Return some rows as a dense array of float64."""
    return astype(dense_rows(problem.rows, numbers), "float64")


def gains(falls: np.ndarray, weight: np.ndarray | None, errors: float) -> bool:
    """Tell whether losses fall, row by row, by more than some standard errors.

    ``falls`` and ``weight``, (r,), are of rows drawn by themselves: the error of a
    weighted mean is that of whole rows.
    """
    shares = np.ones(len(falls)) if weight is None else weight
    shares = shares / shares.sum()
    mean = shares @ falls
    return bool(mean > errors * np.sqrt(np.sum((shares * (falls - mean)) ** 2)))
