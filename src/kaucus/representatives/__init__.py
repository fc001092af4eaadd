"""Rows in, a few rows or centres that stand for them out.

Seeding, k-means in the cosine and the euclidean geometry and in the feature space of a
kernel, landmarks, pivoted Cholesky factors; nothing is predicted here.
"""

from kaucus.representatives._allocation import ALLOCATIONS, allocate
from kaucus.representatives._assign import (
    Assigner,
    Assignment,
    cluster_sums,
    cluster_weights,
)
from kaucus.representatives._covariances import COVARIANCES, cell_covariances
from kaucus.representatives._feature_means import (
    distances_from_sums,
    indicator,
    labels_objective,
    total_scatter,
)
from kaucus.representatives._geometry import METRICS, make_centers, prepare_rows
from kaucus.representatives._gram import KernelMatrix, NystromGram, make_gram
from kaucus.representatives._kernel_kmeans import (
    KernelKMeansResult,
    best_start,
    kernel_kmeans,
    mean_shares,
)
from kaucus.representatives._landmarks import LANDMARKS, choose_landmarks
from kaucus.representatives._lloyd import KMeansResult, kmeans, reseed_empty
from kaucus.representatives._per_class import (
    KMeansOptions,
    Representatives,
    represent_classes,
    speak_for,
    with_rows,
)
from kaucus.representatives._pivoted_cholesky import PivotedFactor, pivoted_factor
from kaucus.representatives._seeding import (
    kmeans_plus_plus,
    random_seeds,
    seeds_by_cost,
)
from kaucus.representatives._streamed import streamed_kmeans

__all__ = [
    "ALLOCATIONS",
    "allocate",
    "LANDMARKS",
    "COVARIANCES",
    "METRICS",
    "Assigner",
    "Assignment",
    "KMeansOptions",
    "KMeansResult",
    "KernelKMeansResult",
    "KernelMatrix",
    "NystromGram",
    "PivotedFactor",
    "Representatives",
    "best_start",
    "choose_landmarks",
    "cell_covariances",
    "cluster_sums",
    "cluster_weights",
    "distances_from_sums",
    "indicator",
    "kernel_kmeans",
    "kmeans",
    "kmeans_plus_plus",
    "labels_objective",
    "make_centers",
    "make_gram",
    "mean_shares",
    "pivoted_factor",
    "prepare_rows",
    "random_seeds",
    "represent_classes",
    "reseed_empty",
    "seeds_by_cost",
    "streamed_kmeans",
    "total_scatter",
    "speak_for",
    "with_rows",
]
