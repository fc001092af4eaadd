"""Rows in, a few rows or centres that stand for them out.

Seeding and k-means in the cosine and the euclidean geometry; nothing is predicted here.
"""

from kaucus.representatives._assign import Assigner, Assignment, cluster_sums
from kaucus.representatives._covariances import COVARIANCES, cell_covariances
from kaucus.representatives._geometry import METRICS, make_centers, prepare_rows
from kaucus.representatives._lloyd import KMeansResult, kmeans, reseed_empty
from kaucus.representatives._seeding import kmeans_plus_plus, random_seeds

__all__ = [
    "COVARIANCES",
    "METRICS",
    "Assigner",
    "Assignment",
    "KMeansResult",
    "cell_covariances",
    "cluster_sums",
    "kmeans",
    "kmeans_plus_plus",
    "make_centers",
    "prepare_rows",
    "random_seeds",
    "reseed_empty",
]
