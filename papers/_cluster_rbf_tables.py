"""Tables 1-6 and Figures 1-3 of Czarnecki & Tabor from the grids of scores.

Each table is laid out as in the paper, ours over the printed number. Means over seeds
are of what each seed gives, not what the mean grid gives.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.evaluation.clustering import markdown_table
from papers._cluster_rbf_figures import draw_figures
from papers._cluster_rbf_table_1 import table_1
from papers._cluster_rbf_values import (
    PROPOSED,
    TABLE_2,
    TABLE_3,
    UNIT,
    VALUES,
    WINS,
    Grids,
    areas,
    best,
    gather,
    grids_of,
)
from papers._runner import Outcome
from papers._spec import Paper


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
    grids = grids_of(records)
    datasets = list(dict.fromkeys(dataset for dataset, _ in grids))
    if not datasets:
        return Derived("", [], [])
    printed = {**paper.printed, **_printed_of_cells(paper)}
    claims = [*count_within(grids, printed["table_2"]), *count_winners(grids)]
    sections = ["# The paper's tables", _HOW, "\n".join(f"- {c}" for c in claims)]
    sections += table_1(datasets, printed["table_1"], data_home)
    for table in _TABLES:
        sections += _section(*table, grids, printed)
    sections += _beside(*_PROPOSED, grids)
    sections += _capped(records)
    files, lines = draw_figures(records, output)
    return Derived("\n\n".join(sections), files, [*claims, *lines])


_HOW = (
    "Ours (mean over the seeds that have run), and in brackets what the paper prints. "
    "C2 unit is C2 RBF with k(x, x) = 1, which the paper does not have."
)


def _printed_of_cells(paper: Paper) -> dict[str, dict[str, list[float]]]:
    """Return the printed rows of Tables 2 and 3 from the cells."""
    rows: dict[str, dict[str, list[float]]] = {"table_2": {}, "table_3": {}}
    for cell in paper.cells:
        key = cell.source.lower().replace(" ", "_")
        if key in rows and cell.published is not None:
            rows[key].setdefault(cell.dataset, []).append(cell.published)
    return rows


# ---- tables ----------------------------------------------------------------------

_ALL = (*TABLE_2, UNIT)
_TABLES = (
    ("Table 2: best accuracy", _ALL, "table_2", 3),
    ("Table 3: best accuracy with other partitions", TABLE_3, "table_3", 3),
    ("Table 4: accuracy at C = 1", _ALL, "table_4", 3),
    ("Table 4 with γ ≤ 0.1", _ALL, "table_4, γ ≤ 0.1", 3),
    (
        "Table 5: % of three neighbouring γ at C = 1 where C_k RBF is better",
        WINS,
        "table_5",
        0,
    ),
    ("Table 5 with γ ≤ 0.1: three windows", WINS, "table_5, γ ≤ 0.1", 0),
    ("Table 6: area under P(α)", _ALL, "table_6", 3),
    ("Table 6, areas divided by 1 − α_min", _ALL, "table_6, normalised", 3),
)


def _section(
    title: str, columns, name: str, digits: int, grids: Grids, printed
) -> list:
    """Lay out a table, ours and in brackets what is printed; say how far apart."""
    key, value = VALUES[name]
    rows, differences = [], []
    for dataset in dict.fromkeys(dataset for dataset, _ in grids):
        numbers = printed[key].get(dataset, [])
        row = [dataset]
        for i, column in enumerate(columns):
            seeds = value(grids, dataset, column)
            ours = float(np.mean(seeds)) if seeds else None
            row.append(_pair(ours, numbers[i : i + 1], digits))
            if ours is not None and i < len(numbers):
                differences.append(abs(ours - numbers[i]))
        rows.append(row)
    if not differences:
        return []
    names = [" vs ".join(c) if isinstance(c, tuple) else c for c in columns]
    line = f"Mean absolute difference to print: {np.mean(differences):.{digits}f}."
    return [f"## {title}", line, markdown_table(("data set", *names), rows)]


def _beside(
    title: str, text: str, rivals: Sequence[str], wanted: Sequence[str], grids: Grids
) -> list[str]:
    """Lay out the best accuracies of models without a printed table, and of rivals."""
    columns = [x for x in wanted if any(key[1] == x for key in grids)]
    if not columns:
        return []
    columns = [*rivals, *columns]
    rows = []
    for dataset in dict.fromkeys(dataset for dataset, _ in grids):
        seeds = [best(grids, dataset, column) for column in columns]
        means = [float(np.mean(found)) if found else None for found in seeds]
        rows.append([dataset, *(_pair(mean, ()) for mean in means)])
    return [f"## {title}", text, markdown_table(("data set", *columns), rows)]


_PROPOSED = (
    "What the paper proposes without a table: best accuracy",
    "Two cells each: radial covariances (Observation 3.3), and cells of a linear "
    "classifier or of a tree (Section 6), which are made in every fold with the "
    "labels of its training rows.",
    ("mRBF", "C2"),
    PROPOSED,
)


def _pair(ours: float | None, published: Sequence[float], digits: int = 3) -> str:
    text = "–" if ours is None else f"{ours:.{digits}f}"
    return text + (f" ({published[0]:.{digits}f})" if len(published) else "")


def _capped(records: dict[tuple[str, str], list[dict]]) -> list[str]:
    """Say what share of the machines stopped before they converged."""
    every = (*TABLE_2, UNIT, *TABLE_3, *PROPOSED)
    labels = [x for x in every if any(k[1] == x for k in records)]
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
            ours = np.mean(best(grids, dataset, label))
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
            found = {x: np.mean(areas(grids, dataset, x)) for x in needed}
            if found[label] > max(found[rival] for rival in rivals):
                winners.append(dataset)
        names = ", ".join(winners) or "none"
        lines.append(
            f"Table 6, {label} RBF has the largest area among RBF, mRBF and m2 RBF on "
            f"{len(winners)} of {len(datasets)} data sets: {names}."
        )
    return lines
