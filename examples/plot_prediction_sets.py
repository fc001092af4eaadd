"""
Prediction sets: which digits it may be
=======================================

A classifier can answer with a set of classes that holds the right one with the
probability you ask for, and this page shows which pictures get more than one answer.
Most digits get a set of one class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kaucus import LSSVMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=500, stratify=y, random_state=0
)

# %%
# Sets of several levels
# ----------------------
#
# ``predict_set`` returns a table of true and false: rows, classes, levels. It uses the
# models without each training row, in closed form; nothing is refitted.

model = LSSVMClassifier(C=10, gamma="scale", kernel="rbf").fit(X_train, y_train)
print(f"one answer: {model.score(X_test, y_test):.1%} right")

levels = [0.9, 0.95, 0.99, 0.995]
sets = model.predict_set(X_test, levels)
held = sets[np.arange(len(y_test)), y_test]
sizes = sets.sum(axis=1)
for level, share, size in zip(
    levels, held.mean(axis=0), sizes.mean(axis=0), strict=True
):
    print(f"level {level:.1%}: {share:.1%} held, {size:.2f} classes on average")

# %%
# Digits that could be two
# ------------------------
#
# Left: how many classes the sets have. Right: the first pictures that get two answers
# at the level 99 %.

two = np.flatnonzero(sizes[:, 2] == 2)[:8]
fig = plt.figure(figsize=(9, 3.6), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.25])
ax = left.subplots()
counts = np.array([np.bincount(sizes[:, k], minlength=6)[:6] for k in (0, 2, 3)])
for k, (row, level) in enumerate(zip(counts, (0.9, 0.99, 0.995), strict=True)):
    share = 100 * row / len(y_test)
    ax.bar(np.arange(6) + 0.27 * (k - 1), share, width=0.27, label=f"{level:.1%}")
ax.set(xlabel="classes in the set", ylabel="share of the test rows in %")
ax.legend(title="level")

for panel, i in zip(right.subplots(2, 4).ravel(), two, strict=True):
    panel.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    panel.set_axis_off()
    answer = " or ".join(map(str, np.flatnonzero(sets[i, :, 2])))
    panel.set_title(f"{answer}?\ntrue: {y_test[i]}", fontsize=9)
plt.show()
