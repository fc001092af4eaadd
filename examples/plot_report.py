"""
A report of a fitted model
==========================

One call writes a page about a fitted model that one can read and send on, and this
example makes it from handwritten digits. The page is a single file without scripts; it
needs no network, and is light or dark as the reader's system is.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import kaucus
from kaucus import KMeansKernelClassifier
from kaucus.evaluation import RepresentativesDisplay, SearchDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)
model = KMeansKernelClassifier(10, learn_metric=False, random_state=0)
model = model.fit(X_train, y_train)

# %%
# Write the page
# --------------
#
# Pass rows that were not in the fit. With ``image_shape`` representatives and the worst
# predictions are shown as pictures.

report = kaucus.report(model, X_test, y_test, title="Digits", image_shape=(8, 8))
with tempfile.TemporaryDirectory() as folder:
    file = report.write_html(Path(folder) / "digits.html")
    print(f"{file.stat().st_size / 1024:.0f} KiB")

# %%
# What is on it
# -------------

for section in report.sections:
    print(f"- {section.title}")

# %%
# The error of the test rows comes with its 95 % interval.

print(report.score)

# %%
# The same pictures in a notebook
# -------------------------------
#
# Figures of the page are displays that you can draw by themselves: here the search
# over C and the kernel, and the representatives.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
SearchDisplay.from_estimator(model, x="C", ax=axes[0])
axes[0].set_title("what the search found")
RepresentativesDisplay.from_estimator(model, image_shape=(8, 8), n_shown=50, ax=axes[1])
axes[1].set_title("the representatives of most rows")
plt.show()
