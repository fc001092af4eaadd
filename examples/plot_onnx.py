"""
A model as an ONNX graph
========================

A fitted model becomes a graph that runs without Python, and this page shows that
onnxruntime gives the same answers. It also measures what one answer takes, because a
server is asked for one row at a time.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kaucus import LSSVMClassifier
from kaucus.onnx import to_onnx

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = make_pipeline(StandardScaler(), LSSVMClassifier()).fit(X_train, y_train)
print(f"{model.score(X_test, y_test):.1%} of the test rows right")

# %%
# Export
# ------
#
# ``to_onnx`` takes an estimator, or a pipeline with scikit-learn's parts. The file
# needs neither kaucus nor scikit-learn to run.

graph = to_onnx(model)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "model.onnx"
    onnx.save(graph, file)
    print(f"{file.stat().st_size / 1024:.0f} KiB, {len(graph.graph.node)} operations")
    session = onnxruntime.InferenceSession(file)

rows = X_test.astype(np.float32)
labels, probabilities = session.run(["label", "probabilities"], {"X": rows})

# %%
# The same answers
# ----------------

ours = model.predict_proba(X_test)[:, 1]
theirs = probabilities[:, 1]
same = (labels == model.predict(X_test)).mean()
print(f"the same label for {same:.0%} of the rows")
print(f"largest difference of a probability: {np.abs(ours - theirs).max():.1e}")


def milliseconds(call):
    """Return the median time of 50 calls."""
    times = []
    for _ in range(50):
        start = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - start))
    return np.median(times)


took = {
    "predict": milliseconds(lambda: model.predict(X_test[:1])),
    "onnxruntime": milliseconds(lambda: session.run(["label"], {"X": rows[:1]})),
}
for name, time_of_one in took.items():
    print(f"one row by {name:12} {time_of_one:.2f} ms")

# %%
# Left: every probability by both. Right: the time of one row.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot([0, 1], [0, 1], "k--", linewidth=1)
left.scatter(ours, theirs, s=25, alpha=0.7)
left.set(xlabel="predict_proba", ylabel="onnxruntime", title="probability of class 1")
left.set_aspect("equal")
bars = right.barh(list(took), list(took.values()), color=["C0", "C1"], height=0.5)
right.bar_label(bars, fmt="%.2f ms", padding=4)
right.set(xlabel="milliseconds", title="one row")
right.margins(x=0.2)
plt.show()
