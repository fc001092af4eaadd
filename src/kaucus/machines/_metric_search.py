"""Candidates for a metric, tried and judged: scale, and steps with width and C.

The steps 1 to 3 of :mod:`kaucus.machines._metric`.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import map_blocks, n_workers, resolve_budget
from kaucus.machines._folds import (
    Family,
    Judged,
    MappedFold,
    gains,
    make_folds,
)
from kaucus.machines._gradients import composed_weights, gradient_product
from kaucus.machines._main_effects import screening_product
from kaucus.machines._problem import Problem
from kaucus.machines._scale import scale_maps
from kaucus.machines._targets import of_rows

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
    scales: Sequence[str] = ("standard", "given")
    """Whether columns are standardised, or stay on the scale that they have."""
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
