"""Regularise covariances, factor them, and whiten rows with them.

Three restrictions, told apart by their number of dimensions (Czarnecki & Tabor,
Observation 3.3):

    full     (d, d)   Σ
    diag     (d,)     Σ = diag(v)
    radial   ()       Σ = σ² I, one number

Nothing is inverted and no determinant is formed: both under- and overflow where the
Cholesky factor and its log-determinant do not.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from kaucus.backend import (
    Array,
    NotPositiveDefiniteError,
    array_namespace,
    as_like,
    astype,
    cholesky,
    device_of,
    dtype_name,
    row_blocks,
    solve_triangular,
)

# ε of Observation 3.2 as printed; it grows tenfold until the test passes.
_FIRST_EPSILON = 1e-10
_LAST_EPSILON = 1e-2
# Bytes of one block of rows on their way through float64.
_BLOCK = 2**24


class Regularised(NamedTuple):
    """Positive definite covariances, and how much of the reference they contain."""

    covariances: np.ndarray
    """(k, d, d), (k, d) or (k,)."""
    epsilons: np.ndarray
    """ε of each cell, (k,); zero where the covariance was left as it was."""


class Factor(NamedTuple):
    """A covariance ready for whitening."""

    root: np.ndarray
    """Lower Cholesky factor (d, d), standard deviations (d,), or one number ()."""
    half_log_det: float
    """½ log det Σ; for a radial one ½ log σ², to be taken d times."""


def reference_covariance(covariance: np.ndarray) -> np.ndarray:
    """Return A of Observation 3.2 from the covariance of the whole data set.

    That covariance itself if it is safely positive, else its diagonal: like the
    identity that the paper takes then, but in the units of each column. Columns that
    do not vary get the variance 1, which changes no distance between rows of the data.

    Parameters
    ----------
    covariance : ndarray of shape (d, d), (d,) or ()
    """
    A = np.asarray(covariance, dtype=np.float64)
    if A.ndim < 2:
        return np.where(A > 0, A, 1.0)
    variances = np.diagonal(A)
    alive = np.where(variances > 0, variances, 1.0)
    A = A + np.diag(np.where(variances > 0, 0.0, 1.0))
    return (
        A if smallest_variance(A, np.diag(alive)) > _FIRST_EPSILON else np.diag(alive)
    )


def fill_constant_columns(covariances: np.ndarray, of_all: np.ndarray) -> np.ndarray:
    """Give columns in which no row differs from another the variance 1.

    No distance between rows of the data depends on it, and it is no reason to
    regularise.

    Parameters
    ----------
    covariances : ndarray of shape (k, d, d), (k, d) or (k,)
        Not changed.
    of_all : ndarray of shape (d, d), (d,) or ()
        The covariance of all rows.
    """
    covariances = np.array(covariances, dtype=np.float64)
    constant = np.where(np.diagonal(of_all) if of_all.ndim == 2 else of_all, 0.0, 1.0)
    return covariances + (np.diag(constant) if of_all.ndim == 2 else constant)


def regularise_covariances(
    covariances: np.ndarray,
    reference: np.ndarray | None = None,
    *,
    smallest: float = 1e-11,
) -> Regularised:
    """Replace Σᵢ by (1 − ε) Σᵢ + ε A where Σᵢ is singular or nearly so (Obs. 3.2).

    Σᵢ is left alone if its variance in every direction is above a small share of that
    of A. The determinant, which the paper tests, does not tell: it is 1e-20 for a good
    covariance of ten columns, and never exactly 0 for a bad one.

    Parameters
    ----------
    covariances : ndarray of shape (k, d, d), (k, d) or (k,)
        Not changed.
    reference : ndarray of shape (d, d), (d,) or (), default=None
        A; None is the mean of the covariances.
    smallest : float, default=1e-11
        The share. It must be below 1e-10, the first ε.

    Returns
    -------
    Regularised

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance has a clearly negative direction.
    """
    covariances = np.array(covariances, dtype=np.float64)
    mean = np.asarray(covariances.mean(axis=0))
    A = reference_covariance(mean if reference is None else reference)
    epsilons = np.zeros(len(covariances))
    for i, Sigma in enumerate(covariances):
        variance = smallest_variance(Sigma, A)
        epsilons[i] = _sufficient_epsilon(variance, smallest, i)
        if epsilons[i] > 0:
            covariances[i] = (1 - epsilons[i]) * Sigma + epsilons[i] * A
    return Regularised(covariances, epsilons)


def _sufficient_epsilon(variance: float, smallest: float, cell: int) -> float:
    if variance > smallest:
        return 0.0
    epsilon = _FIRST_EPSILON
    while (1 - epsilon) * variance + epsilon <= smallest:
        epsilon *= 10
        if epsilon > _LAST_EPSILON:
            raise NotPositiveDefiniteError(
                f"The covariance of cell {cell} has a negative variance "
                f"({variance:.2g} of that of the reference) in some direction; "
                "expected a positive semidefinite matrix. Compute it from rows, for "
                "example with np.cov."
            )
    return epsilon


def smallest_variance(Sigma: np.ndarray, A: np.ndarray) -> float:
    """Return the smallest variance of Σ in units of A: min vᵀΣv / vᵀAv."""
    if Sigma.ndim < 2:
        return float(np.min(Sigma / A))
    # In units of the columns first, so that units cost the eigenvalues no digits.
    units = 1 / np.sqrt(np.diagonal(A))
    scaled = [units[:, None] * S * units[None, :] for S in (Sigma, A)]
    return float(
        scipy.linalg.eigh(*scaled, eigvals_only=True, subset_by_index=[0, 0])[0]
    )


def factor(covariance: np.ndarray) -> Factor:
    """Factor one covariance.

    Raises
    ------
    NotPositiveDefiniteError
        If it is not positive definite.
    """
    covariance = np.asarray(covariance, dtype=np.float64)
    if covariance.ndim == 2:
        L = cholesky(covariance)
        root = None if L is None else np.tril(L)
        on_diagonal = None if root is None else np.diagonal(root)
    else:
        root = on_diagonal = np.sqrt(covariance) if np.all(covariance > 0) else None
    if root is None or on_diagonal is None:
        raise NotPositiveDefiniteError(
            f"A covariance of shape {covariance.shape} is not positive definite; "
            "regularise it, or use covariance='diag'."
        )
    return Factor(root, float(np.sum(np.log(on_diagonal))))


def whiten(root: np.ndarray, X: Array, shift: Array) -> Array:
    """Return root⁻¹ (x − shift) of each row, in float64's digits and X's precision."""
    xp = array_namespace(X)
    out = xp.empty(X.shape, dtype=X.dtype, device=device_of(X))
    wide_shift = astype(shift, "float64")[None, :]
    for rows in row_blocks(X.shape[0], 8 * max(X.shape[1], 1), _BLOCK):
        centred = astype(X[rows, :], "float64") - wide_shift
        factor = as_like(root, centred)
        white = (
            solve_triangular(factor, centred.T).T
            if factor.ndim == 2
            else centred / factor
        )
        out[rows, :] = astype(white, dtype_name(X))
    return out
