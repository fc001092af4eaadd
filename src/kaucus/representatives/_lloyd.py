"""k-means by Lloyd's iteration, in the cosine or the euclidean geometry.

The steps of Andrecut (2020), Sec. 5:

    3-4   each row goes to the centre of the largest score          (eq. 23-24)
    5-6   each centre becomes the mean of its rows, normalised      (eq. 25-26)
    7     δ = 1 − mean⟨new, old⟩                                     (eq. 27)
    8-9   again until δ ≤ tol

and what the paper is silent on: a centre that has lost all its rows takes the row that
is worst represented. A cluster that neither won nor lost rows has the mean it had; the
sums of the others change by the rows that they won and lost.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    RowSource,
    array_namespace,
    as_like,
    astype,
    count_labels,
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
    ClusterSums,
    cluster_weights,
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
from kaucus.representatives._parts import (
    Members,
    PartAssigner,
    PartAssignment,
    spreads,
    with_groups,
)
from kaucus.representatives._seeding import (
    clearly_less,
    kmeans_plus_plus,
    random_seeds,
    reseed_empty,
)
from kaucus.representatives._streamed import StreamedAssigner


class KMeansResult(NamedTuple):
    """Outcome of k-means."""

    centers: Array
    """(k, d), of unit norm in the cosine geometry."""
    labels: Array | None
    """Which of these centres is best for each row, (n,); None for a row source."""
    inertia: float
    """Σ w (1 − ⟨x, c⟩) or Σ w ‖x − c‖²."""
    n_iter: int
    converged: bool
    n_reseeded: int
    """How often a centre without rows was given a new one."""
    weights: np.ndarray
    """Total weight of the rows of each cluster, (k,)."""
    mean_norms: np.ndarray | None
    """Mean norm of the rows of each cluster as they were given, (k,), weighted; None in
    the euclidean geometry."""


class KMeansProblem(NamedTuple):
    """What does not change from step to step."""

    n_clusters: int
    weight: Array | None
    """None: every row counts as one."""
    metric: str
    squared: Array | None
    """‖x‖² in the euclidean geometry."""
    can_seed: Array | None
    """Rows that may become a centre; None: all."""
    scale: float
    assigner: Assigner | StreamedAssigner | PartAssigner


class _State(NamedTuple):
    """Between two steps: where the centres are, and whose rows they have."""

    centers: Centers
    assignment: Assignment | PartAssignment
    sums: ClusterSums | None = None
    """Of which the centres are the means; None: of no rows."""


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
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        Rows of the host go to their device once in every step, those of a source are
        read once; ``"k-means++"`` chooses first centres among a random part of either
        where there are very many.
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
    problem, norms = _pose(X, n_clusters, metric, sample_weight, memory_budget)

    def start(start_rng: np.random.Generator) -> KMeansResult:
        first = first_centers(problem, init, X.shape[0], X, start_rng)
        steps = lloyd_steps(problem, first, max_iter, tol, norms, callback)
        return run_steps(steps, problem.assigner.assign)

    return best_of_starts(start, rng.spawn(n_init))


def best_of_starts(
    start: Callable[[np.random.Generator], Any], generators: list[np.random.Generator]
) -> Any:
    """Return the first result of least inertia."""
    best = None
    for rng in generators:
        result = start(rng)
        if best is None or clearly_less(result.inertia, best.inertia):
            best = result
    return best


def _pose(X, n_clusters: int, metric: str, sample_weight, memory_budget):
    """Return the problem, and ‖x‖² of the rows as they were given."""
    weight = None if sample_weight is None else astype(sample_weight, "float64")
    budget = resolve_budget(memory_budget, X)
    if isinstance(X, RowSource):
        weight = None if weight is None else to_numpy(weight)
        assigner = PartAssigner(
            with_groups(X, None, weight), n_clusters, metric, weight
        )
        scale = 1.0 if metric == "cosine" else spreads(X, None)[None]
        problem = KMeansProblem(n_clusters, weight, metric, None, None, scale, assigner)
        return problem, None
    if isinstance(X, HostRows):
        weight = None if weight is None else to_numpy(weight)
        assigner = StreamedAssigner(X, n_clusters, budget, metric, weight)
        norms, scale = assigner.norms_and_spread()
    else:
        norms = squared_norms(X)
        rows = prepare_rows(X, metric, norms)
        assigner = Assigner(rows, n_clusters, budget, weight=weight)
        scale = 1.0 if metric == "cosine" else _spread(rows, norms)
    squared = norms if metric == "euclidean" else None
    # A row without direction cannot be a centre on the sphere.
    can_seed = norms >= 0 if metric == "euclidean" else norms > 0
    if weight is not None:
        can_seed = can_seed & (weight > 0)
    can_seed = None if bool(array_namespace(norms).all(can_seed)) else can_seed
    problem = KMeansProblem(
        n_clusters, weight, metric, squared, can_seed, scale, assigner
    )
    return problem, norms


def first_centers(problem: KMeansProblem, init, n: int, like: Array, rng) -> Centers:
    """Return where to begin, of n rows: given centres, or some of the rows."""
    assigner, metric, k = problem.assigner, problem.metric, problem.n_clusters
    if not isinstance(init, str):
        return make_centers(prepare_rows(as_like(init, like), metric), metric)
    weight = np.ones(n) if problem.weight is None else to_numpy(problem.weight)
    if init == "random":
        return make_centers(assigner.take(random_seeds(n, k, weight, rng)), metric)
    part, rows = assigner.rows_to_seed(weight, rng)
    some = kmeans_plus_plus(rows, k, metric=metric, weight=weight[part], rng=rng)
    return make_centers(assigner.take(part[some]), metric)


Steps = Generator[tuple[Centers, Array | None], Any, KMeansResult]
"""Yields centres, and which of them moved (None: all); is sent the assignment of the
rows to them; returns the result."""


def run_steps(steps: Steps, assign: Callable[..., Any]) -> KMeansResult:
    """Return the result of steps whose rows are assigned by a function."""
    try:
        request = next(steps)
        while True:
            request = steps.send(assign(*request))
    except StopIteration as end:
        return end.value


def lloyd_steps(
    problem: KMeansProblem, centers: Centers, max_iter: int, tol: float, norms, callback
) -> Steps:
    """Iterate from given centres."""
    state = _State(centers, (yield centers, None))
    n_iter, n_reseeded, converged = 0, 0, False
    while n_iter < max_iter and not converged:
        new = _moved_centers(problem, state)
        assignment = yield new.centers, new.moved
        state = _State(new.centers, assignment, new.sums)
        n_iter, n_reseeded = n_iter + 1, n_reseeded + new.n_reseeded
        converged = new.deviation <= tol
        if callback is not None and callback(n_iter, new.deviation):
            break
    return KMeansResult(
        state.centers.values,
        n_iter=n_iter,
        converged=converged,
        n_reseeded=n_reseeded,
        **_outcome(problem, state, norms),
    )


def _outcome(
    problem: KMeansProblem, state: _State, norms: Array | None
) -> dict[str, Any]:
    """Return labels, inertia, weights and mean norms of the clusters."""
    found, k = state.assignment, problem.n_clusters
    if isinstance(found, PartAssignment):
        labels, inertia, weights = None, found.inertia, found.weights
        norm_sums = found.norms
    else:
        labels, costs = found.labels, _costs(problem, state)
        weighted = costs if problem.weight is None else problem.weight * costs
        inertia = float(array_namespace(costs).sum(weighted))
        weights = to_numpy(cluster_weights(labels, problem.weight, k))
        norm_sums = None
        if problem.metric == "cosine":
            lengths = array_namespace(norms).sqrt(norms)
            weight = lengths if problem.weight is None else problem.weight * lengths
            norm_sums = to_numpy(cluster_weights(labels, weight, k))
    means = None
    if problem.metric == "cosine":
        means = norm_sums / np.where(weights > 0, weights, 1.0)
    return {
        "labels": labels,
        "inertia": inertia,
        "weights": weights,
        "mean_norms": means,
    }


def _costs(problem: KMeansProblem, state: _State) -> Array:
    """Return what each row costs, (n,), in float64."""
    assert not isinstance(problem.assigner, PartAssigner)
    assert isinstance(state.assignment, Assignment)
    scores = problem.assigner.exact_scores(state.assignment, state.centers)
    return costs_from_scores(scores, problem.squared)


class _Moved(NamedTuple):
    """Centres after a step."""

    centers: Centers
    moved: Array
    """The numbers of those that are not where they were."""
    sums: ClusterSums
    n_reseeded: int
    deviation: float


def _moved_centers(problem: KMeansProblem, state: _State) -> _Moved:
    """Move the centres to the means of their rows."""
    k = state.centers.values.shape[0]
    sums, weights, changed, n_reseeded = _members(problem, state)
    weights = as_like(weights, sums.values)
    old = state.centers if changed is None else some_centers(state.centers, changed)
    new = _means(sums.values, weights, old, changed, problem.metric)
    n_new = new.values.shape[0]  # the others did not move
    deviated = n_new and n_new / k * deviation(
        new.values, old.values, problem.metric, problem.scale
    )
    centers, moved = _replace_centers(state.centers, old, new, changed, problem.metric)
    return _Moved(centers, moved, sums, n_reseeded, deviated)


def _members(problem: KMeansProblem, state: _State) -> Members:
    """Return the sums of each cluster; one without rows takes the worst of all."""
    assigner, found = problem.assigner, state.assignment
    if isinstance(assigner, PartAssigner):
        assert isinstance(found, PartAssignment)
        return assigner.members(found, state.centers)
    assert isinstance(found, Assignment)
    k, labels, n_reseeded = problem.n_clusters, found.labels, 0
    weights = cluster_weights(labels, problem.weight, k)
    can_seed = problem.can_seed
    held = weights if can_seed is None else count_labels(labels, k, can_seed)
    if bool(array_namespace(held).any(held == 0)):
        costs = _costs(problem, state)
        labels, n_reseeded = reseed_empty(labels, costs, can_seed, k)
        weights = cluster_weights(labels, problem.weight, k)
    sums, changed = assigner.sum_again(labels, state.sums)
    return Members(sums, weights, changed, n_reseeded)


def _means(sums: Array, weights: Array, old: Centers, changed, metric) -> Centers:
    """Return the means of the changed clusters; without rows, where they were."""
    if changed is not None:
        sums, weights = take_rows(sums, changed), take_rows(weights, changed)
    return centers_from_sums(sums, weights, old, metric)


def _replace_centers(
    centers: Centers, old: Centers, new: Centers, changed, metric: str
) -> tuple[Centers, Array]:
    """Return all centres, with the new ones put in, and the numbers of those moved."""
    xp = array_namespace(new.values)
    if changed is None:
        (moved,) = xp.nonzero(xp.any(new.values != old.values, axis=1))
        return new, moved
    values = xp.asarray(centers.values, copy=True)
    set_columns(values.T, changed, new.values.T)
    return make_centers(values, metric), changed


def _spread(rows: Array, squared: Array) -> float:
    """Return the mean squared distance of the rows from their mean (euclidean)."""
    xp = array_namespace(squared)
    mean = rows.mean(axis=0) if is_sparse(rows) else xp.mean(rows, axis=0)
    mean = astype(xp.reshape(xp.asarray(mean), (-1,)), "float64")
    return float(xp.mean(squared)) - float(xp.sum(mean**2))
