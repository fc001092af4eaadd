"""From Dask collections to rows that the core can work on: checked, and counted."""

import functools
import math
from typing import Any

import numpy as np
from dask.delayed import Delayed
from dask.sizeof import sizeof

from kaucus.backend import (
    Held,
    Look,
    as_matrix,
    check_looks,
    format_bytes,
    is_sparse,
    longest_rows,
    look_at,
    to_device,
    warn_user,
)
from kaucus.distributed._homes import here
from kaucus.distributed._rows import DaskRows
from kaucus.distributed._tasks import compute, current_client, tasks, workforce

# A partition, a copy of it in another order or precision, and what is made of it.
_COPIES = 3
# Constants in Dask's graph that are smaller than this are no rows.
_LARGE = 1000


def partitions_of(X: Any) -> list[Delayed]:
    """Return the partitions of a Dask array or frame, each with all its columns."""
    if not hasattr(X, "chunks"):  # a frame
        return list(X.to_delayed())
    if X.ndim == 1:
        return list(X.to_delayed())
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return list(X.to_delayed()[:, 0])


def rows_of(
    X: Any,
    types: tuple,
    *,
    memory_budget: int | str | None,
    device: str | None,
    name: str,
    reads_often: bool = True,
) -> DaskRows:
    """Return the rows of a Dask array or frame, which are finite.

    Parameters
    ----------
    X : dask array of shape (n, d) or dask frame
    types : tuple of NumPy types
        Of others than these, the first is made.
    memory_budget : int, str or None
        Bytes that each worker may take; None: two fifths of what it has.
    device : str or None
        Where each worker computes.
    name : str
        The estimator's, for messages.
    reads_often : bool, default=True
        Whether the rows are read more than once.

    Raises
    ------
    ValueError
        If a partition has an entry that is not finite; it is named.
    MemoryError
        If a worker has no room for a partition and work on it.
    """
    _check_columns(X, name)
    if device not in (None, "cpu") and is_sparse(getattr(X, "_meta", None)):
        raise ValueError(
            f"device={device!r} takes dense data only; the partitions of X are sparse. "
            "Use device=None, or X.map_blocks(lambda block: block.toarray())."
        )
    force = workforce(memory_budget)
    dtype, d = _dtype_of(X, types), int(X.shape[1])
    _check_partition_sizes(X, dtype, d, force.task_bytes)
    given = partitions_of(X)
    seen = compute(tasks(_look_at_partition, "look-at-rows", [(p,) for p in given]))
    looks, places = [look for look, _ in seen], [place for _, place in seen]
    check_looks(looks, "partition", list(getattr(X, "columns", range(d))), name)
    sizes = [look.n_rows for look in looks]
    _check_room(max(sizes, default=0), dtype, d, force.task_bytes)
    in_memory = reads_often and _is_in_memory(X)
    if reads_often and not in_memory:
        _warn_of_reading_again(sum(sizes) * d * dtype.itemsize, force.memory)
    like = np.zeros((1, d), dtype)
    place = None
    if device not in (None, "cpu"):
        place = functools.partial(to_device, device=device)
    rows = DaskRows(
        like=like,
        held=[Held(n) for n in sizes],
        longest=longest_rows(looks, like),
        budget=force.task_bytes,
        place=place,
        partitions=given,
        force=force,
    )
    if in_memory and force.threads:
        return rows.shared_out(places, force.threads)
    return rows


def values_of(y: Any) -> np.ndarray:
    """Return labels, targets or weights of a Dask collection as a NumPy array."""
    parts = compute(
        tasks(np.asarray, "gather-values", [(p,) for p in partitions_of(y)])
    )
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


def _look_at_partition(partition: Any) -> tuple[Look, str | None]:
    """Return what is to be known of a partition, and the worker that has it."""
    return look_at(as_matrix(partition)), here()


# ---- checks, the cheapest first ------------------------------------------------------


def _check_columns(X: Any, name: str) -> None:
    """Check shape and types, which are known before anything is computed."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D rows, got a Dask collection of {X.ndim} axes. Reshape it: "
            "X.reshape(-1, 1) if it has a single feature."
        )
    if hasattr(X, "columns"):
        kinds = [(str(c), t) for c, t in X.dtypes.items() if not _is_number(t)]
        if kinds:
            shown = ", ".join(f"{c!r} ({t})" for c, t in kinds[:5])
            raise ValueError(
                f"{name} needs numbers; of the columns of X, {shown} are not. Leave "
                "them out, or encode them, for example with X.categorize() and "
                "dask.dataframe.get_dummies."
            )
        return
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} needs numbers; X is of dtype {X.dtype}. Convert it with "
            "X.astype('float64')."
        )


def _is_number(kind: Any) -> bool:
    kind = getattr(kind, "numpy_dtype", kind)  # of pandas' types with missing values
    return getattr(kind, "kind", "O") in "fiub"


def _dtype_of(X: Any, types: tuple) -> np.dtype:
    """Return the precision in which rows are worked on."""
    if hasattr(X, "columns"):
        found = np.result_type(
            *(getattr(t, "numpy_dtype", t) for t in X.dtypes.to_list())
        )
    else:
        found = X.dtype
    return np.dtype(found if found in [np.dtype(t) for t in types] else types[0])


def _check_partition_sizes(X: Any, dtype: np.dtype, d: int, budget: int) -> None:
    """Check the partitions whose number of rows is known without a look."""
    known = [n for n in getattr(X, "chunks", ((),))[0] if not math.isnan(n)]
    if known and not is_sparse(X._meta):
        _check_room(max(known), dtype, d, budget)


def _check_room(n_rows: int, dtype: np.dtype, d: int, budget: int) -> None:
    """Check that a worker can hold a partition, and work on it."""
    n_bytes = n_rows * d * dtype.itemsize
    if _COPIES * n_bytes <= budget:
        return
    fitting = max(budget // (_COPIES * d * dtype.itemsize), 1)
    raise MemoryError(
        f"A partition of X has {n_rows:,} rows, {format_bytes(n_bytes)}; work on it "
        f"takes {_COPIES} times as much, and a worker has {format_bytes(budget)} for "
        f"each of its threads. Make partitions of at most {fitting:,} rows (X.rechunk, "
        "or repartition of a frame), or use workers with fewer threads, more memory, "
        "or a larger memory_budget."
    )


def _warn_of_reading_again(n_bytes: int, memory: int) -> None:
    """Warn of rows that are read or made in every pass, where they would fit."""
    if 2 * n_bytes > memory:
        return
    warn_user(
        f"X is not in memory: it is read, made or sent anew in every pass over it, of "
        f"which there are dozens. Its rows take {format_bytes(n_bytes)}, and there are "
        f"{format_bytes(memory)}; write X = X.persist() before fit.",
        UserWarning,
    )


def _is_in_memory(X: Any) -> bool:
    """Tell whether all that X is made of is where the tasks will run.

    What is computed from persisted data, such as a choice of columns or what a fitted
    model makes of it, counts as that.
    """
    graph = X.optimize() if hasattr(X, "columns") else X
    nodes = dict(graph.__dask_graph__()).values()
    sources = [node for node in nodes if not getattr(node, "dependencies", ())]
    values = [getattr(node, "value", node) for node in sources]
    kinds = {type(value).__name__ for value in values if not _is_constant(value)}
    if current_client() is not None:
        return kinds <= {"Future"}
    return kinds <= {"ndarray", "csr_array", "csr_matrix", "DataFrame", "Series"}


def _is_constant(value: Any) -> bool:
    """Tell whether a value in Dask's graph is a model or small, and no rows."""
    if hasattr(value, "get_params"):
        return True
    plain = isinstance(value, np.ndarray) or type(value).__module__ == "builtins"
    return plain and sizeof(value) < _LARGE
