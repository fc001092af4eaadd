"""The ``kaucus`` command: its arguments, and what each subcommand calls.

Nothing heavy is imported here, so that ``kaucus --help`` answers at once.
"""

import argparse
import sys
from collections.abc import Sequence

from kaucus import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None takes those of the process.

    Returns
    -------
    int
        Exit code: 0 all is well; 1 a number is not the published one, or something
        failed; 2 wrong usage; 3 data or an optional package is missing; 130 Ctrl-C.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    kaucus ...
    0
    """
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse's own way to end after --help or an error
        return int(stop.code or 0)
    from kaucus.cli import _commands

    command = getattr(_commands, args.command)
    try:
        _commands.check_machine(args)
        return command(args)
    except _commands.USAGE_ERRORS as error:
        return _complain(error, 2)
    except _commands.MISSING_ERRORS as error:
        return _complain(error, 3)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def build_parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    parser = argparse.ArgumentParser(
        prog="kaucus",
        description="Kernel machines in which a few representatives speak for all "
        "the data.",
    )
    parser.add_argument("--version", action="version", version=f"kaucus {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_reproduce(commands)
    return parser


def _add_demo(commands) -> None:
    text = "compare our classifiers with SVC and draw a picture (under 30 s)"
    parser = commands.add_parser("demo", help=text, description=text)
    parser.add_argument(
        "--output",
        default=".",
        metavar="DIR",
        help="folder for kaucus-demo.png (default: this one)",
    )


def _add_reproduce(commands) -> None:
    text = "run the cells of a paper's tables and compare with the published numbers"
    parser = commands.add_parser(
        "reproduce",
        help=text,
        description=text,
        epilog="Finished results are kept: the same command goes on after a stop.",
    )
    add = parser.add_argument
    add("paper", nargs="?", metavar="PAPER", help="which paper; --list shows them")
    add(
        "--list",
        action="store_true",
        help="list papers, tables and figures, or PAPER's cells",
    )
    add("--full", action="store_true", help="run the cells that take long, too")
    add("--device", metavar="D", help="where to compute: cpu, cuda, cuda:1, ...")
    add("--memory-budget", metavar="B", help="bound on memory, such as 4GiB")
    add("--seeds", type=_positive, metavar="N", help="run every cell with seeds 0..N-1")
    add("--data-home", metavar="DIR", help="folder with the data (else KAUCUS_DATA)")
    add("--fresh", action="store_true", help="run again what is already there")
    text = "print one page of all papers' tables and figures, with the results in DIR"
    add("--page", metavar="DIR", help=text)
    text = "run nothing; write report and figures of the results that are there"
    add("--report-only", action="store_true", help=text)
    add(
        "--output",
        metavar="DIR",
        help="folder for the results (default: kaucus-results/PAPER)",
    )


def _positive(text: str) -> int:
    """Read an integer of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least 1")
    return int(text)


def _complain(problem: object, code: int) -> int:
    """Print one line about a problem, and return the exit code."""
    print(f"kaucus: {' '.join(str(problem).split())}", file=sys.stderr)
    return code
