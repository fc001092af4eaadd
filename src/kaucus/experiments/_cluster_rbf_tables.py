"""Tables 1-6 and Figures 1-3 of Czarnecki & Tabor from the grids of scores.

Each table is laid out as in the paper, ours over the printed number. Means over seeds
are of what each seed gives, not what the mean grid gives.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.evaluation import markdown_table, tunability_auc
from kaucus.experiments._cluster_rbf_figures import draw_figures
from kaucus.experiments._cluster_rbf_table_1 import table_1
from kaucus.experiments._runner import Outcome
from kaucus.experiments._spec import Paper

TABLE_2 = ("RBF", "mRBF", "C2", "C3", "C4", "m2", "m3", "m4")
TABLE_3 = ("GMM2", "GMM3", "GMM4", "DPGMM2", "DPGMM3", "DPGMM4")
UNIT = "C2 unit"
Grids = dict[tuple[str, str], list[np.ndarray]]


class Derived(NamedTuple):
    """Tables and figures that are made from a paper's results, not run themselves."""

    markdown: str
    files: list[Path]
    lines: list[str]
    """What to print at the end of a run."""


def derive_cluster_rbf(
    paper: Paper, outcome: Outcome, output: Path, data_home: Any
) -> Derived:
    """Make the tables and figures for which there are results."""
    records = gather(outcome)
    grids = {
        key: [np.array(r["detail"]["scores"]) for r in found]
        for key, found in records.items()
    }
    datasets = list(dict.fromkeys(dataset for dataset, _ in grids))
    if not datasets:
        return Derived("", [], [])
    printed = {**paper.printed, **_printed_of_cells(paper)}
    claims = [*count_within(grids, printed["table_2"]), *count_winners(grids)]
    sections = ["# The paper's tables", _HOW, "\n".join(f"- {c}" for c in claims)]
    sections += table_1(datasets, printed["table_1"], data_home)
    for title, columns, value, key in _TABLES:
        sections += _section(title, columns, grids, value, printed[key])
    sections += _table_5(grids, printed["table_5"])
    sections += _capped(records)
    files, lines = draw_figures(grids, output)
    return Derived("\n\n".join(sections), files, [*claims, *lines])


_HOW = (
    "Ours (mean over the seeds that have run), and in brackets what the paper prints. "
    "C2 unit is C2 RBF with k(x, x) = 1, which the paper does not have."
)


def label_of(params: dict[str, Any]) -> str:
    """Return the paper's name of a model from a cell's parameters."""
    k = params.get("n_clusters", "")
    if "partition" in params:
        return f"{params['partition'].upper()}{k}"
    if params["model"] == "cluster":
        return f"C{k}" + (" unit" if params.get("normalization") == "unit" else "")
    return {"rbf": "RBF", "mrbf": "mRBF", "local": f"m{k}"}[params["model"]]


def gather(outcome: Outcome) -> dict[tuple[str, str], list[dict]]:
    """Return the records by data set and model, one for each seed."""
    found: dict[tuple[str, str], list[dict]] = {}
    for record in outcome.results.values():
        key = (record["dataset"], label_of(record["params"]))
        found.setdefault(key, []).append(record)
    return found


def _printed_of_cells(paper: Paper) -> dict[str, dict[str, list[float]]]:
    """Return the printed rows of Tables 2 and 3 from the cells."""
    rows: dict[str, dict[str, list[float]]] = {"table_2": {}, "table_3": {}}
    for cell in paper.cells:
        key = cell.source.lower().replace(" ", "_")
        if key in rows and cell.published is not None:
            rows[key].setdefault(cell.dataset, []).append(cell.published)
    return rows


# ---- values of one data set and seed ---------------------------------------------


def best(grid: np.ndarray) -> float:
    """Return the best accuracy on the grid."""
    return float(grid.max())


def best_at_default_C(grid: np.ndarray) -> float:
    """Return the best accuracy over gamma at C = 1, the second value of C."""
    return float(grid[1].max())


_TABLES = (
    ("Table 2: best accuracy", (*TABLE_2, UNIT), best, "table_2"),
    ("Table 3: best accuracy with other partitions", TABLE_3, best, "table_3"),
    ("Table 4: accuracy at C = 1", (*TABLE_2, UNIT), best_at_default_C, "table_4"),
    ("Table 6: area under P(α)", (*TABLE_2, UNIT), None, "table_6"),
)


def areas(grids: Grids, dataset: str) -> dict[str, float]:
    """Return the mean area under P_f(α) of each model.

    From the worst score of any model of the printed table on, seed by seed.
    """
    labels = [label for label in (*TABLE_2, UNIT) if (dataset, label) in grids]
    compared = [label for label in labels if label != UNIT]
    n_seeds = min(len(grids[dataset, label]) for label in labels)
    rows = []
    for s in range(n_seeds):
        lower = min(grids[dataset, label][s].min() for label in compared)
        rows.append(
            [tunability_auc(grids[dataset, label][s], lower=lower) for label in labels]
        )
    return dict(zip(labels, np.mean(rows, axis=0).tolist(), strict=True))


def wins(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Return in what percentage of three neighbouring gammas ours is better at C = 1.

    Six windows for eight values of gamma.
    """
    shares = []
    for a, b in zip(ours, theirs, strict=False):
        n = a.shape[1] - 2
        windows = [slice(i, i + 3) for i in range(n)]
        shares.append(np.mean([a[1, w].max() > b[1, w].max() for w in windows]))
    return 100 * float(np.mean(shares))


# ---- tables ----------------------------------------------------------------------


def _section(title: str, columns, grids: Grids, value, printed) -> list[str]:
    rows = []
    for dataset in dict.fromkeys(dataset for dataset, _ in grids):
        if not any((dataset, label) in grids for label in columns):
            continue
        numbers = areas(grids, dataset) if value is None else {}
        row = [dataset]
        for i, label in enumerate(columns):
            if value is not None and (dataset, label) in grids:
                seeds = [value(grid) for grid in grids[dataset, label]]
                numbers[label] = float(np.mean(seeds))
            published = printed.get(dataset, [])
            row.append(_pair(numbers.get(label), published[i : i + 1]))
        rows.append(row)
    if not rows:
        return []
    return [f"## {title}", markdown_table(("data set", *columns), rows)]


def _pair(ours: float | None, published: Sequence[float], digits: int = 3) -> str:
    text = "–" if ours is None else f"{ours:.{digits}f}"
    return text + (f" ({published[0]:.{digits}f})" if len(published) else "")


def _table_5(grids: Grids, printed) -> list[str]:
    columns = [(f"C{k}", rival) for k in (2, 3, 4) for rival in ("RBF", "mRBF")]
    rows = []
    for dataset in dict.fromkeys(dataset for dataset, _ in grids):
        row = [dataset]
        for i, (label, rival) in enumerate(columns):
            have = (dataset, label) in grids and (dataset, rival) in grids
            value = wins(grids[dataset, label], grids[dataset, rival]) if have else None
            row.append(_pair(value, printed.get(dataset, [])[i : i + 1], digits=0))
        rows.append(row)
    heads = ("data set", *(f"{label} vs {rival}" for label, rival in columns))
    title = "## Table 5: % of three neighbouring γ at C = 1 where C_k RBF is better"
    return [title, markdown_table(heads, rows)]


def _capped(records: dict[tuple[str, str], list[dict]]) -> list[str]:
    """Say what share of the machines stopped before they converged."""
    labels = [x for x in (*TABLE_2, UNIT, *TABLE_3) if any(k[1] == x for k in records)]
    rows = []
    for dataset in dict.fromkeys(dataset for dataset, _ in records):
        row = [dataset]
        for label in labels:
            found = records.get((dataset, label), [])
            shares = [np.mean(r["detail"]["capped"]) / 10 for r in found]
            row.append(f"{100 * np.mean(shares):.0f}" if shares else "–")
        rows.append(row)
    return [
        "## % of machines that stopped at max_iter",
        "The determinant makes the kernel large, the more so the more columns there "
        "are, so that much of the grid asks for a hard margin; on data that cannot be "
        "separated libsvm, which keeps the kernel in single precision, does not "
        "converge there.",
        markdown_table(("data set", *labels), rows),
    ]


# ---- claims ----------------------------------------------------------------------


def count_within(grids: Grids, printed, tolerance: float = 0.02) -> list[str]:
    """Say on how many sets RBF, mRBF and C2 RBF are as printed."""
    labels, others = ("RBF", "mRBF", "C2"), {}
    datasets = [d for d in printed if all((d, x) in grids for x in labels)]
    for dataset in datasets:
        for label, number in zip(labels, printed[dataset], strict=False):
            ours = np.mean([best(grid) for grid in grids[dataset, label]])
            if abs(ours - number) > tolerance + 1e-9:
                others.setdefault(dataset, []).append(f"{label} {ours - number:+.3f}")
    names = "; ".join(f"{d} ({', '.join(x)})" for d, x in others.items()) or "none"
    return [
        f"Table 2, within {tolerance} for RBF, mRBF and C2 RBF: "
        f"{len(datasets) - len(others)} of {len(datasets)} data sets; not: {names}."
    ]


def count_winners(grids: Grids) -> list[str]:
    """Say where C2 RBF has the largest area among RBF, mRBF and m2 RBF (Table 6)."""
    rivals, lines = ("RBF", "mRBF", "m2"), []
    for label in ("C2", UNIT):
        needed = (*rivals, label)
        datasets = [
            d
            for d in dict.fromkeys(d for d, _ in grids)
            if all((d, x) in grids for x in needed)
        ]
        winners = []
        for dataset in datasets:
            found = areas(grids, dataset)
            if found[label] > max(found[rival] for rival in rivals):
                winners.append(dataset)
        names = ", ".join(winners) or "none"
        lines.append(
            f"Table 6, {label} RBF has the largest area among RBF, mRBF and m2 RBF on "
            f"{len(winners)} of {len(datasets)} data sets: {names}."
        )
    return lines
