"""``python -m papers``: exit codes, messages, and no tracebacks."""

import os
import re
import subprocess
import sys

import pytest
from sklearn.naive_bayes import GaussianNB

from papers import _reproduce as reproduction
from papers.__main__ import main
from papers._registry import METHODS
from papers.tests.standins import make_cell, make_paper


@pytest.fixture
def paper(monkeypatch, tmp_path):
    """Put a small paper, and a method for it, in place of the package's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "stand-in", GaussianNB)

    def use(*cells):
        monkeypatch.setattr(reproduction, "load_paper", lambda name: make_paper(*cells))

    use(make_cell())
    return use


def one_line(capsys):
    """Return the only line of the standard error."""
    [line] = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_a_number_of_seeds_must_be_positive(capsys, value):
    assert main(["lssvm", f"--seeds={value}"]) == 2
    assert f"{value!r} must be an integer of at least 1" in capsys.readouterr().err


def test_an_unknown_paper_lists_the_known_and_the_nearest(capsys):
    assert main(["lsvm"]) == 2
    line = one_line(capsys)
    assert "Did you mean 'lssvm'?" in line
    assert re.search(r"Choose one of: .*\blssvm\b", line)


def test_no_paper_lists_the_known(capsys):
    assert main([]) == 2
    assert re.search(r"Choose one of: .*\blssvm\b", one_line(capsys))


def test_list_shows_papers_and_cells(capsys):
    assert main(["--list"]) == 0
    assert "\nlssvm  Exact LS-SVM" in "\n" + capsys.readouterr().out
    assert main(["lssvm", "--list"]) == 0
    assert "mnist, 60,000 rows, ls-svm" in capsys.readouterr().out


def test_list_tells_cells_apart(capsys):
    assert main(["kmeans-kernel", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    labels = [line.split("  ")[0] for line in lines]
    assert len(set(labels)) == len(labels) > 10


def test_a_run_writes_into_its_folder_and_says_so(paper, capsys, tmp_path):
    assert main(["tiny"]) == 0
    text = capsys.readouterr().out
    assert "digits, stand-in" in text
    folder = tmp_path / "kaucus-results" / "tiny"
    assert {file.name for file in folder.iterdir()} == {"results.json.gz", "report.md"}
    assert f"wrote {os.path.join('kaucus-results', 'tiny', 'report.md')}" in text


def test_a_second_run_says_that_results_were_there(paper, capsys):
    main(["tiny", "--output", "here", "--seeds", "2"])
    assert "were there" not in capsys.readouterr().out
    main(["tiny", "--output", "here", "--seeds", "2"])
    assert "2 results were there; --fresh runs them again." in capsys.readouterr().out
    main(["tiny", "--output", "here", "--seeds", "2", "--fresh"])
    assert "were there" not in capsys.readouterr().out


def test_report_only_needs_neither_the_device_nor_the_data(paper, capsys):
    paper(make_cell(dataset="mnist"))
    command = ["tiny", "--device", "cuda:99", "--output", "here"]
    assert main([*command, "--report-only"]) == 0
    assert "not run" in capsys.readouterr().out


def test_a_number_outside_its_tolerance_is_exit_code_1(paper):
    paper(make_cell(published=99.0, tolerance=0.1))
    assert main(["tiny"]) == 1


def test_missing_data_is_exit_code_3_with_the_reason(
    paper, capsys, monkeypatch, tmp_path
):
    from papers import _data

    def no_data(data_home):
        raise FileNotFoundError(f"no mnist in {data_home}")

    monkeypatch.setitem(_data._LOADERS, "mnist", no_data)
    paper(make_cell(), make_cell(dataset="mnist"))
    assert main(["tiny", "--data-home", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert f"skipped mnist, stand-in, seed 0: no mnist in {tmp_path}" in out
    assert f"SKIPPED: no mnist in {tmp_path}" in err


def test_a_folder_that_is_not_there_is_one_line_at_once(paper, capsys):
    paper(make_cell(dataset="mnist"))
    assert main(["tiny", "--data-home", "nowhere"]) == 2
    assert "data_home='nowhere' is not a folder" in one_line(capsys)


def test_ctrl_c_says_how_to_continue(paper, capsys, monkeypatch):
    def interrupt(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianNB, "fit", interrupt)
    assert main(["tiny"]) == 130
    assert "0 of 1 results" in capsys.readouterr().out


def test_a_strange_results_file_is_one_line(paper, capsys, tmp_path):
    (tmp_path / "results.json.gz").write_text("{")
    assert main(["tiny", "--output", str(tmp_path)]) == 2
    assert "move it away" in one_line(capsys)


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "papers", "nope"]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("device", ["cuda:99", "mps", "no-such"])
def test_a_device_that_is_not_here_is_one_line_at_once(device, capsys):
    assert main(["lssvm", "--device", device]) == 2
    assert re.search(f"device='{device}'.*(expected|use|Use|counted)", one_line(capsys))


@pytest.mark.parametrize("budget", ["4 apples", "-1", "0", ""])
def test_a_wrong_memory_budget_is_one_line_at_once(budget, capsys):
    assert main(["lssvm", f"--memory-budget={budget}"]) == 2
    assert f"memory_budget={budget!r} is not a size; pass" in one_line(capsys)
