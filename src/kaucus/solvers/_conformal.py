"""Prediction intervals and sets from leave-one-out models, or from rows held out.

Jackknife+ at the level 1 − α, with the residuals eᵢ and the models f⁽⁻ⁱ⁾ of n rows: the
interval reaches from the ⌊α(n+1)⌋-th smallest f⁽⁻ⁱ⁾(x) − |eᵢ| to the ⌈(1−α)(n+1)⌉-th
smallest f⁽⁻ⁱ⁾(x) + |eᵢ|. Cross-conformal sets hold the classes j with

    #{i : s(f⁽⁻ⁱ⁾(x), j) > s(f⁽⁻ⁱ⁾(xᵢ), yᵢ)} < (1−α)(n+1),

where the score s is the larger, the less a class conforms. A row of weight w counts as
w rows. Rows held out together (split conformal) have one model: the quantile of their
scores is that of n + 1 rows.

References: R. F. Barber et al., "Predictive inference with the jackknife+", Annals of
Statistics 49, 486 (2021); Y. Romano, M. Sesia, E. Candès, "Classification with valid
and adaptive coverage" (NeurIPS 2020); M. Sadinle, J. Lei, L. Wasserman, "Least
ambiguous set-valued classifiers with bounded error levels", JASA 114, 223 (2019).
"""

import math
from collections.abc import Sequence

from kaucus.backend import Array, array_namespace, device_of, take_rows
from kaucus.solvers._scores import softmax

# (1−α)(n+1) of a whole number may come out larger by rounding.
_ROUNDING = 1e-9


def check_enough_rows(total: float, levels: Sequence[float]) -> None:
    """Raise where an interval of some level would be the whole line.

    ``total`` is the number of rows, or the sum of their weights.
    """
    largest = max(levels)
    if largest * (total + 1) > total + _ROUNDING * (total + 1):
        raise ValueError(
            f"confidence_level={largest:g} needs at least "
            f"{math.ceil(largest / (1 - largest) - _ROUNDING)} rows with residuals, and there are "
            f"{total:g}; use a lower level, or more rows."
        )


def conformal_quantile(values: Array, counts: Array | None, level: float) -> Array:
    """Return the smallest value of each row with enough others below it, (b,).

    Parameters
    ----------
    values : array of shape (b, n)
    counts : array of shape (n,), default=None
        How many each of the n counts for; None: one.
    level : float
        Values that count (level)(total + 1) are at most the result; infinite where
        there are not so many.
    """
    xp = array_namespace(values)
    b, n = values.shape
    total = float(n) if counts is None else float(xp.sum(counts))
    wanted = level * (total + 1) * (1 - _ROUNDING)
    if wanted > total:
        return xp.full((b,), float("inf"), dtype=values.dtype, device=device_of(values))
    if counts is None:
        # A copy: the sorted values need not be kept.
        column = max(math.ceil(wanted), 1) - 1
        return xp.asarray(xp.sort(values, axis=1)[:, column], copy=True)
    order = xp.argsort(values, axis=1)
    ordered = xp.reshape(take_rows(counts, xp.reshape(order, (-1,))), (b, n))
    below = xp.cumulative_sum(ordered, axis=1) < wanted * (1 - _ROUNDING)
    place = xp.sum(xp.astype(below, order.dtype), axis=1)
    place = xp.minimum(place, xp.full_like(place, n - 1))
    number = xp.arange(b, dtype=order.dtype, device=device_of(values)) * n + place
    flat = xp.reshape(order, (-1,))
    number = number - number % n + take_rows(flat, number)
    return take_rows(xp.reshape(values, (-1,)), number)


def left_out_intervals(
    f: Array,
    influence: Array,
    residuals: Array,
    counts: Array | None,
    levels: Sequence[float],
    method: str,
) -> Array:
    """Return intervals by leave-one-out models, (b, 2, n_levels, t).

    Parameters
    ----------
    f : array of shape (b, t)
        Predictions of the model of all rows.
    influence : array of shape (b, n)
        p_i v_i(x), as the leave-one-out models give it.
    residuals : array of shape (n, t)
        Leave-one-out residuals e.
    counts : array of shape (n,), default=None
        How many rows each counts for.
    levels : sequence of float
    method : {"plus", "minmax"}
    """
    xp = array_namespace(f)
    outputs = []
    for j in range(f.shape[1]):
        e = residuals[:, j]
        models = f[:, j : j + 1] - influence * e[None, :]  # f⁽⁻ⁱ⁾(x), (b, n)
        if method == "minmax":
            lowest, highest = xp.min(models, axis=1), xp.max(models, axis=1)
            widths = _widths(e, counts, levels)
            ends = [(lowest - w, highest + w) for w in widths]
        else:
            size = xp.abs(e)[None, :]
            up, down = models + size, size - models
            ends = [
                (
                    -conformal_quantile(down, counts, level),
                    conformal_quantile(up, counts, level),
                )
                for level in levels
            ]
        pairs = [xp.stack(pair, axis=1) for pair in ends]  # (b, 2) each
        outputs.append(xp.stack(pairs, axis=2))
    return xp.stack(outputs, axis=3)


def symmetric_intervals(
    f: Array, residuals: Array, counts: Array | None, levels: Sequence[float]
) -> Array:
    """Return f(x) ± a quantile of residuals of rows not seen, (b, 2, n_levels, t)."""
    xp = array_namespace(f)
    outputs = []
    for j in range(f.shape[1]):
        widths = _widths(residuals[:, j], counts, levels)
        ends = [xp.stack([f[:, j] - w, f[:, j] + w], axis=1) for w in widths]
        outputs.append(xp.stack(ends, axis=2))
    return xp.stack(outputs, axis=3)


def _widths(e: Array, counts: Array | None, levels: Sequence[float]) -> list[Array]:
    size = array_namespace(e).abs(e)[None, :]
    return [conformal_quantile(size, counts, level)[0] for level in levels]


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
    scores: Array, own: Array, counts: Array | None, levels: Sequence[float]
) -> Array:
    """Return which classes are in the sets of leave-one-out models, (b, k, n_levels).

    Parameters
    ----------
    scores : array of shape (b, n, k)
        Of every class by every leave-one-out model.
    own : array of shape (n,)
        Of each row's own class, by the model without it.
    counts : array of shape (n,), default=None
    levels : sequence of float
    """
    xp = array_namespace(scores)
    less = xp.astype(scores > own[None, :, None], scores.dtype)
    if counts is not None:
        less = less * counts[None, :, None]
    beaten = xp.sum(less, axis=1)  # (b, k)
    total = float(own.shape[0]) if counts is None else float(xp.sum(counts))
    wanted = [level * (total + 1) * (1 - _ROUNDING) for level in levels]
    return xp.stack([beaten < one for one in wanted], axis=2)


def split_sets(
    scores: Array, own: Array, counts: Array | None, levels: Sequence[float]
) -> Array:
    """Return the classes whose score is as low as that of rows held out.

    Parameters
    ----------
    scores : array of shape (b, k)
    own : array of shape (n,)
        Scores of the classes of rows held out.
    counts : array of shape (n,), default=None
    levels : sequence of float

    Returns
    -------
    array of shape (b, k, n_levels)
        Of bool.
    """
    xp = array_namespace(scores)
    limits = [conformal_quantile(own[None, :], counts, level)[0] for level in levels]
    return xp.stack([scores <= limit for limit in limits], axis=2)
