"""Rows in Dask partitions: the accumulators of the core over Dask's tasks.

The only layer that imports dask. Tasks go to the current client if there is one, else
to Dask's local scheduler; no cluster is started here.
"""

from kaucus.distributed._input import rows_of, values_of
from kaucus.distributed._map import (
    lazy_method,
    score_accuracy,
    score_r2,
    score_sum,
)
from kaucus.distributed._rows import DaskRows

__all__ = [
    "DaskRows",
    "lazy_method",
    "rows_of",
    "score_accuracy",
    "score_r2",
    "score_sum",
    "values_of",
]
