"""One paper from start to end: run, table, Markdown report and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kaucus._array.namespace import device_name
from kaucus._base import MissingPackageError
from papers._cluster_rbf_tables import Derived, derive_cluster_rbf
from papers._figures import draw_curve, draw_history
from papers._image_figures import (
    draw_confusion,
    draw_first_pictures,
    draw_misread,
    draw_points,
)
from papers._picture_figures import draw_patches
from papers._registry import look_up
from papers._report import Row, markdown_report, report_lines, summarise
from papers._runner import Outcome, Settings, run_paper, stored_outcome
from papers._spec import Paper, load_paper
from papers._store import replace_file

# Exit codes of `python -m papers`.
OK, MISMATCH, USAGE, SKIPPED, INTERRUPTED = 0, 1, 2, 3, 130
# What draws each kind of figure.
FIGURES = {
    "curve": draw_curve,
    "history": draw_history,
    "misread": draw_misread,
    "confusion": draw_confusion,
    "points": draw_points,
    "patches": draw_patches,
    "pictures": draw_first_pictures,
}
# Functions of (paper, outcome, output folder) that return what is Derived.
DERIVATIONS = {"cluster-rbf": derive_cluster_rbf}


@dataclass(frozen=True)
class Reproduction:
    """Result of a reproduction: rows of the table, lines to print, files written."""

    title: str
    rows: list[Row]
    lines: list[str]
    files: list[Path]
    exit_code: int


def reproduce_paper(
    name: str,
    output: str | Path,
    settings: Settings | None = None,
    *,
    stream: TextIO | None = None,
) -> Reproduction:
    """Run a paper's cells and write ``results.json.gz``, ``report.md`` and figures.

    ``name`` is one of :func:`list_papers`, ``output`` the folder for the files; the
    rest is as in :func:`run_paper`. The ``exit_code`` is 0 if every cell ran and is
    as expected (within our limit or, without one, as published), 1 if one is not or
    failed, 3 if one was skipped, 130 after Ctrl-C.
    """
    paper = load_paper(name)
    output = Path(output)
    settings = settings or Settings()
    gpu = None if settings.report_only else device_name(settings.device)
    if settings.report_only and output.name == paper.results.get("folder"):
        outcome = stored_outcome(paper, output.parent)  # and what is in `also`
    else:
        outcome = run_paper(paper, output, settings, stream=stream, gpu=gpu)
    if settings.report_only and outcome.results:  # what has run is what is reported
        done = outcome.store.results
        outcome.jobs = [job for job in outcome.jobs if job.key in done]
    rows = summarise(outcome)
    lines = report_lines(outcome)
    if outcome.n_reused and not settings.report_only:
        lines.append(f"{outcome.n_reused} results were there; --fresh runs them again.")
    ran = not settings.report_only and outcome.store.path.exists()
    files = [outcome.store.path] if ran else []
    if outcome.interrupted:
        done = f"{len(outcome.results)} of {len(outcome.jobs)} results"
        again = "the same command (without --fresh) goes on from there"
        lines.append(f"Interrupted: {done} are in {outcome.store.path}; {again}.")
    else:
        report = output / "report.md"
        data_home = settings.data_home
        more = _derive(paper, outcome, output)
        text = markdown_report(paper, outcome)
        replace_file(report, f"{text}\n{more.markdown}\n" if more.markdown else text)
        files += [report, *more.files]
        lines += more.lines
        files += _draw_figures(paper.figures, rows, output, lines, data_home)
    return Reproduction(paper.title, rows, lines, files, exit_code(outcome, rows))


def _derive(paper: Paper, outcome: Outcome, output: Path) -> Derived:
    """Make the further tables and figures of a paper, if it has any."""
    if not paper.derive:
        return Derived("", [], [])
    make = look_up(paper.derive, DERIVATIONS, "Derivation")
    return make(paper, outcome, output)


def exit_code(outcome: Outcome, rows: list[Row]) -> int:
    """Return the exit code of a run."""
    if outcome.interrupted:
        return INTERRUPTED
    if outcome.problems("failed") or any(row.is_as_expected is False for row in rows):
        return MISMATCH
    return SKIPPED if outcome.problems("skipped") else OK


def _draw_figures(figures, rows, output: Path, lines: list[str], home) -> list[Path]:
    """Draw what can be drawn; say in ``lines`` what cannot."""
    files = []
    for figure in figures:
        target = output / f"{figure.name}.png"
        try:
            path = FIGURES[figure.kind](figure, rows, target, home)
        except (MissingPackageError, FileNotFoundError) as error:
            why = " ".join(str(error).split())
            lines.append(f"figure {figure.name} not drawn: {why}")
            continue
        if path is None:  # an image of an earlier run would not fit this table
            target.unlink(missing_ok=True)
        else:
            files.append(path)
    return files
