"""The machine and the libraries behind a results file."""

import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from kaucus import __version__

_CPUS = Path("/proc/cpuinfo")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "scikit-learn-intelex")


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
    names: list[str] = []
    with suppress(OSError):
        lines = _CPUS.read_text().splitlines()
        names = [
            text.partition(":")[2].strip() for text in lines if "model name" in text
        ]
    return next(iter(names), platform.processor() or platform.machine())


def _usable_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
