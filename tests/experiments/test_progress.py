"""Progress: a bar on a terminal, plain lines in a log."""

import io

import pytest

from kaucus.experiments import make_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream):
    with make_progress(2, stream) as progress:
        for name in ("first", "second [bold]"):
            progress.begin(f"runs {name}")
            progress.advance(f"did {name}")
    return stream.getvalue()


def test_a_log_holds_one_line_per_finished_step():
    assert run(io.StringIO()) == "[1/2] did first\n[2/2] did second [bold]\n"


def test_a_terminal_has_a_bar_and_the_same_lines(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    text = run(Terminal())
    assert "━" in text
    assert "did first" in text
    assert "did second [bold]" in text


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(Terminal()) == "[1/2] did first\n[2/2] did second [bold]\n"
