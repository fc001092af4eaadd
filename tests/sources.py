"""Rows that are read part by part, without Dask."""

import itertools

import numpy as np
import scipy.sparse

from kaucus._array.rows import BatchRows


def batch_rows(X, n_parts, *, budget=2**26, place=None):
    """Return the rows of a matrix as a source of so many parts, one of them empty."""
    edges = np.linspace(0, X.shape[0], n_parts + 1).astype(int)
    parts = [X[a:b] for a, b in itertools.pairwise(edges)]
    parts.insert(1, X[:0])
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    two = [np.argmax((dense**2).sum(axis=1)), np.argmax(abs(dense).max(axis=1))]
    return BatchRows(
        like=np.zeros((1, X.shape[1]), X.dtype),
        sizes=[part.shape[0] for part in parts],
        longest=X[two],
        budget=budget,
        place=place,
        read=lambda: iter(parts),
    )
