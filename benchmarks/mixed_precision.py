"""The LS-SVM solve: a float32 factor with refinement against a float64 factor.

Prints seconds of both, their ratio, and how far the solutions differ.

    python -m benchmarks.mixed_precision
"""

import numpy as np

from kaucus.kernels import Gaussian
from kaucus.solvers._direct import solve_ls_svm
from papers import best_of

N_TARGETS = 10


def main() -> None:
    rng = np.random.default_rng(0)
    print("  rows       C  float64 s  mixed s  ratio  steps  largest difference")
    for n_rows in (500, 1000, 2000, 4000, 8000):
        X = rng.normal(size=(n_rows, 20))
        Y = np.sign(rng.normal(size=(n_rows, N_TARGETS)))
        K = Gaussian(gamma=0.02)(X)
        for C in (1.0, 100.0):
            runs = [
                best_of(3, solve_ls_svm, K, Y, C=C, precision=precision)
                for precision in ("float64", "mixed")
            ]
            (exact, slow), (mixed, fast) = runs
            difference = np.abs(mixed.dual_coef - exact.dual_coef).max()
            scale = np.abs(exact.dual_coef).max()
            print(
                f"{n_rows:6d}  {C:6g}  {slow:9.3f}  {fast:7.3f}  {slow / fast:5.2f}  "
                f"{mixed.info.n_iter:5d}  {difference / scale:.1e} of the largest"
            )


if __name__ == "__main__":
    main()
