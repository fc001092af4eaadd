"""A whole table of a paper as one ``[[grid]]``: data sets down, methods across.

    [[grid]]
    metric = "clustering_accuracy"
    source = "Table 3"
    tolerance = 0.01
    datasets = ["clustering/iris", ...]
    methods = [{ method = "kernel-kmeans", params = { kernel = "rbf" } }, ...]
    published = [[0.893, ...], ...]     # one row for each data set

is the same as one ``[[cell]]`` for each number. Further keys of a cell (seeds, dtype,
...) hold for all of them; a method's table may have any key of a cell; ``notes`` has
a text for some of the data sets.
"""

from typing import Any

_OWN = ("datasets", "methods", "published", "notes")


def expand_grid(table: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the tables of the cells that a grid stands for.

    Parameters
    ----------
    table : dict
        A ``[[grid]]`` as TOML gives it.
    where : str
        File and number of the grid, for messages.

    Raises
    ------
    ValueError
        When the sizes do not fit, or a key is missing.
    """
    for key in ("datasets", "methods"):
        if not isinstance(table.get(key), list) or not table[key]:
            raise ValueError(f"{where}: {key} must be a list of one or more.")
    datasets, methods = table["datasets"], table["methods"]
    published = table.get("published")
    if published is not None:
        _check_shape(published, len(datasets), len(methods), where)
    notes = table.get("notes", {})
    if unknown := sorted(set(notes) - set(datasets)):
        raise ValueError(f"{where}: notes on {unknown}, which are not in datasets.")
    common = {key: value for key, value in table.items() if key not in _OWN}
    cells = []
    for i, dataset in enumerate(datasets):
        for j, method in enumerate(methods):
            cell = {**common, **method, "dataset": dataset}
            if dataset in notes and j == 0:
                cell["note"] = notes[dataset]
            if published is None or published[i][j] == "":
                cell.pop("tolerance", None)
            else:
                cell["published"] = published[i][j]
            cells.append(cell)
    return cells


def _check_shape(published: Any, n_rows: int, n_columns: int, where: str) -> None:
    rows = published if isinstance(published, list) else []
    if len(rows) != n_rows or any(len(row) != n_columns for row in rows):
        raise ValueError(
            f"{where}: published must have {n_rows} rows of {n_columns} numbers, one "
            "row for each data set, one number for each method ('' for none)."
        )
