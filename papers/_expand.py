"""Tables of a TOML file that stand for several cells -> the table of each cell.

A whole table of a paper, data sets down and methods across, as one ``[[grid]]``:

    [[grid]]
    metric = "clustering_accuracy"
    source = "Table 3"
    tolerance = 0.01
    datasets = ["clustering/iris", ...]
    methods = [{ method = "kernel-kmeans", params = { kernel = "rbf" } }, ...]
    published = { "clustering/iris" = [0.893, ...] }    # by method, "" for no number
    notes = { "clustering/iris" = "a text" }
    full = ["clustering/iris"]    # or true: of all

is the same as one ``[[cell]]`` for each number. Further keys of a cell (seeds, dtype,
...) hold for all of them; a method's table may have any key of a cell.

A ``[[curve]]`` is one fit with a cell for each of its ``checks``, which say the step.
"""

from collections.abc import Iterator
from typing import Any

from papers._schema import SpecError, Types, check_table

Cells = Iterator[tuple[str, dict[str, Any]]]
"""Where in the file a cell is, for messages, and its table."""

# What a check of a [[curve]] may say for itself.
_CHECK_KEYS = ("at_step", "published", "tolerance", "at_most", "source", "note")


def expand_cells(paper: dict[str, Any], file: str, cell_types: Types) -> Cells:
    """Yield the place and the table of each cell of a paper, given as TOML has it."""
    check_types = {key: cell_types[key] for key in _CHECK_KEYS}
    for i, table in enumerate(paper.get("cell", []), 1):
        yield f"{file}, cell {i}", table
    for i, table in enumerate(paper.get("grid", []), 1):
        yield from _grid_cells(table, f"{file}, grid {i}")
    for i, table in enumerate(paper.get("curve", []), 1):
        yield from _curve_cells(table, f"{file}, curve {i}", check_types)


def _grid_cells(table: dict[str, Any], where: str) -> Cells:
    for key in ("datasets", "methods"):
        if not isinstance(table.get(key), list) or not table[key]:
            raise SpecError(f"{where}: {key} must be a list of one or more.")
    common = dict(table)
    datasets, methods = common.pop("datasets"), common.pop("methods")
    published, notes = common.pop("published", {}), common.pop("notes", {})
    full = common.pop("full", [])
    long = datasets if full is True else full or []
    for key, given in (("published", published), ("notes", notes), ("full", long)):
        if unknown := sorted(set(given) - set(datasets)):
            raise SpecError(f"{where}: {key} of {unknown}, which are not in datasets.")
    for dataset, numbers in published.items():
        if len(numbers) != len(methods):
            raise SpecError(
                f"{where}: {dataset!r} has {len(numbers)} published numbers; expected "
                f"{len(methods)}, one for each method ('' for none)."
            )
    for i, dataset in enumerate(datasets):
        numbers = published.get(dataset, [""] * len(methods))
        for j, method in enumerate(methods):
            cell = {**common, **method, "dataset": dataset}
            if dataset in long:
                cell.setdefault("full", True)
            if dataset in notes and j == 0:
                cell["note"] = notes[dataset]
            place = f"{where}, cell {i * len(methods) + j + 1}"
            yield place, _with_published(cell, numbers[j])


def _with_published(cell: dict[str, Any], number: Any) -> dict[str, Any]:
    """Add the published number; without one (""), the tolerance has no meaning."""
    if number != "":
        return {**cell, "published": number}
    return {key: value for key, value in cell.items() if key != "tolerance"}


def _curve_cells(table: dict[str, Any], where: str, check_types: Types) -> Cells:
    if not isinstance(table, dict) or not isinstance(table.get("checks"), list):
        raise SpecError(f"{where}: the key 'checks' is missing; give a list of steps.")
    common = {key: value for key, value in table.items() if key != "checks"}
    for i, check in enumerate(table["checks"], 1):
        place = f"{where}, check {i}"
        check_table(check, check_types, ("at_step",), place)
        yield place, {**common, **check}
