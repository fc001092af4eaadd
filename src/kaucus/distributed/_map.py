"""Methods of fitted models on Dask collections: lazy arrays, and scores that reduce."""

import contextlib
import copy
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import dask.array as da
import numpy as np

from kaucus.backend import is_sparse
from kaucus.distributed._input import partitions_of
from kaucus.distributed._tasks import (
    alone_on_its_core,
    compute,
    shared_argument,
    tasks,
)


def lazy_method(
    model: Any, method: str, X: Any, options: Mapping[str, Any] | None = None
) -> da.Array:
    """Return a lazy Dask array: a method of a fitted model, partition by partition.

    Parameters
    ----------
    model : estimator
        Fitted; a copy of it goes to the workers.
    method : str
        Such as "predict"; a function of each row by itself.
    X : dask array of shape (n, d) or dask frame
    options : mapping, default=None
        Keyword arguments of the method.

    Returns
    -------
    dask array
        Of known dtype, in the chunks of ``X``.
    """
    call = functools.partial(_call, method, dict(options or {}))
    like = call(model, _one_row(X))  # also checks names and columns
    parts = partitions_of(X)
    # As it is now: the model may be fitted again before the array is asked for.
    shared = shared_argument(copy.copy(model), method)
    sizes = X.chunks[0] if hasattr(X, "chunks") else (math.nan,) * len(parts)
    given = [(shared, call, part, like[:0], p) for p, part in enumerate(parts)]
    nodes = tasks(_on_rows, method, given)
    arrays = [
        da.from_delayed(node, shape=(n, *like.shape[1:]), meta=like[:0])
        for node, n in zip(nodes, sizes, strict=True)
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _one_row(X: Any) -> Any:
    """Return a row of zeros of the kind of X's partitions."""
    if hasattr(X, "columns"):
        return (X._meta_nonempty.iloc[:1] * 0).astype(X._meta.dtypes)
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D rows, got a Dask array of {X.ndim} axes. Reshape it: "
            "X.reshape(-1, 1) if it has a single feature."
        )
    row = np.zeros((1, X.shape[1]), X.dtype)
    return type(X._meta)(row) if is_sparse(X._meta) else row


def _call(method: str, options: dict, model: Any, rows: Any) -> Any:
    return getattr(model, method)(rows, **options)


def _on_rows(model: Any, call: Any, rows: Any, nothing: np.ndarray, number: int) -> Any:
    """Return a method of a partition's rows; of no rows, no results: the task."""
    if rows.shape[0] == 0:
        return nothing
    with alone_on_its_core(), _errors_of(number):
        return call(model, rows)


@contextlib.contextmanager
def _errors_of(number: int) -> Iterator[None]:
    """Context manager: what is wrong with rows is told with their partition."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {number} of X: {error}") from error


# ---- scores --------------------------------------------------------------------------


def partition_scores(model: Any, method: str, X: Any, *vectors: Any) -> list:
    """Return ``model.method(rows, *vectors)`` of every partition that has rows.

    Vectors that are no Dask collections are cut as X is; None stays None.
    """
    parts, shared = partitions_of(X), shared_argument(model, method)
    columns = [_parts_of(v, X, parts) for v in vectors]
    nodes = tasks(
        _score_rows,
        f"score-{method.strip('_')}",
        [
            (shared, method, p, *given)
            for p, given in enumerate(zip(parts, *columns, strict=True))
        ],
    )
    return [score for score in compute(nodes) if score is not None]


def _score_rows(model: Any, method: str, number: int, rows: Any, *vectors: Any) -> Any:
    if rows.shape[0] == 0:
        return None
    for values in vectors:
        if values is not None and len(values) != rows.shape[0]:
            raise ValueError(
                f"A partition of X has {rows.shape[0]} rows, that of y or "
                f"sample_weight {len(values)}; partition them alike, for example with "
                "rechunk."
            )
    with alone_on_its_core(), _errors_of(number):
        return getattr(model, method)(rows, *vectors)


def _parts_of(values: Any, X: Any, parts: list) -> list:
    """Return the part of a vector that belongs to each partition."""
    if values is None:
        return [None] * len(parts)
    if hasattr(values, "__dask_graph__"):
        own = partitions_of(values)
        if len(own) != len(parts):
            raise ValueError(
                f"X has {len(parts)} partitions and y or sample_weight {len(own)}; "
                "partition them alike, for example with rechunk."
            )
        return own
    sizes = compute(tasks(_n_rows, "count-rows", [(part,) for part in parts]))
    values = np.asarray(values)
    if len(values) != sum(sizes):
        raise ValueError(
            f"X has {sum(sizes)} rows, y or sample_weight {len(values)}; expected one "
            "for each row."
        )
    return np.split(values, np.cumsum(sizes)[:-1])


def _n_rows(rows: Any) -> int:
    return rows.shape[0]


class _Sums:
    """Sums over rows of what a model finds, beside the right values."""

    def __init__(self, model: Any):
        self.model = model

    def scores(self, rows, weight) -> float:
        """Return the weighted sum of the scores of rows."""
        scores = self.model._row_scores(rows)
        return float(scores.sum() if weight is None else np.asarray(weight) @ scores)

    def right(self, rows, y, weight) -> tuple[float, float]:
        """Return the weight of rows predicted right, and that of all."""
        weight = np.ones(rows.shape[0]) if weight is None else np.asarray(weight)
        right = np.asarray(self.model.predict(rows)) == np.ravel(np.asarray(y))
        return float(weight @ right), float(weight.sum())

    def spread(self, rows, y, weight) -> np.ndarray:
        """Return Σ w, the mean of y, Σ w (y − ȳ)² and Σ w (y − f)², (4, t)."""
        weight = np.ones(rows.shape[0]) if weight is None else np.asarray(weight)
        y = np.asarray(y, dtype=np.float64).reshape(rows.shape[0], -1)
        f = np.asarray(self.model.predict(rows), dtype=np.float64).reshape(y.shape)
        total = max(weight.sum(), 1e-300)
        mean = weight @ y / total
        squares = [weight @ (y - mean) ** 2, weight @ (y - f) ** 2]
        return np.stack([np.full_like(mean, total), mean, *squares])


def score_sum(model: Any, X: Any, sample_weight: Any) -> float:
    """Return the weighted sum of ``model._row_scores`` over all rows."""
    return float(sum(partition_scores(_Sums(model), "scores", X, sample_weight)))


def score_accuracy(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the share of rows whose class is predicted right."""
    found = partition_scores(_Sums(model), "right", X, y, sample_weight)
    right, total = np.sum(found, axis=0)
    return float(right / total)


def score_r2(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return R², the mean over the outputs."""
    found = partition_scores(_Sums(model), "spread", X, y, sample_weight)
    n, means, within, residuals = np.moveaxis(np.stack(found), 1, 0)  # (parts, t) each
    mean = (n * means).sum(axis=0) / n.sum(axis=0)
    spread = (within + n * (means - mean) ** 2).sum(axis=0)
    residual = residuals.sum(axis=0)
    share = np.where(residual > 0, 1.0, 0.0)  # of a constant output
    np.divide(residual, spread, out=share, where=spread > 0)
    return float(np.mean(1 - share))
