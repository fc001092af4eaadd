"""Every leave-one-out model of a least-squares kernel machine, from one factorisation.

The prediction of a least-squares machine is a weighted sum of the targets,
f(x) = Σᵢ vᵢ(x) yᵢ. Without row i it is

    f⁽⁻ⁱ⁾(x) = f(x) − vᵢ(x) eᵢ,

with eᵢ = yᵢ − f⁽⁻ⁱ⁾(xᵢ) the leave-one-out residual. All n models at once cost one
product. Rows of weight zero are in no model, and are not left out. For an LS-SVM of all
rows, in the symbols of ``_scaling``,

    q = H⁻¹ S^½ k(x),    vᵢ = √sᵢ (qᵢ + ηᵢ (1 − uᵀq) / uᵀη);

for least squares on representatives see ``_left_out_on_representatives``.

The same factor gives the variance of f(x) in the Gaussian process with the kernel s² k,
noise s²/(C sᵢ) and a flat prior of the intercept,

    s² (k(x, x) − k(x)ᵀ S^½ q + (1 − uᵀq)² / uᵀη),    s² = yᵀ H⁻¹ (y − b) / n,

the scale of the largest likelihood for n rows that have a weight. Everything is in
float64.

References: R. F. Barber et al., "Predictive inference with the jackknife+", Annals of
Statistics 49, 486 (2021); C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for
Machine Learning" (2006), Sec. 2.7.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    astype,
    cho_solve,
    cholesky_with_jitter,
    few_threads_for,
    format_bytes,
    inverse_diagonal,
    resolve_budget,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._scaling import (
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
)

# The factor, and the copies that solving for a block of rows makes.
_MATRICES = 1.25


class LeftOutRows(NamedTuple):
    """What the models without a row say of that row."""

    residuals: Array
    """e, (r, t)."""
    values: Array
    """f⁽⁻ⁱ⁾(xᵢ), (r, t)."""
    numbers: np.ndarray | None = None
    """Which rows, of those that have a weight; None: all rows."""


class ExactLeftOut(NamedTuple):
    """The models without one of the rows, of an LS-SVM of all rows."""

    kernel: Kernel
    X: Array
    """(n, d)."""
    L: Array
    """Of H = S^½ K S^½ + I/C = L Lᵀ, (n, n)."""
    eta: Array
    """H⁻¹ u, (n, 1)."""
    u: Array
    """√s, (n, 1)."""
    scale: Array
    """s², (t,)."""
    left_out: LeftOutRows

    def columns(self, x: Array) -> Array:
        """Return k(x), (b, n), which the other methods take."""
        return self.kernel(astype(x, "float64"), astype(self.X, "float64"))

    def influence(self, K: Array) -> Array:
        """Return v_i(x) of every row i that is left out, (b, r)."""
        q, rest = self._solved(K)
        weights = self.u * (q + self.eta * rest[None, :])
        return take_optional(weights, self.left_out.numbers).T

    def variance(self, x: Array, K: Array) -> Array:
        """Return the variance of f(x) over s², (b,)."""
        xp = array_namespace(K)
        q, rest = self._solved(K)
        on_diagonal = astype(self.kernel.diag(astype(x, "float64")), "float64")
        explained = xp.sum(self.u * K.T * q, axis=0)
        return on_diagonal - explained + rest**2 * xp.sum(self.u * self.eta)

    def _solved(self, K: Array) -> tuple[Array, Array]:
        """Return q, (n, b), and (1 − uᵀq) / uᵀη, (b,)."""
        xp = array_namespace(K)
        q = cho_solve(self.L, self.u * K.T)
        rest = (1 - xp.sum(self.u * q, axis=0)) / xp.sum(self.u * self.eta)
        return q, rest


def leave_out_rows(
    kernel: Kernel,
    X: Array,
    Y: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    memory_budget: int | str | None = None,
) -> ExactLeftOut:
    """Return every leave-one-out model of an LS-SVM, by one factorisation.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    Y : array of shape (n, t)
    C : float
    sample_weight : array of shape (n,), default=None
    memory_budget : int, str or None, default=None

    Raises
    ------
    MemoryError
        If the factor, n × n in float64, does not fit into the budget.

    Notes
    -----
    n³/3 multiplications, and n² for each row x.
    """
    n = X.shape[0]
    needed, budget = int(_MATRICES * 8 * n * n), resolve_budget(memory_budget, Y)
    if needed > budget:
        raise MemoryError(
            f"Leave-one-out models of {n} rows need {format_bytes(needed)}, "
            f"memory_budget allows {format_bytes(budget)}; hold rows out and use "
            "method='split', or use a larger memory_budget."
        )
    targets = scale_targets(Y, sample_weight)
    xp = array_namespace(targets.Y)
    with few_threads_for(n):
        K = kernel(astype(X, "float64"))
        H = scale_matrix(astype(K, "float64"), targets.root, overwrite=True)
        L, _ = cholesky_with_jitter(add_to_diagonal(H, 1 / C), overwrite=True)
        solved = cho_solve(L, xp.concat([targets.u, targets.Y], axis=1))
        eta = solved[:, :1]
        coef = eliminate_intercept(targets, eta, solved[:, 1:])
        e = loo_residuals(coef, inverse_diagonal(L), eta, targets)
    numbers = rows_with_weight(sample_weight)
    e, Y = (take_optional(part, numbers) for part in (e, astype(Y, "float64")))
    scale = xp.sum(targets.Y * coef.scaled_coef, axis=0) / e.shape[0]
    rows = LeftOutRows(e, Y - e, numbers)
    return ExactLeftOut(kernel, X, L, eta, targets.u, scale, rows)


def rows_with_weight(sample_weight: Array | None) -> np.ndarray | None:
    """Return the numbers of the rows that have a weight; None: all."""
    if sample_weight is None:
        return None
    numbers = np.flatnonzero(to_numpy(sample_weight))
    return None if len(numbers) == sample_weight.shape[0] else numbers


def take_optional(values: Array, numbers: np.ndarray | None) -> Array:
    """Return the rows with the given numbers; all where there are none."""
    return values if numbers is None else take_rows(values, numbers)
