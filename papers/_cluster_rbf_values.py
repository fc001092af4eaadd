"""Numbers of Czarnecki & Tabor's tables from the grids of scores, one for each seed.

A grid has the accuracy for each C in 10^-1..5 (rows) and gamma in 10^-5..2 (columns).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kaucus.evaluation import tunability_auc
from papers._runner import Outcome
from papers._spec import Paper

TABLE_2 = ("RBF", "mRBF", "C2", "C3", "C4", "m2", "m3", "m4")
TABLE_3 = ("GMM2", "GMM3", "GMM4", "DPGMM2", "DPGMM3", "DPGMM4")
WINS = tuple((f"C{k}", rival) for k in (2, 3, 4) for rival in ("RBF", "mRBF"))
UNIT = "C2 unit"
# What the paper names and has no table of: Observation 3.3, and its conclusion.
PROPOSED = ("C2 radial", "C2 linear", "C2 tree")
# The first columns of a grid: gamma from 10^-5 to 0.1.
SMALL_GAMMAS = 5
Grids = dict[tuple[str, str], list[np.ndarray]]
Records = dict[tuple[str, str], list[dict]]


def label_of(params: dict[str, Any]) -> str:
    """Return the paper's name of a model from a cell's parameters."""
    k = params.get("n_clusters", "")
    if params.get("partition") in ("linear", "tree"):
        return f"C{k} {params['partition']}"
    if "partition" in params:
        return f"{params['partition'].upper()}{k}"
    if params["model"] == "cluster":
        kind = params.get("covariance", params.get("normalization"))
        return f"C{k}" + (f" {kind}" if kind in ("unit", "radial") else "")
    return {"rbf": "RBF", "mrbf": "mRBF", "local": f"m{k}"}[params["model"]]


def gather(outcome: Outcome) -> Records:
    """Return the records by data set and model, one for each seed."""
    found: Records = {}
    for record in outcome.results.values():
        key = (record["dataset"], label_of(record["params"]))
        found.setdefault(key, []).append(record)
    return found


def grids_of(records: Records) -> Grids:
    """Return the grids of scores of records."""
    return {
        key: [np.array(r["detail"]["scores"]) for r in found]
        for key, found in records.items()
    }


def best(grids: Grids, dataset: str, label: str) -> list[float]:
    """Return the best accuracy on the grid (Tables 2 and 3)."""
    return [float(grid.max()) for grid in grids.get((dataset, label), [])]


def best_at_default_C(
    grids: Grids, dataset: str, label: str, n_gammas: int | None = None
) -> list[float]:
    """Return the best accuracy over gamma at C = 1, the second value of C (Table 4)."""
    found = grids.get((dataset, label), [])
    return [float(grid[1, :n_gammas].max()) for grid in found]


def wins(
    grids: Grids, dataset: str, pair: tuple[str, str], n_gammas: int | None = None
) -> list[float]:
    """Return in what % of three neighbouring gammas the first is better (Table 5).

    At C = 1; six windows for eight values of gamma.
    """
    ours, theirs = (grids.get((dataset, label), []) for label in pair)
    return [
        100 * float(np.mean(_windows(a, n_gammas) > _windows(b, n_gammas)))
        for a, b in zip(ours, theirs, strict=False)
    ]


def _windows(grid: np.ndarray, n_gammas: int | None) -> np.ndarray:
    """Return the largest score of each three neighbouring gammas at C = 1."""
    row = grid[1, :n_gammas]
    return np.lib.stride_tricks.sliding_window_view(row, 3).max(axis=1)


def areas(
    grids: Grids, dataset: str, label: str, *, normalize: bool = False
) -> list[float]:
    """Return the area under P_f(α) (Table 6).

    From the worst score α_min of any model of the printed table on, seed by seed;
    ``normalize`` divides it by 1 − α_min, the largest possible.
    """
    compared = [x for x in TABLE_2 if (dataset, x) in grids]
    if (dataset, label) not in grids or not compared:
        return []
    n_seeds = min(len(grids[dataset, x]) for x in (*compared, label))
    found = []
    for s in range(n_seeds):
        lower = min(grids[dataset, x][s].min() for x in compared)
        area = tunability_auc(grids[dataset, label][s], lower=lower)
        found.append(float(area / (1 - lower) if normalize else area))
    return found


def _of_small_gammas(value: Callable) -> Callable:
    return lambda grids, dataset, column: value(grids, dataset, column, SMALL_GAMMAS)


def _normalized_areas(grids: Grids, dataset: str, label: str) -> list[float]:
    return areas(grids, dataset, label, normalize=True)


# Names of comparisons -> key of the printed table, and function of (grids, data set,
# column) that returns a value for each seed.
VALUES: dict[str, tuple[str, Callable[..., list[float]]]] = {
    "table_2": ("table_2", best),
    "table_3": ("table_3", best),
    "table_4": ("table_4", best_at_default_C),
    "table_4, γ ≤ 0.1": ("table_4", _of_small_gammas(best_at_default_C)),
    "table_5": ("table_5", wins),
    "table_5, γ ≤ 0.1": ("table_5", _of_small_gammas(wins)),
    "table_6": ("table_6", areas),
    "table_6, normalised": ("table_6", _normalized_areas),
}


def compare_table(name: str) -> Callable[[Paper, Outcome], list]:
    """Return a function that pairs our values of a table with the printed numbers."""
    key, value = VALUES[name]

    def compare(paper: Paper, outcome: Outcome) -> list[tuple[list[float], float]]:
        grids = grids_of(gather(outcome))
        columns = WINS if key == "table_5" else TABLE_2
        pairs = []
        for dataset, numbers in paper.printed[key].items():
            for column, number in zip(columns, numbers, strict=True):
                if values := value(grids, dataset, column):
                    pairs.append((values, number))
        return pairs

    return compare
