"""Leave-one-out models, with conformal intervals and sets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    few_threads_for,
    format_bytes,
    map_blocks,
    n_workers,
    resolve_budget,
    row_blocks,
)
from kaucus._array.linalg import (
    add_to_diagonal,
    cho_solve,
    cholesky_with_jitter,
    diagonal,
    inverse_diagonal,
    solve_triangular,
)
from kaucus._array.namespace import Array
from kaucus._array.rows import stream_blocks
from kaucus._array.segments import draw_some
from kaucus.kernels._kernel import Kernel
from kaucus.solvers._columns import (
    RowData,
    block_height,
    bytes_per_row,
    factor_equations,
    sum_equations,
)
from kaucus.solvers._system import (
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
    softmax,
)

# ----------------------------------------------------------------------------------
# Every leave-one-out model of a least-squares kernel machine, from one factorisation.
#
# The prediction of a least-squares machine is a weighted sum of the targets,
# f(x) = Σᵢ vᵢ(x) yᵢ. Without row i it is
#
#     f⁽⁻ⁱ⁾(x) = f(x) − vᵢ(x) eᵢ,
#
# with eᵢ = yᵢ − f⁽⁻ⁱ⁾(xᵢ) the leave-one-out residual. All n models at once cost one
# product. Rows of weight zero are in no model, and are not left out. For an LS-SVM of
# all rows, in the symbols of ``_system``,
#
#     q = H⁻¹ S^½ k(x),    vᵢ = √sᵢ (qᵢ + ηᵢ (1 − uᵀq) / uᵀη);
#
# for least squares on representatives see below.
#
# The same factor gives the variance of f(x) in the Gaussian process with the kernel s²
# k, noise s²/(C sᵢ) and a flat prior of the intercept,
#
#     s² (k(x, x) − k(x)ᵀ S^½ q + (1 − uᵀq)² / uᵀη),    s² = yᵀ H⁻¹ (y − b) / n,
#
# the scale of the largest likelihood for n rows that have a weight. Of that likelihood,
# y ~ N(b, s² (K + S⁻¹/C)), the logarithm at these b and s² is
#
#     −½ (n + n log 2π s² + log |K + S⁻¹/C|).
#
# Everything is in float64.
#
# References: R. F. Barber et al., "Predictive inference with the jackknife+", Annals of
# Statistics 49, 486 (2021); C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for
# Machine Learning" (2006), Sec. 2.7.
# ----------------------------------------------------------------------------------

# The factor, and the copies that solving for a block of rows makes.
_MATRICES = 1.25


class LeftOutRows(NamedTuple):
    """Leave-one-out residuals and values of the training rows."""

    residuals: Array
    """e, (r, t)."""
    values: Array
    """f⁽⁻ⁱ⁾(xᵢ), (r, t)."""
    numbers: np.ndarray | None = None
    """Which rows, of those that have a weight; None: all rows."""


@dataclass(frozen=True, eq=False)
class ExactLeftOut:
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
    C: float
    scale: Array
    """s², (t,)."""
    left_out: LeftOutRows

    def columns(self, x: Array) -> Array:
        """Return k(x), (b, n), which the other methods take."""
        return self.kernel(nx.astype(x, "float64"), nx.astype(self.X, "float64"))

    def influence(self, K: Array) -> Array:
        """Return v_i(x) of every row i that is left out, (b, r)."""
        q, rest = self._solved(K)
        weights = self.u * (q + self.eta * rest[None, :])
        return take_optional(weights, self.left_out.numbers).T

    def variance(self, x: Array, K: Array) -> Array:
        """Return the variance of f(x) over s², (b,)."""
        xp = nx.array_namespace(K)
        q, rest = self._solved(K)
        on_diagonal = nx.astype(self.kernel.diag(nx.astype(x, "float64")), "float64")
        explained = xp.sum(self.u * K.T * q, axis=0)
        return on_diagonal - explained + rest**2 * xp.sum(self.u * self.eta)

    def covariance(self, x: Array, K: Array) -> Array:
        """Return the covariances of f(x) over s², (b, b)."""
        q, rest = self._solved(K)
        among = nx.astype(self.kernel(nx.astype(x, "float64")), "float64")
        total = nx.array_namespace(K).sum(self.u * self.eta)
        return among - (self.u * K.T).T @ q + rest[:, None] * rest[None, :] * total

    def log_determinant(self) -> float:
        """Return log |K + S⁻¹/C| of the rows that have a weight."""
        xp, u = nx.array_namespace(self.u), self.u[:, 0]
        present = u > 0
        logs = xp.where(present, xp.log(xp.where(present, u, xp.ones_like(u))), 0 * u)
        absent = u.shape[0] - int(xp.count_nonzero(present))
        of_factor = xp.sum(xp.log(diagonal(self.L)))
        return float(2 * of_factor - 2 * xp.sum(logs)) + absent * math.log(self.C)

    def _solved(self, K: Array) -> tuple[Array, Array]:
        """Return q, (n, b), and (1 − uᵀq) / uᵀη, (b,)."""
        xp = nx.array_namespace(K)
        q = cho_solve(self.L, self.u * K.T)
        rest = (1 - xp.sum(self.u * q, axis=0)) / xp.sum(self.u * self.eta)
        return q, rest


def leave_out_rows(
    data: RowData, *, C: float, memory_budget: int | str | None = None
) -> ExactLeftOut:
    """Return every leave-one-out model of an LS-SVM, by one factorisation.

    Parameters
    ----------
    data : RowData
    C : float
    memory_budget : int, str or None, default=None

    Raises
    ------
    MemoryError
        If the factor, n × n in float64, does not fit into the budget.

    Notes
    -----
    n³/3 multiplications, and n² for each row x.
    """
    (kernel, X, Y, weight), n = data, data.X.shape[0]
    needed, budget = int(_MATRICES * 8 * n * n), resolve_budget(memory_budget, Y)
    if needed > budget:
        raise MemoryError(
            f"Leave-one-out models of {n} rows need {format_bytes(needed)}, "
            f"memory_budget allows {format_bytes(budget)}; hold rows out and use "
            "method='split', or use a larger memory_budget."
        )
    targets = scale_targets(Y, weight)
    xp = nx.array_namespace(targets.Y)
    with few_threads_for(n):
        K = kernel(nx.astype(X, "float64"))
        H = scale_matrix(nx.astype(K, "float64"), targets.root, overwrite=True)
        L, _ = cholesky_with_jitter(add_to_diagonal(H, 1 / C), overwrite=True)
        solved = cho_solve(L, xp.concat([targets.u, targets.Y], axis=1))
        eta = solved[:, :1]
        coef = eliminate_intercept(targets, eta, solved[:, 1:])
        e = loo_residuals(coef, inverse_diagonal(L), eta, targets)
    numbers = rows_with_weight(weight)
    e, Y = (take_optional(part, numbers) for part in (e, nx.astype(Y, "float64")))
    scale = xp.sum(targets.Y * coef.scaled_coef, axis=0) / e.shape[0]
    rows = LeftOutRows(e, Y - e, numbers)
    return ExactLeftOut(kernel, X, L, eta, targets.u, C, scale, rows)


def rows_with_weight(sample_weight: Array | None) -> np.ndarray | None:
    """Return the numbers of the rows that have a weight; None: all."""
    if sample_weight is None:
        return None
    numbers = np.flatnonzero(nx.to_numpy(sample_weight))
    return None if len(numbers) == sample_weight.shape[0] else numbers


def take_optional(values: Array, numbers: np.ndarray | None) -> Array:
    """Return the rows with the given numbers; all where there are none."""
    return values if numbers is None else nx.take_rows(values, numbers)


# ----------------------------------------------------------------------------------
# Every leave-one-out model of least squares on representatives, from one pass.
#
# In the symbols of ``_columns`` and of the part above,
#
#     vᵢ(x) = sᵢ (c(x)ᵀ A⁻¹ cᵢ + 1/σ),    c(x) = k_m(x) − k̄.
#
# The variance of f(x) is that of the projected process, exact where the representatives
# are all rows:
#
#     s² (k(x, x) − k_m(x)ᵀ K_mm⁻¹ k_m(x) + (c(x)ᵀ A⁻¹ c(x) + 1/σ) / C).
#
# Reference: C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
# Learning" (2006), Sec. 8.3.4.
# ----------------------------------------------------------------------------------

# Rows left out of a source that is read part by part: they come to this process.
_SOURCE_ROWS = 10_000
_BLOCK_BYTES = 64 * 2**20
# Centred columns, those times a factor, and its squares exist beside the columns.
_BLOCK_COPIES = 4
# Directions of K_mm of less than this share of the largest are left out.
_SMALLEST = 1e-12
# Of the spread of the targets: by so much the rows may seem to have changed.
_SAME_ROWS = 2.0**-4


@dataclass(frozen=True, eq=False)
class RepresentedLeftOut:
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
        return self.kernel(nx.astype(x, "float64"), self.Z)

    def influence(self, K: Array) -> Array:
        """Return v_i(x) of every row i that is left out, (b, r)."""
        xp = nx.array_namespace(K)
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
        xp = nx.array_namespace(K)
        on_diagonal = nx.astype(self.kernel.diag(nx.astype(x, "float64")), "float64")
        missed = on_diagonal - xp.sum(solve_triangular(self.L_mm, K.T) ** 2, axis=0)
        half = solve_triangular(self.L, (K - self.mean).T)
        known = (xp.sum(half**2, axis=0) + 1 / self.total) / self.C
        return xp.maximum(missed, xp.zeros_like(missed)) + known

    def covariance(self, x: Array, K: Array) -> Array:
        """Return the covariances of f(x) over s², (b, b)."""
        among = nx.astype(self.kernel(nx.astype(x, "float64")), "float64")
        seen = solve_triangular(self.L_mm, K.T)
        half = solve_triangular(self.L, (K - self.mean).T)
        known = (half.T @ half + 1 / self.total) / self.C
        return among - seen.T @ seen + known

    def log_determinant(self) -> float:
        """Return log |K_nm K_mm⁻¹ K_mn + S⁻¹/C| of the rows that have a weight.

        = log |I + C Φᵀ S Φ| − Σ log (C s) with Φ = K_nm K_mm^(−½), row by row: the
        factors L and L_mm have no digits where K_mm is nearly singular.
        """
        xp, n = nx.array_namespace(self.L), self.left_out.residuals.shape[0]
        s = xp.ones_like(self.left_out.residuals[:, 0])
        s = s if self.weight is None else self.weight
        if abs(float(xp.sum(s)) - self.total) > 1e-6 * self.total:
            raise ValueError(
                "the evidence is of all rows, and rows in parts are not kept; fit rows "
                "in memory"
            )
        eigenvalues, V = xp.linalg.eigh(self.kernel(self.Z))
        kept = int(xp.count_nonzero(eigenvalues > _SMALLEST * eigenvalues[-1]))
        root = V[:, -kept:] / xp.sqrt(eigenvalues[-kept:])[None, :]
        total = xp.eye(kept, dtype=xp.float64, device=nx.device_of(root))
        slices = _row_slices(self.X, self.Z, self.block_bytes)
        for rows, block in zip(slices, stream_blocks(self.X, slices), strict=True):
            features = self.columns(block) @ root
            total = total + self.C * (features.T @ (features * s[rows, None]))
        of_rows = float(xp.sum(xp.log(s))) + n * math.log(self.C)
        return float(xp.sum(xp.log(xp.linalg.eigvalsh(total)))) - of_rows


LeftOutModels = ExactLeftOut | RepresentedLeftOut


def move_left_out(models: LeftOutModels, like: Array) -> LeftOutModels:
    """Return the models in the library and on the device of ``like``.

    Rows that stay on the host for a device stay there.
    """
    arrays = ("X", "Z", "L", "L_mm", "eta", "u", "mean", "weight", "scale")
    there = {
        name: nx.as_like(getattr(models, name), like)
        for name in arrays
        if hasattr(models, name)
    }
    rows = models.left_out
    residuals, values = nx.as_like(rows.residuals, like), nx.as_like(rows.values, like)
    there["left_out"] = LeftOutRows(residuals, values, rows.numbers)
    return replace(models, **there)


def leave_out_on_representatives(
    data: RowData,
    Z: Array,
    dual_coef: Array,
    intercept: Array,
    *,
    C: float,
    memory_budget: int | str | None = None,
    rng: np.random.Generator,
) -> RepresentedLeftOut:
    """Return every leave-one-out model of least squares on representatives.

    Parameters
    ----------
    data : RowData
        The rows that were fitted. Of a source, at most 10,000 at random are left out.
    Z : array of shape (m, d)
    dual_coef : array of shape (m, t)
        Of the fitted model.
    intercept : array of shape (t,)
        Of the fitted model; a shift of it is one of all leave-one-out models too.
    C : float
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
    Z = nx.astype(Z, "float64")
    given, data = data.X, data.within(memory_budget)
    budget = resolve_budget(memory_budget, data.Y)
    height = block_height(data, budget, Z, more_matrices=2)
    row = bytes_per_row(Z.shape[0], Z)
    with few_threads_for(max(given.shape[0], Z.shape[0])):
        K_mm = data.kernel(Z)
        shift = nx.array_namespace(K_mm).mean(K_mm, axis=0)  # k₀
        sums = sum_equations(data, Z, shift, height)
        factor, _, coef, mean = factor_equations(sums, K_mm, C, nx.epsilon(Z))
        mean = mean + shift
        solution = (coef, sums.target_sum / sums.weight - mean @ coef)
        X, Y, weight, numbers = _rows_to_leave_out(given, data, rng)
        models = RepresentedLeftOut(
            kernel=data.kernel,
            X=X,
            Z=Z,
            mean=mean,
            L=factor.L,
            L_mm=cholesky_with_jitter(K_mm, rounding=nx.epsilon(Z), overwrite=True).L,
            weight=weight,
            total=sums.weight,
            C=C,
            block_bytes=min(height * row // _BLOCK_COPIES, _BLOCK_BYTES),
            scale=sums.target_sum,  # until the residuals are known, as the targets
            left_out=LeftOutRows(Y, Y, numbers),
        )
        return _with_residuals(models, solution, (dual_coef, intercept))


def _rows_to_leave_out(X: Array, data: RowData, rng):
    """Return rows that have a weight, targets and weights, float64, and numbers."""
    numbers = rows_with_weight(data.sample_weight)
    in_parts = not data.X.local
    if in_parts:
        present = X.shape[0] if numbers is None else numbers
        numbers = np.sort(draw_some(rng, present, _SOURCE_ROWS))
    Y, weight = (
        None if part is None else take_optional(nx.astype(part, "float64"), numbers)
        for part in (data.Y, data.sample_weight)
    )
    if in_parts:
        return nx.as_like(nx.take_rows(X, numbers), Y), Y, weight, numbers
    X = X if numbers is None else nx.rows_in_order(X, numbers)
    return X, Y, weight, numbers


def _with_residuals(models: RepresentedLeftOut, solution, given):
    """Return the models with leave-one-out residuals, and s².

    ``solution`` and ``given`` are the coefficients and the intercept of the least
    squares and of the fitted model, whose intercept may have been moved.
    """
    Y, xp = models.left_out.values, nx.array_namespace(models.left_out.values)
    coef = xp.concat([solution[0], nx.astype(given[0], "float64")], axis=1)
    intercept = xp.concat([solution[1], nx.astype(given[1], "float64")])
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
    return replace(models, scale=scale, left_out=rows)


def _check_same_rows(difference: Array, Y: Array) -> None:
    """Raise where the least squares of the rows are not the fitted model."""
    xp = nx.array_namespace(Y)
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


# ----------------------------------------------------------------------------------
# Prediction intervals and sets from leave-one-out models, or from rows held out.
#
# Jackknife+ at the level 1 − α, with the residuals eᵢ and the models f⁽⁻ⁱ⁾ of n rows:
# the interval reaches from the ⌊α(n+1)⌋-th smallest f⁽⁻ⁱ⁾(x) − |eᵢ| to the
# ⌈(1−α)(n+1)⌉-th smallest f⁽⁻ⁱ⁾(x) + |eᵢ|. Cross-conformal sets hold the classes j with
#
#     #{i : s(f⁽⁻ⁱ⁾(x), j) > s(f⁽⁻ⁱ⁾(xᵢ), yᵢ)} < (1−α)(n+1),
#
# where the score s is the larger, the less a class conforms. Every row counts as one,
# whatever its weight in the fit: new rows are drawn as these were. Rows held out
# together (split conformal) have one model: the quantile of their scores is that of n +
# 1 rows.
#
# References: R. F. Barber et al., "Predictive inference with the jackknife+", Annals of
# Statistics 49, 486 (2021); Y. Romano, M. Sesia, E. Candès, "Classification with valid
# and adaptive coverage" (NeurIPS 2020); M. Sadinle, J. Lei, L. Wasserman, "Least
# ambiguous set-valued classifiers with bounded error levels", JASA 114, 223 (2019).
# ----------------------------------------------------------------------------------

# (1−α)(n+1) of a whole number may come out larger by rounding.
_ROUNDING = 1e-9
_STRIP_BYTES = 4 * 2**20


def check_enough_rows(total: int, levels: Sequence[float]) -> None:
    """Raise where an interval of some level would be the whole line."""
    largest = max(levels)
    if largest * (total + 1) > total + _ROUNDING * (total + 1):
        needed = math.ceil(largest / (1 - largest) - _ROUNDING)
        raise ValueError(
            f"confidence_level={largest:g} needs at least {needed} rows to compare "
            f"with, and there are {total}; use a lower level, or more rows."
        )


def conformal_quantiles(values: Array, levels: Sequence[float]) -> list[Array]:
    """Return the conformal quantile of each level, (b,) each.

    Parameters
    ----------
    values : array of shape (b, n)
    levels : sequence of float
        (level)(n + 1) values are at most the result; infinite where there are not so
        many.
    """
    total = values.shape[1]
    wanted = [level * (total + 1) * (1 - _ROUNDING) for level in levels]
    finite = [one for one in wanted if one <= total]
    found = values_of_rank(values, [max(math.ceil(one), 1) - 1 for one in finite])
    infinite = nx.array_namespace(values).full_like(values[:, 0], float("inf"))
    rest = iter(found)
    return [next(rest) if one <= total else infinite for one in wanted]


def left_out_intervals(
    f: Array, influence: Array, residuals: Array, levels: Sequence[float], method: str
) -> Array:
    """Return intervals by leave-one-out models, (b, 2, n_levels, t).

    Parameters
    ----------
    f : array of shape (b, t)
        Predictions of the model of all rows.
    influence : array of shape (b, n)
        v_i(x), as the leave-one-out models give it.
    residuals : array of shape (n, t)
        Leave-one-out residuals e.
    levels : sequence of float
    method : {"plus", "minmax"}
    """
    xp = nx.array_namespace(f)

    def ends(f: Array, v: Array) -> Array:
        outputs = []
        for j in range(f.shape[1]):
            e = residuals[:, j]
            models = f[:, j : j + 1] - v * e[None, :]  # f⁽⁻ⁱ⁾(x), (b, n)
            pairs = _plus if method == "plus" else _minmax
            ends = [xp.stack(p, axis=1) for p in pairs(models, e, levels)]
            outputs.append(xp.stack(ends, axis=2))
        return xp.stack(outputs, axis=3)

    return _by_strips(ends, f, influence, 4)


def _plus(models: Array, e: Array, levels) -> list[tuple[Array, Array]]:
    size = nx.array_namespace(e).abs(e)[None, :]
    highs = conformal_quantiles(models + size, levels)
    lows = conformal_quantiles(size - models, levels)
    return [(-low, high) for low, high in zip(lows, highs, strict=True)]


def _minmax(models: Array, e: Array, levels) -> list[tuple[Array, Array]]:
    xp = nx.array_namespace(e)
    lowest, highest = xp.min(models, axis=1), xp.max(models, axis=1)
    return [(lowest - w, highest + w) for w in _widths(e, levels)]


def _by_strips(
    function: Callable[[Array, Array], Array], f: Array, v: Array, n_numbers: int
) -> Array:
    """Return a function of rows of ``f`` and ``v``, of a few at a time, in threads.

    Strips stay in cache: beside these, larger ones take twice the time. A GPU takes all
    rows at once.
    """
    b, n = v.shape
    limit = b * n if nx.on_gpu(f) else _STRIP_BYTES // (8 * n_numbers)
    parts = map_blocks(
        lambda rows: function(f[rows, :], v[rows, :]),
        row_blocks(b, n, limit),
        workers=n_workers(f),
    )
    return nx.array_namespace(f).concat(list(parts), axis=0)


def widened_intervals(
    low: Array, high: Array, scores: Array, levels: Sequence[float]
) -> Array:
    """Return [low − q, high + q] with quantiles q of scores, (b, 2, n_levels, t).

    Scores of rows not seen, (n, t): |y − f| where low = high = f, or max(low − y,
    y − high) of two quantiles (Y. Romano, E. Patterson, E. J. Candès, "Conformalized
    quantile regression", NeurIPS 2019). No interval is narrower than a point.
    """
    xp, outputs = nx.array_namespace(low), []
    for j in range(low.shape[1]):
        a, b, ends = low[:, j], high[:, j], []
        for q in conformal_quantiles(scores[:, j][None, :], levels):
            width = xp.maximum(xp.ones_like(a) * q[0], (a - b) / 2)
            ends.append(xp.stack([a - width, b + width], axis=1))
        outputs.append(xp.stack(ends, axis=2))
    return xp.stack(outputs, axis=3)


def _widths(e: Array, levels: Sequence[float]) -> list[Array]:
    size = nx.array_namespace(e).abs(e)[None, :]
    return [width[0] for width in conformal_quantiles(size, levels)]


# ---- sets ----------------------------------------------------------------------------


def class_scores(decision: Array, temperature: float, score: str) -> Array:
    """Return nonconformity scores of the classes, (r, k), from decision values, (r, k).

    Parameters
    ----------
    decision : array of shape (r, k)
    temperature : float
        Of the softmax.
    score : {"lac", "aps"}
        "lac": 1 − p. "aps": the probability of all classes that are more probable, 0
        for the most probable one.
    """
    xp = nx.array_namespace(decision)
    p = softmax(decision, temperature)
    if score == "lac":
        return 1 - p
    total = xp.zeros_like(p)
    for j in range(p.shape[1]):
        other = p[:, j : j + 1]
        total = total + xp.where(other > p, other, xp.zeros_like(p))
    return total


def left_out_sets(
    f: Array,
    influence: Array,
    residuals: Array,
    own: Array,
    levels: Sequence[float],
    score: Callable[[Array], Array],
) -> Array:
    """Return membership of classes in cross-conformal sets, (b, k, n_levels).

    Parameters
    ----------
    f : array of shape (b, t)
        Decision values of the model of all rows.
    influence : array of shape (b, n)
        v_i(x), as the leave-one-out models give it.
    residuals : array of shape (n, t)
        Leave-one-out residuals e.
    own : array of shape (n,)
        Score of each row's own class, by the model without it.
    levels : sequence of float
    score : callable
        Decision values, (r, t), to scores of the classes, (r, k).
    """
    xp = nx.array_namespace(f)
    wanted = [level * (own.shape[0] + 1) * (1 - _ROUNDING) for level in levels]

    def sets(f: Array, v: Array) -> Array:
        # Class by class in memory: sums over a short last axis are slow in NumPy.
        models = [
            f[:, j : j + 1] - v * residuals[None, :, j] for j in range(f.shape[1])
        ]
        scores = score(xp.reshape(xp.stack(models, axis=0), (len(models), -1)).T)
        scores = xp.reshape(scores.T, (-1, *v.shape))  # (k, b, n)
        beaten = xp.sum(xp.astype(scores > own, own.dtype), axis=2).T
        return xp.stack([beaten < one for one in wanted], axis=2)

    return _by_strips(sets, f, influence, 4 * max(2, f.shape[1]))


def split_sets(scores: Array, own: Array, levels: Sequence[float]) -> Array:
    """Return the sets of classes whose score is within that of held-out rows.

    Parameters
    ----------
    scores : array of shape (b, k)
    own : array of shape (n,)
        Scores of the classes of rows held out.
    levels : sequence of float

    Returns
    -------
    array of shape (b, k, n_levels)
        Of bool.
    """
    xp = nx.array_namespace(scores)
    limits = conformal_quantiles(own[None, :], levels)
    return xp.stack([scores <= limit[0] for limit in limits], axis=2)


# ---- order statistics ----------------------------------------------------------------


def values_of_rank(values: Array, ranks: Sequence[int]) -> list[Array]:
    """Return the values of given ranks in each row of ``values``, (b, n): (b,) each.

    Parameters
    ----------
    values : array of shape (b, n)
    ranks : sequence of int
        0 is the smallest, in any order.

    Notes
    -----
    In NumPy by partial sorts, one rank after the other on what is above the last: five
    times faster than a whole one, for three of the upper ranks of 2,000 values.
    """
    if nx.is_numpy(values):
        return _by_partitions(values, ranks)
    xp = nx.array_namespace(values)
    ordered = xp.sort(values, axis=1)
    # Copies: the sorted values need not be kept.
    return [xp.asarray(ordered[:, rank], copy=True) for rank in ranks]


def _by_partitions(values: np.ndarray, ranks: Sequence[int]) -> list[np.ndarray]:
    found, start = {}, 0
    for rank in sorted(set(ranks)):
        values = np.partition(values, rank - start, axis=1)[:, rank - start :]
        found[rank], start = values[:, 0].copy(), rank
    return [found[rank] for rank in ranks]
