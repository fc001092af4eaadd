"""Wall time and peak memory of a call, and the machine on which it ran."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from kaucus import __version__

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CPUS = Path("/proc/cpuinfo")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "scikit-learn-intelex")


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


def describe_machine(*, gpu: str | None = None) -> dict[str, Any]:
    """Describe the machine and the libraries for a results file.

    ``gpu`` is the name of the GPU that did the work: only the backend may ask torch for
    it. ``cores`` are those which this process may use, ``memory`` is in bytes (None if
    unknown).
    """
    from threadpoolctl import threadpool_info

    return {
        "date": now(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory": _physical_memory(),
        "blas": [
            f"{pool['internal_api']} {pool.get('version')}, "
            f"{pool['num_threads']} threads"
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        ],
        "gpu": gpu,
        "versions": _versions(),
    }


def now() -> str:
    """Return date and time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    """Return the versions of installed packages without importing them."""
    found = {"kaucus": __version__}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _cpu_model() -> str:
    found = _line_after_colon(_CPUS, "model name")
    return found or platform.processor() or platform.machine()


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


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
    found = _line_after_colon(_STATUS, key)
    return None if found is None else int(found.split()[0]) * 1024


def _line_after_colon(path: Path, key: str) -> str | None:
    """Return what follows ``key:`` in a file of Linux, None if it is not there."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    pairs = (line.partition(":") for line in lines)
    return next(
        (value.strip() for name, _, value in pairs if name.strip() == key), None
    )
