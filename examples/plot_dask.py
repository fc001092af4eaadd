"""
Rows in Dask partitions
=======================

The same class fits NumPy arrays and Dask arrays, and this page shows that the model is
the same. Nothing is gathered: each partition adds its part to the sums of k-means and
of the least squares, on this machine or on a cluster.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from kaucus import KMeansKernelClassifier

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(20_000, 2))
y = (np.sin(4 * X[:, 0]) > 2 * X[:, 1]).astype(int)

# %%
# In memory, and in eight partitions
# ----------------------------------
#
# With a ``distributed.Client`` the tasks would go to its workers; without one they run
# on Dask's local scheduler, as here.

options = {"kernel": "rbf", "gamma": 2.0, "C": 10, "random_state": 0}
local = KMeansKernelClassifier(20, **options).fit(X, y)

rows = da.from_array(X, chunks=(2500, 2))
labels = da.from_array(y, chunks=2500)
spread = KMeansKernelClassifier(20, **options).fit(rows, labels)

gap = np.abs(local.representatives_ - spread.representatives_).max()
print(f"{rows.npartitions} partitions; representatives differ by {gap:.1e} at most")
gap = np.abs(local.dual_coef_ - spread.dual_coef_).max()
largest = np.abs(local.dual_coef_).max()
print(f"coefficients by {gap:.1e}; the largest coefficient is {largest:.1f}")

# %%
# Lazy predictions
# ----------------
#
# Predictions of a Dask array are a Dask array in the same chunks: nothing is computed
# until it is asked for. The fitted model is an ordinary one and takes NumPy arrays too.

predicted = spread.predict(rows)
print(predicted)
print(f"accuracy {spread.score(rows, labels):.3f}, computed by partitions")
print(f"accuracy {spread.score(X, y):.3f}, of the NumPy array")

# %%
# Left: the representatives of both fits on top of each other. Right: how much the
# coefficients differ from those of NumPy, for several numbers of partitions. Sums are
# rounded in another order; the solution of the least squares enlarges that.

numbers = [1, 2, 4, 8, 16]
gaps = []
for n_parts in numbers:
    parts = da.from_array(X, chunks=(len(X) // n_parts, 2))
    other = KMeansKernelClassifier(20, **options).fit(parts, y)
    gaps.append(np.abs(other.dual_coef_ - local.dual_coef_).max() / largest)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
colours = np.array(["C0", "C1"])
left.scatter(*X[::5].T, c=colours[y[::5]], s=3, alpha=0.3, linewidths=0)
left.scatter(*local.representatives_.T, s=90, c="w", edgecolors="k", label="NumPy")
left.scatter(*spread.representatives_.T, marker="x", c="k", label="Dask, 8 partitions")
left.set(xlabel="column 0", ylabel="column 1", title="representatives")
left.set(ylim=(-1.05, 1.5), yticks=[-1, 0, 1])
left.legend(loc="upper left")
right.loglog(numbers, gaps, "o-", label="largest difference")
right.axhline(1e-6, color="k", linestyle="--", linewidth=1, label="one in a million")
right.set_xticks(numbers, numbers)
right.minorticks_off()
right.set(ylim=(1e-12, 1e-4), xlabel="partitions", title="coefficients against NumPy")
right.set_ylabel("difference over the largest coefficient")
right.legend()
plt.show()
