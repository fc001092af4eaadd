"""A kernel matrix by the four things that kernel k-means asks of it.

    K V,  K[:, rows] V,  K[:, rows],  diag K

Three kinds answer them: a stored matrix, one that is computed again by tiles where it
does not fit, and the Nyström matrix K_nm K_mm⁻¹ K_mn of m landmarks. So that one Lloyd
iteration serves all of them.

Sums over rows are in float64, whatever the precision of the kernel's entries: they
decide which cluster a row belongs to.
"""

from abc import ABC, abstractmethod

import numpy as np

from kaucus.backend import (
    Array,
    add_to_diagonal,
    array_namespace,
    astype,
    budget_beside,
    cho_solve,
    cholesky_with_jitter,
    device_of,
    epsilon,
    for_each_block,
    is_sparse,
    itemsize,
    n_workers,
    on_gpu,
    row_blocks,
    rows_in_order,
    take_rows,
)
from kaucus.kernels import Kernel, KernelOperator, Precomputed, kernel_diagonal

# A block of a stored matrix is in cache when it is multiplied; a GPU wants more.
_BLOCK_BYTES_CPU = 8 * 2**20
_BLOCK_BYTES_GPU = 256 * 2**20
# Entries of a block of gathered rows: fewer are not worth a thread.
_GATHERED = 2**21


class Gram(ABC):
    """What kernel k-means asks of a kernel matrix of n rows.

    Attributes
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    n_rows : int
    like : array
        Whose library and device the answers have.
    """

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel, self.X = kernel, X
        self.n_rows = int(X.shape[0])
        self.like = np.empty((1, 1)) if is_sparse(X) else X

    @property
    def rounding(self) -> float:
        """Relative error of the sums."""
        return float(np.finfo(np.float64).eps)

    @property
    def representers(self) -> Array:
        """The rows in whose span the centres lie, (m, d)."""
        return self.X

    def coefficients(self, V: Array) -> Array:
        """Return the centres Σ V[i, c] φ(x_i) in terms of ``representers``, (m, t)."""
        return V

    def diagonal(self) -> Array:
        """Return k(x, x) of every row, (n,), in float64."""
        return astype(kernel_diagonal(self.kernel, self.X), "float64")

    @abstractmethod
    def matmul(self, V: Array) -> Array:
        """Return K @ V, (n, t), in float64."""

    @abstractmethod
    def columns_product(self, rows: Array, V: Array) -> Array:
        """Return K[:, rows] @ V, (n, t), in float64, for ``V`` of shape (m, t)."""

    def columns(self, rows: Array) -> Array:
        """Return K[:, rows], (n, m)."""
        return self.kernel(self.X, take_rows(self.X, rows))


class StoredGram(Gram):
    """A kernel matrix in memory.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
        All rows of the matrix, in order, where the kernel is a given one.
    """

    def __init__(self, kernel: Kernel, X: Array) -> None:
        super().__init__(kernel, X)
        # A given matrix is read where it is.
        self.K = kernel.matrix if isinstance(kernel, Precomputed) else kernel(X)
        self.like = self.K

    def matmul(self, V: Array) -> Array:
        out = self._empty(V.shape[1])

        def multiply(rows: slice) -> None:
            out[rows, :] = astype(self.K[rows, :], "float64") @ V

        blocks = list(row_blocks(self.n_rows, 8 * self.n_rows, _block_bytes(self.K)))
        for_each_block(multiply, blocks, workers=self._workers(blocks))
        return out

    def columns_product(self, rows: Array, V: Array) -> Array:
        out = self._empty(V.shape[1])

        def multiply(columns: slice) -> None:
            # K is symmetric, and gathering rows reads memory in order.
            gathered = take_rows(self.K[:, columns], rows)
            out[columns, :] = astype(gathered, "float64").T @ V

        blocks = list(row_blocks(self.n_rows, int(rows.shape[0]), _GATHERED))
        for_each_block(multiply, blocks, workers=self._workers(blocks))
        return out

    def columns(self, rows: Array) -> Array:
        return take_rows(self.K, rows).T

    def _workers(self, blocks: list[slice]) -> int:
        # To start threads for one block would take longer than the block.
        return n_workers(self.K) if len(blocks) > 1 else 1

    def _empty(self, n_columns: int) -> Array:
        xp = array_namespace(self.K)
        shape = (self.n_rows, n_columns)
        return xp.empty(shape, dtype=xp.float64, device=device_of(self.K))


class StreamedGram(Gram):
    """A kernel matrix of which only as many tiles as fit are kept.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    memory_budget : int
        Bytes.
    """

    def __init__(self, kernel: Kernel, X: Array, memory_budget: int) -> None:
        super().__init__(kernel, X)
        self._budget = memory_budget
        self._operator = KernelOperator(kernel, X, memory_budget=memory_budget)

    def matmul(self, V: Array) -> Array:
        return self._operator.matmul(V)

    def columns_product(self, rows: Array, V: Array) -> Array:
        some = KernelOperator(
            self.kernel,
            self.X,
            rows_in_order(self.X, rows),
            memory_budget=max(self._budget // 4, 1),
            store=False,
        )
        return some.matmul(V)


class NystromGram(Gram):
    """K ≈ K_nm (K_mm + λI)⁻¹ K_mn: centres held to the span of m landmarks.

    The diagonal is that of K itself, so that distances to such centres, and the
    objective, are true ones: the objective is an upper bound of that of the same
    clusters with their free centres.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    landmarks : array or CSR matrix of shape (m, d)
    memory_budget : int
        Bytes; K_nm is kept where n m numbers fit, and computed again where not.

    Notes
    -----
    A product costs 2 n m t multiplications for t columns; no n m² is paid.
    """

    def __init__(
        self, kernel: Kernel, X: Array, landmarks: Array, memory_budget: int
    ) -> None:
        super().__init__(kernel, X)
        self._landmarks, self._budget = landmarks, memory_budget
        self._operator = KernelOperator(
            kernel, X, landmarks, memory_budget=memory_budget
        )
        K_mm = astype(kernel(landmarks), "float64")
        # What float32 rounds of K_nm must not be blown up by the inverse.
        largest = float(array_namespace(K_mm).max(kernel.diag(landmarks)))
        ridge = landmarks.shape[0] * epsilon(X) * largest
        factor = cholesky_with_jitter(add_to_diagonal(K_mm, ridge), largest=1e-2)
        self._L = factor.L

    @property
    def rounding(self) -> float:
        return epsilon(self.X)

    @property
    def representers(self) -> Array:
        return self._landmarks

    def coefficients(self, V: Array) -> Array:
        return self._solve(self._operator.rmatmul(astype(V, self._operator.dtype)))

    def matmul(self, V: Array) -> Array:
        return self._spread(self.coefficients(V))

    def columns_product(self, rows: Array, V: Array) -> Array:
        some = KernelOperator(
            self.kernel,
            rows_in_order(self.X, rows),
            self._landmarks,
            memory_budget=max(self._budget // 4, 1),
            store=False,
        )
        return self._spread(self._solve(some.rmatmul(astype(V, some.dtype))))

    def _solve(self, B: Array) -> Array:
        return cho_solve(self._L, astype(B, "float64"))

    def _spread(self, A: Array) -> Array:
        product = self._operator.matmul(astype(A, self._operator.dtype))
        return astype(product, "float64")


def make_gram(
    kernel: Kernel, X: Array, *, memory_budget: int | str | None = None
) -> Gram:
    """Return the kernel matrix of the rows of ``X``, stored where it fits.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    memory_budget : int, str or None, default=None
        Bytes; None is three quarters of what is free. A quarter of it is left to the
        sums of the clusters.
    """
    budget = budget_beside(X, memory_budget)
    room = budget - budget // 4
    if isinstance(kernel, Precomputed) or X.shape[0] ** 2 * itemsize(X) <= room:
        return StoredGram(kernel, X)
    return StreamedGram(kernel, X, room)


def _block_bytes(K: Array) -> int:
    return _BLOCK_BYTES_GPU if on_gpu(K) else _BLOCK_BYTES_CPU
