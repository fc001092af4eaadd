"""What a search for kernel, gamma and C has tried: one table for every estimator."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kaucus.backend import warn_user
from kaucus.kernels import Kernel

# By so much, relative to its own size, the score must still rise towards an end of the
# grid before it is worth a word.
_RISE = 0.01


def search_table(
    kernels: Sequence[Kernel | None], Cs: Sequence[float], scores: np.ndarray
) -> dict[str, np.ndarray]:
    """Return a row for every kernel and C, as columns that pandas takes.

    Parameters
    ----------
    kernels : sequence of Kernel, or None for a given matrix
    Cs : sequence of float
    scores : ndarray of shape (n_kernels, n_Cs)
        The larger the better; NaN for what was not tried.

    Returns
    -------
    dict
        ``kernel``, ``gamma`` (NaN for a kernel without one), ``C`` and ``score``.
    """
    pairs = [(kernel, C) for kernel in kernels for C in Cs]
    return {
        "kernel": np.asarray([_name(kernel) for kernel, _ in pairs], dtype=object),
        "gamma": np.asarray([gamma_of(kernel) for kernel, _ in pairs], dtype=float),
        "C": np.asarray([C for _, C in pairs], dtype=float),
        "score": np.asarray(scores, dtype=float).ravel(),
    }


def join_tables(tables: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return one table with the rows of several."""
    tables = [search_table([], [], np.empty(0)), *tables]
    return {key: np.concatenate([t[key] for t in tables]) for key in tables[0]}


def gamma_of(kernel: Any) -> float:
    """Return the width of a kernel, NaN if it has none."""
    gamma = getattr(kernel, "gamma", None)
    return np.nan if gamma is None else float(gamma)


def _name(kernel: Any) -> str:
    return "precomputed" if kernel is None else getattr(kernel, "name", repr(kernel))


def warn_at_edge(name: str, values: Sequence[float], scores: np.ndarray) -> None:
    """Warn where the best of some values is an end of them, and the score still rises.

    Parameters
    ----------
    name : str
        Of the parameter that lists the values.
    values : sequence of float
    scores : ndarray of shape (n_values,)
        The best score of each.
    """
    side = rising_end(values, scores)
    if side == 0:
        return
    best = min(values) if side < 0 else max(values)
    end = "least" if side < 0 else "largest"
    warn_user(
        f"The best of {name}, {best:g}, is the {end} that was tried (score "
        f"{np.nanmax(scores):.4g}); a value beyond it may be better. Pass {name} that "
        f"go on to {best * 10.0**side:g} and further.",
        UserWarning,
    )


def rising_end(values: Sequence[float], scores: np.ndarray) -> int:
    """Return −1 or 1 where the score clearly rises to the least or largest value.

    0 where the best is inside, or hardly better than its neighbour.

    >>> rising_end([1, 10, 100], np.array([0.5, 0.7, 0.9]))
    1
    """
    order = np.argsort(values)
    scores = np.asarray(scores, dtype=float)[order]
    best = int(np.nanargmax(scores))
    if len(order) < 2 or best not in (0, len(order) - 1):
        return 0
    neighbour = scores[1] if best == 0 else scores[-2]
    if not scores[best] - neighbour > _RISE * abs(neighbour):
        return 0
    return -1 if best == 0 else 1
