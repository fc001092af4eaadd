"""Base classes and checks that every estimator and transformer shares.

Rows are checked where they are, fitted arrays follow X, and Ctrl-C or an error leaves a
whole model behind, or none.
"""

from kaucus.contract._array_input import HostAccuracy, HostR2, on_host, validate_data
from kaucus.contract._batches import FitsBatches
from kaucus.contract._fitted_arrays import FollowsX, fitted_arrays, rowwise
from kaucus.contract._optional import ExportsONNX, MissingPackageError, require
from kaucus.contract._partitions import is_dask
