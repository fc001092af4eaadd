"""The search for kernel, width, C and metric."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from kaucus._array.blocks import (
    map_blocks,
    n_workers,
    one_blas_thread,
    reduce_blocks,
    release_freed_memory,
    resolve_budget,
    row_blocks,
)
from kaucus._array.namespace import (
    Array,
    array_namespace,
    as_like,
    astype,
    dense_rows,
    is_numpy,
    is_sparse,
    take_rows,
    to_numpy,
    warn_user,
)
from kaucus._array.segments import draw_some
from kaucus.fitting._problem import Plan, Problem, errors_at, of_rows
from kaucus.kernels._kernel import Kernel, resolve_gamma
from kaucus.kernels._metric import MappedKernel, RowMap, metric_root
from kaucus.solvers._choice import affordable_search, search_on_representatives
from kaucus.solvers._columns import (
    ColumnModels,
    solve_for_each_C,
    solve_on_representatives,
)
from kaucus.solvers._direct import solve_ls_svm

# ----------------------------------------------------------------------------------
# Two scales for the columns of a table, which outliers do not spoil.
#
# A common one:
#
#     v = (x − median) / (quartile range),   u = v / √(1 + v²/9),   (u − mean) / std
#
# Where the quartiles are equal, the standard deviation stands in for their range. No
# value is further than 3 from the median, so that one entry of 10⁶ does no harm; the
# bound is smooth and can be taken back.
#
# Or the scale that columns have, less their means: within the range of the training
# rows values stay as they are; beyond, they come to no more than a quarter of half that
# range. Without a bound, one value of 1,100 spreads took a prediction 22 spreads of the
# target away. (A bound at ten quartile ranges, within the training rows too, raised the
# error of pol by 9 %.)
# ----------------------------------------------------------------------------------

BOUND = 3.0
_FAR, _GIVEN_BOUND = 10.0, 0.25
# Rows from which quartiles, mean and spread are taken.
_ROWS = 10_000


def scale_maps(
    rows: Array, weight: np.ndarray | None, rng: np.random.Generator
) -> dict[str, RowMap]:
    """Return maps of rows: to spread 1, to bounded columns, and the identity.

    Of the first two the columns have mean 0, and constant ones become 0. A sparse
    matrix keeps its zeros: its columns are divided by their root mean square.

    Parameters
    ----------
    rows : array, CSR matrix or HostRows of shape (n, d)
    weight : ndarray of shape (n,), or None
        Rows of weight 0 are passed over; other weights do not matter.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        ``"standard"``, ``"bounded"`` and ``"given"``.
    """
    present = np.arange(rows.shape[0]) if weight is None else np.flatnonzero(weight)
    if len(present) > _ROWS:
        present = np.sort(draw_some(rng, present, _ROWS))
    some = take_rows(rows, present)
    if is_sparse(some):
        standard = _of_sparse(some)
        given = RowMap.identity(rows.shape[1], standard.spread)
        return {"standard": standard, "bounded": given, "given": given}
    X = to_numpy(some).astype(np.float64)
    low, center, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    spread = high - low
    with np.errstate(over="ignore"):
        spread = np.where(spread > 0, spread, X.std(axis=0))
    usable = (spread > 1e-300) & np.isfinite(spread)
    scale = np.where(usable, 1 / np.where(usable, spread, 1.0), 0.0)
    d = len(center)
    first = RowMap(center, scale, BOUND, np.zeros(d), np.ones(d))
    values = first(X)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    ends = np.array([X.min(axis=0), X.max(axis=0)])
    varies = usable & (ends[1] > ends[0])
    far = np.where(varies, _FAR / np.where(varies, scale, 1.0), np.inf)
    limits = np.array(
        [np.minimum(ends[0], center - far), np.maximum(ends[1], center + far)]
    )
    standard = RowMap(
        center, scale, BOUND, mean, _inverse(spread), spread, limits=limits
    )
    with np.errstate(over="ignore"):
        given = RowMap.identity(d, X.std(axis=0))
    return {
        "standard": standard,
        "bounded": _of_own_scale(X, ends, limits),
        "given": given,
    }


def _of_own_scale(X, ends, limits) -> RowMap:
    """Return the map that bounds columns beyond their ends, and takes their means off.

    All training rows are within the bounds: a column of rare large values keeps them.
    """
    low, high = ends
    half = high / 2 - low / 2
    usable = (half > 1e-300) & np.isfinite(half)
    scale = np.where(usable, 1 / np.where(usable, half, 1.0), 0.0)
    zeros, d = np.zeros(len(half)), len(half)
    bounded = RowMap(
        low / 2 + high / 2, scale, _GIVEN_BOUND, zeros, np.ones(d), free=1.0
    )
    values = bounded(X)
    return replace(
        bounded,
        offset=values.mean(axis=0),
        weights=np.where(usable, half, 1.0),
        spread=values.std(axis=0),
        limits=limits,
    )


def _of_sparse(X) -> RowMap:
    d = X.shape[1]
    squares = np.asarray(scipy.sparse.csr_array(X).power(2).mean(axis=0)).ravel()
    zeros, size = np.zeros(d), np.sqrt(squares)
    return RowMap(zeros, np.ones(d), np.inf, zeros, _inverse(size), size)


def _inverse(spread: np.ndarray) -> np.ndarray:
    """Return 1 / spread; 0 for a column that is constant to rounding."""
    used = spread > 1e-12
    return np.where(used, 1 / np.where(used, spread, 1.0), 0.0)


# ----------------------------------------------------------------------------------
# What each column explains alone: the first metric of a table with many columns.
#
# Of hundreds of columns, of which few matter, distances hardly depend on those few: a
# first fit is no better than the mean, and its gradients are noise. What a column
# explains by itself can still be seen:
#
#     e_j = Σ_b (W_b / W) ‖ȳ_b − ȳ‖² / (mean of ‖y − ȳ‖²),
#
# where b are bins of neighbouring values of column j, ȳ_b the mean target in a bin and
# W_b its weight; less what bins of a column without influence explain by chance.
# ----------------------------------------------------------------------------------

# Bins of a column, and standard errors by which it must explain more than chance does.
_BINS, _MAIN_EFFECT_ERRORS = 16, 3.0
# Entries that are sorted at a time.
_MAIN_EFFECT_ENTRIES = 4_000_000
# Added to each, as a share of their mean: later steps may find columns that matter
# only together with others.
_FLOOR = 0.02


def screening_product(
    rows: Array, Y: Array, weight: Array | None, scale: RowMap
) -> np.ndarray:
    """Return the diagonal of a metric by which columns weigh what they explain alone.

    Takes the place of the average gradient product before any fit; like it, in the
    columns before the weights of the scale.

    Parameters
    ----------
    rows, Y : arrays of shape (n, d) and (n, t)
    weight : array of shape (n,), or None
    scale : RowMap

    Returns
    -------
    ndarray of shape (d,)
    """
    effects = main_effects(
        to_numpy(rows), to_numpy(Y), None if weight is None else to_numpy(weight)
    )
    return (effects + _FLOOR * (effects.mean() or 1.0)) * scale.weights**2


def main_effects(
    X: np.ndarray, Y: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the share of the targets' variance that each column explains alone.

    0 for a column that explains no more than chance does. Depends on the order of a
    column's values, not on the values.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
    weight : ndarray of shape (n,), default=None

    Returns
    -------
    ndarray of shape (d,)
    """
    (n, d), t = X.shape, Y.shape[1]
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    shares = w / w.sum()
    centred = Y - shares @ Y
    total = float(shares @ np.sum(centred**2, axis=1))
    n_bins = min(_BINS, n)
    if total <= 0 or n_bins < 2:
        return np.zeros(d)
    starts = np.arange(n_bins) * n // n_bins
    step = max(_MAIN_EFFECT_ENTRIES // (n * (t + 1)), 1)
    parts = [
        _explained(X[:, start : start + step], centred, shares, starts)
        for start in range(0, d, step)
    ]
    explained = np.concatenate(parts) / total if parts else np.zeros(0)
    n_effective = 1 / float(shares @ shares)
    by_chance = (
        n_bins - 1 + _MAIN_EFFECT_ERRORS * np.sqrt(2 * (n_bins - 1))
    ) / n_effective
    return np.maximum(explained - by_chance, 0.0)


def _explained(
    X: np.ndarray, centred: np.ndarray, shares: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Return Σ_b (W_b / W) ‖ȳ_b‖² of centred targets for each column, (d,)."""
    order = np.argsort(X, axis=0, kind="stable")  # (n, d)
    of_bins = np.add.reduceat(shares[order], starts, axis=0)  # (b, d)
    sums = np.add.reduceat((shares[:, None] * centred)[order], starts, axis=0)
    squares = np.sum(sums**2, axis=2) / np.where(of_bins > 0, of_bins, 1.0)
    return np.sum(squares, axis=0)


# ----------------------------------------------------------------------------------
# The average outer product of gradients, and the weights of a map made of it.
# ----------------------------------------------------------------------------------

# Multiplications that gradients may take: over as many rows as these allow.
_GRADIENT_WORK = 2e10
# A full metric of more columns than this is a root of so many gradients.
_FULL_COLUMNS, _GRADIENT_ROWS = 1500, 1000


def gradient_product(
    kernel: Kernel,
    Z: Array,
    columns: Array,
    coef: Array,
    weight: Array | None,
    row_map: RowMap,
    kind: str,
    *,
    workers: int = 1,
) -> np.ndarray:
    """Return M = mean of Σ_j ∇f_j ∇f_jᵀ over mapped rows, in the scaled columns.

    f_j(z) = Σ_q a_qj k(z, z_q); the gradient by the scaled columns u, where z = u T, is
    that by z times Tᵀ. Over as many of the rows as their cost allows.

    Parameters
    ----------
    kernel : Kernel
    Z, columns : arrays of shape (n, r) and (m, r)
        Mapped rows, and those whose kernel columns were fitted.
    coef : array of shape (m, t)
    weight : array of shape (n,), or None
    row_map : RowMap
        By which the rows were mapped.
    kind : {"diagonal", "full"}
    workers : int, default=1
        Threads over blocks of rows.

    Returns
    -------
    ndarray of shape (d,), (d, d), or (s, d) with M = FᵀF of more than 1,500 columns
    """
    d, (m, t) = row_map.n_features, coef.shape
    work = m * max(Z.shape[1], 1) * t
    n_rows = int(min(max(_GRADIENT_WORK / work, 200), Z.shape[0]))
    wide = kind == "full" and d > _FULL_COLUMNS
    if wide:
        n_rows = min(n_rows, max(_GRADIENT_ROWS // t, 1))
    # The columns are the first rows, at which f may be rough: take the last ones.
    Z = Z[Z.shape[0] - n_rows :, :]
    s = None if weight is None else weight[weight.shape[0] - n_rows :]
    T = row_map.weights

    def of_rows(rows: slice) -> np.ndarray:
        share = None if s is None else np.sqrt(to_numpy(s[rows]))[:, None]
        found = [
            _mapped_back(to_numpy(G), T, share)
            for G in kernel.gradients(Z[rows, :], columns, coef)
        ]
        if wide:
            return np.concatenate(found)
        return sum(
            np.sum(G * G, axis=0) if kind == "diagonal" else G.T @ G for G in found
        )

    # Blocks that stay in a core's cache: what is not a product is bound by memory.
    blocks = row_blocks(n_rows, 8 * m, 2**22 if is_numpy(Z) else 2**28)
    join = (lambda F, G: np.concatenate([F, G])) if wide else np.add
    total = reduce_blocks(of_rows, blocks, join, workers=workers)
    norm = max(n_rows if s is None else float(to_numpy(s).sum()), 1e-300)
    return total / (np.sqrt(norm) if wide else norm)


def _mapped_back(G: np.ndarray, T: np.ndarray, share: np.ndarray | None) -> np.ndarray:
    """Return gradients by the columns before the map with weights T, times a share."""
    G = G * T[None, :] if T.ndim == 1 else G @ T.T
    return G if share is None else G * share


def composed_weights(base: np.ndarray, M: np.ndarray, power: float) -> np.ndarray:
    """Return the weights of a map: those of the scale, and the root of the metric.

    M is in the columns before the base weights: G = ∂f/∂u, and v = u base has the
    gradient G / base.
    """
    used = np.where(base != 0, base, np.inf)
    if M.ndim == 1:
        return base * metric_root(M / used**2, power)
    if M.shape[0] != M.shape[1] or M.shape[0] != len(base):
        return base[:, None] * _factor_root(M / used[None, :], power)
    root = metric_root(M / used[:, None] / used[None, :], power)
    return base[:, None] * root


def _factor_root(F: np.ndarray, power: float) -> np.ndarray:
    """Return T of (FᵀF)ᵖ = T Tᵀ, scaled to the trace d: of low rank."""
    _, singular, Vt = np.linalg.svd(F, full_matrices=False)
    squares = singular**2 * (F.shape[1] / max(np.sum(singular**2), 1e-300))
    kept = squares > 1e-8 * squares[0]
    return Vt[kept].T * squares[kept] ** (power / 2)


# ----------------------------------------------------------------------------------
# Rows that learn and rows that judge: candidates for a metric, compared in pairs.
#
# Every candidate, a map of the rows with a kernel and C, is fitted to the learning rows
# of each fold and judged by its other rows. A metric is learned anew in each fold, so
# no row judges a metric that has seen its label; leave-one-out would not tell: it takes
# the row out of the fit, but not out of the metric.
# ----------------------------------------------------------------------------------

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


# ----------------------------------------------------------------------------------
# Candidates for a metric, tried and judged: scale, and steps with width and C.
#
# The steps 1 to 3 of :mod:`kaucus.fitting._search`.
# ----------------------------------------------------------------------------------

# Standard errors by which a metric must gain: it is the best of many.
_ERRORS = 1.5
# Columns by which scales are decided, then metrics.
_FIRST_COLUMNS, COLUMNS = 250, 450
# Widths to begin with, in units of the median distance's gamma, and steps from there.
_FACTORS = (4.0**-2, 4.0**-1, 1.0, 4.0)
_STEP, _MOST_OUTWARDS = 2.0, 3
# Of more values of C than this, a metric is judged by every second.
_FEW_CS = 7
# Paths that are followed after the first step. With two, both may be of one kernel: a
# smooth target lost its Gaussian.
_PATHS = 3
# With so many columns, what each explains alone is tried as the first step too.
_MANY_COLUMNS = 50
# Fits beside each other, and arrays as large as its kernel columns that a fit has.
_MOST_THREADS, COPIES = 8, 6


class MetricOptions(NamedTuple):
    """What there is to choose from."""

    families: Sequence[Family]
    Cs: Sequence[float]
    beyond: bool = False
    """Whether C may leave ``Cs``, where the loss still falls at an end."""
    kinds: Sequence[str] = ("diagonal", "full")
    powers: Sequence[float] = (1.0, 0.5)
    max_steps: int = 3
    scales: Sequence[str] = ("standard", "bounded")
    """Whether columns are standardised, or stay on the scale that they have, with a
    bound or, ``"given"``, without."""
    cv: int | None = None
    max_samples: int = 4500
    losses: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """(values (r, c, t), numbers of rows) to the loss of each row and model, (r, c);
    None: log-loss or squared error."""


class Candidate(NamedTuple):
    """A metric with a kernel, and how the judging rows see it."""

    family: Family
    scale: str
    kind: str
    power: float
    path: tuple[tuple[float, float] | None, ...]
    """Width and C of the fit before each step; None: a step without a fit, by what
    each column explains alone."""
    judged: Judged
    folds: list[MappedFold]


class MetricSearch:
    """The steps of :func:`search_metric`, and the table of what was tried."""

    def __init__(self, problem: Problem, options: MetricOptions, rng, memory_budget):
        self.problem, self.options, self.rng = problem, options, rng
        self.Y, _ = problem.targets.search(problem.fit_weight)
        self.budget = resolve_budget(memory_budget, problem.rows)
        d = problem.rows.shape[1]
        fit = int(self.budget / 2 / 8 / (4 * d + 4 * COLUMNS))
        n_rows = max(min(options.max_samples, fit), 20)
        self.folds = make_folds(problem, self.Y, n_rows, options.cv, rng)
        self.weight = problem.fit_weight
        self.judging = np.concatenate([fold.numbers for fold in self.folds])
        self.judging_weight = of_rows(self.weight, self.judging)
        self.maps = scale_maps(problem.rows, self.weight, rng)
        self.table: list[tuple] = []
        self.n_threads = min(n_workers(self.folds[0].rows), _MOST_THREADS)

    # ---- fits and their judges -------------------------------------------------------

    def judged(
        self, jobs: Iterable[tuple[Candidate, float, Sequence[float]]]
    ) -> list[Candidate]:
        """Return candidates with their losses at a width each.

        A job is a candidate, a factor of gamma, and the values of C.
        """
        jobs = list(jobs)
        largest = max((_entries(candidate) for candidate, *_ in jobs), default=1)
        fit = int(self.budget / 8 / COPIES / largest)
        done = self._in_threads(self._judge, jobs, most=max(fit, 1))
        for (_, _, Cs), candidate in zip(jobs, done, strict=True):
            self.note(candidate, Cs)
        return done

    def _in_threads(
        self, function: Callable, jobs: Iterable, most: int = _MOST_THREADS
    ) -> list:
        """Return ``function(job)`` of every job, at most so many at a time."""
        workers = min(self.n_threads, most)
        return list(map_blocks(function, jobs, workers=workers, abandon=True))

    def _judge(self, job: tuple[Candidate, float, Sequence[float]]) -> Candidate:
        """Fit a kernel in every fold, and return it with the C of least loss."""
        candidate, factor, Cs = job
        values = [
            fold.values(fold.kernel(candidate.family, factor), Cs)
            for fold in candidate.folds
        ]
        losses = self.losses(np.concatenate(values))
        table = np.average(losses, axis=0, weights=self.judging_weight)
        table = np.where(np.isfinite(table), table, np.inf)
        c = int(np.argmin(table))
        found = Judged(float(table[c]), losses[:, c], factor, float(Cs[c]), table)
        return candidate._replace(judged=found)

    def losses(self, values: np.ndarray) -> np.ndarray:
        """Return the loss of each judging row and model, (r, c)."""
        if self.options.losses is not None:
            return self.options.losses(values, self.judging)
        return self.problem.targets.losses(values, self.weight, self.judging)

    def note(self, candidate: Candidate, Cs: Sequence[float]) -> None:
        """Write a line of the table for every C."""
        family, judged, folds = candidate.family, candidate.judged, candidate.folds
        kernel = folds[0].kernel(family, judged.factor)
        gamma = getattr(kernel, "gamma", np.nan)
        columns = folds[0].columns.shape[0]
        for C, loss in zip(Cs, judged.table, strict=True):
            self.table.append(
                (
                    kernel.name,
                    gamma,
                    C,
                    -loss,
                    candidate.scale,
                    candidate.kind,
                    candidate.power,
                    len(candidate.path),
                    columns,
                )
            )

    def coarse_Cs(self, candidate: Candidate) -> list[float]:
        """Return the C of a candidate and every second of those to choose from.

        All of them: a step may change the best C by orders of magnitude.
        """
        Cs = np.unique(self.options.Cs)
        if len(Cs) <= _FEW_CS:
            return Cs.tolist()
        k = int(np.argmin(np.abs(np.log(Cs / candidate.judged.C))))
        return Cs[k % 2 :: 2].tolist()

    def factors(self, family: Family, factors: Iterable[float]) -> list[float]:
        """Return the widths to try; one where gamma is given.

        They are of a squared distance; of a length, their roots.
        """
        if not family.widens:
            return [1.0]
        power = 0.5 if family.kernel.of_length else 1.0
        return [float(f**power) for f in factors]

    # ---- 1. scale --------------------------------------------------------------------

    def best_scale(self) -> list[Candidate]:
        """Return the best width and C of every kernel, on the better scale.

        The first kernel decides which scale that is.
        """
        first, *others = self.options.families
        best = best_of(self._best_widths((s, first) for s in self.options.scales))
        found = [best, *self._best_widths((best.scale, family) for family in others)]
        larger = [c._replace(folds=self._folds(c, COLUMNS)) for c in found]
        return self.judged((c, c.judged.factor, self.coarse_Cs(c)) for c in larger)

    def _folds(self, candidate: Candidate, n_columns: int) -> list[MappedFold]:
        return [folded.with_columns(n_columns) for folded in candidate.folds]

    def _best_widths(self, pairs: Iterable[tuple[str, Family]]) -> list[Candidate]:
        """Return the best width and C of each pair of a scale and a kernel.

        Where the best width is an end of those that were tried, others follow.
        """
        blanks = [self._unweighted(scale, family) for scale, family in pairs]
        widths = [self.factors(blank.family, _FACTORS) for blank in blanks]
        tried: list[list[Candidate]] = [[] for _ in blanks]
        for _ in range(1 + _MOST_OUTWARDS):
            jobs = [
                (blank, factor, self.options.Cs)
                for blank, factors in zip(blanks, widths, strict=True)
                for factor in factors
            ]
            done = iter(self.judged(jobs))
            for some, factors in zip(tried, widths, strict=True):
                some += itertools.islice(done, len(factors))
            widths = [_outwards(some) for some in tried]
        return [best_of(some) for some in tried]

    def _unweighted(self, scale: str, family: Family) -> Candidate:
        """Return a candidate without a metric, not yet judged."""
        row_map = self.maps[scale]
        folds = [fold.mapped(row_map, _FIRST_COLUMNS) for fold in self.folds]
        return Candidate(family, scale, "identity", 0.0, (), None, folds)  # type: ignore[arg-type]

    # ---- 2. and 3. step and decide ---------------------------------------------------

    def best_paths(self, firsts: Sequence[Candidate]) -> list[Candidate]:
        """Follow the steps of a metric from each kernel's fit, while they help.

        Where every first step from the best fit clearly harms, no other is tried.
        Returns the best of every kernel, with a metric if one pays.
        """
        firsts = sorted(firsts, key=lambda c: c.judged.loss)
        start, *others = firsts
        tried = [*self._steps([start]), *self._screened(start)]
        if not all(self.pays(start, c) for c in tried):
            tried += self._steps(others)
        ahead = _first_of_each_path(self._other_widths(tried))[:_PATHS]
        for _ in range(1, self.options.max_steps):
            tried += ahead
            before = {_path_name(c): c for c in ahead}
            new = self._other_widths(self._steps(ahead, onwards=True))
            ahead = [
                c for c in _first_of_each_path(new) if _falls(c, before[_path_name(c)])
            ]
        tried += ahead
        if tried and self.pays(best_of(tried), start):
            firsts = tried
        names = list(dict.fromkeys(c.family.kernel.name for c in firsts))
        return [best_of(c for c in firsts if c.family.kernel.name == n) for n in names]

    def pays(self, new: Candidate, old: Candidate, errors: float = _ERRORS) -> bool:
        """Tell whether the loss falls by more than so many standard errors."""
        falls = old.judged.losses - new.judged.losses
        return gains(falls, self.judging_weight, errors)

    def _steps(
        self, lasts: Sequence[Candidate], *, onwards: bool = False
    ) -> list[Candidate]:
        """Return what one more step from each candidate gives.

        With each kind and power of a metric or, ``onwards`` on a path, with its own.
        """
        if self.options.max_steps < 1:
            return []
        step = functools.partial(self._step, onwards=onwards)
        new = list(itertools.chain(*self._in_threads(step, lasts)))
        return self.judged((c, c.judged.factor, self.coarse_Cs(c)) for c in new)

    def _step(self, last: Candidate, onwards: bool) -> list[Candidate]:
        """Return a candidate after one more step, with the loss that it had before."""
        kinds = [last.kind] if onwards else self._kinds(last.family)
        powers = [last.power] if onwards else self.options.powers
        products = self._products(last, kinds) if kinds else {}
        path = (*last.path, (last.judged.factor, last.judged.C))
        return [
            self._weighed(last, kind, power, products[kind])._replace(path=path)
            for kind, power in itertools.product(kinds, powers)
        ]

    def _screened(self, start: Candidate) -> list[Candidate]:
        """Return a first step that weighs each column by what it explains alone."""
        enough = self.problem.rows.shape[1] >= _MANY_COLUMNS
        possible = "diagonal" in self.options.kinds and self.options.max_steps > 0
        if not (enough and possible):
            return []
        scale = self.maps[start.scale]
        products = [
            screening_product(fold.rows, fold.Y, fold.weight, scale)
            for fold in self.folds
        ]
        new = [
            self._weighed(start, "diagonal", power, products)._replace(path=(None,))
            for power in self.options.powers
        ]
        return self.judged((c, c.judged.factor, self.coarse_Cs(c)) for c in new)

    def _weighed(
        self, last: Candidate, kind: str, power: float, products: list[np.ndarray]
    ) -> Candidate:
        """Return a candidate in a metric, with the loss that it had before."""
        base = self.maps[last.scale]
        maps = [
            base.weighed(composed_weights(base.weights, M, power)) for M in products
        ]
        folds = [f.mapped(m, COLUMNS) for f, m in zip(self.folds, maps, strict=True)]
        return last._replace(kind=kind, power=power, folds=folds)

    def _other_widths(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the best candidates, and these with a wider and a narrower kernel."""
        ahead = sorted(candidates, key=lambda c: c.judged.loss)[:_PATHS]
        jobs = [
            (c, c.judged.factor * w, self.coarse_Cs(c))
            for c in ahead
            for w in self.factors(c.family, (1 / _STEP, _STEP))
            if w != 1
        ]
        return [*ahead, *self.judged(jobs)]

    def _kinds(self, family: Family) -> list[str]:
        """Return the kinds that a kernel can have; Manhattan distances have columns."""
        kinds = list(self.options.kinds)
        if family.kernel.name == "laplacian" and len(kinds) > 1:
            kinds.remove("full")
        return kinds

    def _products(self, last: Candidate, kinds) -> dict[str, list[np.ndarray]]:
        """Return M of every fold for each kind; a full one has the diagonal in it."""
        judged, family = last.judged, last.family
        found = [self._product(folded, family, judged, kinds) for folded in last.folds]
        if len(kinds) == 1:
            return {kinds[0]: found}
        return {"full": found, "diagonal": [np.diag(M) for M in found]}

    def _product(self, folded: MappedFold, family: Family, judged, kinds) -> np.ndarray:
        kernel = folded.kernel(family, judged.factor)
        coef = folded.models(kernel, [judged.C]).coef[:, 0, :]
        kind = "full" if "full" in kinds else "diagonal"
        weight, row_map = folded.fold.weight, folded.row_map
        return gradient_product(
            kernel, folded.rows, folded.columns, coef, weight, row_map, kind
        )


def _outwards(tried: Sequence[Candidate]) -> list[float]:
    """Return the next width, if the best is an end of those that were tried."""
    factors = sorted(c.judged.factor for c in tried)
    best = best_of(tried).judged.factor
    if len(factors) == 1 or best not in (factors[0], factors[-1]):
        return []
    by = factors[1] / factors[0]
    return [best / by if best == factors[0] else best * by]


def _entries(candidate: Candidate) -> int:
    """Return the number of kernel values of a fit."""
    return max(fold.rows.shape[0] * fold.columns.shape[0] for fold in candidate.folds)


def _path_name(candidate: Candidate) -> tuple[str, str, float]:
    return candidate.family.kernel.name, candidate.kind, candidate.power


def _first_of_each_path(tried: Sequence[Candidate]) -> list[Candidate]:
    """Return the best width of every kernel, kind and power, the best first."""
    found: dict[tuple, Candidate] = {}
    for c in sorted(tried, key=lambda c: c.judged.loss):
        found.setdefault(_path_name(c), c)
    return list(found.values())


def best_of(candidates: Iterable[Candidate]) -> Candidate:
    """Return the candidate of the least loss."""
    return min(candidates, key=lambda c: c.judged.loss)


def _falls(new: Candidate, old: Candidate) -> bool:
    return new.judged.loss < old.judged.loss


# ----------------------------------------------------------------------------------
# Kernel, width and C of a metric, with as many columns as the model will have.
#
# Step 4 of :mod:`kaucus.fitting._search`. Few columns favour smooth kernels, wide ones
# and small C; so the kernels that are not far behind are compared again, and the best
# is moved to other widths, then to another C, while that clearly lessens the loss.
# ----------------------------------------------------------------------------------

# Standard errors by which a kernel may be behind with few columns and is still tried
# with more: rough kernels gain most by them, and up to 2.7 were seen to be made up for.
_FAR_BEHIND = 3.0
# By which gamma and C are moved, how often, and by what share each must lessen the
# loss: less is smaller than the error of the judgement.
_WIDTH_STEP, _REFINE_C_STEP = 1.6, 10**0.5
_MOST_MOVES, _REFINE_LEAST_FALL = 3, 0.002
_MOST_C = 1e6
# Up to twice so many rows, all that learn are columns; of more, so many columns of at
# most so many rows.
_REFINE_ROWS, _MORE_COLUMNS, _MOST_ROWS = 4500, 1200, 5000


def refine(search: MetricSearch, finalists: Sequence[Candidate]) -> Candidate:
    """Choose among the best candidate of each kernel, then its width and C.

    Parameters
    ----------
    search : MetricSearch
    finalists : sequence of Candidate
    """
    larger = _with_more_columns(search, _worth_refining(search, finalists))
    firsts = search.judged((c, c.judged.factor, [c.judged.C]) for c in larger)
    now = best_of(firsts)
    if now.family.widens:
        now = _moved(search, now, [(1 / _WIDTH_STEP, 0), (_WIDTH_STEP, 0)])
    return _moved(search, now, [(1.0, 1), (1.0, -1)])


def _worth_refining(
    search: MetricSearch, finalists: Sequence[Candidate]
) -> list[Candidate]:
    """Return the candidates that may be the best with more columns.

    A Gaussian that is behind with few columns, which favour it, stays behind.
    """
    best = best_of(finalists)
    others = [c for c in finalists if c is not best and c.family.kernel.name != "rbf"]
    return [best, *(c for c in others if not search.pays(best, c, _FAR_BEHIND))]


def _moved(
    search: MetricSearch, now: Candidate, ways: Sequence[tuple[float, int]]
) -> Candidate:
    """Move a candidate the way that lessens the loss most, as long as it does.

    A way is a factor of gamma, and 1 for the next larger C, −1 for the next smaller.
    The first move of every way is tried at the same time.
    """
    jobs = {way: _neighbour(search, now, way) for way in ways}
    jobs = {way: job for way, job in jobs.items() if job is not None}
    if not jobs:
        return now
    tried = dict(zip(jobs, search.judged(jobs.values()), strict=True))
    way = min(tried, key=lambda way: tried[way].judged.loss)
    new = tried[way]
    for _ in range(_MOST_MOVES - 1):
        if not _clearly_falls(new, now):
            return now
        now, job = new, _neighbour(search, new, way)
        if job is None:
            return now
        (new,) = search.judged([job])
    return new if _clearly_falls(new, now) else now


def _clearly_falls(new: Candidate, old: Candidate) -> bool:
    """Tell whether the loss is less by more than the error of the judgement."""
    return new.judged.loss < (1 - _REFINE_LEAST_FALL) * old.judged.loss


def _neighbour(search: MetricSearch, now: Candidate, way: tuple[float, int]):
    """Return the job of one move, or None at an end of the values to choose from."""
    at, (width, up) = now.judged, way
    factor, C = at.factor * width, _next_C(search, at.C, up)
    return None if (factor, C) == (at.factor, at.C) else (now, factor, [C])


def _next_C(search: MetricSearch, C: float, up: int) -> float:
    """Return the next larger C (``up`` 1), the next smaller (−1), or C itself (0).

    At an end of those to choose from, C itself or, if allowed, one beyond it.
    """
    Cs = np.unique(search.options.Cs)
    ahead = Cs[Cs * up > C * up * (1 + 1e-9 * up)] if up else Cs[:0]
    if up and len(ahead):
        return float(ahead.min() if up > 0 else ahead.max())
    return min(C * _REFINE_C_STEP**up, _MOST_C) if up and search.options.beyond else C


def _with_more_columns(
    search: MetricSearch, finalists: Sequence[Candidate]
) -> list[Candidate]:
    """Return the candidates with more columns, and more rows where there are many.

    All rows that learn as columns, where these are few and one fold or several judge;
    else some columns of many rows, the same for every candidate.
    """
    fit = int((search.budget / 8 / COPIES) ** 0.5)
    one_split = len(search.folds) == 1 and search.options.cv is None
    if search.problem.n <= 2 * _REFINE_ROWS or not one_split:
        n = search.folds[0].rows.shape[0]
        n_columns = n if n <= fit else min(_MORE_COLUMNS, fit)
        return [
            c._replace(folds=[f._replace(n_columns=n_columns) for f in c.folds])
            for c in finalists
        ]
    n_columns = max(min(_MORE_COLUMNS, fit), COLUMNS)
    more = _larger_fold(search, n_columns)
    maps = [c.folds[0].row_map for c in finalists]
    folds = [more.mapped(m, 1)._replace(n_columns=n_columns) for m in maps]
    return [c._replace(folds=[f]) for c, f in zip(finalists, folds, strict=True)]


def _larger_fold(search: MetricSearch, n_columns: int) -> Fold:
    """Return the fold with the same judges and as many other rows as memory has."""
    problem, fold = search.problem, search.folds[0]
    most = int(search.budget / 2 / 8 / (4 * problem.rows.shape[1] + 4 * n_columns))
    n_rows = max(min(_MOST_ROWS, most), fold.rows.shape[0])
    others = search.rng.permutation(problem.present())
    others = others[~np.isin(others, fold.numbers)][:n_rows]
    return make_fold(problem, search.Y, others, fold.numbers)


# ----------------------------------------------------------------------------------
# Learn a metric from the targets: which columns, and which directions, matter.
#
#     1  scale    columns as they are, or on a common scale: which is better?
#     2  step     fit f on few kernel columns; M = mean of Σ_j ∇f_j ∇f_jᵀ over the rows
#                 (the average gradient outer product); map the rows by M^(p/2); again.
#                 Of many columns, also M of what each explains alone
#     3  decide   whether a step, its kind (full or diagonal M) and power p pay, by
#                 rows that neither fit nor metric has seen
#     4  refine   kernel, width and C, by the same rows, with as many columns as there
#                 are rows
#     5  relearn  the metric of the chosen path, from all rows and more columns
#
# References: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for
# feature learning in neural networks and backpropagation-free machine learning models"
# (Science, 2024). What differs here: few columns decide, a metric has to gain more than
# 1.5 standard errors, and columns are bounded.
# ----------------------------------------------------------------------------------

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


# ----------------------------------------------------------------------------------
# Choose kernel, gamma and C by leave-one-out on some of the rows.
#
# The columns are those of rows drawn at random, not of centres: a centre of a class's
# few rows knows the label of the row that is left out, and leave-one-out would then
# choose models that learn by heart. On four UCI sets with 100 centres a class, C and
# gamma found on the centres gave 85.7 % of the test rows, those found on random rows
# 86.8 %.
#
# Kernels are first compared with half of the columns, which costs less than a quarter;
# the best two or three then with all. Classifiers are compared by the log-loss: the
# squared error counts it against a model that some values are on the right side by more
# than 1. What else was tried: docs/theory/kmeans-kernel.md.
# ----------------------------------------------------------------------------------

# By so much, relative to its own size, the score must still rise towards an end of the
# grid before it is worth a word.
_RISE = 0.01


def search_table(
    kernels: Sequence[Kernel | None], Cs: Sequence[float], scores: np.ndarray
) -> dict[str, np.ndarray]:
    """Return a row for every kernel and C, as columns that pandas takes.

    Parameters
    ----------
    kernels : sequence of Kernel, or None for a given matrix
    Cs : sequence of float
    scores : ndarray of shape (n_kernels, n_Cs)
        The larger the better; NaN for what was not tried.

    Returns
    -------
    dict
        ``kernel``, ``gamma`` (NaN for a kernel without one), ``C`` and ``score``.
    """
    pairs = [(kernel, C) for kernel in kernels for C in Cs]
    return {
        "kernel": np.asarray([_name(kernel) for kernel, _ in pairs], dtype=object),
        "gamma": np.asarray([gamma_of(kernel) for kernel, _ in pairs], dtype=float),
        "C": np.asarray([C for _, C in pairs], dtype=float),
        "score": np.asarray(scores, dtype=float).ravel(),
    }


def join_tables(tables: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return one table with the rows of several."""
    tables = [search_table([], [], np.empty(0)), *tables]
    return {key: np.concatenate([t[key] for t in tables]) for key in tables[0]}


def gamma_of(kernel: Any) -> float:
    """Return the width of a kernel, NaN if it has none."""
    gamma = getattr(kernel, "gamma", None)
    return np.nan if gamma is None else float(gamma)


def _name(kernel: Any) -> str:
    return "precomputed" if kernel is None else getattr(kernel, "name", repr(kernel))


def warn_at_edge(name: str, values: Sequence[float], scores: np.ndarray) -> None:
    """Warn where the best of some values is an end of them, and the score still rises.

    Parameters
    ----------
    name : str
        Of the parameter that lists the values.
    values : sequence of float
    scores : ndarray of shape (n_values,)
        The best score of each.
    """
    side = rising_end(values, scores)
    if side == 0:
        return
    best = min(values) if side < 0 else max(values)
    end = "least" if side < 0 else "largest"
    warn_user(
        f"The best of the values of {name}, {best:g}, is the {end} that was tried "
        f"(score {np.nanmax(scores):.4g}); one beyond it may be better. Pass values of "
        f"{name} that go on to {best * 10.0**side:g} and further.",
        UserWarning,
    )


def rising_end(values: Sequence[float], scores: np.ndarray) -> int:
    """Return −1 or 1 where the score clearly rises to the least or largest value.

    0 where the best is inside, or hardly better than its neighbour.

    >>> rising_end([1, 10, 100], np.array([0.5, 0.7, 0.9]))
    1
    """
    order = np.argsort(values)
    scores = np.asarray(scores, dtype=float)[order]
    best = int(np.nanargmax(scores))
    if len(order) < 2 or best not in (0, len(order) - 1):
        return 0
    neighbour = scores[1] if best == 0 else scores[-2]
    if not scores[best] - neighbour > _RISE * abs(neighbour):
        return 0
    return -1 if best == 0 else 1


CS = 10.0 ** np.arange(-2, 4.1, 0.5)
"""What ``C="auto"`` chooses from."""
GAMMA_FACTORS = 4.0 ** np.arange(-2, 3)
"""``gamma="tune"`` chooses from these times that of ``"scale"``."""
AUTO_KERNELS = ("exponential", "rbf")
"""What ``kernel="auto"`` chooses from."""
# So many kernels, the best by half of the columns, are compared by all of them; and the
# best of each name.
_FINALISTS = 2
_C_STEP = float(CS[1] / CS[0])
# The least and the largest gamma are tried where the one next to them has less than
# this share of the loss of the one in the middle.
_OUTWARDS = 0.9
# Steps beyond the end of a grid, at most, and by what share each must lessen the loss.
_MOST_BEYOND, _LEAST_FALL = 4, 0.01


class _Size(NamedTuple):
    """Rows and columns of a search."""

    below: float
    """For so many rows, all in all."""
    rows: int
    columns: int
    handicap: float
    """By which losses of the Gaussian are multiplied before they are compared.

    Few columns do it more justice than kernels that are rough. On labels of random
    decision trees, 2,200 and 4,500 rows, its loss was 0.98 to 1.005 times that of the
    exponential kernel and its accuracy less by 0.6 on average; where it is better, its
    loss is less by more.
    """


# The more rows there are, the narrower is the best kernel, and few columns do not show
# it.
_SIZES = (
    _Size(2000, 1000, 200, 1.0),
    _Size(50_000, 3000, 800, 1.02),
    _Size(math.inf, 5000, 1000, 1.02),
)


class Tuning(NamedTuple):
    """What was chosen, and what was tried."""

    kernel: Kernel
    C: float
    results: dict[str, np.ndarray]
    """A row for every kernel and C (see ``search_table``); the score is minus the
    leave-one-out loss, in which the Gaussian has its handicap."""


def choose_kernel(problem: Problem, plan: Plan, rng: np.random.Generator) -> Tuning:
    """Choose kernel and C by leave-one-out, or with a metric by rows held out."""
    if plan.metric is not None and enough_rows(problem.n, problem.fit_weight):
        found = search_metric(
            problem,
            plan.metric,
            rng,
            callback=plan.progress("stage"),
            memory_budget=plan.memory_budget,
        )
        release_freed_memory()
        kernel = MappedKernel(found.kernel, found.row_map)
        return Tuning(kernel, found.C, found.results)
    if len(plan.Cs) == 1 and [len(path) for path in plan.kernels] == [1]:
        return Tuning(plan.kernels[0][0], float(plan.Cs[0]), join_tables([]))
    Y, loss = problem.targets.search(problem.fit_weight)
    with errors_at(max(plan.Cs)):
        found = tune(
            plan.kernels,
            plan.Cs,
            problem.rows,
            Y,
            loss=loss,
            weight=problem.fit_weight,
            rng=rng,
            callback=plan.progress("kernel"),
            memory_budget=plan.memory_budget,
        )
    release_freed_memory()
    return found


def tune(
    paths: Sequence[Sequence[Kernel]],
    Cs: np.ndarray,
    rows,
    Y: np.ndarray,
    *,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    weight: np.ndarray | None,
    rng: np.random.Generator,
    callback: Callable[[int, int], object] | None = None,
    memory_budget: int | str | None = None,
) -> Tuning:
    """Choose the kernel and C of the least leave-one-out loss.

    Parameters
    ----------
    paths : sequence of sequences of Kernel
        In each, kernels that differ by gamma, in its order.
    Cs : array of float
    rows : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    loss : callable, or None
        Takes leave-one-out decision values for every C, (r, c, t), and the numbers of
        their rows; None is for squared errors.
    weight : array of shape (n,), or None
    rng : numpy.random.Generator
        Draws the rows.
    callback : callable, default=None
        ``callback(n_done, n_kernels)`` after each kernel of a round.
    memory_budget : int, str or None, default=None
        Where it is short, fewer rows and columns are looked at.
    """
    kernels = [kernel for path in paths for kernel in path]
    present = np.arange(len(Y)) if weight is None else np.flatnonzero(weight)
    size = next(size for size in _SIZES if len(present) < size.below)
    n_rows, n_columns = affordable_search(
        size.rows, size.columns, rows.shape[1], Y.shape[1], memory_budget
    )
    size = size._replace(rows=n_rows, columns=n_columns)
    some = draw_some(rng, present, size.rows)
    Z = dense_rows(rows, some[: size.columns])
    part = take_rows(rows, some)

    tables = []

    def search(kernels: Sequence[Kernel], n_columns: int, Cs=Cs) -> np.ndarray:
        found = search_on_representatives(
            kernels,
            part,
            as_like(Y[some], Z),
            Z[:n_columns, :],
            Cs,
            loss=None if loss is None else lambda values: loss(values, some),
            sample_weight=None if weight is None else as_like(weight[some], Z),
            first_rows=True,
            callback=callback,
            memory_budget=memory_budget,
        )
        smooth = np.asarray([kernel.name == "rbf" for kernel in kernels])
        losses = found.losses * np.where(smooth, size.handicap, 1.0)[:, None]
        if n_columns == Z.shape[0]:  # by fewer columns other losses are found
            tables.append(search_table(kernels, Cs, -losses))
        return losses

    if len(kernels) > _FINALISTS:
        # Where all rows can be columns, they are in both rounds: that costs little.
        all_are = len(some) <= size.columns
        first = len(some) if all_are else size.columns // 2
        kernels = _finalists(paths, lambda k: search(k, first).min(axis=1))
    losses = search(kernels, Z.shape[0])
    k, c = np.unravel_index(np.argmin(losses), losses.shape)
    best = _Best(kernels[int(k)], float(Cs[c]), float(losses[k, c]))
    best = _widened(best, paths, Cs, lambda one, C: search([one], Z.shape[0], [C]))
    return Tuning(best.kernel, best.C, join_tables(tables))


class _Best(NamedTuple):
    kernel: Any
    C: float
    loss: float


def _widened(best: _Best, paths, Cs, search) -> _Best:
    """Go on beyond the ends of the grid, as long as the loss falls.

    ``search(kernel, C)`` returns the loss.
    """
    for path in paths:
        if len(path) > 1 and best.kernel in (path[0], path[-1]):
            step = path[1].gamma / path[0].gamma
            by = step if best.kernel == path[-1] else 1 / step
            best = _further(best, search, gamma_by=by)
    if len(Cs) > 1 and best.C in (Cs[0], Cs[-1]):
        step = Cs[1] / Cs[0]
        best = _further(best, search, C_by=step if Cs[-1] == best.C else 1 / step)
    return best


def _further(best: _Best, search, *, gamma_by=1.0, C_by=1.0) -> _Best:
    """Take steps from the best, while they clearly lessen the loss."""
    for _ in range(_MOST_BEYOND):
        kernel, C = best.kernel, float(C_by * best.C)
        if gamma_by != 1:
            kernel = replace(kernel, gamma=float(gamma_by * kernel.gamma))
        loss = float(search(kernel, C)[0, 0])
        if not loss < (1 - _LEAST_FALL) * best.loss:
            break
        best = _Best(kernel, C, loss)
    return best


def _finalists(
    paths: Sequence[Sequence[Kernel]], look: Callable[[list[Kernel]], np.ndarray]
) -> list[Kernel]:
    """Return the best kernels by ``look``, which tells their losses; the best first.

    The ends of a path are looked at only where it falls towards them.
    """
    tried = [(p, kernel) for p, path in enumerate(paths) for kernel in _inner(path)]
    losses = look([kernel for _, kernel in tried])
    of_path = np.asarray([p for p, _ in tried])
    ends = []
    for p, path in enumerate(paths):
        inner = losses[of_path == p]
        best = int(np.argmin(inner))
        falls = inner[best] < _OUTWARDS * inner[len(inner) // 2]
        if len(inner) < len(path) and falls and best in (0, len(inner) - 1):
            ends.append((p, path[0] if best == 0 else path[-1]))
    if ends:
        more = look([kernel for _, kernel in ends])
        tried, losses = tried + ends, np.concatenate([losses, more])
    order = [tried[k] for k in np.argsort(losses, kind="stable")]
    firsts = [next(one for one in order if one[0] == p) for p in range(len(paths))]
    return [one[1] for k, one in enumerate(order) if k < _FINALISTS or one in firsts]


def _inner(path: Sequence[Kernel]) -> Sequence[Kernel]:
    return path[1:-1] if len(path) >= 5 else path
