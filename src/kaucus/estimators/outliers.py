"""Rows unlike the others: a kernel density of a few representatives."""

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from kaucus import _base as base
from kaucus._array import namespace as nx
from kaucus._array.segments import draw_some
from kaucus.clustering._kernel_kmeans import choose_landmarks
from kaucus.clustering._kmeans import KMeansResult, kmeans
from kaucus.kernels._kernel import Kernel, dense
from kaucus.kernels._matrix import expansion_gradients, kernel_expansion
from kaucus.kernels._metric import MappedKernel, RowMap

# ----------------------------------------------------------------------------------
# A kernel density of representatives z_q that speak for W_q of the weight W of n rows:
#
#     p(x) = Σ_q w_q k(x, z_q),    w_q ∝ max(W_q − W / n, 0).
#
# A row is no witness of itself: each representative counts one row less than it stands
# for, and one that stands for a single row is left out. Else a row far from all others,
# which k-means gives a centre of its own, would be as likely as the middle of a crowd.
#
# The width is that of the distances that the density has to bridge. With r the distance
# of a row from the nearest representative, its own without it,
#
#     z − x → (z − x) W_q / (W_q − s),        gamma = 4 / median r
#
# and 4 / (median r)² for kernels of the squared distance. On 20 sets of ten developing
# tables, 1 to 6 in place of 4, the density of largest left-out likelihood and its
# multiples, Gaussian and Cauchy kernels came out alike or worse.
# ----------------------------------------------------------------------------------

_DISTANCES = 4.0
# No more representatives than one for so many rows.
_ROWS_EACH = 3
# Steps of k-means over all rows, after those over some of them.
_STEPS = 3
# Rows whose distances give the width, and whose scores the threshold.
_WIDTH_ROWS, _SCORED_ROWS = 1000, 100_000
# Spreads are of values within so many quartile ranges of the median.
_FAR = 10.0
# A density of less is this: the least that has a logarithm.
LEAST_DENSITY = 1e-300


class KernelOutlierDetector(
    base.KernelInputMixin, base.FollowsX, OutlierMixin, BaseEstimator
):
    """Find rows unlike the others by a kernel density of representatives.

    A row's score is the logarithm of

        p(x) = Σ_q w_q k(x, z_q),

    where the representatives z_q are centres of k-means, and w_q is the weight of the
    rows that z_q stands for, less one row. Of the size you choose, whatever the number
    of rows; without labels, and without a width to guess.

    Parameters
    ----------
    n_representatives : int, default=1000
        Centres of k-means; at most one for every three rows.
    contamination : "auto" or float, default="auto"
        Share of the training rows that are outliers, at most 0.5: these are the ones of
        least score. ``"auto"``: rows whose score is more than 1.5 quartile ranges below
        the first quartile of the training rows' scores (Tukey's fence).
    kernel : str or kernel object, default="exponential"
        A kernel of distances: ``"exponential"``, ``"rbf"``, ``"laplacian"``,
        ``"cauchy"``, ``"matern32"``, ``"matern52"``, ``"rational_quadratic"``, or such
        an object from :mod:`kaucus.kernels`.
    gamma : {"tune", "scale", "auto", "median"} or float, default="tune"
        ``"tune"``: four over the median distance of training rows from the nearest
        representative, from their own without them; over its square for kernels of the
        squared distance. Other words are those of the other estimators.
    scale_columns : "auto" or bool, default="auto"
        Whether each column is divided by its standard deviation.
        It is that of the values within ten quartile ranges of the median; of sparse
        columns, that of all. ``"auto"``: yes with ``gamma="tune"``, no where a width is
        given, which is a width for the rows as they are.
    precision : {None, "float64", "float32", "tf32"}, default=None
        What rows are cast to; None works in their own precision. Scores are computed in
        float64.
    random_state : int, RandomState or Generator, default=None
        Draws where k-means begins, and the rows that it is tried on first.

    Attributes
    ----------
    representatives_ : ndarray of shape (n_kept, n_features)
        The representatives that stand for more than one row.
    representative_weights_ : ndarray of shape (n_kept,)
        w, of sum 1.
    kernel_ : kernel object
        The kernel, with its parameters as numbers; where columns are scaled, that of
        rows which ``kernel_.row_map`` maps.
    offset_ : float
        The score below which rows are outliers; from at most 100,000 training rows.

    See Also
    --------
    sklearn.ensemble.IsolationForest : Sees one column at a time.
    sklearn.neighbors.LocalOutlierFactor : Compares with the density nearby.

    Notes
    -----
    n m d multiplications in each of three steps of k-means over all rows, for n rows, m
    representatives and d features; m d for the score of a row. Rows so far from all
    representatives that p is below 1e-300 share the least score.

    References
    ----------
    E. Parzen, "On estimation of a probability density function and mode", Annals of
    Mathematical Statistics 33, 1065 (1962); J. W. Tukey, "Exploratory Data Analysis"
    (1977), for the fence.

    Examples
    --------
    >>> import numpy as np
    >>> from kaucus import KernelOutlierDetector
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, size=500)
    >>> ring = np.c_[np.cos(angle), np.sin(angle)] + 0.05 * rng.normal(size=(500, 2))
    >>> model = KernelOutlierDetector(random_state=0).fit(ring)
    >>> model.predict([[1.0, 0.0], [0.0, 0.0]])
    array([ 1, -1])
    """

    fit_batches, to_onnx = base.fit_batches, base.to_onnx
    _dask_fit = "rows"
    _kernel_words = ()
    _parameters: ClassVar = {
        "n_representatives": base.count(),
        "contamination": base.Constraint(
            lambda value: 0 < base.as_float(value) <= 0.5,
            "a number above 0, at most 0.5",
        )
        | base.one_of("auto"),
        "gamma": base.POSITIVE | base.one_of("tune", "scale", "auto", "median"),
        "scale_columns": base.BOOLEAN | base.one_of("auto"),
    }

    @base.stored
    def __init__(
        self,
        n_representatives: int = 1000,
        *,
        contamination: float | Literal["auto"] = "auto",
        kernel: base.KernelLike = "exponential",
        gamma: float | Literal["tune", "scale", "auto", "median"] = "tune",
        degree: int = 3,
        coef0: float = 0.0,
        scale_columns: bool | Literal["auto"] = "auto",
        device: str | None = None,
        precision: Literal["float64", "float32", "tf32"] | None = None,
        memory_budget: int | str | None = None,
        random_state: base.Seed = None,
        verbose: bool | int = 0,
    ): ...

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Find the representatives, and the score of outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training rows, among which outliers may be.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; only ratios count, and a weight of 0 leaves a row out.

        Returns
        -------
        self : KernelOutlierDetector
        """
        self._check_parameters()
        X = self._validate(X, reset=True, ensure_min_samples=2)
        weight = base.check_weights(sample_weight, X)
        rng, rows = base.generator_from(self.random_state), self._placed(X)
        present = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
        some = draw_some(rng, present, _SCORED_ROWS)
        sample, own = nx.take_rows(rows, some), None if weight is None else weight[some]
        row_map = self._row_map(X, sample)
        mapped = rows if row_map is None else row_map(rows)
        found = self._cluster(mapped, present, weight, rng)
        if isinstance(self.gamma, str) and self.gamma == "tune":
            named, few = self._resolve_kernel(X, None, 1.0), some[:_WIDTH_ROWS]
            few_weights = None if weight is None else weight[few]
            width = _width(named, nx.take_rows(mapped, few), few_weights, found)
            kernel = self._resolve_kernel(X, None, width)
        else:
            kernel = self._resolve_kernel(mapped, weight)
        self._store_density(X, kernel, row_map, found, len(present))
        scores = nx.to_numpy(self._scores_on_device(sample))
        self.offset_ = _threshold(scores, own, self.contamination)
        return self

    @base.rowwise
    def score_samples(self, X) -> np.ndarray:
        """Return log p(x) of rows: the lower, the more of an outlier.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X, scores = self._scores(X)
        return nx.astype(scores, nx.dtype_name(X))

    @base.rowwise
    def gradient(self, X) -> np.ndarray:
        """Return the gradient of log p(x) by the columns of X.

        Downhill, a row becomes more of an outlier; for kernels with a gradient, which
        all kernels of distances that are known by name have.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, dense.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            0 where p(x) is below 1e-300, where all rows share the least score.
        """
        check_is_fitted(self, "offset_")
        return base.gradients_at(self, X)[:, 0, :]

    @base.rowwise
    def decision_function(self, X) -> np.ndarray:
        """Return ``score_samples(X) - offset_``: negative for outliers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X, scores = self._scores(X)
        return nx.astype(scores - self.offset_, nx.dtype_name(X))

    @base.rowwise
    def predict(self, X) -> np.ndarray:
        """Return -1 for outliers and 1 for all other rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        outlier = nx.astype(self._scores(X)[1] < self.offset_, "int64")
        return 1 - 2 * outlier

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False
        return tags

    # ---- parts -----------------------------------------------------------------------

    def _check_combinations(self) -> None:
        super()._check_combinations()
        if not base.is_of_distances(self.kernel):
            raise ValueError(
                f"kernel={self.kernel!r} does not fall with the distance, so that it "
                "is no density; use 'exponential', 'rbf', 'laplacian' or another "
                "kernel of distances."
            )

    def _row_map(self, X, sample) -> RowMap | None:
        """Return the map to columns of spread 1; None where they stay as they are."""
        scales = self.scale_columns
        if isinstance(scales, str):
            scales = isinstance(self.gamma, str) and self.gamma == "tune"
        if not scales:
            self._warn_of_one_column(X)
            return None
        spread = _spread(sample)
        used = (spread > 1e-300) & np.isfinite(spread)
        scale = np.where(used, 1 / np.where(used, spread, 1.0), 0.0)
        return replace(RowMap.identity(len(spread)), scale=scale)

    def _cluster(self, rows, present, weight, rng) -> KMeansResult:
        """Return centres of the rows, from some of them, then from all."""
        m = max(min(self.n_representatives, len(present) // _ROWS_EACH), 1)
        every = len(present) == rows.shape[0]
        known = rows if every else nx.rows_in_order(rows, present)
        start = choose_landmarks(None, known, m, method="k-means", rng=rng)
        return kmeans(
            known,
            m,
            metric="euclidean",
            init=dense(start),
            max_iter=_STEPS,
            sample_weight=None if weight is None else weight[present],
            rng=rng,
            memory_budget=self.memory_budget,
            callback=base.step_reporter(self.verbose, 1e-3, _STEPS, what="deviation"),
        )

    def _store_density(self, X, kernel, row_map, found: KMeansResult, n: int) -> None:
        """Store kernel, representatives of more than a row, and their weights."""
        weights = np.maximum(found.weights - found.weights.sum() / n, 0)
        if not weights.any():  # of two or three rows
            weights = found.weights
        kept = np.flatnonzero(weights > 1e-9 * weights.max())
        points = nx.take_rows(nx.astype(found.centers, nx.dtype_name(X)), kept)
        self.kernel_ = kernel if row_map is None else MappedKernel(kernel, row_map)
        points = points if row_map is None else row_map.back(points)
        self.representatives_ = nx.owned(nx.as_like(points, X))
        self.representative_weights_ = nx.as_like(
            weights[kept] / weights[kept].sum(), X
        )

    def _scores(self, X):
        """Return checked rows, and log p of them, (n,), in float64."""
        check_is_fitted(self, "offset_")
        X = base.validated_new_rows(self, X)
        found = self._map_rows(self._scores_on_device, X)
        return X, base.check_results(found)

    def _scores_on_device(self, rows):
        """Return log p of checked rows on their device, (n,), in float64."""
        density = self._expansion(kernel_expansion, rows)[:, 0]
        xp = nx.array_namespace(density)
        return xp.log(xp.clip(density, LEAST_DENSITY, None))

    def _gradients_on_device(self, rows):
        """Return the gradients of log p at dense rows, (n, 1, d), in float64."""
        density = self._expansion(kernel_expansion, rows)[:, :, None]
        G = self._expansion(expansion_gradients, rows)
        xp = nx.array_namespace(G)
        slopes = G / xp.clip(density, LEAST_DENSITY, None)
        return xp.where(density > LEAST_DENSITY, slopes, xp.zeros_like(slopes))

    def _expansion(self, function, rows):
        """Return what a function makes of p as a sum of kernels, in float64."""
        rows = nx.astype(rows, "float64")
        points = nx.astype(nx.as_like(self.representatives_, rows), "float64")
        weights = nx.as_like(self.representative_weights_, points)[:, None]
        budget = self.memory_budget
        return function(self.kernel_, rows, points, weights, memory_budget=budget)


def _spread(sample) -> np.ndarray:
    """Return the standard deviations of columns, of values that are not far out, (d,).

    Sparse columns are not put in order: theirs is of all values.
    """
    if nx.is_sparse(sample):
        mean = np.asarray(sample.mean(axis=0)).ravel()
        square = np.asarray(sample.power(2).mean(axis=0)).ravel()
        return np.sqrt(np.maximum(square - mean**2, 0))
    X = nx.to_numpy(sample).astype(np.float64)
    low, median, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    far = np.where(high > low, _FAR * (high - low), np.inf)
    return np.clip(X, median - far, median + far).std(axis=0)


def _width(kernel: Kernel, few, weight, found: KMeansResult) -> float:
    """Return gamma by the distances of some rows from the nearest representative."""
    few = nx.astype(dense(few), "float64")
    centers = nx.astype(nx.as_like(found.centers, few), "float64")
    n, shares = few.shape[0], nx.to_numpy(found.weights)
    D = nx.to_numpy(type(kernel).distances(nx.concat_rows(few, centers)))[:n, n:]
    D, every = np.array(D), np.arange(n)
    nearest = D.argmin(axis=1)
    rest = shares[nearest] - (1.0 if weight is None else weight)
    own = D[every, nearest]
    alone = rest <= 1e-9 * shares[nearest]
    D[every, nearest] = np.where(
        alone, np.inf, own * shares[nearest] / np.where(alone, 1.0, rest)
    )
    r = D.min(axis=1)
    r = r[np.isfinite(r)]
    middle = float(np.median(r)) if len(r) else 0.0
    if not middle > 0:  # most rows are copies of others
        middle = float(r.mean()) if len(r) else 0.0
    if not middle > 0:
        return 1.0
    return _DISTANCES / (middle if kernel.of_length else middle**2)


def _threshold(scores: np.ndarray, weight, contamination) -> float:
    """Return the score below which a row is an outlier."""
    if not isinstance(contamination, str):
        return _quantile(scores, weight, float(contamination))
    low, high = (_quantile(scores, weight, share) for share in (0.25, 0.75))
    return low - 1.5 * (high - low)


def _quantile(scores: np.ndarray, weight, share: float) -> float:
    """Return a number below which so much of the weight is, between two scores."""
    order = np.argsort(scores)
    total = np.cumsum(np.ones(len(scores)) if weight is None else weight[order])
    k = int(np.searchsorted(total, (share + 1e-9) * total[-1], side="right"))
    k = min(max(k, 1), len(scores) - 1)
    return float(scores[order[k - 1]] / 2 + scores[order[k]] / 2)
