"""
Time over the number of rows
============================

The time of a support vector machine grows faster than the number of rows, and this page
measures from when on representatives pay. Where classes overlap, a support vector
machine keeps a share of all rows; a machine of representatives keeps its size.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from kaucus import KMeansKernelClassifier

X, y = make_moons(16_000, noise=0.35, random_state=0)
X_test, y_test = make_moons(5000, noise=0.35, random_state=1)

# %%
# Two machines, more and more rows
# --------------------------------
#
# Both have the same kernel and the same C. The second one has 50 representatives of
# each class, and probabilities.

options = {"kernel": "rbf", "gamma": 1.0, "C": 1.0}
machines = {
    "SVC": SVC(**options),
    "KMeansKernelClassifier(50)": KMeansKernelClassifier(50, **options, random_state=0),
}
sizes = [1000, 2000, 4000, 8000, 16_000]
fits, predictions, errors = ({name: [] for name in machines} for _ in range(3))
for n in sizes:
    for name, machine in machines.items():
        start = time.perf_counter()
        machine.fit(X[:n], y[:n])
        fitted = time.perf_counter()
        predicted = machine.predict(X_test)
        fits[name].append(fitted - start)
        predictions[name].append(time.perf_counter() - fitted)
        errors[name].append(100 * (predicted != y_test).mean())

for name in machines:
    print(f"{name}, {sizes[-1]:,} rows: fitted in {fits[name][-1]:.2f} s,")
    print(f"  5,000 rows predicted in {1000 * predictions[name][-1]:.0f} ms,", end=" ")
    print(f"{errors[name][-1]:.2f} % of them wrong")
print(f"SVC has {len(machines['SVC'].support_):,} support vectors")

# %%
# With few rows there is nothing to gain. With many, the fit takes less time, and the
# prediction of a row takes as long as it did with few.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for name, marker in zip(machines, "os", strict=True):
    for ax, values in zip(axes, (fits, predictions, errors), strict=True):
        ax.plot(sizes, values[name], marker=marker, label=name)
axes[0].set(title="fit", ylabel="seconds", yscale="log")
axes[1].set(title="5,000 predictions", ylabel="seconds", yscale="log")
axes[2].set(title="test error", ylabel="%", ylim=(10, 12))
for ax in axes:
    ax.set_xscale("log")
    ax.set_xticks(sizes, [f"{n // 1000}k" for n in sizes])
    ax.xaxis.minorticks_off()
    ax.set_xlabel("rows of the fit")
    ax.grid(alpha=0.3)
axes[2].legend(fontsize="small")
plt.show()
