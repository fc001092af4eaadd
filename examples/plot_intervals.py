"""
Prediction intervals from one fit
=================================

A regressor of this package gives intervals that hold a new target with the probability
you ask for, and this page counts whether they do. They are jackknife+ intervals: the
models without each row in turn are known in closed form, so that nothing is refitted.
"""

import matplotlib.pyplot as plt
import numpy as np

from kaucus import LSSVMRegressor


def draw_rows(seed, n_rows):
    """Draw rows and targets of a wave with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, size=(n_rows, 1))
    wave = np.sin(2 * X[:, 0]) * np.exp(-X[:, 0] / 5)
    return X, wave + 0.15 * rng.normal(size=n_rows)


def share_held(ends, y):
    """Return the share of targets inside their intervals, for each level."""
    return np.mean((ends[:, 0] <= y[:, None]) & (y[:, None] <= ends[:, 1]), axis=0)


X_test, y_test = draw_rows(1000, 2000)

# %%
# One fit, any level
# ------------------
#
# ``predict_interval`` returns the lower and the upper end, for one level or several.

levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
X, y = draw_rows(0, 200)
model = LSSVMRegressor(C=10, gamma=1.0).fit(X, y)
ends = model.predict_interval(X_test, confidence_level=levels)
for level, held in zip(levels, share_held(ends, y_test), strict=True):
    print(f"level {level:.0%}: {held:.1%} of {len(y_test)} targets held")

# %%
# What is promised
# ----------------
#
# The level 1 − α is promised as 1 − 2α, and held as about 1 − α in practice, on average
# over training sets. A single set of 200 rows gives a little more or less. So the fit
# is repeated with 30 sets.

repeated = []
for seed in range(30):
    X_other, y_other = draw_rows(seed, 200)
    other = LSSVMRegressor(C=10, gamma=1.0).fit(X_other, y_other)
    repeated.append(share_held(other.predict_interval(X_test, levels), y_test))
repeated = np.array(repeated)
for level, mean, std in zip(levels, repeated.mean(0), repeated.std(0), strict=True):
    print(f"level {level:.0%}: {mean:.1%} held on average, ± {std:.1%}")

# %%
# Rows held out
# -------------
#
# Where the promise itself counts, keep some rows out of the fit: ``method="split"``
# promises the full level, whatever was chosen or searched.

split = LSSVMRegressor(C=10, gamma=1.0).fit(X[::2], y[::2])
split.conformalize(X[1::2], y[1::2])
ends_split = split.predict_interval(X_test, [0.9], method="split")
print(f"split, level 90%: {share_held(ends_split, y_test)[0]:.1%} held")

# %%
# Left: the intervals over the rows of one fit. Right: the share of targets that each
# level holds, a thin line for each of the 30 fits. On the dashed line it is what was
# asked for.

fig, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1.6, 1]
)
order = np.argsort(X_test[:, 0])
for column, alpha in ((4, 0.2), (0, 0.35)):
    low, high = ends[order, 0, column], ends[order, 1, column]
    label = f"{levels[column]:.0%} interval"
    left.fill_between(X_test[order, 0], low, high, color="C0", alpha=alpha, label=label)
left.plot(X_test[order, 0], model.predict(X_test)[order], label="prediction")
left.plot(X[:, 0], y, "k.", markersize=4, label="rows of the fit")
left.set(xlabel="x", ylabel="target", xlim=(0, 6))
left.legend(ncols=2, fontsize="small")

percent = 100 * np.array(levels)
right.plot(percent, 100 * repeated.T, color="C0", alpha=0.25, linewidth=0.8)
right.plot(percent, 100 * repeated.mean(0), "C1o-", label="mean of 30 fits")
right.plot([45, 100], [45, 100], "k--", linewidth=1, label="asked for")
right.set(xlabel="level in %", ylabel="test targets held in %", xlim=(45, 100))
right.legend(loc="upper left")
plt.show()
