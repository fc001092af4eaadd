"""The printed tables of each paper, number by number: see ``_account``."""

from collections.abc import Callable

import numpy as np

from papers import _cluster_rbf_values
from papers._account import FIT, NO_RUN, RUN, Entry, Reading, Table
from papers._confusion import CIFAR10, is_printed, kept_confusions
from papers._ends import ALGORITHM_1
from papers._markdown import markdown_table
from papers._report import Row, summarise
from papers._runner import Outcome
from papers._spec import Paper

# ---- Maia & Ara ----------------------------------------------------------------------

_KERNELS = ("rbf", "poly", "linear", ALGORITHM_1, "exponential", "cauchy")
_ANOTHER_RUN = "the end of another run"
_ANOTHER_DRAW = "the end of a run on another draw of the points"
_ANOTHER_OFFSET = "the end of a run with another c (0.1, 2 or 10), which is not printed"
_BY_TABS = "without the lines of UCI's file that have two tabs in a row"
_OTHER_DATA = "other data: Table 2 prints 300 rows, UCI's Glass has 214"


def account_kernel_kmeans(paper: Paper, outcome: Outcome) -> list[Table]:
    """Return Tables 1 to 3 of Maia & Ara."""
    rows = summarise(outcome)
    return [_shapes(rows, "Table 1"), _shapes(rows, "Table 2"), _clusterings(rows)]


def _shapes(rows: list[Row], name: str) -> Table:
    found = [row for row in rows if row.cell.source == name and row.values]
    others = [row for row in rows if row.cell.source == f"{name}, read by tabs"]
    by_tabs = {(row.cell.dataset, "rows"): row.values for row in others}
    return Table(
        name,
        [
            Entry(
                row.cell.dataset.removeprefix("clustering/"),
                row.cell.params["what"],
                row.cell.published or 0.0,
                row.values,
                0.0,
                0,
                (Reading(_BY_TABS, by_tabs.get(_place(row), [])),),
            )
            for row in found
        ],
    )


def _place(row: Row) -> tuple[str, str]:
    return row.cell.dataset, row.cell.params["what"]


def _clusterings(rows: list[Row]) -> Table:
    """Return Table 3: the best of 40 runs, of Algorithm 1 that of the least objective.

    A printed number that is not the best is looked for among the ends of single runs.
    """
    ends: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row.cell.method == "ends of runs":
            key = (row.cell.source, row.cell.dataset, row.cell.params["kernel"])
            of_cell = [end for r in row.records for end in r["detail"]["ends"]]
            ends.setdefault(key, []).extend(of_cell)
    entries = []
    for row in rows:
        cell, kernel = row.cell, row.cell.params.get("kernel")
        is_of_table = cell.source.startswith("Table 3") and cell.published is not None
        if not is_of_table or not row.values:
            continue
        near = [
            Reading(
                why, nearest_end(ends.get((at, cell.dataset, kernel), []), cell), by
            )
            for at, why, by in (
                ("ends of 150 runs", _ANOTHER_RUN, RUN),
                ("Table 3, ends of 150 runs", _ANOTHER_RUN, RUN),
                ("ends on ten draws", _ANOTHER_DRAW, RUN),
                ("ends with another c", _ANOTHER_OFFSET, FIT),
            )
        ]
        if cell.dataset == "clustering/glass":
            near.append(Reading(_OTHER_DATA, [], NO_RUN))
        entries.append(
            Entry(
                cell.dataset.removeprefix("clustering/"),
                kernel,
                cell.published,
                row.values,
                cell.tolerance or 0.0,
                3,
                tuple(near),
            )
        )
    order = {kernel: i for i, kernel in enumerate(_KERNELS)}
    entries.sort(key=lambda entry: order[entry.column])
    return Table("Table 3", entries, _attained(entries))


def _attained(entries: list[Entry]) -> str:
    """Lay out which printed numbers are the end of a run on the first draw."""
    rows: dict[str, dict[str, str]] = {}
    for entry in entries:
        own = [r.values for r in entry.readings if r.reason == _ANOTHER_RUN]
        near = [end for ends in own for end in ends]
        is_end = entry.agrees or any(
            abs(end - entry.published) <= entry.tolerance + 1e-9 for end in near
        )
        nearest = f"no ({near[0]:.3f})" if near else "no"
        rows.setdefault(entry.row, {})[entry.column] = "yes" if is_end else nearest
    found = [text for row in rows.values() for text in row.values()]
    head = (
        f"Attained by a run, on our draw of the points: {found.count('yes')} of "
        f"{len(found)} printed numbers are the end of one of 150 runs, or our best of "
        "40. In brackets the end that is nearest."
    )
    lines = [[name, *(row.get(k, "") for k in _KERNELS)] for name, row in rows.items()]
    return f"{head}\n\n{markdown_table(('', *_KERNELS), lines)}"


def nearest_end(ends: list[float], cell) -> list[float]:
    """Return the end that is nearest to the published number, as a list."""
    return sorted(ends, key=lambda end: abs(end - cell.published))[:1]


# ---- Andrecut (2016) -----------------------------------------------------------------


def account_randomized(paper: Paper, outcome: Outcome) -> list[Table]:
    """Return Table 1 of Andrecut (2016), the confusion matrix of CIFAR-10."""
    printed = paper.printed["confusion"]
    numbers = np.asarray(printed["percent"])
    other = {**printed, "source": f"γ = 10: {printed['source']}"}
    ours: list[np.ndarray] = []
    smaller: list[np.ndarray] = []  # with another gamma
    for row, records in kept_confusions(summarise(outcome)):
        if is_printed(row.cell, printed):
            ours = [np.asarray(r["confusion"]["percent"]) for r in records]
        elif is_printed(row.cell, other):
            smaller = [np.asarray(r["confusion"]["percent"]) for r in records]
    if not ours:
        return []
    entries = [
        Entry(
            name.split()[0],
            CIFAR10[j].split()[0],
            float(numbers[i, j]),
            [float(one[i, j]) for one in ours],
            1.0,
            1,
            (Reading("with γ = 10", [float(one[i, j]) for one in smaller]),),
        )
        for i, name in enumerate(CIFAR10)
        for j in range(len(CIFAR10))
    ]
    return [Table("Table 1", entries)]


# Functions of (paper, outcome), by the paper's name.
ACCOUNTS: dict[str, Callable[[Paper, Outcome], list[Table]]] = {
    "cluster-rbf": _cluster_rbf_values.account,
    "kernel-kmeans": account_kernel_kmeans,
    "randomized-lssvm": account_randomized,
}
