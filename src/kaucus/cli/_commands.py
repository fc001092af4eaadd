"""The subcommands: call the library, print, return an exit code."""

from argparse import Namespace
from pathlib import Path

import numpy as np

from kaucus.backend import parse_bytes, to_device
from kaucus.evaluation import print_table
from kaucus.experiments import (
    MissingPackageError,
    Settings,
    SpecError,
    StoreError,
    UnknownPaperError,
    list_papers,
    load_paper,
)


class MachineError(ValueError):
    """A device or an amount of memory that this machine does not have."""


USAGE_ERRORS = (UnknownPaperError, SpecError, StoreError, MachineError)
MISSING_ERRORS = (FileNotFoundError, MissingPackageError)


def check_machine(args: Namespace) -> None:
    """Check device and memory budget at once, before data is looked for."""
    if getattr(args, "report_only", False):  # results of another machine, perhaps
        return
    try:
        if getattr(args, "memory_budget", None) is not None:
            parse_bytes(args.memory_budget)
        to_device(np.empty(0), getattr(args, "device", None))
    except (ValueError, ModuleNotFoundError) as error:
        raise MachineError(str(error)) from error


def demo(args: Namespace) -> int:
    """Print the comparison, then draw the figure."""
    from kaucus.experiments import _demo

    results = _demo.compare_models()
    print_table(_demo.HEADERS, [result.texts() for result in results])
    print(_demo.SETTINGS_TEXT)
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"wrote {_demo.draw_demo(folder / 'kaucus-demo.png')}")
    return 0


def reproduce(args: Namespace) -> int:
    """Run a paper's cells and print ours beside the published numbers."""
    if args.list:
        return _list(args.paper)
    if args.page is not None:
        from kaucus.experiments._overview import overview_page

        print(overview_page(args.page), end="")
        return 0
    if args.paper is None:
        known = ", ".join(list_papers())
        raise UnknownPaperError(
            f"Say which paper to reproduce. Choose one of: {known}."
        )
    from kaucus.experiments._report import HEADERS, report_rows
    from kaucus.experiments._reproduce import reproduce_paper

    settings = Settings(
        device=args.device,
        memory_budget=args.memory_budget,
        data_home=args.data_home,
        seeds=None if args.seeds is None else tuple(range(args.seeds)),
        full=args.full,
        fresh=args.fresh,
        report_only=args.report_only,
    )
    output = args.output or Path("kaucus-results") / args.paper
    done = reproduce_paper(args.paper, output, settings)
    print_table(HEADERS, report_rows(done.rows), title=done.title)
    _print_end(done.lines, done.files)
    return done.exit_code


def _list(name: str | None) -> int:
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
