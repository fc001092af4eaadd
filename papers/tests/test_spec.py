"""TOML files: what they give, and errors that name file, cell and key."""

import dataclasses

import pytest

from papers import SpecError, UnknownPaperError, list_papers, load_paper
from papers._figures import selected
from papers._registry import MEASUREMENTS, METHODS
from papers._report import Row
from papers._spec import (
    _CELL_TYPES,
    _FIGURE_TYPES,
    Cell,
    Figure,
    parse_paper,
)

HEAD = 'title = "T"\nreference = "R"\n'
CELL = """
[[cell]]
dataset = "digits"
method = "ls-svm"
metric = "error_percent"
source = "Table 1"
"""


def parse(text):
    return parse_paper(text, name="mine", file="mine.toml")


def test_a_cell_with_all_keys():
    [cell] = parse(
        HEAD
        + CELL
        + 'params = { C = 10.0, kernel = "rbf" }\npublished = 1\ntolerance = 0.1\n'
        'seeds = [0, 1]\nfull = true\nn_train = 100\nsample = "random"\n'
        'normalize = "unit"\ndtype = "float32"\nnote = "N"\n'
    ).cells
    assert cell == Cell(
        dataset="digits",
        method="ls-svm",
        metric="error_percent",
        source="Table 1",
        params={"C": 10.0, "kernel": "rbf"},
        published=1,
        tolerance=0.1,
        seeds=(0, 1),
        full=True,
        n_train=100,
        sample="random",
        normalize="unit",
        dtype="float32",
        note="N",
    )


def test_a_short_cell_has_the_documented_defaults():
    [cell] = parse(HEAD + CELL).cells
    assert cell.published is None
    assert (cell.seeds, cell.full, cell.n_train) == ((0,), False, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tolerances = 1.0", r"unknown key 'tolerances'. Did you mean 'tolerance'\?"),
        ("colour = 1", r"unknown key 'colour'. Known: dataset, method"),
        ('n_train = "many"', r"n_train = 'many' must be of type int"),
        ("n_train = true", r"n_train = True must be of type int"),
        ("n_train = 0", r"n_train = 0 must be at least 1"),
        ("full = 1", r"full = 1 must be of type bool"),
        ("published = 1.1", r"published needs a tolerance, or our own limit at_most"),
        ("tolerance = 1.1", r"tolerance has no meaning without published"),
        ("published = 1.1\ntolerance = -1", r"tolerance = -1 must be >= 0"),
        ("seeds = []", r"seeds = \[\] must be a list of different integers"),
        ("seeds = [0, 0]", r"seeds = \[0, 0\] must be"),
        ("seeds = [0.5]", r"seeds = \[0.5\] must be"),
        ('sample = "last"', r"sample = 'last' is not known; use one of 'first'"),
        ('dtype = "int8"', r"dtype = 'int8' is not known"),
        ('normalize = "max"', r"normalize = 'max' is not known; use one of 'unit'"),
    ],
)
def test_a_bad_key_is_an_error_that_names_file_cell_and_key(line, message):
    with pytest.raises(SpecError, match=rf"mine\.toml, cell 2: {message}"):
        parse(HEAD + CELL + CELL + line)


@pytest.mark.parametrize("key", ["dataset", "method", "metric", "source"])
def test_a_missing_key_is_an_error(key):
    lines = [line for line in CELL.splitlines() if not line.startswith(key)]
    with pytest.raises(SpecError, match=rf"cell 1: the key '{key}' is missing"):
        parse(HEAD + "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = \n", r"mine\.toml is not valid TOML: .*line 1"),
        ('title = "T"' + CELL, r"mine\.toml: the key 'reference' is missing"),
        (HEAD, r"mine\.toml: the key 'cell' is missing"),
        (HEAD + "cell = [1]", r"mine\.toml, cell 1: got 1, expected a table"),
        (HEAD + "extra = 1" + CELL, r"mine\.toml: unknown key 'extra'"),
        (HEAD + CELL + "[[figure]]\nx = 1", r"mine\.toml, figure 1: x = 1 must be"),
    ],
)
def test_a_bad_file_is_an_error(text, message):
    with pytest.raises(SpecError, match=message):
        parse(text)


def test_the_checked_keys_are_the_fields():
    """A new field without a check could not be written in a file."""
    assert list(_CELL_TYPES) == [field.name for field in dataclasses.fields(Cell)]
    assert set(_FIGURE_TYPES) == {field.name for field in dataclasses.fields(Figure)}


def test_only_a_curve_needs_an_axis():
    figure = '[[figure]]\nname = "f"\ntitle = "t"\n'
    with pytest.raises(SpecError, match="figure 1: the key 'x' is missing"):
        parse(HEAD + CELL + figure)
    [history] = parse(HEAD + CELL + figure + 'kind = "history"\n').figures
    assert (history.x, history.x_label) == ("at_step", "step")


def test_an_unknown_paper_names_the_nearest():
    with pytest.raises(UnknownPaperError, match=r"Did you mean 'lssvm'\?.*one of:"):
        load_paper("lsvm")


@pytest.mark.parametrize("name", list_papers())
def test_every_paper_of_the_package_is_sound(name):
    paper = load_paper(name)
    assert paper.cells
    for cell in paper.cells:
        assert cell.method in {**METHODS, **MEASUREMENTS}
    for figure in paper.figures:
        rows = [Row(cell, "", (1.0,), 1, 1.0) for cell in paper.cells]
        shown = [row.cell for row in selected(figure, rows)]
        assert shown
        if figure.kind in ("curve", "history"):  # others have no axis
            assert any(cell.value_of(figure.x) is not None for cell in shown)


def test_the_lssvm_paper_has_the_printed_number_and_small_rows():
    cells = load_paper("lssvm").cells
    [published] = [cell for cell in cells if cell.published is not None]
    assert (published.published, published.tolerance) == (1.1, 0.1)
    assert published.full
    assert "no error of the exact solution" in published.note
    assert any(cell.dataset == "digits" and not cell.full for cell in cells)


@pytest.mark.parametrize("name", list_papers())
def test_the_quick_form_takes_less_than_five_minutes(name):
    assert 0 < load_paper(name).minutes < 5
