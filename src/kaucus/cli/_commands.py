"""``kaucus demo`` and ``kaucus reproduce``: call the library, print."""

from pathlib import Path

from kaucus.evaluation import print_table
from kaucus.experiments import Settings, UnknownPaperError, list_papers, load_paper


def demo(output: Path) -> int:
    """Print the comparison, then draw the figure."""
    from kaucus.experiments import _demo

    results = _demo.compare_models()
    print_table(_demo.HEADERS, [result.texts() for result in results])
    print(_demo.SETTINGS_TEXT)
    output.mkdir(parents=True, exist_ok=True)
    print(f"wrote {_demo.draw_demo(output / 'kaucus-demo.png')}")
    return 0


def reproduce(paper: str | None, output: Path | None, settings: Settings) -> int:
    """Run a paper's cells and print ours beside the published numbers."""
    if paper is None:
        known = ", ".join(list_papers())
        raise UnknownPaperError(
            f"Say which paper to reproduce. Choose one of: {known}."
        )
    from kaucus.experiments._report import HEADERS, report_rows
    from kaucus.experiments._reproduce import reproduce_paper

    done = reproduce_paper(paper, output or Path("kaucus-results") / paper, settings)
    print_table(HEADERS, report_rows(done.rows), title=done.title)
    _print_end(done.lines, done.files)
    return done.exit_code


def print_page(results: Path) -> int:
    """Print one page of all papers' tables and figures."""
    from kaucus.experiments._overview import overview_page

    print(overview_page(results), end="")
    return 0


def list_cells(name: str | None) -> int:
    """Print the papers with their tables and figures, or the cells of one."""
    if name is None:
        for known in list_papers():
            paper = load_paper(known)
            print(f"{known}  {paper.title}")
            for item in paper.items:
                note = "" if item.code else f" (left out: {item.remark})"
                print(f"    {item.name}: {item.what}{note}")
        return 0
    from kaucus.experiments._report import make_labels

    cells = load_paper(name).cells
    rows = [
        [
            label,
            cell.metric,
            cell.published,
            cell.tolerance,
            "--full" if cell.full else "",
            cell.source,
        ]
        for label, cell in zip(make_labels(cells), cells, strict=True)
    ]
    print_table(("cell", "metric", "published", "tolerance", "", "source"), rows)
    return 0


def _print_end(lines: list[str], files: list[Path]) -> None:
    """Print remarks and the names of the files that were written."""
    for line in lines:
        print(line)
    for file in files:
        print(f"wrote {file}")
