"""Tables as Markdown."""

from collections.abc import Sequence
from typing import Any

from kaucus.evaluation.clustering import cell_text, cells_of, padded


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as Markdown, numbers to the right.

    Columns are padded to 40 characters at most: one long name would fill a file with
    spaces.

    >>> print(markdown_table(["method", "s"], [["ours", 0.5]]))
    | method |   s |
    |:-------|----:|
    | ours   | 0.5 |
    """
    rows = [[cell_text(value).replace("|", "\\|") for value in row] for row in rows]
    cells, right, widths = cells_of(headers, rows)
    widths = [max(3, min(width, 40)) for width in widths]
    rules = [
        "-" * (width + 1) + ":" if is_right else ":" + "-" * (width + 1)
        for width, is_right in zip(widths, right, strict=True)
    ]
    body = [f"| {padded(row, widths, right, ' | ')} |" for row in [headers, *cells]]
    return "\n".join([body[0], f"|{'|'.join(rules)}|", *body[1:]])
