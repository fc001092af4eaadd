"""Kernel evaluation: blocks in threads against one call with threaded BLAS.

Prints the rate of each as a share of the plain matrix product's, measured in turns so
that a busy machine slows all of them.

    python -m benchmarks.blocks [ROWS]
"""

import sys
from time import perf_counter

import numpy as np

from kaucus.kernels import Gaussian

GAMMA = 0.05


def one_call(X, Y):
    """Compute the Gaussian kernel as most people would write it."""
    D = X @ Y.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", Y, Y)[None, :]
    np.maximum(D, 0, out=D)
    D *= -GAMMA
    return np.exp(D, out=D)


def seconds(function, *args):
    start = perf_counter()
    function(*args)
    return perf_counter() - start


def main(n_rows: int) -> None:
    rng = np.random.default_rng(0)
    print("features  precision  GEMM GFLOP/s  one call  blocks in threads")
    for n_features in (20, 100, 784):
        for dtype in ("float32", "float64"):
            X, Y = (
                rng.normal(size=(n_rows, n_features)).astype(dtype) for _ in range(2)
            )
            rivals = [lambda A, B: A @ B.T, one_call, Gaussian(gamma=GAMMA)]
            times = [[seconds(f, X, Y) for f in rivals] for _ in range(6)][1:]
            gemm, call, blocks = np.min(times, axis=0)
            rate = 2 * n_rows**2 * n_features / gemm / 1e9
            print(
                f"{n_features:8d}  {dtype:9s}  {rate:12.0f}  {gemm / call:8.2f}  "
                f"{gemm / blocks:17.2f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6000)
