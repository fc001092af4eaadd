"""A line of progress on a terminal, and nothing in a log."""

import math
import sys
import time
from collections.abc import Callable

_WIDTH = 24


def step_reporter(
    verbose: int, tol: float, max_iter: int, *, what: str = "residual"
) -> Callable[[int, float], None] | None:
    """Return a callback that draws a bar, or None where there is nobody to see it.

    The bar is full when the residual has come down from 1 to ``tol``, measured in
    powers of ten, because conjugate gradients converge about linearly.
    """
    if not verbose or not sys.stderr.isatty():
        return None

    def report(step: int, residual: float) -> None:
        share = math.log(max(residual, tol)) / math.log(tol) if tol < 1 else 1.0
        filled = round(_WIDTH * min(max(share, 0.0), 1.0))
        bar = "█" * filled + "·" * (_WIDTH - filled)
        end = "\n" if residual <= tol or step >= max_iter else ""
        print(
            f"\r[kaucus] {bar} step {step}, {what} {residual:.1e} (tol {tol:.0e})",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    return report


def share_reporter(verbose: int, what: str) -> Callable[[int, int], None] | None:
    """Return a callback ``(n_done, n_total)`` that draws a bar and the time left.

    None where there is nobody to see it.
    """
    if not verbose or not sys.stderr.isatty():
        return None
    start = time.monotonic()

    def report(n_done: int, n_total: int) -> None:
        filled = _WIDTH * n_done // max(n_total, 1)
        bar = "█" * filled + "·" * (_WIDTH - filled)
        left = (time.monotonic() - start) * (n_total - n_done) / max(n_done, 1)
        time_left = f", {left:.0f} s left" if n_done else ""
        print(
            f"\r[kaucus] {bar} {what} {n_done} of {n_total}{time_left}  ",
            end="\n" if n_done >= n_total else "",
            file=sys.stderr,
            flush=True,
        )

    return report


def tell_stage(verbose: int, text: str) -> None:
    """Print what is computed now, where nobody can say how much of it is done."""
    if verbose and sys.stderr.isatty():
        print(f"[kaucus] {text}", file=sys.stderr, flush=True)
