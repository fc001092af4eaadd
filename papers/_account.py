"""Every printed number of a table beside ours, with one of four marks."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from papers._markdown import markdown_table

WITHIN, EXPLAINED, NOT_EXPLAINED, MISPRINT = MARKS = (
    "within",
    "explained",
    "not explained",
    "misprint",
)
# What stands behind a number in the tables of the page.
SIGNS = {WITHIN: "", EXPLAINED: "ᵉ", NOT_EXPLAINED: " **?**", MISPRINT: " *m*"}


# What an explanation rests on.
RUN, SHARED_FIT, FIT, NO_RUN = KINDS = (
    "a run",
    "one number fitted to a whole table",
    "a number fitted to few",
    "the printed text, without a run",
)


class Reading(NamedTuple):
    """Another reading of the paper, and what it gives for one number."""

    reason: str
    values: Sequence[float]
    kind: str = RUN
    """One of ``KINDS``. With ``NO_RUN`` there are no values: the paper itself says why
    its number is of something else."""


class Entry(NamedTuple):
    """One printed number, and ours, one for each seed."""

    row: str
    column: str
    published: float
    values: Sequence[float]
    tolerance: float
    digits: int = 3
    readings: tuple[Reading, ...] = ()
    """Runs that may show why ours differs."""
    misprint: str = ""
    """Why the printed number cannot be meant; empty if it can."""

    @property
    def difference(self) -> float:
        """Mean over seeds minus the printed number."""
        return fmean(self.values) - self.published

    @property
    def agrees(self) -> bool:
        """Whether ours is within the tolerance."""
        return self._is_near(self.values)

    @property
    def explanation(self) -> Reading | None:
        """The first reading that gives the printed number, or why none can."""
        return next(filter(self._is_explained_by, self.readings), None)

    @property
    def mark(self) -> str:
        """One of ``MARKS``."""
        if self.misprint:
            return MISPRINT
        if self.agrees:
            return WITHIN
        return EXPLAINED if self.explanation else NOT_EXPLAINED

    def text(self) -> str:
        """Write ours, in brackets what is printed, and the mark."""
        ours = f"{fmean(self.values):.{self.digits}f}"
        return f"{ours} ({self.published:.{self.digits}f}){SIGNS[self.mark]}"

    def _is_explained_by(self, reading: Reading) -> bool:
        if reading.kind == NO_RUN:
            return True
        return bool(reading.values) and self._is_near(reading.values)

    def _is_near(self, values: Sequence[float]) -> bool:
        # 1.2 must agree with 1.1 ± 0.1, whatever binary makes of it.
        return abs(fmean(values) - self.published) <= self.tolerance + 1e-9


class Table(NamedTuple):
    """A printed table, number by number."""

    name: str
    """As the paper calls it, and as the item of the page is called."""
    entries: list[Entry]
    note: str = ""
    """Markdown that stands below it."""


def count(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how many numbers have each mark."""
    found = [entry.mark for entry in entries]
    return {mark: found.count(mark) for mark in MARKS}


def spread(entries: Iterable[Entry]) -> float | None:
    """Return the mean over numbers of the standard deviation over seeds, or None."""
    found = [stdev(entry.values) for entry in entries if len(entry.values) > 1]
    return fmean(found) if found else None


def sum_up(entries: Sequence[Entry]) -> tuple[str, str, str]:
    """Write what is printed, ours, and how many numbers have which mark."""
    digits = entries[0].digits
    meant = [entry for entry in entries if not entry.misprint]
    ours = f"{fmean(abs(entry.difference) for entry in meant):.{digits}f}"
    text = f"differs by {ours} on average"
    if (between := spread(entries)) is not None:
        text += f"; seeds by ± {between:.{digits}f}"
    counts = [f"{n} {mark}" for mark, n in count(entries).items() if n]
    return f"{len(entries)} numbers", text, ", ".join(counts)


def table_markdown(table: Table) -> str:
    """Lay out a table, ours and in brackets what is printed, and list the reasons."""
    columns = list(dict.fromkeys(entry.column for entry in table.entries))
    rows: dict[str, dict[str, str]] = {}
    for entry in table.entries:
        rows.setdefault(entry.row, {})[entry.column] = entry.text()
    lines = [[row, *(cells.get(c, "") for c in columns)] for row, cells in rows.items()]
    parts = [markdown_table(("", *columns), lines), *_reasons(table.entries)]
    return "\n\n".join([*parts, *([table.note] if table.note else [])])


def totals_markdown(tables: Sequence[tuple[str, Table]]) -> str:
    """Count the marks of each table, and of all."""
    lines = [
        [
            f"{paper}, {table.name}".removeprefix(", "),
            len(table.entries),
            *count(table.entries).values(),
        ]
        for paper, table in tables
    ]
    sums = [sum(line[k] for line in lines) for k in range(1, len(MARKS) + 2)]
    bold = [f"**{text}**" for text in ("sum", *map(str, sums))]
    return markdown_table(("table", "numbers", *MARKS), [*lines, bold])


def strict_line(entries: Iterable[Entry]) -> str:
    """Write what explanations rest on, and how many numbers no run explains."""
    entries = list(entries)
    found = [e.explanation for e in entries if e.mark == EXPLAINED]
    kinds = [one.kind for one in found if one is not None]
    parts = [f"{kinds.count(kind)} on {kind}" for kind in KINDS]
    strict = count(entries)[NOT_EXPLAINED] + len(kinds) - kinds.count(RUN)
    return (
        f"Of the {len(kinds)} explained numbers rest {', '.join(parts)}. Where only a "
        f"run without a fitted number counts, {strict} are not explained."
    )


def _reasons(entries: Sequence[Entry]) -> list[str]:
    """List the reasons of explained numbers, and the misprints."""
    places: dict[str, list[str]] = {}
    for entry in entries:
        found = entry.explanation
        if entry.mark == MISPRINT:
            why = f"Misprint: {entry.misprint}"
        elif entry.mark == EXPLAINED and found is not None:
            by = "" if found.kind == RUN else f" by {found.kind}"
            why = f"Explained{by}: {found.reason}"
        else:
            continue
        places.setdefault(why, []).append(f"{entry.row} {entry.column}")
    if not places:
        return []
    return ["\n".join(f"- {why}: {'; '.join(at)}." for why, at in places.items())]
