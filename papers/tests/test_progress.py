"""Progress of a benchmark: a bar on a terminal, plain lines in a log."""

import io

from papers._progress import StepProgress
from tests.estimators.test_progress import BAR, Terminal


def run(stream):
    with StepProgress(2, stream) as progress:
        for name in ("first", "second [bold]"):
            progress.begin(f"runs {name}")
            progress.advance(f"did {name}")
    return stream.getvalue()


def test_a_log_holds_one_line_per_finished_step():
    assert run(io.StringIO()) == "[1/2] did first\n[2/2] did second [bold]\n"


def test_a_terminal_has_a_bar_and_the_same_lines():
    text = run(Terminal())
    assert [len(done) for done, _ in BAR.findall(text)] == [0, 12]
    assert {len(done + rest) for done, rest in BAR.findall(text)} == {24}
    assert "runs second [bold]" in text
    assert "[1/2] did first\n" in text
    assert "[2/2] did second [bold]\n" in text


def test_a_bar_never_wraps(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "50")
    with StepProgress(1, terminal) as progress:
        progress.begin("a long label " * 20)
    lines = terminal.getvalue().split("\r")
    assert max(len(line.replace("\x1b[K", "")) for line in lines) < 50
