"""
Solvers that can be stopped at any time
=======================================

An iterative solver has a usable model after its first step, and this page draws how the
error of four of them falls from step to step. Stop when the error is good enough: by
``max_iter``, by a function of your own, or by Ctrl-C.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from kaucus import LSSVMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(
    X, y, train_size=800, stratify=y, random_state=0
)

# %%
# The exact model
# ---------------
#
# One factorisation of the kernel matrix of all rows, to compare with.

options = {"C": 1e4, "kernel": "rbf", "gamma": "scale", "random_state": 0}
options["probability"] = False  # saves the second model that calibrates them
exact = LSSVMClassifier(solver="cholesky", **options).fit(X_train, y_train)
exact_error = 1 - exact.score(X_val, y_val)
print(f"exact: {exact_error:.2%} of the validation rows are wrong")

# %%
# Step by step
# ------------
#
# Each step looks at a random block of 100 rows of the kernel matrix. With ``X_val`` and
# ``y_val`` the error is measured after each step; ``history_`` keeps it. These solvers
# would stop by themselves at ``tol``; here all take 60 steps.

solvers = ["block_descent", "matching_pursuit", "kaczmarz", "kaczmarz_mp"]
histories = {}
for solver in solvers:
    model = LSSVMClassifier(
        solver=solver, block_size=100, max_iter=60, tol=1e-12, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 steps, on purpose
        model.fit(X_train, y_train, X_val=X_val, y_val=y_val)
    histories[solver] = model.history_
    error = model.history_["validation_error"]
    print(f"{solver:17} after 1, 10, 60 steps: ", end="")
    print(", ".join(f"{error[step - 1]:.2%}" for step in (1, 10, 60)))

# %%
# Stop when it is good enough
# ---------------------------
#
# A function that is called after every step ends the fit by returning True. The model
# is kept. Ctrl-C does the same: the best coefficients so far stay, and a warning says
# so.


def good_enough(step, state):
    """Stop at an error of at most two percent."""
    return state.validation_error <= 0.02


early = LSSVMClassifier(
    solver="block_descent", block_size=100, callback=good_enough, **options
)
early.fit(X_train, y_train, X_val=X_val, y_val=y_val)
print(textwrap.fill(early.explain(), 72))
print(f"validation error {1 - early.score(X_val, y_val):.2%}")

# %%
# The error of each solver over the steps; the dashed line is the exact model.

fig, ax = plt.subplots(figsize=(6.8, 4), layout="constrained")
for solver, history in histories.items():
    percent = [100 * error for error in history["validation_error"]]
    ax.loglog(history["step"], percent, label=solver, linewidth=2, alpha=0.85)
ax.axhline(100 * exact_error, color="k", linestyle="--", linewidth=1, label="exact")
ax.set_xticks([1, 2, 5, 10, 20, 60], [1, 2, 5, 10, 20, 60])
ax.set_yticks([1, 2, 5, 10], [1, 2, 5, 10])
ax.minorticks_off()
ax.set(xlabel="steps, of 100 rows each", ylabel="validation error in %")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
