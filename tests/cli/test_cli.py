"""The command line: exit codes, messages, and no tracebacks."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from sklearn.naive_bayes import GaussianNB

from kaucus import __version__
from kaucus.cli import main
from kaucus.experiments import _reproduce as reproduction
from kaucus.experiments._registry import METHODS
from tests.experiments.standins import make_cell, make_paper

pytest.importorskip("typer")
HEAVY = ("numpy", "scipy", "sklearn", "torch", "matplotlib", "pandas")
COMMANDS = ("fit", "predict", "evaluate", "report", "export", "demo", "reproduce")


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


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kaucus {__version__}\n"


def test_help_names_the_commands(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)
    assert "Exit codes: 0 all is well" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys, command):
    assert main([command, "--help"]) == 0
    assert f"Usage: kaucus {command}" in capsys.readouterr().out


def test_shell_completion_is_offered(capsys):
    main(["--help"])
    assert "--install-completion" in capsys.readouterr().out


def test_without_typer_the_remedy_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["--version"]) == 3
    assert "pip install 'kaucus[cli]'" in one_line(capsys)


def test_no_command_shows_the_help_and_is_exit_code_2(capsys):
    assert main([]) == 2
    assert "Usage: kaucus" in capsys.readouterr().out


def test_wrong_usage_is_exit_code_2_in_one_line(capsys):
    assert main(["dance"]) == 2
    line = one_line(capsys)
    assert line == "kaucus: No such command 'dance'. Try 'kaucus --help'."
    assert main(["fit", "--colour"]) == 2
    assert "--colour" in one_line(capsys)


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_a_number_of_seeds_must_be_positive(capsys, value):
    assert main(["reproduce", "lssvm", f"--seeds={value}"]) == 2
    assert f"{value!r} must be an integer of at least 1" in capsys.readouterr().err


def test_help_imports_nothing_heavy():
    """So that it answers at once; counted rather than timed."""
    code = (
        "import sys; from kaucus.cli import main; main(['--help']);"
        f"sys.exit(', '.join(m for m in {HEAVY} if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.strip() == ""


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "kaucus", "reproduce", "nope"]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("device", ["cuda:99", "mps", "no-such"])
def test_a_device_that_is_not_here_is_one_line_at_once(device, capsys):
    assert main(["reproduce", "lssvm", "--device", device]) == 2
    assert re.search(f"device='{device}'.*(expected|use|Use|counted)", one_line(capsys))


@pytest.mark.parametrize("budget", ["4 apples", "-1", "0", ""])
def test_a_wrong_memory_budget_is_one_line_at_once(budget, capsys):
    assert main(["reproduce", "lssvm", f"--memory-budget={budget}"]) == 2
    assert f"memory_budget={budget!r} is not a size; pass" in one_line(capsys)


def test_an_unknown_paper_lists_the_known_and_the_nearest(capsys):
    assert main(["reproduce", "lsvm"]) == 2
    line = one_line(capsys)
    assert "Did you mean 'lssvm'?" in line
    assert re.search(r"Choose one of: .*\blssvm\b", line)


def test_no_paper_lists_the_known(capsys):
    assert main(["reproduce"]) == 2
    assert re.search(r"Choose one of: .*\blssvm\b", one_line(capsys))


def test_list_shows_papers_and_cells(capsys):
    assert main(["reproduce", "--list"]) == 0
    assert "\nlssvm  Exact LS-SVM" in "\n" + capsys.readouterr().out
    assert main(["reproduce", "lssvm", "--list"]) == 0
    assert "mnist, 60,000 rows, ls-svm" in capsys.readouterr().out


def test_list_tells_cells_apart(capsys):
    assert main(["reproduce", "kmeans-kernel", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    labels = [line.split("  ")[0] for line in lines]
    assert len(set(labels)) == len(labels) > 10


def test_reproduce_writes_into_its_folder_and_says_so(paper, capsys, tmp_path):
    assert main(["reproduce", "tiny"]) == 0
    text = capsys.readouterr().out
    assert "digits, stand-in" in text
    folder = tmp_path / "kaucus-results" / "tiny"
    assert {file.name for file in folder.iterdir()} == {"results.json", "report.md"}
    assert f"wrote {os.path.join('kaucus-results', 'tiny', 'report.md')}" in text


def test_a_second_run_says_that_results_were_there(paper, capsys):
    main(["reproduce", "tiny", "--output", "here", "--seeds", "2"])
    assert "were there" not in capsys.readouterr().out
    main(["reproduce", "tiny", "--output", "here", "--seeds", "2"])
    assert "2 results were there; --fresh runs them again." in capsys.readouterr().out
    main(["reproduce", "tiny", "--output", "here", "--seeds", "2", "--fresh"])
    assert "were there" not in capsys.readouterr().out


def test_report_only_needs_neither_the_device_nor_the_data(paper, capsys):
    paper(make_cell(dataset="mnist"))
    command = ["reproduce", "tiny", "--device", "cuda:99", "--output", "here"]
    assert main([*command, "--report-only"]) == 0
    assert "not run" in capsys.readouterr().out


def test_a_number_outside_its_tolerance_is_exit_code_1(paper):
    paper(make_cell(published=99.0, tolerance=0.1))
    assert main(["reproduce", "tiny"]) == 1


def test_missing_data_is_exit_code_3_with_the_reason(paper, capsys, monkeypatch):
    from kaucus.experiments import _data

    def no_data(data_home):
        raise FileNotFoundError(f"no mnist in {data_home}")

    monkeypatch.setitem(_data._LOADERS, "mnist", no_data)
    paper(make_cell(), make_cell(dataset="mnist"))
    assert main(["reproduce", "tiny", "--data-home", "nowhere"]) == 3
    out, err = capsys.readouterr()
    assert "skipped mnist, stand-in, seed 0: no mnist in nowhere" in out
    assert "SKIPPED: no mnist in nowhere" in err


def test_ctrl_c_says_how_to_continue(paper, capsys, monkeypatch):
    def interrupt(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianNB, "fit", interrupt)
    assert main(["reproduce", "tiny"]) == 130
    assert "0 of 1 results" in capsys.readouterr().out


def test_a_strange_results_file_is_one_line(paper, capsys, tmp_path):
    (tmp_path / "results.json").write_text("{")
    assert main(["reproduce", "tiny", "--output", str(tmp_path)]) == 2
    assert "move it away" in one_line(capsys)


def test_demo_without_matplotlib_shows_the_table_and_the_remedy(
    capsys, monkeypatch, tmp_path
):
    from kaucus.experiments import _demo

    monkeypatch.setattr(_demo, "compare_models", lambda: [])
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda n: None if n == "matplotlib" else find(n)
    )
    assert main(["demo", "--output", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "accuracy" in out
    assert err.splitlines() == [
        "kaucus: matplotlib is not installed; this needs it: pip install 'kaucus[plot]'"
    ]
