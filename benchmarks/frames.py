"""Frames as they come, with text, gaps and dates, through skrub into kaucus.

``python -m benchmarks.frames``: every table of KAUCUS_DATA, unchanged, into
``skrub.tabular_pipeline(KMeansKernelClassifier())`` or with the regressor, beside a
ColumnTransformer that fills gaps and codes text one-hot, and beside skrub's own default
with HistGradientBoosting. 800 rows learn, 500 others judge: accuracy or R².
"""

import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.tables import REGRESSION
from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from papers._markdown import markdown_table

N_TRAIN, N_TEST = 800, 500


def pipelines(regression: bool) -> dict:
    """Return the pipelines to compare, by name."""
    import skrub

    kind = KMeansKernelRegressor if regression else KMeansKernelClassifier
    numbers = make_column_selector(dtype_include="number")
    texts = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (SimpleImputer(strategy="median"), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
    )
    word = "regressor" if regression else "classifier"
    return {
        "skrub and kaucus": skrub.tabular_pipeline(kind(random_state=0)),
        "ColumnTransformer and kaucus": make_pipeline(columns, kind(random_state=0)),
        "skrub and HistGradientBoosting": skrub.tabular_pipeline(word),
    }


def made_frame(n: int = 600):
    """Return a frame with dates, text and gaps, and numbers that follow from them."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=n, freq="7h"),
            "town": rng.choice(["Bern", "Basel", "Chur", None], n),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        }
    ).sample(frac=1, random_state=0)
    in_chur = frame["town"] == "Chur"
    return frame, frame["when"].dt.month + 2 * frame["size"].fillna(0) + 3 * in_chur


def scores(frame, y, regression: bool, n_train: int = N_TRAIN) -> dict[str, float]:
    """Return the score of each pipeline on rows that follow those it was fitted to."""
    last = n_train + N_TEST
    found = {}
    for name, model in pipelines(regression).items():
        model.fit(frame[:n_train], y[:n_train])
        found[name] = float(model.score(frame[n_train:last], y[n_train:last]))
    return found


def main() -> None:
    """Print a row for each table."""
    import pandas as pd

    warnings.simplefilter("ignore")
    rows, headers = [], ("table", *pipelines(False))
    rows.append(["made, with dates", *scores(*made_frame(), True, 400).values()])
    for file in sorted(Path(os.environ["KAUCUS_DATA"]).glob("tables/*/*.csv.gz")):
        name = file.name.removesuffix(".csv.gz")
        frame = pd.read_csv(file).sample(frac=1, random_state=0)
        y = frame.pop("target")
        rows.append([name, *scores(frame, y, name in REGRESSION).values()])
        print(rows[-1], flush=True)
    texts = [[name, *(f"{value:.3f}" for value in values)] for name, *values in rows]
    print(markdown_table(headers, texts))


if __name__ == "__main__":
    main()
