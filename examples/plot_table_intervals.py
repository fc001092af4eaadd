"""
From a CSV file to intervals in three lines
===========================================

A table as people have it: a date, a category, gaps, and numbers of different sizes.
:class:`~kaucus.TableRegressor` takes the frame as it is read.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kaucus import TableRegressor

# %%
# A file of rides
# ---------------
#
# Two years of daily rides of bicycles: more in summer and at weekends, fewer with rain.
# The gauge of the rain fails on one day of ten.

rng = np.random.default_rng(0)
days = pd.date_range("2023-01-01", periods=730)
season = 12 - 10 * np.cos(2 * np.pi * days.day_of_year / 365)
rain = rng.exponential(3, 730) * (rng.random(730) < 0.4)
frame = pd.DataFrame(
    {
        "day": days.strftime("%Y-%m-%d"),
        "sky": np.where(rain > 4, "rain", np.where(rain > 0, "clouds", "sun")),
        "temperature": season + rng.normal(0, 3, 730),
        "rain": np.where(rng.random(730) < 0.1, np.nan, rain),
    }
)
weekend = days.day_of_week >= 5
rides = 200 + 30 * season + 150 * weekend - 25 * rain
frame["rides"] = rides + rng.normal(0, 10 + 2 * season)
path = Path(tempfile.mkdtemp()) / "rides.csv"
frame.sample(frac=1, random_state=0).to_csv(path, index=False)
print(path.read_text()[:160])

# %%
# Three lines
# -----------
#
# Dates become time, month and weekday, texts categories, gaps stay gaps. Two members, a
# kernel machine and boosted trees, vote; their votes are chosen on rows not seen.

table = pd.read_csv(path)
model = TableRegressor(effort="fast", random_state=0)
model.fit(table[:600].drop(columns="rides"), table["rides"][:600])
ends = model.predict_interval(table[600:].drop(columns="rides"), 0.9)

# %%
# What came out
# -------------
#
# Intervals are wider in summer, where days differ more.

truth = table["rides"][600:].to_numpy()
held = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
print(model.explain())
print(f"{held:.0%} of {len(truth)} days are in their interval of 90 %")
order = np.argsort(ends.mean(axis=1))
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
axis.fill_between(range(len(truth)), *ends[order].T, alpha=0.3, label="90 % interval")
axis.plot(truth[order], ".", color="black", markersize=4, label="rides of the day")
axis.set(xlabel="days, ordered by what is expected", ylabel="rides")
axis.legend(frameon=False)
plt.show()
