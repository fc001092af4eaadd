"""Results on disk, written one by one, so that a killed run loses none.

The file is replaced as a whole (written beside it, flushed, renamed), so that a
reader or the next run never meets half of one.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

# 2: machines once, not in every record; 1 had them there, and as many digits as floats.
FORMAT = 2
_DIGITS = 7


class StoreError(ValueError):
    """A results file cannot be used."""


class ResultStore:
    """Records of runs by key in one JSON file, compressed by gzip.

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
        self.results[key] = rounded(record)
        self.problems.pop(key, None)
        self.write()

    def add_problem(self, key: str, record: dict[str, Any]) -> None:
        """Keep why a run has no result, on disk when this returns."""
        self.problems[key] = rounded(record)
        self.write()

    def discard(self, keys: list[str]) -> None:
        """Forget the results of some runs, and keep all others."""
        for key in keys:
            self.results.pop(key, None)
            self.problems.pop(key, None)
        self.write()

    def write(self) -> None:
        """Replace the file by what is held now."""
        machines: dict[str, dict] = {}
        results = {k: _at_machine(r, machines) for k, r in self.results.items()}
        parts = [
            f'"format": {FORMAT}',
            f'"machines": {_lines(machines)}',
            f'"results": {_lines(results)}',
            f'"problems": {_lines(self.problems)}',
        ]
        text = "{" + ",\n".join(parts) + "}\n"
        replace_file(self.path, gzip.compress(text.encode(), mtime=0))

    def _read(self) -> dict[str, Any]:
        """Read the file, or an empty content if there is none."""
        try:
            content = json.loads(gzip.decompress(self.path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError, EOFError) as error:
            raise StoreError(
                f"{self.path} cannot be read as results ({error}); move it away, or "
                "choose another output folder."
            ) from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise StoreError(
                f"{self.path} is not a results file of format {FORMAT}; move it away, "
                "or choose another output folder."
            )
        for record in content["results"].values():
            if "machine" in record:
                record["machine"] = content["machines"][record["machine"]]
        return content


def _at_machine(record: dict, machines: dict[str, dict]) -> dict:
    """Return a record with its machine's key; add the machine to ``machines``."""
    if "machine" not in record:
        return record
    known = {json.dumps(machine): name for name, machine in machines.items()}
    name = known.get(json.dumps(record["machine"]), str(len(machines)))
    machines[name] = record["machine"]
    return {**record, "machine": name}


def rounded(value: Any) -> Any:
    """Return a value of JSON with floats of seven digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list | tuple) else value


def one_line_each(records: dict[str, Any]) -> str:
    """Return records as JSON, one in a line, with floats of seven digits."""
    return _lines(rounded(records))


def _lines(records: dict[str, Any]) -> str:
    """Return records, rounded by now, as JSON, one in a line."""
    lines = [
        f"{json.dumps(key)}: "
        + json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        for key, record in records.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
