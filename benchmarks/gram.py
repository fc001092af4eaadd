"""The Gram matrix of float32 rows: short sums by tiles against plain BLAS.

Prints the rate of each (half of a full product's operations count) as a share of
`ssyrk`'s, which sums all rows in float32, measured in turns so that a busy machine
slows all of them; then the error of both, over that of the matrix itself.

    python -m benchmarks.gram [ROWS]
"""

import sys
from time import perf_counter

import numpy as np
import scipy.linalg.blas

from kaucus._array.linalg import add_gram, mirror_lower, zero_gram


def syrk(A):
    return scipy.linalg.blas.ssyrk(1.0, A.T, lower=True)


def half_product(A):
    return A.T @ A[:, : A.shape[1] // 2]


def ours(A):
    return add_gram(zero_gram(A.shape[1], A), A)


def seconds(function, A):
    start = perf_counter()
    function(A)
    return perf_counter() - start


def errors(A):
    """Return the relative errors of ours and of `ssyrk`, on some columns."""
    A = np.ascontiguousarray(A[:, :500])
    wide = A.astype(np.float64)
    exact = wide.T @ wide
    plain = syrk(A)
    plain = np.tril(plain) + np.tril(plain, -1).T
    scale = np.linalg.norm(exact)
    return [np.linalg.norm(G - exact) / scale for G in (mirror_lower(ours(A)), plain)]


def main(n_rows: int) -> None:
    rng = np.random.default_rng(0)
    print("columns  ssyrk GFLOP/s  sgemm / ssyrk  ours / ssyrk  errors: ours  ssyrk")
    for n_columns in (1000, 2000, 4000, 6000, 8192):
        A = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
        rivals = [syrk, half_product, ours]
        times = [[seconds(f, A) for f in rivals] for _ in range(3)]
        plain, gemm, tiles = np.min(times, axis=0)
        rate = n_rows * n_columns**2 / plain / 1e9
        print(
            f"{n_columns:7d}  {rate:13.0f}  {plain / gemm:13.2f}  "
            f"{plain / tiles:12.2f}        {'  '.join(f'{e:.1e}' for e in errors(A))}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 16_384)
