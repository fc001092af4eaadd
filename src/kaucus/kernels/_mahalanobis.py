"""The Gaussian kernel in the metric of a covariance."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from kaucus.backend import Array, exp, to_numpy, warn_user
from kaucus.kernels._base import DistanceKernel
from kaucus.kernels._covariances import factor, regularise_covariances, whiten
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

    def prepare_pair(self, X: Array, Y: Array | None) -> tuple[Rows, Rows]:
        check_width(X, self.n_features)
        X, Y = dense(X), None if Y is None else dense(Y)
        shift = mean_row(X if Y is None else Y)
        x_rows = self._whitened(X, shift)
        return x_rows, x_rows if Y is None else self._whitened(Y, shift)

    def _whitened(self, X: Array, shift: Array) -> Rows:
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
