"""C and gamma of the k-means kernel estimators by leave-one-out on a part of the rows.

The columns are those of rows drawn at random, not of centres: a centre of a class's few
rows knows the label of the row that is left out, and leave-one-out would then choose
models that learn by heart. On four UCI sets with 100 centres a class, C and gamma found
on the centres gave 85.7 % of the test rows, those found on random rows 86.8 %.

Kernels are first compared with half of the columns, which costs less than a quarter;
the best two then with all. Classifiers are compared by the log-loss: the squared error
counts it against a model that some values are on the right side by more than 1. On 23
sets (docs/kmeans-kernel.md), with all rows as representatives: 89.5 % of the test rows
by the log-loss, 89.2 % by the squared error, 89.2 % by counting errors.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kaucus.backend import dense_rows, take_rows
from kaucus.estimators._kernel_input import beside
from kaucus.kernels import Kernel
from kaucus.solvers import LowRankSearch, search_on_representatives

CS = 10.0 ** np.arange(-2, 4.1, 0.5)
"""What ``C="auto"`` chooses from."""
GAMMA_FACTORS = 4.0 ** np.arange(-2, 3)
"""``gamma="tune"`` chooses from these times that of ``"scale"``."""
AUTO_KERNELS = ("exponential", "rbf")
"""What ``kernel="auto"`` chooses from."""
# Rows and columns of the search, where there are fewer rows than the first number. The
# more rows there are, the narrower is the best kernel, and few columns do not show it.
_SIZES = ((2000, 1000, 200), (50_000, 3000, 800), (math.inf, 5000, 1000))
# So many kernels, the best by half of the columns, are compared by all of them.
_FINALISTS = 2
# The least and the largest gamma are tried where the one next to them has less than
# this share of the loss of the one in the middle.
_OUTWARDS = 0.9


class Tuning(NamedTuple):
    """What was chosen."""

    kernel: Kernel
    C: float


def tune(
    paths: Sequence[Sequence[Kernel]],
    Cs: np.ndarray,
    rows,
    Y: np.ndarray,
    *,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    weight: np.ndarray | None,
    shares: np.ndarray | None,
    rng: np.random.Generator,
) -> Tuning:
    """Choose the kernel and C of the least leave-one-out loss.

    Parameters
    ----------
    paths : sequence of sequences of Kernel
        In each, kernels that differ by gamma, in its order.
    Cs : array of float
    rows : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
    loss : callable, or None
        Takes leave-one-out decision values for every C, (r, c, t), and the numbers of
        their rows; None is for squared errors.
    weight, shares : arrays of shape (n,), or None
        Weights, and the share of them that is left out.
    rng : numpy.random.Generator
        Draws the rows.
    """
    kernels = [kernel for path in paths for kernel in path]
    if len(kernels) == 1 and len(Cs) == 1:
        return Tuning(kernels[0], float(Cs[0]))
    present = np.arange(len(Y)) if weight is None else np.flatnonzero(weight)
    _, n_rows, n_columns = next(size for size in _SIZES if len(present) < size[0])
    some = rng.permutation(present)[:n_rows]
    Z = dense_rows(rows, some[:n_columns])
    part = take_rows(rows, beside(rows, some))

    def search(kernels: Sequence[Kernel], n_columns: int) -> LowRankSearch:
        return search_on_representatives(
            kernels,
            part,
            beside(Z, Y[some]),
            Z[:n_columns, :],
            Cs,
            loss=None if loss is None else lambda values: loss(values, some),
            sample_weight=None if weight is None else beside(Z, weight[some]),
            left_out=None if shares is None else beside(Z, shares[some]),
            first_rows=True,
        )

    if len(kernels) > _FINALISTS:
        # Where all rows are columns, a row of weight 2 is to be as good as two rows.
        first = n_columns // 2 if len(some) > n_columns else len(some)
        kernels = _finalists(paths, lambda k: search(k, first).losses.min(axis=1))
    found = search(kernels, Z.shape[0])
    return Tuning(kernels[found.best_kernel], found.best_C)


def _finalists(
    paths: Sequence[Sequence[Kernel]], look: Callable[[list[Kernel]], np.ndarray]
) -> list[Kernel]:
    """Return the best kernels by ``look``, which tells their losses.

    The ends of a path are looked at only where it falls towards them.
    """
    tried = [kernel for path in paths for kernel in _inner(path)]
    losses = look(tried)
    ends, start = [], 0
    for path in paths:
        inner = losses[start : start + len(_inner(path))]
        start += len(inner)
        best = int(np.argmin(inner))
        falls = inner[best] < _OUTWARDS * inner[len(inner) // 2]
        if len(inner) < len(path) and falls and best in (0, len(inner) - 1):
            ends.append(path[0] if best == 0 else path[-1])
    if ends:
        tried, losses = tried + ends, np.concatenate([losses, look(ends)])
    order = np.argsort(losses, kind="stable")[:_FINALISTS]
    return [tried[k] for k in order]


def _inner(path: Sequence[Kernel]) -> Sequence[Kernel]:
    return path[1:-1] if len(path) >= 5 else path
