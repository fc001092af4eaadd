"""k-means by Lloyd's iteration, in the cosine or the euclidean geometry.

The steps of Andrecut (2020), Sec. 5:

    3-4   each row goes to the centre of the largest score          (eq. 23-24)
    5-6   each centre becomes the mean of its rows, normalised      (eq. 25-26)
    7     δ = 1 − mean⟨new, old⟩                                     (eq. 27)
    8-9   again until δ ≤ tol

and what the paper is silent on: a centre that has lost all its rows takes the row that
is worst represented. A cluster that neither won nor lost rows has the mean it had, so
only the others are summed again.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    astype,
    device_of,
    is_sparse,
    resolve_budget,
    set_columns,
    take_rows,
    to_numpy,
)
from kaucus.kernels import squared_norms
from kaucus.representatives._assign import (
    Assigner,
    Assignment,
    cluster_sums,
    some_centers,
)
from kaucus.representatives._geometry import (
    Centers,
    centers_from_sums,
    costs_from_scores,
    deviation,
    make_centers,
    prepare_rows,
)
from kaucus.representatives._seeding import kmeans_plus_plus, random_seeds


class KMeansResult(NamedTuple):
    """Outcome of k-means."""

    centers: Array
    """(k, d), of unit norm in the cosine geometry."""
    labels: Array
    """Which of these centres is best for each row, (n,)."""
    inertia: float
    """Σ w (1 − ⟨x, c⟩) or Σ w ‖x − c‖²."""
    n_iter: int
    converged: bool
    n_reseeded: int
    """How often a centre without rows was given a new one."""
    interrupted: bool


class _State(NamedTuple):
    """Between two steps: where the centres are, and whose rows they have."""

    centers: Centers
    assignment: Assignment
    made_from: Array | None
    """The labels of whose rows the centres are the means; None: of none."""


def kmeans(
    X: Array,
    n_clusters: int,
    *,
    metric: str = "cosine",
    init: str | Array = "k-means++",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-6,
    sample_weight: Array | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> KMeansResult:
    """Find ``n_clusters`` centres that stand for the rows of ``X``.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    n_clusters : int
        At most n.
    metric : {"cosine", "euclidean"}, default="cosine"
        With "cosine" the rows are scaled to unit norm first.
    init : {"k-means++", "random"} or array of shape (k, d), default="k-means++"
    n_init : int, default=1
        Starts, of which the one of least inertia is kept.
    max_iter : int, default=300
    tol : float, default=1e-6
        Stop when the centres deviate from the last ones by no more (see
        :func:`deviation`).
    sample_weight : array of shape (n,), default=None
    rng : numpy.random.Generator
    memory_budget : int, str or None, default=None
        Scores are kept between steps where n k of them fit into it.
    callback : callable, default=None
        ``callback(step, deviation)`` after each step; a true result ends the start.

    Returns
    -------
    KMeansResult

    Notes
    -----
    At most n k d multiplications a step; fewer as centres come to rest.
    """
    rows = prepare_rows(X, metric)
    like = X[:1].toarray() if is_sparse(X) else X
    xp = array_namespace(like)
    weight = (
        xp.ones(X.shape[0], dtype=xp.float64, device=device_of(like))
        if sample_weight is None
        else astype(sample_weight, "float64")
    )
    assigner = Assigner(rows, n_clusters, resolve_budget(memory_budget, like))
    best: KMeansResult | None = None
    for start_rng in rng.spawn(n_init):
        first = _first_centers(rows, n_clusters, init, metric, weight, start_rng)
        result = _lloyd(rows, first, assigner, metric, weight, max_iter, tol, callback)
        if best is None or result.inertia < best.inertia:
            best = result
        if result.interrupted:
            break
    assert best is not None
    return best


def _first_centers(rows, n_clusters: int, init, metric: str, weight, rng) -> Centers:
    if not isinstance(init, str):
        return make_centers(prepare_rows(init, metric), metric)
    w = to_numpy(weight)
    if init == "random":
        chosen = random_seeds(rows.shape[0], n_clusters, w, rng)
    else:
        chosen = kmeans_plus_plus(rows, n_clusters, metric=metric, weight=w, rng=rng)
    if is_sparse(rows):
        return make_centers(take_rows(rows, chosen).toarray(), metric)
    return make_centers(take_rows(rows, as_like(chosen, weight)), metric)


def _lloyd(
    rows, centers: Centers, assigner: Assigner, metric, weight, max_iter, tol, callback
) -> KMeansResult:
    """Iterate from given centres."""
    norms = squared_norms(rows)
    squared = norms if metric == "euclidean" else None
    scale = _spread(rows, squared)
    # A row without direction cannot be a centre on the sphere.
    can_seed = weight > 0 if metric == "euclidean" else (weight > 0) & (norms > 0)
    state = _State(centers, assigner.assign(centers), None)
    n_iter, n_reseeded, converged, interrupted = 0, 0, False, False
    while n_iter < max_iter and not converged:
        try:
            new, reseeded, moved = _step(
                rows, state, assigner, metric, weight, squared, can_seed, scale
            )
        except KeyboardInterrupt:
            interrupted = True
            break
        n_iter += 1
        n_reseeded += reseeded
        state, converged = new, moved <= tol
        if callback is not None and callback(n_iter, moved):
            break
    costs = costs_from_scores(state.assignment.scores, squared)
    inertia = float(array_namespace(costs).sum(weight * costs))
    return KMeansResult(
        state.centers.values,
        state.assignment.labels,
        inertia,
        n_iter,
        converged,
        n_reseeded,
        interrupted,
    )


def _step(
    rows, state: _State, assigner: Assigner, metric, weight, squared, can_seed, scale
):
    """Move the centres to the means of their rows, and assign the rows again."""
    k = state.centers.values.shape[0]
    costs = costs_from_scores(state.assignment.scores, squared)
    labels, n_reseeded = reseed_empty(state.assignment.labels, costs, can_seed, k)
    changed = _changed_clusters(labels, state.made_from, k)
    old = state.centers if changed is None else some_centers(state.centers, changed)
    new = _means(rows, labels, weight, old, changed, metric)
    n_new = new.values.shape[0]  # the others did not move
    deviated = n_new and n_new / k * deviation(new.values, old.values, metric, scale)
    centers, moved = _replace_centers(state.centers, old, new, changed, metric)
    assignment = assigner.assign(centers, moved)
    return _State(centers, assignment, labels), n_reseeded, deviated


def _changed_clusters(labels: Array, before: Array | None, k: int) -> Array | None:
    """Return the clusters that won or lost rows; None where most did."""
    if before is None:
        return None
    xp = array_namespace(labels)
    (rows,) = xp.nonzero(labels != before)
    both = xp.concat([xp.take(labels, rows), xp.take(before, rows)])
    changed = xp.unique_values(both)
    return changed if 2 * changed.shape[0] <= k else None


def _means(rows, labels, weight, old: Centers, changed, metric: str) -> Centers:
    """Return the means of the changed clusters, from their own rows alone."""
    if changed is not None:
        if changed.shape[0] == 0:
            return old
        xp = array_namespace(labels)
        place = xp.searchsorted(changed, labels)
        last = xp.full_like(place, changed.shape[0] - 1)
        nearest = xp.take(changed, xp.minimum(place, last))
        (some,) = xp.nonzero(nearest == labels)
        rows, weight = take_rows(rows, some), xp.take(weight, some)
        labels = xp.take(place, some)
    sums, weights = cluster_sums(rows, labels, weight, old.values.shape[0])
    return centers_from_sums(sums, weights, old, metric)


def _replace_centers(
    centers: Centers, old: Centers, new: Centers, changed, metric: str
) -> tuple[Centers, Array]:
    """Return all centres, with the new ones put in, and the numbers of those moved."""
    xp = array_namespace(new.values)
    (moved,) = xp.nonzero(xp.any(new.values != old.values, axis=1))
    if changed is None:
        return new, moved
    values = xp.asarray(centers.values, copy=True)
    set_columns(values.T, changed, new.values.T)
    return make_centers(values, metric), xp.take(changed, moved)


def reseed_empty(
    labels: Array, costs: Array, can_seed: Array, n_clusters: int
) -> tuple[Array, int]:
    """Give each cluster without rows the worst represented row that can be spared.

    Rows that cost nothing, cannot seed, or are alone in their cluster are not taken.

    Returns
    -------
    labels, n_reseeded
    """
    xp = array_namespace(labels)
    usable = to_numpy(can_seed)
    counts = np.bincount(to_numpy(labels), usable, minlength=n_clusters)
    empty = np.flatnonzero(counts == 0)
    if not empty.size:
        return labels, 0
    new = np.array(to_numpy(labels))
    loss = to_numpy(costs) * usable
    worst_first = iter(np.argsort(-loss, kind="stable"))
    n_reseeded = 0
    for cluster in empty:
        row = next((r for r in worst_first if counts[new[r]] > 1), None)
        if row is None or loss[row] <= 0:
            break
        counts[new[row]] -= 1
        new[row] = cluster
        n_reseeded += 1
    return xp.asarray(new, device=device_of(labels)), n_reseeded


def _spread(rows: Array, squared: Array | None) -> float:
    """Return the mean squared distance of the rows from their mean (euclidean)."""
    if squared is None:
        return 1.0
    xp = array_namespace(squared)
    mean = rows.mean(axis=0) if is_sparse(rows) else xp.mean(rows, axis=0)
    mean = astype(xp.reshape(xp.asarray(mean), (-1,)), "float64")
    return float(xp.mean(squared)) - float(xp.sum(mean**2))
