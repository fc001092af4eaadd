"""The search for kernel, width, C and metric."""

import contextlib
import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    few_threads_for,
    format_bytes,
    map_blocks,
    n_workers,
    one_blas_thread,
    release_freed_memory,
    resolve_budget,
    row_blocks,
)
from kaucus._array.linalg import NotPositiveDefiniteError
from kaucus._array.namespace import Array
from kaucus._array.rows import budget_without_buffers, longest_rows
from kaucus._array.segments import draw_some
from kaucus.fitting._problem import Plan, Problem, of_rows
from kaucus.kernels._cells import matrices_of
from kaucus.kernels._kernel import (
    Kernel,
    Precomputed,
    dense,
    kernels_with_gamma,
    median_gamma,
    resolve_gamma,
    resolve_kernel,
)
from kaucus.kernels._metric import RowMap, metric_root
from kaucus.solvers._direct import (
    ColumnModels,
    LSSVMSpectrum,
    decompose_low_rank,
    decompose_ls_svm,
    leave_one_out_errors,
    solve_at,
    solve_columns,
    solve_ls_svm,
)
from kaucus.solvers._system import LSSVMSolution, Score

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
    matrix keeps its zeros.

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
    some = nx.take_rows(rows, present)
    if nx.is_sparse(some):
        return _of_sparse(scipy.sparse.csr_array(some))
    X = nx.to_numpy(some).astype(np.float64)
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


def _of_sparse(X) -> dict[str, RowMap]:
    """Return the maps of sparse columns: to root mean square 1, bounded, the identity.

    Values up to the largest stay as they are in both: of the few that are not zero,
    all are far from the mean.
    """
    size = np.sqrt(np.asarray(X.power(2).mean(axis=0)).ravel())
    largest, zeros = abs(X).max(axis=0).toarray().ravel(), np.zeros(X.shape[1])
    scale = _inverse(largest)
    bounded = RowMap(zeros, scale, _GIVEN_BOUND, zeros, largest, size * scale, free=1.0)
    standard = bounded.weighed(largest * _inverse(size))
    given = RowMap.identity(X.shape[1], size)
    return {"standard": standard, "bounded": bounded, "given": given}


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
    """Return a diagonal metric: the variance that each column explains alone.

    Takes the place of the average gradient product before any fit; like it, in the
    columns before the weights of the scale.

    Parameters
    ----------
    rows, Y : arrays of shape (n, d), or CSR, and (n, t)
    weight : array of shape (n,), or None
    scale : RowMap

    Returns
    -------
    ndarray of shape (d,)
    """
    effects = main_effects(
        scipy.sparse.csc_array(rows) if nx.is_sparse(rows) else nx.to_numpy(rows),
        nx.to_numpy(Y),
        None if weight is None else nx.to_numpy(weight),
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
    X : ndarray or CSC array of shape (n, d)
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
        _explained(dense(X[:, start : start + step]), centred, shares, starts)
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
        share = 1.0 if s is None else np.sqrt(nx.to_numpy(s[rows]))[:, None]
        found: list[np.ndarray] = []
        for gradients in kernel.gradients(dense(Z[rows, :]), columns, coef):
            G = nx.to_numpy(gradients)  # by the columns before the map, times the share
            G = (G * T[None, :] if T.ndim == 1 else G @ T.T) * share
            if not wide:
                G = np.sum(G * G, axis=0) if kind == "diagonal" else G.T @ G
            found.append(G)
        return np.concatenate(found) if wide else np.sum(found, axis=0)

    # Blocks that stay in a core's cache: what is not a product is bound by memory.
    widest = max(m, d if nx.is_sparse(Z) else 0)
    blocks = row_blocks(n_rows, 8 * widest, 2**28 if nx.is_tensor(Z) else 2**22)
    join = (lambda F, G: np.concatenate([F, G])) if wide else np.add
    total = functools.reduce(join, map_blocks(of_rows, blocks, workers=workers))
    norm = max(n_rows if s is None else float(nx.to_numpy(s).sum()), 1e-300)
    return total / (np.sqrt(norm) if wide else norm)


def composed_weights(base: np.ndarray, M: np.ndarray, power: float) -> np.ndarray:
    """Return the weights of a map: scale times the root of the metric.

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
# One search: candidates, a judge of them, a rule of acceptance, and a hill climb.
#
# A candidate is whatever a judge can fit: a kernel, a metric with a kernel and a width,
# pictures with a threshold. The judge says how models of it, one for each C, do on rows
# that these have not seen: rows held out, or each row left out. Every search below is
# made of three things: try some candidates, take the best, move it to its neighbours
# while that is accepted.
# ----------------------------------------------------------------------------------

Job = tuple[Any, Sequence[float]]
"""A candidate and the values of C to try."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate with the C of its least loss."""

    candidate: Any
    C: float
    loss: Any
    """What is compared: the less the better."""
    losses: Any = None
    """Loss of each judging row, (r,)."""
    rows: Sequence[dict[str, Any]] = ()
    """Lines of the table, one for every C that was tried."""
    model: Any = None
    """The fitted model of all rows, or the coefficients of each fold, if kept."""


Progress = Callable[[int, int], object]
"""``callback(n_done, n_all)``."""
Accept = Callable[[Trial, Trial], bool]
"""``accept(new, old)`` tells whether a trial takes the place of another."""


def falls_by(share: float) -> Accept:
    """Return the rule that a loss must fall by more than a share of it."""
    return lambda new, old: new.loss < (1 - share) * old.loss


def falls(new: Trial, old: Trial) -> bool:
    """Return True if the loss falls at all."""
    return new.loss < old.loss


def paired_gain(errors: float, weight: np.ndarray | None) -> Accept:
    """Return the rule that losses, row by row, must fall by so many standard errors.

    ``weight``, (r,), is of rows drawn by themselves: the error of a weighted mean is
    that of whole rows.
    """

    def gains(new: Trial, old: Trial) -> bool:
        drop = old.losses - new.losses
        shares = np.ones(len(drop)) if weight is None else weight
        shares = shares / shares.sum()
        mean = shares @ drop
        return bool(mean > errors * np.sqrt(np.sum((shares * (drop - mean)) ** 2)))

    return gains


def best_of(trials: Iterable[Trial]) -> Trial:
    """Return the first trial of the least loss."""
    return min(trials, key=lambda trial: trial.loss)


class Judge(ABC):
    """Judge of candidates by the losses of their models on held-out rows."""

    def __init__(self, callback: Progress | None = None, n_all: int = 0):
        self.callback, self.n_done, self.n_all = callback, 0, n_all
        self.table: list[dict[str, Any]] = []

    @abstractmethod
    def work(self, job: Job) -> Any:
        """Fit the models of a candidate, one for each C; several jobs at a time."""

    @abstractmethod
    def trial(self, job: Job, found: Any) -> Trial:
        """Return a candidate with the C of its least loss, from the work on it."""

    def at_once(self, jobs: Sequence[Job]) -> int:
        """Return how many jobs to do at a time."""
        return 1

    def place(self, candidate: Any) -> Any:
        """Return the key of a candidate."""
        return candidate

    def tried(self, jobs: Iterable[Job]) -> list[Trial]:
        """Return the trials of all jobs, in their order, and note their rows."""
        jobs, trials = list(jobs), []
        workers = self.at_once(jobs) if jobs else 1
        works = map_blocks(self.work, jobs, workers=workers, abandon=True)
        for job, found in zip(jobs, works, strict=True):
            trials.append(self.trial(job, found))
            self.table += trials[-1].rows
            self.n_done += 1
            if self.callback is not None:
                self.callback(min(self.n_done, self.n_all), self.n_all)
        return trials

    def climb(
        self,
        starts: Sequence[Trial],
        moves: Callable[[Trial], Iterable[Job]],
        accept: Accept,
        most: int = 1000,
        known: Iterable[Job] = (),
    ) -> list[Trial]:
        """Move each start to its best neighbour while that is accepted.

        At most so many times; nothing is tried twice, nor what is known.
        """
        nows, moving, seen = list(starts), range(len(starts)), set()
        for candidate, Cs in [*((t.candidate, [t.C]) for t in nows), *known]:
            seen.update(self._key(candidate, C) for C in Cs)
        for _ in range(most):
            if not moving:
                break
            jobs: dict[int, list[Job]] = {k: [] for k in moving}
            for k in moving:
                for candidate, Cs in moves(nows[k]):
                    new = [C for C in Cs if self._key(candidate, C) not in seen]
                    seen.update(self._key(candidate, C) for C in new)
                    jobs[k] += [(candidate, new)] if new else []
            trials = iter(self.tried(itertools.chain(*jobs.values())))
            groups = {k: itertools.islice(trials, len(jobs[k])) for k in jobs}
            best = {k: best_of(group) for k, group in groups.items() if jobs[k]}
            moving = [k for k in best if accept(best[k], nows[k])]
            for k in moving:
                nows[k] = best[k]
        return nows

    def _key(self, candidate: Any, C: float) -> tuple:
        return self.place(candidate), f"{C:.6g}"


class RowJudge(Judge):
    """Judge with the loss of each row and a table of all trials.

    ``work`` returns the losses of the judging rows for each C, (r, c).
    """

    def __init__(self, weight: np.ndarray | None, *progress):
        super().__init__(*progress)
        self.weight = weight  # of the judging rows, (r,)

    @abstractmethod
    def described(self, candidate: Any) -> dict[str, Any]:
        """Return a candidate's columns of the table."""

    def trial(self, job: Job, found: np.ndarray) -> Trial:
        candidate, Cs = job
        means = np.average(found, axis=0, weights=self.weight)
        means = np.where(np.isfinite(means), means, np.inf)
        c, what = int(np.argmin(means)), self.described(candidate)
        rows = [
            {**what, "C": float(C), "score": -loss, "chosen": False}
            for C, loss in zip(Cs, means, strict=True)
        ]
        return Trial(candidate, float(Cs[c]), float(means[c]), found[:, c], rows)

    def decided(self, best: Trial, **known) -> list[dict[str, Any]]:
        """Return the table with the choice marked."""
        for row in best.rows:
            if row["C"] == best.C:
                row.update(known, chosen=True)
        return self.table


# ----------------------------------------------------------------------------------
# Copies of rows, which would tell a model the targets of the rows that are left out.
#
# Rows nearer than any kernel can tell, with the same target, are one row of all their
# weight: they are left out together. Where near rows have different targets, they are
# rows of their own that happen to be near, as those of a few categories are.
# ----------------------------------------------------------------------------------

# Distance of copies, relative to the spread of the rows; difference of their targets.
_NEAR, _SAME = 1e-4, 1e-6
# Copies of less than this share of the rows make no difference to a choice, and fewer
# rows of their own than this tell nothing.
_COPIED, _FEW_OWN = 0.1, 20
# Entries of rows that are compared, and neighbours of each, in a random direction.
_MOST_ENTRIES, _NEIGHBOURS = 2**22, 4


def weights_without_copies(
    X: Array, values: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights (n,) of which the first of some copies has all, and the firsts.

    ``values`` are labels (n,) or targets (n, t). None where few rows are copies, or
    nearly all.
    """
    given = np.ones(len(values)) if weight is None else weight
    present = np.flatnonzero(given)
    small = 2 <= len(present) <= _MOST_ENTRIES / max(X.shape[1], 1)
    if not small or nx.is_sparse(X) or nx.example_of(X) is not X:
        return None
    rows = nx.to_numpy(nx.dense_rows(X, present)).astype(np.float64)
    rng = np.random.default_rng(0)
    order = np.argsort(rows @ rng.normal(size=rows.shape[1]), kind="stable")
    largest = _NEAR**2 * float(rows.var(axis=0).sum())
    pairs = []
    for step in range(1, min(_NEIGHBOURS, len(order) - 1) + 1):
        i, j = order[:-step], order[step:]
        near = np.sum((rows[i] - rows[j]) ** 2, axis=1) <= largest
        pairs.append(np.stack([i[near], j[near]]))
    i, j = np.concatenate(pairs, axis=1)
    if not len(i):
        return None
    links = scipy.sparse.coo_array((np.ones(len(i)), (i, j)), shape=2 * (len(present),))
    _, groups = scipy.sparse.csgraph.connected_components(links, directed=False)
    _, first = np.unique(groups, return_index=True)
    if not _FEW_OWN <= len(first) <= (1 - _COPIED) * len(present):
        return None
    first = first[groups]
    targets = values[present].reshape(len(present), -1).astype(np.float64)
    if (np.abs(targets - targets[first]) > _SAME * np.ptp(targets, axis=0)).any():
        return None
    all_first, total = np.arange(len(values)), np.zeros(len(values))
    all_first[present] = present[first]
    np.add.at(total, all_first[present], given[present])
    return total, all_first


def without_copies(problem: Problem) -> Problem:
    """Return the problem with all weight of copies on the first of them."""
    values = problem.targets.values
    found = weights_without_copies(problem.rows, values, problem.fit_weight)
    return problem if found is None else replace(problem, fit_weight=found[0])


# ----------------------------------------------------------------------------------
# Rows held out: some learn, others judge.
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
# Models of more rows are compared by factorisations in float32. Kernel columns are in
# float64: of wide kernels, the rounding of float32 products, which depends on the
# number of threads, changed losses by up to a hundredth.
_FLOAT64_ROWS = 1200
# The median distance is that of so many rows.
_MEDIAN_ROWS = 300


class Family(NamedTuple):
    """Kernels that differ by gamma, or one kernel."""

    kernel: Kernel
    gamma: str | None
    """"tune": searched; "scale", "auto", "median": that of the mapped rows, as in
    ``resolve_gamma``; None: the kernel's own."""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.kernel.name

    @property
    def power(self) -> float:
        """By which a factor of a squared distance's gamma is one of the kernel's."""
        return 0.5 if self.kernel.of_length else 1.0

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
        some = rows[: min(_MEDIAN_ROWS, rows.shape[0]), :]
        if self.widens:
            return median_gamma(some, None, self.name)
        return resolve_gamma(self.gamma, some, None, self.name)

    def steps(self, factors: Iterable[float]) -> list[float]:
        """Return factors of gamma from factors for squared distances; 1 if given."""
        return [float(f**self.power) for f in factors] if self.widens else [1.0]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that learn, in random order, and rows that judge; in a metric, or as given.

    In float64; CSR where the rows are.
    """

    both: Array
    """Rows that learn, and after them those that judge, (n + r, d)."""
    Y: Array
    """Of those that learn, (n, t)."""
    weight: Array | None
    numbers: np.ndarray
    """Numbers of the judging rows in the problem."""
    n_columns: int = 0
    row_map: RowMap | None = None
    units: dict[str, float] = field(default_factory=dict)
    """Gamma of the median distance for each kernel that was asked for."""

    @classmethod
    def of(
        cls, problem: Problem, Y: np.ndarray, learning: np.ndarray, judging: np.ndarray
    ) -> "Fold":
        """Return the fold of the rows with these numbers."""
        both = nx.take_rows(problem.rows, np.concatenate([learning, judging]))
        of_learning = Y[learning], of_rows(problem.fit_weight, learning)
        given = (nx.as_like(part, both) for part in of_learning)
        return cls(nx.astype(both, "float64"), *given, judging)

    def mapped(self, row_map: RowMap, n_columns: int) -> "Fold":
        """Return the fold in a metric, with at most so many columns.

        Of few rows only a part of them.
        """
        new = replace(self, both=row_map(self.both), row_map=row_map, units={})
        return new.with_columns(n_columns)

    def with_columns(self, n_columns: int) -> "Fold":
        """Return the fold with ``n_columns`` columns, at most a part of its rows."""
        n = self.rows.shape[0]
        most = max(n // 4, min(n // 2, _FEW_COLUMNS), 1)
        return replace(self, n_columns=min(n_columns, most))

    @property
    def rows(self) -> Array:
        """Rows that learn, (n, d)."""
        return self.both[: self.Y.shape[0], :]

    @property
    def is_exact(self) -> bool:
        """Whether all learning rows are columns."""
        return self.n_columns >= self.rows.shape[0]

    @property
    def columns(self) -> Array:
        """Rows of the kernel columns, (m, r)."""
        return self.rows[: min(self.n_columns, self.rows.shape[0]), :]

    def kernel(self, family: Family, factor: float) -> Kernel:
        """Return a kernel with gamma in units of the median distance's gamma."""
        if family.name not in self.units:
            self.units[family.name] = family.unit(self.rows)
        return family.at(self.units[family.name], factor)

    def models(self, kernel: Kernel, Cs: Sequence[float]) -> ColumnModels:
        """Return the least squares on the columns for each C."""
        K = kernel(self.rows, self.columns)
        return solve_columns(K, self.Y, Cs, self.weight)

    def fit(
        self, kernel: Kernel, Cs: Sequence[float]
    ) -> tuple[np.ndarray, Array | None]:
        """Return decision values of judging rows, (r, c, t), and coefficients.

        Coefficients of the columns, (m, c, t); None where all learning rows are
        columns, which have an LS-SVM for each C.
        """
        n = self.Y.shape[0]
        if not self.is_exact:
            K = kernel(self.both, self.columns)
            models = solve_columns(K[:n, :], self.Y, Cs, self.weight)
            return nx.to_numpy(models.values(K[n:, :])), models.coef
        K_new, K = kernel(self.both[n:, :], self.rows), kernel(self.rows)
        precision = "float64" if n <= _FLOAT64_ROWS else "float32"
        options = {"sample_weight": self.weight, "precision": precision}
        values = []
        for k, C in enumerate(Cs, start=1):
            last = k == len(Cs)
            fit = solve_ls_svm(K, self.Y, C=C, overwrite_K=last, **options)
            values.append(nx.to_numpy(K_new @ fit.dual_coef + fit.intercept))
        return np.stack(values, axis=1), None

    def product(self, kernel: Kernel, coef: Array, kind: str, workers=1) -> np.ndarray:
        """Return M of least squares on the columns, by their coefficients (m, t)."""
        fitted = (kernel, self.rows, self.columns, coef, self.weight, self.row_map)
        return gradient_product(*fitted, kind, workers=workers)


def make_folds(
    problem: Problem, Y: np.ndarray, n_rows: int, cv: int | None, rng
) -> list[Fold]:
    """Split at most ``n_rows`` rows into folds; ``cv`` of them, or as many as help.

    Rows of unequal weights judge no better than (Σ w)² / Σ w² equal ones.
    """
    some = draw_some(rng, problem.present(), n_rows)
    weight = of_rows(problem.fit_weight, some)
    n = len(some) if weight is None else weight.sum() ** 2 / (weight @ weight)
    if cv is None:
        parts = np.array_split(some, 3 if n >= _VERY_FEW else 4)
        judges = parts[:1] if n >= _FEW_ROWS else parts
    else:
        judges = np.array_split(some, cv)
    return [
        Fold.of(problem, Y, some[~np.isin(some, judging)], judging)
        for judging in judges
        if 0 < len(judging) < len(some)
    ]


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
#                 are rows: few columns favour smooth kernels, wide ones and small C
#     5  relearn  the metric of the chosen path, from all rows and more columns
#
# References: A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for
# feature learning in neural networks and backpropagation-free machine learning models"
# (Science, 2024). What differs here: few columns decide, a metric has to gain more than
# 1.5 standard errors, and columns are bounded.
# ----------------------------------------------------------------------------------

# With fewer rows, folds tell nothing.
_LEAST_ROWS = 50
# Columns by which scales are decided, then metrics, and by which the metric that was
# chosen is learned from all rows.
_FIRST_COLUMNS, COLUMNS, _LAST_COLUMNS = 250, 450, 800
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
# Standard errors by which a metric must gain: it is the best of many. By which a kernel
# may be behind with few columns and is still tried with more: rough kernels gain most
# by them, and up to 2.7 were seen to be made up for.
_ERRORS, _FAR_BEHIND = 1.5, 3.0
# By which gamma and C are moved at last, how often, and by what share each must lessen
# the loss: less is smaller than the error of the judgement.
_WIDTH_STEP, _REFINE_C_STEP = 1.6, 10**0.5
_MOST_MOVES, _REFINE_LEAST_FALL = 4, 0.002
_MOST_C = 1e6
# Up to twice so many rows, so many rows that learn are all columns; of more, so many
# columns of at most so many rows. With 3,000 such rows, and more candidates, a fit
# took half as long again, and the mean loss on 17 tables was the same.
_REFINE_ROWS, _EXACT_ROWS, _MORE_COLUMNS, _MOST_ROWS = 4500, 2400, 1200, 5000
# Fits beside each other, and arrays as large as its kernel columns that a fit has.
_MOST_THREADS, COPIES = 8, 6


@dataclass(frozen=True, eq=False)
class MetricOptions:
    """Candidates of a metric search."""

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


@dataclass(frozen=True, eq=False)
class Candidate:
    """A metric with a kernel and its width."""

    family: Family
    factor: float
    """Of gamma, in units of the median distance's."""
    scale: str
    folds: list[Fold]
    kind: str = "identity"
    power: float = 0.0
    path: tuple[tuple[float, float] | None, ...] = ()
    """Width and C of the fit before each step; None: a step without a fit, by what
    each column explains alone."""

    @property
    def branch(self) -> tuple[str, str, float]:
        """Kernel, kind and power, common to the steps of a path."""
        return self.family.name, self.kind, self.power


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen candidate, and the table of trials."""

    kernel: Kernel
    """For mapped rows, where there is a map."""
    C: float
    table: list[dict[str, Any]]
    """A row for every candidate and C; the score is minus the loss, in which a Gaussian
    on few columns has its handicap."""
    row_map: RowMap | None = None
    scale: str = "given"
    kind: str = "identity"
    power: float = 0.0
    n_steps: int = 0
    n_columns: float = math.inf
    """Kernel columns of the models by which C was chosen; infinity for a given C, or
    models of all their rows."""

    @property
    def results(self) -> dict[str, np.ndarray]:
        """The table as columns that pandas takes."""
        names = [name for name in _TABLE if not self.table or name in self.table[0]]
        return {
            name: np.asarray(
                [row[name] for row in self.table],
                dtype=object if name in ("kernel", "scale", "kind") else None,
            )
            for name in names
        }


class MetricSearch(RowJudge):
    """Candidates for a metric, judged by rows held out."""

    def __init__(self, problem: Problem, options: MetricOptions, rng, memory_budget):
        given, problem = problem, without_copies(problem)
        self.problem, self.options, self.rng = problem, options, rng
        self.has_copies = problem is not given
        self.Y = problem.targets.scaled(problem.fit_weight)
        self.budget = resolve_budget(memory_budget, problem.rows)
        n_rows = self._affordable(options.max_samples, COLUMNS)
        self.folds = make_folds(problem, self.Y, n_rows, options.cv, rng)
        self.judging = np.concatenate([fold.numbers for fold in self.folds])
        super().__init__(of_rows(problem.fit_weight, self.judging))
        self.maps = scale_maps(problem.rows, problem.fit_weight, rng)
        self.n_threads = min(n_workers(self.folds[0].rows), _MOST_THREADS)
        self.pays = paired_gain(_ERRORS, self.weight)

    def _affordable(self, n_rows: int, n_columns: int) -> int:
        """Return for how many rows half of the budget has room, 20 at least."""
        row = 8 * (4 * self.problem.rows.shape[1] + 4 * n_columns)
        return max(min(n_rows, self.budget // 2 // row), 20)

    # ---- fits and their judges -------------------------------------------------------

    def work(self, job: Job) -> tuple[np.ndarray, list]:
        (candidate, Cs), found = job, []
        for fold in candidate.folds:
            kernel = fold.kernel(candidate.family, candidate.factor)
            found.append(fold.fit(kernel, Cs))
        values, coefs = zip(*found, strict=True)
        losses = self.options.losses
        if losses is None:
            targets, weight = self.problem.targets, self.problem.fit_weight
            return targets.losses(np.concatenate(values), weight, self.judging), coefs
        return losses(np.concatenate(values), self.judging), coefs

    def trial(self, job: Job, found: tuple[np.ndarray, list]) -> Trial:
        losses, coefs = found
        best = super().trial(job, losses)
        c = list(job[1]).index(best.C)
        # Copies, without the coefficients of the other C.
        own = [None if coef is None else coef[:, c, :] * 1 for coef in coefs]
        return replace(best, model=own)

    def described(self, candidate: Candidate) -> dict[str, Any]:
        fold = candidate.folds[0]
        kernel = fold.kernel(candidate.family, candidate.factor)
        return {
            "kernel": kernel.name,
            "gamma": gamma_of(kernel),
            "scale": candidate.scale,
            "kind": candidate.kind,
            "power": candidate.power,
            "n_steps": len(candidate.path),
            "n_columns": fold.columns.shape[0],
        }

    def place(self, candidate: Candidate) -> tuple:
        return candidate.scale, candidate.family.name, f"{candidate.factor:.9g}"

    def at_once(self, jobs: Sequence[Job]) -> int:
        entries = max(
            fold.rows.shape[0] * fold.columns.shape[0]
            for candidate, _ in jobs
            for fold in candidate.folds
        )
        return min(self.n_threads, max(int(self.budget / 8 / COPIES / entries), 1))

    def coarse(self, trial: Trial) -> Job:
        """Return the job of a candidate with its C and every second one to choose from.

        Not only those near its C: a step may change the best by orders of magnitude.
        """
        Cs = np.unique(self.options.Cs)
        if len(Cs) > _FEW_CS:
            Cs = Cs[int(np.argmin(np.abs(np.log(Cs / trial.C)))) % 2 :: 2]
        return trial.candidate, Cs.tolist()

    # ---- 1. scale --------------------------------------------------------------------

    def best_scale(self) -> list[Trial]:
        """Return the best width and C of every kernel, on the better scale.

        The first kernel decides which scale that is.
        """
        first, *others = self.options.families
        best = best_of(self._best_widths((s, first) for s in self.options.scales))
        scale = best.candidate.scale
        found = [best, *self._best_widths((scale, family) for family in others)]
        larger = []
        for trial in found:
            folds = [fold.with_columns(COLUMNS) for fold in trial.candidate.folds]
            larger.append(_changed(trial, folds=folds))
        return self.tried(map(self.coarse, larger))

    def _best_widths(self, pairs: Iterable[tuple[str, Family]]) -> list[Trial]:
        """Return the best width and C of each pair of a scale and a kernel.

        Where the best width is an end of those that were tried, others follow.
        """
        groups, Cs = [], self.options.Cs
        for scale, family in pairs:
            row_map = self.maps[scale]
            folds = [fold.mapped(row_map, _FIRST_COLUMNS) for fold in self.folds]
            factors = family.steps(_FACTORS)
            groups.append([(Candidate(family, f, scale, folds), Cs) for f in factors])
        jobs = list(itertools.chain(*groups))
        trials = iter(self.tried(jobs))
        bests = [best_of(itertools.islice(trials, len(group))) for group in groups]
        by = _FACTORS[1] / _FACTORS[0]
        outwards = self._wider((1 / by, by), lambda trial: Cs)
        accept = falls_by(_REFINE_LEAST_FALL)
        return self.climb(bests, outwards, accept, _MOST_OUTWARDS, known=jobs)

    def _wider(self, by: Sequence[float], Cs) -> Callable[[Trial], list[Job]]:
        """Return the moves to kernels of other widths, with ``Cs(trial)``."""

        def moves(trial: Trial) -> list[Job]:
            candidate = trial.candidate
            if not candidate.family.widens:
                return []
            factors = candidate.family.steps(by)
            old = candidate.factor
            return [(replace(candidate, factor=old * f), Cs(trial)) for f in factors]

        return moves

    # ---- 2. and 3. step and decide ---------------------------------------------------

    def best_paths(self, firsts: Sequence[Trial]) -> list[Trial]:
        """Follow the steps of a metric from each kernel's fit, while they help.

        Where every first step from the best fit clearly harms, no other is tried.
        Returns the best of every kernel, with a metric if one pays.
        """
        firsts = sorted(firsts, key=lambda trial: trial.loss)
        start, *others = firsts
        tried = [*self._steps([start], self.options.powers), *self._screened(start)]
        if not all(self.pays(start, trial) for trial in tried):
            tried += self._steps(others, powers=[best_of(tried).candidate.power])
        ahead, clearly = self._ahead(tried), falls_by(_REFINE_LEAST_FALL)
        for _ in range(1, self.options.max_steps):
            tried += ahead
            before = {trial.candidate.branch: trial for trial in ahead}
            new = self._ahead(self._steps(ahead))
            ahead = [t for t in new if clearly(t, before[t.candidate.branch])]
        tried += ahead
        if tried and self.pays(best_of(tried), start):
            firsts = tried
        return list(_first_of_each(firsts, lambda t: t.candidate.family.name))

    def _steps(
        self, lasts: Sequence[Trial], powers: Sequence[float] | None = None
    ) -> list[Trial]:
        """Return the trials of one more metric step from each candidate.

        With each kind of a metric and these powers or, on a path, with its own.
        """
        if self.options.max_steps < 1:
            return []
        step = functools.partial(self._step, powers=powers)
        found = map_blocks(step, lasts, workers=self.n_threads, abandon=True)
        return self.tried(map(self.coarse, itertools.chain(*found)))

    def _step(self, last: Trial, powers: Sequence[float] | None) -> list[Trial]:
        """Return candidates after one more step, not judged yet."""
        candidate = last.candidate
        kinds = self._kinds(candidate.family)
        if powers is None:
            kinds, powers = [candidate.kind], [candidate.power]
        products: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
        fits = zip(candidate.folds, last.model, strict=True) if kinds else ()
        for fold, coef in fits:
            kernel = fold.kernel(candidate.family, candidate.factor)
            M = fold.product(kernel, coef, "full" if "full" in kinds else kinds[0])
            for kind in kinds:  # a full one has the diagonal in it
                own = np.diag(M) if M.ndim == 2 and kind == "diagonal" else M
                products[kind].append(own)
        path = (*candidate.path, (candidate.factor, last.C))
        return [
            self._weighed(last, kind, power, products[kind], path)
            for kind, power in itertools.product(kinds, powers)
        ]

    def _screened(self, start: Trial) -> list[Trial]:
        """Return first steps with :func:`screening_product`."""
        enough = self.problem.rows.shape[1] >= _MANY_COLUMNS
        possible = "diagonal" in self.options.kinds and self.options.max_steps > 0
        if not (enough and possible):
            return []
        scale = self.maps[start.candidate.scale]
        products = [
            screening_product(fold.rows, fold.Y, fold.weight, scale)
            for fold in self.folds
        ]
        new = [
            self._weighed(start, "diagonal", power, products, (None,))
            for power in self.options.powers
        ]
        return self.tried(map(self.coarse, new))

    def _weighed(self, last: Trial, kind, power, products, path) -> Trial:
        """Return a candidate in a metric, with the C that it had before."""
        base = self.maps[last.candidate.scale]
        folds = [
            fold.mapped(base.weighed(composed_weights(base.weights, M, power)), COLUMNS)
            for fold, M in zip(self.folds, products, strict=True)
        ]
        return _changed(last, kind=kind, power=power, folds=folds, path=path)

    def _ahead(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the best of every branch, of the best with wider and narrower kernels.

        The best first; none that is clearly behind it.
        """
        ahead = sorted(trials, key=lambda trial: trial.loss)[:_PATHS]
        ahead = [t for t in ahead if not self.pays(ahead[0], t)]
        by = 1 / _STEP, _STEP
        moves = self._wider(by, lambda trial: self.coarse(trial)[1])
        ahead += self.tried(itertools.chain(*map(moves, ahead)))
        ahead.sort(key=lambda trial: trial.loss)
        return list(_first_of_each(ahead, lambda t: t.candidate.branch))[:_PATHS]

    def _kinds(self, family: Family) -> list[str]:
        """Return the kinds that a kernel can have; Manhattan distances have columns."""
        narrow = family.name == "laplacian" and len(self.options.kinds) > 1
        return [k for k in self.options.kinds if not (narrow and k == "full")]

    # ---- 4. refine -------------------------------------------------------------------

    def refine(self, finalists: Sequence[Trial]) -> Trial:
        """Choose among the best candidate of each kernel, then its width and C."""
        larger = self._with_more_columns(self.worth_refining(finalists))
        now = best_of(self.tried((t.candidate, [t.C]) for t in larger))
        accept = falls_by(_REFINE_LEAST_FALL)
        step = _WIDTH_STEP ** (1 / now.candidate.family.power)
        for by in (step, 1 / step):  # few columns favour wide kernels
            before, way = now, self._wider((by,), lambda trial: [trial.C])
            (now,) = self.climb([now], way, accept, _MOST_MOVES)
            if now is not before:
                break
        (now,) = self.climb([now], self._other_Cs, accept, _MOST_MOVES)
        return now

    def worth_refining(self, finalists: Sequence[Trial]) -> list[Trial]:
        """Return the candidates that may be the best with more columns.

        Few columns are to the advantage of a Gaussian: one that is behind is left out.
        """
        best, behind = best_of(finalists), paired_gain(_FAR_BEHIND, self.weight)
        rough = [t for t in finalists if t.candidate.family.name != "rbf"]
        return [best, *(t for t in rough if t is not best and not behind(best, t))]

    def _other_Cs(self, now: Trial) -> list[Job]:
        """Return the move to the next larger C or the next smaller one.

        None at an end of those to choose from or, if allowed, one beyond it.
        """
        Cs, found = np.unique(self.options.Cs), []
        above, below = Cs[Cs > now.C * (1 + 1e-9)], Cs[Cs < now.C * (1 - 1e-9)]
        ways = ((above[:1], _REFINE_C_STEP), (below[-1:], 1 / _REFINE_C_STEP))
        for ahead, step in ways:
            if len(ahead) or self.options.beyond:
                C = ahead[0] if len(ahead) else min(now.C * step, _MOST_C)
                found.append(float(C))
        return [(now.candidate, found)]

    def _with_more_columns(self, finalists: Sequence[Trial]) -> list[Trial]:
        """Return the candidates with more columns, and more rows where there are many.

        All rows that learn as columns, where these are few and one fold or several
        judge; else some columns of many rows, the same for every candidate.
        """
        fit = int((self.budget / 8 / COPIES) ** 0.5)
        n_columns, more = max(min(_MORE_COLUMNS, fit), COLUMNS), None
        n = self.folds[0].rows.shape[0]
        if len(self.folds) > 1 or self.options.cv is not None:
            n_columns = n if n <= fit else min(_MORE_COLUMNS, fit)
        else:  # the same judges, and as many other rows as memory has
            exact = self.problem.n <= 2 * _REFINE_ROWS and fit >= _EXACT_ROWS
            n_rows = _EXACT_ROWS if exact else self._affordable(_MOST_ROWS, n_columns)
            numbers = self.folds[0].numbers
            others = self.rng.permutation(self.problem.present())
            others = others[~np.isin(others, numbers)][:n_rows]
            more = Fold.of(self.problem, self.Y, others, numbers)
            n_columns = len(others) if exact else n_columns
        larger = []
        for trial in finalists:
            folds = trial.candidate.folds
            if more is not None:
                folds = [more.mapped(folds[0].row_map, 1)]
            folds = [replace(fold, n_columns=n_columns) for fold in folds]
            larger.append(_changed(trial, folds=folds))
        return larger

    # ---- 5. relearn ------------------------------------------------------------------

    def relearned(self, best: Trial) -> Choice:
        """Learn the metric of the chosen path from all rows, up to a sample."""
        problem, candidate = self.problem, best.candidate
        n_rows = max(2 * _LAST_COLUMNS, self.options.max_samples)
        size = self._affordable(n_rows, _LAST_COLUMNS)
        some = draw_some(self.rng, problem.present(), size)
        rows = Fold.of(problem, self.Y, some, some[:0])
        row_map = base = self.maps[candidate.scale]
        for step in candidate.path:
            if step is None:
                M = screening_product(rows.rows, rows.Y, rows.weight, base)
            else:
                fold = replace(rows.mapped(row_map, 1), n_columns=_LAST_COLUMNS)
                factor, C = step
                kernel = fold.kernel(candidate.family, factor)
                coef = fold.models(kernel, [C]).coef[:, 0, :]
                M = fold.product(kernel, coef, candidate.kind, self.n_threads)
            weights = composed_weights(base.weights, M, candidate.power)
            row_map = base.weighed(weights)
        unit = candidate.family.unit(row_map(rows.rows))
        kernel, fold = candidate.family.at(unit, candidate.factor), candidate.folds[0]
        return Choice(
            kernel,
            best.C,
            # In the metric of all rows gamma is another number of the same width.
            self.decided(best, gamma=gamma_of(kernel)),
            row_map,
            candidate.scale,
            candidate.kind,
            candidate.power,
            len(candidate.path),
            math.inf if fold.is_exact or self.has_copies else fold.n_columns,
        )


def _changed(trial: Trial, **changes) -> Trial:
    return replace(trial, candidate=replace(trial.candidate, **changes), model=None)


def _first_of_each(trials: Iterable[Trial], name: Callable[[Trial], Any]):
    """Return the best trial of every name."""
    found: dict[Any, Trial] = {}
    for trial in trials:
        known = found.setdefault(name(trial), trial)
        if falls(trial, known):
            found[name(trial)] = trial
    return found.values()


def search_metric(
    problem: Problem,
    options: MetricOptions,
    rng: np.random.Generator,
    *,
    callback: Progress | None = None,
    memory_budget: int | str | None = None,
) -> Choice:
    """Choose scale, metric, kernel, width and C by rows that were not learned from.

    ``callback(n_done, n_total)`` is called after each stage; where memory is short,
    fewer rows are looked at.
    """
    search = MetricSearch(problem, options, rng, memory_budget)
    tell = callback or (lambda n_done, n_total: None)
    # Fits beside each other, not threads within a fit: those of BLAS wait for each
    # other by spinning. With another program on one of two cores, a search with BLAS
    # threads took ten times as long.
    with one_blas_thread():
        found: Any = search.best_scale()
        stages = search.best_paths, search.refine, search.relearned
        for n_done, stage in enumerate(stages, start=1):
            tell(n_done, 4)
            found = stage(found)
    tell(4, 4)
    release_freed_memory()
    return found


def enough_rows(n: int, weight: np.ndarray | None) -> bool:
    """Return True if there are rows enough that some may judge and others learn."""
    return (n if weight is None else np.count_nonzero(weight)) >= _LEAST_ROWS


def metric_or_scale(
    problem: Problem, options: MetricOptions, rng, *, callback, memory_budget
) -> Choice:
    """Return the searched metric or, of too few rows, the columns on a common scale."""
    if enough_rows(problem.n, problem.fit_weight):
        given = {"callback": callback, "memory_budget": memory_budget}
        return search_metric(problem, options, rng, **given)
    row_map = scale_maps(problem.rows, problem.fit_weight, rng)["standard"]
    family = options.families[0]
    kernel = family.at(family.unit(row_map(problem.rows)), 1.0)
    return Choice(kernel, 1.0, [], row_map, "standard")


# ----------------------------------------------------------------------------------
# What ``learn_metric`` means for an estimator with a kernel to choose.
# ----------------------------------------------------------------------------------

METRIC_CS = 10.0 ** np.arange(-1, 5.1, 0.5)
"""What ``C="auto"`` chooses from where a metric is learned."""
AUTO_FAMILIES = ("exponential", "rbf", "laplacian")
"""What ``kernel="auto"`` chooses from where a metric is learned."""
# Of more columns, Manhattan distances take too long: they are no matrix product.
_LAPLACIAN_COLUMNS = 64
# Of more columns, a full metric takes longer than it helps.
_MOST_FOR_FULL = 1000


def metric_options(
    X: Array,
    kernel: object,
    gamma: object,
    Cs: Sequence[float] | None,
    *,
    degree: int = 3,
    coef0: float = 0.0,
) -> MetricOptions:
    """Return the options of a metric search for an estimator's kernel and gamma.

    ``Cs`` is what to choose from; None: 0.1 to 100,000, and beyond where that pays.
    """
    d, params = X.shape[1], {"degree": degree, "coef0": coef0}
    is_csr, names = nx.is_sparse(longest_rows(X)), (kernel,)
    if isinstance(kernel, str) and kernel == "auto":
        few = is_csr or d > _LAPLACIAN_COLUMNS
        names = AUTO_FAMILIES[:2] if few else AUTO_FAMILIES
    word, number = (gamma, 1.0) if isinstance(gamma, str) else (None, float(gamma))
    families = []
    for name in names:
        if isinstance(name, str) and name in kernels_with_gamma():
            made = resolve_kernel(name, gamma=number, **params), word
        else:
            made = (resolve_kernel(name, **params),)
        families.append(_with_gradient(*made))
    kinds = ("diagonal",) if is_csr or d > _MOST_FOR_FULL else ("diagonal", "full")
    given = METRIC_CS if Cs is None else Cs
    return MetricOptions(families, given, beyond=Cs is None, kinds=kinds)


def _with_gradient(kernel: Kernel, gamma: str | None = None) -> Family:
    """Check that a given kernel has a gradient before any work is done."""
    one = np.ones((1, 1))
    try:
        next(iter(kernel.gradients(one, one, one)))
    except NotImplementedError as error:
        raise ValueError(
            f"learn_metric=True needs a kernel with a gradient: {error} Or pass "
            "learn_metric=False."
        ) from error
    return Family(kernel, gamma)


# ----------------------------------------------------------------------------------
# Leave-one-out by models of few kernel columns.
#
# Five n × m matrices of float64 in each thread, and about 2.5 n m² + 10 m³
# multiplications for a kernel: for a few thousand rows and a few hundred columns.
# Kernels of the same distances share these.
# ----------------------------------------------------------------------------------

# Kernels that are decomposed at a time, at most: each holds its matrices.
_WORKERS = 8
# Matrices of n × m and of m × m in float64 that a thread holds.
_TALL, _SQUARE = 5, 4
# Leave-one-out errors that a thread holds at a time, of several Cs, and how many arrays
# of that size there are.
_ENTRIES, _ERROR_ARRAYS = 2**23, 6
# Fewer rows or representatives than this tell nothing.
_LEAST = 20


class LeftOutColumns(RowJudge):
    """Kernels, judged by leave-one-out of least squares on columns.

    ``X``, (n, d), are the rows, and ``Z``, (m, d), those whose columns are fitted; with
    ``first_rows`` they are the first of ``X``, whose kernel is computed once.
    ``loss(values)`` takes leave-one-out values (n, c, t) of several C, and returns
    losses (n, c); None stands for their squared errors. Those of a Gaussian are
    multiplied by its handicap.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        X: Array,
        Y: Array,
        Z: Array,
        *,
        loss: Callable[[np.ndarray], np.ndarray] | None = None,
        sample_weight: Array | None = None,
        first_rows: bool = False,
        handicap: float = 1.0,
        callback: Progress | None = None,
        memory_budget: int | str | None = None,
    ):
        weight = None if sample_weight is None else nx.to_numpy(sample_weight)
        super().__init__(weight, callback, len(kernels))
        shape = X.shape[0], Z.shape[0], X.shape[1], Y.shape[1]
        shared, self._each = search_bytes(*shape)
        budget = resolve_budget(memory_budget, Y)
        self._free = max(budget - shared, self._each)
        X, Z = nx.astype(X, "float64"), nx.astype(Z, "float64")
        self._of_rows = matrices_of(kernels, X, Z)
        self._among = None if first_rows else matrices_of(kernels, Z)
        self._workers = min(kernel.n_workers(X) for kernel in kernels)
        self.Y, self.sample_weight = Y, sample_weight
        self.loss = self._squares if loss is None else loss
        self.handicap, self.n_columns = handicap, Z.shape[0]

    def values(
        self, kernel: Kernel, Cs: Sequence[float], n_threads: int = 1
    ) -> Iterator[np.ndarray]:
        """Yield leave-one-out values (n, c, t), of as many C as there is room for."""
        K = self._of_rows(kernel)
        K_mm = (
            K[: self.n_columns, :] * 1 if self._among is None else self._among(kernel)
        )
        spectrum = decompose_low_rank(K, K_mm, self.Y, self.sample_weight)
        room = (self._free // n_threads - self._each) // (8 * _ERROR_ARRAYS)
        step = max(1, min(_ENTRIES, room) // max(math.prod(self.Y.shape), 1))
        for start in range(0, len(Cs), step):
            errors = leave_one_out_errors(spectrum, Cs[start : start + step])
            yield nx.to_numpy(spectrum.Y[:, None, :] - errors)

    def _squares(self, values: np.ndarray) -> np.ndarray:
        return np.mean((values - nx.to_numpy(self.Y)[:, None, :]) ** 2, axis=2)

    def work(self, job: Job) -> np.ndarray:
        kernel, Cs = job
        values = self.values(kernel, Cs, self.at_once([]))
        losses = np.concatenate(list(map(self.loss, values)), axis=1)
        return losses * self.handicap if kernel.name == "rbf" else losses

    def described(self, candidate: Kernel) -> dict[str, Any]:
        of_kernel = {"kernel": name_of(candidate), "gamma": gamma_of(candidate)}
        return {**of_kernel, "n_columns": self.n_columns}

    def place(self, candidate: Kernel) -> tuple:
        return name_of(candidate), f"{gamma_of(candidate):.9g}"

    def at_once(self, jobs: Sequence[Job]) -> int:
        # A kernel in each thread: these matrices gain little from threads of BLAS.
        return min(self._workers, _WORKERS, max(self._free // self._each, 1))


def search_bytes(n: int, m: int, d: int, t: int) -> tuple[int, int]:
    """Return the bytes of a search: shared by all threads, and of each thread.

    Rows and representatives in float64, and their distances; the matrices of one
    kernel, and the errors of one C.
    """
    return 8 * ((n + m) * d + n * m), 8 * (
        _TALL * n * m + _SQUARE * m * m + _ERROR_ARRAYS * n * t
    )


def affordable_search(
    n: int, m: int, d: int, t: int, memory_budget: int | str | None
) -> tuple[int, int]:
    """Return at most n rows and m representatives whose search fits into the budget.

    Fewer of both where it is short, in the same proportion.
    """
    budget = resolve_budget(memory_budget)
    while sum(search_bytes(n, m, d, t)) > budget and min(n, m) > _LEAST:
        n, m = max(n * 7 // 8, _LEAST), max(m * 7 // 8, _LEAST)
    return n, m


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

CS = 10.0 ** np.arange(-2, 4.1, 0.5)
"""What ``C="auto"`` chooses from."""
GAMMA_FACTORS = 4.0 ** np.arange(-2, 3)
"""``gamma="tune"`` chooses from these times that of ``"scale"``."""
AUTO_KERNELS = ("exponential", "rbf")
"""What ``kernel="auto"`` chooses from."""
# So many kernels, the best by half of the columns, are compared by all of them; and the
# best of each name.
_FINALISTS = 2
# The least and the largest gamma are tried where the one next to them has less than
# this share of the loss of the one in the middle.
_OUTWARDS = 0.9
# Steps beyond the end of a grid, at most, and by what share each must lessen the loss.
_MOST_BEYOND, _LEAST_FALL = 4, 0.01
# For fewer rows than the first number: rows and columns of a search, and the handicap
# by which losses of the Gaussian are multiplied before they are compared. The more rows
# there are, the narrower is the best kernel, and few columns do not show it: they do a
# Gaussian more justice than kernels that are rough. On labels of random decision trees,
# 2,200 and 4,500 rows, its loss was 0.98 to 1.005 times that of the exponential kernel
# and its accuracy less by 0.6 on average; where it is better, its loss is less by more.
_SIZES = (
    (2000, 1000, 200, 1.0),
    (50_000, 3000, 800, 1.02),
    (math.inf, 5000, 1000, 1.02),
)


def tune(problem: Problem, plan: Plan, rng: np.random.Generator) -> Choice:
    """Choose the kernel and C of the least leave-one-out loss, where several are given.

    Where memory is short, fewer rows and columns are looked at.
    """
    if len(plan.Cs) == 1 and [len(path) for path in plan.kernels] == [1]:
        return Choice(plan.kernels[0][0], float(plan.Cs[0]), [])
    given, problem = problem, without_copies(problem)
    paths, Cs, weight = plan.kernels, np.asarray(plan.Cs), problem.fit_weight
    Y, present = problem.targets.scaled(weight), problem.present()
    n_rows, n_columns, handicap = next(
        size for below, *size in _SIZES if len(present) < below
    )
    n_columns //= 2 if plan.size == "fast" else 1
    d, t = problem.rows.shape[1], Y.shape[1]
    n_rows, n_columns = affordable_search(n_rows, n_columns, d, t, plan.memory_budget)
    some = draw_some(rng, present, n_rows)
    Z, part = (
        nx.dense_rows(problem.rows, some[:n_columns]),
        nx.take_rows(problem.rows, some),
    )

    def judge_of(kernels: Sequence[Kernel], n_columns: int) -> LeftOutColumns:
        return LeftOutColumns(
            kernels,
            part,
            nx.as_like(Y[some], Z),
            Z[:n_columns, :],
            loss=lambda values: problem.targets.losses(values, weight, some),
            sample_weight=nx.as_like(of_rows(weight, some), Z),
            first_rows=True,
            handicap=handicap,
            callback=plan.progress("kernel"),
            memory_budget=plan.memory_budget,
        )

    kernels = [kernel for path in paths for kernel in path]
    if len(kernels) > _FINALISTS:
        # Where all rows can be columns, they are in both rounds: that costs little.
        all_are = len(some) <= n_columns
        first = judge_of(kernels, len(some) if all_are else n_columns // 2)
        kernels = _finalists(paths, lambda some: first.tried((k, Cs) for k in some))
    judge = judge_of(kernels, Z.shape[0])
    best = best_of(judge.tried((kernel, Cs) for kernel in kernels))
    best = _beyond(judge, best, paths, Cs)
    release_freed_memory()
    # Leave-one-out of all rows would be of rows with copies among the others.
    n_columns = Z.shape[0] if problem is given else math.inf
    return Choice(best.candidate, best.C, judge.decided(best), n_columns=n_columns)


def _beyond(judge: Judge, best: Trial, paths, Cs) -> Trial:
    """Go on beyond the ends of the grid, as long as the loss falls."""
    accept = falls_by(_LEAST_FALL)
    for path in paths:
        if len(path) > 1 and best.candidate in (path[0], path[-1]):
            step = path[1].gamma / path[0].gamma
            by = step if best.candidate == path[-1] else 1 / step
            (best,) = judge.climb(
                [best],
                lambda now, by=by: [
                    (replace(now.candidate, gamma=now.candidate.gamma * by), [now.C])
                ],
                accept,
                _MOST_BEYOND,
            )
    if len(Cs) > 1 and best.C in (Cs[0], Cs[-1]):
        by = Cs[1] / Cs[0] if Cs[-1] == best.C else Cs[0] / Cs[1]
        (best,) = judge.climb(
            [best], lambda now: [(now.candidate, [now.C * by])], accept, _MOST_BEYOND
        )
    return best


def _finalists(
    paths: Sequence[Sequence[Kernel]], look: Callable[[Iterable[Kernel]], list[Trial]]
) -> list[Kernel]:
    """Return the kernels of least loss by ``look``, the best first.

    The ends of a path are looked at only where it falls towards them.
    """
    inner = [path[1:-1] if len(path) >= 5 else path for path in paths]
    trials = iter(look(itertools.chain(*inner)))
    found, ends = [], []
    for path, looked_at in zip(paths, inner, strict=True):
        some = list(itertools.islice(trials, len(looked_at)))
        found.append(some)
        middle, best = some[len(some) // 2], some.index(best_of(some))
        far = best in (0, len(some) - 1) and falls_by(1 - _OUTWARDS)(some[best], middle)
        if len(some) < len(path) and far:
            ends.append((some, path[0] if best == 0 else path[-1]))
    for (some, _), trial in zip(ends, look(end for _, end in ends), strict=True):
        some.append(trial)
    trials = sorted(itertools.chain(*found), key=lambda trial: trial.loss)
    order = [trial.candidate for trial in trials]
    firsts = [best_of(some).candidate for some in found]
    return [
        kernel for k, kernel in enumerate(order) if k < _FINALISTS or kernel in firsts
    ]


# ----------------------------------------------------------------------------------
# Choose kernel and C of an LS-SVM by exact leave-one-out.
#
# Of up to 1,000 rows every pair: one eigendecomposition for each kernel gives all C. Of
# more rows that takes minutes, so there are two stages:
#
#     1  screen  every kernel and C, by leave-one-out of least squares on the kernel
#                columns of a fifth of the rows: all rows judge, and one decomposition
#                of few columns gives all C
#     2  exact   the best C of the best three kernels, by leave-one-out of the model of
#                all rows: a factorisation and the diagonal of its inverse for each;
#                then kernels and values of C beside the best, while they are better
#
# Few columns favour wide kernels, which the second stage makes up for. On 16 tables of
# 1,600 rows, with 400 columns, 7 widths and 15 values of C, it found the best of all
# 105 pairs on 15, and missed it by 0.06 % of the rows on one, with 5.8 exact models on
# average.
# ----------------------------------------------------------------------------------

# Up to so many rows, every pair has an exact model.
_FEW_EXACT_ROWS = 1000
# Columns of the screen: a share of the rows, and no fewer than these.
_SHARE, _LEAST_COLUMNS = 5, 400
# Pairs that have an exact model after the screen.
_EXACT = 3
# K in float64, its eigenvectors, LAPACK's work space of two more, and their squares.
_MATRICES = 5


@dataclass(frozen=True, eq=False)
class LOOSearch:
    """Scores of all pairs, and the best model."""

    scores: np.ndarray
    """The larger the better, (n_kernels, n_Cs)."""
    n_columns: np.ndarray
    """Kernel columns of the model that was judged, (n_kernels, n_Cs); all rows for an
    exact one."""
    best_kernel: int
    best_C: float
    best_score: float
    """That of the exact model with them."""
    solution: LSSVMSolution
    """With the best kernel and C; its ``loo_decision`` is for all rows."""


class LeftOut(Judge):
    """Pairs of a kernel and C, by their numbers, judged by exact leave-one-out."""

    def __init__(self, kernels, X, Y, Cs, score, sample_weight, callback):
        super().__init__()
        self.progress = callback
        self.kernels, self.Cs, self.score = kernels, [float(C) for C in Cs], score
        self.X, self.Y, self.sample_weight = X, Y, sample_weight
        shape = len(kernels), len(Cs)
        self.scores, self.n_columns = np.full(shape, np.nan), np.zeros(shape, dtype=int)
        self._tell()

    def trial(self, job: Job, found: LSSVMSolution) -> Trial:
        values = nx.to_numpy(found.loo_decision)
        return self.judged(job[0], values, len(values), found)

    def judged(self, pair: tuple[int, int], values, n_columns: int, *model) -> Trial:
        """Return the trial of a pair by leave-one-out values, (n, t), and note it."""
        score = self.score(values)
        self.scores[pair], self.n_columns[pair] = score.value, n_columns
        self._tell()
        loss = -score.value, -score.tie_break
        return Trial(pair, self.Cs[pair[1]], loss, None, (), *model)

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(int(np.sum(~np.isnan(self.scores))), self.scores.size)

    def every(self) -> Iterator[Trial]:
        """Yield the exact model of every pair: one decomposition for each kernel."""
        for g, kernel in enumerate(self.kernels):
            spectrum = self._decomposed(kernel)
            for c, C in enumerate(self.Cs):
                yield self.trial(((g, c), [C]), solve_at(spectrum, C))

    def screened(self) -> list[Trial]:
        """Return every pair, judged by models of few columns."""
        n, found = self.X.shape[0], []
        weight, present = self.sample_weight, np.arange(self.X.shape[0])
        if weight is not None:
            present = np.flatnonzero(nx.to_numpy(weight))
        m = min(max(n // _SHARE, _LEAST_COLUMNS), len(present))
        # The same rows for the same data: a seed of the caller is not needed.
        rng = np.random.default_rng(0)
        Z = nx.take_rows(self.X, np.sort(rng.permutation(present)[:m]))
        columns = LeftOutColumns(self.kernels, self.X, self.Y, Z, sample_weight=weight)
        for g, kernel in enumerate(self.kernels):
            each = itertools.chain(
                *(np.moveaxis(v, 1, 0) for v in columns.values(kernel, self.Cs))
            )
            found += [self.judged((g, c), v, m) for c, v in enumerate(each)]
        return found

    def work(self, job: Job) -> LSSVMSolution:
        """Fit the exact model of a pair.

        By eigenvalues where rounding leaves a factor no positive diagonal.
        """
        (g, c), model = job[0], None
        kernel = self.kernels[g]
        with contextlib.suppress(NotPositiveDefiniteError):
            model = solve_ls_svm(
                kernel(self.X),
                self.Y,
                C=self.Cs[c],
                sample_weight=self.sample_weight,
                n_leave_one_out=self.X.shape[0],
                precision="float64",
                overwrite_K=True,
            )
        if model is None or model.info.jitter > 0:
            model = solve_at(self._decomposed(kernel), self.Cs[c])
        return model

    def _decomposed(self, kernel: Kernel) -> LSSVMSpectrum:
        return decompose_ls_svm(
            kernel(self.X), self.Y, sample_weight=self.sample_weight
        )


def search_by_leave_one_out(
    kernels: Sequence[Kernel],
    X: Array,
    Y: Array,
    Cs: Sequence[float],
    score: Callable[[np.ndarray], Score],
    *,
    sample_weight: Array | None = None,
    memory_budget: int | str | None = None,
    callback: Progress | None = None,
) -> LOOSearch:
    """Judge every kernel and C, and keep the exact model that scores best.

    ``score`` takes leave-one-out values, (n, t), NumPy; ``callback(n_done, n_all)`` is
    called before the first kernel and C, and after each. About 10 n³ multiplications
    for each kernel up to 1,000 rows; for more, n³/5 for each kernel, and 2/3 n³ for
    each of three pairs or some more. Raises MemoryError where five n × n matrices of
    float64 do not fit into the budget.
    """
    n = X.shape[0]
    _check_memory(n, budget_without_buffers(X, memory_budget))
    judged_by, weight, copies = score, sample_weight, None
    if not any(isinstance(kernel, Precomputed) for kernel in kernels):
        own = None if weight is None else nx.to_numpy(weight)
        copies = weights_without_copies(X, nx.to_numpy(Y), own)
    if copies is not None:
        merged, first = copies
        weight = nx.as_like(merged, Y)

        def judged_by(values: np.ndarray) -> Score:
            return score(values[first])

    judge = LeftOut(kernels, X, Y, Cs, judged_by, weight, callback)
    with few_threads_for(n):
        best = best_of(judge.every()) if n <= _FEW_EXACT_ROWS else _best_pair(judge)
        solution = best.model
        if copies is not None:
            left_out = nx.take_rows(solution.loo_decision, nx.as_like(first, Y))
            solution = solve_ls_svm(
                kernels[best.candidate[0]](X), Y, C=best.C, sample_weight=sample_weight
            )._replace(loo_decision=left_out)
    found = (judge.scores, judge.n_columns, best.candidate[0], best.C)
    return LOOSearch(*found, float(judge.scores[best.candidate]), solution)


def _best_pair(judge: LeftOut) -> Trial:
    """Screen all pairs, and climb from the best of them by exact models."""
    screened = sorted(judge.screened(), key=lambda trial: trial.loss)
    of_kernels = {t.candidate[0]: t.candidate for t in reversed(screened)}
    ranked = [t.candidate for t in screened]
    # Kernels in the order of their worst pairs: of the widest ones, which few columns
    # favour, these are far behind.
    firsts = list(of_kernels.values())[::-1]
    firsts += [pair for pair in ranked if pair not in firsts]
    jobs = [(pair, [judge.Cs[pair[1]]]) for pair in firsts[:_EXACT]]
    best = best_of(judge.tried(jobs))
    shape = judge.scores.shape

    def other_kernels(now: Trial) -> list[Job]:
        g = now.candidate[0]
        pairs = [of_kernels[k] for k in (g - 1, g + 1) if 0 <= k < shape[0]]
        return [(pair, [judge.Cs[pair[1]]]) for pair in pairs]

    def other_Cs(now: Trial) -> list[Job]:
        g, c = now.candidate
        return [((g, k), [judge.Cs[k]]) for k in (c - 1, c + 1) if 0 <= k < shape[1]]

    for moves in (other_kernels, other_Cs):
        (best,) = judge.climb([best], moves, falls, known=jobs)
    return best


def _check_memory(n: int, budget: int) -> None:
    needed = _MATRICES * 8 * n * n
    if needed > budget:
        rows = int((budget / (_MATRICES * 8)) ** 0.5)
        raise MemoryError(
            f"Leave-one-out over {n} rows decomposes a kernel matrix and needs "
            f"{format_bytes(needed)}; memory_budget allows {format_bytes(budget)}. Set "
            f"max_samples={rows} or fewer, or a larger memory_budget."
        )


# ----------------------------------------------------------------------------------
# C for the system that is solved: few columns bound a function by their number, and
# leave a C that is too large for many.
# ----------------------------------------------------------------------------------


class Solved(Judge):
    """Values of C, judged by rows that the system which is solved leaves out.

    ``solve(C)`` returns a model and its loss.
    """

    def __init__(self, solve: Callable[[float], tuple[Any, float]]):
        super().__init__()
        self.solve, self.losses = solve, {}

    def work(self, job: Job) -> tuple[Any, float]:
        return self.solve(float(job[1][0]))

    def trial(self, job: Job, found: tuple[Any, float]) -> Trial:
        candidate, (C,) = job
        model, self.losses[float(C)] = found
        return Trial(candidate, float(C), found[1], model=model)


def better_C(
    choice: Choice, n: int, solve: Callable[[float], tuple[Any, float]]
) -> tuple[Choice, Any]:
    """Return the choice with a C further on, as long as the loss clearly falls.

    And its model; ``n`` are the columns of the system that is solved.
    """
    judge, by = Solved(solve), _REFINE_C_STEP

    def moves(now: Trial) -> list[Job]:
        return [(None, [min(step, _MOST_C)]) for step in (now.C / by, now.C * by)]

    (best,) = judge.climb(
        judge.tried([(None, [choice.C])]), moves, falls_by(_REFINE_LEAST_FALL)
    )
    (chosen,) = (row for row in choice.table if row["chosen"])
    new = [
        {**chosen, "C": C, "score": -loss, "n_columns": n, "chosen": best.C == C}
        for C, loss in judge.losses.items()
    ]
    table = [{**row, "chosen": False} for row in choice.table] + new
    return replace(choice, C=best.C, table=table), best.model


# ----------------------------------------------------------------------------------
# Tables of what was tried, and ends of grids.
# ----------------------------------------------------------------------------------

# By so much, relative to its own size, the score must still rise towards an end of the
# grid before it is worth a word.
_RISE = 0.01
_TABLE = ("kernel", "gamma", "C", "score", "n_columns", "chosen")
_TABLE += ("scale", "kind", "power", "n_steps")


def told_choice(results: dict[str, np.ndarray], judges: str) -> str:
    """Say which line of the table was chosen, and why none that looks better."""
    if not len(results["score"]):
        return "as given"
    scores, columns = results["score"], results["n_columns"]
    k = int(np.argmax(results["chosen"]))
    text = (
        f"of {len(scores)} pairs tried by {judges} (loss {-scores[k]:.4g}, "
        f"{columns[k]} kernel columns)"
    )
    better = scores > scores[k]
    near = int(np.sum(better & (columns == columns[k])))
    other = int(np.sum(better)) - near
    reasons = [f"{near} by less than the error of a loss"] if near else []
    if other:
        reasons.append(f"{other} of other numbers of columns, which do not compare")
    smaller = f"; smaller losses, down to {-scores.max():.4g}, were not chosen: "
    return text + smaller + ", ".join(reasons) if reasons else text


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
    names = np.asarray([name_of(kernel) for kernel in kernels], dtype=object)
    return {
        "kernel": np.repeat(names, len(Cs)),
        "gamma": np.repeat([gamma_of(kernel) for kernel in kernels], len(Cs)),
        "C": np.tile(np.asarray(Cs, dtype=float), len(kernels)),
        "score": np.asarray(scores, dtype=float).ravel(),
    }


def gamma_of(kernel: Any) -> float:
    """Return the width of a kernel, NaN if it has none."""
    gamma = getattr(kernel, "gamma", None)
    return np.nan if gamma is None else float(gamma)


def name_of(kernel: Any) -> str:
    """Return the name of a kernel; None stands for a given matrix."""
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
    nx.warn_user(
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
