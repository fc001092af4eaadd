"""Rows that one machine reads batch by batch: from a function, or of a memory map.

As with Dask partitions, each pass reads them once, and the fit is that of all rows.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    BatchRows,
    Held,
    as_matrix,
    check_looks,
    longest_rows,
    look_at,
    resolve_budget,
    row_blocks,
    working_types,
)
from kaucus.contract._partitions import refusal, remember_columns

# Of a memory map: large enough to be read fast, small beside the work on it.
_BATCH_BYTES = 64 * 2**20
# A memory map that takes less than this share of the budget is as good as in memory.
_SMALL_SHARE = 1 / 8


class Batches(NamedTuple):
    """Rows that are read batch by batch, and what was with them."""

    rows: BatchRows
    y: np.ndarray | None
    sample_weight: np.ndarray | None
    first: Any
    """The first batch as it was given, for the names of its columns."""


def read_batches(
    batches: Callable[[], Iterable], types: tuple, memory_budget: Any, name: str
) -> Batches:
    """Look at all batches once; keep their targets and weights, not their rows.

    Parameters
    ----------
    batches : callable
        Returns an iterable, anew at every call, of rows or of tuples of rows, targets
        and, perhaps, weights.
    types : tuple of NumPy types
        Of rows of others than these, the first is made.
    memory_budget : int, str or None
    name : str
        The estimator's, for messages.
    """
    if not callable(batches):
        raise TypeError(
            f"fit_batches needs a function that returns the batches anew at every "
            f"call, got {type(batches).__name__}; pass for example "
            "lambda: (load(name) for name in names)."
        )
    looks, targets, weights, first = [], [], [], None
    for batch in batches():
        rows, *rest = batch if isinstance(batch, tuple) else (batch,)
        first = rows if first is None else first
        looks.append(look_at(as_matrix(rows)))
        for given, values in zip((targets, weights), rest, strict=False):
            given.append(np.asarray(values))
    if first is None:
        raise ValueError("There are no batches; the function must return at least one.")
    source = _source(
        lambda: (as_matrix(_rows_of(batch)) for batch in batches()),
        looks,
        as_matrix(first),
        types,
        memory_budget,
        name,
    )
    y, weight = (np.concatenate(v) if v else None for v in (targets, weights))
    return Batches(source, y, weight, first)


def is_large_map(X: Any, memory_budget: Any) -> bool:
    """Tell whether X is a memory map that is to be read batch by batch."""
    if not isinstance(X, np.memmap) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return False
    in_work = X.size * max(X.dtype.itemsize, 4)
    return in_work > _SMALL_SHARE * resolve_budget(memory_budget)


def map_rows_of(X: np.memmap, types: tuple, memory_budget: Any, name: str) -> BatchRows:
    """Return the rows of a memory map, of which no more than a batch is copied."""
    n_bytes = min(_BATCH_BYTES, resolve_budget(memory_budget) // 16)
    slices = list(row_blocks(X.shape[0], 8 * X.shape[1], n_bytes))

    def batches():
        return (np.asarray(X[s]) for s in slices)

    looks = [look_at(rows) for rows in batches()]
    return _source(batches, looks, X, types, memory_budget, name)


def _source(read, looks, like, types, memory_budget, name: str) -> BatchRows:
    check_looks(looks, "batch", range(like.shape[1]), name)
    dtype = like.dtype if like.dtype in types else np.dtype(types[0])
    row = np.zeros((1, like.shape[1]), dtype)
    return BatchRows(
        like=row,
        held=[Held(look.n_rows) for look in looks],
        longest=longest_rows(looks, row),
        budget=resolve_budget(memory_budget),
        read=read,
    )


def _rows_of(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple) else batch


class FitsBatches:
    """Mixin of estimators that fit rows which are read batch by batch."""

    _dask_fit: str | None

    def fit_batches(self, batches):
        """Fit rows that a function reads batch by batch.

        The model is that of ``fit`` with all rows in memory, up to rounding: they are
        read once for every pass over them, of which there are dozens. Labels and
        weights stay in memory, rows do not. For rows that come once, and never again,
        there is ``partial_fit``.

        Parameters
        ----------
        batches : callable
            Returns an iterable of batches, anew at every call: rows of shape
            (n_batch, n_features), or tuples ``(X, y)`` or ``(X, y, sample_weight)``.
            For example ``lambda: (load(name) for name in names)``.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        if self._dask_fit is None:
            what = "a source of batches"
            raise refusal(self, "fit_batches", what, "the first batch")
        found = read_batches(
            batches,
            working_types(getattr(self, "precision", None)),
            self.memory_budget,
            type(self).__name__,
        )
        self.fit(found.rows, found.y, found.sample_weight)
        if hasattr(found.first, "columns"):
            remember_columns(self, found.first)
        return self
