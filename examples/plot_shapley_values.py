"""
Which columns make a prediction what it is: Shapley values
==========================================================

A Shapley value is by how much a column moves one prediction away from the mean, on
average over all orders in which columns become known. Such an average is drawn: of a
random order and a random other row, columns are exchanged one by one, and every step of
the prediction is added to its column. All rows of all orders are predicted in one call,
which is what makes it fast: a call for each would take minutes.

E. Štrumbelj, I. Kononenko, "Explaining prediction models and individual predictions
with feature contributions", Knowledge and Information Systems 41, 647 (2014).
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from kaucus import TableRegressor

# %%
# Any model and any table will do, also one with categories. ``n_orders`` orders and
# their reverses: with the reverse, what is true of neighbours cancels.


def shapley_values(predict, X, others, n_orders, rng):
    """Return values of each row and column, (n, d), and the mean prediction, (n,)."""
    n, d = X.shape
    orders = rng.permuted(np.tile(np.arange(d), (n_orders, n, 1)), axis=2)
    orders = np.concatenate([orders, orders[:, :, ::-1]])  # (2 n_orders, n, d)
    drawn = np.tile(rng.integers(len(others), size=(n_orders, n)), (2, 1))
    places = np.argsort(orders, axis=2)
    known = places[:, :, None, :] < np.arange(d + 1)[:, None]  # (.., n, d + 1, d)
    rows = np.broadcast_to(np.arange(n)[:, None], known.shape[:3]).ravel()
    z_rows = np.broadcast_to(drawn[:, :, None], known.shape[:3]).ravel()
    mixed = X.iloc[rows].reset_index(drop=True)
    for j, name in enumerate(X.columns):
        other = others[name].to_numpy()[z_rows]
        mixed[name] = np.where(known[..., j].ravel(), mixed[name].to_numpy(), other)
    f = predict(mixed).reshape(known.shape[:3])
    values = np.take_along_axis(np.diff(f, axis=2), places, axis=2)
    return values.mean(axis=0), f[:, :, 0].mean(axis=0)


# %%
# A hundred rows, of a committee that was fitted to the others.

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
learn, explain = X.iloc[100:], X.iloc[:100]
model = TableRegressor(random_state=0).fit(learn, y.iloc[100:])

start = time.perf_counter()
values, base = shapley_values(
    model.predict, explain, learn, 20, np.random.default_rng(0)
)
print(f"{time.perf_counter() - start:.1f} s for {len(explain)} rows")

# %%
# With the mean they add up to the prediction, whatever was drawn.

print(np.abs(base + values.sum(axis=1) - model.predict(explain)).max() < 1e-6)

# %%
# Each point is a row. Where a column has large values, which way do they move it?

order = np.argsort(np.abs(values).mean(axis=0))
fig, axes = plt.subplots(figsize=(7, 4))
rng = np.random.default_rng(0)
for place, j in enumerate(order):
    column = explain.iloc[:, j].rank(pct=True)
    height = place + rng.uniform(-0.25, 0.25, len(column))
    points = axes.scatter(values[:, j], height, c=column, cmap="viridis", s=12)
axes.set_yticks(range(len(order)), X.columns[order])
axes.axvline(0, color="0.6", zorder=0)
axes.set_xlabel("Shapley value: part of the predicted progression")
fig.colorbar(points, label="rank of the value in its column")
fig.tight_layout()
plt.show()
