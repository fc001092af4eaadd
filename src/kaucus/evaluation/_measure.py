"""Wall time and peak memory of a call."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def timed(function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function; return its result and its wall seconds.

    Examples
    --------
    >>> result, seconds = timed(sum, [1, 2, 3])
    >>> result
    6
    """
    start = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - start


def best_of(repeats: int, function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function several times; return its last result and its least seconds.

    The least time is the one which other programs on the machine disturbed least.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats} must be at least 1; pass 1 to run once.")
    runs = [timed(function, *args, **kwargs) for _ in range(repeats)]
    return runs[-1][0], min(seconds for _, seconds in runs)


@dataclass
class MemoryUse:
    """Resident memory in bytes before a block, and the most during it.

    Both are None where the system does not tell (Windows).
    """

    baseline: int | None = None
    peak: int | None = None

    @property
    def rise(self) -> int | None:
        """Bytes by which the peak exceeds the baseline."""
        if self.baseline is None or self.peak is None:
            return None
        return max(0, self.peak - self.baseline)


@contextmanager
def peak_memory() -> Iterator[MemoryUse]:
    """Measure by how much resident memory rises within a ``with`` block.

    ``baseline``, ``peak`` and ``rise`` are complete when the block has ended. Linux
    resets the process's earlier peak at entry. Elsewhere the peak is that of the whole
    process, so that a block which stays below an earlier one shows no rise.
    """
    with suppress(OSError):
        _CLEAR.write_text("5")  # Linux: set the peak back to what is used now
    use = MemoryUse(baseline=_status_bytes("VmRSS") or _peak_bytes())
    try:
        yield use
    finally:
        use.peak = _peak_bytes()


def _peak_bytes() -> int | None:
    """Return the largest number of resident bytes so far, None on Windows.

    Not ``ru_maxrss`` on Linux: a child inherits its parent's value through exec.
    """
    known = _status_bytes("VmHWM")
    if known is not None or sys.platform == "win32":
        return known
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(key: str) -> int | None:
    """Read one value in kB of Linux's status of this process, in bytes."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return next((int(value) * 1024 for value in values), None)
