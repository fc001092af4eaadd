"""Rows that learn and rows that judge: candidates for a metric, compared in pairs.

Every candidate, a map of the rows with a kernel and C, is fitted to the learning rows
of each fold and judged by its other rows. A metric is learned anew in each fold, so no
row judges a metric that has seen its label; leave-one-out would not tell: it takes the
row out of the fit, but not out of the metric.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaucus.backend import Array, as_like, astype, dense_rows, to_numpy
from kaucus.kernels import Kernel, RowMap, resolve_gamma
from kaucus.machines._problem import Problem
from kaucus.machines._targets import of_rows
from kaucus.solvers import (
    LSSVMSolution,
    RowData,
    add_rows,
    decompose_columns,
    solve_ls_svm,
    solve_running,
)

# With fewer rows than this, every row judges once, in more folds the fewer there are;
# else a third of them do.
_FEW_ROWS, _VERY_FEW = 1500, 300
# Columns of few rows: a quarter of them, or so many, but no more than half.
_FEW_COLUMNS = 100
# Standard errors by which a gain must be more than zero.
_ERRORS = 1.5
# For more values of C than this, a decomposition takes less time than solving for each.
_FEW_CS = 3
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

    @property
    def is_exact(self) -> bool:
        """Whether every learning row is a column."""
        return self.n_columns >= self.rows.shape[0]

    def model(self, kernel: Kernel):
        """Return the least squares on the columns, for every C."""
        K = kernel(self.rows, self.columns)
        among = K[: self.columns.shape[0], :]
        return decompose_columns(K, among, self.fold.Y, self.fold.weight)

    def values(self, kernel: Kernel, Cs: Sequence[float]) -> np.ndarray:
        """Return the decision values of the judging rows for each C, (r, c, t)."""
        K = kernel(self.judging, self.columns)
        if not self.is_exact and len(Cs) > _FEW_CS:
            return to_numpy(self.model(kernel).values(K, Cs))
        solve = self._exact if self.is_exact else self._on_columns
        values = [
            K @ astype(fit.dual_coef, "float64") + fit.intercept
            for fit in solve(kernel, Cs)
        ]
        return np.stack([to_numpy(v) for v in values], axis=1)

    def _exact(self, kernel: Kernel, Cs: Sequence[float]) -> Iterator[LSSVMSolution]:
        """Yield the LS-SVM of all learning rows for each C."""
        K, fold = kernel(self.rows), self.fold
        for C in Cs:
            yield solve_ls_svm(K, fold.Y, C=float(C), sample_weight=fold.weight)

    def _on_columns(
        self, kernel: Kernel, Cs: Sequence[float]
    ) -> Iterator[LSSVMSolution]:
        """Yield the least squares on the columns for each C, from the same sums.

        For a few values of C that takes a third of the time of a decomposition.
        """
        data = RowData(kernel, self.rows, self.fold.Y, self.fold.weight, None)
        sums, _ = add_rows(data, self.columns)
        for C in Cs:
            yield solve_running(data, self.columns, sums, C=float(C))


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
    some = rng.permutation(problem.present())[:n_rows]
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


def judge(
    folds: Sequence[MappedFold],
    family: Family,
    factor: float,
    Cs: Sequence[float],
    losses_of: Callable[[np.ndarray, np.ndarray], np.ndarray],
    weight: np.ndarray | None,
) -> Judged:
    """Fit a kernel in every fold, and return the C of least loss.

    ``losses_of(values, numbers)`` returns the loss of each judging row and C, (r, c).
    """
    numbers = np.concatenate([mapped.fold.numbers for mapped in folds])
    values = [mapped.values(mapped.kernel(family, factor), Cs) for mapped in folds]
    values = np.concatenate(values)
    losses = losses_of(values, numbers)
    table = np.average(losses, axis=0, weights=of_rows(weight, numbers))
    table = np.where(np.isfinite(table), table, np.inf)
    c = int(np.argmin(table))
    return Judged(float(table[c]), losses[:, c], factor, float(Cs[c]), table)


def gains(new: Judged, old: Judged, weight: np.ndarray | None) -> bool:
    """Tell whether the loss falls by more than chance, row by row.

    By 1.5 standard errors: it is the best of many that is compared.
    """
    falls = old.losses - new.losses
    shares = np.ones(len(falls)) if weight is None else weight
    mean = np.average(falls, weights=shares)
    variance = np.average((falls - mean) ** 2, weights=shares)
    return bool(mean > _ERRORS * np.sqrt(variance / len(falls)))
