"""A paper's table as data: TOML file in, frozen dataclasses out.

Every mistake in a file is an error that names the file, the cell and the key: a
key which is silently ignored would change what is reproduced.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from kaucus.experiments._grid import expand_grid
from kaucus.experiments._metrics import METRICS
from kaucus.experiments._preprocessing import PREPROCESSING
from kaucus.experiments._schema import (
    SpecError,
    check_choices,
    check_table,
    required_fields,
    types_in_toml,
)


class UnknownPaperError(ValueError):
    """No paper has the name that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a paper's table, and how to get ours.

    Attributes
    ----------
    dataset : str
        Name for :func:`kaucus.experiments.load_split`.
    method : str
        Name in :data:`kaucus.experiments.METHODS`.
    metric : str
        Name in ``METRICS``, such as ``"error_percent"``.
    source : str
        Where the paper prints the number, or that it prints none.
    params : mapping
        Parameters of the method's estimator.
    published : float or None
        The printed number; None if there is none.
    tolerance : float or None
        Largest distance from ``published`` that counts as reproduced.
    seeds : tuple of int
        One run for each.
    full_seeds : tuple of int
        One run for each in a full run; empty takes ``seeds``.
    full : bool
        Whether only a full run includes the cell, because it takes long.
    n_train : int or None
        Number of training rows; None takes all.
    sample : {"first", "random"}
        Which rows: the first ones, or a random subset by the seed.
    normalize : str or None
        Preprocessing before the method, a name in ``PREPROCESSING``.
    dtype : {"float32", "float64"}
        Precision of the data.
    note : str
        What a reader must know about the comparison.
    at_step : int or None
        The number is read off after this step of an iterative fit, which all cells
        of a ``[[curve]]`` share; None takes the fitted model.
    at_most : float or None
        A bound of our own that the number must keep, whatever was published.
    keep_predictions : bool
        Whether to keep the predicted classes and the confusion matrix, of a curve.
    """

    dataset: str
    method: str
    metric: str
    source: str
    params: Mapping[str, Any] = field(default_factory=dict)
    published: float | None = None
    tolerance: float | None = None
    seeds: tuple[int, ...] = (0,)
    full_seeds: tuple[int, ...] = ()
    full: bool = False
    n_train: int | None = None
    sample: str = "first"
    normalize: str | None = None
    dtype: str = "float64"
    note: str = ""
    at_step: int | None = None
    at_most: float | None = None
    keep_predictions: bool = False

    @property
    def label(self) -> str:
        """Short text that tells the cell from the others."""
        rows = "" if self.n_train is None else f", {self.n_train:,} rows"
        step = "" if self.at_step is None else f", step {self.at_step}"
        return f"{self.dataset}{rows}, {self.method}{step}"

    def value_of(self, key: str) -> Any:
        """Return the field or the parameter called ``key``, None if there is none."""
        if key in _CELL_TYPES:
            return getattr(self, key)
        return self.params.get(key)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A curve through cells: ``x`` is a field or parameter, y is the metric.

    Attributes
    ----------
    name : str
        File name without its ending.
    title, x_label : str
        Text in the figure.
    x : str
        Field or parameter on the horizontal axis.
    by : str
        Field or parameter that tells one curve from the next.
    select : mapping
        Fields or parameters, and the values that a cell must have to be drawn; a
        list of values admits each of them.
    log_x, log_y : bool
        Whether an axis is logarithmic.
    kind : {"curve", "history", "misread", "confusion", "points"}
        ``"curve"``: a point for each cell. ``"history"``: a line over the steps of each
        fit. ``"misread"``: the test pictures of the wrong class. ``"confusion"``: the
        confusion matrix; these two need ``keep_predictions``. ``"points"``: the
        selected data sets of the plane; see ``_point_figures.draw_points``.
    """

    name: str
    title: str
    x: str
    x_label: str
    by: str = "method"
    select: Mapping[str, Any] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    kind: str = "curve"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: its cells and figures.

    Attributes
    ----------
    name, title, reference : str
        Short name, title, and where it was printed.
    cells : tuple of Cell
        Those of ``[[cell]]``, then those of each ``[[table]]``.
    figures : tuple of Figure
        Curves through cells.
    derive : str
        Name in :data:`kaucus.experiments.DERIVATIONS` of a function that makes further
        tables and figures from the results; empty for none.
    printed : mapping
        Published numbers for it, as the file has them.
    """

    name: str
    title: str
    reference: str
    cells: tuple[Cell, ...]
    figures: tuple[Figure, ...] = ()
    derive: str = ""
    printed: Mapping[str, Any] = field(default_factory=dict)


_CELL_TYPES = types_in_toml(Cell)
# What a check of a [[curve]] may say for itself.
_CHECK_KEYS = ("at_step", "published", "tolerance", "at_most", "source", "note")
_FIGURE_TYPES = types_in_toml(Figure)
_TABLE_TYPES = dict.fromkeys(("columns", "rows", "common"), (dict,))
_PAPER_TYPES = {
    **dict.fromkeys(("title", "reference", "derive"), (str,)),
    **dict.fromkeys(("cell", "grid", "table", "curve", "figure"), (list,)),
    "printed": (dict,),
}
_CHOICES = {
    "metric": tuple(METRICS),
    "sample": ("first", "random"),
    "normalize": tuple(PREPROCESSING),
    "dtype": ("float32", "float64"),
    "kind": ("curve", "history", "misread", "confusion", "points"),
}


def list_papers() -> list[str]:
    """Return the names that :func:`load_paper` knows.

    Examples
    --------
    >>> "lssvm" in list_papers()
    True
    """
    folder = resources.files("kaucus.experiments") / "papers"
    names = (entry.name for entry in folder.iterdir())
    return sorted(name[:-5] for name in names if name.endswith(".toml"))


def load_paper(name: str) -> Paper:
    """Load a paper of the package by its name.

    Examples
    --------
    >>> load_paper("lssvm").cells[0].method
    'ls-svm'
    """
    known = list_papers()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownPaperError(
            f"There is no paper {name!r}.{hint} Choose one of: {', '.join(known)}."
        )
    folder = resources.files("kaucus.experiments") / "papers"
    text = (folder / f"{name}.toml").read_text(encoding="utf-8")
    return parse_paper(text, name=name, file=f"{name}.toml")


def load_paper_file(path: str | Path) -> Paper:
    """Load a paper from a TOML file of one's own."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    return parse_paper(text, name=path.stem, file=str(path))


def parse_paper(text: str, *, name: str, file: str) -> Paper:
    """Turn TOML text into a :class:`Paper`.

    Parameters
    ----------
    text : str
        The TOML text: ``title``, ``reference``, ``[[cell]]`` and ``[[figure]]``.
    name, file : str
        Name of the paper, and the file's name for error messages.

    Raises
    ------
    SpecError
        With file, cell and key, when something is missing, unknown or wrong.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{file} is not valid TOML: {error}.") from error
    several = "grid" in table or "table" in table
    required = ("title", "reference", *(() if several else ("cell",)))
    check_table(table, _PAPER_TYPES, required, file)
    cells = [
        _cell(t, f"{file}, cell {i}") for i, t in enumerate(table.get("cell", []), 1)
    ]
    for i, grid in enumerate(table.get("grid", []), 1):
        cells += _grid_cells(grid, f"{file}, grid {i}")
    for i, t in enumerate(table.get("table", []), 1):
        cells += _table_cells(t, f"{file}, table {i}")
    for i, t in enumerate(table.get("curve", []), 1):
        cells += _curve_cells(t, f"{file}, curve {i}")
    figures = [
        _figure(t, f"{file}, figure {i}")
        for i, t in enumerate(table.get("figure", []), 1)
    ]
    return Paper(
        name=name,
        title=table["title"],
        reference=table["reference"],
        cells=tuple(cells),
        figures=tuple(figures),
        derive=table.get("derive", ""),
        printed=table.get("printed", {}),
    )


def _cell(table: dict[str, Any], where: str) -> Cell:
    """Check one ``[[cell]]``."""
    check_table(table, _CELL_TYPES, required_fields(Cell), where)
    check_choices(table, _CHOICES, where)
    _check_numbers(table, where)
    values = dict(table)
    for key in ("seeds", "full_seeds"):
        if key in values:
            values[key] = tuple(values[key])
    return Cell(**values)


def _grid_cells(table: dict[str, Any], where: str) -> list[Cell]:
    """Check one ``[[grid]]``, and return its cells."""
    try:
        tables = expand_grid(table, where)
    except ValueError as error:
        raise SpecError(str(error)) from error
    return [_cell(t, f"{where}, cell {i}") for i, t in enumerate(tables, 1)]


def _table_cells(table: dict[str, Any], where: str) -> list[Cell]:
    """Expand one ``[[table]]``: data sets down, methods across, numbers inside.

    ``columns`` has the parameters of each column, ``rows`` the published numbers of
    each data set in the order of the columns (an empty list: none is published), and
    ``common`` all other keys of the cells.
    """
    check_table(table, _TABLE_TYPES, ("columns", "rows"), where)
    cells = []
    for dataset, numbers in table["rows"].items():
        if len(numbers) not in (0, len(table["columns"])):
            raise SpecError(
                f"{where}: row {dataset!r} has {len(numbers)} numbers; expected "
                f"{len(table['columns'])}, one for each column, or none."
            )
        for i, (label, params) in enumerate(table["columns"].items()):
            cell = {**table.get("common", {}), "dataset": dataset, "params": params}
            if numbers:
                cell["published"] = numbers[i]
            else:
                cell.pop("tolerance", None)
            cells.append(_cell(cell, f"{where}, row {dataset!r}, column {label!r}"))
    return cells


def _curve_cells(table: dict[str, Any], where: str) -> list[Cell]:
    """Expand one ``[[curve]]``: a cell for each of its ``checks``, one fit for all."""
    if not isinstance(table, dict) or not isinstance(table.get("checks"), list):
        raise SpecError(f"{where}: the key 'checks' is missing; give a list of steps.")
    common = {key: value for key, value in table.items() if key != "checks"}
    cells = []
    for i, check in enumerate(table["checks"], 1):
        here = f"{where}, check {i}"
        types = {key: _CELL_TYPES[key] for key in _CHECK_KEYS}
        check_table(check, types, ("at_step",), here)
        cells.append(_cell({**common, **check}, here))
    return cells


def _figure(table: dict[str, Any], where: str) -> Figure:
    """Check one ``[[figure]]``."""
    check_table(table, _FIGURE_TYPES, required_fields(Figure), where)
    check_choices(table, _CHOICES, where)
    return Figure(**table)


def _check_numbers(table: dict[str, Any], where: str) -> None:
    """Check ranges, and that a published value has its tolerance."""
    if ("published" in table) != ("tolerance" in table):
        raise SpecError(
            f"{where}: published and tolerance go together; give both or neither."
        )
    if table.get("tolerance", 0) < 0:
        raise SpecError(f"{where}: tolerance = {table['tolerance']} must be >= 0.")
    if table.get("at_step", 1) < 1:
        raise SpecError(f"{where}: at_step = {table['at_step']} must be at least 1.")
    if table.get("n_train", 1) < 1:
        raise SpecError(
            f"{where}: n_train = {table['n_train']} must be at least 1; "
            "leave it out to train on all rows."
        )
    for key in ("seeds", "full_seeds"):
        seeds = table.get(key, [0])
        good = all(type(seed) is int and seed >= 0 for seed in seeds)
        if not seeds or not good or len(set(seeds)) < len(seeds):
            raise SpecError(
                f"{where}: {key} = {seeds!r} must be a list of different integers >= 0."
            )
