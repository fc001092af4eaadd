"""Kernel, width and C of a metric, with as many columns as the model will have.

Step 4 of :mod:`kaucus.machines._metric`. Few columns favour smooth kernels, wide ones
and small C; so the kernels that are not far behind are compared again, and the best is
moved to other widths, then to another C, while that clearly lessens the loss.
"""

from collections.abc import Sequence

import numpy as np

from kaucus.machines._folds import Fold, make_fold
from kaucus.machines._metric_search import (
    COLUMNS,
    COPIES,
    Candidate,
    MetricSearch,
    best_of,
)

# Standard errors by which a kernel may be behind with few columns and is still tried
# with more: rough kernels gain most by them, and up to 2.7 were seen to be made up for.
_FAR_BEHIND = 3.0
# By which gamma and C are moved, how often, and by what share each must lessen the
# loss: less is smaller than the error of the judgement.
_WIDTH_STEP, _C_STEP = 1.6, 10**0.5
_MOST_MOVES, _LEAST_FALL = 3, 0.002
_MOST_C = 1e6
# Up to twice so many rows, all that learn are columns; of more, so many columns of at
# most so many rows.
_ROWS, _MORE_COLUMNS, _MOST_ROWS = 4500, 1200, 5000


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
    return new.judged.loss < (1 - _LEAST_FALL) * old.judged.loss


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
    return min(C * _C_STEP**up, _MOST_C) if up and search.options.beyond else C


def _with_more_columns(
    search: MetricSearch, finalists: Sequence[Candidate]
) -> list[Candidate]:
    """Return the candidates with more columns, and more rows where there are many.

    All rows that learn as columns, where these are few and one fold or several judge;
    else some columns of many rows, the same for every candidate.
    """
    fit = int((search.budget / 8 / COPIES) ** 0.5)
    one_split = len(search.folds) == 1 and search.options.cv is None
    if search.problem.n <= 2 * _ROWS or not one_split:
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
