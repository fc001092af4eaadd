"""All kernels, each with its reference: a new kernel is one line here."""

from functools import partial
from typing import NamedTuple

from kaucus.kernels import (
    Cauchy,
    Cosine,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
)
from tests.reference import kernels as reference


class Case(NamedTuple):
    """A kernel and what the tests must know of it."""

    kernel: Kernel
    reference: partial
    """The same as a function of two rows."""
    translation_invariant: bool


def case(cls, translation_invariant, **params):
    function = partial(getattr(reference, cls.name), **params)
    return Case(cls(**params), function, translation_invariant)


CASES = [
    case(Linear, False),
    case(Polynomial, False, degree=1, gamma=0.5, coef0=0.0),
    case(Polynomial, False, degree=4, gamma=1.0, coef0=0.0),
    case(Polynomial, False, degree=3, gamma=0.3, coef0=1.5),
    case(Gaussian, True, gamma=0.4),
    case(Exponential, True, gamma=0.7),
    case(Cauchy, True, gamma=1.3),
    case(Sigmoid, False, gamma=0.2, coef0=-0.3),
    case(Cosine, False),
    case(Laplacian, True, gamma=0.25),
]


def name_of(case):
    """Return what a test calls the case."""
    return "-".join([case.kernel.name, *map(str, case.reference.keywords.values())])
