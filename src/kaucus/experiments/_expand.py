"""Tables of a TOML file that stand for several cells -> the table of each cell.

A whole table of a paper, data sets down and methods across, as one ``[[grid]]``:

    [[grid]]
    metric = "clustering_accuracy"
    source = "Table 3"
    tolerance = 0.01
    datasets = ["clustering/iris", ...]
    methods = [{ method = "kernel-kmeans", params = { kernel = "rbf" } }, ...]
    published = [[0.893, ...], ...]     # one row for each data set, "" for no number
    notes = { "clustering/iris" = "a text" }

is the same as one ``[[cell]]`` for each number. Further keys of a cell (seeds, dtype,
...) hold for all of them; a method's table may have any key of a cell.

A ``[[table]]`` names its parts: ``columns`` has the parameters of each column, ``rows``
the published numbers of each data set in the order of the columns (an empty list: none
is published), and ``common`` all other keys of the cells.

A ``[[curve]]`` is one fit with a cell for each of its ``checks``, which say the step.
"""

from collections.abc import Iterator
from typing import Any

from kaucus.experiments._schema import SpecError, Types, check_table

Cells = Iterator[tuple[str, dict[str, Any]]]
"""Where in the file a cell is, for messages, and its table."""

_TABLE_TYPES: Types = dict.fromkeys(("columns", "rows", "common"), (dict,))
# What a check of a [[curve]] may say for itself.
_CHECK_KEYS = ("at_step", "published", "tolerance", "at_most", "source", "note")


def expand_cells(paper: dict[str, Any], file: str, cell_types: Types) -> Cells:
    """Yield the place and the table of each cell of a paper, given as TOML has it."""
    check_types = {key: cell_types[key] for key in _CHECK_KEYS}
    for i, table in enumerate(paper.get("cell", []), 1):
        yield f"{file}, cell {i}", table
    for i, table in enumerate(paper.get("grid", []), 1):
        yield from _grid_cells(table, f"{file}, grid {i}")
    for i, table in enumerate(paper.get("table", []), 1):
        yield from _table_cells(table, f"{file}, table {i}")
    for i, table in enumerate(paper.get("curve", []), 1):
        yield from _curve_cells(table, f"{file}, curve {i}", check_types)


def _grid_cells(table: dict[str, Any], where: str) -> Cells:
    for key in ("datasets", "methods"):
        if not isinstance(table.get(key), list) or not table[key]:
            raise SpecError(f"{where}: {key} must be a list of one or more.")
    common = dict(table)
    datasets, methods = common.pop("datasets"), common.pop("methods")
    published = common.pop("published", [[""] * len(methods)] * len(datasets))
    notes = common.pop("notes", {})
    _check_shape(published, len(datasets), len(methods), where)
    if unknown := sorted(set(notes) - set(datasets)):
        raise SpecError(f"{where}: notes on {unknown}, which are not in datasets.")
    for i, dataset in enumerate(datasets):
        for j, method in enumerate(methods):
            cell = {**common, **method, "dataset": dataset}
            if dataset in notes and j == 0:
                cell["note"] = notes[dataset]
            place = f"{where}, cell {i * len(methods) + j + 1}"
            yield place, _with_published(cell, published[i][j])


def _check_shape(published: Any, n_rows: int, n_columns: int, where: str) -> None:
    rows = published if isinstance(published, list) else []
    if len(rows) != n_rows or any(len(row) != n_columns for row in rows):
        raise SpecError(
            f"{where}: published must have {n_rows} rows of {n_columns} numbers, one "
            "row for each data set, one number for each method ('' for none)."
        )


def _table_cells(table: dict[str, Any], where: str) -> Cells:
    check_table(table, _TABLE_TYPES, ("columns", "rows"), where)
    columns, common = table["columns"], table.get("common", {})
    for dataset, numbers in table["rows"].items():
        if len(numbers) not in (0, len(columns)):
            raise SpecError(
                f"{where}: row {dataset!r} has {len(numbers)} numbers; expected "
                f"{len(columns)}, one for each column, or none."
            )
        for i, (label, params) in enumerate(columns.items()):
            cell = {**common, "dataset": dataset, "params": params}
            place = f"{where}, row {dataset!r}, column {label!r}"
            yield place, _with_published(cell, numbers[i] if numbers else "")


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
