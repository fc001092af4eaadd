"""Progress: one bar on a terminal and in a notebook, plain lines in a log."""

import io
import re

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


def test_a_log_has_the_end_of_a_stage_and_a_line_now_and_then(monkeypatch):
    log, seconds = io.StringIO(), iter([0, 4, 4, 11, 11, 11, 12, 12, 12])
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr(_base.time, "monotonic", lambda: next(seconds, 12))
    report = _base.share_reporter(1, "row")
    for k in (1, 2, 3):
        report(k, 3)
    assert log.getvalue() == (
        "[kaucus] row 2 of 3, 6 s left\n[kaucus] row 3 of 3 in 12.0 s\n"
    )
    assert _base.share_reporter(0, "row") is None


def test_a_notebook_has_a_bar_that_spaces_erase(monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", stream)
    report = _base.share_reporter(1, "row")
    report(1, 2)
    report(2, 2)
    first, last = stream.getvalue().split("\r")[1:]
    assert BAR.match("\r" + first)
    assert "row 2 of 2 in " in last
    assert len(first) == len(last.rstrip("\n"))
    assert "\x1b" not in first + last


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
