"""The one progress bar of the package: drawn on a terminal, never in a log."""

import math
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

_WIDTH = 24
_CLEAR_REST = "\x1b[K"  # of the line, from where the cursor is


def step_reporter(
    verbose: int, tol: float, max_iter: int, *, what: str = "residual"
) -> Callable[[int, float], None] | None:
    """Return a callback ``(step, residual)`` that draws a bar, or None if not shown.

    The bar is full when the residual has come down from 1 to ``tol``, measured in
    powers of ten, because conjugate gradients converge about linearly.
    """
    if not _is_shown(verbose):
        return None

    def report(step: int, residual: float) -> None:
        share = math.log(max(residual, tol)) / math.log(tol) if tol < 1 else 1.0
        text = f"step {step}, {what} {residual:.1e} (tol {tol:.0e})"
        _draw(share, text, ends=residual <= tol or step >= max_iter)

    return report


def share_reporter(verbose: int, what: str) -> Callable[[int, int], None] | None:
    """Return a callback ``(n_done, n_total)`` that draws a bar, or None if not shown.

    The bar tells the time left.
    """
    if not _is_shown(verbose):
        return None
    start = time.monotonic()

    def report(n_done: int, n_total: int) -> None:
        left = _time_left(start, n_done, n_total)
        text = f"{what} {n_done} of {n_total}{left}"
        _draw(n_done / max(n_total, 1), text, ends=n_done >= n_total)

    return report


def step_counter(verbose: int, total: int, what: str) -> Callable[[], None]:
    """Return a function that counts one step of ``total`` and draws the bar."""
    report, done = share_reporter(verbose, what), [0]

    def count() -> None:
        done[0] += 1
        if report is not None:
            report(done[0], total)

    return count


def tell_stage(verbose: int, text: str) -> None:
    """Print what is computed now, where nobody can say how much of it is done."""
    if _is_shown(verbose):
        print(f"[kaucus] {text}", file=sys.stderr, flush=True)


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
        """Show what runs now; a log holds only what is finished."""
        if self._has_bar:
            left = _time_left(self._start, self._done, self._total)
            text = f"{self._done} of {self._total}{left}: {text}"
            _draw(self._done / max(self._total, 1), text, stream=self._stream)

    def advance(self, text: str) -> None:
        """Count one step and print its line."""
        self._done += 1
        over_the_bar = f"\r{_CLEAR_REST}" if self._has_bar else ""
        line = f"[{self._done}/{self._total}] {text}"
        print(over_the_bar + line, file=self._stream, flush=True)


def _is_shown(verbose: int) -> bool:
    return bool(verbose) and sys.stderr.isatty()


def _time_left(start: float, n_done: int, n_total: int) -> str:
    if not n_done:
        return ""
    return f", {(time.monotonic() - start) * (n_total - n_done) / n_done:.0f} s left"


def _draw(
    share: float, text: str, *, ends: bool = False, stream: TextIO | None = None
) -> None:
    """Draw the bar over the line on which it was drawn before."""
    filled = int(_WIDTH * min(max(share, 0.0), 1.0))
    bar = "█" * filled + "·" * (_WIDTH - filled)
    columns = shutil.get_terminal_size().columns
    line = f"[kaucus] {bar} {text}"[: columns - 1]  # a line that wraps is not erased
    print(
        f"\r{line}{_CLEAR_REST}",
        end="\n" if ends else "",
        file=sys.stderr if stream is None else stream,
        flush=True,
    )
