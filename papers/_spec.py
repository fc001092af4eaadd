"""A paper's table as data: TOML file in, frozen dataclasses out.

Every mistake in a file is an error that names the file, the cell and the key: a
key which is silently ignored would change what is computed.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from papers._expand import expand_cells
from papers._registry import METRICS, PREPROCESSING
from papers._schema import (
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
    """One number of a paper's table, and how to get ours."""

    dataset: str
    """Name for :func:`papers.load_split`."""
    method: str
    """Name in :data:`papers.METHODS`."""
    metric: str
    """Name in ``METRICS``, such as ``"error_percent"``."""
    source: str
    """Where the paper prints the number, or that it prints none."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method's estimator."""
    published: float | None = None
    """The printed number; None if there is none."""
    tolerance: float | None = None
    """Largest distance from ``published`` that counts as agreement: the spread that the
    paper prints or, where it prints none, ours; ``Paper.agreement`` says which. None
    if ``published`` is of another method, with which ours need not agree."""
    seeds: tuple[int, ...] = (0,)
    """One run for each."""
    full_seeds: tuple[int, ...] = ()
    """One run for each in a full run; empty takes ``seeds``."""
    full: bool = False
    """Whether only a full run includes the cell, because it takes long."""
    n_train: int | None = None
    """Number of training rows; None takes all."""
    sample: str = "first"
    """Which rows: the ``"first"`` ones, or a ``"random"`` subset by the seed."""
    normalize: str | None = None
    """Preprocessing before the method, a name in ``PREPROCESSING``."""
    dtype: str = "float64"
    """Type of the data, ``"float32"``, ``"float64"``, or ``"uint8"`` of pictures."""
    note: str = ""
    """What a reader must know about the comparison."""
    at_step: int | None = None
    """The number is read off after this step of an iterative fit, which all cells of a
    ``[[curve]]`` share; None takes the fitted model."""
    at_most: float | None = None
    """A bound of our own that the number must keep, whatever was published; whether
    it agrees with the paper is another question."""
    keep_predictions: bool = False
    """Whether to keep the predicted classes and the confusion matrix, of a curve."""

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
    """A curve through cells: ``x`` is a field or parameter, y is the metric."""

    name: str
    """File name without its ending."""
    title: str
    """Text above the figure."""
    x: str = "at_step"
    """Field or parameter on the horizontal axis of a curve."""
    x_label: str = "step"
    """Text below that axis, also of a history."""
    by: str = "method"
    """Field or parameter that tells one curve from the next."""
    select: Mapping[str, Any] = field(default_factory=dict)
    """Fields or parameters, and the values that a cell must have to be drawn; a list of
    values admits each of them."""
    log_x: bool = False
    """Whether the horizontal axis is logarithmic."""
    log_y: bool = False
    """Whether the vertical axis is logarithmic."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of curves in the legend, by their value of ``by``; others as they are."""
    bars: bool = False
    """Whether the tolerances are the paper's own spread, and are drawn."""
    kind: str = "curve"
    """``"curve"``: a point for each cell. ``"history"``: a line over the steps of each
    fit. ``"misread"``: the test images of the wrong class. ``"confusion"``: the
    confusion matrix; these two need ``keep_predictions``. ``"points"``: the selected
    data sets of the plane; see ``draw_points``. ``"patches"``: filters, responses and
    the hardest pictures of a model of patches. ``"pictures"``: the first pictures of
    the selected data set."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A table, figure or claim of the paper, as a line of the page of all papers."""

    name: str
    """As the paper calls it: ``"Table 2"``, ``"Fig. 3"``."""
    what: str
    """What it shows."""
    code: str
    """Which part of kaucus makes it; empty if it is left out, and ``remark`` says why.
    """
    sources: tuple[str, ...] = ()
    """Beginnings of the ``source`` of its cells, which are compared with print."""
    account: str = ""
    """Name of a printed table of which every number is beside ours."""
    summary: str = ""
    """Name in ``SUMMARIES`` of what writes ours."""
    printed: str = ""
    """What the paper prints, where no cell has it."""
    ours: str = ""
    """What comes out, where no cell has it."""
    agrees: str = ""
    """Whether they agree, where no cell can tell."""
    picture: str = ""
    """File of ours in the folder of results."""
    remark: str = ""
    """Why it does not agree, in one line."""
    reference: str = ""
    """Another paper than the file's."""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: its cells and figures."""

    name: str
    """The name on the command line."""
    title: str
    reference: str
    """Where it was printed."""
    agreement: str = ""
    """A sentence that says whose tolerances these are, the paper's or ours."""
    cells: tuple[Cell, ...]
    """Those of ``[[cell]]``, then of ``[[grid]]`` and ``[[curve]]``."""
    figures: tuple[Figure, ...] = ()
    """Curves through cells."""
    derive: str = ""
    """Name in ``DERIVATIONS`` of a function that makes further
    tables and figures from the results; empty for none."""
    printed: Mapping[str, Any] = field(default_factory=dict)
    """Published numbers for it, as the file has them."""
    items: tuple[Item, ...] = ()
    """Every table and figure of the paper, in its order."""
    choices: tuple[str, ...] = ()
    """What the paper leaves open, or ours does otherwise, and numbers depend on."""
    minutes: float = 0.0
    """How long the quick form takes on two CPU cores."""
    results: Mapping[str, str] = field(default_factory=dict)
    """``folder`` of the committed results of a full run, and its ``device``; ``also``
    is a folder with results of further cells, of a run without a device."""


_CELL_TYPES = types_in_toml(Cell)
_FIGURE_TYPES = types_in_toml(Figure)
_ITEM_TYPES = types_in_toml(Item)
_PAPER_TYPES = {
    **dict.fromkeys(("title", "reference", "agreement", "derive"), (str,)),
    **dict.fromkeys(("cell", "grid", "curve", "figure", "item", "choices"), (list,)),
    **dict.fromkeys(("printed", "results"), (dict,)),
    "minutes": (int, float),
}
_CHOICES = {
    "metric": tuple(METRICS),
    "sample": ("first", "random"),
    "normalize": tuple(PREPROCESSING),
    "dtype": ("float32", "float64", "uint8"),
    "kind": (
        "curve",
        "history",
        "misread",
        "confusion",
        "points",
        "patches",
        "pictures",
    ),
}
_PAPERS = Path(__file__).parent / "specs"


def list_papers() -> list[str]:
    """Return the names that :func:`load_paper` knows.

    Examples
    --------
    >>> "lssvm" in list_papers()
    True
    """
    names = (entry.name for entry in _PAPERS.iterdir())
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
    text = (_PAPERS / f"{name}.toml").read_text(encoding="utf-8")
    return parse_paper(text, name=name, file=f"{name}.toml")


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
    required = ("title", "reference", *(() if "grid" in table else ("cell",)))
    check_table(table, _PAPER_TYPES, required, file)
    cells = expand_cells(table, file, _CELL_TYPES)
    figures = enumerate(table.get("figure", []), 1)
    return Paper(
        name=name,
        title=table["title"],
        reference=table["reference"],
        agreement=table.get("agreement", ""),
        cells=tuple(_cell(cell, where) for where, cell in cells),
        figures=tuple(_figure(t, f"{file}, figure {i}") for i, t in figures),
        derive=table.get("derive", ""),
        printed=table.get("printed", {}),
        items=tuple(
            _item(t, f"{file}, item {i}")
            for i, t in enumerate(table.get("item", []), 1)
        ),
        choices=tuple(table.get("choices", ())),
        minutes=table.get("minutes", 0.0),
        results=table.get("results", {}),
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


def _figure(table: dict[str, Any], where: str) -> Figure:
    """Check one ``[[figure]]``."""
    of_curves = () if "kind" in table else ("x", "x_label")
    check_table(table, _FIGURE_TYPES, (*required_fields(Figure), *of_curves), where)
    check_choices(table, _CHOICES, where)
    return Figure(**table)


def _item(table: dict[str, Any], where: str) -> Item:
    """Check one ``[[item]]``."""
    check_table(table, _ITEM_TYPES, required_fields(Item), where)
    if not table["code"] and not table.get("remark"):
        raise SpecError(f"{where}: without code, remark must say why it is left out.")
    return Item(**{**table, "sources": tuple(table.get("sources", ()))})


def _check_numbers(table: dict[str, Any], where: str) -> None:
    """Check ranges, and that what was published can be compared."""
    if "tolerance" in table and "published" not in table:
        raise SpecError(f"{where}: tolerance has no meaning without published.")
    if "published" in table and not {"tolerance", "at_most"} & set(table):
        raise SpecError(
            f"{where}: published needs a tolerance, or our own limit at_most if it is "
            "the number of another method."
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
