"""A kernel of how rows are connected rather than of how far apart they are."""

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform

from kaucus.backend import Array, as_like, dtype_name, is_sparse, to_numpy


def path_kernel(X: Array, gamma: float | str = "median") -> Array:
    """Return k(x, y) = exp(−gamma m(x, y)) for all pairs of rows.

    m is the minimax path distance: of all paths from x to y over the rows, take the one
    whose longest step is shortest, and of it the longest step. Rows on one arm of a
    spiral are near each other by this measure, rows of two arms are not.

    Parameters
    ----------
    X : array of shape (n, d)
    gamma : float or "median", default="median"
        ``"median"`` is 1 over the median of m between different rows.

    Returns
    -------
    array of shape (n, n)
        Positive semidefinite, because m is an ultrametric; for
        ``kernel="precomputed"``. In the library and precision of ``X``.

    Notes
    -----
    m is the height at which single linkage joins two rows. n² time and memory. A single
    row between two clusters joins them; and since the matrix depends on all rows, there
    is no kernel of new rows.

    References
    ----------
    B. Fischer, V. Roth, J. M. Buhmann, "Clustering with the connectivity kernel",
    NIPS 2003.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> path_kernel(X, gamma=0.1).round(2)
    array([[1. , 0.9, 0.9, 0.5],
           [0.9, 1. , 0.9, 0.5],
           [0.9, 0.9, 1. , 0.5],
           [0.5, 0.5, 0.5, 1. ]])
    """
    if is_sparse(X):
        raise ValueError("path_kernel takes dense rows; pass X.toarray().")
    if X.shape[0] < 2:
        return as_like(np.ones((X.shape[0],) * 2), X, dtype=dtype_name(X))
    tree = linkage(pdist(to_numpy(X).astype(np.float64)), method="single")
    steps = np.asarray(cophenet(tree))
    if isinstance(gamma, str):
        if gamma != "median":
            raise ValueError(f"gamma={gamma!r} must be 'median' or a positive number.")
        apart = steps[steps > 0]
        gamma = 1 / float(np.median(apart)) if apart.size else 1.0
    K = np.exp(-gamma * squareform(steps))
    return as_like(K, X, dtype=dtype_name(X))
