"""The machine and the versions behind a number, so that it can be read later."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from kaucus import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "scikit-learn-intelex")


def describe_machine(*, gpu: str | None = None) -> dict[str, Any]:
    """Describe the machine and the libraries for a results file.

    Parameters
    ----------
    gpu : str, default=None
        Name of the GPU that did the work. Only the backend may ask torch for it.

    Returns
    -------
    dict
        ``date``, ``python``, ``platform``, ``cpu``, ``cores`` (those which this
        process may use), ``memory`` (bytes, None if unknown), ``blas`` (name and
        threads of the loaded libraries), ``gpu``, and ``versions``.

    Examples
    --------
    >>> describe_machine(gpu="none")["gpu"]
    'none'
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory": _physical_memory(),
        "blas": _blas(),
        "gpu": gpu,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    """Versions of what is installed; nothing is imported for it."""
    found = {"kaucus": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    """Name of the processor, from Linux's list where there is one."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _blas() -> list[str]:
    """Name, version and threads of each BLAS in this process."""
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool.get('version')}, {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
