"""Small LS-SVM problems for the tests of the solvers."""

from typing import NamedTuple

import numpy as np

from kaucus.kernels import Gaussian
from kaucus.solvers._columns import RowData


class Problem(NamedTuple):
    X: np.ndarray
    K: np.ndarray
    Y: np.ndarray


def problem(seed=0, n=30, t=2, gamma=0.5):
    """Return rows, their Gaussian kernel matrix and targets, in float64."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = np.sign(rng.normal(size=(n, t))) + 0.3
    return Problem(X, Gaussian(gamma=gamma)(X), Y)


def weights(seed, n):
    """Return weights of which some are zero and some are large."""
    rng = np.random.default_rng(seed)
    s = rng.choice([0.0, 0.25, 1.0, 1.0, 3.0], size=n)
    s[rng.integers(n)] = 1.0  # at least one row counts
    return s


def of_rows(function):
    """Return a function of RowData as one of kernel, rows, targets and weights."""

    def called(kernel, X, Y, *more, sample_weight=None, **options):
        return function(RowData(kernel, X, Y, sample_weight), *more, **options)

    return called
