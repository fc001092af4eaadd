"""A first look at rows that are read part by part: how many they are, and finite."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend._namespace import concat_rows, is_sparse


class Look(NamedTuple):
    """What is seen of a part of the rows before the work begins."""

    n_rows: int
    extreme: Any
    """(2, d): the row of the largest norm, and one with the largest entry."""
    bad: tuple[int, int, str] | None
    """Row and column of the first entry that is not finite, and what it is."""


def as_matrix(part: Any) -> Any:
    """Return a part of the rows as a NumPy array or a CSR matrix."""
    if is_sparse(part):
        return part.tocsr()
    if not hasattr(part, "to_numpy"):
        return np.asarray(part)
    values = part.to_numpy()  # a frame
    if values.dtype == object:  # of pandas' types with missing values
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def look_at(rows: Any) -> Look:
    """Return what is to be known of a part: a NumPy array or a CSR matrix, (b, d)."""
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.shape[0] == 0:
        return Look(0, None, None)
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum tells it all, without a mask as large as the rows.
        bad = None if np.isfinite(rows.sum()) else _first_bad(rows)
        if bad is not None:
            return Look(rows.shape[0], None, bad)
        largest = abs(rows).max(axis=1)
        if is_sparse(rows):
            norms = rows.multiply(rows).sum(axis=1)
            norms, largest = np.asarray(norms), largest.toarray()
        else:
            norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    two = [int(np.argmax(norms)), int(np.argmax(largest))]
    return Look(rows.shape[0], rows[two], None)


def _first_bad(rows: Any) -> tuple[int, int, str] | None:
    if is_sparse(rows):
        entries = rows.tocoo()
        where = np.flatnonzero(~np.isfinite(entries.data))[:1]
        i, j, values = entries.row[where], entries.col[where], entries.data[where]
    else:
        where = np.argwhere(~np.isfinite(rows))[:1]
        i, j = where[:, 0], where[:, 1]
        values = rows[i, j]
    if len(values) == 0:
        return None
    return int(i[0]), int(j[0]), "NaN" if np.isnan(values[0]) else "infinity"


def check_looks(looks: Sequence[Look], part: str, columns: Sequence, name: str) -> None:
    """Raise where a part has an entry that is not finite; name the part.

    Parameters
    ----------
    looks : sequence of Look
    part : str
        What a part is called: "partition", "batch".
    columns : sequence
        The names of the columns.
    name : str
        The estimator's.
    """
    for p, look in enumerate(looks):
        if look.bad is None:
            continue
        row, column, what = look.bad
        raise ValueError(
            f"Input X contains {what}: {part} {p}, row {row} of it, column "
            f"{columns[column]!r}. {name} needs finite numbers; take such rows out, or "
            "fill them."
        )


def longest_rows(looks: Sequence[Look], like: np.ndarray) -> Any:
    """Return of the extreme rows of all parts the two most extreme, like ``like``."""
    extremes = [look.extreme for look in looks if look.n_rows]
    if not extremes:
        return np.concatenate([like, like])
    rows = functools.reduce(concat_rows, extremes).astype(like.dtype)
    wide = rows.toarray().astype(float) if is_sparse(rows) else rows.astype(float)
    with np.errstate(over="ignore"):
        norms = (wide**2).sum(axis=1)
    return rows[[int(np.argmax(norms)), int(np.argmax(abs(wide).max(axis=1)))]]
