"""Wall time and peak memory of a piece of work, here or in a fresh process.

Libraries are compared fairly only if none inherits another's warm caches, thread
pools or memory: :func:`run_isolated` gives each a process of its own.
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Stopwatch:
    """Measure the wall seconds of a ``with`` block.

    Attributes
    ----------
    seconds : float
        Seconds so far while the block runs, the whole time afterwards.

    Examples
    --------
    >>> with Stopwatch() as watch:
    ...     total = sum(range(1000))
    >>> watch.seconds > 0
    True
    """

    def __init__(self):
        self._start = time.perf_counter()
        self._end: float | None = None

    @property
    def seconds(self) -> float:
        """Wall seconds between entry and now, or the exit."""
        end = time.perf_counter() if self._end is None else self._end
        return end - self._start

    def __enter__(self) -> "Stopwatch":
        self._start, self._end = time.perf_counter(), None
        return self

    def __exit__(self, *exc_info) -> None:
        self._end = time.perf_counter()


def timed(function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function; return its result and its wall seconds.

    Parameters
    ----------
    function : callable
    *args
        Its arguments.
    **kwargs
        Its arguments by name.

    Examples
    --------
    >>> result, seconds = timed(sum, [1, 2, 3])
    >>> result
    6
    """
    with Stopwatch() as watch:
        result = function(*args, **kwargs)
    return result, watch.seconds


def best_of(repeats: int, function: Callable, *args, **kwargs) -> tuple[Any, float]:
    """Call a function several times; return its last result and its least seconds.

    The least time is the one which other programs on the machine disturbed least.

    Parameters
    ----------
    repeats : int
    function : callable
    *args
        Its arguments.
    **kwargs
        Its arguments by name.

    Examples
    --------
    >>> result, seconds = best_of(3, sum, [1, 2, 3])
    >>> result
    6
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats} must be at least 1; pass 1 to run once.")
    runs = [timed(function, *args, **kwargs) for _ in range(repeats)]
    return runs[-1][0], min(seconds for _, seconds in runs)


@dataclass
class MemoryUse:
    """Resident memory in bytes before a block, and the most during it.

    Both are None where the system does not tell (Windows).

    Parameters
    ----------
    baseline : int, default=None
        Before.
    peak : int, default=None
        At most.
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

    Yields
    ------
    MemoryUse
        ``baseline``, ``peak`` and ``rise``, complete when the block has ended.

    Notes
    -----
    Linux forgets the process's earlier peak at entry. Elsewhere the peak is the
    whole process's, so that a block which stays below an earlier one shows no
    rise; :func:`run_isolated` avoids that.

    Examples
    --------
    >>> with peak_memory() as memory:
    ...     block = bytearray(1000)
    """
    _forget_peak()
    use = MemoryUse(baseline=_current_rss())
    try:
        yield use
    finally:
        use.peak = _max_rss()


class IsolatedRun(NamedTuple):
    """What a function returned in a process of its own, and what it took."""

    result: Any
    seconds: float
    baseline: int | None
    peak: int | None


def run_isolated(
    function: Callable, *args, imports: Sequence[str] = (), **kwargs
) -> IsolatedRun:
    """Run a function in a fresh Python process.

    Parameters
    ----------
    function : callable
        Importable by name, since the new process imports it.
    *args
        Its arguments; they and the result must be picklable.
    imports : sequence of str, default=()
        Modules which the new process imports before the clock starts and the
        baseline of memory is taken.
    **kwargs
        Its arguments by name.

    Returns
    -------
    IsolatedRun
        ``result``; wall ``seconds`` of the call alone; resident bytes after the
        imports (``baseline``) and at most (``peak``), None where unknown.

    Raises
    ------
    RuntimeError
        When the process dies, for example for lack of memory. An exception of
        the function itself is raised here as it is.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        future = pool.submit(_measure, function, args, kwargs, tuple(imports))
        try:
            return future.result()
        except BrokenProcessPool as error:
            name = getattr(function, "__qualname__", repr(function))
            raise RuntimeError(
                f"The process that ran {name} was killed before it returned; this is "
                "most often a lack of memory. Use less data or a smaller budget."
            ) from error


def _measure(function, args, kwargs, imports) -> IsolatedRun:
    """Child's side of :func:`run_isolated`."""
    for name in imports:
        importlib.import_module(name)
    with peak_memory() as memory:
        result, seconds = timed(function, *args, **kwargs)
    return IsolatedRun(result, seconds, memory.baseline, memory.peak)


def _forget_peak() -> None:
    """Set Linux's high-water mark of this process back to what it uses now."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def _current_rss() -> int | None:
    """Resident bytes now; the largest so far where only that is known."""
    return _status_bytes("VmRSS") or _max_rss()


def _max_rss() -> int | None:
    """Largest number of resident bytes so far.

    Not ``ru_maxrss`` on Linux: a child inherits its parent's value through exec.
    """
    known = _status_bytes("VmHWM")
    if known is not None or sys.platform == "win32":
        return known
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(key: str) -> int | None:
    """Read one line of Linux's own account of this process."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None
