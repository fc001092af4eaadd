"""Candidates for a metric, tried and judged: scale, steps, and width with C.

The steps 1 to 4 of :mod:`kaucus.machines._metric`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    map_blocks,
    n_workers,
    resolve_budget,
)
from kaucus.machines._folds import (
    Family,
    Fold,
    Judged,
    MappedFold,
    gains,
    judge,
    make_fold,
    make_folds,
)
from kaucus.machines._gradients import composed_weights, gradient_product
from kaucus.machines._problem import Problem
from kaucus.machines._scale import scale_maps

# Columns by which scales are decided, then metrics.
_FIRST_COLUMNS, _COLUMNS = 250, 450
# Widths to begin with, in units of the median distance's gamma, and steps from there.
_FACTORS = (4.0**-2, 4.0**-1, 1.0, 4.0)
_STEP, _FINE = 2.0, 10**0.5
_MOST_OUTWARDS = 3
_MOST_C = 1e6
# Paths that are followed after the first step.
_PATHS = 2
# Rows that refine width and C, in all; of more rows than columns, so many columns.
_REFINE_ROWS, _REFINE_COLUMNS, _REFINE_MANY = 4500, 1200, 8000


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
    path: tuple[tuple[float, float], ...]
    """Width and C of the fit before each step."""
    judged: Judged
    folds: list[MappedFold]


class MetricSearch:
    """The steps of :func:`search_metric`, and the table of what was tried."""

    def __init__(self, problem: Problem, options: MetricOptions, rng, memory_budget):
        self.problem, self.options, self.rng = problem, options, rng
        self.Y, _ = problem.targets.search(problem.fit_weight)
        self.budget = resolve_budget(memory_budget, problem.rows)
        d = problem.rows.shape[1]
        fit = int(self.budget / 2 / 8 / (4 * d + 4 * _COLUMNS))
        n_rows = max(min(options.max_samples, fit), 20)
        self.folds = make_folds(problem, self.Y, n_rows, options.cv, rng)
        self.weight = problem.fit_weight
        numbers = np.concatenate([fold.numbers for fold in self.folds])
        self.judging_weight = None if self.weight is None else self.weight[numbers]
        self.maps = scale_maps(problem.rows, self.weight, rng)
        self.table: list[tuple] = []

    # ---- fits and their judges -------------------------------------------------------

    def judged(self, jobs: Iterable[tuple]) -> list[Candidate]:
        """Judge candidates, given as (candidate without judgement, factor), in threads.

        Returns the candidates with their losses.
        """
        jobs = list(jobs)
        # One fit alone has the threads of BLAS for itself.
        workers = min(n_workers(self.folds[0].rows), len(jobs), 8)

        def one(job: tuple[Candidate, float, Sequence[float]]) -> Candidate:
            candidate, factor, Cs = job
            found = judge(
                candidate.folds,
                candidate.family,
                factor,
                Cs,
                self.losses,
                self.weight,
            )
            return candidate._replace(judged=found)

        done = list(map_blocks(one, jobs, workers=workers, abandon=True))
        for (_, _, Cs), candidate in zip(jobs, done, strict=True):
            self.note(candidate, Cs)
        return done

    def losses(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the loss of each row and model, (r, c)."""
        if self.options.losses is not None:
            return self.options.losses(values, rows)
        return self.problem.targets.losses(values, self.weight, rows)

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
        best = _best(self._best_width(scale, first) for scale in self.options.scales)
        found = [best, *(self._best_width(best.scale, family) for family in others)]
        return self.judged(
            (
                c._replace(folds=self._folds(c, _COLUMNS)),
                c.judged.factor,
                self.options.Cs,
            )
            for c in found
        )

    def _folds(self, candidate: Candidate, n_columns: int) -> list[MappedFold]:
        return [folded.with_columns(n_columns) for folded in candidate.folds]

    def _best_width(self, scale: str, family: Family) -> Candidate:
        row_map = self.maps[scale]
        folds = [fold.mapped(row_map, _FIRST_COLUMNS) for fold in self.folds]
        blank = Candidate(family, scale, "identity", 0.0, (), None, folds)  # type: ignore[arg-type]
        Cs = self.options.Cs
        factors = self.factors(family, _FACTORS)
        best = _best(self.judged((blank, f, Cs) for f in factors))
        for _ in range(_MOST_OUTWARDS):
            ends = (factors[0], factors[-1])
            if len(factors) == 1 or best.judged.factor not in ends:
                break
            by = factors[1] / factors[0]
            at_low = best.judged.factor == ends[0]
            factors = [ends[0] / by, *factors] if at_low else [*factors, ends[1] * by]
            new = factors[0] if at_low else factors[-1]
            best = _best([best, *self.judged([(blank, new, Cs)])])
        return best

    # ---- 2. and 3. step and decide ---------------------------------------------------

    def best_paths(self, firsts: Sequence[Candidate]) -> list[Candidate]:
        """Follow the steps of a metric from each kernel's fit, while they help.

        Where every first step from the best fit clearly harms, no other is tried.
        Returns the best of every kernel, with a metric if one pays.
        """
        firsts = sorted(firsts, key=lambda c: c.judged.loss)
        start, tried = firsts[0], []
        for first in firsts:
            tried += self._steps(first)
            if all(self._pays(start, c) for c in tried):
                break
        ahead = _first_of_each_path(self._other_widths(tried))[:_PATHS]
        for _ in range(1, self.options.max_steps):
            pairs = [(c, self._steps(c, c.kind, c.power)) for c in ahead]
            nexts = [(c, _best(self._other_widths(new))) for c, new in pairs if new]
            tried += ahead
            ahead = [best for c, best in nexts if _falls(best, c)]
        tried += ahead
        if tried and self._pays(_best(tried), start):
            firsts = tried
        names = list(dict.fromkeys(c.family.kernel.name for c in firsts))
        return [_best(c for c in firsts if c.family.kernel.name == n) for n in names]

    def _pays(self, new: Candidate, old: Candidate) -> bool:
        return gains(new.judged, old.judged, self.judging_weight)

    def _steps(
        self, last: Candidate, kind: str | None = None, power: float | None = None
    ) -> list[Candidate]:
        """Return what one more step from a candidate gives, for each kind and power."""
        kinds = self._kinds(last.family) if kind is None else [kind]
        powers = self.options.powers if power is None else [power]
        if self.options.max_steps < 1 or not kinds:
            return []
        factor, C = last.judged.factor, last.judged.C
        products = self._products(last, kinds)
        path, base = (*last.path, (factor, C)), self.maps[last.scale].weights
        blanks = []
        for kind in kinds:
            for p in powers:
                weights = [composed_weights(base, M, p) for M in products[kind]]
                folds = [
                    fold.mapped(folded.row_map.weighed(w), _COLUMNS)
                    for fold, folded, w in zip(
                        self.folds, last.folds, weights, strict=True
                    )
                ]
                blanks.append(last._replace(kind=kind, power=p, path=path, folds=folds))
        return self.judged((blank, factor, self.options.Cs) for blank in blanks)

    def _other_widths(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the best candidates, and these with a wider and a narrower kernel."""
        ahead = sorted(candidates, key=lambda c: c.judged.loss)[:_PATHS]
        jobs = [
            (c, c.judged.factor * w, self.options.Cs)
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
        coef = folded.model(kernel).coefficients([judged.C])[:, 0, :]
        kind = "full" if "full" in kinds else "diagonal"
        rows, columns, weight = folded.rows, folded.columns, folded.fold.weight
        return gradient_product(
            kernel, rows, columns, coef, weight, folded.row_map, kind
        )

    # ---- 4. refine -------------------------------------------------------------------

    def refined(self, finalists: Sequence[Candidate]) -> Candidate:
        """Choose kernel, width and C again with the columns that the model will have.

        Few columns favour smooth kernels and small C: each kernel is tried with its C
        and the next larger one, the best is then moved while its loss falls.
        """
        larger = self._with_more_columns(finalists)
        seen: set[tuple] = set()

        def tried(c: Candidate, factor: float, ups: Sequence[int]) -> list[Candidate]:
            """Return the best of the next Cs at a width, unless all were seen."""
            Cs = [self._next_C(c.judged.C, up) for up in ups]
            new = {(c.family.kernel.name, _key(factor), _key(C)): C for C in Cs}
            new = {key: C for key, C in new.items() if key not in seen}
            seen.update(new)
            return self.judged([(c, factor, list(new.values()))]) if new else []

        firsts = [tried(c, c.judged.factor, (0, 1)) for c in larger]
        now = _best(c for some in firsts for c in some)
        by = self.factors(now.family, (1.6,))[0]
        moves = [(1 / by, (0,)), (by, (0,))] if now.family.widens else []
        for factor, ups in [*moves, (1.0, (-1, 1))]:
            for _ in range(_MOST_OUTWARDS):
                new = tried(now, now.judged.factor * factor, ups)
                if not new or not _falls(new[0], now):
                    break
                now = new[0]
        return now

    def _next_C(self, C: float, up: int) -> float:
        """Return the next larger C (``up`` 1), the next smaller (−1), or C itself.

        At an end of those to choose from, C itself or, if allowed, one beyond it.
        """
        Cs = np.unique(self.options.Cs)
        ahead = Cs[Cs * up > C * up * (1 + 1e-9 * up)] if up else Cs[:0]
        if up and len(ahead):
            return float(ahead.min() if up > 0 else ahead.max())
        return min(C * _FINE**up, _MOST_C) if up and self.options.beyond else C

    def _with_more_columns(self, finalists: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates with more columns, and more rows where there are many.

        All rows that learn as columns, where these are few and one fold or several
        judge; else some columns of many rows, the same for every candidate.
        """
        fit = int((self.budget / 8 / 6) ** 0.5)
        one_split = len(self.folds) == 1 and self.options.cv is None
        if self.problem.n <= 2 * _REFINE_ROWS or not one_split:
            n = self.folds[0].rows.shape[0]
            n_columns = n if n <= fit else min(_REFINE_COLUMNS, fit)
            return [
                c._replace(folds=[f._replace(n_columns=n_columns) for f in c.folds])
                for c in finalists
            ]
        n_columns = max(min(_REFINE_COLUMNS, fit), _COLUMNS)
        more = self._larger_fold(n_columns)
        maps = [c.folds[0].row_map for c in finalists]
        folds = [more.mapped(m, 1)._replace(n_columns=n_columns) for m in maps]
        return [
            c._replace(folds=[fold]) for c, fold in zip(finalists, folds, strict=True)
        ]

    def _larger_fold(self, n_columns: int) -> Fold:
        """Return the fold with the same judges and as many other rows as memory has."""
        d, fold = self.problem.rows.shape[1], self.folds[0]
        most = int(self.budget / 2 / 8 / (4 * d + 4 * n_columns))
        n_rows = max(min(_REFINE_MANY, most), fold.rows.shape[0])
        others = self.rng.permutation(self.problem.present())
        others = others[~np.isin(others, fold.numbers)][:n_rows]
        return make_fold(self.problem, self.Y, others, fold.numbers)


def _first_of_each_path(tried: Sequence[Candidate]) -> list[Candidate]:
    """Return the best width of every kernel, kind and power, the best first."""
    found: dict[tuple, Candidate] = {}
    for c in sorted(tried, key=lambda c: c.judged.loss):
        found.setdefault((c.family.kernel.name, c.kind, c.power), c)
    return list(found.values())


def _best(candidates: Iterable[Candidate]) -> Candidate:
    return min(candidates, key=lambda c: c.judged.loss)


def _key(value: float) -> float:
    """Return a number by which values are equal up to rounding."""
    return round(math.log(value), 6)


def _falls(new: Candidate, old: Candidate) -> bool:
    return new.judged.loss < old.judged.loss
