"""Order statistics of the rows of a matrix."""

from collections.abc import Sequence

import numpy as np

from kaucus.backend._namespace import Array, array_namespace, is_numpy


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
