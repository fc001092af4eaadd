"""Rows in, a few rows or centres that stand for them out.

Seeding, k-means in the cosine and the euclidean geometry and in the feature space of a
kernel, landmarks, pivoted Cholesky factors; nothing is predicted here.
"""

from kaucus.representatives._feature_means import (
    distances_from_sums,
    labels_objective,
    total_scatter,
)
from kaucus.representatives._geometry import METRICS
from kaucus.representatives._gram import make_gram
from kaucus.representatives._kernel_kmeans import (
    KernelKMeansResult,
    best_start,
    kernel_kmeans,
    mean_shares,
)
from kaucus.representatives._kernel_parts import (
    kernel_kmeans_of_parts,
    labels_of_parts,
)
from kaucus.representatives._landmarks import (
    LANDMARKS,
    choose_landmarks,
    pivoted_factor,
)
from kaucus.representatives._lloyd import KMeansResult, kmeans
from kaucus.representatives._parts import part_labels
from kaucus.representatives._per_class import (
    KMeansOptions,
    Representatives,
    represent_classes,
    speak_for,
    with_rows,
)
