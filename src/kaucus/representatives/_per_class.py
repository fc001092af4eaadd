"""A few representatives for each class: k-means within the classes.

Each class is clustered by itself (Andrecut 2020, Sec. 5), and its centres stand for
it. What the paper is silent on: a class with no more rows than representatives gives
all of them, and a centre that stands for no row is left out.

Representatives carry the weight of the rows that they stand for. So new rows can join
later: they are clustered together with the old representatives, which count as so many
rows, from where the old representatives are.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    RowSource,
    array_namespace,
    as_like,
    astype,
    concat_rows,
    dense_rows,
    dtype_name,
    format_bytes,
    is_sparse,
    itemsize,
    n_workers,
    on_device_if_it_fits,
    one_blas_thread,
    resolve_budget,
    rows_in_order,
    take_rows,
    to_numpy,
)
from kaucus.representatives._assign import Assigner
from kaucus.representatives._geometry import make_centers, prepare_rows
from kaucus.representatives._groups import kmeans_of_groups
from kaucus.representatives._lloyd import KMeansResult, kmeans

# Numbers of float64 for each row of a class: weights, norms, costs, labels.
_VECTORS = 6
# Budgets below this are too small to be kept.
_LEAST_CHECKED = 2**20


class Representatives(NamedTuple):
    """Points that stand for classes of rows."""

    points: Array
    """(m, d), dense, class by class."""
    labels: np.ndarray
    """The number of the class of each, (m,)."""
    weights: np.ndarray
    """Total weight of the rows each stands for, (m,)."""
    n_iter: int
    """Most steps that a class needed."""
    n_reseeded: int
    converged: bool


class _OneClass(NamedTuple):
    points: Array
    weights: np.ndarray
    n_iter: int = 0
    n_reseeded: int = 0
    converged: bool = True


class _Job(NamedTuple):
    """The rows of one class, and how many are to stand for them."""

    rows: np.ndarray
    n_representatives: int


class KMeansOptions(NamedTuple):
    """How each class is clustered, as :func:`kmeans` takes it."""

    metric: str = "euclidean"
    init: str = "random"
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-6


def represent_classes(
    X: Array,
    labels: np.ndarray,
    n_representatives: Sequence[int],
    *,
    options: KMeansOptions,
    sample_weight: np.ndarray | None = None,
    old: Representatives | None = None,
    rng: np.random.Generator,
    memory_budget: int | str | None = None,
    callback: Callable[[int, int], object] | None = None,
) -> Representatives:
    """Choose representatives of every class.

    Parameters
    ----------
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        Of rows of the host each class goes to the device as a whole, or block by block
        in every step where it does not fit there. A source is read once in every step,
        for all classes.
    labels : integer array of shape (n,)
        The number of each row's class.
    n_representatives : sequence of int
        How many each class is to have at most.
    options : KMeansOptions
    sample_weight : array of shape (n,), default=None
        Rows of weight zero are passed over.
    old : Representatives, default=None
        Of earlier rows. They move to where the new rows draw them; a class that has
        fewer than its number gets more, and in one that has more some become one. Not
        for a source.
    rng : numpy.random.Generator
    memory_budget : int, str or None, default=None
    callback : callable, default=None
        ``callback(n_done, n_classes)`` after each class.

    Notes
    -----
    Classes are clustered in parallel where none of them is more than a thread's share
    of the work; else one by one, with all threads on each. The result is the same.
    Ctrl-C is raised after the current step: centres alone are no model.
    """
    budget = resolve_budget(memory_budget, X)
    weight = np.ones(len(labels)) if sample_weight is None else sample_weight
    jobs = [
        _Job(np.flatnonzero((labels == c) & (weight > 0)), k)
        for c, k in enumerate(n_representatives)
    ]
    rngs = rng.spawn(len(jobs))
    if isinstance(X, RowSource):
        return _join(_represent_parts(X, jobs, sample_weight, options, rngs, callback))
    copies, workers = 0, 1
    if not isinstance(X, HostRows):
        copies = _bytes_of_copies(jobs, X, old, options.metric)
        _check_memory(copies, budget)
        workers = _parallel_classes(jobs, n_workers(X))
        if workers * copies > budget // 2:  # each at work has copies of its own
            workers = 1
    stop, n_done = threading.Event(), 0

    def represent(c: int) -> _OneClass:
        nonlocal n_done
        rows, w = _class_rows(X, weight, jobs[c].rows, old, c)
        result = _represent(
            on_device_if_it_fits(rows, budget),
            w,
            jobs[c].n_representatives,
            n_old=0 if old is None else int(np.sum(old.labels == c)),
            options=options,
            rng=rngs[c],
            budget=max(budget // workers - copies, 1),
            stop=stop,
        )
        n_done += 1
        if callback is not None:
            callback(n_done, len(jobs))
        return result

    if workers > 1:
        return _join(_in_threads(represent, len(jobs), workers, stop))
    return _join([represent(c) for c in range(len(jobs))])


def with_rows(
    chosen: Representatives, points: Array, labels: np.ndarray, weights: np.ndarray
) -> Representatives:
    """Return the representatives and, after them, rows that stand for themselves.

    What the others of their class stand for becomes less by as much.
    """
    n_classes = int(max(chosen.labels.max(), labels.max(initial=0))) + 1
    total = np.bincount(chosen.labels, weights=chosen.weights, minlength=n_classes)
    own = np.bincount(labels, weights=weights, minlength=n_classes)
    share = np.maximum(1 - own / np.where(total > 0, total, 1.0), 0.0)
    return chosen._replace(
        points=concat_rows(chosen.points, points),
        labels=np.concatenate([chosen.labels, labels]),
        weights=np.concatenate([chosen.weights * share[chosen.labels], weights]),
    )


def speak_for(
    chosen: Representatives,
    X: Array,
    labels: np.ndarray,
    sample_weight: np.ndarray | None,
    *,
    metric: str,
    memory_budget: int | str | None = None,
) -> Representatives:
    """Return the representatives with the weight of more rows, staying where they are.

    Each row counts for the nearest representative of its class.

    Parameters
    ----------
    chosen : Representatives
        Of every class that is among ``labels``.
    X : array or CSR matrix of shape (n, d)
    labels : integer array of shape (n,)
    sample_weight : array of shape (n,) or None
    metric : {"euclidean", "cosine"}
    memory_budget : int, str or None, default=None
    """
    weights, budget = chosen.weights.copy(), resolve_budget(memory_budget, X)
    for c in np.unique(labels):
        own, members = np.flatnonzero(chosen.labels == c), np.flatnonzero(labels == c)
        rows = prepare_rows(take_rows(X, members), metric)
        points = take_rows(chosen.points, own)
        centers = make_centers(prepare_rows(points, metric), metric)
        nearest = Assigner(rows, len(own), budget, n_rows=0).assign(centers).labels
        w = None if sample_weight is None else sample_weight[members]
        weights[own] += np.bincount(to_numpy(nearest), w, minlength=len(own))
    return chosen._replace(weights=weights)


def _bytes_of_copies(jobs: list[_Job], X: Array, old, metric: str) -> int:
    """Return what the rows of the largest class take: copied, on the sphere twice."""
    n = max(len(job.rows) for job in jobs)
    n += 0 if old is None else int(np.bincount(old.labels).max(initial=0))
    share = X.nnz / max(X.shape[0] * X.shape[1], 1) * 2 if is_sparse(X) else 1.0
    row = share * itemsize(X) * X.shape[1] * (2 if metric == "cosine" else 1)
    return int(n * (row + _VECTORS * 8))


def _check_memory(copies: int, budget: int) -> None:
    if copies > budget and budget >= _LEAST_CHECKED:
        raise MemoryError(
            f"k-means of the largest class copies its rows, {format_bytes(copies)}; "
            f"memory_budget allows {format_bytes(budget)}. Pass a larger one, float32 "
            "rows, or fewer of them."
        )


def _parallel_classes(jobs: list[_Job], workers: int) -> int:
    """Return how many classes to cluster at a time."""
    work = [len(job.rows) * job.n_representatives for job in jobs]
    balanced = max(work) * workers <= 1.25 * sum(work)
    return min(workers, len(jobs)) if balanced else 1


def _in_threads(function, n_classes: int, workers: int, stop: threading.Event):
    """Call a function on every class; an interrupt lets those begun end early."""
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(function, c) for c in range(n_classes)]
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _class_rows(X, weight: np.ndarray, rows: np.ndarray, old, c: int):
    """Return the rows of a class, after its old representatives, and their weights."""
    new = rows_in_order(X, rows)
    if old is None or not np.any(old.labels == c):
        return new, weight[rows]
    which = np.flatnonzero(old.labels == c)
    points = astype(take_rows(old.points, which), dtype_name(X))
    return concat_rows(points, new), np.concatenate([old.weights[which], weight[rows]])


def _represent(
    rows: Array,
    weight: np.ndarray,
    k: int,
    *,
    n_old: int,
    options: KMeansOptions,
    rng: np.random.Generator,
    budget: int,
    stop: threading.Event,
) -> _OneClass:
    """Return at most k points for rows; the first ``n_old`` are the old points."""
    n = rows.shape[0]
    if n <= k:
        every = np.arange(n)
        streamed = is_sparse(rows) or isinstance(rows, HostRows)
        return _OneClass(dense_rows(rows, every) if streamed else rows, weight)
    like = dense_rows(rows, np.arange(1))

    def leave_if_stopped(step: int, moved: float) -> None:
        if stop.is_set():
            raise KeyboardInterrupt  # which came in another thread

    init = options.init if n_old == 0 else _grown_seeds(rows, n_old, k, rng)
    result = kmeans(
        rows,
        k,
        metric=options.metric,
        init=init,
        n_init=options.n_init if n_old == 0 else 1,
        max_iter=options.max_iter,
        tol=options.tol,
        # Rows that all count as one are counted, not weighed.
        sample_weight=None if np.all(weight == 1) else as_like(weight, like),
        rng=rng,
        memory_budget=budget,
        callback=leave_if_stopped,
    )
    points, weights = _with_norms(result)
    return _OneClass(
        points,
        weights,
        result.n_iter,
        result.n_reseeded,
        result.converged,
    )


def _represent_parts(
    X: RowSource, jobs: list[_Job], weight, options: KMeansOptions, rngs, callback
) -> list[_OneClass]:
    """Return points for the classes of rows that are read part by part."""
    unit = weight is None or bool(np.all(weight == 1))
    many = [c for c, job in enumerate(jobs) if len(job.rows) > job.n_representatives]
    n_few = len(jobs) - len(many)
    results = kmeans_of_groups(
        X,
        [jobs[c].rows for c in many],
        [jobs[c].n_representatives for c in many],
        **options._asdict(),
        sample_weight=None if unit else weight,
        rngs=[rngs[c] for c in many],
        callback=callback and (lambda n_done: callback(n_few + n_done, len(jobs))),
    )
    found = {
        c: _OneClass(*_with_norms(r), r.n_iter, r.n_reseeded, r.converged)
        for c, r in zip(many, results, strict=True)
    }
    for c in sorted(set(range(len(jobs))) - set(many)):
        rows = jobs[c].rows
        own = np.ones(len(rows)) if weight is None else weight[rows]
        found[c] = _OneClass(dense_rows(X, rows), own)
    return [found[c] for c in range(len(jobs))]


def _grown_seeds(rows: Array, n_old: int, k: int, rng: np.random.Generator) -> Array:
    """Return the old representatives and, where there is room, random new rows."""
    n_new = max(k - n_old, 0)
    chosen = n_old + rng.permutation(rows.shape[0] - n_old)[:n_new]
    which = np.concatenate([np.arange(min(n_old, k)), chosen])
    return dense_rows(rows, which)


def _with_norms(result: KMeansResult) -> tuple[Array, np.ndarray]:
    """Return the centres that have rows, as long as these are, and their weights.

    Centres on the sphere are directions. A representative has the mean norm of its
    rows, which is 1 for unit rows as in the paper.
    """
    points, norms = result.centers, result.mean_norms
    if norms is not None:
        points = points * as_like(norms, points, dtype=dtype_name(points))[:, None]
    alive = np.flatnonzero(result.weights > 0)
    return take_rows(points, alive), result.weights[alive]


def _join(parts: list[_OneClass]) -> Representatives:
    xp = array_namespace(*(part.points for part in parts))
    sizes = [part.points.shape[0] for part in parts]
    return Representatives(
        xp.concat([part.points for part in parts], axis=0),
        np.repeat(np.arange(len(parts)), sizes),
        np.concatenate([part.weights for part in parts]),
        max(part.n_iter for part in parts),
        sum(part.n_reseeded for part in parts),
        all(part.converged for part in parts),
    )
