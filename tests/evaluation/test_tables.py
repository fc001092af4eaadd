"""Tables: alignment, missing values, and no drawing in a log."""

import io

import pytest

from kaucus.evaluation.clustering import (
    format_seconds,
    format_table,
    print_table,
)
from papers._markdown import markdown_table

HEADERS = ["cell", "ours", "within"]
ROWS = [["mnist", 1.17, True], ["digits | small", None, ""]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_table():
    assert format_table(HEADERS, ROWS).splitlines() == [
        "cell            ours  within",
        "--------------  ----  ------",
        "mnist           1.17  yes",
        "digits | small     –",
    ]


def test_markdown_table_escapes_the_separator():
    assert markdown_table(HEADERS, ROWS).splitlines() == [
        "| cell            | ours | within |",
        "|:----------------|-----:|:-------|",
        "| mnist           | 1.17 | yes    |",
        "| digits \\| small |    – |        |",
    ]


def test_a_table_without_rows_has_its_head():
    assert format_table(["a", "b"], []).splitlines() == ["a  b", "-  -"]


@pytest.mark.parametrize("layout", [format_table, markdown_table])
def test_a_row_of_the_wrong_length_is_an_error(layout):
    with pytest.raises(ValueError, match=r"2 values but the table 3 columns \(cell"):
        layout(HEADERS, [["mnist", 1.0]])


def test_a_log_gets_plain_text():
    log = io.StringIO()
    print_table(HEADERS, ROWS, title="Result", file=log)
    assert log.getvalue() == f"Result\n\n{format_table(HEADERS, ROWS)}\n"


def test_a_terminal_gets_a_drawn_table_with_the_same_values():
    pytest.importorskip("rich")
    terminal = Terminal()
    print_table(HEADERS, [["[bold]mnist", 1.17, True]], title="Result", file=terminal)
    text = terminal.getvalue()
    assert "┃" in text
    assert "[bold]mnist" in text  # data are not mark-up
    assert "1.17" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.05, "50.0 ms"), (1.234, "1.23 s"), (599, "599.0 s")],
)
def test_seconds_have_a_unit(seconds, text):
    assert format_seconds(seconds) == text
