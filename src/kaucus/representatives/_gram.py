"""The kernel matrix that kernel k-means works on: exact, or of low rank by landmarks.

Sums over rows are in float64, whatever the precision of the kernel's entries: they
decide which cluster a row belongs to.
"""

from kaucus.backend import (
    Array,
    HostRows,
    add_to_diagonal,
    array_namespace,
    as_like,
    astype,
    budget_to_have,
    budget_without_buffers,
    cho_solve,
    cholesky_with_jitter,
    epsilon,
    format_bytes,
    is_sparse,
    itemsize,
    take_rows,
)
from kaucus.kernels import Kernel, KernelOperator, kernel_diagonal

# Arrays of a number for each row and cluster, in float64: products and their parts.
_SUMS = 10
# Bytes for tiles below which a product takes longer to organise than to compute; rows
# of less than so many bytes are computed with any budget.
_LEAST_WORK, _SMALL = 8 * 2**20, 2**20


class NystromGram:
    """K ≈ K_nm (K_mm + λI)⁻¹ K_mn: centres held to the span of m landmarks.

    The diagonal and the columns are those of K itself, so that distances to such
    centres, and the objective, are true ones: the objective is an upper bound of that
    of the same clusters with their free centres.

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
        self.kernel, self.X, self.landmarks = kernel, X, landmarks
        self.shape = (int(X.shape[0]), int(X.shape[0]))
        self._K_nm = KernelOperator(
            kernel, X, landmarks, memory_budget=memory_budget, widen=False
        )
        self._L = landmark_factor(kernel, landmarks, X)

    @property
    def rounding(self) -> float:
        """Relative rounding error of products."""
        return self._K_nm.rounding

    def diagonal(self) -> Array:
        """Return k(x, x) of every row, (n,)."""
        return kernel_diagonal(self.kernel, self.X)

    def columns(self, columns: Array) -> Array:
        """Return the columns of K itself, (n, k)."""
        index = columns if is_sparse(self.X) else as_like(columns, self.X)
        return self.kernel(self.X, take_rows(self.X, index))

    def matmul(self, V: Array) -> Array:
        """Return the product with ``V``, (n, t), in float64."""
        return self._K_nm.matmul(self.coefficients(V))

    def columns_matmul(self, columns: Array, V: Array) -> Array:
        """Return the product of some columns with ``V``, (k, t), in float64."""
        K_km = self._K_nm.part(rows=columns)
        return self._K_nm.matmul(cho_solve(self._L, K_km.rmatmul(V)))

    def coefficients(self, V: Array) -> Array:
        """Return the centres Σ V[i, c] φ(x_i) as sums over the landmarks, (m, t)."""
        return cho_solve(self._L, self._K_nm.rmatmul(astype(V, "float64")))


def landmark_factor(kernel: Kernel, landmarks: Array, X: Array) -> Array:
    """Return L with L Lᵀ = K_mm + λI, (m, m) in float64, for rows as ``X`` has them."""
    K_mm = astype(kernel(landmarks), "float64")
    # What float32 rounds of K_nm must not be blown up by the inverse.
    largest = float(array_namespace(K_mm).max(kernel.diag(landmarks)))
    ridge = landmarks.shape[0] * epsilon(X) * largest
    return cholesky_with_jitter(add_to_diagonal(K_mm, ridge), largest=1e-2).L


KernelMatrix = KernelOperator | NystromGram
"""A kernel matrix, exact or approximated by landmarks."""


def make_gram(
    kernel: Kernel,
    X: Array,
    *,
    landmarks: Array | None = None,
    n_clusters: int = 1,
    memory_budget: int | str | None = None,
) -> KernelMatrix:
    """Return the kernel matrix of the rows of ``X`` for kernel k-means.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)
    landmarks : array or CSR matrix of shape (m, d), default=None
        Points for an approximation of low rank; None is exact: stored where it fits,
        and computed again by tiles where not.
    n_clusters : int, default=1
    memory_budget : int, str or None, default=None
        Bytes; None is three quarters of what is free. A quarter of it, or what the sums
        of ``n_clusters`` take, is left to these.
    """
    budget = budget_without_buffers(X, memory_budget)
    sums = _SUMS * 8 * X.shape[0] * n_clusters
    budget -= min(max(budget // 4, sums), budget // 2)
    _check_memory(X, budget, sums)
    if landmarks is not None:
        return NystromGram(kernel, X, landmarks, budget)
    return KernelOperator(kernel, X, memory_budget=budget, keep="gram")


def _check_memory(X: Array, budget: int, sums: int) -> None:
    """Refuse a budget in which tiles would be so small that a fit crawls."""
    if isinstance(X, HostRows) or is_sparse(X):
        return
    copies = itemsize(X) * X.shape[0] * X.shape[1]
    matrix = itemsize(X) * X.shape[0] ** 2
    if copies < _SMALL or matrix <= budget or budget - copies >= _LEAST_WORK:
        return
    wanted = copies + _LEAST_WORK
    wanted = budget_to_have(max(4 * wanted // 3, wanted + sums), X)
    raise MemoryError(
        f"Kernel k-means of {X.shape[0]} rows holds a copy of them, "
        f"{format_bytes(copies)}, and {format_bytes(sums)} of sums; memory_budget "
        f"leaves {format_bytes(max(budget, 0))} for copies and tiles. Pass a "
        f"memory_budget of {format_bytes(wanted)} or more, or fewer rows."
    )
