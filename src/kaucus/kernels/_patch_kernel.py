"""A Gaussian kernel of pictures, summed over blocks of filters.

With the features φ of ``kaucus.pictures``, each less its mean and over its standard
deviation, and σ² the mean of ‖φ‖²,

    k(x, y) = mean over parts of exp(−γ ‖φ(x) − φ(y)‖² / (2 σ²)),

where a part is some sizes of patches and grids of cells.

The inner products are sums over filters: features of a block of filters are made,
multiplied, and forgotten. So n pictures take n² numbers, whatever the number of
features.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kaucus.backend import (
    Array,
    add_product,
    add_to_diagonal,
    array_namespace,
    astype,
    device_of,
    diagonal,
    dtype_name,
    exp,
    itemsize,
    not_negative,
    on_gpu,
    resolve_budget,
    row_blocks,
)
from kaucus.kernels._base import UnitDiagonalKernel
from kaucus.kernels._distances import Rows
from kaucus.kernels._patch_features import (
    FeatureBlocks,
    KeptFeatures,
    Moments,
    Part,
    feature_norms,
    filter_blocks,
    moments_of,
    standardise,
)
from kaucus.pictures import PictureFeatures, feature_bytes, features_of

# Multiplications of one product: a fraction of a second; and rows of a panel at most,
# of whose square on the diagonal a half is computed in vain.
_PRODUCT_WORK, _PANEL_GPU = 2**34, 4096


@dataclass(frozen=True, eq=False)
class PatchKernel(UnitDiagonalKernel):
    """A Gaussian kernel of pictures, by the responses of their patches to filters.

    Rows are pictures, of numbers of any type; matrices are float32, or float64 where
    the rows or the features are.

    Parameters
    ----------
    how : PictureFeatures
    parts : tuple of tuples of FilterGroup
        With moments, as :func:`learn_distances` returns them.
    gamma : float
    memory_budget : int, str or None, default=None
    """

    how: PictureFeatures
    parts: tuple[Part, ...]
    gamma: float
    memory_budget: int | str | None = None

    name = "patches"
    thread_safe = False  # its own threads

    def __call__(
        self, X: Array, Y: Array | None = None, *, out: Array | None = None
    ) -> Array:
        budget = resolve_budget(self.memory_budget, X)
        if Y is not None:
            n = X.shape[0] + Y.shape[0]
            blocks = [self.blocks_of(Y, part, budget, n) for part in self.parts]
            return self.of_features(X, blocks)
        K = None
        for part in self.parts:
            D, _ = learn_distances(X, self.how, part, budget)
            K = self.add_part(K, D)
        return self._as_precise_as(X, K)

    def add_part(self, K: Array | None, D: Array) -> Array:
        """Add the Gaussian of the distances of one part to K; overwrites both."""
        return add_gaussian(K, D, self.gamma, len(self.parts))

    def blocks_of(self, Y: Array, part: Part, budget: int, n_rows: int) -> Iterator:
        """Yield the blocks of standardised features of pictures, one at a time.

        ``n_rows`` is for how many pictures there must be room at a time.
        """
        for k, group in enumerate(part):
            assert group.moments is not None
            for which in filter_blocks(group, self.how, n_rows, budget // 2, Y):
                bank = group.bank.part(which)
                phi = features_of(Y, self.how, bank, group.n_cells, budget=budget // 4)
                yield k, which, standardise(phi, *group.moments.of_filters(which))

    def of_features(self, X: Array, blocks: Iterable[Iterable]) -> Array:
        """Return k(X, Y), given the blocks of features of Y for each part."""
        budget, K = resolve_budget(self.memory_budget, X), None
        for part, of_part in zip(self.parts, blocks, strict=True):
            K = self.add_part(K, _cross_distances(X, self.how, part, of_part, budget))
        return self._as_precise_as(X, K)

    def feature_bytes(self, n_rows: int) -> int:
        """Return the bytes of all features of so many pictures."""
        groups = itertools.chain.from_iterable(self.parts)
        one = sum(feature_bytes(g.n_cells, g.n_filters, self.how) for g in groups)
        return n_rows * one

    @staticmethod
    def _as_precise_as(X: Array, K: Array) -> Array:
        return astype(K, "float64") if dtype_name(X) == "float64" else K

    def tile(self, X: Rows, Y: Rows) -> Array:
        return self(X.values, Y.values)

    def diag(self, X: Array) -> Array:
        xp, name = array_namespace(X), dtype_name(X)
        dtype = "float64" if name == "float64" else self.how.dtype
        return xp.ones(X.shape[0], dtype=getattr(xp, dtype), device=device_of(X))


@dataclass(frozen=True, eq=False)
class KeepingPatchKernel(PatchKernel):
    """The same kernel, which keeps the features of the Y of its last call.

    For k(X, Y) of one block of X after the other: the features of Y are made once,
    where a quarter of the budget holds them.

    Parameters
    ----------
    how : PictureFeatures
    parts : tuple of tuples of FilterGroup
    gamma : float
    memory_budget : int, str or None, default=None
    """

    kept: KeptFeatures = field(init=False, default_factory=KeptFeatures)

    def __call__(
        self, X: Array, Y: Array | None = None, *, out: Array | None = None
    ) -> Array:
        if Y is None:
            return super().__call__(X)
        if Y is not self.kept.pictures or X.shape[0] > self.kept.n_rows:
            self._keep(Y, X.shape[0], resolve_budget(self.memory_budget, X))
        if self.kept.parts is None:
            return super().__call__(X, Y)
        return self.of_features(X, self.kept.parts)

    def _keep(self, Y: Array, n_rows: int, budget: int) -> None:
        kept, n = self.kept, n_rows + Y.shape[0]
        kept.parts, kept.pictures, kept.n_rows = None, Y, n_rows
        if self.feature_bytes(Y.shape[0]) <= budget // 4:
            found = (self.blocks_of(Y, part, budget, n) for part in self.parts)
            kept.parts = [list(blocks) for blocks in found]


def add_gaussian(K: Array | None, D: Array, gamma: float, n_parts: int) -> Array:
    """Return K + exp(−γ D / 2) / n_parts.

    Parameters
    ----------
    K : array of shape (n, m) or None
        None is zero; else it is overwritten.
    D : array of shape (n, m)
        Is overwritten.
    gamma : float
    n_parts : int
    """
    D *= -gamma / 2
    D = exp(D)
    if n_parts == 1:
        return D
    D *= 1 / n_parts
    if K is None:
        return D
    K += D
    return K


def learn_distances(
    X: Array,
    how: PictureFeatures,
    part: Part,
    budget: int,
    keep: FeatureBlocks | None = None,
    tell: Callable[[int, int], object] | None = None,
    sample_weight: np.ndarray | None = None,
) -> tuple[Array, Part]:
    """Return squared distances of pictures over σ², (n, n), and moments of features.

    Parameters
    ----------
    X : array or HostRows of shape (n, d)
    how : PictureFeatures
    part : tuple of FilterGroup
        Groups without moments get those of ``X``.
    budget : int
        Bytes for the matrix and for the features of a block of filters.
    keep : list, default=None
        Where the blocks of standardised features are put, if they are wanted.
    tell : callable, default=None
        ``tell(n_done, n_all)``; each block of filters counts all pictures.
    sample_weight : array of shape (n,), default=None
        Weights of the pictures in the moments.

    Returns
    -------
    D : array of shape (n, n)
        Exactly symmetric with a diagonal of zeros.
    part : tuple of FilterGroup
        With moments.
    """
    xp, n = array_namespace(X), X.shape[0]
    place = {"dtype": getattr(xp, how.dtype), "device": device_of(X)}
    gram = xp.zeros((n, n), **place)
    rest = max(budget - n * n * itemsize(gram), 1)
    learned, n_done = [], 0
    blocks = [filter_blocks(group, how, n, rest, X) for group in part]
    n_all = n * sum(map(len, blocks))

    def told(n_pictures: int) -> None:
        if tell is not None:
            tell(n_done + n_pictures, n_all)

    for k, group in enumerate(part):
        found = []
        for which in blocks[k]:
            bank, cells = group.bank.part(which), group.n_cells
            phi = features_of(X, how, bank, cells, budget=rest // 4, tell=told)
            n_done += n
            if group.moments is None:
                found.append(moments_of(phi, cells, sample_weight))
                moments = found[-1].of_filters(slice(None))
            else:
                moments = group.moments.of_filters(which)
            phi = standardise(phi, *moments)
            for rows in _panels(n, n, phi.shape[1], phi):  # the lower triangle
                left = slice(0, rows.stop)
                add_product(gram[rows, left], phi[rows, :], phi[left, :])
            if keep is not None:
                keep.append((k, which, phi))
        if found:
            joined = (
                np.concatenate(parts, axis=2) for parts in zip(*found, strict=True)
            )
            group = group._replace(moments=Moments(*joined))
        learned.append(group)
    D = _distances_of_gram(gram, diagonal(gram), _total(learned))
    # Exactly: not even rounding is left of the distance of a picture to itself.
    return add_to_diagonal(D, -diagonal(D)), tuple(learned)


def _cross_distances(
    X: Array, how: PictureFeatures, part: Part, blocks: Iterable, budget: int
) -> Array:
    """Return squared distances over σ² to pictures given by their features, (n, m)."""
    xp, n = array_namespace(X), X.shape[0]
    gram, x_squares, y_squares = None, 0.0, 0.0
    for k, which, psi in blocks:
        group = part[k]
        assert group.moments is not None
        phi = features_of(
            X, how, group.bank.part(which), group.n_cells, budget=budget // 4
        )
        phi = standardise(phi, *group.moments.of_filters(which))
        x_squares = x_squares + feature_norms(phi)
        y_squares = y_squares + feature_norms(psi)
        if gram is None:
            place = {"dtype": phi.dtype, "device": device_of(phi)}
            gram = xp.zeros((n, psi.shape[0]), **place)
        for rows in _panels(n, psi.shape[0], phi.shape[1], phi):
            add_product(gram[rows, :], phi[rows, :], psi)
    return _of_products(gram, x_squares, y_squares, _total(part))


def _total(part) -> float:
    """Return σ², the number of features that vary; at least 1."""
    return max(float(sum(np.count_nonzero(g.moments.inverse) for g in part)), 1.0)


def _panels(n: int, m: int, depth: int, like: Array) -> list[slice]:
    if on_gpu(like):
        return list(row_blocks(n, 1, _PANEL_GPU))
    return list(row_blocks(n, max(m * depth, 1), _PRODUCT_WORK))


def _distances_of_gram(G: Array, squares: Array, total: float) -> Array:
    """Return the distances of a Gram matrix whose lower triangle is defined."""
    for rows in row_blocks(G.shape[0], G.shape[0] * itemsize(G), 2**26):
        left = slice(0, rows.stop)
        part = (squares[rows], squares[left])
        G[rows, left] = _of_products(G[rows, left], *part, total)
    xp = array_namespace(G)
    for rows in row_blocks(G.shape[0], G.shape[0] * itemsize(G), 2**26):
        before = slice(0, rows.start)
        G[before, rows] = G[rows, before].T
        square = xp.tril(G[rows, rows])
        G[rows, rows] = square + xp.tril(square, k=-1).T
    return G


def _of_products(G: Array, x_squares: Array, y_squares: Array, total: float) -> Array:
    """Return (‖x‖² + ‖y‖² − 2 ⟨x, y⟩) / σ², at least zero; may overwrite ``G``."""
    G *= -2 / total
    G += (x_squares / total)[:, None]
    G += (y_squares / total)[None, :]
    return not_negative(G)
