"""Tables as plain text, as Markdown, or drawn on a terminal."""

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any, TextIO

_DASH = "–"


def format_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lay out a table as plain text, numbers to the right.

    Parameters
    ----------
    headers : sequence of str
        One name per column.
    rows : sequence of sequence
        Values; None is shown as a dash, a float with four digits.

    Returns
    -------
    str
        Lines without a trailing newline.

    Examples
    --------
    >>> print(format_table(["method", "s"], [["ours", 0.5], ["theirs", 12.0]]))
    method    s
    ------  ---
    ours    0.5
    theirs   12
    """
    cells, right = _cells(headers, rows)
    widths = _widths(headers, cells)
    lines = [_pad(headers, widths, right), "  ".join("-" * w for w in widths)]
    lines += [_pad(row, widths, right) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lay out a table as Markdown.

    Parameters
    ----------
    headers : sequence of str
    rows : sequence of sequences
        One cell for each header; numbers are set to the right.

    Examples
    --------
    >>> print(markdown_table(["method", "s"], [["ours", 0.5]]))
    | method |   s |
    |:-------|----:|
    | ours   | 0.5 |
    """
    cells, right = _cells(headers, rows)
    cells = [[value.replace("|", "\\|") for value in row] for row in cells]
    widths = [max(3, width) for width in _widths(headers, cells)]
    rules = [
        "-" * (width + 1) + ":" if is_right else ":" + "-" * (width + 1)
        for width, is_right in zip(widths, right, strict=True)
    ]
    body = [f"| {_pad(row, widths, right, ' | ')} |" for row in [headers, *cells]]
    return "\n".join([body[0], f"|{'|'.join(rules)}|", *body[1:]])


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str = "",
    file: TextIO | None = None,
) -> None:
    """Print a table: drawn by rich on a terminal, plain text in a log.

    Parameters
    ----------
    headers, rows
        As for :func:`format_table`.
    title : str, default=""
        A line above the table.
    file : text stream, default=None
        Where to; None is the standard output.
    """
    file = sys.stdout if file is None else file
    if file.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(headers, rows, title, file)
        return
    if title:
        print(title, end="\n\n", file=file)
    print(format_table(headers, rows), file=file)


def format_seconds(seconds: float | None) -> str:
    """Write a duration with the unit that suits it.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(75.2), format_seconds(4000)
    ('12.3 ms', '75.2 s', '66.7 min')
    """
    if seconds is None:
        return _DASH
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.1f} min"


def _print_rich(headers, rows, title: str, file: TextIO) -> None:
    """Draw the table with rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells, right = _cells(headers, rows)
    table = Table(title=title or None, title_justify="left")
    for header, is_right in zip(headers, right, strict=True):
        table.add_column(header, justify="right" if is_right else "left")
    for row in cells:
        table.add_row(*map(Text, row))  # Text: brackets are not rich's mark-up here
    Console(file=file).print(table)


def _cells(headers, rows) -> tuple[list[list[str]], list[bool]]:
    """Turn values into text, and say which columns are numbers."""
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(
                f"A row has {len(row)} values but the table {len(headers)} columns "
                f"({', '.join(headers)}); give one value per column: {list(row)!r}."
            )
    cells = [[_text(value) for value in row] for row in rows]
    columns = zip(*cells, strict=True) if cells else [()] * len(headers)
    right = [any(column) and all(map(_is_number, column)) for column in columns]
    return cells, right


def _text(value: Any) -> str:
    """Write one value."""
    if value is None:
        return _DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    """Tell whether a cell starts like a number, or stands for a missing one."""
    return text in ("", _DASH) or text.lstrip("+-−<>≈ ")[:1].isdigit()


def _widths(headers, cells) -> list[int]:
    return [max(map(len, column)) for column in zip(headers, *cells, strict=True)]


def _pad(row, widths, right, gap: str = "  ") -> str:
    """Join one row's values, each filled up to its column's width."""
    parts = zip(row, widths, right, strict=True)
    return gap.join(t.rjust(w) if is_right else t.ljust(w) for t, w, is_right in parts)
