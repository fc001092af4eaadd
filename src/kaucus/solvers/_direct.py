"""Direct solutions: one Cholesky factorisation, or one decomposition for every C.

    [ 0   1ᵀ ] [ b ]   [ 0 ]
    [ 1   H  ] [ A ] = [ Y ],    H = K + I/C

(Andrecut 2016, eq. 16 with γ = C; Andrecut 2020, eq. 7 with ε = 1/C). The intercept is
eliminated: H η = 1, H ν = Y, b = 1ᵀν / 1ᵀη, A = ν − η b; see ``_system`` for weights
and for the leave-one-out formula.

Precision. A float32 factorisation takes half the time and memory of a float64 one. It
is used as the preconditioner of a few conjugate gradient steps on the float64 system,
until the backward error is that of a float64 factorisation. Where H is so ill
conditioned that float32 could not factor it, a little is added to its diagonal: that
makes the preconditioner worse, by C times what was added, but never changes the
solution. Where it would take too many steps, the factorisation is in float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from kaucus._array import namespace as nx
from kaucus._array.blocks import for_each_block, map_blocks, n_workers, row_blocks
from kaucus._array.linalg import (
    NotPositiveDefiniteError,
    add_to_diagonal,
    cho_solve,
    cholesky,
    cholesky_with_jitter,
    diagonal,
    eigh,
    inverse_diagonal,
    operator_norm,
    restore_lower,
    solve_triangular,
)
from kaucus._array.namespace import Array
from kaucus.solvers._cg import conjugate_gradient
from kaucus.solvers._system import (
    LSSVMSolution,
    ScaledTargets,
    SolveInfo,
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
)

# Below this size a float64 factorisation is over before refinement pays. Measured with
# 2 cores (benchmarks/mixed_precision.py): it pays from about 4,000 rows on if K is
# float32, from 8,000 on if it is float64.
MIXED_FROM = 4000
_EPS32 = float(np.finfo(np.float32).eps)
# Below this value of ‖H‖ ‖H⁻¹‖ ε₃₂ a float32 factorisation is safe as it is; above it,
# this share of ‖H‖ ε₃₂ on the diagonal makes it so for most kernels.
_SAFE = 0.05
_JITTER = 0.3
# What a float32 factorisation saves grows with n³, what refinement takes with n² times
# the steps, 12 κ^0.4 of them where the condition of the preconditioned system is 1 + κ:
# 5, 12, 24 and 43 at 0.05, 1, 5 and 25. It pays up to κ = 1 from so many rows on (at
# 9,000 rows and κ = 1, 8.1 s against 6.4 s in float64), and never where κ is large.
_PAYS_FROM, _WORST_CONDITION = 15_000, 30.0
_MAX_REFINEMENTS = 200
# Bytes of one float64 block in which a float32 matrix is multiplied.
_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class _Factored:
    """H with its factor and norm."""

    L: Array
    matvec: Callable[[Array], Array] | None
    precision: str
    jitter: float
    """Jitter of H itself, part of the solution."""
    norm: float
    preconditioner_jitter: float = 0.0
    """Jitter of the factored copy only; refinement removes it."""


def solve_ls_svm(
    K: Array,
    Y: Array,
    *,
    C: float,
    sample_weight: Array | None = None,
    n_leave_one_out: int = 0,
    precision: str = "auto",
    refine_tol: float = 0.0,
    overwrite_K: bool = False,
) -> LSSVMSolution:
    """Solve the bordered LS-SVM system for all columns of ``Y`` at once.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric positive semidefinite kernel matrix, float32 or float64.
    Y : array of shape (n, t)
        Targets.
    C : float
        H = K + I/C.
    sample_weight : array of shape (n,), default=None
        Weights of the rows, zero or more.
    n_leave_one_out : int, default=0
        For how many rows, counted from the last, leave-one-out decision values are
        wanted. The last rows, because the corner of the factor that belongs to them
        has all that is needed: m rows cost m³, not n² m.
    precision : {"auto", "float64", "mixed", "float32"}, default="auto"
        Of the factorisation; "auto" takes "mixed" where it is faster and as
        accurate. "float32" leaves out the refinement of "mixed": for comparisons of
        models, of which only the best is fitted again.
    refine_tol : float, default=0.0
        Backward error at which the refinement of "mixed" may end, if larger than that
        of a float64 factorisation.
    overwrite_K : bool, default=False
        Whether the memory of ``K`` may be used. It saves one n × n matrix.

    Returns
    -------
    LSSVMSolution
        In float64. ``info.jitter`` above zero must be reported to the user.

    Raises
    ------
    NotPositiveDefiniteError
        If H is indefinite by more than rounding.

    Notes
    -----
    n³/3 + 2 n² (t + 1) multiplications. Memory beside K: one n × n matrix, none with
    ``overwrite_K``; half a matrix more where a float64 K is factored in float32.
    """
    targets = scale_targets(Y, sample_weight)
    if precision == "auto" and K.shape[0] < MIXED_FROM:
        precision = "float64"
    if precision == "float64" and nx.dtype_name(K) == "float32":
        K, overwrite_K = nx.astype(K, "float64"), True
    H = scale_matrix(K, targets.root, overwrite=overwrite_K)
    factored = _factor(H, C, precision)
    B = nx.array_namespace(Y).concat([targets.u, targets.Y], axis=1)
    Z, info = _solve(factored, B, refine_tol)
    eta = Z[:, :1]
    coef = eliminate_intercept(targets, eta, Z[:, 1:])
    dual_coef, intercept, loo = coef.dual_coef, coef.intercept, None
    if n_leave_one_out:
        if factored.preconditioner_jitter:
            # Of the factored system, so that coefficients and inverse fit together.
            Z = _apply_factor(factored.L, B)
            eta, coef = Z[:, :1], eliminate_intercept(targets, Z[:, :1], Z[:, 1:])
        residuals = loo_residuals(
            coef,
            _last_of_inverse_diagonal(factored.L, n_leave_one_out),
            eta,
            targets,
            rows=_last_rows(n_leave_one_out, Y),
        )
        loo = nx.astype(Y[-n_leave_one_out:, :], "float64") - residuals
    return LSSVMSolution(dual_coef, intercept, loo, info)


def _factor(H: Array, C: float, precision: str) -> _Factored:
    """Factor H + I/C, in the memory of H, in the precision that fits."""
    if precision == "float64":
        return _factor_float64(H, C)
    # The diagonal stays in float64: 1/C may be less than the rounding of K's.
    on_diagonal = nx.astype(diagonal(H), "float64") + 1 / C
    rng = np.random.default_rng(0)  # only an estimate of the norm hangs on it
    norm = operator_norm(lambda v: H @ v, diagonal(H)[:, None], rng) + 1 / C
    worst = _worst_condition(H) if precision == "auto" else math.inf
    for jitter in _float32_jitters(norm, C, worst):
        mixed = _factor_mixed(H, C, on_diagonal, norm, jitter)
        if mixed is not None:
            refined = precision != "float32"
            return mixed if refined else replace(mixed, precision="float32")
    return _factor_float64(H, C)


def _worst_condition(H: Array) -> float:
    """Return up to which κ a float32 factor with refinement takes less time.

    A float32 matrix would have to be copied to be factored in float64.
    """
    if nx.dtype_name(H) == "float32":
        return _WORST_CONDITION
    return min((H.shape[0] / _PAYS_FROM) ** 2.5, _WORST_CONDITION)


def _float32_jitters(norm: float, C: float, worst: float) -> list[float]:
    """Return the jitters to try on the diagonal of a float32 factor, in turn.

    Of a matrix that is not safe without, no more than ``worst`` over C.
    """
    rounding = norm * _EPS32
    if rounding * C <= _SAFE:
        return [0.0, _JITTER * rounding]
    jitters = [_JITTER * rounding * 10.0**k for k in range(3)]
    return [j for j in jitters if j * C <= worst]


def _factor_float64(H: Array, C: float) -> _Factored:
    H = add_to_diagonal(nx.astype(H, "float64"), 1 / C)
    L, jitter = cholesky_with_jitter(H, overwrite=True)
    return _Factored(L, None, "float64", jitter, 0.0)


def _factor_mixed(
    H: Array, C: float, on_diagonal: Array, norm: float, jitter: float
) -> _Factored | None:
    """Return the float32 factor of H + (1/C + jitter) I; None, H unchanged, if none."""
    ridge = 1 / C + jitter
    if nx.is_numpy(H) and nx.dtype_name(H) == "float32":
        # One float32 matrix for both: the factor goes into the lower triangle, H
        # stays in the strict upper one.
        before = diagonal(H)
        L = cholesky(add_to_diagonal(H, np.float32(ridge)), overwrite=True)
        if L is None:
            restore_lower(H, before)
            return None
        product = _upper_product(H, on_diagonal)
    else:
        L = cholesky(add_to_diagonal(_float32_copy(H), ridge), overwrite=True)
        if L is None:
            return None
        product = _float64_product(H, on_diagonal)
    return _Factored(L, product, "mixed", 0.0, norm, jitter)


def _float32_copy(H: Array) -> Array:
    """Return a copy in float32; of a NumPy array in threads, NumPy narrows in one."""
    if not nx.is_numpy(H):
        xp = nx.array_namespace(H)
        return xp.astype(H, xp.float32, copy=True)
    out = np.empty(H.shape, dtype=np.float32)

    def narrow(rows: slice) -> None:
        out[rows] = H[rows]

    blocks = row_blocks(H.shape[0], 8 * H.shape[1], _BLOCK_BYTES)
    for_each_block(narrow, blocks, workers=n_workers(H))
    return out


def _float64_product(H: Array, on_diagonal: Array) -> Callable[[Array], Array]:
    """Return V -> H V in float64, with ``on_diagonal`` in place of H's diagonal."""
    xp = nx.array_namespace(H)
    correction = (on_diagonal - nx.astype(diagonal(H), "float64"))[:, None]

    def product(V: Array) -> Array:
        blocks = row_blocks(H.shape[0], 8 * H.shape[1], _BLOCK_BYTES)
        parts = [nx.astype(H[s, :], "float64") @ V for s in blocks]
        return xp.concat(parts) + correction * V

    return product


def _upper_product(H: np.ndarray, on_diagonal: np.ndarray):
    """Return V -> H V in float64, reading only the strict upper triangle of H."""
    n = H.shape[0]
    panels = list(row_blocks(n, 8 * n, _BLOCK_BYTES))

    def product(V: np.ndarray) -> np.ndarray:
        def panel_product(rows: slice):
            panel = H[rows, rows.start :].astype(np.float64)  # (height, n - start)
            height = rows.stop - rows.start
            panel[:, :height] = np.triu(panel[:, :height], k=1)
            return rows, panel @ V[rows.start :], panel.T @ V[rows]

        out = on_diagonal[:, None] * V
        # In threads, because NumPy widens numbers in one.
        for rows, right, below in map_blocks(
            panel_product, panels, workers=n_workers()
        ):
            out[rows] += right
            out[rows.start :] += below
        return out

    return product


def _solve(factored: _Factored, B: Array, refine_tol: float) -> tuple[Array, SolveInfo]:
    """Solve H Z = B by the factor, with refinement where it is in float32."""
    if factored.precision == "float64":
        Z = cho_solve(factored.L, B)
        return Z, SolveInfo("cholesky", jitter=factored.jitter)
    if factored.precision == "float32":
        info = SolveInfo(
            "cholesky", precision="float32", jitter=factored.preconditioner_jitter
        )
        return _apply_factor(factored.L, B), info
    assert factored.matvec is not None
    # The backward error of a float64 factorisation, as LAPACK's dsposv has it.
    tol = max(B.shape[0] ** 0.5 * float(np.finfo(np.float64).eps), refine_tol)
    result = conjugate_gradient(
        factored.matvec,
        B,
        tol=tol,
        max_iter=_MAX_REFINEMENTS,
        operator_norm=factored.norm,
        precondition=lambda R: _apply_factor(factored.L, R),
    )
    info = SolveInfo(
        "cholesky",
        precision="mixed",
        n_iter=result.n_iter,
        backward_error=result.backward_error,
        converged=result.converged,
    )
    return result.x, info


def _apply_factor(L: Array, B: Array) -> Array:
    """Return (L Lᵀ)⁻¹ B in float64, computed in the precision of L."""
    return nx.astype(cho_solve(L, nx.astype(B, nx.dtype_name(L))), "float64")


def _last_rows(m: int, like: Array) -> Array:
    xp = nx.array_namespace(like)
    return xp.arange(like.shape[0] - m, like.shape[0], device=nx.device_of(like))


def _last_of_inverse_diagonal(L: Array, m: int) -> Array:
    """Return the last ``m`` entries of the diagonal of H⁻¹, from H = L Lᵀ.

    The last m × m corner of H⁻¹ is (L₂₂ L₂₂ᵀ)⁻¹ with the last corner L₂₂ of L.
    """
    return nx.astype(inverse_diagonal(L[-m:, -m:]), "float64")


# ----------------------------------------------------------------------------------
# Least squares on few kernel columns, for several values of C.
#
# With the columns K of m of the rows, their own matrix K_mm, and k̄, ȳ and σ as in
# ``_columns``,
#
#     (Kᵀ S K − σ k̄ k̄ᵀ + K_mm / C) a = Kᵀ S Y − σ k̄ ȳᵀ,    b = ȳ − k̄ᵀ a:
#
# one Gram matrix serves every C, which then takes a Cholesky factorisation of m × m.
# ----------------------------------------------------------------------------------

# Added to the diagonal, relative to it. Columns of wide kernels nearly depend on each
# other; without it their coefficients would hang on the rounding of the sums, and so
# on the number of threads.
_RIDGE = 1e-10


class ColumnModels(NamedTuple):
    """Functions f(x) = Σ_q a_q k(x, z_q) + b, one for each C, in float64."""

    coef: Array
    """a, (m, c, t)."""
    intercept: Array
    """b, (c, t)."""

    def values(self, K: Array) -> Array:
        """Return f of rows whose kernel columns are ``K``, (r, m), for each C."""
        xp = nx.array_namespace(K)
        m, c, t = self.coef.shape
        sums = nx.astype(K, "float64") @ xp.reshape(self.coef, (m, c * t))
        return xp.reshape(sums, (-1, c, t)) + self.intercept[None, :, :]


def solve_columns(
    K: Array, Y: Array, Cs: Sequence[float], sample_weight: Array | None = None
) -> ColumnModels:
    """Return least-squares models on m kernel columns, (n, m), for each C; float64.

    n m² / 2 multiplications, and m³ / 6 for each C.
    """
    xp, m = nx.array_namespace(K), K.shape[1]
    K, Y, weight = _wide(K, Y, sample_weight)
    total = float(xp.sum(weight))
    # Less the means of K_mm, or the Gram matrix of a wide kernel has no digits left.
    K_mm, shift = K[:m, :], xp.mean(K[:m, :], axis=0)
    K = K - shift[None, :]
    mean, centre = (weight @ K) / total, (weight @ Y) / total
    if sample_weight is not None:
        K, Y = K * xp.sqrt(weight)[:, None], Y * xp.sqrt(weight)[:, None]
    right = K.T @ Y - total * mean[:, None] * centre[None, :]
    S = K.T @ K - total * mean[:, None] * mean[None, :]
    S = add_to_diagonal(S, _RIDGE * float(xp.mean(diagonal(S))))
    coefs = _solve_each(S, K_mm, right, Cs)
    intercepts = [centre - (mean + shift) @ coef for coef in coefs]
    return ColumnModels(xp.stack(coefs, axis=1), xp.stack(intercepts))


def _wide(K: Array, Y: Array, sample_weight: Array | None) -> tuple:
    """Return columns, targets and weights in float64."""
    K, Y = nx.astype(K, "float64"), nx.astype(Y, "float64")
    if sample_weight is None:
        return K, Y, nx.array_namespace(Y).ones_like(Y[:, 0])
    return K, Y, nx.astype(sample_weight, "float64")


def _solve_each(S: Array, K_mm: Array, right: Array, Cs: Sequence[float]) -> list:
    """Return (S + K_mm / C)⁻¹ right for each C."""
    if nx.is_numpy(S):
        try:  # NumPy's, which needs no lock of Python
            factors = [np.linalg.cholesky(S + K_mm / float(C)) for C in Cs]
            # Without SciPy's checks: small systems, in thousands.
            (solve,) = scipy.linalg.get_lapack_funcs(("potrs",), (S,))
            return [solve(L.T, right)[0] for L in factors]
        except np.linalg.LinAlgError:
            pass
    systems = (S + K_mm / float(C) for C in Cs)
    factors = (cholesky_with_jitter(A, overwrite=True) for A in systems)
    return [cho_solve(factor.L, right) for factor in factors]


# ----------------------------------------------------------------------------------
# Leave-one-out of least squares on representatives, for every C.
#
# With K_mm = L Lᵀ and the weighted, centred rows Φ = S^½ (K_nm − 1 k̄ᵀ) L⁻ᵀ, the system
# of ``_columns`` is a ridge regression on Φ. With ΦᵀΦ = V Λ Vᵀ and P = Φ V,
#
#     f_C(x_i) − ȳ = s_i^-½ P_i (Λ + I/C)⁻¹ Pᵀ S^½ (Y − ȳ),
#     h_i(C)       = P_i (Λ + I/C)⁻¹ P_iᵀ + s_i / σ,
#
# and (y_i − f(x_i)) / (1 − h_i) is by how much a model fitted without row i misses it.
# So after one decomposition, every C costs n m (t + 1): two products for all of them.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LowRankSpectrum:
    """Least squares on representatives, decomposed: everything but C."""

    eigenvalues: Array
    """Λ, (m,)."""
    P: Array
    """(n, m)."""
    projected: Array
    """Pᵀ S^½ (Y − ȳ), (m, t)."""
    residuals: Array
    """Y − ȳ, (n, t)."""
    weight: Array
    """S, (n,)."""
    Y: Array


def decompose_low_rank(
    K_nm: Array, K_mm: Array, Y: Array, sample_weight: Array | None = None
) -> LowRankSpectrum:
    """Decompose the least squares of rows, K_nm (n, m) in float64, on representatives.

    Overwrites the matrices.
    """
    Phi, Y, weight = _wide(K_nm, Y, sample_weight)
    xp = nx.array_namespace(Y)
    shares = weight / xp.sum(weight)
    residuals = Y - (shares @ Y)[None, :]
    Phi -= (shares @ Phi)[None, :]
    Phi *= xp.sqrt(weight)[:, None]
    L = cholesky_with_jitter(K_mm, overwrite=True).L
    Phi = solve_triangular(L, Phi.T).T
    eigenvalues, V = eigh(Phi.T @ Phi)
    P = Phi @ V
    return LowRankSpectrum(
        xp.maximum(eigenvalues, xp.zeros_like(eigenvalues)),
        P,
        P.T @ (residuals * xp.sqrt(weight)[:, None]),
        residuals,
        weight,
        Y,
    )


def leave_one_out_errors(spectrum: LowRankSpectrum, Cs: Sequence[float]) -> Array:
    """Return leave-one-out errors for each C, (n, c, t).

    Rows of weight zero, which no model was fitted without, have numbers of no meaning.
    """
    P, projected, weight = spectrum.P, spectrum.projected, spectrum.weight
    xp = nx.array_namespace(P)
    (n, m), (c, t) = P.shape, (len(Cs), projected.shape[1])
    ridges = 1 / xp.asarray(Cs, dtype=P.dtype, device=nx.device_of(P))
    inverse = 1 / (spectrum.eigenvalues[:, None] + ridges[None, :])  # (m, c)
    coef = xp.reshape(inverse[:, :, None] * projected[:, None, :], (m, c * t))
    roots = xp.sqrt(xp.where(weight > 0, weight, xp.ones_like(weight)))
    fitted = xp.reshape(P @ coef, (n, c, t)) / roots[:, None, None]
    leverage = P**2 @ inverse + (weight / xp.sum(weight))[:, None]  # (n, c)
    kept = xp.clip(1 - leverage, min=1e-12)
    return (spectrum.residuals[:, None, :] - fitted) / kept[:, :, None]


# ----------------------------------------------------------------------------------
# An LS-SVM for every C: with S^½ K S^½ = U Λ Uᵀ, H⁻¹ = U (Λ + I/C)⁻¹ Uᵀ. So each C
# costs n² t multiplications, and the leave-one-out decision values (see ``_system``)
# come with it, without a refit. (G. C. Cawley, N. L. C. Talbot, "Fast exact
# leave-one-out cross-validation of sparse least-squares support vector machines",
# Neural Networks 17, 1467 (2004).)
# ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LSSVMSpectrum:
    """An LS-SVM problem, decomposed: everything but C."""

    eigenvalues: Array
    """Λ, ascending, (n,)."""
    eigenvectors: Array
    """U, (n, n)."""
    projected: Array
    """Uᵀ [u, S^½ Y], (n, 1 + t)."""
    targets: ScaledTargets
    Y: Array


def decompose_ls_svm(
    K: Array, Y: Array, *, sample_weight: Array | None = None
) -> LSSVMSpectrum:
    """Decompose an LS-SVM with the kernel matrix (n, n) and targets (n, t), in float64.

    Raises NotPositiveDefiniteError where an eigenvalue is negative by more than the
    rounding of ``K``.
    """
    xp = nx.array_namespace(K, Y)
    targets = scale_targets(Y, sample_weight)
    H = scale_matrix(nx.astype(K, "float64"), targets.root)
    eigenvalues, U = eigh(H)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -10 * K.shape[0] * nx.epsilon(K) * abs(largest):
        raise NotPositiveDefiniteError(
            f"The kernel matrix has the eigenvalue {smallest:.3e} (the largest is "
            f"{largest:.3e}); a least-squares SVM needs a positive semidefinite one."
        )
    eigenvalues = xp.maximum(eigenvalues, xp.zeros_like(eigenvalues))
    projected = U.T @ xp.concat([targets.u, targets.Y], axis=1)
    return LSSVMSpectrum(eigenvalues, U, projected, targets, nx.astype(Y, "float64"))


def solve_at(spectrum: LSSVMSpectrum, C: float) -> LSSVMSolution:
    """Solve for one C; leave-one-out decision values of all rows are included."""
    inverse = 1 / (spectrum.eigenvalues + 1 / C)  # (n,)
    U, targets = spectrum.eigenvectors, spectrum.targets
    Z = U @ (inverse[:, None] * spectrum.projected)  # H⁻¹ [u, S^½ Y]
    eta, nu = Z[:, :1], Z[:, 1:]
    coef = eliminate_intercept(targets, eta, nu)
    inverse_diagonal = (U**2) @ inverse
    residuals = loo_residuals(coef, inverse_diagonal, eta, targets)
    return LSSVMSolution(
        coef.dual_coef, coef.intercept, spectrum.Y - residuals, SolveInfo("eigh")
    )
