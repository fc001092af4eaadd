"""Load data sets by name, with cache, checksum and licence, or generate them.

Generators take a size and a seed, and return points and their classes.
"""

from kaucus.datasets._loaders import (
    load_a9a,
    load_cifar10,
    load_covtype,
    load_fashion_mnist,
    load_mnist,
    load_pendigits,
    load_satimage,
    load_shapes,
    load_uci,
)
from kaucus.datasets._synthetic import make_cassini, make_rings, make_smiley

__all__ = [
    "load_mnist",
    "load_fashion_mnist",
    "load_cifar10",
    "load_covtype",
    "load_pendigits",
    "load_satimage",
    "load_a9a",
    "load_uci",
    "load_shapes",
    "make_smiley",
    "make_cassini",
    "make_rings",
]
