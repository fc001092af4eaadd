"""
A rare class: weights, thresholds and what they cost
====================================================

Two of a hundred rows are positive. The likelier class is then nearly always the other
one. Three ways to find more of the rare ones, and what each gives up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import (
    PrecisionRecallDisplay,
    f1_score,
    precision_score,
    recall_score,
)
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
    train_test_split,
)

from kaucus import KMeansKernelClassifier

X, y = make_classification(
    4000, 8, n_informative=5, weights=[0.98], class_sep=1.2, flip_y=0, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)

# %%
# Three models
# ------------
#
# ``class_weight="balanced"`` solves another problem: both classes as frequent. Its
# probabilities are those of that problem, and it calls many rows positive. A threshold
# that is moved by rows not seen keeps the model as it is, and its probabilities too. A
# threshold of your own says what a missed positive costs: below 0.1, ten false ones.

plain = KMeansKernelClassifier(50, random_state=0)
models = {
    "as it is": plain,
    "balanced weights": KMeansKernelClassifier(
        50, class_weight="balanced", random_state=0
    ),
    "threshold for F1": TunedThresholdClassifierCV(plain, scoring="f1", cv=3),
    "threshold of 0.1": FixedThresholdClassifier(plain, threshold=0.1),
}
for name, model in models.items():
    found = model.fit(X_train, y_train).predict(X_test)
    scores = (precision_score, recall_score, f1_score)
    values = [score(y_test, found, zero_division=0) for score in scores]
    print(f"{name:18s} precision {values[0]:.2f}, recall {values[1]:.2f}", end=", ")
    print(f"F1 {values[2]:.2f}; {found.sum()} rows called positive")

# %%
# One curve
# ---------
#
# Thresholds move along a curve; another model has another curve.
# :class:`~kaucus.TableClassifier` has the threshold built in: ``threshold="f1"``.

figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
for name in ("as it is", "balanced weights"):
    PrecisionRecallDisplay.from_estimator(
        models[name], X_test, y_test, ax=axis, name=name
    )
axis.legend(frameon=False, loc="lower left")
axis.set_title(f"{np.sum(y_test)} positives among {len(y_test)} rows")
plt.show()
