"""Table 1 of Czarnecki & Tabor: the two clusters of k-means in each data set.

Its n₋ and n₊ are the sizes of the clusters, though the names read as those of classes:
the classes have other sizes, and the clusters of k-means have these.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaucus.evaluation.clustering import timed
from papers._svm_grid import Measurement, load_scaled

HEADERS = ("data set", "d", "n₋", "n₊", "Σ₁, I", "Σ₂, I", "Σ₂, Σ₁", "Σ₁+Σ₂, Σ")
NOTE = (
    "n₋ and n₊ are the sizes of the two clusters of k-means (best of 100 starts), not "
    "of the classes. Distances are ‖A − B‖ / (‖A‖ + ‖B‖) of covariances (with 1/n) in "
    "Frobenius norms, of columns in [−1, 1], banknote and crashes as they are. Which "
    "cluster is the first is not printed: ours are in the order nearer to print."
)
MATCH = 0.0006  # three printed digits, rounded


def measure_clusters(
    dataset: str, params: Mapping[str, Any], *, seed: int, data_home: Any = None
) -> Measurement:
    """Return the rows of the smaller cluster, and in ``detail`` rows of Table 1.

    "best" is of the best of 100 runs of k-means, "optima" of every end of 100 runs of
    one start each: the table may be of another local optimum.
    """
    from sklearn.cluster import KMeans

    X, _ = load_scaled(dataset, data_home, "table-1")

    def run(n_init: int, at: int) -> list[list[float]]:
        # Ten starts end in other optima on heart, liver disorders and splice.
        model = KMeans(2, n_init=n_init, tol=0, random_state=at).fit(X)
        first, second = (X[model.labels_ == i] for i in (0, 1))
        return [geometry(first, second, X), geometry(second, first, X)]

    best, seconds = timed(run, params["n_init"], seed)
    ends = (row for at in range(params["n_init"]) for row in run(1, at))
    optima = {tuple(row[:3]): row for row in ends}
    detail = {"best": best, "optima": list(optima.values())}
    return Measurement(min(best[0][1:3]), len(X), seconds, detail)


def nearest(rows: list[list[float]], printed: list[float]) -> list[float]:
    """Return the row that is nearest to the printed one."""
    return min(rows, key=lambda row: np.abs(np.subtract(row, printed)).sum())


def count_line(details: Mapping[str, dict], printed: dict) -> str:
    """Count the data sets whose sizes, and whose four distances, are as printed."""
    n_sizes = n_distances = 0
    for dataset, detail in details.items():
        ours, theirs = nearest(detail["best"], printed[dataset]), printed[dataset]
        n_sizes += ours[1:3] == theirs[1:3]
        pairs = zip(ours[3:], theirs[3:], strict=True)
        n_distances += all(abs(a - b) <= MATCH for a, b in pairs)
    return (
        f"Sizes as printed: {n_sizes} of {len(details)} data sets. All four distances "
        f"within {MATCH}: {n_distances} of {len(details)}."
    )


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
