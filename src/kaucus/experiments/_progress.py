"""Progress: a bar on a terminal, one plain line per finished step in a log."""

import importlib.util
import sys
from typing import TextIO


class PlainProgress:
    """Print one line per finished step; the right thing for a log file."""

    def __init__(self, total: int, stream: TextIO):
        self._total = total
        self._done = 0
        self._stream = stream

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *exc_info) -> None:
        return None

    def begin(self, text: str) -> None:
        """Say nothing: a log holds what is finished."""

    def advance(self, text: str) -> None:
        """Count one step and print what it gave."""
        self._done += 1
        print(f"[{self._done}/{self._total}] {text}", file=self._stream, flush=True)


class RichProgress:
    """Draw a bar with rich, and the finished steps above it."""

    def __init__(self, total: int, stream: TextIO):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> "RichProgress":
        self._progress.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self._progress.stop()

    def begin(self, text: str) -> None:
        """Show what runs now."""
        self._progress.update(self._task, description=text)

    def advance(self, text: str) -> None:
        """Count one step and print what it gave above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)
        self._progress.advance(self._task)


def make_progress(
    total: int, stream: TextIO | None = None
) -> PlainProgress | RichProgress:
    """Choose how to show the progress of ``total`` steps.

    Parameters
    ----------
    total : int
        Number of steps.
    stream : text stream, default=None
        Where to; None is the standard error.

    Returns
    -------
    PlainProgress or RichProgress
        A context manager with ``begin(text)`` and ``advance(text)``. A bar only
        if the stream is a terminal and rich is installed.
    """
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        return RichProgress(total, stream)
    return PlainProgress(total, stream)
