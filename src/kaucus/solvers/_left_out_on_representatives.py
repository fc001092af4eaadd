"""Every leave-one-out model of least squares on representatives, from one pass.

In the symbols of ``_equations`` and ``_left_out``,

    vᵢ(x) = sᵢ (c(x)ᵀ A⁻¹ cᵢ + 1/σ),    c(x) = k_m(x) − k̄.

The variance of f(x) is that of the projected process, exact where the representatives
are all rows:

    s² (k(x, x) − k_m(x)ᵀ K_mm⁻¹ k_m(x) + (c(x)ᵀ A⁻¹ c(x) + 1/σ) / C).

Reference: C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning"
(2006), Sec. 8.3.4.
"""

from typing import NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    RowSource,
    array_namespace,
    as_like,
    astype,
    cho_solve,
    cholesky_with_jitter,
    draw_some,
    epsilon,
    few_threads_for,
    is_numpy,
    resolve_budget,
    row_blocks,
    rows_in_order,
    solve_triangular,
    stream_blocks,
    take_rows,
)
from kaucus.kernels import Kernel
from kaucus.solvers._equations import RowData, bytes_per_row, factor_equations
from kaucus.solvers._left_out import (
    ExactLeftOut,
    LeftOutRows,
    rows_with_weight,
    take_optional,
)
from kaucus.solvers._low_rank import block_bytes, sum_equations

# Rows left out of a source that is read part by part: they come to this process.
_SOURCE_ROWS = 10_000
_BLOCK_BYTES = 64 * 2**20
# Of the spread of the targets: by so much the rows may seem to have changed.
_SAME_ROWS = 2.0**-4


class RepresentedLeftOut(NamedTuple):
    """The models without one of the rows, of least squares on representatives."""

    kernel: Kernel
    X: Array
    """The rows that are left out, (r, d)."""
    Z: Array
    """The representatives, (m, d), float64."""
    mean: Array
    """k̄, (m,)."""
    L: Array
    """Of A = L Lᵀ, (m, m)."""
    L_mm: Array
    """Of K_mm = L_mm L_mmᵀ, (m, m)."""
    weight: Array | None
    """s, (r,)."""
    total: float
    """σ."""
    C: float
    block_bytes: int
    """For kernel columns of the rows that are left out, a block at a time."""
    scale: Array
    left_out: LeftOutRows

    def columns(self, x: Array) -> Array:
        """Return k_m(x), (b, m), which the other methods take."""
        return self.kernel(astype(x, "float64"), self.Z)

    def influence(self, K: Array) -> Array:
        """Return v_i(x) of every row i that is left out, (b, r)."""
        xp = array_namespace(K)
        solved = cho_solve(self.L, (K - self.mean).T)  # A⁻¹ c(x), (m, b)
        slices = _row_slices(self.X, self.Z, self.block_bytes)
        parts = [
            solved.T @ (self.columns(block) - self.mean).T
            for block in stream_blocks(self.X, slices)
        ]
        weights = xp.concat(parts, axis=1) + 1 / self.total
        return weights if self.weight is None else weights * self.weight[None, :]

    def variance(self, x: Array, K: Array) -> Array:
        """Return the variance of f(x) over s², (b,)."""
        xp = array_namespace(K)
        on_diagonal = astype(self.kernel.diag(astype(x, "float64")), "float64")
        missed = on_diagonal - xp.sum(solve_triangular(self.L_mm, K.T) ** 2, axis=0)
        half = solve_triangular(self.L, (K - self.mean).T)
        known = (xp.sum(half**2, axis=0) + 1 / self.total) / self.C
        return xp.maximum(missed, xp.zeros_like(missed)) + known


LeftOutModels = ExactLeftOut | RepresentedLeftOut


def move_left_out(models: LeftOutModels, like: Array) -> LeftOutModels:
    """Return the models in the library and on the device of ``like``.

    Rows that stay on the host for a device stay there.
    """
    arrays = ("X", "Z", "L", "L_mm", "eta", "u", "mean", "weight", "scale")
    there = {
        name: as_like(getattr(models, name), like)
        for name in arrays
        if hasattr(models, name) and not isinstance(getattr(models, name), HostRows)
    }
    if isinstance(models.X, HostRows) and is_numpy(like):
        there["X"] = models.X.values
    rows = models.left_out
    residuals, values = (as_like(part, like) for part in rows[:2])
    there["left_out"] = LeftOutRows(residuals, values, rows.numbers)
    return models._replace(**there)


def leave_out_on_representatives(
    kernel: Kernel,
    X: Array,
    Y: Array,
    Z: Array,
    dual_coef: Array,
    intercept: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    memory_budget: int | str | None = None,
    rng: np.random.Generator,
) -> RepresentedLeftOut:
    """Return every leave-one-out model of least squares on representatives.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix, HostRows or RowSource of shape (n, d)
        The rows that were fitted. Of a source, at most 10,000 at random are left out.
    Y : array of shape (n, t)
    Z : array of shape (m, d)
    dual_coef : array of shape (m, t)
        Of the fitted model.
    intercept : array of shape (t,)
        Of the fitted model; a shift of it is one of all leave-one-out models too.
    C : float
    sample_weight : array of shape (n,), default=None
    memory_budget : int, str or None, default=None
    rng : numpy.random.Generator
        Draws the rows of a source.

    Raises
    ------
    ValueError
        If the rows are not those that the model was fitted to.

    Notes
    -----
    n m d + n m²/2 multiplications for the factor, n m² for the residuals, and n m for
    each row x.
    """
    Z = astype(Z, "float64")
    budget = resolve_budget(memory_budget, Y)
    # The targets of a row source are beside its rows.
    targets = Y[:0] if isinstance(X, RowSource) else Y
    step = block_bytes(targets, budget, Z, more_matrices=2)
    blocks = _row_slices(targets, Z, step)
    data = RowData(kernel, X, Y, sample_weight)
    with few_threads_for(max(X.shape[0], Z.shape[0])):
        K_mm = kernel(Z)
        shift = array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
        sums = sum_equations(data, Z, shift, blocks, None)
        factor, _, coef, mean = factor_equations(sums, K_mm, C, epsilon(Z))
        mean = mean + shift
        solution = (coef, sums.target_sum / sums.weight - mean @ coef)
        X, Y, weight, numbers = _rows_to_leave_out(data, rng)
        models = RepresentedLeftOut(
            kernel=kernel,
            X=X,
            Z=Z,
            mean=mean,
            L=factor.L,
            L_mm=cholesky_with_jitter(K_mm, rounding=epsilon(Z), overwrite=True).L,
            weight=weight,
            total=sums.weight,
            C=C,
            block_bytes=min(step, _BLOCK_BYTES),
            scale=sums.target_sum,  # until the residuals are known, as the targets
            left_out=LeftOutRows(Y, Y, numbers),
        )
        return _with_residuals(models, solution, (dual_coef, intercept))


def _rows_to_leave_out(data: RowData, rng):
    """Return rows that have a weight, targets and weights, float64, and numbers."""
    numbers = rows_with_weight(data.sample_weight)
    from_source = isinstance(data.X, RowSource)
    if from_source:
        present = data.X.shape[0] if numbers is None else numbers
        numbers = np.sort(draw_some(rng, present, _SOURCE_ROWS))
    Y, weight = (
        None if part is None else take_optional(astype(part, "float64"), numbers)
        for part in data[2:]
    )
    if from_source:
        return as_like(take_rows(data.X, numbers), Y), Y, weight, numbers
    X = data.X if numbers is None else rows_in_order(data.X, numbers)
    return X, Y, weight, numbers


def _with_residuals(models: RepresentedLeftOut, solution, given):
    """Return the models with leave-one-out residuals, and s².

    ``solution`` and ``given`` are the coefficients and the intercept of the least
    squares and of the fitted model, whose intercept may have been moved.
    """
    Y, xp = models.left_out.values, array_namespace(models.left_out.values)
    coef = xp.concat([solution[0], astype(given[0], "float64")], axis=1)
    intercept = xp.concat([solution[1], astype(given[1], "float64")])
    values, leverage = [], []
    slices = _row_slices(models.X, models.Z, models.block_bytes)
    for block in stream_blocks(models.X, slices):
        K = models.columns(block)
        values.append(K @ coef + intercept[None, :])
        half = solve_triangular(models.L, (K - models.mean).T)  # L⁻¹ c_i
        leverage.append(xp.sum(half**2, axis=0) + 1 / models.total)
    f, t = xp.concat(values, axis=0), Y.shape[1]
    weight = xp.ones_like(Y[:, 0]) if models.weight is None else models.weight
    residuals, kept = Y - f[:, :t], 1 - weight * xp.concat(leverage)
    e = residuals / xp.maximum(kept, xp.full_like(kept, 1e-12))[:, None]
    moved = xp.mean(f[:, t:] - f[:, :t], axis=0)
    _check_same_rows(f[:, t:] - f[:, :t] - moved, Y)
    # H⁻¹ (y − b) = C S (y − f)
    scale = xp.mean(weight[:, None] * Y * residuals, axis=0) * models.C
    rows = LeftOutRows(e, Y - e + moved, models.left_out.numbers)
    return models._replace(scale=scale, left_out=rows)


def _check_same_rows(difference: Array, Y: Array) -> None:
    """Raise where the least squares of the rows are not the fitted model."""
    xp = array_namespace(Y)
    spread = xp.sqrt(xp.mean((Y - xp.mean(Y, axis=0)) ** 2, axis=0))
    changed = xp.sqrt(xp.mean(difference**2, axis=0))
    rounding = 1e-9 * xp.max(xp.abs(Y), axis=0)  # of targets that are all the same
    if not bool(xp.all(changed <= _SAME_ROWS * spread + rounding)):
        raise ValueError(
            "The training rows are not as they were in fit: the least squares of them "
            f"differ from the model by {float(xp.max(changed)):.2g}. Fit again, and "
            "leave the array as it is; or hold rows out and use method='split'."
        )


def _row_slices(X: Array, Z: Array, n_bytes: int) -> list[slice]:
    return list(row_blocks(X.shape[0], bytes_per_row(Z.shape[0], Z), n_bytes))
