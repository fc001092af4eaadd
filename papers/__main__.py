"""``python -m papers``: run the cells of a paper and compare with what is printed."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kaucus._array.blocks import parse_bytes
from kaucus._array.namespace import to_device
from kaucus.evaluation.clustering import print_table
from papers import (
    MissingPackageError,
    Settings,
    SpecError,
    StoreError,
    UnknownPaperError,
    list_papers,
    load_paper,
)
from papers._overview import overview_page
from papers._report import HEADERS, make_labels, report_rows
from papers._reproduce import INTERRUPTED, SKIPPED, USAGE, reproduce_paper

USAGE_ERRORS = (
    UnknownPaperError,
    SpecError,
    StoreError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code.

    0 all is well; 1 a number is not the published one, or a cell failed; 2 wrong usage,
    or a file that cannot be used; 3 data or an optional package is missing; 130 Ctrl-C.
    """
    shown, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        return _run(_parser().parse_args(argv))
    except SystemExit as stop:  # argparse: help, or wrong usage
        return int(stop.code or 0)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except USAGE_ERRORS as error:
        return _complain(error, USAGE)
    except (FileNotFoundError, MissingPackageError) as error:
        return _complain(error, SKIPPED)
    finally:
        warnings.showwarning = shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m papers",
        description="Run the cells of a paper's tables and compare with the published "
        "numbers. Finished results are kept: the same command goes on after a stop.",
        epilog="Exit codes: 0 all is well, 1 a number is not the published one or a "
        "cell failed, 2 wrong usage or a file that cannot be used, 3 data or a package "
        "is missing, 130 Ctrl-C.",
    )
    add = parser.add_argument
    add("paper", nargs="?", help="which paper; --list shows them", metavar="NAME")
    add("--list", action="store_true", help="list papers and items, or NAME's cells")
    add("--full", action="store_true", help="run the cells that take long, too")
    add("--device", help="where to compute: cpu, cuda, cuda:1, ...")
    add("--memory-budget", help="bound on memory, such as 4GiB", metavar="SIZE")
    add("--seeds", type=_seeds, help="run every cell with seeds 0..N-1", metavar="N")
    add("--data-home", help="folder with the data (else KAUCUS_DATA)", metavar="DIR")
    add("--fresh", action="store_true", help="run again what is already there")
    add(
        "--report-only",
        action="store_true",
        help="run nothing; write report and figures of the results that are there",
    )
    add(
        "--page",
        type=Path,
        help="print one page of all papers, with the results in DIR",
        metavar="DIR",
    )
    add("--output", type=Path, help="default: kaucus-results/NAME", metavar="DIR")
    return parser


def _seeds(text: str) -> tuple[int, ...]:
    """Read an integer of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least 1")
    return tuple(range(int(text)))


def _run(args: argparse.Namespace) -> int:
    if args.list:
        return _list_cells(args.paper) if args.paper else _list_papers()
    if args.page is not None:
        print(overview_page(args.page), end="")
        return 0
    if args.paper is None:
        known = ", ".join(list_papers())
        raise UnknownPaperError(f"Say which paper to run. Choose one of: {known}.")
    if not args.report_only:  # results of another machine, perhaps
        try:
            _check_machine(args.device, args.memory_budget)
        except (ValueError, ModuleNotFoundError) as error:
            return _complain(error, USAGE)
    settings = Settings(
        device=args.device,
        memory_budget=args.memory_budget,
        data_home=args.data_home,
        seeds=args.seeds,
        full=args.full,
        fresh=args.fresh,
        report_only=args.report_only,
    )
    output = args.output or Path("kaucus-results") / args.paper
    done = reproduce_paper(args.paper, output, settings)
    print_table(HEADERS, report_rows(done.rows), title=done.title)
    print(*done.lines, *(f"wrote {file}" for file in done.files), sep="\n")
    return done.exit_code


def _check_machine(device: str | None, memory_budget: str | None) -> None:
    """Raise an error for a device or an amount of memory that is not here."""
    if memory_budget is not None:
        parse_bytes(memory_budget)
    to_device(np.empty(0), device)


def _list_papers() -> int:
    """Print the papers with their tables and figures."""
    for known in list_papers():
        paper = load_paper(known)
        print(f"{known}  {paper.title}")
        for item in paper.items:
            note = "" if item.code else f" (left out: {item.remark})"
            print(f"    {item.name}: {item.what}{note}")
    return 0


def _list_cells(name: str) -> int:
    """Print the cells of a paper."""
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


def _show_warning(message, *_, **__) -> None:
    """Print a warning as one line, without the place in the code."""
    _complain(f"warning: {message}", 0)


def _complain(problem: object, code: int) -> int:
    """Print one line about a problem, and return the exit code."""
    print(f"papers: {' '.join(str(problem).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
