"""The median heuristic: a kernel's width from the distances between the rows."""

import math

import numpy as np

from kaucus.backend import Array, take_rows, to_numpy
from kaucus.kernels._base import Kernel
from kaucus.kernels._names import kernel_class, kernel_names

# Half a million pairs: the median is known to a few tenths of a percent.
_ROWS = 1000


def median_gamma(
    X: Array, sample_weight: Array | None = None, kernel: object = None
) -> float:
    """Return gamma such that the kernel has a middling value at the median distance.

    With m the median of the distances between different rows,

        exponential, Laplacian   1 / m        k = e⁻¹ there; Manhattan for Laplacian
        all others               1 / (2 m²)   the Gaussian whose σ is m

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Rows of weight 0 are passed over; other weights do not matter.
    kernel : object, default=None
        What :func:`resolve_kernel` takes; its name decides between the two formulas.

    Returns
    -------
    float
        1 where all rows are equal.

    Notes
    -----
    All pairs of at most 1,000 rows at even steps through X: no random numbers, the same
    answer every time. Rows that come in a period of n / 1000 would be sampled badly;
    shuffle those.
    """
    rows = np.arange(X.shape[0])
    if sample_weight is not None:
        rows = rows[to_numpy(sample_weight) > 0]
    if len(rows) > _ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.int64)]
    some = take_rows(X, rows)
    cls: type[Kernel] = Kernel
    if isinstance(kernel, str) and kernel in kernel_names():
        cls = kernel_class(kernel)
    distances = to_numpy(cls.distances(some)).astype(np.float64)
    distances = distances[np.triu_indices(len(rows), k=1)]  # each pair once
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    median = float(np.median(distances))
    if not math.isfinite(median):
        raise ValueError(
            "gamma='median' needs the distances between rows, and they overflow; "
            "scale X, for example with StandardScaler."
        )
    unit = median if cls.of_length else 2 * median**2
    if unit < 1e-300:
        raise ValueError(
            f"gamma='median' needs the distances between rows, and their median, "
            f"{median:.3g}, is too small; scale X, for example with StandardScaler."
        )
    return 1 / unit
