"""One page of every table and figure of the papers, ours beside what is printed.

Made from the papers' files and from stored results; nothing is run and no data is read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from papers._account import (
    Table,
    strict_line,
    sum_up,
    table_markdown,
    totals_markdown,
)
from papers._accounts import ACCOUNTS
from papers._confusion import is_printed
from papers._figures import select_curves
from papers._markdown import markdown_table
from papers._registry import METRICS
from papers._report import Row, summarise
from papers._runner import Outcome, stored_outcome
from papers._spec import Cell, Figure, Item, Paper, list_papers, load_paper

HEADERS = ("", "what", "made by", "printed", "ours", "agrees")
# More numbers than this are summed up.
_FEW = 4


class Comparison(NamedTuple):
    """Our values of one printed number, one for each seed."""

    values: Sequence[float]
    published: float
    tolerance: float
    digits: int = 3
    steps: str = ""
    """How many steps of an iterative fit it has, in words."""

    @property
    def difference(self) -> float:
        """Mean over seeds minus the printed number."""
        return fmean(self.values) - self.published

    @property
    def agrees(self) -> bool:
        """Whether the mean is within the tolerance."""
        return abs(self.difference) <= self.tolerance + 1e-9


def overview_page(folder: str | Path) -> str:
    """Write the page; ``folder`` has the folders of results."""
    by_reference: dict[str, list[list[str]]] = {}
    sections: dict[str, list[str]] = {}
    every: list[tuple[str, Table]] = []
    for name in list_papers():
        paper = load_paper(name)
        outcome = stored_outcome(paper, Path(folder))
        tables = {table.name: table for table in tables_of(paper, outcome)}
        every += [(paper.reference.partition(",")[0], t) for t in tables.values()]
        rows = summarise(outcome)
        for item in paper.items:
            lines = by_reference.setdefault(item.reference or paper.reference, [])
            lines.append(_line(item, paper, rows, tables.get(item.account)))
        sections[paper.reference] = _further(paper, list(tables.values()), rows)
    parts = ["# The papers, table by table", _INTRODUCTION, totals_markdown(every)]
    parts.append(strict_line(entry for _, table in every for entry in table.entries))
    for reference, lines in by_reference.items():
        parts += [f"## {reference}", markdown_table(HEADERS, lines)]
        parts += sections.get(reference, [])
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """Every table and figure of the five papers: what makes it, what is
printed, what we get (mean ± standard deviation over seeds), and whether the two agree,
or why not. The numbers are those of the [reports](index.md#reports).

Every number of a printed table has one of four marks. *Within*: ours is within the
tolerance. *Explained*, ᵉ: it is not, but another reading of the paper has the printed
number; the reading stands below the table. *Not explained*: **?**. *Misprint*, *m*: the
number cannot be meant. Several readings are tried for each number and the first that
fits is taken, so that some fit by chance; none need be what the authors did. Readings
with a number that was fitted to what they explain, and other data by the paper's own
text, are weaker than a run and are counted apart below the sums.

Tolerances are ours: 0.02 for the accuracies of Czarnecki's Tables 2 to 4, 17 points
(one window of six) for Table 5, 0.05 for the areas of Table 6, 0.01 for clusterings, 1
for the confusion matrix. In Fig. 2, 3 and 6 of Andrecut (2016) they are printed.

This page is made by
`python -m papers --page docs/results > docs/results/papers.md`."""


def _further(paper: Paper, tables: list[Table], rows: list[Row]) -> list[str]:
    """Return what stands below the lines of a paper: choices, tables, curves."""
    parts = []
    if paper.choices:
        parts.append("Choices that the paper leaves open, or that are ours:")
        parts.append("\n".join(f"- {choice}" for choice in paper.choices))
    for table in tables:
        parts += [f"### {table.name}, number by number", table_markdown(table)]
    for figure in paper.figures:
        if figure.kind == "curve" and (curves := select_curves(figure, rows)):
            parts += [
                f"### {figure.title}, point by point",
                points_markdown(figure, curves),
            ]
    return parts


def points_markdown(
    figure: Figure, curves: Mapping[str, list[tuple[float, Row]]]
) -> str:
    """Lay out the points of curves, in brackets what is printed."""
    xs = sorted({x for points in curves.values() for x, _ in points})
    lines = []
    for name, points in curves.items():
        texts = {}
        for x, row in points:
            metric, printed = METRICS[row.cell.metric], row.cell.published
            texts[x] = _ours(Comparison(row.values, 0.0, 0.0, metric.digits))
            texts[x] += "" if printed is None else f" ({printed:g})"
        lines.append([name, *(texts.get(x, "") for x in xs)])
    return markdown_table((figure.x_label, *(f"{x:,}" for x in xs)), lines)


def tables_of(paper: Paper, outcome: Outcome) -> list[Table]:
    """Return the printed tables of a paper for which there are results."""
    make = ACCOUNTS.get(paper.name)
    tables = make(paper, outcome) if make else []
    return [table for table in tables if table.entries]


def _line(item: Item, paper: Paper, rows: list[Row], table: Table | None) -> list[str]:
    """Write one line of the page."""
    if not item.code:
        return [item.name, item.what, "left out", item.printed, "", item.remark]
    found = comparisons(item, rows)
    printed = ours = agrees = ""
    if table is not None:
        printed, ours, agrees = sum_up(table.entries)
    elif found:
        printed, ours, agrees = _sum_up(found)
    elif item.summary:
        ours = SUMMARIES[item.summary](paper, rows) or "not run yet"
    else:
        waits = "not run yet" if item.sources or item.account else ""
        ours = _unprinted(item, rows) or waits
    printed, ours = item.printed or printed, item.ours or ours
    agrees = item.agrees or agrees
    if item.picture:
        link = f"[picture]({paper.results['folder']}/{item.picture})"
        ours = f"{ours}; {link}" if ours else link
    return [item.name, item.what, item.code, printed, ours, _reason(agrees, item)]


def _unprinted(item: Item, rows: list[Row]) -> str:
    """Write the numbers of an item's cells of which the paper prints none."""
    found = [
        Comparison(
            row.values, 0.0, 0.0, METRICS[row.cell.metric].digits, steps_of(row.cell)
        )
        for row in rows
        if row.values and item.sources and row.cell.source.startswith(item.sources)
    ]
    if len(found) <= _FEW:
        return "; ".join(map(_ours, found))
    middle = fmean(fmean(one.values) for one in found)
    text = f"{middle:.{found[0].digits}f} on average of {len(found)} numbers"
    return text + _spread(found)


def _reason(agrees: str, item: Item) -> str:
    return ": ".join(text for text in (agrees, item.remark) if text)


def comparisons(item: Item, rows: list[Row]) -> list[Comparison]:
    """Return the printed numbers of an item's cells for which there are results."""
    return [
        Comparison(
            row.values,
            row.cell.published,
            row.cell.tolerance,
            METRICS[row.cell.metric].digits,
            steps_of(row.cell),
        )
        for row in rows
        if row.values
        and row.cell.published is not None
        and row.cell.tolerance is not None
        and row.cell.source.startswith(item.sources or ("\n",))
    ]


def _sum_up(found: Sequence[Comparison]) -> tuple[str, str, str]:
    """Write printed numbers, ours, and how many agree."""
    n_good = sum(one.agrees for one in found)
    agrees = "yes" if n_good == len(found) else f"{n_good} of {len(found)}"
    if len(found) == 1 and not n_good:
        agrees = "no"
    if len(found) <= _FEW:
        printed = "; ".join(f"{c.published:g} ± {c.tolerance:g}" for c in found)
        return printed, "; ".join(map(_ours, found)), agrees
    differences = np.abs([one.difference for one in found])
    text = f"differs by {differences.mean():.{found[0].digits}f} on average"
    agrees += f" within {found[0].tolerance:g}"
    return f"{len(found)} numbers", text + _spread(found), agrees


def _spread(found: Sequence[Comparison]) -> str:
    """Write the standard deviation over seeds, mean over numbers that have several."""
    spreads = [stdev(one.values) for one in found if len(one.values) > 1]
    return f"; seeds by ± {fmean(spreads):.{found[0].digits}f}" if spreads else ""


def _ours(one: Comparison) -> str:
    text = f"{fmean(one.values):.{one.digits}f}"
    steps = f", {one.steps}" if one.steps else ""
    if len(one.values) > 1:
        return f"{text} ± {stdev(one.values):.{one.digits}f}{steps}"
    return f"{text} (one seed){steps}"


def steps_of(cell: Cell) -> str:
    """Say after how many steps of an iterative fit a cell has its number."""
    if cell.at_step is not None:
        return f"{cell.at_step} step{'s' if cell.at_step > 1 else ''}"
    if "solver" not in cell.params or "max_iter" not in cell.params:
        return ""
    runs, steps = cell.params.get("n_runs", 1), cell.params["max_iter"]
    text = f"{steps} step{'s' if steps > 1 else ''}"
    return text if runs == 1 else f"{runs} × {text}"


def misread(paper: Paper, rows: list[Row]) -> str:
    """Count the test rows that the model of a printed picture misread."""
    wanted = [row for row in rows if is_printed(row.cell, paper.printed["misread"])]
    found = [
        round(r["value"] * r["n_test"] / 100) for row in wanted for r in row.records
    ]
    return f"{fmean(found):.0f} ± {stdev(found):.0f}" if len(found) > 1 else ""


def fluctuations(paper: Paper, rows: list[Row]) -> str:
    """Measure half the range of the error over the last 100 steps, mean over seeds."""
    texts = []
    for solver in ("kaczmarz", "matching_pursuit", "kaczmarz_mp"):
        curves = [
            record["errors"][-100:]
            for row in rows
            if row.cell.at_step == 600 and row.cell.params["solver"] == solver
            for record in row.records
        ]
        if curves:
            half = fmean(np.ptp(errors) / 2 for errors in curves)
            texts.append(f"± {half:.3f}")
    return "; ".join(texts)


# Functions of (paper, rows) that write what is ours, by an item's ``summary``.
SUMMARIES = {"misread": misread, "fluctuations": fluctuations}
