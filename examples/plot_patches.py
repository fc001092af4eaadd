"""
Pictures by their patches
=========================

Pictures are classified by a kernel of small patches, without a neural network, and this
page shows what such a model is made of: filters, responses, and the pictures that it
finds hardest. The filters are whitened patches of the training pictures, drawn at
random.
"""

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from kaucus import PatchKernelClassifier
from kaucus.experiments import draw_picture_model

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
# Look inside
# -----------
#
# ``draw_picture_model`` draws the first filters; a test picture with its responses, red
# where a patch is like the filter and blue where it is like its negative; and the test
# pictures whose true class is least probable, with the true class and the predicted
# one.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits.png"
    draw_picture_model(model, X_test, y_test, file, title="128 filters of 3 x 3 pixels")
    drawn = plt.imread(file)

fig = plt.figure(figsize=(10, 10 * drawn.shape[0] / drawn.shape[1]))
ax = fig.add_axes((0, 0, 1, 1))
ax.imshow(drawn)
ax.set_axis_off()
plt.show()
