"""Tables 1-6 and Figures 1-3 of Czarnecki & Tabor from the grids of scores.

Means over seeds are of what each seed gives, not what the mean grid gives.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from papers._account import sum_up, table_markdown, totals_markdown
from papers._cluster_rbf_figures import draw_figures
from papers._cluster_rbf_table_1 import NOTE, count_line
from papers._cluster_rbf_values import (
    LOWER_END,
    PROPOSED,
    TABLE_2,
    TABLE_3,
    UNIT,
    Grids,
    account,
    areas,
    best,
    clusters_of,
    gather,
    grids_of,
)
from papers._markdown import markdown_table
from papers._runner import Outcome
from papers._spec import Paper


class Derived(NamedTuple):
    """Tables and figures that are made from a paper's results, not run themselves."""

    markdown: str
    files: list[Path]
    lines: list[str]
    """What to print at the end of a run."""


_WHAT = {
    "Table 1": "the data, and its two clusters",
    "Table 2": "best accuracy",
    "Table 3": "best accuracy with other partitions",
    "Table 4": "accuracy at C = 1",
    "Table 5": "% of three neighbouring γ at C = 1 where C_k RBF is better",
    "Table 6": "area under P(α)",
}


def derive_cluster_rbf(paper: Paper, outcome: Outcome, output: Path) -> Derived:
    """Make the tables and figures for which there are results."""
    records = gather(outcome)
    grids = grids_of(records)
    tables = [table for table in account(paper, outcome) if table.entries]
    if not tables:
        return Derived("", [], [])
    claims = count_winners(grids)
    sections = ["# The paper's tables", _HOW, "\n".join(f"- {c}" for c in claims)]
    sections.append(totals_markdown([("", table) for table in tables]))
    for table in tables:
        sections.append(f"## {table.name}: {_WHAT[table.name]}")
        if table.name == "Table 1":
            found = clusters_of(outcome)
            sections += [NOTE, count_line(found, paper.printed["table_1"])]
        ours, marks = sum_up(table.entries)[1:]
        sections += [f"Ours {ours}: {marks}.", table_markdown(table)]
    sections += _beside(*_PROPOSED, grids)
    sections += _capped(records)
    files, lines = draw_figures(records, output)
    return Derived("\n\n".join(sections), files, [*claims, *lines])


_HOW = (
    "Ours (mean over the seeds that have run), and in brackets what the paper prints. "
    "Columns in [0, 1], γ from 1e-8 to 0.1, C from 0.1 to 1e5. ᵉ: not within the "
    "tolerance, but another run has it, see below the table; **?**: not explained; "
    "*m*: misprint."
)


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
        rows.append([dataset, *(f"{np.mean(x):.3f}" if x else "–" for x in seeds)])
    return [f"## {title}", text, markdown_table(("data set", *columns), rows)]


_PROPOSED = (
    "What the paper proposes without a table: best accuracy",
    "Two cells each: radial covariances (Observation 3.3), and cells of a linear "
    "classifier or of a tree (Section 6), which are made in every fold with the "
    "labels of its training rows. C2 unit is C2 RBF with k(x, x) = 1, which the paper "
    "does not have.",
    ("mRBF", "C2"),
    (*PROPOSED, UNIT),
)


def _capped(records: dict[tuple[str, str], list[dict]]) -> list[str]:
    """Say what share of the machines stopped before they converged."""
    every = dict.fromkeys((*TABLE_2, UNIT, *TABLE_3, *PROPOSED))
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
        "separated the SVM does not converge there. Of all widths, up to γ = 100.",
        markdown_table(("data set", *labels), rows),
    ]


def count_winners(grids: Grids) -> list[str]:
    """Say where C2 RBF has the largest area among RBF, mRBF and m2 RBF (Table 6)."""
    rivals, lines = ("RBF", "mRBF", "m2"), []
    for others in (rivals, rivals[:2]):
        needed = (*others, "C2")
        datasets = [
            d
            for d in dict.fromkeys(d for d, _ in grids)
            if all((d, x) in grids for x in needed)
        ]
        winners = [
            dataset
            for dataset in datasets
            if np.mean(areas(grids, dataset, "C2", LOWER_END))
            > max(np.mean(areas(grids, dataset, x, LOWER_END)) for x in others)
        ]
        lines.append(
            f"Table 6, C2 RBF has a larger area than {', '.join(others)} on "
            f"{len(winners)} of {len(datasets)} data sets: "
            f"{', '.join(winners) or 'none'}."
        )
    return lines
