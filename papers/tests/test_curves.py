"""Numbers read off the history of a fit, and the figures of it."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks import solvers as bench
from papers import SpecError, run_paper
from papers import _runner as runner
from papers._confusion import class_names, confusion_sections
from papers._curves import confusion_percent, error_at
from papers._figures import draw_history, select_histories
from papers._image_figures import draw_confusion
from papers._registry import PREPROCESSING
from papers._report import markdown_report, summarise
from papers._spec import load_paper, parse_paper

TEXT = """
title = "A test"
reference = "nobody"

[[cell]]
dataset = "digits"
method = "ls-svm"
metric = "error_percent"
source = "here"
normalize = "unit"

[[curve]]
dataset = "digits"
n_train = 300
method = "ls-svm"
params = { solver = "matching_pursuit", block_size = 60, max_iter = 6, tol = 1e-9 }
normalize = "unit"
metric = "error_percent"
source = "here"
keep_predictions = true
checks = [
  { at_step = 1, at_most = 90 },
  { at_step = 3, published = 5.0, tolerance = 100 },
  { at_step = 99, at_most = 0.0 },
]

[[figure]]
name = "steps"
title = "Steps"
kind = "history"
x = "at_step"
x_label = "step"
by = "solver"
select = { solver = "matching_pursuit" }
"""


def paper(text=TEXT):
    return parse_paper(text, name="test", file="test.toml")


@pytest.fixture
def outcome(tmp_path):
    return run_paper(paper(), tmp_path)


def test_a_curve_is_one_cell_for_each_check():
    cells = paper().cells[1:]
    assert [cell.at_step for cell in cells] == [1, 3, 99]
    assert [cell.at_most for cell in cells] == [90, None, 0.0]
    assert cells[0].label == "digits, 300 rows, ls-svm, step 1"
    assert all(cell.params["solver"] == "matching_pursuit" for cell in cells)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("at_step = 1,", "at_step = 0,", "curve 1, check 1: at_step = 0"),
        ("at_step = 1,", "atstep = 1,", "check 1: unknown key 'atstep'. Did you mean"),
        ("at_step = 1, at_most", "at_most", "check 1: the key 'at_step' is missing"),
        ("checks =", "check =", "curve 1: the key 'checks' is missing"),
        ('kind = "history"', 'kind = "line"', "kind = 'line' is not known"),
        ('normalize = "unit"\nmetric', 'normalize = "x"\nmetric', "normalize = 'x'"),
    ],
)
def test_mistakes_are_named(old, new, match):
    with pytest.raises(SpecError, match=match):
        paper(TEXT.replace(old, new))


def test_cells_of_a_curve_share_one_fit(tmp_path, monkeypatch):
    fits = []
    original = runner.fit_curve

    def counted(*args, **options):
        fits.append(1)
        return original(*args, **options)

    monkeypatch.setattr(runner, "fit_curve", counted)
    outcome = run_paper(paper(), tmp_path)
    assert len(fits) == 1
    records = list(outcome.results.values())[1:]
    assert len({record["curve"] for record in records}) == 1
    assert len(records[0]["errors"]) == 6
    assert records[0]["value"] == records[0]["errors"][0]
    assert records[1]["value"] == records[0]["errors"][2]
    assert records[2]["value"] == records[0]["errors"][5]
    # A step that is asked for later is read off the same fit.
    run_paper(paper(TEXT.replace("at_step = 3", "at_step = 2")), tmp_path)
    assert len(fits) == 1


def test_the_errors_are_those_of_the_test_rows(outcome):
    record = list(outcome.results.values())[-1]
    wrong = 100 - np.mean(np.diag(record["confusion"]["percent"]))
    assert record["errors"][-1] == pytest.approx(wrong, abs=0.5)
    assert record["solver"] == "matching_pursuit"
    assert len(record["predictions"]) == record["n_test"]
    assert json.dumps(record)


def test_bounds_of_our_own_decide(outcome):
    rows = summarise(outcome)
    assert [row.is_as_expected for row in rows] == [None, True, True, False]
    text = markdown_report(paper(), outcome)
    assert "yes, ≤ 90" in text
    assert text.count("## Confusion matrix") == 1


def test_a_printed_confusion_matrix_is_beside_ours(outcome):
    row = summarise(outcome)[-1]
    n = len(row.records[0]["confusion"]["classes"])
    theirs = {"percent": np.eye(n) * 50, "source": row.cell.source, "normalize": "none"}
    assert "in brackets" not in "\n".join(confusion_sections([row], theirs))
    theirs["normalize"] = row.cell.normalize
    _, line, table = confusion_sections([row], theirs)
    assert "in brackets what the paper prints" in line
    assert table.count("(50.0)") == n
    assert table.count("(0.0)") == n * n - n


def test_a_confusion_matrix_is_the_mean_over_seeds(outcome):
    row = summarise(outcome)[-1]
    [record] = row.records
    other = {**record, "curve": "of another seed"}
    n = len(record["confusion"]["classes"])
    other["confusion"] = {**record["confusion"], "percent": np.zeros((n, n))}
    both = dataclasses.replace(row, records=(record, other))
    title, line, table = confusion_sections([both, both], {})
    assert (title, line) == (
        f"## Confusion matrix in %: {row.label}",
        "Mean of 2 seeds.",
    )
    first = record["confusion"]["percent"][0][0]
    assert f"| {first / 2:4.1f} |" in table.splitlines()[2]


def test_the_printed_matrix_of_cifar10_is_whole():
    printed = load_paper("randomized-lssvm").printed["confusion"]
    assert np.shape(printed["percent"]) == (10, 10)
    np.testing.assert_allclose(np.sum(printed["percent"], axis=1), 100, atol=0.3)
    wrong = 100 - np.trace(printed["percent"]) / 10
    assert wrong == pytest.approx(33.71, abs=0.05)
    assert class_names("cifar10", ["0", "9"]) == ["C1 airplane", "C10 truck"]


def test_figures_are_drawn(outcome, tmp_path):
    rows = summarise(outcome)
    figure = paper().figures[0]
    assert list(select_histories(figure, rows)) == ["matching_pursuit"]
    path = draw_history(figure, rows, tmp_path / "a.png")
    assert path.stat().st_size > 5000
    assert draw_confusion(figure, rows, tmp_path / "b.png").stat().st_size > 5000
    nothing = paper(TEXT.replace('select = { solver = "ma', 'select = { solver = "x'))
    assert draw_history(nothing.figures[0], rows, tmp_path / "c.png") is None


def test_a_factorisation_has_no_curve(tmp_path):
    text = TEXT.replace("matching_pursuit", "cholesky").replace("block_size = 60, ", "")
    outcome = run_paper(paper(text), tmp_path)
    problems = outcome.problems("failed")
    assert len(problems) == 3
    assert "at_step needs an iterative solver" in problems[0]["reason"]


def test_confusion_is_in_per_cent_of_the_true_class():
    got = confusion_percent(np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 1]))
    assert got == {"classes": ["0", "1"], "percent": [[75.0, 25.0], [0.0, 100.0]]}


def test_a_step_after_the_last_is_the_last():
    assert error_at({"errors": [3.0, 2.0]}, 1) == 3.0
    assert error_at({"errors": [3.0, 2.0]}, 9) == 2.0


@pytest.mark.parametrize("name", PREPROCESSING)
def test_preprocessing_gives_unit_rows(name, rng):
    X = rng.random((4, 3072 if "window" in name else 784))
    for step in PREPROCESSING[name]:
        X = clone(step).fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)


def test_the_paper_has_its_figures_and_bounds():
    randomized = load_paper("randomized-lssvm")
    names = {figure.name for figure in randomized.figures}
    for needed in (
        "fig2a",
        "fig2b",
        "fig2c",
        "fig2d",
        "fig3",
        "fig4",
        "fig6",
        "table1",
    ):
        assert any(name.startswith(needed) for name in names)
    curves = [cell for cell in randomized.cells if cell.method != "equations"]
    quick = [cell for cell in curves if not cell.full]
    assert {cell.n_train for cell in quick} == {10_000}
    bounds = {
        (c.params["solver"], c.at_step): c.at_most
        for c in randomized.cells
        if c.at_most
    }
    assert bounds["matching_pursuit", 30] == 1.30
    assert bounds["nystrom", 6] == 1.25


# ---- the race --------------------------------------------------------------------


def test_an_error_counts_when_it_stays():
    def first(errors, in_a_row=3, both_sides=False):
        return bench.first_step(errors, 1.0, in_a_row, both_sides=both_sides)

    assert first([3, 1.0, 2, 1.05, 1.0, 0.9, 2]) == 4
    assert first([3, 1.0, 2, 1.05, 1.0, 0.9, 2], both_sides=True) is None
    assert first([3, 0.9, 1.0, 1.05, 0.95], both_sides=True) == 3
    assert first([3, 1.0, 1.0]) is None
    assert first([1.06] * 9) is None


def test_rows_of_the_race():
    common = {"good_step": 3, "good_seconds": 1.5, "last_error_percent": 1.0}
    common |= {"seconds_per_step": 1.0, "memory": 2**30, "last_step": 9}
    records = [
        {"contender": "slow", "there_seconds": 9.0, "there_step": 6, **common},
        {"contender": "never", "there_seconds": None, "there_step": None, **common},
        {"contender": "fast", "there_seconds": 3.0, "there_step": 2, **common},
    ]
    rows = bench.solver_rows(records)
    assert [row[0] for row in rows] == ["fast", "slow", "never"]
    assert [row[3] for row in rows] == ["1.0", "3.0", "–"]
    assert rows[2][1:3] == ["not reached", "none of 9"]
