"""The ``kaucus`` command: runs it, and prints errors as one line.

Nothing heavy is imported here, so that ``kaucus --help`` answers at once.
"""

import contextlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None takes those of the process.

    Returns
    -------
    int
        Exit code: 0 all is well; 1 something failed; 2 wrong usage, or a file that
        cannot be used; 3 a file or an optional package is missing; 130 Ctrl-C.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    kaucus ...
    0
    """
    if importlib.util.find_spec("typer") is None:
        remedy = "typer is not installed; this needs it: pip install 'kaucus[cli]'"
        return _complain(remedy, 3)
    from kaucus.cli._app import app

    args = sys.argv[1:] if argv is None else list(argv)
    with _warnings_as_lines():
        return _run(app, args)


def _run(app, args: list[str]) -> int:
    import typer

    try:
        result = app(args or ["--help"], prog_name="kaucus", standalone_mode=False)
        # A call without a command shows the help, and is no success.
        return (int(result) if isinstance(result, int) else 0) if args else 2
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 130)
    except typer.BadParameter.__bases__[0] as error:  # any wrong usage
        where = getattr(error, "ctx", None)
        command = where.command_path if where else "kaucus"
        return _complain(f"{error.format_message()} Try '{command} --help'.", 2)
    except BrokenPipeError:  # `| head` has enough; no second error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from kaucus.cli import _errors

        code = _errors.exit_code_of(error)
        if code is None:
            raise
        return _complain(error, code)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Context manager: print each warning as one line, once in a run."""
    seen = set()

    def show(message, *_, **__) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            _complain(f"warning: {message}", 0)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", category)
        # scikit-learn's names no column; ours does.
        warnings.filterwarnings("ignore", "Found unknown categories")
        warnings.showwarning = show
        yield


def _complain(problem: object, code: int) -> int:
    """Print one line about a problem, and return the exit code."""
    print(f"kaucus: {' '.join(str(problem).split())}", file=sys.stderr)
    return code
