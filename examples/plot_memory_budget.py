"""
A memory budget
===============

The memory of a fit is a parameter, and this page measures that it is kept. The kernel
matrix of 3,000 rows takes 69 MiB in float64; the same model is fitted under budgets of
which the smallest is a fraction of that.
"""

import textwrap
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from kaucus import LSSVMClassifier

X, y = make_moons(3000, noise=0.2, random_state=0)
X_test, y_test = make_moons(1000, noise=0.2, random_state=1)
matrix = 8 * len(X) ** 2 / 2**20
print(f"the kernel matrix takes {matrix:.0f} MiB")

# %%
# The same model under every budget
# ---------------------------------
#
# No array larger than ``memory_budget`` is made. Where the kernel matrix fits, it is
# factored; where it does not, an iterative solver computes blocks of it when they are
# needed. ``solver_`` tells which one ran.


def fit_and_measure(budget):
    """Fit under a budget; return the model and the most memory that NumPy had."""
    model = LSSVMClassifier(C=1, gamma=1.0, memory_budget=budget, tol=1e-4)
    model.set_params(probability=False, random_state=0)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return model, peak


budgets = [8, 16, 32, 64, 128]
models, peaks = zip(*(fit_and_measure(f"{b}MiB") for b in budgets), strict=True)

print(f"{'budget':>8} {'peak':>8}  {'solver':14} test rows right")
for budget, peak, model in zip(budgets, peaks, models, strict=True):
    right = model.score(X_test, y_test)
    print(f"{budget:4d} MiB {peak:4.0f} MiB  {model.solver_:14} {right:.1%}")

# %%
# The iterative solver stops where its residual is below ``tol``; that is why decision
# values differ a little from the exact ones.

exact = models[-1].decision_function(X_test)
for budget, model in zip(budgets[:-1], models[:-1], strict=True):
    gap = np.abs(model.decision_function(X_test) - exact).max()
    print(f"{budget:4d} MiB: largest difference {gap:.1e}")

# %%
# What cannot be done is refused at once
# --------------------------------------
#
# A factorisation needs the whole matrix. Asked for in too small a budget, it fails
# before work begins, and the message has the numbers.

try:
    LSSVMClassifier(solver="cholesky", memory_budget="16MiB").fit(X, y)
except MemoryError as error:
    print(textwrap.fill(str(error), 72))

# %%
# The measured peak stays below the budget, the dotted line.

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
colours = {"cholesky": "C0", "cg": "C1", "block_descent": "C2"}
for solver in dict.fromkeys(model.solver_ for model in models):
    own = [i for i, model in enumerate(models) if model.solver_ == solver]
    heights = [peaks[i] for i in own]
    ax.bar(own, heights, width=0.6, color=colours[solver], label=f"solver: {solver}")
ax.step(np.arange(-1, 6) - 0.5, [8, *budgets, 128], "k:", where="post", label="budget")
ax.axhline(matrix, color="0.5", linewidth=1, label="one kernel matrix")
ax.set_yscale("log", base=2)
ax.set_yticks(budgets, budgets)
ax.set_xticks(range(len(budgets)), [f"{b} MiB" for b in budgets])
ax.set(xlim=(-0.6, 4.6), ylim=(2, 170), xlabel="memory_budget")
ax.set_ylabel("most memory during the fit, MiB")
ax.legend(loc="upper left")
plt.show()
