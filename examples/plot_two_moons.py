"""
Two moons and their representatives
===================================

Thousands of rows are classified by a handful of representatives, and this page draws
which points these are. :class:`~kaucus.KMeansKernelClassifier` clusters each class by
k-means, keeps the centres, and fits one coefficient for each centre to all rows by
least squares.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kaucus import KMeansKernelClassifier

X, y = make_moons(6000, noise=0.2, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# A model of the size you choose
# ------------------------------
#
# The first parameter is the number of representatives of each class. The model has this
# size however many rows there are. Kernel and width are given here, so that only the
# size changes; without them they are searched.

models = {
    Q: KMeansKernelClassifier(Q, kernel="rbf", gamma=0.5, C=1, random_state=0)
    for Q in (2, 4, 16)
}
for Q, model in models.items():
    model.fit(X_train, y_train)
    right = model.score(X_test, y_test)
    print(f"{2 * Q:4d} representatives: {right:.1%} of the test rows are right")

# %%
# A support vector machine keeps every row that is near the boundary or on its wrong
# side. That number grows with the number of rows.

svc = SVC(gamma=0.5, C=1).fit(X_train, y_train)
right = svc.score(X_test, y_test)
print(f"{len(svc.support_):4d} support vectors: {right:.1%}")

# %%
# Who speaks for how many
# -----------------------
#
# ``representative_weights_`` tells how many rows each representative stands for; the
# area of a disc shows it. The line is where the prediction changes. Below on the right
# is the support vector machine, with a dot for each support vector.


def draw(ax, model, title):
    """Draw the rows and the decision line, and return the colours of the classes."""
    colours = np.array(["C0", "C1"])
    ax.scatter(*X_train.T, s=2, c=colours[y_train], alpha=0.15, linewidths=0)
    a, b = np.meshgrid(np.linspace(-1.8, 2.8, 150), np.linspace(-1.4, 1.9, 120))
    values = model.decision_function(np.c_[a.ravel(), b.ravel()]).reshape(a.shape)
    ax.contour(a, b, values, levels=[0], colors="k", linewidths=1.5)
    right = model.score(X_test, y_test)
    ax.set(title=f"{title}, {right:.1%} right", xticks=[], yticks=[])
    ax.set_aspect("equal")
    return colours


fig, axes = plt.subplots(2, 2, figsize=(8, 6.2), layout="constrained")
for ax, (Q, model) in zip(axes.flat, models.items(), strict=False):
    colours = draw(ax, model, f"{2 * Q} representatives")
    ax.scatter(
        *model.representatives_.T,
        s=model.representative_weights_ / 4,
        c=colours[model.representative_labels_],
        edgecolors="k",
        zorder=3,
    )
colours = draw(axes[1, 1], svc, f"SVC, {len(svc.support_)} support vectors")
kept = {"s": 9, "edgecolors": "k", "linewidths": 0.5, "zorder": 3}
axes[1, 1].scatter(*svc.support_vectors_.T, c=colours[y_train[svc.support_]], **kept)
plt.show()
