"""What every kernel estimator shares: rows in, kernel and device arrays out."""

from typing import ClassVar

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    RowSource,
    array_namespace,
    as_like,
    astype,
    diagonal,
    dtype_name,
    epsilon,
    is_numpy,
    is_sparse,
    is_tensor,
    itemsize,
    row_blocks,
    rows_for_device,
    stream_blocks,
    take_rows,
    to_device,
    working_types,
)
from kaucus.contract import validate_data
from kaucus.estimators._parameters import (
    FINITE,
    MEMORY_BUDGET,
    POSITIVE,
    PRECISION,
    RANDOM_STATE,
    ChecksParameters,
    count,
    one_of,
)
from kaucus.estimators._ranges import check_kernel_values, check_magnitude
from kaucus.kernels import Precomputed, kernel_class, resolve_gamma, resolve_kernel


class KernelInputMixin(ChecksParameters):
    """For estimators with kernel, gamma, degree, coef0, device and memory_budget.

    Parameters
    ----------
    kernel : str, kernel object or callable
        ``"linear"``, ``"poly"``, ``"rbf"``, ``"exponential"``, ``"cauchy"``,
        ``"sigmoid"``, ``"cosine"``, ``"laplacian"``, ``"precomputed"``, an object from
        :mod:`kaucus.kernels`, or a function ``k(X, Y)`` that returns the matrix.
    gamma : {"scale", "auto", "median"} or float
        Width of the kernel; ``"scale"`` is 1 / (n_features X.var()), ``"auto"`` is
        1 / n_features, ``"median"`` is from the median distance between rows (see
        :func:`kaucus.kernels.median_gamma`).
    degree : int
        Degree of ``"poly"``.
    coef0 : float
        Constant of ``"poly"`` and ``"sigmoid"``.
    """

    # Words that the kernel may be beside the names of kernels.
    _kernel_words = ("precomputed",)
    _parameters: ClassVar = {
        "gamma": POSITIVE | one_of("scale", "auto", "median"),
        "degree": count(),
        "coef0": FINITE,
        "precision": PRECISION,
        "memory_budget": MEMORY_BUDGET,
        "random_state": RANDOM_STATE,
    }

    def _check_combinations(self) -> None:
        if isinstance(self.kernel, str) and self.kernel not in self._kernel_words:
            kernel_class(self.kernel, also=self._kernel_words)

    def _validate(self, X, y="no_validation", *, reset: bool, **options):
        """Return ``X`` as floats of its own kind (and ``y`` as a NumPy array)."""
        if self._precomputed and not reset:
            self._check_width(X)
        checked = validate_data(
            self,
            X,
            y,
            reset=reset,
            accept_sparse=False if self._precomputed else "csr",
            dtype=working_types(self.precision),
            **options,
        )
        if not self._precomputed:
            rows = checked[0] if isinstance(checked, tuple) else checked
            check_magnitude(rows, fitted=reset)
        return checked

    def _check_width(self, K) -> None:
        shape = tuple(getattr(K, "shape", None) or np.shape(K))
        width = shape[1:]
        if len(width) == 1 and width[0] != self.n_features_in_:
            raise ValueError(
                f"kernel='precomputed' needs k(X_new, X_fit), one column for each of "
                f"the {self.n_features_in_} training rows, got shape {shape}."
            )

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _resolve_kernel(self, X, sample_weight, gamma=None):
        """Return the kernel object, with gamma as a number; None if precomputed."""
        if self._precomputed:
            check_precomputed(X)
            return None
        gamma = self.gamma if gamma is None else gamma
        kernel = resolve_kernel(
            self.kernel,
            gamma=resolve_gamma(gamma, X, as_like(sample_weight, X), self.kernel),
            also=self._kernel_words,
            degree=self.degree,
            coef0=self.coef0,
        )
        check_kernel_values(kernel, X)
        # A function of the user's: does it return a matrix?
        if isinstance(X, RowSource):
            some = X.longest  # known already
        else:
            some = take_rows(X, np.arange(min(X.shape[0], 3)))
        kernel(some[:2, :], some)
        return kernel

    def _placed(self, X):
        """Return rows on the device, or as ``HostRows`` where they do not fit."""
        return place_rows(X, self.device, self.memory_budget)

    def _kernel_and_rows(self, kernel, X):
        """Return kernel and rows on the device; row numbers for a given matrix.

        Rows that do not fit there stay, and are seen from there.
        """
        if kernel is not None:
            return kernel, self._placed(X)
        kernel = Precomputed(on_device(X, self.device))
        return kernel, kernel.row_numbers()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags


def on_device(X, device):
    """Return ``X`` on the device; CSR matrices stay on the host."""
    if is_sparse(X):
        if device not in (None, "cpu"):
            raise ValueError(
                f"device={device!r} takes dense data only; X is sparse. Use "
                "device=None, or X.toarray()."
            )
        return X
    return to_device(X, device)


def place_rows(X, device, memory_budget):
    """Return ``X`` on the device, or as ``HostRows`` where it does not fit there."""
    if is_sparse(X):
        return on_device(X, device)
    return rows_for_device(X, device, memory_budget)


def map_rows(function, X, device, memory_budget):
    """Return a function of all rows, computed on the device, in the kind of ``X``.

    Rows that do not fit there are streamed in blocks.
    """
    rows = place_rows(X, device, memory_budget)
    if not isinstance(rows, HostRows):
        return as_like(function(rows), X)
    row_bytes = itemsize(X) * X.shape[1]
    blocks = list(row_blocks(rows.shape[0], row_bytes, rows.buffer_bytes))
    parts = [as_like(function(block), X) for block in stream_blocks(rows, blocks)]
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts)


def in_precision_of(fitted, X):
    """Return fitted rows in the library, device and precision of ``X``."""
    return astype(as_like(fitted, X), dtype_name(X))


def place_support(fitted, rows, device, memory_budget):
    """Return training rows on the device of the rows to predict, or as ``HostRows``.

    They are as many as were fitted, and need not fit on the device. Their precision
    stays: what they lose by rounding, large coefficients multiply.
    """
    if is_tensor(rows) and is_numpy(fitted) and device not in (None, "cpu"):
        return rows_for_device(fitted, device, memory_budget)
    return as_like(fitted, rows)


# ---- a given kernel matrix -----------------------------------------------------------


def check_precomputed(K: Array) -> None:
    """Check that a precomputed training matrix can be a kernel matrix.

    Square, symmetric to rounding, and with no 2 × 2 minor that is negative, which
    finds most indefinite matrices in one pass over K, before it is factored.
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of the training rows, got "
            f"shape {tuple(K.shape)}; pass k(X, X) to fit and k(X_new, X) to predict."
        )
    xp, on_diagonal = array_namespace(K), diagonal(K)
    if bool(xp.any(on_diagonal < 0)):
        i = int(xp.argmin(on_diagonal))
        raise ValueError(
            f"The precomputed kernel matrix has K[{i}, {i}] = "
            f"{float(on_diagonal[i]):.3g}; the diagonal of a positive semidefinite "
            "matrix is not negative. A matrix of distances is no kernel matrix; "
            "exp(-gamma * distances**2) is one."
        )
    slack = 1e3 * epsilon(K) * max(float(xp.max(on_diagonal)), 1e-300)
    roots = xp.sqrt(on_diagonal)
    for start in range(0, K.shape[0], 512):
        rows = slice(start, min(start + 512, K.shape[0]))
        _check_symmetric(K, rows, slack)
        _check_minors(K, rows, roots, slack)


def _check_symmetric(K: Array, rows: slice, slack: float) -> None:
    xp = array_namespace(K)
    difference = xp.abs(K[rows, :] - K[:, rows].T)
    largest = float(xp.max(xp.abs(K[rows, :])))
    if float(xp.max(difference)) > max(slack, 1e-6 * largest):
        i, j = _place_of_largest(difference, rows)
        raise ValueError(
            f"The precomputed kernel matrix is not symmetric: K[{i}, {j}] = "
            f"{float(K[i, j]):.6g}, K[{j}, {i}] = {float(K[j, i]):.6g}. Pass "
            "(K + K.T) / 2 if the difference is noise."
        )


def _check_minors(K: Array, rows: slice, roots: Array, slack: float) -> None:
    xp = array_namespace(K)
    excess = xp.abs(K[rows, :]) - roots[rows][:, None] * roots[None, :]
    if float(xp.max(excess)) > max(slack, 1e-6 * float(xp.max(roots)) ** 2):
        i, j = _place_of_largest(excess, rows)
        raise ValueError(
            f"The precomputed kernel matrix is indefinite: K[{i}, {j}]² = "
            f"{float(K[i, j]) ** 2:.6g} exceeds K[{i}, {i}] K[{j}, {j}] = "
            f"{float(K[i, i]) * float(K[j, j]):.6g}. Use a positive semidefinite "
            "kernel, or shift its eigenvalues: K + λ I."
        )


def _place_of_largest(block: Array, rows: slice) -> tuple[int, int]:
    """Return row and column of the largest entry of a block of rows."""
    xp = array_namespace(block)
    i, j = divmod(int(xp.argmax(xp.reshape(block, (-1,)))), block.shape[1])
    return i + rows.start, j
