"""
Digits, by the number of representatives
========================================

The test error of handwritten digits falls as each digit gets more representatives, and
this page shows how fast. It compares two ways to fit: least squares of all rows, which
is the default, and the way of the paper, of the representatives alone.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kaucus import KMeansKernelClassifier
from kaucus.evaluation import RepresentativesDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)
print(f"{len(X_train)} rows to fit, {len(X_test)} to test, {X.shape[1]} pixels each")

# %%
# What a representative looks like
# --------------------------------
#
# Representatives are means of rows, so those of pictures can be looked at. These are
# three of each digit. All pixels are on one scale, so no metric is learned from the
# labels (``learn_metric=False``).

options = {"kernel": "rbf", "gamma": "scale", "learn_metric": False, "random_state": 0}
few = KMeansKernelClassifier(3, C=10, **options).fit(X_train, y_train)

fig, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
RepresentativesDisplay.from_estimator(few, n_shown=30, image_shape=(8, 8), ax=ax)
ax.set_title("three representatives of each digit, those of most rows first")
plt.show()

# %%
# How many are enough
# -------------------
#
# Every number is fitted in two ways. With ``fit_on="all"`` each training row has a part
# in the least squares; with ``fit_on="representatives"`` only the centres have.

sizes = [1, 2, 4, 8, 16, 32, 64]
errors = {}
for fit_on in ("all", "representatives"):
    errors[fit_on] = []
    for Q in sizes:
        model = KMeansKernelClassifier(Q, C=10, fit_on=fit_on, **options)
        error = 1 - model.fit(X_train, y_train).score(X_test, y_test)
        errors[fit_on].append(100 * error)

svc = SVC(C=10).fit(X_train, y_train)
svc_error = 100 * (1 - svc.score(X_test, y_test))

print(f"{'of each digit':>16} {'all':>6} {'representatives':>16}")
for Q, one, other in zip(sizes, *errors.values(), strict=True):
    print(f"{Q:16d} {one:6.2f} {other:16.2f}")
print(f"SVC, {len(svc.support_)} support vectors: {svc_error:.2f}")

# %%
# The error over the size of the model. The dashed line is a support vector machine of
# the same kernel and the same C.

# sphinx_gallery_thumbnail_number = 2
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
labels = {
    "all": "fit_on='all' (default)",
    "representatives": "fit_on='representatives'",
}
for (fit_on, values), marker in zip(errors.items(), "os", strict=True):
    ax.loglog(sizes, values, marker=marker, label=labels[fit_on])
label = f"SVC, {len(svc.support_)} support vectors"
ax.axhline(svc_error, color="k", linestyle="--", linewidth=1, label=label)
ax.set_xticks(sizes, sizes)
ax.set_yticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
ax.minorticks_off()
ax.set(xlabel="representatives of each digit", ylabel="test error in %")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
