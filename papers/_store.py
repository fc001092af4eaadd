"""Results on disk, written one by one, so that a killed run loses none.

The file is replaced as a whole (written beside it, flushed, renamed), so that a
reader or the next run never meets half of one.
"""

import json
import os
from pathlib import Path
from typing import Any

FORMAT = 1


class StoreError(ValueError):
    """A results file cannot be used."""


class ResultStore:
    """Records of runs by key in one JSON file.

    ``results`` has those of finished runs, ``problems`` those of runs that were skipped
    or failed. The file need not exist; its folder is made at the first write.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        content = self._read()
        self.results: dict[str, dict] = content.get("results", {})
        self.problems: dict[str, dict] = content.get("problems", {})

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep a finished result, on disk when this returns."""
        self.results[key] = record
        self.problems.pop(key, None)
        self.write()

    def add_problem(self, key: str, record: dict[str, Any]) -> None:
        """Keep why a run has no result, on disk when this returns."""
        self.problems[key] = record
        self.write()

    def discard(self, keys: list[str]) -> None:
        """Forget the results of some runs, and keep all others."""
        for key in keys:
            self.results.pop(key, None)
            self.problems.pop(key, None)
        self.write()

    def write(self) -> None:
        """Replace the file by what is held now."""
        parts = [
            f'"format": {FORMAT}',
            f'"results": {_one_line_each(self.results)}',
            f'"problems": {_one_line_each(self.problems)}',
        ]
        replace_file(self.path, "{" + ",\n".join(parts) + "}\n")

    def _read(self) -> dict[str, Any]:
        """Read the file, or an empty content if there is none."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be read as results ({error}); move it away, or "
                "choose another output folder."
            ) from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise StoreError(
                f"{self.path} is not a results file of format {FORMAT}; move it away, "
                "or choose another output folder."
            )
        return content


def _one_line_each(records: dict[str, dict]) -> str:
    """Write records as JSON, one a line."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(record, ensure_ascii=False)}"
        for key, record in records.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def replace_file(path: Path, text: str) -> None:
    """Write a text file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
