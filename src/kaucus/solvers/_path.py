"""Every C from one eigendecomposition, with leave-one-out values in closed form.

With S^½ K S^½ = U Λ Uᵀ,  H⁻¹ = U (Λ + I/C)⁻¹ Uᵀ for every C: after one decomposition,
each C costs n² t multiplications, and the leave-one-out decision values (see
``_scaling``) come with it, without a refit.

Reference: G. C. Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of
sparse least-squares support vector machines", Neural Networks 17, 1467 (2004).
"""

from typing import NamedTuple

from kaucus.backend import (
    Array,
    NotPositiveDefiniteError,
    array_namespace,
    astype,
    eigh,
    epsilon,
)
from kaucus.solvers._result import LSSVMSolution, SolveInfo
from kaucus.solvers._scaling import (
    ScaledTargets,
    eliminate_intercept,
    loo_residuals,
    scale_matrix,
    scale_targets,
)


class LSSVMSpectrum(NamedTuple):
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
    """Decompose an LS-SVM problem in float64.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric positive semidefinite kernel matrix.
    Y : array of shape (n, t)
    sample_weight : array of shape (n,), default=None

    Raises
    ------
    NotPositiveDefiniteError
        If an eigenvalue is negative by more than the rounding of ``K``.
    """
    xp = array_namespace(K, Y)
    targets = scale_targets(Y, sample_weight)
    H = scale_matrix(astype(K, "float64"), targets.root)
    eigenvalues, U = eigh(H)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -10 * K.shape[0] * epsilon(K) * abs(largest):
        raise NotPositiveDefiniteError(
            f"The kernel matrix has the eigenvalue {smallest:.3e} (the largest is "
            f"{largest:.3e}); a least-squares SVM needs a positive semidefinite one."
        )
    eigenvalues = xp.maximum(eigenvalues, xp.zeros_like(eigenvalues))
    projected = U.T @ xp.concat([targets.u, targets.Y], axis=1)
    return LSSVMSpectrum(eigenvalues, U, projected, targets, astype(Y, "float64"))


def solve_at(
    spectrum: LSSVMSpectrum, C: float, *, left_out: Array | None = None
) -> LSSVMSolution:
    """Solve for one C; leave-one-out decision values of all rows are included.

    ``left_out`` is the share of each row's weight that is left out, (n,); None means
    all of it.
    """
    inverse = 1 / (spectrum.eigenvalues + 1 / C)  # (n,)
    U, targets = spectrum.eigenvectors, spectrum.targets
    Z = U @ (inverse[:, None] * spectrum.projected)  # H⁻¹ [u, S^½ Y]
    eta, nu = Z[:, :1], Z[:, 1:]
    coef = eliminate_intercept(targets, eta, nu)
    inverse_diagonal = (U**2) @ inverse
    residuals = loo_residuals(
        coef, inverse_diagonal, eta, targets, C=C, left_out=left_out
    )
    return LSSVMSolution(
        coef.dual_coef, coef.intercept, spectrum.Y - residuals, SolveInfo("eigh")
    )
