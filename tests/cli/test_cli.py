"""The command line: exit codes, messages, and no tracebacks."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from kaucus import __version__
from kaucus.__main__ import main as program
from kaucus.cli import main

pytest.importorskip("typer")
HEAVY = ("numpy", "scipy", "sklearn", "torch", "matplotlib", "pandas")
COMMANDS = ("fit", "predict", "evaluate", "report", "export", "demo")


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
    assert program() == 3
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


def test_help_imports_nothing_heavy():
    """So that it answers at once; counted rather than timed."""
    code = (
        "import sys; from kaucus.cli import main; main(['--help']);"
        f"sys.exit(', '.join(m for m in {HEAVY} if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.strip() == ""


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "kaucus", "nope"]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("device", ["cuda:99", "mps", "no-such"])
def test_a_device_that_is_not_here_is_one_line_at_once(device, capsys):
    assert main(["fit", "t.csv", "--target", "y", "--device", device]) == 2
    assert re.search(f"device='{device}'.*(expected|use|Use|counted)", one_line(capsys))


@pytest.mark.parametrize("budget", ["4 apples", "-1", "0", ""])
def test_a_wrong_memory_budget_is_one_line_at_once(budget, capsys):
    assert main(["fit", "t.csv", "--target", "y", f"--memory-budget={budget}"]) == 2
    assert f"memory_budget={budget!r} is not a size; pass" in one_line(capsys)


def test_demo_without_matplotlib_shows_the_table_and_the_remedy(
    capsys, monkeypatch, tmp_path
):
    from kaucus import _demo

    pytest.importorskip("pandas")
    for name in ("compare_on_table", "compare_on_digits", "find_rings"):
        monkeypatch.setattr(_demo, name, lambda *data: [])
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda n: None if n == "matplotlib" else find(n)
    )
    assert main(["demo", "--output", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "log-loss" in out
    assert err.splitlines() == [
        "kaucus: matplotlib is not installed; this needs it: pip install 'kaucus[plot]'"
    ]
