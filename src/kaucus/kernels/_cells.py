"""Kernels shaped by clusters: Mahalanobis distances, cells, partitions."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import scipy.linalg
from scipy.linalg import LinAlgWarning

from kaucus._array import namespace as nx
from kaucus._array.blocks import row_blocks
from kaucus._array.linalg import NotPositiveDefiniteError, cholesky, solve_triangular
from kaucus._array.namespace import Array
from kaucus.kernels._kernel import (
    DistanceKernel,
    Kernel,
    PreparedPairs,
    Rows,
    bytes_for_tiles,
    dense,
    fill_tiles,
    mean_row,
    shifted_rows,
    squared_distances,
    squared_norms,
)

# ----------------------------------------------------------------------------------
# The Gaussian kernel in the metric of a covariance.
#
# Covariances may be restricted in three ways, distinguished by the number of dimensions
# (Czarnecki & Tabor, Observation 3.3):
#
#     full     (d, d)   Σ
#     diag     (d,)     Σ = diag(v)
#     radial   ()       Σ = σ² I, one number
#
# Nothing is inverted and no determinant is formed: both under- and overflow where the
# Cholesky factor and its log-determinant do not.
# ----------------------------------------------------------------------------------


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
        mixed with a little of its diagonal, with a warning.
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
        given = np.asarray(nx.to_numpy(self.covariance), dtype=np.float64)
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
        return nx.exp(D)

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
    """Return covariances regularised until they are positive definite."""
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
    # Covariances that were regularised before pass: the share is of rounding only.
    positive, epsilons = regularise_covariances(covariances, smallest=1e-13)
    if epsilons.any():
        nx.warn_user(
            f"{regularisation_text(epsilons)} More rows in each cell, or diagonal "
            "covariances, avoid it.",
            LinAlgWarning,
        )
    positive.flags.writeable = False
    return positive


def regularisation_text(epsilons: np.ndarray) -> str:
    """Return the text of a warning of regularised covariances."""
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
    """
    A = np.asarray(covariance, dtype=np.float64)
    if A.ndim < 2:
        return np.where(A > 0, A, 1.0)
    variances = np.diagonal(A)
    alive = np.where(variances > 0, variances, 1.0)
    A, diagonal = A + np.diag(alive - variances), np.diag(alive)
    return A if smallest_variance(A, diagonal) > _FIRST_EPSILON else diagonal


def fill_constant_columns(covariances: np.ndarray, of_all: np.ndarray) -> np.ndarray:
    """Return covariances of the cells, with variance 1 where that of all rows is 0.

    No distance between rows of the data depends on it, and it is no reason to
    regularise.
    """
    covariances = np.array(covariances, dtype=np.float64)
    constant = np.where(np.diagonal(of_all) if of_all.ndim == 2 else of_all, 0.0, 1.0)
    return covariances + (np.diag(constant) if of_all.ndim == 2 else constant)


def regularise_covariances(
    covariances: np.ndarray,
    reference: np.ndarray | None = None,
    *,
    smallest: float = 1e-11,
) -> tuple[np.ndarray, np.ndarray]:
    """Replace Σᵢ by (1 − ε) Σᵢ + ε A where Σᵢ is singular or nearly so (Obs. 3.2).

    Σᵢ is left alone if its variance in every direction is above a small share of that
    of A. The determinant, which the paper tests, does not decide: it is 1e-20 for a
    good covariance of ten columns, and never exactly 0 for a bad one.

    The share, smallest, must be below 1e-10, the first ε; A is the reference, or the
    mean of the covariances. Returns the covariances, (k, d, d), (k, d) or (k,), and ε
    of each, 0 where it was left alone. NotPositiveDefiniteError: one has a clearly
    negative direction.
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
    return covariances, epsilons


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
    options = {"eigvals_only": True, "subset_by_index": [0, 0]}
    return float(scipy.linalg.eigh(*scaled, **options)[0])


def factor(covariance: np.ndarray) -> Factor:
    """Factor one covariance, or raise NotPositiveDefiniteError."""
    covariance = np.asarray(covariance, dtype=np.float64)
    if covariance.ndim == 2:
        root = cholesky(covariance)
    else:
        root = np.sqrt(covariance) if np.all(covariance > 0) else None
    if root is None:
        raise NotPositiveDefiniteError(
            f"A covariance of shape {covariance.shape} is not positive definite; "
            "regularise it, or use covariance='diag'."
        )
    root = np.tril(root) if root.ndim == 2 else root
    on_diagonal = np.diagonal(root) if root.ndim == 2 else root
    return Factor(root, float(np.sum(np.log(on_diagonal))))


def whiten(root: np.ndarray, X: Array, shift: Array) -> Array:
    """Return root⁻¹ (x − shift) of each row, in float64's digits and X's precision."""
    xp = nx.array_namespace(X)
    out = xp.empty(X.shape, dtype=X.dtype, device=nx.device_of(X))
    wide_shift = nx.astype(shift, "float64")[None, :]
    for rows in row_blocks(X.shape[0], 8 * max(X.shape[1], 1), _BLOCK):
        centred = nx.astype(X[rows, :], "float64") - wide_shift
        L = nx.as_like(root, centred)
        white = solve_triangular(L, centred.T).T if L.ndim == 2 else centred / L
        out[rows, :] = nx.astype(white, nx.dtype_name(X))
    return out


# ----------------------------------------------------------------------------------
# Partitions of space: functions of rows that return the cell of each.
#
# A partition is any function of rows, or any object with ``predict``, such as a fitted
# clusterer, that returns whole numbers from 0 to k − 1. Kernels are given one; they
# do not cluster.
# ----------------------------------------------------------------------------------

Partition = Callable[[Any], Any] | Any
"""A function of rows, or an object with ``predict``."""

# Rows in a block, so that their distances from the centres stay small.
_ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class NearestCenter:
    """The cells of k-means: rows belong to their nearest centre.

    Works on arrays of every library, on their device.

    Parameters
    ----------
    centers : array of shape (k, d)
        Kept as a NumPy array in float64.

    Examples
    --------
    >>> import numpy as np
    >>> NearestCenter([[0.0, 0.0], [4.0, 4.0]])(np.array([[1.0, 1.0], [3.0, 3.0]]))
    array([0, 1])
    """

    centers: Any

    def __post_init__(self) -> None:
        centers = np.array(nx.to_numpy(self.centers), dtype=np.float64)
        if centers.ndim != 2 or 0 in centers.shape or not np.isfinite(centers).all():
            raise ValueError(
                f"centers has shape {centers.shape}; expected finite numbers of shape "
                "(n_cells, n_features)."
            )
        centers.flags.writeable = False
        object.__setattr__(self, "centers", centers)

    def __call__(self, X: Array) -> Array:
        """Return the number of the nearest centre of each row, (n,)."""
        xp, parts = nx.array_namespace(X), []
        for rows in row_blocks(X.shape[0], 1, _ROWS):
            block = dense(X[rows, :])
            centers = nx.as_like(self.centers, block, dtype=nx.dtype_name(X))
            x, c = (shifted_rows(part, centers[0, :]) for part in (block, centers))
            parts.append(xp.argmin(squared_distances(x, c), axis=1))
        return nx.joined(parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NearestCenter):
            return NotImplemented
        return np.array_equal(self.centers, other.centers)

    def __hash__(self) -> int:
        return hash((self.centers.shape, self.centers.tobytes()))

    def __repr__(self) -> str:
        k, d = self.centers.shape
        return f"NearestCenter(<{k} centers of {d} features>)"


def cell_numbers(partition: Partition, X: Array, n_cells: int) -> np.ndarray:
    """Return the cell of each row, (n,), checked: an integer from 0 to k − 1.

    A :class:`NearestCenter` sees the rows on their device, any other partition sees
    them as NumPy arrays (or CSR matrices) in float64.
    """
    if X.shape[0] == 0:
        return np.zeros(0, dtype=np.intp)
    if isinstance(partition, NearestCenter):
        return nx.to_numpy(partition(X)).astype(np.intp)
    function = partition if callable(partition) else partition.predict
    rows = X if hasattr(X, "tocsr") else nx.to_numpy(X)
    cells, n_rows = np.asarray(function(nx.astype(rows, "float64"))), X.shape[0]
    if cells.shape != (n_rows,) or cells.dtype.kind not in "iub":
        raise ValueError(
            f"The partition returned shape {cells.shape} of dtype {cells.dtype} for "
            f"{n_rows} rows; expected one whole number for each row, shape ({n_rows},)."
        )
    cells = cells.astype(np.intp)
    if cells.min() < 0 or cells.max() >= n_cells:
        raise ValueError(
            f"The partition returned cells from {cells.min()} to {cells.max()}; "
            f"expected 0 to {n_cells - 1}, one for each of the {n_cells} covariances."
        )
    return cells


# ----------------------------------------------------------------------------------
# Gaussians whose shape depends on the cell a row lies in: the C_k RBF kernel.
#
# Every row x stands for the normal density N(x, Σ_x / 2γ), where Σ_x is the covariance
# of x's cell, and the kernel is the scalar product of two densities in L² (Czarnecki &
# Tabor, Theorem 3.1):
#
#     K̂(x, y) = (π/γ)^(−d/2) det(Σ_x + Σ_y)^(−1/2) exp(−γ ‖x − y‖²_{Σ_x + Σ_y}),
#
# with ‖v‖²_Σ = vᵀ Σ⁻¹ v. So it is positive semidefinite whatever the partition.
#
# Within a tile the rows are grouped by cell: for each pair of cells (i, j) both groups,
# whitened by the Cholesky factor of Σᵢ + Σⱼ, have one matrix product.
# ----------------------------------------------------------------------------------


class CellRows(NamedTuple):
    """Rows prepared for :class:`ClusterRBF`; slicing returns a block."""

    values: Array
    """The rows as they were given, (n, d)."""
    cells: np.ndarray
    """The cell of each row, (n,)."""
    by_partner: tuple[Rows, ...]
    """For each cell j: every row x whitened by the factor of Σ_x + Σⱼ."""

    def block(self, rows: slice) -> "CellRows":
        """Return the rows of a slice."""
        parts = tuple(part.block(rows) for part in self.by_partner)
        return CellRows(self.values[rows, :], self.cells[rows], parts)

    def taken(self, rows: Array) -> "CellRows":
        """Return the rows of the given numbers."""
        parts = tuple(part.taken(rows) for part in self.by_partner)
        values = nx.take_rows(self.values, rows)
        return CellRows(values, self.cells[nx.to_numpy(rows)], parts)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRBF(FactoredOnce, Kernel):
    """The RBF kernel with a covariance for every cell of a partition, C_k RBF.

    With Σ_x the covariance of the cell of x,

        k(x, y) = n(x, y) exp(−gamma (x − y)ᵀ (Σ_x + Σ_y)⁻¹ (x − y)).

    Where all Σ are the identity this is ``Gaussian(gamma / 2)``, where all are Σ it is
    ``MahalanobisRBF(Σ, gamma / 2)``, up to a constant factor that is 1 with
    ``normalization="unit"``.

    Parameters
    ----------
    partition : callable or object with ``predict``
        Returns for rows the numbers of their cells, 0 to k − 1. The kernel does not
        cluster: fit a clusterer, or use :class:`~kaucus.kernels.NearestCenter`.
    covariances : array of shape (k, d, d), (k, d) or (k,)
        Σ of each cell: matrices, the variances of diagonal ones, or σ² of σ² I. A
        singular one is mixed with a little of their mean, with a warning.
    gamma : float, default=1.0
    normalization : {"unit", "determinant", "density"}, default="unit"
        The factor n(x, y). ``"density"``: that of Theorem 3.1, K̂. ``"determinant"``:
        det(Σ_x + Σ_y)^(−1/2), without the powers of π and gamma (Algorithm 1);
        its size depends on the units of the data, and C must follow. ``"unit"``: K̂
        divided by the norms of both densities, so that k(x, x) = 1.

    See Also
    --------
    MahalanobisRBF : One covariance for all rows.

    Notes
    -----
    Preparing n rows costs k n d² multiplications and k copies of them; after that a
    block costs what it costs the Gaussian kernel. The k² factors, d × d, are computed
    once.

    References
    ----------
    W. M. Czarnecki, J. Tabor, "Cluster based RBF kernel for support vector machines"
    (2014), Theorem 3.1 and Algorithm 1, whose last line lacks the differences.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> kernel = ClusterRBF(lambda X: (X[:, 0] > 0).astype(int), [1.0, 4.0], gamma=1.0)
    >>> kernel(X).round(3)
    array([[1.   , 0.359, 0.294],
           [0.359, 1.   , 0.882],
           [0.294, 0.882, 1.   ]])
    """

    partition: Any
    covariances: Any
    gamma: float = 1.0
    normalization: str = "unit"

    name = "cluster_rbf"
    NORMALIZATIONS: ClassVar = ("unit", "determinant", "density")

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        if not callable(getattr(self.partition, "predict", self.partition)):
            raise ValueError(
                f"partition={self.partition!r} is not callable and has no predict; "
                "pass a function of rows that returns their cell numbers, or a fitted "
                "clusterer."
            )
        if self.normalization not in self.NORMALIZATIONS:
            raise ValueError(
                f"normalization={self.normalization!r} must be one of "
                f"{self.NORMALIZATIONS}."
            )
        given = np.asarray(nx.to_numpy(self.covariances), dtype=np.float64)
        Sigma = checked_covariances(given, "covariances")
        store(self, "covariances", Sigma)
        factors = [[factor(A + B) for B in Sigma] for A in Sigma]
        store(self, "_roots", [[f.root for f in row] for row in factors])
        halves = np.array([[f.half_log_det for f in row] for row in factors])
        store(self, "_half_log_dets", halves)

    @property
    def n_cells(self) -> int:
        """Number of cells, k."""
        return len(self.covariances)

    @property
    def n_features(self) -> int | None:
        """Number of features of the rows; None where any will do (radial)."""
        return None if self.covariances.ndim == 1 else self.covariances.shape[-1]

    def log_normalizers(self, n_features: int) -> np.ndarray:
        """Return log n for each pair of cells of rows with d features, (k, k).

        The determinant of a radial covariance is (σ²)^d, a power that Observation 3.3
        lacks in print.
        """
        power = n_features if self.n_features is None else 1
        logs = -power * self._half_log_dets  # type: ignore[attr-defined]
        if self.normalization == "unit":
            own = np.diagonal(logs)
            return logs - (own[:, None] + own[None, :]) / 2
        if self.normalization == "density":
            return logs + n_features / 2 * math.log(self.gamma / math.pi)
        return logs

    def distance_scales(self) -> np.ndarray:
        """Return the factor of the squared distances of each pair of cells, (k, k)."""
        if self.n_features is not None:
            return np.ones((self.n_cells, self.n_cells))
        return 1 / (self.covariances[:, None] + self.covariances[None, :])

    def shift_of(self, X: Array, Y: Array) -> Array:
        check_width(X, self.n_features)
        return mean_row(dense(Y))

    def prepare(self, X: Array, shift: Array | None) -> CellRows:
        cells = cell_numbers(self.partition, X, self.n_cells)
        X = dense(X)
        if self.n_features is None:  # distances are scaled in place of rows
            return CellRows(X, cells, (shifted_rows(X, shift),) * self.n_cells)
        members = [_numbers(cells == i, X) for i in range(self.n_cells)]
        order = np.argsort(np.concatenate([nx.to_numpy(m) for m in members]))
        parts = []
        for j in range(self.n_cells):
            white = [
                whiten(self._roots[i][j], nx.take_rows(X, rows), shift)  # type: ignore[attr-defined]
                for i, rows in enumerate(members)
            ]
            xp = nx.array_namespace(X)
            values = nx.take_rows(xp.concat(white), nx.as_like(order, X))
            parts.append(Rows(values, squared_norms(values)))
        return CellRows(X, cells, tuple(parts))

    def tile(self, X: CellRows, Y: CellRows) -> Array:
        n = self.factors_in(X.values, X.values.shape[1])
        scales = -self.gamma * self.distance_scales()

        def of_distances(D: Array, i: int, j: int) -> Array:
            D *= float(scales[i, j])
            K = nx.exp(D)
            K *= float(n[i, j])
            return K

        return by_pairs_of_cells(X, Y, self.n_cells, of_distances)

    def diag(self, X: Array) -> Array:
        check_width(X, self.n_features)
        cells = cell_numbers(self.partition, X, self.n_cells)
        own = np.diagonal(self.factors_in(X, X.shape[1]))[cells]
        like = dense(X[:1, :])
        return nx.as_like(own.copy(), like, dtype=nx.dtype_name(like))

    def factors_in(self, like: Array, n_features: int) -> np.ndarray:
        """Return n for each pair of cells, (k, k); raise ValueError on overflow."""
        logs = self.log_normalizers(n_features)
        largest = math.log(float(np.finfo(nx.dtype_name(like)).max))
        if logs.max() >= largest:
            raise ValueError(
                f"normalization={self.normalization!r} makes kernel values of "
                f"10^{logs.max() / math.log(10):.0f}, beyond {nx.dtype_name(like)}; "
                "use normalization='unit', or scale the data."
            )
        return np.exp(logs)

    def __hash__(self) -> int:
        return hash(self._value()[1:])  # a partition may have no hash

    def _value(self) -> tuple:
        Sigma = self.covariances
        numbers = (self.gamma, self.normalization, Sigma.shape, Sigma.tobytes())
        return self.partition, *numbers

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.covariances.shape))
        return (
            f"ClusterRBF(partition={self.partition!r}, covariances=<{shape}>, "
            f"gamma={self.gamma!r}, normalization={self.normalization!r})"
        )


def by_pairs_of_cells(X: CellRows, Y: CellRows, n_cells: int, function) -> Array:
    """Return a tile from ``function(D, i, j)`` of the distances of each pair of cells.

    Rows and columns are grouped by cell, and brought back into their order at the end.
    """
    x_groups, y_groups = _groups(X, n_cells), _groups(Y, n_cells)
    panels = []
    for i, x_rows in x_groups:
        blocks = []
        for j, y_rows in y_groups:
            x, y = X.by_partner[j], Y.by_partner[i]
            x = x if x_rows is None else x.taken(x_rows)
            y = y if y_rows is None else y.taken(y_rows)
            blocks.append(function(squared_distances(x, y), i, j))
        panels.append(nx.joined(blocks, axis=1))
    return _ungrouped(_ungrouped(nx.joined(panels), X.cells, 0), Y.cells, 1)


def _groups(rows: CellRows, n_cells: int) -> list[tuple[int, Array | None]]:
    """Return the non-empty cells with the numbers of their rows (None: all)."""
    counts = np.bincount(rows.cells, minlength=n_cells)
    if counts.max() == len(rows.cells):
        return [(int(counts.argmax()), None)]
    cells = np.flatnonzero(counts).tolist()
    return [(i, _numbers(rows.cells == i, rows.values)) for i in cells]


def _numbers(mask: np.ndarray, like: Array) -> Array:
    """Return the row numbers of a mask, on the device of ``like``."""
    xp = nx.array_namespace(like)
    return xp.asarray(np.flatnonzero(mask), device=nx.device_of(like))


def _ungrouped(T: Array, cells: np.ndarray, axis: int) -> Array:
    """Return rows that were grouped by cell in their original order."""
    order = np.argsort(cells, kind="stable")  # the place of each grouped row
    if np.array_equal(order, np.arange(len(order))):
        return T
    places = np.argsort(order)
    xp = nx.array_namespace(T)
    return xp.take(T, xp.asarray(places, device=nx.device_of(T)), axis=axis)


# ----------------------------------------------------------------------------------
# One stored matrix of distances, and from it the kernel matrix for every gamma.
#
# Of k(x, y) = n exp(−γ D) only the exponent depends on γ. The paper converts one kernel
# matrix into another by a logarithm (Czarnecki & Tabor, Sec. 4); where the first has
# underflowed to zero nothing can be converted, so here the distances themselves are
# kept.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GammaPath:
    """The distances behind a kernel matrix, made by :func:`gamma_path`.

    Attributes
    ----------
    kernel : DistanceKernel or ClusterRBF
        The kernel, whose own gamma plays no part.
    distances : array of shape (n, m)
        Squared distances in the metric of the kernel; never changed.
    row_cells, column_cells : ndarray of shape (n,) and (m,), or None
        The cells of rows and columns, for a :class:`ClusterRBF`.
    n_features : int
        Number of features of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> path = gamma_path(Gaussian(), np.array([[0.0], [1.0]]))
    >>> [path.matrix(gamma)[0, 1].round(2).item() for gamma in (0.1, 1.0)]
    [0.9, 0.37]
    """

    kernel: Any
    distances: Array
    row_cells: np.ndarray | None
    column_cells: np.ndarray | None
    n_features: int

    def matrix(self, gamma: float) -> Array:
        """Return the kernel matrix for one gamma, (n, m): one exponential an entry."""
        D = nx.array_namespace(self.distances).asarray(self.distances, copy=True)
        kernel = with_gamma(self.kernel, gamma)
        if not isinstance(kernel, ClusterRBF):
            return kernel.of_squared_distances(D)
        xp = nx.array_namespace(D)
        D *= -kernel.gamma
        K = xp.exp(D)
        n = kernel.factors_in(D, self.n_features)
        rows, columns = n[self.row_cells, :], np.eye(kernel.n_cells)[self.column_cells]
        K *= xp.asarray(rows @ columns.T, dtype=D.dtype, device=nx.device_of(D))
        return K


def gamma_path(kernel: Kernel, X: Array, Y: Array | None = None) -> GammaPath:
    """Compute the distances behind k(X, Y) once, for any number of gammas.

    Parameters
    ----------
    kernel : DistanceKernel or ClusterRBF
        ``Gaussian``, ``Exponential``, ``Cauchy``, ``MahalanobisRBF`` or ``ClusterRBF``.
    X : array or CSR matrix of shape (n, d)
    Y : array or CSR matrix of shape (m, d), default=None
        None means ``X``: half of the work, and an exactly symmetric matrix.

    Returns
    -------
    GammaPath
        Its ``matrix(gamma)`` is what the kernel with that gamma would give.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(5, 2))
    >>> path = gamma_path(Gaussian(), X)
    >>> bool(np.allclose(path.matrix(3.0), Gaussian(gamma=3.0)(X)))
    True
    """
    if not isinstance(kernel, DistanceKernel | ClusterRBF):
        raise ValueError(
            f"kernel={kernel!r} is not a function of a distance and gamma; pass a "
            "Gaussian, Exponential, Cauchy, MahalanobisRBF or ClusterRBF."
        )
    pairs = kernel.pairs(X, Y)
    assert isinstance(pairs, PreparedPairs)  # of rows that are there
    like = pairs.rows.values
    xp = nx.array_namespace(like)
    D = xp.empty(pairs.shape, dtype=like.dtype, device=nx.device_of(like))
    tile = pairs.tile_shape(bytes_for_tiles(pairs.shape, D))
    compute = functools.partial(_distances, kernel)
    fill_tiles(pairs, D, tile, compute, symmetric=Y is None)
    cells = [getattr(rows, "cells", None) for rows in (pairs.rows, pairs.columns)]
    return GammaPath(kernel, D, *cells, n_features=X.shape[1])


def _distances(kernel: Kernel, X, Y) -> Array:
    if not isinstance(kernel, ClusterRBF):
        return squared_distances(X, Y)
    scales = kernel.distance_scales()

    def scaled(D: Array, i: int, j: int) -> Array:
        D *= float(scales[i, j])
        return D

    assert isinstance(X, CellRows)
    return by_pairs_of_cells(X, Y, kernel.n_cells, scaled)


def matrices_of(
    kernels: Sequence[Kernel], X: Array, Y: Array | None = None
) -> Callable[[Kernel], Array]:
    """Return a function that computes k(X, Y) for each of several kernels.

    Those that are functions of ‖x − y‖² alone, as ``Gaussian``, ``Exponential`` and
    ``Cauchy``, share one matrix of distances.

    >>> import numpy as np
    >>> from kaucus.kernels import Exponential, Gaussian
    >>> kernels = [Gaussian(gamma=0.5), Exponential(gamma=0.5)]
    >>> matrix = matrices_of(kernels, np.array([[0.0], [2.0]]))
    >>> for kernel in kernels:
    ...     print(matrix(kernel)[0].round(4))
    [1.     0.1353]
    [1.     0.3679]
    """
    plain = [kernel for kernel in kernels if _is_of_plain_distances(kernel)]
    # Rows of the host for a device are copied for each tile, of each kernel.
    are_there = plain and isinstance(plain[0].pairs(X, Y), PreparedPairs)
    shared = gamma_path(plain[0], X, Y).distances if are_there else None

    def matrix(kernel: Kernel) -> Array:
        if shared is None or not _is_of_plain_distances(kernel):
            return kernel(X, Y)
        D = nx.array_namespace(shared).asarray(shared, copy=True)
        return cast(DistanceKernel, kernel).of_squared_distances(D)

    return matrix


def _is_of_plain_distances(kernel: Kernel) -> bool:
    """Return True if a kernel is a function of the plain ‖x − y‖²."""
    return (
        type(kernel).prepare is DistanceKernel.prepare
        and type(kernel).tile is DistanceKernel.tile
    )


def with_gamma(kernel: Any, gamma: float) -> Any:
    """Return the kernel with another gamma."""
    if hasattr(kernel, "with_gamma"):
        return kernel.with_gamma(gamma)
    return type(kernel)(gamma=gamma)
