"""The Gaussian kernel in the metric of a covariance.

Covariances may be restricted in three ways, told apart by their number of dimensions
(Czarnecki & Tabor, Observation 3.3):

    full     (d, d)   Σ
    diag     (d,)     Σ = diag(v)
    radial   ()       Σ = σ² I, one number

Nothing is inverted and no determinant is formed: both under- and overflow where the
Cholesky factor and its log-determinant do not.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import LinAlgWarning

from kaucus.backend import (
    Array,
    NotPositiveDefiniteError,
    array_namespace,
    as_like,
    astype,
    cholesky,
    device_of,
    dtype_name,
    exp,
    row_blocks,
    solve_triangular,
    to_numpy,
    warn_user,
)
from kaucus.kernels._base import DistanceKernel
from kaucus.kernels._distances import Rows, dense, mean_row, shifted_rows, squared_norms


class FactoredOnce:
    """Mixin of kernels with covariances, which are factored once and never changed.

    Such kernels are equal if all numbers that define them are, ``_value()``.
    """

    def with_gamma(self, gamma: float) -> Any:
        """Return the same kernel with another gamma; nothing is factored again."""
        check_gamma(gamma)
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), gamma=float(gamma))
        return copied

    def _value(self) -> tuple:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash(self._value())


@dataclass(frozen=True, eq=False, repr=False)
class MahalanobisRBF(FactoredOnce, DistanceKernel):
    """k(x, y) = exp(−gamma (x − y)ᵀ Σ⁻¹ (x − y)).

    The Gaussian kernel of whitened rows: with Σ the covariance of the data, a step
    counts in units of the data's spread in its direction.

    Parameters
    ----------
    covariance : array of shape (d, d), (d,) or a number
        Σ: a matrix, the variances of a diagonal one, or σ² of σ² I. A singular one is
        mixed with a little of its diagonal, and a warning tells.
    gamma : float, default=1.0

    See Also
    --------
    ClusterRBF : With another covariance in every cell.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = MahalanobisRBF(np.diag([4.0, 1.0]), gamma=0.5)
    >>> kernel(np.zeros((1, 2)), np.array([[2.0, 0.0], [0.0, 2.0]])).round(4)
    array([[0.6065, 0.1353]])
    """

    covariance: Any
    gamma: float = 1.0

    name = "mahalanobis"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        given = np.asarray(to_numpy(self.covariance), dtype=np.float64)
        covariances = checked_covariances(given[None, ...], "covariance")
        store(self, "covariance", covariances[0])
        store(self, "_factor", factor(covariances[0]))

    @property
    def n_features(self) -> int | None:
        """Number of features of the rows; None where any will do."""
        return None if self.covariance.ndim == 0 else self.covariance.shape[-1]

    def shift_of(self, X: Array, Y: Array) -> Array:
        check_width(X, self.n_features)
        return mean_row(dense(Y))

    def prepare(self, X: Array, shift: Array | None) -> Rows:
        X = dense(X)
        if self.n_features is None:  # a number scales the distances, not the rows
            return shifted_rows(X, shift)
        values = whiten(self._factor.root, X, shift)  # type: ignore[attr-defined]
        return Rows(values, squared_norms(values))

    def of_squared_distances(self, D: Array) -> Array:
        scale = 1.0 if self.n_features else 1.0 / float(self.covariance)
        D *= -self.gamma * scale
        return exp(D)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.covariance.shape))
        covariance = f"<{shape}>" if shape else f"{float(self.covariance):g}"
        return f"MahalanobisRBF(covariance={covariance}, gamma={self.gamma!r})"

    def _value(self) -> tuple:
        return self.gamma, self.covariance.shape, self.covariance.tobytes()


def store(kernel: object, name: str, value: Any) -> None:
    """Set an attribute of a frozen object while it is made."""
    object.__setattr__(kernel, name, value)


def check_gamma(gamma: Any) -> None:
    """Check that gamma is a positive number."""
    ok = isinstance(gamma, int | float | np.number) and not isinstance(gamma, bool)
    if not ok or not np.isfinite(gamma) or gamma <= 0:
        raise ValueError(f"gamma={gamma!r} must be a positive, finite number.")


def check_width(X: Array, n_features: int | None) -> None:
    """Check that rows have as many features as the covariances."""
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but the covariances of the kernel are of "
            f"{n_features}; pass rows of {n_features} features."
        )


def checked_covariances(covariances: np.ndarray, what: str) -> np.ndarray:
    """Return covariances that can be factored, regularised where they must be."""
    shape = covariances.shape
    square = covariances.ndim < 3 or shape[1] == shape[2]
    if covariances.ndim not in (1, 2, 3) or 0 in shape or not square:
        raise ValueError(
            f"{what} has shape {shape}; expected (n_cells, d, d) for full, (n_cells, "
            "d) for diagonal or (n_cells,) for radial covariances."
        )
    if not np.isfinite(covariances).all():
        raise ValueError(
            f"{what} contains NaN or infinity; every entry must be finite."
        )
    if covariances.ndim == 3:
        swapped = np.swapaxes(covariances, 1, 2)
        if not np.allclose(covariances, swapped, rtol=1e-6, atol=1e-12):
            raise ValueError(
                f"{what} is not symmetric; a covariance is. Pass np.cov's."
            )
        covariances = (covariances + swapped) / 2
    # Covariances that were regularised before pass: only rounding is looked for.
    positive, epsilons = regularise_covariances(covariances, smallest=1e-13)
    if epsilons.any():
        warn_user(
            f"{regularisation_text(epsilons)} More rows in each cell, or diagonal "
            "covariances, avoid it.",
            LinAlgWarning,
        )
    positive.flags.writeable = False
    return positive


def regularisation_text(epsilons: np.ndarray) -> str:
    """Say which cells were regularised, and by how much."""
    cells = np.flatnonzero(epsilons).tolist()
    which = "given" if len(epsilons) == 1 else f"of the cells {cells}"
    return (
        f"The covariance {which} is singular to rounding and was mixed with a share of "
        f"{epsilons.max():.0e} of that of all rows (Observation 3.2)."
    )


# ---- covariances: regularised, factored, for whitening -------------------------------


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
