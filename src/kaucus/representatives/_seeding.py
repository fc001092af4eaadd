"""Where k-means begins: random rows, or rows far from each other.

Reference: D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding"
(SODA 2007); of several candidates the best is taken, as their Sec. 7 suggests.
"""

from collections.abc import Callable

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    as_like,
    device_of,
    draw_some,
    is_sparse,
    take_rows,
    to_numpy,
)
from kaucus.kernels import inner_products, squared_norms
from kaucus.representatives._geometry import costs_from_scores, make_centers

# Two starts that end in the same clusters differ by the rounding of sums over rows, and
# that differs from one processor, or number of threads, to another.
_ROUNDING = 1e-6
# Rows among which k-means++ chooses where they are read in blocks, for each centre and
# in all: it looks at every row once for every centre, and would read all as often.
_SEED_ROWS, _LEAST_SEED_ROWS = 20, 20_000


def clearly_less(inertia: float, best: float) -> bool:
    """Tell whether an inertia is less than the best so far by more than rounding.

    So the first of equal starts is kept on every machine.

    >>> clearly_less(0.9, 1.0), clearly_less(1.0 - 1e-12, 1.0)
    (True, False)
    """
    return inertia < best - _ROUNDING * abs(best)


def random_seeds(
    n_rows: int, n_clusters: int, weight: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Choose different rows of positive weight, each as likely as any other.

    (Andrecut 2020, Sec. 5, step 2.) Where there are too few of them, others follow.
    A weight of None is one of 1 for each row.
    """
    if weight is None or np.all(weight > 0):
        return draw_some(rng, n_rows, n_clusters)
    order = rng.permutation(n_rows)
    return order[np.argsort(weight[order] <= 0, kind="stable")][:n_clusters]


def rows_to_seed(
    n_rows: int,
    n_clusters: int,
    weight: np.ndarray,
    rng: np.random.Generator,
    most: int | None = None,
) -> np.ndarray:
    """Return the numbers of the rows among which k-means++ chooses, ascending.

    All of them, or a random part where there are very many, or more than ``most``.
    """
    n_seeds = max(_SEED_ROWS * n_clusters, _LEAST_SEED_ROWS)
    if most is not None:
        n_seeds = min(n_seeds, max(most, n_clusters))
    if n_seeds >= n_rows:
        return np.arange(n_rows)
    return np.sort(random_seeds(n_rows, n_seeds, weight, rng))


def spare_rows(
    n_wanted: int, counts: np.ndarray, labels: np.ndarray, losses: np.ndarray
) -> np.ndarray:
    """Return the rows of the largest losses that their clusters can spare.

    At most ``n_wanted``; not rows that lose nothing, and of each cluster all but one of
    its ``counts`` rows at most.
    """
    left, rows = counts.copy(), []
    for row in np.argsort(-losses, kind="stable"):
        if len(rows) == n_wanted or losses[row] <= 0:
            break
        if left[labels[row]] > 1:
            left[labels[row]] -= 1
            rows.append(int(row))
    return np.array(rows, dtype=np.int64)


def reseed_empty(
    labels: Array, costs: Array, can_seed: Array | None, n_clusters: int
) -> tuple[Array, int]:
    """Give each cluster without rows the worst represented row that can be spared.

    Rows that cost nothing, cannot seed, or are alone in their cluster are not taken;
    ``can_seed`` is None where all can.

    Returns
    -------
    labels, n_reseeded
    """
    xp = array_namespace(labels)
    n = labels.shape[0]
    usable = np.ones(n, dtype=bool) if can_seed is None else to_numpy(can_seed)
    counts = np.bincount(to_numpy(labels), usable, minlength=n_clusters)
    empty = np.flatnonzero(counts == 0)
    if not empty.size:
        return labels, 0
    new = np.array(to_numpy(labels))
    rows = spare_rows(len(empty), counts, new, to_numpy(costs) * usable)
    new[rows] = empty[: len(rows)]
    return xp.asarray(new, device=device_of(labels)), len(rows)


def kmeans_plus_plus(
    X: Array,
    n_clusters: int,
    *,
    metric: str,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose rows one after the other, those far from the chosen ones more likely.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Rows as :func:`prepare_rows` gives them.
    n_clusters : int
    metric : {"cosine", "euclidean"}
    weight : ndarray of shape (n,)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_clusters,)
        Row numbers.

    Notes
    -----
    With 2 + log k candidates a step, n k d (2 + log k) multiplications.
    """
    squared = squared_norms(X) if metric == "euclidean" else None
    return seeds_by_cost(
        lambda rows: _costs(X, rows, squared, metric), n_clusters, weight, rng
    )


def seeds_by_cost(
    costs_with: Callable[[np.ndarray], np.ndarray],
    n_clusters: int,
    weight: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose rows as k-means++ does, whatever the geometry.

    Parameters
    ----------
    costs_with : callable
        ``costs_with(rows)`` returns what every row costs with each of these rows as its
        centre, (n, m).
    n_clusters : int
    weight : ndarray of shape (n,)
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_clusters,)
        Row numbers.
    """
    n_rows, n_candidates = len(weight), 2 + int(np.log(n_clusters))
    chosen = [int(rng.choice(n_rows, p=weight / weight.sum()))]
    costs = costs_with(np.array(chosen))[:, 0]
    while len(chosen) < n_clusters:
        likely = np.cumsum(weight * costs)
        if likely[-1] <= 0:  # every row is a centre already: any other will do
            rest = np.setdiff1d(np.arange(n_rows), chosen)
            chosen += rng.permutation(rest)[: n_clusters - len(chosen)].tolist()
            break
        draws = rng.uniform(size=n_candidates) * likely[-1]
        candidates = np.minimum(np.searchsorted(likely, draws), n_rows - 1)
        new = np.minimum(costs[:, None], costs_with(candidates))
        best = int(np.argmin(weight @ new))
        chosen.append(int(candidates[best]))
        costs = new[:, best]
        costs[chosen] = 0.0  # up to rounding it is; no row is drawn twice
    return np.array(chosen)


def _costs(X: Array, rows: np.ndarray, squared, metric: str) -> np.ndarray:
    """Return the costs of all rows with the given rows as centres, (n, m)."""
    like = X if is_sparse(X) else array_namespace(X).reshape(X[:1, :], (-1,))
    index = rows if is_sparse(like) else as_like(rows, like)
    centers = make_centers(take_rows(X, index), metric)
    scores = inner_products(X, centers.values)
    if centers.offsets is not None:
        scores += centers.offsets[None, :]
    column = None if squared is None else squared[:, None]
    return to_numpy(costs_from_scores(scores, column))
