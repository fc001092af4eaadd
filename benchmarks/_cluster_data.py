"""Rows with a known Bayes error, as many as wanted: Parquet files and a memory map.

Twenty columns, even on [−1, 1]; with probability p(x) = 1 / (1 + exp(−f(x))) the class
is 1, where f is a smooth function of five of the columns. The best possible classifier
errs with probability E min(p, 1 − p), which is known as well as f is.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

N_COLUMNS = 20
# Partitions that a data set is cut into, at most, and rows of one at least.
N_PARTS, LEAST_ROWS = 96, 25_000


class RowFiles(NamedTuple):
    """Where rows and labels are."""

    parquet: list[str]
    """One file for each part."""
    rows: str
    """The same rows as a NumPy file, for a memory map."""
    labels: str


def probability(X: np.ndarray) -> np.ndarray:
    """Return the probability of class 1 for each row."""
    x = X[:, :5].astype(np.float64)
    f = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3] ** 2 - 0.5 * x[:, 4] - 0.3
    return 1 / (1 + np.exp(-5 * f))


def make_part(number: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels of one part, the same ones in every call."""
    rng = np.random.default_rng([19, number])
    X = rng.uniform(-1, 1, size=(n_rows, N_COLUMNS)).astype(np.float32)
    return X, (rng.random(n_rows) < probability(X)).astype(np.int8)


def bayes_error(n_rows: int = 10**6) -> float:
    """Return the least error that a classifier can have, in percent."""
    X = np.random.default_rng(20).uniform(-1, 1, size=(n_rows, 5))
    p = probability(X)
    return float(100 * np.mean(np.minimum(p, 1 - p)))


def test_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that are in no part, and their labels."""
    return make_part(10**6, n_rows)


def write_files(folder: Path, n_rows: int) -> RowFiles:
    """Write so many rows in up to ``N_PARTS`` Parquet files and in one NumPy file.

    Files that are there already are taken as they are.
    """
    import pyarrow
    import pyarrow.parquet

    folder = folder / f"rows-{n_rows}"
    folder.mkdir(parents=True, exist_ok=True)
    each = max(-(-n_rows // N_PARTS), min(LEAST_ROWS, -(-n_rows // 4)))
    starts = range(0, n_rows, each)
    files = RowFiles(
        [str(folder / f"part-{k:03}.parquet") for k in range(len(starts))],
        str(folder / "rows.npy"),
        str(folder / "labels.npy"),
    )
    if (folder / "complete").exists():
        return files
    rows = np.lib.format.open_memmap(
        files.rows, "w+", dtype=np.float32, shape=(n_rows, N_COLUMNS)
    )
    labels = np.lib.format.open_memmap(
        files.labels, "w+", dtype=np.int8, shape=(n_rows,)
    )

    def write_part(k: int) -> None:
        start = starts[k]
        X, y = make_part(k, min(each, n_rows - start))
        rows[start : start + len(X)], labels[start : start + len(X)] = X, y
        columns = {f"x{j}": X[:, j] for j in range(N_COLUMNS)} | {"label": y}
        pyarrow.parquet.write_table(pyarrow.table(columns), files.parquet[k])

    with ThreadPoolExecutor() as pool:
        list(pool.map(write_part, range(len(starts))))
    rows.flush()
    labels.flush()
    (folder / "complete").touch()
    return files
