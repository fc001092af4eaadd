"""
Pictures by their patches
=========================

Pictures are classified by a kernel of small patches, without a neural network, and this
page shows the pictures of which such a model is least sure. Its filters are whitened
patches of the training pictures, drawn at random.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from kaucus import PatchKernelClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = X[:900], X[900:], y[:900], y[900:]

# %%
# Fit
# ---
#
# Rows are pictures of 8 × 8 pixels, patches have 3 × 3. Width and C are chosen by the
# leave-one-out loss of the training pictures, without a refit.

model = PatchKernelClassifier(128, patch_sizes=3, image_shape=(8, 8), random_state=0)
model.fit(X_train, y_train)
svc = SVC(C=10).fit(X_train, y_train)
print(f"patches:        {model.score(X_test, y_test):.1%} of the test pictures right")
print(f"SVC of pixels:  {svc.score(X_test, y_test):.1%}")
print(f"leave-one-out:  {model.loo_score_:.1%} of the training pictures right")

# %%
# What was chosen, in words:

print(textwrap.fill(model.explain(), 72))

# %%
# What is hard
# ------------
#
# The test pictures whose true class is least probable, with the true class and the
# predicted one.

columns = np.searchsorted(model.classes_, y_test)
probability = model.predict_proba(X_test)[np.arange(len(X_test)), columns]
hardest = np.argsort(probability)[:12]
predicted = model.predict(X_test[hardest])

fig, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for ax, row, said in zip(axes.flat, hardest, predicted, strict=True):
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray")
    ax.set_title(f"{y_test[row]} → {said}")
    ax.set_axis_off()
plt.show()
