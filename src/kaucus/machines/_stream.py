"""State of ``partial_fit`` between two calls."""

from typing import NamedTuple

import numpy as np

from kaucus.backend import as_like, astype, concat_rows, dtype_name, to_numpy
from kaucus.kernels import kernel_expansion
from kaucus.machines._problem import Model
from kaucus.machines._targets import NO_UNIT, Targets, TargetUnit
from kaucus.representatives import Representatives
from kaucus.solvers import RunningSums


class KeptRows(NamedTuple):
    """Rows on the host, in the order in which they came."""

    rows: np.ndarray
    """Or a CSR matrix."""
    targets: np.ndarray
    """Labels, (n,), or outputs, (n, t)."""
    weight: np.ndarray
    keys: np.ndarray
    """Random numbers: those of the least are the sample."""

    def joined(self, other: "KeptRows") -> "KeptRows":
        """Return these rows and then the others."""
        rows = concat_rows(self.rows, astype(other.rows, dtype_name(self.rows)))
        pairs = zip(self[1:], other[1:], strict=True)
        return KeptRows(rows, *(np.concatenate(pair) for pair in pairs))

    def sample(self, n: int) -> "KeptRows":
        """Return n rows at random; all where there are fewer."""
        if len(self.keys) <= n:
            return self
        some = np.sort(np.argpartition(self.keys, n)[:n])
        return KeptRows(*(part[some] for part in self))

    def scaled(self, total: float) -> "KeptRows":
        """Return the rows with weights that sum to ``total``."""
        share = total / max(self.weight.sum(), 1e-300)
        return self if share == 1 else self._replace(weight=self.weight * share)


class Stream(NamedTuple):
    """State of ``partial_fit`` between two calls, without the model."""

    kept: KeptRows
    n_seen: int
    total: float
    """Weight of all rows seen."""
    groups: np.ndarray
    """Rows seen of each class; of all, for numbers."""
    rng: np.random.Generator
    """Draws the keys."""
    all_kept: bool
    n_chosen: int = 0
    """Rows seen when the model was chosen."""
    n_tuned: int = 0
    """Rows seen when kernel and C were chosen."""
    n_C: int = 0
    """Rows seen when C was looked at again; 0: it is due as soon as rows are gone."""
    groups_chosen: np.ndarray | None = None
    """``groups`` at that time."""
    sums: RunningSums | None = None
    """Equations of all rows seen; None: to be made of the rows kept."""
    precision: str | None = None
    """Of the kernel in these equations."""
    unit: TargetUnit = NO_UNIT
    """Of the targets of all rows: that of the first."""


def as_rows(
    model: Model, targets: Targets, memory_budget: int | str | None
) -> tuple[Representatives, np.ndarray]:
    """Return the representatives, and targets from which the model is fitted again.

    Least squares of the representatives alone, with targets t and weights W, have
    the solution a, b if K (W (K a + b − t) + a / C) = 0 and 1ᵀ W (K a + b − t) = 0.
    Both hold for t = f(Z) + W⁻¹ a / C where 1ᵀ a = 0, as in a machine of all rows,
    whose targets these are. Else the mean of W⁻¹ a is taken off, for the second.
    """
    chosen, solution = model.representatives, model.solution
    now = kernel_expansion(
        model.kernel,
        chosen.points,
        chosen.points,
        as_like(solution.dual_coef, chosen.points),
        memory_budget=memory_budget,
    )
    now = to_numpy(now) + to_numpy(solution.intercept)
    coef = to_numpy(solution.dual_coef).astype(np.float64)
    weight = chosen.weights
    if targets.n_groups > 1:
        weight = targets.like(chosen.labels).fit_weights(weight)
    assert weight is not None
    pull = coef / np.where(weight > 0, weight, np.inf)[:, None]
    pull = (pull - coef.sum(axis=0) / weight.sum()) / model.C
    return chosen, now + pull
