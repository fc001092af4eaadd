"""
A metric learned from the targets
=================================

A kernel counts every column of a table alike, and this page shows what is gained when
the model learns which columns count. The target depends on five columns; ten more are
noise. ``learn_metric`` finds the five by the gradients of a first fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from kaucus import KMeansKernelRegressor

X, y = make_friedman1(1200, n_features=15, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# With and without
# ----------------
#
# Both models choose kernel, width and C by rows held out. The first one leaves the
# columns alone. The second one also learns a metric; that is the default.

plain = KMeansKernelRegressor(learn_metric=False, random_state=0)
learned = KMeansKernelRegressor(random_state=0)
for name, model in {"columns alike": plain, "metric learned": learned}.items():
    model.fit(X_train, y_train)
    print(f"{name:15} R² of the test rows {model.score(X_test, y_test):.3f}")

# %%
# What it found
# -------------
#
# ``feature_importances_`` are the weights of the columns in the metric. They add up to
# 1.

importances = learned.feature_importances_
print("the five largest:", np.sort(np.argsort(-importances)[:5]))
print(f"their share: {np.sort(importances)[-5:].sum():.3f}")

# %%
# The predictions of the test rows before and after, and the weight of each column.

fig, axes = plt.subplot_mosaic(
    [["plain", "learned"], ["weights", "weights"]],
    figsize=(7.5, 6.4),
    layout="constrained",
    height_ratios=[1.7, 1],
)
named = {"plain": ("all columns alike", plain), "learned": ("metric learned", learned)}
for place, (title, model) in named.items():
    ax = axes[place]
    ax.scatter(y_test, model.predict(X_test), s=12, alpha=0.6, linewidths=0)
    ax.plot([0, 30], [0, 30], "k--", linewidth=1)
    ax.set(xlim=(0, 30), ylim=(0, 30), xlabel="target", ylabel="prediction")
    ax.set_title(f"{title}, R² = {model.score(X_test, y_test):.3f}")
    ax.set_aspect("equal")

colours = ["C1" if column < 5 else "0.6" for column in range(X.shape[1])]
ax = axes["weights"]
ax.bar(range(X.shape[1]), importances, color=colours)
ax.set(xlabel="column", ylabel="importance", xticks=range(X.shape[1]))
ax.set_title("the target depends on the orange columns")
plt.show()
