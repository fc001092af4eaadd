"""Progress: one bar on a terminal, nothing or plain lines in a log."""

import io
import re

import pytest

from kaucus import _base

BAR = re.compile(r"\r\[kaucus\] (█*)(·*) ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """Make the standard error a terminal; pytest undoes this in a fixture."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    return stream


@pytest.mark.parametrize(
    "make",
    [
        lambda: _base.step_reporter(1, 1e-4, 10),
        lambda: _base.share_reporter(1, "row"),
    ],
)
def test_nothing_is_drawn_in_a_log(make, monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert make() is None


def test_the_share_of_a_residual_counts_in_powers_of_ten(monkeypatch):
    terminal = open_terminal(monkeypatch)
    report = _base.step_reporter(1, 1e-4, 10)
    for step, residual in enumerate((1.0, 1e-2, 1e-4), 1):
        report(step, residual)
    filled = [len(done) for done, _ in BAR.findall(terminal.getvalue())]
    assert filled == [0, 12, 24]
    assert terminal.getvalue().endswith("\n")


def test_a_counter_fills_the_bar_and_ends_its_line(monkeypatch):
    terminal = open_terminal(monkeypatch)
    count = _base.step_counter(1, 2, "kernel")
    count()
    assert not terminal.getvalue().endswith("\n")
    count()
    filled = [len(done) for done, _ in BAR.findall(terminal.getvalue())]
    assert filled == [12, 24]
    assert "kernel 2 of 2" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")
