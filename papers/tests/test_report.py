"""The report: ours, published, difference, agreement and our own limit."""

import pytest

from kaucus.evaluation.clustering import format_table
from papers import Settings, list_papers, load_paper
from papers._report import (
    HEADERS,
    Row,
    make_labels,
    markdown_report,
    report_rows,
    summarise,
)
from papers._reproduce import FIGURES, _draw_figures, exit_code
from papers._runner import Outcome, plan_jobs
from papers._spec import Figure
from papers._store import ResultStore
from papers.tests.standins import make_cell, make_paper

MACHINE = {
    "cpu": "A processor",
    "cores": 2,
    "memory": 2**33,
    "gpu": None,
    "platform": "Linux",
    "python": "3.11",
    "versions": {"kaucus": "0.1"},
}


def outcome_of(tmp_path, cells, values):
    """Make an outcome in which the jobs have these values, None for not done."""
    jobs = plan_jobs(cells, Settings())
    store = ResultStore(tmp_path / "results.json.gz")
    for job, value in zip(jobs, values, strict=True):
        if value is not None:
            store.results[job.key] = {
                "value": value,
                "fit_seconds": 1.5,
                "peak_memory": 2**20,
                "end": "2020-01-01",
                "machine": MACHINE,
            }
    return Outcome(jobs, store)


def row(values, **changes):
    return Row(make_cell(**changes), "x", tuple(values), len(values), None)


def test_the_whole_table(tmp_path):
    cells = [
        make_cell(published=1.1, tolerance=0.1, seeds=(0, 1, 2), source="Table 1"),
        make_cell(published=3.0, tolerance=0.1, n_train=100, source="Table 2"),
        make_cell(n_train=200),
        make_cell(n_train=300, seeds=(0, 1)),
    ]
    outcome = outcome_of(tmp_path, cells, [1.1, 1.2, 1.3, 2.5, 7.0, 6.0, None])
    text = format_table(HEADERS, report_rows(summarise(outcome)))
    assert [" ".join(line.split()) for line in text.splitlines()[2:]] == [
        "digits, stand-in test error (%) 1.20 ± 0.10 1.1 ± 0.1 +0.10 yes 1.50 s "
        "Table 1",
        "digits, 100 rows, stand-in test error (%) 2.50 3 ± 0.1 -0.50 no 1.50 s "
        "Table 2",
        "digits, 200 rows, stand-in test error (%) 7.00 – – 1.50 s nowhere",
        "digits, 300 rows, stand-in test error (%) 6.00 (1 of 2 seeds) – – 1.50 s "
        "nowhere",
    ]


@pytest.mark.parametrize(
    ("value", "agrees"), [(1.2, True), (1.0, True), (1.2001, False), (0.99, False)]
)
def test_the_tolerance_includes_its_end(value, agrees):
    assert row([value], published=1.1, tolerance=0.1).agrees is agrees


def test_without_a_published_value_nothing_agrees():
    assert row([1.0]).agrees is None
    assert row([1.0], at_most=2.0).agrees is None
    assert row([], published=1.0, tolerance=0.1).agrees is None


def test_our_own_limit_does_not_make_a_number_agree():
    """1.05 against 0.85 ± 0.01 is no agreement, though we allow 1.10."""
    of = row([1.05], published=0.85, tolerance=0.01, at_most=1.10)
    assert (of.agrees, of.within_limit, of.is_as_expected) == (False, True, True)
    of = row([0.85], published=0.85, tolerance=0.01, at_most=0.80)
    assert (of.agrees, of.within_limit, of.is_as_expected) == (True, False, False)
    cells = dict(zip(HEADERS, report_rows([of])[0], strict=True))
    assert cells["agrees with the paper"] is True
    assert cells["within our limit"] == "no, ≤ 0.8"


def test_without_a_limit_of_ours_the_published_number_decides():
    assert row([2.0], published=1.0, tolerance=0.1).is_as_expected is False
    assert row([2.0]).is_as_expected is None


def test_papers_say_whose_their_tolerances_are():
    for name in list_papers():
        paper = load_paper(name)
        if any(cell.tolerance is not None for cell in paper.cells):
            assert paper.agreement, name


def test_the_spread_is_the_standard_deviation_over_seeds():
    assert row([1.0, 2.0, 3.0]).spread == 1.0
    assert row([1.0]).spread is None


def test_cells_of_the_same_name_are_told_apart_by_what_differs():
    cells = [
        make_cell(params={"C": 1.0, "degree": 4}),
        make_cell(params={"C": 9.0, "degree": 4}),
        make_cell(params={"C": 9.0, "degree": 4, "coef0": 1.0}),
        make_cell(n_train=10),
    ]
    assert make_labels(cells) == [
        "digits, stand-in (C=1.0)",
        "digits, stand-in (C=9.0)",  # and not coef0=None, which it does not set
        "digits, stand-in (C=9.0, coef0=1.0)",
        "digits, 10 rows, stand-in",
    ]


def test_the_markdown_report_has_table_notes_and_machine(tmp_path):
    cells = [make_cell(note="printed for another data set")]
    outcome = outcome_of(tmp_path, cells, [1.0])
    text = markdown_report(make_paper(*cells), outcome)
    assert "| digits, stand-in | test error (%) | 1.00 |" in text
    assert "- digits, stand-in: printed for another data set" in text
    assert "A processor, 2 cores, 8.0 GiB" in text


def test_a_report_of_nothing_says_so(tmp_path):
    cells = [make_cell()]
    text = markdown_report(make_paper(*cells), outcome_of(tmp_path, cells, [None]))
    assert "nothing has run" in text
    assert "not run" in text


@pytest.mark.parametrize(
    ("value", "status", "code"),
    [(1.0, None, 0), (2.0, None, 1), (1.0, "skipped", 3), (2.0, "skipped", 1)],
)
def test_the_exit_code_tells_mismatch_from_missing_data(tmp_path, value, status, code):
    cells = [make_cell(published=1.0, tolerance=0.1), make_cell(n_train=10)]
    outcome = outcome_of(tmp_path, cells, [value, None])
    if status:
        problem = {"status": status, "reason": "r", "label": "l"}
        outcome.store.problems[outcome.jobs[1].key] = problem
    assert exit_code(outcome, summarise(outcome)) == code


def test_a_figure_whose_data_is_not_here_is_named_and_left_as_it_is(tmp_path):
    def draw(figure, rows, path, data_home):
        raise FileNotFoundError("no folder with pictures")

    figure = Figure(name="f", title="t", x="C", x_label="C")
    old, lines = tmp_path / "f.png", []
    old.write_bytes(b"drawn elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "curve", draw)
        assert _draw_figures([figure], [], tmp_path, lines, None) == []
    assert lines == ["figure f not drawn: no folder with pictures"]
    assert old.read_bytes() == b"drawn elsewhere"


def test_a_failed_cell_is_a_mismatch_and_ctrl_c_goes_first(tmp_path):
    outcome = outcome_of(tmp_path, [make_cell()], [None])
    problem = {"status": "failed", "reason": "r", "label": "l"}
    outcome.store.problems[outcome.jobs[0].key] = problem
    assert exit_code(outcome, []) == 1
    outcome.interrupted = True
    assert exit_code(outcome, []) == 130
