"""How many representatives each group of rows gets."""

from collections.abc import Sequence

import numpy as np

ALLOCATIONS = ("equal", "proportional", "sqrt")
_POWERS = {"equal": 0.0, "proportional": 1.0, "sqrt": 0.5}


def allocate(total: int, sizes: Sequence[int], allocation: str) -> list[int]:
    """Share out representatives in proportion to a power of the groups' sizes.

    Parameters
    ----------
    total : int
        How many there are to share out.
    sizes : sequence of int
        Rows of each group.
    allocation : {"equal", "proportional", "sqrt"}
        In proportion to size⁰, size¹ or size^½.

    Returns
    -------
    list of int
        No group gets more than it has rows, nor fewer than one if it has any; what a
        small group cannot take, the others share. The sum is ``total``, where the
        groups have as many rows and ``total`` is at least their number.

    Examples
    --------
    >>> allocate(100, [900, 90, 10], "proportional")
    [90, 9, 1]
    >>> allocate(100, [900, 90, 10], "equal")
    [45, 45, 10]
    """
    rows = np.asarray(sizes, dtype=np.int64)
    given = np.minimum(rows, 1)
    wanted = np.where(rows > 0, rows.astype(float) ** _POWERS[allocation], 0.0)
    full = given >= rows
    # Each turn fills a group for good, or is the last.
    while not full.all():
        shares = np.where(full, 0.0, wanted)
        rest = total - given[full].sum()
        shares *= max(rest, 0) / shares.sum()
        over = ~full & (shares >= rows)
        if not over.any():
            return _rounded(given, shares, full, int(rest)).tolist()
        given[over], full = rows[over], full | over
    return given.tolist()


def _rounded(given, shares, full, rest: int) -> np.ndarray:
    """Round shares to whole numbers of the same sum, none of them below 1."""
    counts = np.where(full, given, np.maximum(np.floor(shares), 1)).astype(np.int64)
    left = rest - int(counts[~full].sum())
    order = np.argsort(np.where(full, np.inf, np.floor(shares) - shares), kind="stable")
    counts[order[: max(left, 0)]] += 1
    while left < 0 and (counts[~full] > 1).any():
        counts[np.argmax(np.where(full, 0, counts))] -= 1
        left += 1
    return counts
