"""
Kernels shaped by the clusters of the data
==========================================

The Gaussian kernel has one width in every direction and everywhere, and this page shows
a kernel that takes its width from the cluster a row is in. It also shows how easily
good values of C and gamma are found: the share of a grid that reaches a given accuracy.
"""

import matplotlib.pyplot as plt
import numpy as np

from kaucus import ClusterRBFSVC, LocalSVC
from kaucus.evaluation import TunabilityDisplay, grid_search_gamma_C
from kaucus.kernels import Gaussian

# %%
# Two groups of rows, one long and flat, the other narrow and high. In each, the classes
# are separated by a thin line along the long side.

rng = np.random.default_rng(0)
flat = rng.normal(size=(200, 2)) * [3.0, 0.3] + [-2.0, 4.0]
high = rng.normal(size=(200, 2)) * [0.3, 3.0] + [5.0, -2.0]
X = np.vstack([flat, high])
y = np.r_[flat[:, 1] > 4.0, high[:, 0] > 5.0].astype(int)

# %%
# A grid of C and gamma
# ---------------------
#
# ``grid_search_gamma_C`` computes all distances once and reuses them for the whole
# grid. :class:`~kaucus.ClusterRBFSVC` is one support vector machine whose kernel knows
# the covariance of each cluster; :class:`~kaucus.LocalSVC` fits one machine in each
# cluster. A kernel alone stands for the support vector machine with it.

models = {
    "Gaussian kernel": Gaussian(gamma=1.0),
    "ClusterRBFSVC": ClusterRBFSVC(n_clusters=2, random_state=0),
    "LocalSVC": LocalSVC(n_clusters=2, random_state=0),
}
grid = {"Cs": np.logspace(-1, 3, 5), "gammas": np.logspace(-4, 2, 7), "cv": 5}
searches = {}
for name, model in models.items():
    search = searches[name] = grid_search_gamma_C(model, X, y, **grid)
    good = (search.mean_scores >= 0.9).mean()
    print(f"{name:16} best {search.best_score_:.3f}, at least 0.9 on {good:.0%}")

# %%
# Left: the rows, and the classes that the best cluster-shaped machine predicts. Right:
# the tunability curves. A curve further up and to the right means that more of the grid
# is good, so that a coarse search will do.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
name = "ClusterRBFSVC"
best = models[name].set_params(**searches[name].best_params_).fit(X, y)
a, b = np.meshgrid(np.linspace(-13, 7, 200), np.linspace(-12, 6, 200))
values = best.decision_function(np.c_[a.ravel(), b.ravel()]).reshape(a.shape)
left.contourf(a, b, values, levels=[-99, 0, 99], colors=["C0", "C1"], alpha=0.2)
left.scatter(*X.T, c=np.array(["C0", "C1"])[y], s=12, linewidths=0)
left.set(title=f"{name}, C and gamma by 5 folds", xticks=[], yticks=[])
left.set_aspect("equal")

lower = min(search.mean_scores.min() for search in searches.values())
for name, search in searches.items():
    TunabilityDisplay.from_cv_results(search, name=name, lower=lower, ax=right)
right.set(title="how much of the grid is good", xlabel="accuracy asked for")
right.legend(loc="lower left", fontsize="small")
right.grid(alpha=0.3)
plt.show()
