"""Kernels: their base class, the named ones, distances, names and widths."""

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
import scipy.spatial.distance

from kaucus._array import namespace as nx
from kaucus._array.blocks import (
    for_each_block,
    map_blocks,
    n_workers,
    one_blas_thread,
    resolve_budget,
    row_blocks,
    symmetric_tiles,
    tile_shape,
    tiles,
)
from kaucus._array.linalg import diagonal, mirror_upper
from kaucus._array.namespace import Array
from kaucus._array.rows import Block, as_rows, stream_blocks, streaming_bytes

# ----------------------------------------------------------------------------------
# The rows and columns of a kernel's tiles: in memory, or streamed from the host.
#
# Rows in memory are made ready once, and tiles are computed in threads. Rows of the
# host (``HostRows``) are copied to the device for each tile, the
# next while the last are worked on, and made ready there: that costs (h + w) d for a
# tile of h × w, beside h w d for the tile itself, and nothing of the size of all rows
# is on the device.
# ----------------------------------------------------------------------------------

Tile = tuple[slice, slice]
"""Rows and columns of a tile."""

# What a tile takes for each of its rows and columns, in rows: two being copied, two
# cast, shifted, and with norms added for the product.
_COPIES = 6
# A kernel makes about this many temporaries as large as its tile.
_TEMPORARIES = 4
# Tiles of a small matrix may take as much.
_LEAST_FOR_TILES = 8 * 2**20
# Entries of the largest tile: a square of 8,192. The higher it is, the fewer times all
# columns are copied.
_TILE_ENTRIES = 2**26


class PreparedPairs:
    """Rows and columns of k(X, Y), made ready once.

    ``owned`` are those of them whose copies this object holds; None: both.
    """

    def __init__(
        self, kernel: "Kernel", like: Array, rows: Any, columns: Any, owned=None
    ) -> None:
        self.kernel, self.like = kernel, like
        self.rows, self.columns = rows, columns
        both = (rows,) if columns is rows else (rows, columns)
        self._owned = both if owned is None else owned
        self.shape = (int(rows.values.shape[0]), int(columns.values.shape[0]))

    def tile_shape(self, budget: int) -> tuple[int, int]:
        """Return rows and columns of a tile for which there is memory."""
        return tile_shape(self.like, self.shape[1], budget)

    @property
    def held_bytes(self) -> int:
        """Bytes of copies of the rows, which are held for the tiles."""
        return sum(copied_bytes(rows) for rows in self._owned)

    def iterate(self, tiles: Iterable[Tile]) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and the columns of each tile."""
        return ((self.rows.block(i), self.columns.block(j)) for i, j in tiles)

    def part(self, rows=None, columns=None) -> "PreparedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        new_rows = self.rows if rows is None else _taken(self.rows, rows)
        new_columns = self.columns if columns is None else _taken(self.columns, columns)
        owned = [new_rows] if rows is not None else []
        owned += [new_columns] if columns is not None else []
        pair = (new_rows, new_columns)
        return PreparedPairs(self.kernel, self.like, *pair, owned=owned)


class StreamedPairs:
    """Rows and columns of k(X, Y), copied to the device for each tile."""

    held_bytes = 0

    def __init__(self, kernel: "Kernel", X: Array, Y: Array, room: float) -> None:
        self.kernel, self._X, self._Y, self._room = kernel, X, Y, int(room)
        self.shape = (int(X.shape[0]), int(Y.shape[0]))

    def tile_shape(self, budget: int) -> tuple[int, int]:
        """Return rows and columns of a tile for which there is memory.

        As square as possible, with half of the memory for streamed rows for its rows,
        and half for its columns.
        """
        entries = min(budget, self._room) // (_TEMPORARIES * nx.itemsize(self._X))
        entries = max(min(entries, _TILE_ENTRIES), 1)
        row_bytes = _COPIES * nx.itemsize(self._X) * self._X.shape[1]
        most = max(self._room // (2 * row_bytes), 1)
        width = max(min(math.isqrt(entries), most, self.shape[1]), 1)
        return max(min(entries // width, most), 1), width

    def iterate(self, tiles: Iterable[Tile]) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and the columns of each tile.

        They are to be used up before the next ones are asked for.
        """
        tiles = list(tiles)
        some_rows = stream_blocks(self._X, [rows for rows, _ in tiles])
        some_columns = stream_blocks(self._Y, [columns for _, columns in tiles])
        for x, y in zip(some_rows, some_columns, strict=True):
            pairs = self.kernel.pairs(x, y)
            assert isinstance(pairs, PreparedPairs)  # of blocks that are there
            yield pairs.rows, pairs.columns

    def part(self, rows=None, columns=None) -> "StreamedPairs":
        """Return the pairs of the rows and columns with these numbers; None: all."""
        X = self._X if rows is None else nx.rows_in_order(self._X, rows)
        Y = self._Y if columns is None else nx.rows_in_order(self._Y, columns)
        return StreamedPairs(self.kernel, X, Y, self._room)


RowPairs = PreparedPairs | StreamedPairs


def fill_tiles(
    pairs: RowPairs, out: Array, tile: tuple[int, int], compute=None, *, symmetric=False
) -> None:
    """Write the tiles of a matrix, by the kernel or by a given function."""
    write, items, workers = _writing(pairs, out, tile, compute, symmetric)
    for _ in map_blocks(write, items, workers=workers):
        pass


def _writing(
    pairs: RowPairs, out: Array, tile: tuple[int, int], compute, symmetric: bool
) -> tuple[Callable, Iterable, int]:
    """Return a tile writer, its arguments and the number of threads.

    Of a symmetric matrix each tile is copied to the other half.
    """
    blocks, kernel = tiles_of(pairs.shape, tile, symmetric), pairs.kernel
    # Of tensors only: a tile of its own stays in the processor's cache, but a GPU is
    # bound by the bytes that it moves.
    in_place = compute is None and nx.is_torch(out) and kernel.tile_into is not None
    compute = kernel.tile if compute is None else compute

    here = pairs if isinstance(pairs, PreparedPairs) else None

    def write(block: Tile, pair: Any = None) -> None:
        if here is not None:
            pair = here.rows.block(block[0]), here.columns.block(block[1])
        if in_place:
            kernel.tile_into(out[block], *pair)
        else:
            out[block] = compute(*pair)
        if symmetric:
            _mirror(out, block)

    if here is not None:
        return write, blocks, kernel.n_workers(here.like)
    copied = zip(blocks, pairs.iterate(blocks), strict=True)
    return lambda item: write(*item), copied, 1


def _taken(rows: Any, numbers: np.ndarray) -> Any:
    values = rows.values
    return rows.taken(numbers if nx.is_sparse(values) else nx.as_like(numbers, values))


def copied_bytes(rows: Any) -> int:
    """Return the bytes of the shifted copy of rows, 0 without one."""
    values = rows.values
    if getattr(rows, "given", None) is None:
        return 0
    return nx.itemsize(values) * values.shape[0] * values.shape[1]


def bytes_for_tiles(shape: tuple[int, int], like: Array) -> int:
    """Return the bytes for tiles at work: on the host, no more than the matrix has."""
    if nx.on_gpu(like):
        return resolve_budget(None, like)
    return max(nx.itemsize(like) * shape[0] * shape[1], _LEAST_FOR_TILES)


def tiles_of(shape: tuple[int, int], tile, symmetric: bool) -> list[Tile]:
    """Return the tiles of a matrix; of a symmetric one, its lower part."""
    return symmetric_tiles(shape[0], tile) if symmetric else tiles(shape, tile)


def _mirror(out: Array, block: Tile) -> None:
    """Write the mirror image of a tile of :func:`symmetric_tiles`."""
    rows, columns = block
    if columns.start == rows.start:
        mirror_upper(out[rows, rows])
        columns = slice(rows.stop, columns.stop)
    out[columns, rows] = out[rows, columns].T


def kernel_diagonal(kernel: "Kernel", X: Array) -> Array:
    """Return k(x, x) of each row.

    Parameters
    ----------
    kernel : Kernel
    X : array, CSR matrix or HostRows of shape (n, d)

    Returns
    -------
    array of shape (n,)
        In the precision of ``X``.
    """
    parts = [kernel.diag(block.rows) for block in as_rows(X, 1).blocks()]
    return nx.joined(parts)


# ----------------------------------------------------------------------------------
# Inner products and squared distances of blocks of rows, dense or CSR.
#
# The fast form of a squared distance,
#
#     ‖x − y‖² = ‖x‖² + ‖y‖² − 2⟨x, y⟩,
#
# is one matrix product, but it loses digits where the distance is small beside the
# norms: two nearly equal rows far from the origin may even come out negative. Here
#
# 1. a common shift (the mean row) is taken off first, so that the norms are of the
#    size of the data's spread, wherever the data lies;
# 2. every entry that has still lost more than half of its digits, that is
#    ‖x − y‖² < √ε (‖x‖² + ‖y‖²), is computed again from the differences of the rows
#    as they were given: the shift rounds, and near rows far from the mean show it.
#
# So each distance has a relative error of at most a small multiple of √ε, equal rows
# have the distance 0, and no distance is negative.
# ----------------------------------------------------------------------------------

# Above this share of small distances, a float32 block is done in float64 as a whole.
_MANY = 0.02
# Elements of one chunk of differences x − y.
_CHUNK = 2**21
# Up to so many features, two more cost less than passes over the result.
_FEW_FEATURES = 256
# Denser CSR blocks are multiplied as dense ones: BLAS beats the sparse product.
_DENSE_ENOUGH = 0.02


class Rows(NamedTuple):
    """Rows prepared for a kernel; slicing returns a block."""

    values: Array
    """The rows, shifted or scaled as the kernel needs them, (n, d)."""
    squared_norms: Array | None
    """Squared norms of ``values`` in float64, (n,), or None."""
    given: Array | None = None
    """The rows before they were shifted, (n, d), or None where they were not."""

    def block(self, rows: slice) -> "Rows":
        """Return the rows of a slice, dense where a CSR block has many entries."""
        norms, given = self.squared_norms, self.given
        values = self.values[rows, :]
        return Rows(
            dense(values) if nx.is_sparse(values) and _dense_enough(values) else values,
            None if norms is None else norms[rows],
            None if given is None else given[rows, :],
        )

    def taken(self, rows: Array) -> "Rows":
        """Return the rows of the given numbers."""
        norms, given = self.squared_norms, self.given
        return Rows(
            nx.take_rows(self.values, rows),
            None if norms is None else nx.take_rows(norms, rows),
            None if given is None else nx.take_rows(given, rows),
        )


def squared_norms(X: Array) -> Array:
    """Return ‖x‖² of each row.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)

    Returns
    -------
    array of shape (n,)
        In float64.
    """
    if nx.is_sparse(X):
        X = nx.astype(X, "float64")  # before the squares are rounded
        return np.asarray(X.multiply(X).sum(axis=1)).reshape(-1)
    xp = nx.array_namespace(X)
    bytes_per_row = 8 * max(X.shape[1], 1)
    norms = xp.empty(X.shape[0], dtype=xp.float64, device=nx.device_of(X))

    def square(s: slice) -> None:
        norms[s] = xp.sum(xp.astype(X[s, :], xp.float64, copy=False) ** 2, axis=1)

    if X.shape[0] * bytes_per_row <= 8 * _CHUNK:  # nearly always in a search
        square(slice(0, X.shape[0]))
        return norms
    strips = list(row_blocks(X.shape[0], bytes_per_row, 8 * _CHUNK))
    for_each_block(square, strips, workers=min(n_workers(X), len(strips)))
    return norms


def mean_row(X: Array) -> Array:
    """Return the mean row of a dense ``X``, in its precision."""
    xp = nx.array_namespace(X)
    return nx.astype(xp.mean(X, axis=0), nx.dtype_name(X))


def shifted_rows(X: Array, shift: Array | None) -> Rows:
    """Return ``X − shift`` with its squared norms."""
    if shift is None:
        return Rows(X, squared_norms(X))
    values = X - shift[None, :]
    return Rows(values, squared_norms(values), X)


def inner_products(X: Array, Y: Array) -> Array:
    """Return ⟨x, y⟩ for all pairs of rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    Y : array or CSR matrix of shape (m, d)

    Returns
    -------
    array of shape (n, m)
        Dense, in memory of its own.
    """
    if not (nx.is_sparse(X) or nx.is_sparse(Y)):
        return nx.product(X, Y)
    if _dense_enough(X) and _dense_enough(Y):
        return nx.product(dense(X), dense(Y))
    G = X @ Y.T
    return G.toarray() if nx.is_sparse(G) else np.asarray(G)


def _dense_enough(X: Array) -> bool:
    """Return True if a block is dense, or a CSR block with many entries."""
    return not nx.is_sparse(X) or X.nnz >= _DENSE_ENOUGH * X.shape[0] * X.shape[1]


def dense(X: Array) -> Array:
    """Return a CSR block as a dense array, other blocks unchanged."""
    return X.toarray() if scipy.sparse.issparse(X) else X


def squared_distances(X: Rows, Y: Rows) -> Array:
    """Return ‖x − y‖² for all pairs of two blocks, (n, m), in memory of its own.

    Both blocks must come from :func:`shifted_rows` with the same shift.
    """
    assert X.squared_norms is not None
    assert Y.squared_norms is not None
    dtype = nx.dtype_name(X.values)
    x_norms = nx.astype(X.squared_norms, dtype)[:, None]
    y_norms = nx.astype(Y.squared_norms, dtype)[None, :]
    D = _fast_form(X.values, Y.values, x_norms, y_norms)

    share = nx.product_epsilon(D) ** 0.5
    i, j = _entries_that_lost_digits(D, share, x_norms, y_norms)
    if dtype == "float32" and i.shape[0] > _MANY * D.shape[0] * D.shape[1]:
        wide = squared_distances(_in_float64(X), _in_float64(Y))
        return nx.astype(wide, dtype)
    if i.shape[0]:  # every negative entry is among them
        nx.set_entries(D, i, j, _distances_from_differences(X, Y, i, j))
    return D


def _fast_form(X: Array, Y: Array, x_norms: Array, y_norms: Array) -> Array:
    """Return ‖x‖² + ‖y‖² − 2⟨x, y⟩ in a new array, without repair.

    With few features as one product, [x, ‖x‖², 1] [−2y, 1, ‖y‖²]ᵀ: passes over the
    result would take longer than the product itself.
    """
    if X.shape[1] > _FEW_FEATURES or nx.is_sparse(X) or nx.is_sparse(Y):
        D = inner_products(X, Y)
        D *= -2
        D += x_norms
        D += y_norms
        return D
    xp = nx.array_namespace(X, Y)
    left = xp.concat([X, x_norms, xp.ones_like(x_norms)], axis=1)
    right = xp.concat([-2 * Y, xp.ones_like(y_norms.T), y_norms.T], axis=1)
    return left @ right.T


def _entries_that_lost_digits(D: Array, share: float, x_norms: Array, y_norms: Array):
    """Return rows and columns of entries with ‖x − y‖² ≤ share (‖x‖² + ‖y‖²)."""
    xp = nx.array_namespace(D)
    # One pass for the rows that have such entries, by a bound that is not exact, then
    # theirs by it, and the few that are below it, exactly.
    bound = share * (x_norms + xp.max(y_norms))
    (rows,) = xp.nonzero(xp.min(D, axis=1) <= bound[:, 0])
    if rows.shape[0] == 0:
        return rows, rows
    i, j = xp.nonzero(nx.take_rows(D, rows) <= nx.take_rows(bound, rows))
    i = nx.take_rows(rows, i)
    entries = nx.get_entries(D, i, j)
    norms = nx.take_rows(x_norms[:, 0], i) + nx.take_rows(y_norms[0, :], j)
    (keep,) = xp.nonzero(entries <= share * norms)
    return nx.take_rows(i, keep), nx.take_rows(j, keep)


def _in_float64(rows: Rows) -> Rows:
    given = None if rows.given is None else nx.astype(rows.given, "float64")
    return Rows(nx.astype(rows.values, "float64"), rows.squared_norms, given)


def _distances_from_differences(X: Rows, Y: Rows, i: Array, j: Array) -> Array:
    x = X.values if X.given is None else X.given
    y = Y.values if Y.given is None else Y.given
    xp = nx.array_namespace(x, y)
    parts = []
    for s in row_blocks(i.shape[0], max(x.shape[1], 1), _CHUNK):
        difference = dense(nx.take_rows(x, i[s])) - dense(nx.take_rows(y, j[s]))
        parts.append(xp.sum(difference**2, axis=1))
    return nx.joined(parts)


def manhattan_distances(X: Array, Y: Array) -> Array:
    """Return Σ |x − y| for all pairs of two blocks, (n, m)."""
    X, Y = dense(X), dense(Y)
    xp = nx.array_namespace(X, Y)
    if nx.is_numpy(X):
        D = scipy.spatial.distance.cdist(X, Y, "cityblock")
        return D.astype(X.dtype, copy=False)
    D = xp.zeros_like(X[:, :1] + Y[:, 0][None, :])
    for k in range(X.shape[1]):  # one feature at a time: no (n, m, d) temporary
        D += xp.abs(X[:, k][:, None] - Y[:, k][None, :])
    return D


# ----------------------------------------------------------------------------------
# What a kernel is: k(X, Y), its diagonal, and one block of it at a time.
#
# A kernel object is immutable, knows its parameters and nothing else: no data, no
# fitting. A subclass gives ``prepare`` (once per set of rows, where they must be made
# ready), ``tile`` (one block of the matrix, from prepared rows) and ``diag``; the rest
# is here.
# ----------------------------------------------------------------------------------


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
    """Name of the kernel in estimators, for example ``"rbf"``."""

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
        fits = pairs.shape[0] <= tile[0] and pairs.shape[1] <= tile[1]
        if isinstance(pairs, PreparedPairs) and fits:
            return self._one_tile(pairs, symmetric=Y is None)
        if out is None:
            xp = nx.array_namespace(X)
            out = xp.empty(pairs.shape, dtype=_result_dtype(X), device=nx.device_of(X))
        write, items, workers = _writing(pairs, out, tile, None, Y is None)
        for _ in map_blocks(write, items, workers=workers):
            pass
        return out

    def _one_tile(self, pairs: PreparedPairs, *, symmetric: bool) -> Array:
        """Return a matrix that is small enough for one tile: no copies, no threads."""
        X = pairs.rows.values
        alone = one_blas_thread() if self.n_workers(X) > 1 else nullcontext()
        with alone:  # as in threads: the result does not depend on their number
            every = slice(None)
            K = self.tile(pairs.rows.block(every), pairs.columns.block(every))
        if symmetric:
            mirror_upper(K)
        return K

    @staticmethod
    def distances(X: Array) -> Array:
        """Return the distances, (n, n), from whose median ``gamma`` is taken."""
        rows = shifted_rows(X, None if nx.is_sparse(X) else mean_row(X))
        return nx.sqrt(nx.astype(squared_distances(rows, rows), "float64"))

    def n_workers(self, X: Array) -> int:
        """Return the number of threads for blocks of this kernel."""
        return n_workers(X) if self.thread_safe else 1

    def pairs(self, X: Array, Y: Array | None = None) -> RowPairs:
        """Return the rows and columns of k(X, Y), ready for :meth:`tile`.

        Made ready once; rows that stay on the host, for each tile anew.
        """
        others = X if Y is None else Y
        room = min(streaming_bytes(X), streaming_bytes(others))
        if math.isfinite(room):
            return StreamedPairs(self, X, others, room)
        shift = self.shift_of(X, others)
        rows = self.prepare(X, shift)
        columns = rows if Y is None else self.prepare(Y, shift)
        return PreparedPairs(self, X, rows, columns)

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        """Return the row that is subtracted from all rows, (d,), or None."""
        return None

    def prepare(self, X: Array, shift: Array | None) -> Any:
        """Precompute what :meth:`tile` needs (default: nothing)."""
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
        f"{kernel!r} has no gradient here; use 'rbf', 'exponential', 'matern32', "
        "'matern52', 'rational_quadratic', 'cauchy', "
        "'laplacian', 'linear', 'poly' or 'sigmoid'."
    )


def _result_dtype(X: Array):
    return getattr(nx.array_namespace(X), nx.dtype_name(X))


class InnerProductKernel(Kernel):
    """A kernel that is a function of ⟨x, y⟩."""

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_inner_products(inner_products(X.values, Y.values))

    def tile_into(self, out: Array, X: Rows, Y: Rows) -> None:
        """Write one block of the kernel matrix into a tensor."""
        K = self.of_inner_products(nx.product_into(out, X.values, Y.values))
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
        xp = nx.array_namespace(X)
        return xp.ones(X.shape[0], dtype=_result_dtype(X), device=nx.device_of(X))


class DistanceKernel(UnitDiagonalKernel):
    """A kernel that is a function of ‖x − y‖², and 1 where that is 0."""

    def shift_of(self, X: Array, Y: Array) -> Array | None:
        # A shift would fill a sparse matrix.
        return None if nx.is_sparse(X) or nx.is_sparse(Y) else mean_row(Y)

    prepare = staticmethod(shifted_rows)  # type: ignore[assignment]

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self.of_squared_distances(squared_distances(X, Y))

    @abstractmethod
    def of_squared_distances(self, D: Array) -> Array:
        """Turn squared distances into the kernel; may overwrite ``D``."""

    def slope_of_squared_distances(self, D: Array) -> Array:
        """Return the derivative by ‖x − y‖²; 0 where undefined.

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


# ----------------------------------------------------------------------------------
# Kernels that are given: a function of rows, or a matrix.
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A kernel given by a function of two sets of rows.

    Parameters
    ----------
    function : callable
        ``function(X, Y)`` returns the kernel matrix of two arrays of rows.
        Of shapes (n, d) and (m, d) it returns (n, m), as the callables of
        scikit-learn's ``SVC`` do. It is called on
        blocks of rows, from one thread. It sees rows of the library and device that
        the data is of; what it returns is brought there.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import chi2_kernel
    >>> CallableKernel(chi2_kernel)(np.eye(2)).shape
    (2, 2)
    """

    function: Callable[[Any, Any], Any]

    name = "callable"
    # Nothing is known of the function: neither its matrix nor its threads.
    positive_semidefinite = False
    thread_safe = False

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self._checked(X.values, Y.values)

    def diag(self, X: Array) -> Array:
        xp = nx.array_namespace(X)
        rows = [X[i : i + 1, :] for i in range(X.shape[0])]
        return xp.concat([xp.reshape(self._checked(row, row), (1,)) for row in rows])

    def _checked(self, X: Array, Y: Array) -> Array:
        expected = (X.shape[0], Y.shape[0])
        K = self.function(X, Y)
        shape = getattr(K, "shape", None)
        if shape is None or tuple(shape) != expected:
            got = f"a {type(K).__name__}" if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"The kernel {_name(self.function)} returned {got} for "
                f"{expected[0]} and {expected[1]} rows; expected {expected}. It must "
                "take two sets of rows and return the matrix of all pairs, an array."
            )
        K = nx.as_like(K.toarray() if nx.is_sparse(K) else K, X)
        xp = nx.array_namespace(K)
        if not bool(xp.all(xp.isfinite(K))):
            raise ValueError(
                f"The kernel {_name(self.function)} returned NaN or infinity; "
                "every entry must be finite. Scale the data or change the kernel."
            )
        # A copy: what the user's function returns may be the user's.
        return xp.asarray(K, dtype=getattr(xp, nx.dtype_name(X)), copy=True)


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


# ---- a matrix ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """k(i, j) = K[i, j]: the entries of a matrix, for rows that are row numbers.

    So whatever takes a kernel and rows takes a given matrix as well.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric; never changed.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> kernel = Precomputed(K)
    >>> kernel(kernel.row_numbers())
    array([[2., 1.],
           [1., 3.]])
    """

    matrix: Array

    name = "precomputed"
    # What the user gave is checked by the estimator.
    positive_semidefinite = False

    def row_numbers(self) -> Array:
        """Return the numbers of all rows, (n, 1), in the precision of the matrix."""
        xp = nx.array_namespace(self.matrix)
        n = self.matrix.shape[0]
        dtype, device = self.matrix.dtype, nx.device_of(self.matrix)
        return xp.arange(n, dtype=dtype, device=device)[:, None]

    def has_rows(self, X: Array) -> bool:
        """Return True if ``X`` are the numbers of all rows, in order."""
        if X.shape[0] != self.matrix.shape[0]:
            return False
        return bool(nx.array_namespace(X).all(self.row_numbers() == X))

    def tile(self, X: Rows, Y: Rows) -> Array:
        xp = nx.array_namespace(self.matrix)
        rows = nx.take_rows(self.matrix, _as_index(X.values))
        return nx.astype(
            xp.take(rows, _as_index(Y.values), axis=1), nx.dtype_name(X.values)
        )

    def diag(self, X: Array) -> Array:
        values = nx.take_rows(diagonal(self.matrix), _as_index(X))
        return nx.astype(values, nx.dtype_name(X))


def _as_index(row_numbers: Array) -> Array:
    xp = nx.array_namespace(row_numbers)
    return xp.astype(row_numbers[:, 0], xp.int64)


# ----------------------------------------------------------------------------------
# From what users write, names, objects or functions, to a kernel and its gamma.
#
# A kernel is known by its name once :func:`known_by_name` decorates it. A subclass of
# ``Kernel`` that does not ask for that, a user's own for instance, changes nothing
# here.
# ----------------------------------------------------------------------------------

_KERNELS: dict[str, type[Kernel]] = {}


Known = TypeVar("Known", bound=type[Kernel])


def known_by_name(kernel: Known) -> Known:
    """Class decorator: estimators take this kernel by its ``name``.

    For dataclasses whose fields are numbers, out of gamma, degree and coef0.

    Parameters
    ----------
    kernel : type of Kernel

    Returns
    -------
    type of Kernel
        The class itself.

    Raises
    ------
    ValueError
        If another kernel has the name.

    Examples
    --------
    A name must be new:

    >>> from kaucus.kernels import Linear
    >>> @known_by_name
    ... class Squared(Linear):
    ...     name = "rbf"
    Traceback (most recent call last):
    ...
    ValueError: The kernel name 'rbf' belongs to Gaussian; give Squared another.
    """
    owner = _KERNELS.setdefault(kernel.name, kernel)
    if owner is not kernel:
        raise ValueError(
            f"The kernel name {kernel.name!r} belongs to {owner.__name__}; give "
            f"{kernel.__name__} another."
        )
    return kernel


def kernel_names() -> list[str]:
    """Return the names by which estimators know the kernels.

    Returns
    -------
    list of str
        In alphabetical order.

    Examples
    --------
    >>> "rbf" in kernel_names()
    True
    """
    return sorted(_KERNELS)


def kernels_with_gamma() -> list[str]:
    """Return the names of the kernels that have a width ``gamma``."""
    return [name for name in kernel_names() if "gamma" in parameters(_KERNELS[name])]


def parameters(cls: type[Kernel]) -> set[str]:
    """Return the names of a kernel's parameters."""
    return {field.name for field in fields(cls)}  # type: ignore[arg-type]


# For type checkers: every name, and the words of estimators beside them.
KernelName = Literal[
    "auto",
    "cauchy",
    "cosine",
    "exponential",
    "laplacian",
    "linear",
    "matern32",
    "matern52",
    "poly",
    "precomputed",
    "rational_quadratic",
    "rbf",
    "sigmoid",
]
# What other libraries call kernels, for the hint of an error.
_OTHER_NAMES = {
    "gaussian": "rbf",
    "squared_exponential": "rbf",
    "polynomial": "poly",
    "tanh": "sigmoid",
    "matern": "matern52",
    "laplace": "laplacian",
}


def kernel_class(name: str, *, also: Sequence[str] = ()) -> type[Kernel]:
    """Return the class of the kernel of that name.

    Parameters
    ----------
    name : str
    also : sequence of str, default=()
        Words that the caller takes in place of a kernel, for the message.

    Raises
    ------
    ValueError
        With the names that there are, and the one that was probably meant.
    """
    if name in _KERNELS:
        return _KERNELS[name]
    known = [*kernel_names(), *also]
    meant = _OTHER_NAMES.get(name.lower())
    near = [meant] if meant else difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"kernel={name!r} is not known; expected one of {known}, a kernel object or a "
        f"function.{hint}"
    )


# ---- kernels and gammas --------------------------------------------------------------


def resolve_kernel(
    kernel: object, *, also: Sequence[str] = (), **params: float
) -> Kernel:
    """Return the kernel object that ``kernel`` stands for.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name of :func:`kernel_names`, an object, or a function ``k(X, Y)``.
        An object is returned as it is.
    also : sequence of str, default=()
        Words that the caller takes in place of a kernel, for the message.
    **params : float
        ``gamma``, ``degree``, ``coef0``, of which a named kernel takes what it has.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> resolve_kernel("rbf", gamma=0.5)
    Gaussian(gamma=0.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        cls = kernel_class(kernel, also=also)
        known = parameters(cls)
        return cls(**{name: params[name] for name in params if name in known})
    if callable(kernel):
        return CallableKernel(kernel)
    raise ValueError(
        f"kernel={kernel!r} is not a kernel; pass one of {[*kernel_names(), *also]}, "
        "a kernel object or a function k(X, Y)."
    )


def resolve_gamma(
    gamma: float | str,
    X: Array,
    sample_weight: Array | None = None,
    kernel: object = None,
) -> float:
    """Return gamma as a number, as scikit-learn's ``SVC`` does.

    ``"scale"`` is 1 / (d Var(X)), ``"auto"`` is 1 / d; the variance is that of all
    entries (each row counted with its weight), and 1 stands in for 1 / (d Var(X)) where
    all entries are equal. ``"median"`` is :func:`median_gamma`: the width from the
    median distance between rows.

    Parameters
    ----------
    gamma : {"scale", "auto", "median"} or float
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
    kernel : object, default=None
        Whose gamma it is; matters for ``"median"`` alone.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    n_features = X.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    if gamma == "scale":
        variance = _variance(X, sample_weight)
        if not math.isfinite(variance):
            raise ValueError(
                "gamma='scale' is 1 / (n_features X.var()), and the variance of X "
                "overflows; scale X, for example with StandardScaler."
            )
        return _inverse(n_features * variance, X) if variance > 0 else 1.0
    if gamma == "median":
        return median_gamma(X, sample_weight, kernel)
    raise ValueError(
        f"gamma={gamma!r} is not known; expected 'scale', 'auto', 'median' or a "
        "positive number."
    )


def _inverse(value: float, X: Array) -> float:
    """Return 1 / value, or say that the rows differ by too little."""
    if value < 1e-300:
        raise ValueError(
            f"gamma='scale' is 1 / (n_features X.var()), and the variance of X is "
            f"{value / X.shape[1]:.3g}, too small for its inverse; scale X, for "
            "example with StandardScaler."
        )
    return 1.0 / value


def _variance(X: Array, sample_weight: Array | None) -> float:
    """Return the variance of all entries, in float64.

    From row sums of x and of (x − m)², with the first entry for m: taking off a number
    of the data's size keeps the digits, and no second copy of X is made.
    """
    shift = float(nx.dense_rows(X, np.arange(1))[0, 0])
    rows = as_rows(X, 1).attached(sample_weight)
    totals = rows.reduce(_EntrySums, shift, label="measure-rows").totals
    n_entries, total, squares = (float(v) for v in totals)
    return squares / n_entries - (total / n_entries) ** 2


class _EntrySums:
    """Σ w, Σ w (x − m) and Σ w (x − m)² of the entries of a block of rows."""

    def __init__(self, block: Block, shift: float):
        sums, squares = _row_sums(block.rows, shift)
        xp, (weight,) = nx.array_namespace(sums), block.vectors
        weight = xp.ones_like(sums) if weight is None else nx.as_like(weight, sums)
        weight = nx.astype(weight, "float64")
        n_entries = float(xp.sum(weight)) * block.rows.shape[1]
        sums, squares = (float(xp.sum(weight * v)) for v in (sums, squares))
        self.totals = np.asarray([n_entries, sums, squares])

    def merge(self, other: "_EntrySums") -> None:
        """Add the sums of other rows."""
        self.totals = self.totals + other.totals


def _row_sums(X: Array, shift: float) -> tuple[Array, Array]:
    """Return Σ (x − m) and Σ (x − m)² of each row; m is 0 in a CSR matrix."""
    xp = nx.array_namespace(X)
    if nx.is_sparse(X):
        sums = X.sum(axis=1, dtype="float64")
        squares = X.multiply(X).sum(axis=1, dtype="float64")
        return tuple(xp.reshape(xp.asarray(v), (-1,)) for v in (sums, squares))
    nothing = nx.astype(X[:0, 0], "float64")
    sums, squares = [nothing], [nothing]
    for s in row_blocks(X.shape[0], 8 * X.shape[1], 2**20):
        block = nx.astype(X[s, :], "float64") - shift
        sums.append(xp.sum(block, axis=1))
        squares.append(xp.sum(block**2, axis=1))
    return xp.concat(sums), xp.concat(squares)


# ---- the median heuristic ------------------------------------------------------------


# Half a million pairs: the median is known to a few tenths of a percent.
_ROWS = 1000


def median_gamma(
    X: Array, sample_weight: Array | None = None, kernel: object = None
) -> float:
    """Return gamma by the median heuristic: from the median distance of rows.

    With m the median of the distances between different rows,

        exponential, Laplacian   1 / m        k = e⁻¹ there; Manhattan for Laplacian
        all others               1 / (2 m²)   the Gaussian whose σ is m

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Rows of weight 0 are passed over; other weights do not matter.
    kernel : object, default=None
        What :func:`resolve_kernel` takes; its name decides between the two formulas.

    Returns
    -------
    float
        1 where all rows are equal.

    Notes
    -----
    All pairs of at most 1,000 rows at even steps through X: no random numbers, the same
    answer every time. Rows that come in a period of n / 1000 would be sampled badly;
    shuffle those.

    Examples
    --------
    >>> import numpy as np
    >>> median_gamma(np.array([[0.0], [1.0], [2.0]]))
    0.5
    """
    rows = np.arange(X.shape[0])
    if sample_weight is not None:
        rows = rows[nx.to_numpy(sample_weight) > 0]
    if len(rows) > _ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.int64)]
    some = nx.take_rows(X, rows)
    cls: type[Kernel] = Kernel
    if isinstance(kernel, str) and kernel in kernel_names():
        cls = kernel_class(kernel)
    distances = nx.to_numpy(cls.distances(some)).astype(np.float64)
    distances = distances[np.tri(len(rows), k=-1, dtype=bool)]  # each pair once
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    median = float(np.median(distances))
    if not math.isfinite(median):
        raise ValueError(
            "gamma='median' needs the distances between rows, and they overflow; "
            "scale X, for example with StandardScaler."
        )
    unit = median if cls.of_length else 2 * median**2
    if unit < 1e-300:
        raise ValueError(
            f"gamma='median' needs the distances between rows, and their median, "
            f"{median:.3g}, is too small; scale X, for example with StandardScaler."
        )
    return 1 / unit


# ----------------------------------------------------------------------------------
# Kernels of a distance: Gaussian, exponential, Matérn, Cauchy, Laplacian.
# ----------------------------------------------------------------------------------


@known_by_name
@dataclass(frozen=True)
class Gaussian(DistanceKernel):
    """k(x, y) = exp(−gamma ‖x − y‖²).

    With a width σ, gamma is 1 / (2σ²).

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """

    gamma: float = 1.0

    name = "rbf"

    def of_squared_distances(self, D: Array) -> Array:
        D *= -self.gamma
        return nx.exp(D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        D = self.of_squared_distances(D)
        D *= -self.gamma
        return D


@known_by_name
@dataclass(frozen=True)
class Exponential(DistanceKernel):
    """k(x, y) = exp(−gamma ‖x − y‖).

    Rougher than the Gaussian at short range, longer in reach. Maia and Ara write
    gamma as 1 / (2σ²).

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Exponential(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    gamma: float = 1.0

    name = "exponential"
    of_length = True

    def of_squared_distances(self, D: Array) -> Array:
        D = nx.sqrt(D)
        D *= -self.gamma
        return nx.exp(D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        # −γ k(d) / 2d; a row that is itself a point has no gradient from it.
        xp = nx.array_namespace(D)
        d = nx.sqrt(D)
        slope = nx.exp(-self.gamma * d)
        slope *= -0.5 * self.gamma
        return xp.where(d > 0, slope / xp.where(d > 0, d, xp.ones_like(d)), 0 * d)


@known_by_name
@dataclass(frozen=True)
class Cauchy(DistanceKernel):
    """k(x, y) = 1 / (1 + gamma ‖x − y‖²).

    Heavy tails: far points still count. Maia and Ara write gamma as 1 / σ.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Cauchy(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3333]])
    """

    gamma: float = 1.0

    name = "cauchy"

    def of_squared_distances(self, D: Array) -> Array:
        D *= self.gamma
        D += 1
        return 1 / D

    def slope_of_squared_distances(self, D: Array) -> Array:
        K = self.of_squared_distances(D)
        K *= K
        K *= -self.gamma
        return K


@known_by_name
@dataclass(frozen=True)
class Matern32(DistanceKernel):
    """k(x, y) = (1 + r) exp(−r) with r = √3 gamma ‖x − y‖.

    The Matérn kernel of smoothness 3/2: functions of it have one derivative. gamma is
    one over the length scale of scikit-learn's ``Matern(nu=1.5)``.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Matern32(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.4834]])
    """

    gamma: float = 1.0

    name = "matern32"
    of_length = True

    def of_squared_distances(self, D: Array) -> Array:
        D = nx.sqrt(D)
        D *= math.sqrt(3) * self.gamma
        return (1 + D) * nx.exp(-D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        a = math.sqrt(3) * self.gamma
        return -(a**2) / 2 * nx.exp(-a * nx.sqrt(D))


@known_by_name
@dataclass(frozen=True)
class Matern52(DistanceKernel):
    """k(x, y) = (1 + r + r²/3) exp(−r) with r = √5 gamma ‖x − y‖.

    The Matérn kernel of smoothness 5/2: functions of it have two derivatives. gamma is
    one over the length scale of scikit-learn's ``Matern(nu=2.5)``.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Matern52(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.   , 0.524]])
    """

    gamma: float = 1.0

    name = "matern52"
    of_length = True

    def of_squared_distances(self, D: Array) -> Array:
        D = nx.sqrt(D)
        D *= math.sqrt(5) * self.gamma
        return (1 + D + D**2 / 3) * nx.exp(-D)

    def slope_of_squared_distances(self, D: Array) -> Array:
        a = math.sqrt(5) * self.gamma
        D = nx.sqrt(D)
        D *= a
        return -(a**2) / 6 * (1 + D) * nx.exp(-D)


@known_by_name
@dataclass(frozen=True)
class RationalQuadratic(DistanceKernel):
    """k(x, y) = (1 + gamma ‖x − y‖² / alpha)^(−alpha).

    A mixture of Gaussians of many widths: with alpha = 1 the Cauchy kernel, with a
    large alpha the Gaussian. gamma is 1 / (2 l²) for the length scale l of
    scikit-learn's ``RationalQuadratic``.

    Parameters
    ----------
    gamma : float, default=1.0
    alpha : float, default=2.0
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> RationalQuadratic(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]]))
    array([[1.  , 0.25]])
    """

    gamma: float = 1.0
    alpha: float = 2.0

    name = "rational_quadratic"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha={self.alpha!r} must be positive; try 2.0.")

    def of_squared_distances(self, D: Array) -> Array:
        D *= self.gamma / self.alpha
        D += 1
        return D**-self.alpha

    def slope_of_squared_distances(self, D: Array) -> Array:
        D *= self.gamma / self.alpha
        D += 1
        return -self.gamma * D ** (-self.alpha - 1)


@known_by_name
@dataclass(frozen=True)
class Laplacian(UnitDiagonalKernel):
    """k(x, y) = exp(−gamma ‖x − y‖₁), with the Manhattan distance.

    Cannot be written as a matrix product, so it costs several times a Gaussian.

    Parameters
    ----------
    gamma : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> Laplacian(gamma=0.5)(X, Y).round(4)
    array([[1.    , 0.3679]])
    """

    gamma: float = 1.0

    name = "laplacian"
    of_length = True

    @staticmethod
    def distances(X: Array) -> Array:
        return manhattan_distances(X, X)

    def tile(self, X: Rows, Y: Rows) -> Array:
        # Differences of coordinates lose nothing: no shift is needed.
        D = manhattan_distances(X.values, Y.values)
        D *= -self.gamma
        return nx.exp(D)

    def gradients(self, X: Array, Z: Array, coef: Array) -> Iterator[Array]:
        X, Z = dense(X), dense(Z)
        xp = nx.array_namespace(X)
        slope = -self.gamma * self(X, Z)
        by_column = []
        for c in range(X.shape[1]):
            signs = xp.sign(X[:, c][:, None] - Z[:, c][None, :])
            by_column.append((slope * signs) @ coef)
        for j in range(coef.shape[1]):
            yield xp.stack([column[:, j] for column in by_column], axis=1)


# ----------------------------------------------------------------------------------
# Kernels of an inner product: linear, polynomial, sigmoid, cosine.
# ----------------------------------------------------------------------------------


@known_by_name
@dataclass(frozen=True)
class Linear(InnerProductKernel):
    """k(x, y) = ⟨x, y⟩.

    Examples
    --------
    >>> import numpy as np
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name = "linear"

    def of_inner_products(self, G: Array) -> Array:
        return G

    def slope_of_inner_products(self, G: Array) -> Array:
        return nx.array_namespace(G).ones_like(G)

    def diag(self, X: Array) -> Array:
        return nx.astype(squared_norms(X), nx.dtype_name(X))


@known_by_name
@dataclass(frozen=True)
class Polynomial(InnerProductKernel):
    """k(x, y) = (gamma ⟨x, y⟩ + coef0)^degree.

    The kernel of the papers on digits is ``Polynomial(degree=4)`` on rows of unit
    norm (Andrecut 2016, eq. 64).

    Parameters
    ----------
    degree : int, default=3
    gamma : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2, coef0=1.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[144.]])
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0

    name = "poly"

    def __post_init__(self) -> None:
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(
                f"degree={self.degree!r} must be a whole number, 1 or more: other "
                "powers of a negative number are not defined."
            )

    def of_inner_products(self, G: Array) -> Array:
        if self.gamma != 1:
            G *= self.gamma
        if self.coef0 != 0:
            G += self.coef0
        return _power(G, int(self.degree))

    def slope_of_inner_products(self, G: Array) -> Array:
        if self.degree == 1:
            return self.gamma * nx.array_namespace(G).ones_like(G)
        lower = replace(self, degree=int(self.degree) - 1)
        return self.gamma * self.degree * lower.of_inner_products(G)

    def diag(self, X: Array) -> Array:
        return self.of_inner_products(nx.astype(squared_norms(X), nx.dtype_name(X)))


def _power(G: Array, degree: int) -> Array:
    """Raise to a whole power by squaring: many times faster than ``G**degree``.

    In the memory of ``G``; an odd power keeps a copy beside it.
    """
    if degree == 1:
        return G
    odd = nx.array_namespace(G).asarray(G, copy=True) if degree % 2 else None
    G *= G
    G = _power(G, degree // 2)
    if odd is not None:
        G *= odd
    return G


@known_by_name
@dataclass(frozen=True)
class Sigmoid(InnerProductKernel):
    """k(x, y) = tanh(gamma ⟨x, y⟩ + coef0).

    Not positive semidefinite: a least-squares SVM with it may have no solution, and
    then says so.

    Parameters
    ----------
    gamma : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(gamma=0.5)(np.array([[1.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[0.    , 0.7616]])
    """

    gamma: float = 1.0
    coef0: float = 0.0

    name = "sigmoid"
    positive_semidefinite = False

    def of_inner_products(self, G: Array) -> Array:
        G *= self.gamma
        G += self.coef0
        return nx.array_namespace(G).tanh(G)

    def slope_of_inner_products(self, G: Array) -> Array:
        K = self.of_inner_products(G)
        return self.gamma * (1 - K * K)

    def diag(self, X: Array) -> Array:
        return self.of_inner_products(nx.astype(squared_norms(X), nx.dtype_name(X)))


@known_by_name
@dataclass(frozen=True)
class Cosine(InnerProductKernel):
    """k(x, y) = ⟨x, y⟩ / (‖x‖ ‖y‖), and 0 where a row is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Cosine()(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [3.0, 3.0]])).round(4)
    array([[1.    , 0.7071]])
    """

    name = "cosine"

    def prepare(self, X: Array, shift: Array | None) -> Rows:
        return Rows(unit_rows(X), None)

    def of_inner_products(self, G: Array) -> Array:
        return G

    def diag(self, X: Array) -> Array:
        xp = nx.array_namespace(X)
        has_direction = xp.sqrt(squared_norms(X)) > _shortest(X)
        return xp.astype(has_direction, getattr(xp, nx.dtype_name(X)))


def _shortest(X: Array) -> float:
    """Return the length up to which a row counts as zero: its inverse overflows."""
    return 4 * float(np.finfo(nx.dtype_name(X)).tiny)


def unit_rows(X: Array, squared: Array | None = None) -> Array:
    """Return the rows divided by their norms; zero rows stay zero.

    So do, to rounding, rows so short that the inverse of their norm overflows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    squared : array of shape (n,), default=None
        ‖x‖² of the rows in float64, where it is known.

    Returns
    -------
    array or CSR matrix of shape (n, d)
        In the precision of ``X``.
    """
    xp = nx.array_namespace(X)
    norms = xp.sqrt(squared_norms(X) if squared is None else squared)
    lengths = xp.where(norms > _shortest(X), norms, xp.ones_like(norms))
    scale = nx.astype(1 / lengths, nx.dtype_name(X))
    if nx.is_sparse(X):
        return scipy.sparse.csr_array(scipy.sparse.diags_array(np.asarray(scale)) @ X)
    return X * scale[:, None]
