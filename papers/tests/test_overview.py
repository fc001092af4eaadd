"""The page of all papers is what the code makes of the stored results."""

from pathlib import Path

import pytest

from papers import SpecError, list_papers, load_paper
from papers.__main__ import main
from papers._figures import select_curves
from papers._overview import (
    Comparison,
    _sum_up,
    fluctuations,
    misread,
    overview_page,
    points_markdown,
    steps_of,
    tables_of,
)
from papers._report import Row
from papers._runner import stored_outcome
from papers._spec import Figure, parse_paper
from papers.tests.standins import make_cell, make_paper

DOCS = Path(__file__).parents[2] / "docs"
# Tables and figures of each paper, counted in print.
IN_PRINT = {
    "kmeans-kernel": ("Fig. 1", "Fig. 2"),
    "kernel-kmeans": ("Table 1", "Table 2", "Table 3", "Fig. 1", "Fig. 2"),
    "cluster-rbf": (
        *(f"Table {n}" for n in range(1, 7)),
        *(f"Fig. {n}" for n in range(1, 4)),
    ),
    "randomized-lssvm": (
        "Fig. 1",
        *(f"Fig. 2 ({part})" for part in "abcd"),
        *(f"Fig. {n}" for n in range(3, 7)),
        "Table 1",
    ),
}


@pytest.mark.parametrize("name", IN_PRINT)
def test_every_table_and_figure_is_an_item(name):
    assert set(IN_PRINT[name]) <= {item.name for item in load_paper(name).items}


def test_the_committed_page_is_the_one_that_is_made(capsys):
    assert main(["--page", str(DOCS / "results")]) == 0
    assert (DOCS / "results/papers.md").read_text("utf-8") == capsys.readouterr().out


def test_pictures_on_the_page_exist():
    for name in list_papers():
        paper = load_paper(name)
        for item in paper.items:
            if item.picture:
                path = DOCS / "results" / paper.results["folder"] / item.picture
                assert path.is_file(), path


def test_without_results_the_page_has_no_numbers(tmp_path):
    page = overview_page(tmp_path)
    assert "differs by" not in page
    line = next(x for x in page.splitlines() if x.startswith("| Fig. 2 (b) "))
    assert "not run yet" in line


def test_few_numbers_are_listed_and_many_summed_up():
    one = Comparison((1.0, 1.2), 1.0, 0.1, 2)
    other = Comparison((2.0,), 1.0, 0.1, 2)
    assert _sum_up([one, other]) == (
        "1 ± 0.1; 1 ± 0.1",
        "1.10 ± 0.14; 2.00 (one seed)",
        "1 of 2",
    )
    assert _sum_up([one])[2] == "yes"
    assert _sum_up([other])[2] == "no"
    printed, ours, agrees = _sum_up([one] * 3 + [other] * 3)
    assert printed == "6 numbers"
    assert ours == "differs by 0.55 on average; seeds by ± 0.14"
    assert agrees == "3 of 6 within 0.1"


def test_what_is_left_out_needs_a_reason():
    text = """
title = "T"
reference = "R"
[[cell]]
dataset = "digits"
method = "ls-svm"
metric = "accuracy"
source = "here"
[[item]]
name = "Fig. 1"
what = "something"
code = ""
"""
    with pytest.raises(SpecError, match="item 1: without code, remark must say why"):
        parse_paper(text, name="mine", file="mine.toml")


def test_the_list_names_tables_and_figures(capsys):
    assert main(["--list"]) == 0
    text = capsys.readouterr().out
    for name, items in IN_PRINT.items():
        assert f"\n{name}  " in "\n" + text
        assert all(f"    {item}: " in text for item in items)


def test_every_printed_number_of_a_table_is_beside_ours():
    """571 numbers, of which at most 60 stay without any reading that fits."""
    found = []
    for name in list_papers():
        paper = load_paper(name)
        outcome = stored_outcome(paper, DOCS / "results")
        tables = tables_of(paper, outcome)
        found += [entry.mark for table in tables for entry in table.entries]
        named = {item.account for item in paper.items if item.account}
        assert named == {table.name for table in tables}
    assert len(found) == 571
    assert found.count("not explained") <= 60


def test_numbers_have_their_steps_beside_them():
    params = {"solver": "kaczmarz", "max_iter": 200}
    assert steps_of(make_cell(at_step=600)) == "600 steps"
    assert steps_of(make_cell(params=params)) == "200 steps"
    assert steps_of(make_cell(params=params | {"n_runs": 4})) == "4 × 200 steps"
    assert steps_of(make_cell(params=params | {"max_iter": 1})) == "1 step"
    assert steps_of(make_cell()) == ""


def row_of(cell, *records):
    return Row(cell, "a label", (1.0,), 1, 1.0, "", records)


def test_fluctuations_are_half_the_range_of_the_last_steps():
    cell = make_cell(at_step=600, params={"solver": "kaczmarz"})
    errors = [9.0] * 500 + [1.0, 1.2] * 50
    records = [{"errors": errors}, {"errors": [2 * e for e in errors]}]
    assert fluctuations(make_paper(), [row_of(cell, *records)]) == "± 0.150"


def test_misread_rows_are_counted():
    paper = load_paper("randomized-lssvm")
    printed = paper.printed["misread"]
    cell = make_cell(source=printed["source"], normalize=printed["normalize"])
    records = [{"value": value, "n_test": 10_000} for value in (1.0, 1.1)]
    assert misread(paper, [row_of(cell, *records)]) == "105 ± 7"
    assert misread(paper, []) == ""


def test_points_of_curves_stand_in_one_table():
    cells = [
        make_cell(method="own", params={"q": 2}, published=0.5, tolerance=0.1),
        make_cell(method="own", params={"q": 1000}),
        make_cell(method="other", params={"q": 2}),
    ]
    figure = Figure(name="f", title="F", x="q", x_label="Q", labels={"own": "ours"})
    curves = select_curves(figure, [row_of(cell) for cell in cells])
    found = [
        line.split("|")[1:-1] for line in points_markdown(figure, curves).split("\n")
    ]
    assert [text.strip() for text in found[0]] == ["Q", "2", "1,000"]
    assert [text.strip() for text in found[2]] == [
        "ours",
        "1.00 (one seed) (0.5)",
        "1.00 (one seed)",
    ]
    assert [text.strip() for text in found[3]] == ["other", "1.00 (one seed)", ""]
