"""One page of every table and figure of the papers, ours beside what is printed.

Made from the papers' files and from stored results; nothing is run and no data is read.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from kaucus.evaluation.clustering import markdown_table
from papers._cluster_rbf_values import VALUES, compare_table
from papers._confusion import is_printed, kept_confusions
from papers._registry import METRICS
from papers._report import summarise
from papers._runner import RESULTS_FILE, Outcome, Settings, plan_jobs
from papers._spec import Item, Paper, list_papers, load_paper
from papers._store import ResultStore

HEADERS = ("", "what", "made by", "printed", "ours", "agrees")
# More numbers than this are summed up.
_FEW = 4


class Comparison(NamedTuple):
    """Our values of one printed number, one for each seed."""

    values: Sequence[float]
    published: float
    tolerance: float
    digits: int = 3

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
    for name in list_papers():
        paper = load_paper(name)
        outcome = stored_outcome(paper, Path(folder))
        for item in paper.items:
            lines = by_reference.setdefault(item.reference or paper.reference, [])
            lines.append(_line(item, paper, outcome))
    parts = ["# The papers, table by table", _INTRODUCTION]
    for reference, lines in by_reference.items():
        parts += [f"## {reference}", markdown_table(HEADERS, lines)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """Every table and figure of the five papers: what makes it, what is
printed, what we get (mean ± standard deviation over seeds), and whether the two agree,
or why not. The numbers are those of the [reports](index.md#reports).

This page is made by
`python -m papers --page docs/results > docs/results/papers.md`."""


def stored_outcome(paper: Paper, folder: Path) -> Outcome:
    """Return the jobs of a full run and what the folder has of their results."""
    settings = Settings(full=True, device=paper.results.get("device"))
    jobs = plan_jobs(paper.cells, settings)
    where = folder / paper.results.get("folder", paper.name) / RESULTS_FILE
    return Outcome(jobs, ResultStore(where))


def _line(item: Item, paper: Paper, outcome: Outcome) -> list[str]:
    """Write one line of the page."""
    if not item.code:
        return [item.name, item.what, "left out", item.printed, "", item.remark]
    found = comparisons(item, paper, outcome)
    printed, ours, agrees = _sum_up(found) if found else ("", "", "")
    if not found:
        waits = "not run yet" if item.sources or item.compare else ""
        ours = _unprinted(item, outcome) or waits
    printed, ours = item.printed or printed, item.ours or ours
    agrees = item.agrees or agrees
    if item.picture:
        link = f"[picture]({paper.results['folder']}/{item.picture})"
        ours = f"{ours}; {link}" if ours else link
    return [item.name, item.what, item.code, printed, ours, _reason(agrees, item)]


def _unprinted(item: Item, outcome: Outcome) -> str:
    """Write the numbers of an item's cells of which the paper prints none."""
    found = [
        Comparison(row.values, 0.0, 0.0, METRICS[row.cell.metric].digits)
        for row in summarise(outcome)
        if row.values and item.sources and row.cell.source.startswith(item.sources)
    ]
    if len(found) <= _FEW:
        return "; ".join(map(_ours, found))
    middle = fmean(fmean(one.values) for one in found)
    text = f"{middle:.{found[0].digits}f} on average of {len(found)} numbers"
    return text + _spread(found)


def _reason(agrees: str, item: Item) -> str:
    return ": ".join(text for text in (agrees, item.remark) if text)


def comparisons(item: Item, paper: Paper, outcome: Outcome) -> list[Comparison]:
    """Return the printed numbers of an item for which there are results."""
    found = [
        Comparison(
            row.values,
            row.cell.published,
            row.cell.tolerance,
            METRICS[row.cell.metric].digits,
        )
        for row in summarise(outcome)
        if row.values
        and row.cell.published is not None
        and row.cell.tolerance is not None
        and row.cell.source.startswith(item.sources or ("\n",))
    ]
    if item.compare:
        make = COMPARISONS[item.compare]
        assert item.tolerance is not None
        scale = (item.tolerance, item.digits)
        found += [Comparison(a, b, *scale) for a, b in make(paper, outcome)]
    return found


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
    if len(one.values) > 1:
        return f"{text} ± {stdev(one.values):.{one.digits}f}"
    return f"{text} (one seed)"


def _confusion(paper: Paper, outcome: Outcome) -> list[tuple[list[float], float]]:
    """Return our numbers and those of the printed confusion matrix."""
    printed = paper.printed["confusion"]
    found = [
        record["confusion"]["percent"]
        for row, records in kept_confusions(summarise(outcome))
        if is_printed(row.cell, printed)
        for record in records
    ]
    if not found:
        return []
    numbers = np.ravel(printed["percent"]).tolist()
    cells = np.reshape(found, (len(found), len(numbers))).T.tolist()
    return list(zip(cells, numbers, strict=True))


def _misread(paper: Paper, outcome: Outcome) -> list[tuple[list[float], float]]:
    """Return how many test rows the model of a printed picture misread."""
    printed = paper.printed["misread"]
    rows = [row for row in summarise(outcome) if is_printed(row.cell, printed)]
    found = [round(r["value"] * r["n_test"] / 100) for row in rows for r in row.records]
    return [(found, printed["number"])] if found else []


# Functions of paper and outcome that return pairs of (our values, printed number).
COMPARISONS: dict[str, Callable[..., Any]] = {
    "confusion": _confusion,
    "misread": _misread,
    **{name: compare_table(name) for name in VALUES},
}
