"""Our numbers beside the published ones, as a table and as Markdown."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from kaucus._array.blocks import format_bytes
from kaucus.evaluation.clustering import format_seconds
from papers._confusion import confusion_sections
from papers._markdown import markdown_table
from papers._registry import METRICS
from papers._runner import Outcome
from papers._spec import Cell, Paper

HEADERS = (
    "cell",
    "metric",
    "ours",
    "published",
    "difference",
    "agrees with the paper",
    "within our limit",
    "fit",
    "source",
)


@dataclass(frozen=True)
class Row:
    """One cell of a table with our values, one per finished seed."""

    cell: Cell
    label: str
    values: tuple[float, ...]
    n_seeds: int
    fit_seconds: float | None
    status: str = ""
    records: tuple[dict, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean over the finished seeds."""
        return fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds (n - 1 in the denominator)."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Mean minus the published value."""
        if self.mean is None or self.cell.published is None:
            return None
        return self.mean - self.cell.published

    @property
    def agrees(self) -> bool | None:
        """Whether the mean is within published ± tolerance; None if nothing is."""
        if self.difference is None or self.cell.tolerance is None:
            return None
        # A tolerance of 0.1 must admit 1.2 against 1.1, whatever binary makes of it.
        return abs(self.difference) <= self.cell.tolerance + 1e-9

    @property
    def within_limit(self) -> bool | None:
        """Whether the mean is at most ``at_most``; None if the cell has no limit."""
        if self.mean is None or self.cell.at_most is None:
            return None
        return self.mean <= self.cell.at_most + 1e-9

    @property
    def is_as_expected(self) -> bool | None:
        """Whether the mean is within our limit or, without one, agrees; else None."""
        return self.agrees if self.within_limit is None else self.within_limit


def summarise(outcome: Outcome) -> list[Row]:
    """Gather the seeds of each cell into one row, in the paper's order."""
    by_cell: dict[int, list] = {}
    for job in outcome.jobs:
        by_cell.setdefault(id(job.cell), []).append(job)
    groups = list(by_cell.values())
    labels = make_labels([jobs[0].cell for jobs in groups])
    return [
        _row(jobs, label, outcome) for jobs, label in zip(groups, labels, strict=True)
    ]


def make_labels(cells: Sequence[Cell]) -> list[str]:
    """Name cells shortly; add the parameters that differ where names clash."""
    counts = Counter(cell.label for cell in cells)
    return [
        cell.label + (_differing(cell, cells) if counts[cell.label] > 1 else "")
        for cell in cells
    ]


def report_rows(rows: Sequence[Row]) -> list[list[Any]]:
    """Write the rows' values for :data:`HEADERS`."""
    return [
        [
            row.label,
            METRICS[row.cell.metric].label,
            _ours(row),
            _published(row.cell),
            _signed(row),
            "" if row.agrees is None else row.agrees,
            _limit(row),
            format_seconds(row.fit_seconds),
            row.cell.source,
        ]
        for row in rows
    ]


def report_lines(outcome: Outcome) -> list[str]:
    """Return lines about problems, and about cells that were left out."""
    lines = []
    for status in ("skipped", "failed"):
        labels: dict[str, list[str]] = {}
        for record in outcome.problems(status):
            labels.setdefault(record["reason"], []).append(record["label"])
        lines += [f"{status} {'; '.join(who)}: {why}" for why, who in labels.items()]
    n = outcome.n_left_out
    if n:
        cells = "cell was" if n == 1 else "cells were"
        lines.append(f"{n} long {cells} left out; add --full to run all.")
    return lines


def markdown_report(paper: Paper, outcome: Outcome) -> str:
    """Write the whole report: table, notes, problems, and the machine."""
    rows = summarise(outcome)
    parts = [
        f"# {paper.title}",
        paper.reference,
        markdown_table(HEADERS, report_rows(rows)),
        "Ours with several seeds: mean ± standard deviation. Agrees: ours is within "
        "the published number ± what stands beside it; empty where the paper prints "
        "none.",
    ]
    parts += [paper.agreement] if paper.agreement else []
    parts += confusion_sections(rows, paper.printed.get("confusion", {}))
    notes = [f"- {row.label}: {row.cell.note}" for row in rows if row.cell.note]
    notes += [f"- {line}" for line in report_lines(outcome)]
    if notes:
        parts += ["## Notes", "\n".join(notes)]
    parts += ["## Machine", _machine_lines(outcome)]
    return "\n\n".join(parts) + "\n"


def _row(jobs: list, label: str, outcome: Outcome) -> Row:
    """Gather one cell's records."""
    done = outcome.store.results
    records = [done[job.key] for job in jobs if job.key in done]
    problems = [outcome.store.problems.get(job.key) for job in jobs]
    seconds = [record["fit_seconds"] for record in records]
    return Row(
        cell=jobs[0].cell,
        label=label,
        values=tuple(record["value"] for record in records),
        n_seeds=len(jobs),
        fit_seconds=fmean(seconds) if seconds else None,
        status=next((p["status"] for p in problems if p), "not run"),
        records=tuple(records),
    )


def _differing(cell: Cell, cells: Sequence[Cell]) -> str:
    """List the parameters of a cell in which cells of the same label differ."""
    rivals = [other for other in cells if other.label == cell.label]
    keys = ["normalize", "dtype", "sample"]
    keys += sorted({key for rival in rivals for key in rival.params})
    parts = [
        f"{key}={value}"
        for key in keys
        if (value := cell.value_of(key)) is not None
        and any(rival.value_of(key) != value for rival in rivals)
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _ours(row: Row) -> str:
    """Write mean and spread, or why there is none."""
    if row.mean is None:
        return row.status
    digits = METRICS[row.cell.metric].digits
    text = f"{row.mean:.{digits}f}"
    if row.spread is not None:
        text += f" ± {row.spread:.{digits}f}"
    if len(row.values) < row.n_seeds:
        text += f" ({len(row.values)} of {row.n_seeds} seeds)"
    return text


def _published(cell: Cell) -> str | None:
    """Write the published number and its tolerance."""
    if cell.published is None:
        return None
    spread = "" if cell.tolerance is None else f" ± {cell.tolerance:g}"
    return f"{cell.published:g}{spread}"


def _limit(row: Row) -> str:
    """Write whether our own limit is kept, and the limit."""
    if row.within_limit is None:
        return ""
    return f"{'yes' if row.within_limit else 'no'}, ≤ {row.cell.at_most:g}"


def _signed(row: Row) -> str | None:
    if row.difference is None:
        return None
    return f"{row.difference:+.{METRICS[row.cell.metric].digits}f}"


def _machine_lines(outcome: Outcome) -> str:
    """List machine, versions and dates behind the results."""
    records = list(outcome.results.values())
    peaks = [record["peak_memory"] for record in records if record["peak_memory"]]
    dates = [record["end"] for record in records]
    lines = list(dict.fromkeys(_machine_line(r["machine"]) for r in records))
    if records:
        peak = format_bytes(max(peaks, default=None))
        lines.append(f"From {min(dates)} to {max(dates)}")
        lines.append(f"Largest rise of memory in a cell: {peak}")
    return "\n".join(f"- {line}" for line in lines or ["nothing has run"])


def _machine_line(machine: dict[str, Any]) -> str:
    """Describe one machine."""
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    cores = machine["cores"]
    hardware = f"{machine['cpu']}, {cores} core{'s' if cores != 1 else ''}"
    memory = f"{format_bytes(machine['memory'])}, GPU: {machine['gpu'] or 'none used'}"
    system = f"{machine['platform']}, Python {machine['python']}"
    return f"{hardware}, {memory}; {system}, {versions}"
