"""Choose the landmarks of a Nyström approximation.

    "uniform"      random rows
    "k-means"      centres of euclidean k-means: points where the rows are
    "rpcholesky"   pivots of a randomly pivoted Cholesky factor of K: rows that are not
                   represented yet, by the kernel's own measure

The last two look at no more than a random sample of the rows, so that choosing costs
less than using.
"""

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    RowSource,
    as_like,
    dtype_name,
    is_sparse,
    itemsize,
    random_rows,
    take_rows,
)
from kaucus.kernels import Kernel, Precomputed
from kaucus.representatives._lloyd import kmeans
from kaucus.representatives._pivoted_cholesky import pivoted_factor

LANDMARKS = ("k-means", "uniform", "rpcholesky")

# Rows that are looked at, per landmark; k-means gains nothing from more.
_ROWS_EACH = 50
_KMEANS_STEPS = 20
# Of the rows of a source: as read, put together, in order, and at work.
_COPIES = 4
_BLOCKS = 16


def choose_landmarks(
    kernel: Kernel,
    X: Array,
    n_landmarks: int,
    *,
    method: str,
    rng: np.random.Generator,
) -> Array:
    """Return landmarks for the rows of ``X``.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        Of rows of the host, no more are looked at than fit on their device; of a
        source, than fit into the memory for work on one part.
    n_landmarks : int
        At most n.
    method : {"k-means", "uniform", "rpcholesky"}
        For a precomputed kernel, whose rows are numbers, not "k-means".
    rng : numpy.random.Generator

    Returns
    -------
    array or CSR matrix of shape (m, d)
        m ≤ n_landmarks: fewer where K has a smaller numerical rank ("rpcholesky").
    """
    like = np.empty(0) if is_sparse(X) or isinstance(X, RowSource) else X
    size = n_landmarks
    if method != "uniform":
        size = max(size, min(_ROWS_EACH * size, _rows_that_fit(X)))
    drawn = random_rows(rng, X.shape[0], min(size, X.shape[0]), like)
    sample = take_rows(X, drawn)
    if method == "uniform":
        return sample
    if method == "k-means":
        if isinstance(kernel, Precomputed):
            raise ValueError("Row numbers of a given matrix have no means.")
        return _kmeans_centers(sample, n_landmarks, rng)
    factor = pivoted_factor(
        lambda rows: kernel(sample, take_rows(sample, rows)),
        as_like(kernel.diag(sample), like, dtype=dtype_name(X)),
        rank=n_landmarks,
        rng=rng,
        # The pivots of a block do not know of each other: many small ones.
        block_size=max(1, n_landmarks // _BLOCKS),
    )
    return take_rows(sample, as_like(factor.pivots, like))


def _rows_that_fit(X: Array) -> int:
    """Return how many rows may be looked at together: all, or those that fit."""
    row_bytes = itemsize(X) * X.shape[1]
    if isinstance(X, HostRows):
        return X.buffer_bytes // row_bytes
    return X.budget // (_COPIES * row_bytes) if isinstance(X, RowSource) else X.shape[0]


def _kmeans_centers(sample: Array, n_landmarks: int, rng) -> Array:
    result = kmeans(
        sample,
        n_landmarks,
        metric="euclidean",
        init="random",
        max_iter=_KMEANS_STEPS,
        tol=1e-3,
        rng=rng,
    )
    if result.interrupted:  # landmarks alone are no model
        raise KeyboardInterrupt
    return result.centers
