"""
What to search, and how to stack
================================

C, gamma, kernel and metric are chosen inside of one fit, by leave-one-out. A grid
search over them does the same work many times over. What is left to search is what
costs time: the number of representatives.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split

from kaucus import KMeansKernelRegressor

X, y = make_friedman1(1000, n_features=8, noise=1.0, random_state=0)
y = y + 4.0 * (X[:, 5] > 0.5)  # a jump, which trees like
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# A search over sizes
# -------------------
#
# Each candidate chooses its own C and gamma. The same call takes Optuna's
# ``OptunaSearchCV``, or any other of scikit-learn's kind.

machine = KMeansKernelRegressor(random_state=0)
search = GridSearchCV(
    machine, {"n_representatives": [20, 100, 200]}, scoring="r2", cv=3
)
search.fit(X_train, y_train)
for size, score, seconds in zip(
    search.cv_results_["param_n_representatives"],
    search.cv_results_["mean_test_score"],
    search.cv_results_["mean_fit_time"],
    strict=True,
):
    print(f"{size} representatives: R² {score:.3f}, {seconds:.1f} s a fit")

# %%
# Beside trees
# ------------
#
# Kernels are better where the target is smooth, trees where it jumps. Together they are
# better than each; any boosting of scikit-learn's API stacks alike, LightGBM's
# ``LGBMRegressor`` too. :class:`~kaucus.TableRegressor` is such a committee, without
# the refits of a stack.

trees = HistGradientBoostingRegressor(random_state=0)
stack = StackingRegressor(
    [("kernel", search.best_estimator_), ("trees", trees)], RidgeCV(), cv=3
)
models = {"kernel machine": search.best_estimator_, "trees": trees, "stack": stack}
scores = {
    name: model.fit(X_train, y_train).score(X_test, y_test)
    for name, model in models.items()
}
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
bars = axis.barh(list(scores), list(scores.values()), color=["C0", "C2", "C1"])
axis.bar_label(bars, [f"{score:.3f}" for score in scores.values()], padding=3)
axis.set(xlim=(0.9 * np.min(list(scores.values())), 1), xlabel="R² on other rows")
axis.invert_yaxis()
plt.show()
