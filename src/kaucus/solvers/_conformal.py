"""Prediction intervals and sets from leave-one-out models, or from rows held out.

Jackknife+ at the level 1 − α, with the residuals eᵢ and the models f⁽⁻ⁱ⁾ of n rows: the
interval reaches from the ⌊α(n+1)⌋-th smallest f⁽⁻ⁱ⁾(x) − |eᵢ| to the ⌈(1−α)(n+1)⌉-th
smallest f⁽⁻ⁱ⁾(x) + |eᵢ|. Cross-conformal sets hold the classes j with

    #{i : s(f⁽⁻ⁱ⁾(x), j) > s(f⁽⁻ⁱ⁾(xᵢ), yᵢ)} < (1−α)(n+1),

where the score s is the larger, the less a class conforms. Every row counts as one,
whatever its weight in the fit: new rows are drawn as these were. Rows held out together
(split conformal) have one model: the quantile of their scores is that of n + 1 rows.

References: R. F. Barber et al., "Predictive inference with the jackknife+", Annals of
Statistics 49, 486 (2021); Y. Romano, M. Sesia, E. Candès, "Classification with valid
and adaptive coverage" (NeurIPS 2020); M. Sadinle, J. Lei, L. Wasserman, "Least
ambiguous set-valued classifiers with bounded error levels", JASA 114, 223 (2019).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from kaucus.backend import (
    Array,
    array_namespace,
    is_numpy,
    map_blocks,
    n_workers,
    on_gpu,
    row_blocks,
)
from kaucus.solvers._scores import softmax

# (1−α)(n+1) of a whole number may come out larger by rounding.
_ROUNDING = 1e-9
_STRIP_BYTES = 4 * 2**20


def check_enough_rows(total: int, levels: Sequence[float]) -> None:
    """Raise where an interval of some level would be the whole line."""
    largest = max(levels)
    if largest * (total + 1) > total + _ROUNDING * (total + 1):
        needed = math.ceil(largest / (1 - largest) - _ROUNDING)
        raise ValueError(
            f"confidence_level={largest:g} needs at least {needed} rows to compare "
            f"with, and there are {total}; use a lower level, or more rows."
        )


def conformal_quantiles(values: Array, levels: Sequence[float]) -> list[Array]:
    """Return for each level the smallest value with enough others below it, (b,) each.

    Parameters
    ----------
    values : array of shape (b, n)
    levels : sequence of float
        (level)(n + 1) values are at most the result; infinite where there are not so
        many.
    """
    total = values.shape[1]
    wanted = [level * (total + 1) * (1 - _ROUNDING) for level in levels]
    finite = [one for one in wanted if one <= total]
    found = values_of_rank(values, [max(math.ceil(one), 1) - 1 for one in finite])
    infinite = array_namespace(values).full_like(values[:, 0], float("inf"))
    rest = iter(found)
    return [next(rest) if one <= total else infinite for one in wanted]


def left_out_intervals(
    f: Array,
    influence: Array,
    residuals: Array,
    levels: Sequence[float],
    method: str,
) -> Array:
    """Return intervals by leave-one-out models, (b, 2, n_levels, t).

    Parameters
    ----------
    f : array of shape (b, t)
        Predictions of the model of all rows.
    influence : array of shape (b, n)
        v_i(x), as the leave-one-out models give it.
    residuals : array of shape (n, t)
        Leave-one-out residuals e.
    levels : sequence of float
    method : {"plus", "minmax"}
    """
    xp = array_namespace(f)

    def ends(f: Array, v: Array) -> Array:
        outputs = []
        for j in range(f.shape[1]):
            e = residuals[:, j]
            models = f[:, j : j + 1] - v * e[None, :]  # f⁽⁻ⁱ⁾(x), (b, n)
            pairs = _plus if method == "plus" else _minmax
            ends = [xp.stack(p, axis=1) for p in pairs(models, e, levels)]
            outputs.append(xp.stack(ends, axis=2))
        return xp.stack(outputs, axis=3)

    return _by_strips(ends, f, influence, 4)


def _plus(models: Array, e: Array, levels) -> list[tuple[Array, Array]]:
    size = array_namespace(e).abs(e)[None, :]
    highs = conformal_quantiles(models + size, levels)
    lows = conformal_quantiles(size - models, levels)
    return [(-low, high) for low, high in zip(lows, highs, strict=True)]


def _minmax(models: Array, e: Array, levels) -> list[tuple[Array, Array]]:
    xp = array_namespace(e)
    lowest, highest = xp.min(models, axis=1), xp.max(models, axis=1)
    return [(lowest - w, highest + w) for w in _widths(e, levels)]


def _by_strips(
    function: Callable[[Array, Array], Array], f: Array, v: Array, n_numbers: int
) -> Array:
    """Return a function of rows of ``f`` and ``v``, of a few at a time, in threads.

    Strips stay in cache: beside these, larger ones take twice the time. A GPU takes all
    rows at once.
    """
    b, n = v.shape
    limit = b * n if on_gpu(f) else _STRIP_BYTES // (8 * n_numbers)
    parts = map_blocks(
        lambda rows: function(f[rows, :], v[rows, :]),
        row_blocks(b, n, limit),
        workers=n_workers(f),
    )
    return array_namespace(f).concat(list(parts), axis=0)


def symmetric_intervals(f: Array, residuals: Array, levels: Sequence[float]) -> Array:
    """Return f(x) ± a quantile of residuals of rows not seen, (b, 2, n_levels, t)."""
    xp = array_namespace(f)
    outputs = []
    for j in range(f.shape[1]):
        widths = _widths(residuals[:, j], levels)
        ends = [xp.stack([f[:, j] - w, f[:, j] + w], axis=1) for w in widths]
        outputs.append(xp.stack(ends, axis=2))
    return xp.stack(outputs, axis=3)


def _widths(e: Array, levels: Sequence[float]) -> list[Array]:
    size = array_namespace(e).abs(e)[None, :]
    return [width[0] for width in conformal_quantiles(size, levels)]


# ---- sets ----------------------------------------------------------------------------


def class_scores(decision: Array, temperature: float, score: str) -> Array:
    """Return how little each class conforms, (r, k), from decision values, (r, k).

    Parameters
    ----------
    decision : array of shape (r, k)
    temperature : float
        Of the softmax.
    score : {"lac", "aps"}
        "lac": 1 − p. "aps": the probability of all classes that are more probable, 0
        for the most probable one.
    """
    xp = array_namespace(decision)
    p = softmax(decision, temperature)
    if score == "lac":
        return 1 - p
    total = xp.zeros_like(p)
    for j in range(p.shape[1]):
        other = p[:, j : j + 1]
        total = total + xp.where(other > p, other, xp.zeros_like(p))
    return total


def left_out_sets(
    f: Array,
    influence: Array,
    residuals: Array,
    own: Array,
    levels: Sequence[float],
    score: Callable[[Array], Array],
) -> Array:
    """Return which classes are in the sets of leave-one-out models, (b, k, n_levels).

    Parameters
    ----------
    f : array of shape (b, t)
        Decision values of the model of all rows.
    influence : array of shape (b, n)
        v_i(x), as the leave-one-out models give it.
    residuals : array of shape (n, t)
        Leave-one-out residuals e.
    own : array of shape (n,)
        Score of each row's own class, by the model without it.
    levels : sequence of float
    score : callable
        Decision values, (r, t), to scores of the classes, (r, k).
    """
    xp = array_namespace(f)
    wanted = [level * (own.shape[0] + 1) * (1 - _ROUNDING) for level in levels]

    def sets(f: Array, v: Array) -> Array:
        # Class by class in memory: sums over a short last axis are slow in NumPy.
        models = [
            f[:, j : j + 1] - v * residuals[None, :, j] for j in range(f.shape[1])
        ]
        scores = score(xp.reshape(xp.stack(models, axis=0), (len(models), -1)).T)
        scores = xp.reshape(scores.T, (-1, *v.shape))  # (k, b, n)
        beaten = xp.sum(xp.astype(scores > own, own.dtype), axis=2).T
        return xp.stack([beaten < one for one in wanted], axis=2)

    return _by_strips(sets, f, influence, 4 * max(2, f.shape[1]))


def split_sets(scores: Array, own: Array, levels: Sequence[float]) -> Array:
    """Return the classes whose score is as low as that of rows held out.

    Parameters
    ----------
    scores : array of shape (b, k)
    own : array of shape (n,)
        Scores of the classes of rows held out.
    levels : sequence of float

    Returns
    -------
    array of shape (b, k, n_levels)
        Of bool.
    """
    xp = array_namespace(scores)
    limits = conformal_quantiles(own[None, :], levels)
    return xp.stack([scores <= limit[0] for limit in limits], axis=2)


# ---- order statistics ----------------------------------------------------------------


def values_of_rank(values: Array, ranks: Sequence[int]) -> list[Array]:
    """Return the values of given ranks in each row of ``values``, (b, n): (b,) each.

    Parameters
    ----------
    values : array of shape (b, n)
    ranks : sequence of int
        0 is the smallest, in any order.

    Notes
    -----
    In NumPy by partial sorts, one rank after the other on what is above the last: five
    times faster than a whole one, for three of the upper ranks of 2,000 values.
    """
    if is_numpy(values):
        return _by_partitions(values, ranks)
    xp = array_namespace(values)
    ordered = xp.sort(values, axis=1)
    # Copies: the sorted values need not be kept.
    return [xp.asarray(ordered[:, rank], copy=True) for rank in ranks]


def _by_partitions(values: np.ndarray, ranks: Sequence[int]) -> list[np.ndarray]:
    found, start = {}, 0
    for rank in sorted(set(ranks)):
        values = np.partition(values, rank - start, axis=1)[:, rank - start :]
        found[rank], start = values[:, 0].copy(), rank
    return [found[rank] for rank in ranks]
