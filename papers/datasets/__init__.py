"""Loaders of data sets by name, with cache, checksum and licence."""

from papers.datasets._loaders import (
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
]
