"""
Kernel k-means on shapes that are not round
===========================================

k-means cuts a face, two bananas and two rings into round pieces, and this page shows
how the same algorithm in the feature space of a kernel finds the parts, and how many
there are. Which of many kernels suits is found without labels by
:func:`~kaucus.evaluation.compare_kernels`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans

from kaucus import KernelKMeans
from kaucus.datasets import make_cassini, make_rings, make_smiley
from kaucus.evaluation import (
    clustering_accuracy,
    compare_kernels,
    default_kernels,
)

shapes = {
    "smiley": (make_smiley(300, random_state=0), 4),
    "cassini": (make_cassini(300, random_state=0), 3),
    "rings": (make_rings(300, random_state=0), 2),
}

# %%
# No width, no number
# -------------------
#
# The graph of the nearest neighbours says how many parts there are, and which width of
# the kernel keeps them together. The true parts serve only to count how many points are
# in the right cluster.

models = {name: KernelKMeans("auto", random_state=0) for name in shapes}
for name, ((X, y), _) in shapes.items():
    model = models[name].fit(X)
    right = clustering_accuracy(y, model.labels_)
    print(
        f"{name:8} {model.n_clusters_} clusters, gamma {model.gamma_:.3g} {right:.1%}"
    )

# %%
# A kernel without labels
# -----------------------
#
# The objective of k-means has the units of the kernel, so it cannot choose between
# kernels. The comparison looks at two numbers that have none: how tight the clusters
# are, and how stable they are when rows are left out. A kernel may be any matrix of
# the rows: the path kernel sees how rows are connected, by the longest step of the best
# path between two of them (Fischer, Roth and Buhmann, 2003). The table for the face:


def path_kernel(X):
    steps = cophenet(linkage(X, "single"))
    return np.exp(-squareform(steps) / np.median(steps))


options = {"n_init": 5, "n_subsamples": 3, "random_state": 0}
compared = {
    name: compare_kernels(
        X, k, {**default_kernels(X), "path": path_kernel(X)}, **options
    )
    for name, ((X, _), k) in shapes.items()
}
print(compared["smiley"])

# %%
# Three shapes
# ------------

found = {}
for name, ((X, y), k) in shapes.items():
    plain = KMeans(k, n_init=10, random_state=0).fit_predict(X)
    best = compared[name].best
    methods = {
        "k-means": plain,
        f"kernel: {best.name}": best.labels,
        "no width, no number": models[name].labels_,
    }
    found[name] = [
        (method, labels, clustering_accuracy(y, labels))
        for method, labels in methods.items()
    ]
    for method, _, right in found[name]:
        print(f"{name:8} {method:24} {right:.1%}")

# %%
# Colours are clusters. ``KernelKMeans(k, kernel=...)`` fits one kernel, predicts new
# points, and takes weights and millions of rows.

fig, axes = plt.subplots(3, 3, figsize=(9, 8.2), layout="constrained")
for column, (name, ((X, _), _)) in enumerate(shapes.items()):
    for row, (method, labels, right) in enumerate(found[name]):
        ax = axes[row, column]
        ax.scatter(*X.T, c=labels, cmap="tab10", vmax=9, s=14, linewidths=0)
        title = f"{name}, {method}\n{right:.0%} in the right cluster"
        ax.set(title=title, xticks=[], yticks=[])
        ax.set_aspect("equal", adjustable="datalim")
plt.show()
