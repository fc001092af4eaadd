"""The two geometries of k-means, written so that one loop serves both.

A row x belongs to the centre c of the largest score

    cosine      ⟨x, c⟩              for rows and centres of unit norm
    euclidean   ⟨x, c⟩ − ‖c‖²/2     which is (‖x‖² − ‖x − c‖²) / 2

so that either assignment is one matrix product and one arg max. A centre is the mean
of its rows, scaled to unit norm in the cosine geometry (Andrecut 2020, eq. 25-26).

What a row costs is 1 − ⟨x, c⟩ (cosine) or ‖x − c‖² (euclidean).
"""

from typing import NamedTuple

from kaucus.backend import Array, array_namespace, astype, dtype_name, epsilon
from kaucus.kernels import squared_norms, unit_rows

METRICS = ("cosine", "euclidean")


class Centers(NamedTuple):
    """Centres with what the scores need."""

    values: Array
    """(k, d), in the precision of the rows."""
    offsets: Array | None
    """−‖c‖²/2, (k,), or None in the cosine geometry."""


def prepare_rows(X: Array, metric: str, squared: Array | None = None) -> Array:
    """Return the rows as the geometry wants them: of unit norm for "cosine".

    ``X`` itself where nothing is to do. ``squared`` are the squared norms of the rows,
    where they are known.
    """
    if metric != "cosine":
        return X
    norms = squared_norms(X) if squared is None else squared
    xp = array_namespace(norms)
    all_one = bool(xp.all(xp.abs(norms - 1) <= 8 * epsilon(X)))
    return X if all_one else unit_rows(X, norms)


def make_centers(values: Array, metric: str) -> Centers:
    """Complete centres that are unit rows already ("cosine"), or any ("euclidean")."""
    if metric == "cosine":
        return Centers(values, None)
    offsets = astype(-0.5 * squared_norms(values), dtype_name(values))
    return Centers(values, offsets)


def centers_from_sums(
    sums: Array, weights: Array, old: Centers, metric: str
) -> Centers:
    """Return new centres from the weighted sums of their rows.

    Parameters
    ----------
    sums : array of shape (k, d)
        In float64.
    weights : array of shape (k,)
        Total weights; a centre of weight zero stays where it is.
    old : Centers
    metric : {"cosine", "euclidean"}
    """
    xp = array_namespace(sums)
    alive = weights > 0
    if metric == "cosine":
        # Rows that cancel each other have a sum without direction: stay as well.
        squared = squared_norms(sums)
        means, alive = unit_rows(sums, squared), alive & (squared > 0)
    else:
        means = sums / xp.where(alive, weights, xp.ones_like(weights))[:, None]
    means = astype(means, dtype_name(old.values))
    return make_centers(xp.where(alive[:, None], means, old.values), metric)


def costs_from_scores(scores: Array, squared: Array | None) -> Array:
    """Return what rows cost, in float64, from their largest scores.

    ``squared`` is ‖x‖² of the rows in the euclidean geometry, None in the cosine one.
    """
    xp = array_namespace(scores)
    scores = astype(scores, "float64")
    costs = 1 - scores if squared is None else squared - 2 * scores
    return xp.maximum(costs, xp.zeros_like(costs))


def deviation(new: Array, old: Array, metric: str, scale: float) -> float:
    """Return how far the centres moved; the iteration stops below ``tol``.

    cosine: the alignment deviation δ = 1 − mean⟨new, old⟩ (Andrecut 2020, eq. 27), for
    unit rows the same as mean ‖new − old‖²/2, which keeps its digits;
    euclidean: mean ‖new − old‖² over ``scale``, the mean squared distance of the rows
    from their mean.
    """
    xp = array_namespace(new)
    new, old = astype(new, "float64"), astype(old, "float64")
    moved = float(xp.mean(xp.sum((new - old) ** 2, axis=1)))
    return moved / 2 if metric == "cosine" else moved / max(scale, 1e-300)
