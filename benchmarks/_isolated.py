"""Run a function in a fresh process, and measure it there.

Libraries are compared fairly only if none inherits another's warm caches, thread
pools or memory.
"""

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, NamedTuple

from papers import peak_memory, timed


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
    """Import, then run and measure, in the new process."""
    for name in imports:
        importlib.import_module(name)
    with peak_memory() as memory:
        result, seconds = timed(function, *args, **kwargs)
    return IsolatedRun(result, seconds, memory.baseline, memory.peak)
