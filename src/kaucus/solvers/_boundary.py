"""On which of many rows to fit: those near the boundary between classes.

Most of many rows lie where a rough fit decides already. In least squares they are not
idle: each holds f at its target of ±1, and m representatives spend most of what they
can do on that. So a fit of fewer rows may be the better one, if they are well chosen:
a third of them those that a rough fit is least sure about, by the distance

    f_1(x) − f_2(x)    (2 |f(x)| for two classes)

of the two largest decision values, and the rest any others, which keep f in its place
elsewhere. It costs a fraction of a fit of all rows. (On digits, a third gave the least
error of rows held out, a half nearly the same.)

The distance does not look at the row's own class. So among the rows near some x the
shares of the classes stay as they were, and with them the boundary between classes that
overlap. The rows that the rough fit gets wrong would move it.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    RowSource,
    as_like,
    draw_some,
    itemsize,
    resolve_budget,
    row_blocks,
    stream_blocks,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel, kernel_expansion
from kaucus.solvers._low_rank import solve_on_representatives
from kaucus.solvers._part_equations import part_values
from kaucus.solvers._result import LSSVMSolution

# One row in so many is to be near the boundary.
_NEAR = 3
# Rows that are looked at in one go: on a device, so much of them is there.
_BLOCK_BYTES = 512 * 2**20


class NearBoundary(NamedTuple):
    """Rows to fit on, and the fit by which they were found."""

    rows: np.ndarray
    """Their numbers, ascending."""
    rough: LSSVMSolution
    """Of ``n_rough`` rows. Where its ``info`` tells of an interrupt, ``rows`` are
    these."""


def rows_near_boundary(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    n_rows: int,
    *,
    n_rough: int,
    C: float,
    rng: np.random.Generator,
    sample_weight: np.ndarray | None = None,
    memory_budget: int | str | None = None,
) -> NearBoundary:
    """Choose rows near the boundary and, twice as many, any others.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    Y : array of shape (n, t)
        Targets ±1, one column for two classes.
    Z : array of shape (m, d)
        The representatives of the rough fit.
    n_rows : int
        How many rows are wanted.
    n_rough : int
        How many random rows the rough fit is of; all where there are no more.
    C : float
    rng : numpy.random.Generator
        Draws the rows of the rough fit, and those that are not near the boundary.
    sample_weight : NumPy array of shape (n,), default=None
        Rows of weight zero are passed over.
    memory_budget : int, str or None, default=None
        As in :func:`solve_on_representatives`.

    Returns
    -------
    NearBoundary

    Notes
    -----
    n m (d + t) + n_rough m (d + m/2) multiplications.
    """
    present = np.arange(X.shape[0])
    if sample_weight is not None:
        present = np.flatnonzero(sample_weight)
    some = np.sort(draw_some(rng, present, n_rough))
    weight = None if sample_weight is None else as_like(sample_weight[some], Y)
    rough = solve_on_representatives(
        kernel,
        X if len(some) == X.shape[0] else take_rows(X, some),
        take_rows(Y, some),
        Z,
        C=C,
        sample_weight=weight,
        memory_budget=memory_budget,
    )
    doubt = undecided(_values(kernel, X, Z, rough, memory_budget))
    order = present[np.argsort(-doubt[present], kind="stable")]
    n_near = -(-n_rows // _NEAR)
    others = rng.permutation(order[n_near:])[: n_rows - n_near]
    return NearBoundary(np.sort(np.concatenate([order[:n_near], others])), rough)


def undecided(values: np.ndarray) -> np.ndarray:
    """Return minus the distance of the two largest decision values, (n,).

    One column is for two classes, of which the other has the values −f.

    >>> undecided(np.array([[0.5, -1.0, 0.25], [1.0, -1.0, -1.0]]))
    array([-0.25, -2.  ])
    >>> undecided(np.array([[0.5], [-0.25]]))
    array([-1. , -0.5])
    """
    if values.shape[1] == 1:
        return -2 * np.abs(values[:, 0])
    largest = np.partition(values, -2, axis=1)[:, -2:]
    return largest[:, 0] - largest[:, 1]


def _values(
    kernel: Kernel, X: Array, Z: Array, fit: LSSVMSolution, memory_budget
) -> np.ndarray:
    """Return the decision values of all rows, (n, t)."""
    if isinstance(X, RowSource):
        values = part_values(X, kernel, Z, fit.dual_coef, fit.intercept)
        return np.concatenate(values)
    n, d = X.shape
    block = min(_BLOCK_BYTES, resolve_budget(memory_budget, Z) // 4)
    parts = []
    for rows in stream_blocks(X, list(row_blocks(n, d * itemsize(Z), block))):
        sums = kernel_expansion(
            kernel, rows, Z, fit.dual_coef, memory_budget=memory_budget
        )
        parts.append(to_numpy(sums + fit.intercept[None, :]))
    return np.concatenate(parts)
