"""All kernels, each with its reference: a new kernel is one line here."""

from functools import partial
from typing import NamedTuple

import numpy as np

from kaucus.kernels import (
    Cauchy,
    ClusterRBF,
    Cosine,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    MahalanobisRBF,
    Matern32,
    Matern52,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
)
from tests.reference import kernels as reference


class Case(NamedTuple):
    """A kernel and what the tests must know of it."""

    kernel: Kernel
    reference: partial
    """The same as a function of two rows."""
    translation_invariant: bool


def case(cls, translation_invariant, function=None, **params):
    """Return a case; ``function(x, y, **params)`` is for a kernel without reference."""
    function = partial(function or getattr(reference, cls.name), **params)
    return Case(cls(**params), function, translation_invariant)


def side(X):
    """Return the cell of rows of any number of features, dense or CSR."""
    first = np.asarray(X[:, [0]].sum(axis=1)).ravel()
    return (first > 0.1).astype(int)


CASES = [
    case(Linear, False),
    case(Polynomial, False, degree=1, gamma=0.5, coef0=0.0),
    case(Polynomial, False, degree=4, gamma=1.0, coef0=0.0),
    case(Polynomial, False, degree=3, gamma=0.3, coef0=1.5),
    case(Gaussian, True, gamma=0.4),
    case(Exponential, True, gamma=0.7),
    case(Cauchy, True, gamma=1.3),
    case(Matern32, True, gamma=0.6),
    case(Matern52, True, gamma=0.6),
    case(RationalQuadratic, True, gamma=0.9, alpha=1.5),
    case(Sigmoid, False, gamma=0.2, coef0=-0.3),
    case(Cosine, False),
    case(Laplacian, True, gamma=0.25),
    # Radial covariances fit rows of any width; test_cluster_rbf has the others.
    case(MahalanobisRBF, True, covariance=2.5, gamma=0.4),
    case(ClusterRBF, False, partition=side, covariances=(0.5, 2.0), gamma=0.7),
]


def name_of(case):
    """Return what a test calls the case."""
    values = (getattr(v, "__name__", str(v)) for v in case.reference.keywords.values())
    return "-".join([case.kernel.name, *values])
