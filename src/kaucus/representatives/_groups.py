"""k-means of several groups of rows that are read part by part, all in step.

Each group is clustered by itself, as :func:`kmeans` would; but one pass over the rows
assigns those of all groups.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kaucus.backend import RowSource, dense_rows, to_numpy
from kaucus.representatives._geometry import Centers, make_centers, prepare_rows
from kaucus.representatives._lloyd import (
    KMeansProblem,
    KMeansResult,
    Steps,
    first_centers,
    lloyd_steps,
)
from kaucus.representatives._parts import (
    PartAssigner,
    assign_groups,
    spreads,
    with_groups,
)
from kaucus.representatives._seeding import clearly_less, random_seeds


def kmeans_of_groups(
    X: RowSource,
    groups: Sequence[np.ndarray],
    n_clusters: Sequence[int],
    *,
    metric: str,
    init: str,
    n_init: int,
    max_iter: int,
    tol: float,
    sample_weight: np.ndarray | None,
    rngs: Sequence[np.random.Generator],
    callback: Callable[[int], object] | None = None,
) -> list[KMeansResult]:
    """Cluster each group of rows by itself.

    Parameters
    ----------
    X : RowSource of shape (n, d)
    groups : sequence of integer arrays
        The numbers of the rows of each group.
    n_clusters : sequence of int
        Of each group, less than it has rows.
    metric, init, n_init, max_iter, tol
        As in :func:`kmeans`.
    sample_weight : array of shape (n,) or None
    rngs : sequence of numpy.random.Generator
        One for each group.
    callback : callable, default=None
        ``callback(n_done)`` when groups have ended.
    """
    if not groups:
        return []
    number = np.full(X.shape[0], -1, dtype=np.int16 if len(groups) < 2**15 else int)
    for group, rows in enumerate(groups):
        number[rows] = group
    rows_of = with_groups(X, number, sample_weight)
    every = range(len(groups))
    scales = dict.fromkeys(every, 1.0)
    if metric == "euclidean":
        scales = spreads(rows_of, list(every))
    problems = [
        KMeansProblem(
            n_clusters[g],
            None if sample_weight is None else sample_weight[groups[g]],
            metric,
            None,
            None,
            scales[g],
            PartAssigner(rows_of, n_clusters[g], metric, sample_weight, g, groups[g]),
        )
        for g in every
    ]
    starts = [rng.spawn(n_init) for rng in rngs]
    best: list[KMeansResult] = []
    for start in range(n_init):
        own_rngs = [generators[start] for generators in starts]
        firsts = _first_centers(X, groups, problems, init, own_rngs)
        steps: dict[int | None, Steps] = {
            g: lloyd_steps(problems[g], firsts[g], max_iter, tol, None, None)
            for g in every
        }
        tell = callback if start == n_init - 1 else None
        found = _in_step(rows_of, steps, metric, tell)
        best = [
            new if old is None or clearly_less(new.inertia, old.inertia) else old
            for old, new in zip(best or [None] * len(found), found, strict=True)
        ]
    return best


def _first_centers(
    X: RowSource, groups, problems: list[KMeansProblem], init: str, rngs
) -> list[Centers]:
    """Return where each group begins; random rows of all groups are read at once."""
    each = list(zip(problems, groups, rngs, strict=True))
    if init != "random":
        return [first_centers(p, init, len(own), X, rng) for p, own, rng in each]
    chosen = [own[_random_rows(p, len(own), rng)] for p, own, rng in each]
    metric, edges = problems[0].metric, np.cumsum([len(some) for some in chosen])
    rows = prepare_rows(dense_rows(X, np.concatenate(chosen)), metric)
    return [make_centers(own, metric) for own in np.split(rows, edges[:-1])]


def _random_rows(problem: KMeansProblem, n: int, rng) -> np.ndarray:
    """Return the numbers of random rows, of n, one for each centre."""
    weight = None if problem.weight is None else to_numpy(problem.weight)
    return random_seeds(n, problem.n_clusters, weight, rng)


def _in_step(
    X: RowSource, steps: dict[int | None, Steps], metric: str, callback
) -> list[KMeansResult]:
    """Run the steps of all groups: each pass takes all that are still moving."""
    asked: dict[int | None, Centers] = {g: next(own)[0] for g, own in steps.items()}
    results: dict[int | None, KMeansResult] = {}
    while asked:
        for group, found in assign_groups(X, asked, metric).items():
            try:
                asked[group] = steps[group].send(found)[0]
            except StopIteration as end:
                results[group] = end.value
                del asked[group]
        if callback is not None:
            callback(len(results))
    return [results[group] for group in steps]
