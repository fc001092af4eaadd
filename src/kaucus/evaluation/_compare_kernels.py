"""Choose a kernel for clustering without labels (the paper leaves it open).

The objective of kernel k-means cannot be compared between kernels: it has the units of
the kernel. What is compared here has none:

    explained    1 − objective / scatter, the share of the kernel's scatter between the
                 clusters; falls with the width of the kernel, whatever the clusters
    tightness    scatter between the clusters over the most that any k clusters could
                 have: the k − 1 largest eigenvalues of the centred kernel matrix; 1
                 where the leading directions of the feature space are the clusters
    stability    mean adjusted Rand index with clusterings of random subsamples
    silhouette   mean silhouette, with the distances of the feature space

The pick is the kernel of the largest tightness × stability. Neither is enough alone: a
kernel so narrow that its matrix is the identity is tight with any clusters, and one
with a single leading direction is stable wherever it is cut. Where it fails: a wide
kernel on data without clusters is stable and fairly tight, so the score says which
kernel, not whether there are clusters at all; and kernels within a few percent of the
best are no worse than the pick: look at them too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import (
    adjusted_rand_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from sklearn.utils.validation import check_array, column_or_1d

from kaucus.backend import few_threads_for, generator_from
from kaucus.estimators import step_counter
from kaucus.evaluation._clustering import clustering_accuracy
from kaucus.evaluation._kernel_comparison import KernelComparison, KernelScore
from kaucus.kernels import (
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    median_gamma,
    resolve_kernel,
)
from kaucus.representatives import best_start, kernel_kmeans, make_gram, total_scatter

CONSENSUS = (None, "average", "coassociation")
WIDTHS = (1, 4, 16, 64)


def compare_kernels(
    X,
    n_clusters: int | Iterable[int],
    kernels: Mapping[str, Any] | Sequence[Any] | None = None,
    y=None,
    *,
    consensus: str | None = None,
    n_init: int = 30,
    n_subsamples: int = 10,
    max_samples: int = 2000,
    random_state=None,
    verbose: int = 0,
) -> KernelComparison:
    """Cluster the rows with several kernels, and tell which one suits them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int or iterable of int
        Number of clusters, or several, such as ``range(2, 7)``: every kernel is tried
        with each, and the table tells them apart.
    kernels : mapping or sequence, default=None
        Names and kernels, or kernels alone: names that estimators know (with gamma from
        the median distance), kernel objects, functions ``k(X, Y)`` or matrices of shape
        (n_samples, n_samples). None tries :func:`default_kernels`.
    y : array-like of shape (n_samples,), default=None
        Classes. They add columns to the table, and change nothing else.
    consensus : {None, "average", "coassociation"}, default=None
        Adds a kernel made of all: the mean of the centred matrices of unit trace, or
        how often two rows share a cluster, each kernel counted with its score. For one
        number of clusters.
    n_init : int, default=30
        Starts with each kernel.
    n_subsamples : int, default=10
        Subsamples of four fifths of the rows, for the stability.
    max_samples : int, default=2000
        Of more rows a random sample of this size is compared.
    random_state : int, RandomState or Generator, default=None
        Draws starts and subsamples.
    verbose : int, default=0
        1 shows progress on a terminal.

    Returns
    -------
    KernelComparison
        ``best`` is the pick, ``best_by_n_clusters`` that for each number, ``print``
        shows the table.

    Notes
    -----
    Every kernel sees the same starts and subsamples. n² memory, and n³ time per kernel
    for the tightness.

    Examples
    --------
    >>> from kaucus.datasets import make_rings
    >>> from kaucus.kernels import Gaussian
    >>> X, y = make_rings(200, random_state=0)
    >>> kernels = {"linear": "linear", "narrow": Gaussian(20)}
    >>> compared = compare_kernels(X, 2, kernels, y, random_state=0)
    >>> compared.best.name in kernels
    True
    """
    X = check_array(X, dtype=(np.float64, np.float32))
    _check_counts(n_init=n_init, n_subsamples=n_subsamples, max_samples=max_samples)
    n_rows = min(max_samples, X.shape[0])
    numbers = _numbers_of_clusters(n_clusters, n_rows, consensus)
    rng = generator_from(random_state)
    named = _named(default_kernels(X) if kernels is None else kernels)
    rows = None
    if X.shape[0] > max_samples:
        rows = np.sort(rng.permutation(X.shape[0])[:max_samples])
    classes = None if y is None else _classes(y, X.shape[0], rows)
    scorer = _Scorer(classes, n_init, n_subsamples, int(rng.integers(2**31)))
    matrices = {name: _matrix(kernel, X, rows) for name, kernel in named.items()}
    scores = scorer.scores(matrices, numbers, verbose)
    if consensus is None:
        return KernelComparison(tuple(scores), rows)
    K = _consensus(consensus, list(matrices.values()), scores)
    scores += scorer.scores({f"consensus ({consensus})": K}, numbers)
    return KernelComparison(tuple(scores), rows, scores[-1])


def default_kernels(X) -> dict[str, Any]:
    """Return the kernels that :func:`compare_kernels` tries by itself.

    Linear, polynomial of degree 2; Gaussian, exponential and Cauchy with 1, 4, 16 and
    64 times the gamma of the median heuristic.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    dict
        Names and kernel objects.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = default_kernels(np.eye(5))
    >>> len(kernels), list(kernels)[:3]
    (14, ['linear', 'poly 2', 'rbf ×1'])
    """
    X = check_array(X, dtype=(np.float64, np.float32))
    kernels: dict[str, Any] = {"linear": Linear(), "poly 2": Polynomial(2, 1.0, 1.0)}
    for name in ("rbf", "exponential", "cauchy"):
        middle = median_gamma(X, None, name)
        for width in WIDTHS:
            kernels[f"{name} ×{width}"] = resolve_kernel(name, gamma=width * middle)
    return kernels


@dataclass(frozen=True)
class _Scorer:
    """Scores kernel matrices, all with the same starts and subsamples."""

    classes: np.ndarray | None
    n_init: int
    n_subsamples: int
    seed: int

    def scores(
        self, matrices: Mapping[str, np.ndarray], numbers: list[int], verbose: int = 0
    ) -> list[KernelScore]:
        """Return the score of each kernel matrix with each number of clusters."""
        report = step_counter(verbose, len(matrices) * len(numbers), "kernel")
        found: list[KernelScore] = []
        for name, K in matrices.items():
            eigenvalues = _centred_eigenvalues(K)
            for n_clusters in numbers:
                found.append(self._score(name, K, n_clusters, eigenvalues))
                report()
        return found

    def _score(self, name: str, K: np.ndarray, k: int, eigenvalues) -> KernelScore:
        result, scatter = self._cluster(K, k, self.n_init, self.seed)
        labels = np.asarray(result.labels)
        between = scatter - result.inertia
        # The most scatter that any k clusters can have between them.
        most = float(np.maximum(eigenvalues[len(K) - k + 1 :], 0.0).sum())
        return KernelScore(
            name=name,
            n_clusters=k,
            objective=result.inertia,
            explained=between / scatter if scatter > 0 else 0.0,
            tightness=_share(between, most),
            stability=self._stability(K, k, labels),
            silhouette=_silhouette(K, labels),
            labels=labels,
            **self._against_classes(labels),
        )

    def _cluster(self, K: np.ndarray, n_clusters: int, n_init: int, seed: int):
        kernel = Precomputed(K)
        gram = make_gram(kernel, kernel.row_numbers())
        rng = np.random.default_rng(seed)
        runs = kernel_kmeans(gram, n_clusters, n_init=n_init, rng=rng)
        return best_start(runs), total_scatter(gram)

    def _stability(self, K: np.ndarray, n_clusters: int, labels: np.ndarray) -> float:
        n = len(K)
        size = max(4 * n // 5, n_clusters)
        parent = np.random.default_rng(self.seed)
        agreement = []
        for number, rng in enumerate(parent.spawn(self.n_subsamples)):
            some = np.sort(rng.permutation(n)[:size])
            part = np.ascontiguousarray(K[np.ix_(some, some)])
            n_init = max(self.n_init // 3, 1)
            result, _ = self._cluster(part, n_clusters, n_init, number)
            agreement.append(adjusted_rand_score(labels[some], result.labels))
        return float(np.mean(agreement))

    def _against_classes(self, labels: np.ndarray) -> dict[str, float]:
        if self.classes is None:
            return {}
        return {
            "accuracy": clustering_accuracy(self.classes, labels),
            "ari": float(adjusted_rand_score(self.classes, labels)),
            "nmi": float(normalized_mutual_info_score(self.classes, labels)),
        }


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if not _is_whole(value) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number, 1 or more.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _numbers_of_clusters(given: Any, n_rows: int, consensus: str | None) -> list[int]:
    """Return the numbers of clusters to try, of ``n_rows`` rows."""
    if consensus not in CONSENSUS:
        raise ValueError(f"consensus={consensus!r} must be one of {list(CONSENSUS)}.")
    several = isinstance(given, Iterable) and not isinstance(given, str)
    numbers = list(given) if several else [given]
    for k in numbers or [None]:
        if not _is_whole(k) or not 2 <= k < n_rows:  # type: ignore[operator]
            raise ValueError(
                f"n_clusters={given!r} must be a whole number, or several, from 2 to "
                f"n_samples - 1 = {n_rows - 1}; one cluster is the same with every "
                "kernel."
            )
    if consensus is not None and len(numbers) > 1:
        raise ValueError(
            f"consensus={consensus!r} is for one number of clusters, got "
            f"n_clusters={given!r}; choose the number first, with consensus=None."
        )
    return [int(k) for k in numbers]


def _classes(y, n_samples: int, rows: np.ndarray | None) -> np.ndarray:
    y = column_or_1d(y)
    if len(y) != n_samples:
        raise ValueError(
            f"y has {len(y)} classes; expected one for each of the {n_samples} rows."
        )
    return y if rows is None else y[rows]


def _named(kernels: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if not isinstance(kernels, Mapping):
        kernels = {
            one if isinstance(one, str) else f"{number}: {type(one).__name__}": one
            for number, one in enumerate(kernels, 1)
        }
    if not kernels:
        raise ValueError("kernels is empty; pass at least one, or None for a choice.")
    return dict(kernels)


def _matrix(kernel: Any, X: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Return the kernel matrix of the rows that are compared, in float64."""
    some = X if rows is None else X[rows]
    if isinstance(kernel, np.ndarray):
        if kernel.shape != (len(X), len(X)):
            raise ValueError(
                f"A kernel matrix has shape {kernel.shape}; expected one row and one "
                f"column for each of the {len(X)} rows of X."
            )
        K = kernel if rows is None else kernel[np.ix_(rows, rows)]
        return np.ascontiguousarray(K, dtype=np.float64)
    if not isinstance(kernel, Kernel):
        gamma = median_gamma(X, None, kernel)
        kernel = resolve_kernel(kernel, gamma=gamma, degree=2, coef0=1.0)
    return np.asarray(kernel(some.astype(np.float64)))


def _share(part: float, whole: float) -> float:
    return min(part / whole, 1.0) if whole > 0 else 0.0


def _centred(K: np.ndarray) -> np.ndarray:
    mean = K.mean(axis=0)
    return K - mean[None, :] - mean[:, None] + mean.mean()


def _centred_eigenvalues(K: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the centred kernel matrix, ascending."""
    with few_threads_for(len(K)):
        # All of them: LAPACK's search for a few fails where many are equal.
        return np.linalg.eigvalsh(_centred(K))


def _silhouette(K: np.ndarray, labels: np.ndarray) -> float:
    if len(np.unique(labels)) < 2:
        return 0.0
    squared = np.diag(K)
    D = np.sqrt(np.maximum(squared[:, None] + squared[None, :] - 2 * K, 0.0))
    np.fill_diagonal(D, 0.0)
    return float(silhouette_score(D, labels, metric="precomputed"))


def _consensus(how: str, matrices: list[np.ndarray], scores) -> np.ndarray:
    """Return one kernel matrix made of all kernels'."""
    if how == "average":
        centred = [_centred(K) for K in matrices]
        return sum(K / max(np.trace(K), 1e-300) for K in centred) / len(centred)  # type: ignore[return-value]
    together = np.zeros_like(matrices[0])
    for one in scores:
        together += max(one.score, 0.0) * (one.labels[:, None] == one.labels[None, :])
    return together / max(sum(max(one.score, 0.0) for one in scores), 1e-300)
