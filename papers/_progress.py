"""Progress of long steps: a line for each, and a bar on a terminal."""

import sys
import time
from typing import TextIO

from kaucus._base import _CLEAR_REST, _draw, _time_left


class StepProgress:
    """Progress of long steps, each of which leaves a line of text.

    On a terminal the lines are above a bar; in a log there are the lines alone.

    Parameters
    ----------
    total : int
        Number of steps.
    stream : text stream, default=None
        Where to; None is the standard error.
    """

    def __init__(self, total: int, stream: TextIO | None = None):
        self._total, self._done = total, 0
        self._stream = sys.stderr if stream is None else stream
        self._has_bar = self._stream.isatty()
        self._start = time.monotonic()

    def __enter__(self) -> "StepProgress":
        return self

    def __exit__(self, *exc_info) -> None:
        if self._has_bar:
            print(f"\r{_CLEAR_REST}", end="", file=self._stream, flush=True)

    def begin(self, text: str) -> None:
        """Draw the stage that begins; logs list finished stages only."""
        if self._has_bar:
            left = _time_left(self._start, self._done, self._total)
            text = f"{self._done} of {self._total}{left}: {text}"
            _draw(self._done / max(self._total, 1), text, [], stream=self._stream)

    def advance(self, text: str) -> None:
        """Count one step and print its line."""
        self._done += 1
        over_the_bar = f"\r{_CLEAR_REST}" if self._has_bar else ""
        line = f"[{self._done}/{self._total}] {text}"
        print(over_the_bar + line, file=self._stream, flush=True)
