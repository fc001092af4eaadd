"""What a kernel is: k(X, Y), its diagonal, and one block of it at a time.

A kernel object is immutable, knows its parameters and nothing else: no data, no
fitting. A subclass gives ``prepare`` (once per set of rows, where they must be made
ready), ``tile`` (one block of the matrix, from prepared rows) and ``diag``; the rest is
here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, ClassVar

from kaucus.backend import (
    Array,
    HostRows,
    array_namespace,
    astype,
    device_of,
    dtype_name,
    is_sparse,
    mirror_upper,
    n_workers,
    one_blas_thread,
    product_into,
    sqrt,
)
from kaucus.kernels._distances import (
    Rows,
    inner_products,
    mean_row,
    shifted_rows,
    squared_distances,
)
from kaucus.kernels._tiles import (
    PreparedPairs,
    RowPairs,
    StreamedPairs,
    bytes_for_tiles,
    fits_into,
)


class Kernel(ABC):
    """A similarity k(x, y) of two rows.

    Examples
    --------
    A kernel of your own, here a function of the inner products:

    >>> import numpy as np
    >>> from kaucus.kernels import Linear
    >>> class Squared(Linear):
    ...     def of_inner_products(self, G):
    ...         return G**2
    >>> Squared()(np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[ 1.,  1.],
           [ 1., 25.]])
    """

    name: ClassVar[str]
    """What estimators call it, for example ``"rbf"``."""

    positive_semidefinite: ClassVar[bool] = True
    """Whether every Gram matrix has no negative eigenvalue."""

    thread_safe: ClassVar[bool] = True
    """Whether blocks may be computed in several threads."""

    of_length: ClassVar[bool] = False
    """Whether gamma is an inverse length, as in exp(−γ‖x − y‖), not its square."""

    tile_into: ClassVar[Any] = None
    """A method ``(out, X, Y)`` that writes a block into a tensor, for kernels that can
    do so without a copy."""

    def __call__(
        self, X: Array, Y: Array | None = None, *, out: Array | None = None
    ) -> Array:
        """Return the kernel matrix of the rows of ``X`` and ``Y``.

        Parameters
        ----------
        X : array, CSR matrix or HostRows of shape (n, d)
        Y : array, CSR matrix or HostRows of shape (m, d), default=None
            None means ``X``: half of the work, and an exactly symmetric matrix.
        out : array of shape (n, m), default=None
            Memory for the result, in its precision, which need not be used. Large
            matrices one after the other are quicker in the same memory: the first use
            of each new page takes the system's time.

        Returns
        -------
        array of shape (n, m)
            In the library, device and precision of ``X``.
        """
        pairs = self.pairs(X, Y)
        tile = pairs.tile_shape(bytes_for_tiles(pairs.shape, X))
        if isinstance(pairs, PreparedPairs) and fits_into(pairs.shape, tile):
            return self._one_tile(pairs, symmetric=Y is None)
        if out is None:
            xp = array_namespace(X)
            out = xp.empty(pairs.shape, dtype=_result_dtype(X), device=device_of(X))
        pairs.fill(out, tile, symmetric=Y is None)
        return out

    def _one_tile(self, pairs: PreparedPairs, *, symmetric: bool) -> Array:
        """Return a matrix that is small enough for one tile: no copies, no threads."""
        X = pairs.rows.values
        alone = one_blas_thread() if self.n_workers(X) > 1 else nullcontext()
        with alone:  # as in threads: the result does not depend on their number
            K = self.tile(pairs.rows, pairs.columns)
        if symmetric:
            mirror_upper(K)
        return K

    @staticmethod
    def distances(X: Array) -> Array:
        """Return the distances, (n, n), from whose median ``gamma`` is taken."""
        rows = shifted_rows(X, None if is_sparse(X) else mean_row(X))
        return sqrt(astype(squared_distances(rows, rows), "float64"))

    def n_workers(self, X: Array) -> int:
        """Return how many threads compute blocks of this kernel on such arrays."""
        return n_workers(X) if self.thread_safe else 1

    def pairs(self, X: Array, Y: Array | None = None) -> RowPairs:
        """Return the rows and columns of k(X, Y), ready for :meth:`tile`.

        Made ready once; rows that stay on the host, for each tile anew.
        """
        if isinstance(X, HostRows) or isinstance(Y, HostRows):
            return StreamedPairs(self, X, X if Y is None else Y)
        shift = self.shift_of(X, X if Y is None else Y)
        rows = self.prepare(X, shift)
        columns = rows if Y is None else self.prepare(Y, shift)
        return PreparedPairs(self, X, rows, columns)

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        """Return the row that is subtracted from all rows, (d,), or None."""
        return None

    def prepare(self, X: Array, shift: Array | None) -> Any:
        """Make rows ready for :meth:`tile`; they are as they were, unless told."""
        return Rows(X, None)

    @abstractmethod
    def tile(self, X: Rows, Y: Rows) -> Array:
        """Return one block of the kernel matrix, in memory of its own."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """Return k(x, x) for each row, (n,), without the matrix."""

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        """Yield the gradients by x of each function f_j(x) = Σ_q a_qj k(x, z_q).

        Parameters
        ----------
        X : array of shape (n, d)
        Z : array of shape (m, d)
        coef : array of shape (m, t)

        Yields
        ------
        array of shape (n, d)
            For each of the t functions. 0 from a point at which a kernel has no
            gradient, as exp(−‖x − z‖) at x = z.
        """
        raise no_gradient(self)


def no_gradient(kernel: Kernel) -> NotImplementedError:
    """Return the error for a kernel whose derivative is not known."""
    return NotImplementedError(
        f"{kernel!r} has no gradient here; use 'rbf', 'exponential', 'cauchy', "
        "'laplacian', 'linear', 'poly' or 'sigmoid'."
    )


def _result_dtype(X: Array):
    return getattr(array_namespace(X), dtype_name(X))


class InnerProductKernel(Kernel):
    """A kernel that is a function of ⟨x, y⟩."""

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_inner_products(inner_products(X.values, Y.values))

    def tile_into(self, out: Array, X: Rows, Y: Rows) -> None:
        """Write one block of the kernel matrix into a tensor."""
        K = self.of_inner_products(product_into(out, X.values, Y.values))
        if K is not out:
            out[:, :] = K

    @abstractmethod
    def of_inner_products(self, G: Array) -> Array:
        """Turn inner products into the kernel; may overwrite ``G``."""

    def slope_of_inner_products(self, G: Array) -> Array:
        """Return the derivative of the kernel by the inner product; may overwrite."""
        raise no_gradient(self)

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        slope = self.slope_of_inner_products(inner_products(X, Z))
        for j in range(coef.shape[1]):
            yield (slope * coef[:, j][None, :]) @ Z


class UnitDiagonalKernel(Kernel):
    """A kernel with k(x, x) = 1."""

    def diag(self, X: Array) -> Array:
        xp = array_namespace(X)
        return xp.ones(X.shape[0], dtype=_result_dtype(X), device=device_of(X))


class DistanceKernel(UnitDiagonalKernel):
    """A kernel that is a function of ‖x − y‖², and 1 where that is 0."""

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        # A shift would fill a sparse matrix.
        return None if is_sparse(X) or is_sparse(Y) else mean_row(Y)

    prepare = staticmethod(shifted_rows)  # type: ignore[assignment]

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_squared_distances(squared_distances(X, Y))

    @abstractmethod
    def of_squared_distances(self, D: Array) -> Array:
        """Turn squared distances into the kernel; may overwrite ``D``."""

    def slope_of_squared_distances(self, D: Array) -> Array:
        """Return the derivative of the kernel by ‖x − y‖², 0 where it has none.

        May overwrite ``D``.
        """
        raise no_gradient(self)

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        shift = self.shift_of(X, Z)
        x_rows, z_rows = self.prepare(X, shift), self.prepare(Z, shift)
        slope = self.slope_of_squared_distances(squared_distances(x_rows, z_rows))
        X, Z = x_rows.values, z_rows.values
        for a in (2 * coef[:, j] for j in range(coef.shape[1])):
            yield X * (slope @ a)[:, None] - (slope * a[None, :]) @ Z
