"""Table 1 of Czarnecki & Tabor: the two clusters of k-means in each data set.

Its n₋ and n₊ are the sizes of the clusters, though the names read as those of classes:
the classes have other sizes, and the clusters of k-means have these.
"""

from typing import Any

import numpy as np

from kaucus.evaluation.clustering import markdown_table
from papers._svm_grid import load_scaled

HEADERS = ("data set", "d", "n₋", "n₊", "Σ₁, I", "Σ₂, I", "Σ₂, Σ₁", "Σ₁+Σ₂, Σ")
_NOTE = (
    "n₋ and n₊ are the sizes of the two clusters of k-means (best of 100 starts), not "
    "of the classes. Distances are ‖A − B‖ / (‖A‖ + ‖B‖) of covariances (with 1/n) in "
    "Frobenius norms. Which cluster is the first is not printed: ours are in the order "
    "nearer to print."
)
_MATCH = 0.0006  # three printed digits, rounded


def table_1(datasets: list[str], printed: dict, data_home: Any) -> list[str]:
    """Lay out Table 1, ours and in brackets what is printed, with a count."""
    rows, n_sizes, n_distances = [], 0, 0
    for dataset in datasets:
        X, _ = load_scaled(dataset, data_home)
        ours, theirs = nearer_order(X, printed[dataset]), printed[dataset]
        texts = [f"{a} ({b})" for a, b in zip(ours[:3], theirs[:3], strict=True)]
        pairs = list(zip(ours[3:], theirs[3:], strict=True))
        rows.append([dataset, *texts, *(f"{a:.3f} ({b:.3f})" for a, b in pairs)])
        n_sizes += ours[1:3] == theirs[1:3]
        n_distances += all(abs(a - b) <= _MATCH for a, b in pairs)
    count = (
        f"Sizes as printed: {n_sizes} of {len(rows)} data sets. All four distances "
        f"within {_MATCH}: {n_distances} of {len(rows)}."
    )
    title = "## Table 1: the data, and its two clusters"
    return [title, _NOTE, count, markdown_table(HEADERS, rows)]


def nearer_order(X: np.ndarray, printed: list[float]) -> list[float]:
    """Return a row of Table 1 with the clusters in the order nearer to ``printed``."""
    first, second = two_clusters(X)
    rows = [geometry(first, second, X), geometry(second, first, X)]
    return min(rows, key=lambda row: np.abs(np.subtract(row, printed)).sum())


def two_clusters(X: np.ndarray) -> list[np.ndarray]:
    """Return the rows of the two clusters of the best of 100 runs of k-means."""
    from sklearn.cluster import KMeans

    # Ten starts end in other optima on heart, liver disorders and splice.
    labels = KMeans(2, n_init=100, tol=0, random_state=0).fit_predict(X)
    return [X[labels == i] for i in (0, 1)]


def geometry(first: np.ndarray, second: np.ndarray, X: np.ndarray) -> list[float]:
    """Return columns, sizes, and the four distances of Table 1."""
    A, B = np.cov(first.T, ddof=0), np.cov(second.T, ddof=0)
    I = np.eye(X.shape[1])
    pairs = ((A, I), (B, I), (B, A), (A + B, np.cov(X.T, ddof=0)))
    sizes = [X.shape[1], len(first), len(second)]
    return [*sizes, *(relative_distance(P, Q) for P, Q in pairs)]


def relative_distance(A: np.ndarray, B: np.ndarray) -> float:
    """Return ‖A − B‖ / (‖A‖ + ‖B‖) in Frobenius norms."""
    norm = np.linalg.norm
    return float(norm(A - B) / (norm(A) + norm(B)))
