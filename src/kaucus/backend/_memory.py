"""How many bytes there are, and how many a piece of work may take."""

import ctypes
import functools
import os
import re
import sys
from pathlib import Path

from kaucus.backend._blocks import n_workers
from kaucus.backend._namespace import Array, is_cupy, is_torch, torch_versions

# What a thread keeps; budgets below 32 MiB are used whole.
_THREAD_BYTES, _MIB32 = 16 * 2**20, 32 * 2**20
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def parse_bytes(size: int | float | str) -> int:
    """Turn ``"4GiB"``, ``"500 MB"`` or a number into bytes.

    >>> parse_bytes("1.5GiB")
    1610612736
    """
    number, unit = size, ""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", str(size))
    if isinstance(size, str) and match is not None:
        number, unit = match[1], match[2].lower()
    try:
        n_bytes = 0 if isinstance(size, bool) else int(float(number) * _UNITS[unit])
    except (KeyError, OverflowError, TypeError, ValueError):
        n_bytes = 0
    if n_bytes < 1:
        raise ValueError(
            f"memory_budget={size!r} is not a size; pass a positive number of bytes, "
            "a text such as '4GiB' or '500MB', or None."
        )
    return n_bytes


def format_bytes(n_bytes: float | None) -> str:
    """Write bytes for people, in powers of two; a dash where they are unknown.

    >>> format_bytes(3_221_225_472)
    '3.0 GiB'
    """
    if n_bytes is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 1024:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


def resolve_budget(budget: int | float | str | None, like: Array = None) -> int:
    """Return the bytes that may be used: ``None`` means three quarters of the free.

    ``like`` names the device that is meant: the host, or a tensor's GPU. Of a budget
    that is given, what several threads keep of freed memory is taken off.
    """
    if budget is None:
        return free_memory(like) * 3 // 4
    n_bytes = parse_bytes(budget)
    if n_bytes < _MIB32:
        return n_bytes
    return n_bytes - min(_kept_by_threads(like), n_bytes // 2)


def budget_to_have(n_bytes: float, like: Array = None) -> int:
    """Return the ``memory_budget`` of which so many bytes may be used."""
    if n_bytes < _MIB32:  # of which resolve_budget takes nothing off
        return int(n_bytes)
    return int(n_bytes) + min(_kept_by_threads(like), int(n_bytes))


def _kept_by_threads(like: Array) -> int:
    """Return what C's library keeps for the threads that work on tiles, in bytes.

    glibc gives each thread memory of its own, and does not give the end of it back
    (measured with two threads: 25 to 40 MiB, after tiles of 1 to 8 MiB).
    """
    workers = n_workers(like)
    return workers * _THREAD_BYTES if workers > 1 else 0


def free_memory(like: Array = None) -> int:
    """Return the free bytes of the host, or of the device of the tensor ``like``."""
    if like is not None and is_torch(like):
        on_device = torch_versions().free_memory(like)
        if on_device is not None:
            return on_device
    if like is not None and is_cupy(like):
        return _cupy_free_memory(like)
    return _host_free_memory()


@functools.cache
def _malloc_trim():
    """Return glibc's function that gives freed memory back, or None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_freed_memory() -> None:
    """Give memory that was freed back to the system, where C's library keeps it.

    glibc keeps what its threads have freed, each its own: after work on tiles in two
    threads some 30 MiB. To be called between stages that hold different things.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _cupy_free_memory(like: Array) -> int:
    import cupy  # pyright: ignore[reportMissingImports]

    # What CuPy holds in reserve from arrays that are gone is free for new ones.
    with like.device:
        return like.device.mem_info[0] + cupy.get_default_memory_pool().free_bytes()


def _host_free_memory() -> int:
    free = [_system_free_memory()]
    # Inside a container the limit of its control group is what counts.
    limit = _read_int(Path("/sys/fs/cgroup/memory.max"))
    used = _read_int(Path("/sys/fs/cgroup/memory.current"))
    if limit is not None and used is not None:
        free.append(max(limit - used, 0))
    return min(free)


def _read_int(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not Linux, or the text "max": no limit
        return None


def _system_free_memory() -> int:
    try:
        text = Path("/proc/meminfo").read_text()
        return int(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        pass
    if sys.platform == "win32":
        return _windows_free_memory()
    # macOS tells only the total; half of it is a careful guess of what is free.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _windows_free_memory() -> int:
    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong)] + [
            (name, ctypes.c_ulonglong)
            for name in ("total", "available", "tp", "ap", "tv", "av", "ae")
        ]

    status = Status(length=ctypes.sizeof(Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore
    return status.available
