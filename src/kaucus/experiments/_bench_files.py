"""What every benchmark leaves behind: its records as JSON, its tables as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaucus.evaluation import markdown_table
from kaucus.experiments._store import replace_file


def write_bench(
    output: Path, heading: str, content: dict[str, Any], tables: Sequence[tuple]
) -> None:
    """Write ``bench.json`` and ``bench.md``.

    Parameters
    ----------
    output : path
        Folder for the two files.
    heading : str
        Of the Markdown file.
    content : dict
        All records, with ``about`` and ``machine``.
    tables : sequence of (title, headers, rows)
    """
    replace_file(output / "bench.json", json.dumps(content, indent=1))
    parts = [f"# {heading}", content["about"]]
    for title, headers, rows in tables:
        parts += [f"## {title}", markdown_table(headers, rows)]
    machine = content["machine"].items()
    parts += ["## Machine", "\n".join(f"- {key}: {value}" for key, value in machine)]
    replace_file(output / "bench.md", "\n\n".join(parts) + "\n")
