"""Blocks of rows within a memory budget, in threads."""

import contextlib
import contextvars
import ctypes
import functools
import math
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import threadpoolctl

from kaucus._array import namespace as nx
from kaucus._array.namespace import Array

# ----------------------------------------------------------------------------------
# Work on many rows as work on blocks of rows, in threads, under a memory budget.
#
# Blocks are computed in parallel but handed out in order, so that a sum over blocks
# has one order of addition: the result depends on the size of the blocks (in the last
# bits), never on the number of threads.
#
# Why threads over blocks rather than BLAS's own: a kernel is a matrix product followed
# by elementwise functions, and NumPy runs those on one core. With one BLAS thread per
# worker both parts use all cores, and a block is still in cache when its elementwise
# part begins. The kernels of this package spend part of that gain on distances that
# keep their digits: ``benchmarks/blocks.py`` shows them beside one careless call.
#
# Python looks for Ctrl-C between its own instructions, in the main thread: a call of
# LAPACK that takes twenty seconds answers after twenty seconds. Where such a call can
# be cut into short ones, it is cut (``linalg``); where it cannot, it runs
# in a thread (:func:`interruptible`), and the main thread waits for its end or Ctrl-C.
# ----------------------------------------------------------------------------------

Block = TypeVar("Block")
Result = TypeVar("Result")

# A tile of this size is still in the cache when the elementwise part begins: of one
# core of a CPU, or of a GPU, which needs large tiles to be busy.
_TILE_BYTES_CPU = 8 * 2**20
_TILE_BYTES_GPU = 32 * 2**20
# Wider tiles are lower ones, and low ones make the product inefficient.
_TILE_COLUMNS = 4096
_LEAST_TILE_ROWS = 64
# A smaller tile takes less memory than the objects of Python that describe it.
_LEAST_TILE_ENTRIES = 256
# See few_threads_for.
_FEW_ROWS = 1000
# A kernel makes about this many temporaries as large as its tile.
_TEMPORARIES = 4


def row_blocks(n_rows: int, bytes_per_row: int, budget: int) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)``, each within ``budget`` bytes.

    A single row is never split, even where it is larger than the budget.
    """
    step = max(1, budget // max(bytes_per_row, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def tile_shape(X: Array, n_columns: int, budget: int) -> tuple[int, int]:
    """Return rows and columns of the tiles in which a kernel of ``X`` is computed."""
    gpu = nx.on_gpu(X)
    wanted = _TILE_BYTES_GPU if gpu else _TILE_BYTES_CPU
    size = nx.itemsize(X)
    allowed = budget // (n_workers(X) * _TEMPORARIES)
    elements = max(min(wanted, allowed) // size, _LEAST_TILE_ENTRIES)
    columns = max(min(n_columns, _TILE_COLUMNS, elements), 1)
    if not gpu:
        columns = max(min(columns, elements // _LEAST_TILE_ROWS), 1)
    return max(elements // columns, 1), columns


def tiles(shape: tuple[int, int], tile: tuple[int, int]) -> list[tuple[slice, slice]]:
    """Return the row and column slices of the tiles that cover a matrix."""
    return [
        (slice(i, min(i + tile[0], shape[0])), slice(j, min(j + tile[1], shape[1])))
        for i in range(0, shape[0], tile[0])
        for j in range(0, shape[1], tile[1])
    ]


def symmetric_tiles(n: int, tile: tuple[int, int]) -> list[tuple[slice, slice]]:
    """Return the tiles that cover a symmetric matrix on and above its diagonal.

    The first tile of each panel of rows begins with the square on the diagonal; no
    other tile touches the diagonal. So a tile is at least as wide as high: one that is
    higher becomes a square of no more entries.
    """
    height = min(tile[0], math.isqrt(tile[0] * tile[1]))
    width = max(tile[1], height)
    panels = [slice(i, min(i + height, n)) for i in range(0, n, height)]
    return [
        (rows, slice(j, min(j + width, n)))
        for rows in panels
        for j in range(rows.start, n, width)
    ]


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    # Finding the loaded BLAS libraries takes milliseconds: once per process.
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def n_workers(like: Array = None) -> int:
    """Return the number of threads for blocks of arrays such as ``like``.

    As many as BLAS would use, so that ``OMP_NUM_THREADS``, ``threadpool_limits`` and
    joblib's workers limit them too; one for torch, which runs every operation,
    elementwise ones included, in its own threads.
    """
    if like is not None and not (nx.is_numpy(like) or nx.is_sparse(like)):
        return 1
    return max([lib.num_threads or 1 for lib in _blas().lib_controllers], default=1)


@functools.cache
def _openmp() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(user_api="openmp")


def one_openmp_thread() -> contextlib.AbstractContextManager:
    """Context manager: one OpenMP thread for what this thread calls.

    Threads of OpenMP wait for each other by spinning: beside other programs trees of
    1,500 rows took 65 s with two and 10 s with one, on an idle machine 0.5 and 0.4 s.
    """
    return _openmp().limit(limits=1)


class SharedSwitch:
    """A setting of the whole process that several threads turn on for a while.

    The first to come turns it on, the last to go restores what it was.

    Parameters
    ----------
    turn_on : callable
        Returns a context manager that turns it on, and restores it.
    """

    def __init__(self, turn_on: Callable[[], Any]) -> None:
        self._turn_on, self._lock = turn_on, threading.Lock()
        self._holders: list[object] = []
        self._restore = contextlib.ExitStack()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Return a context manager for the setting."""
        me = object()
        with self._lock:
            if not self._holders:
                self._restore.enter_context(self._turn_on())
            self._holders.append(me)
        try:
            yield
        finally:
            with self._lock:
                self._holders.remove(me)
                if not self._holders:
                    self._restore.close()


one_blas_thread = SharedSwitch(lambda: _blas().limit(limits=1))
"""Hold BLAS to one thread, and restore what it had."""


def few_threads_for(n_rows: int) -> contextlib.AbstractContextManager[None]:
    """Context manager: one BLAS thread for matrices too small to gain from more.

    BLAS threads wait for each other by spinning. On a busy machine that made a fit of
    898 rows take 2.7 s with two threads and 0.2 s with one; on an idle one, two threads
    would save some milliseconds.
    """
    return one_blas_thread() if n_rows <= _FEW_ROWS else contextlib.nullcontext()


class Scratch(threading.local):
    """Reusable buffers of each thread, for temporary arrays.

    Fresh memory costs a page fault for every 4 KiB. Where malloc gives large arrays
    back to the system at once, as in Dask's workers, that was a third of a fit's time.
    """

    _bytes = np.empty(0, np.uint8)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array with any content, valid until the thread's next call."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if self._bytes.size < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes].view(dtype).reshape(shape)


def map_blocks(
    function: Callable[[Block], Result],
    blocks: Iterable[Block],
    *,
    workers: int,
    abandon: bool = False,
) -> Iterator[Result]:
    """Iterate over ``function(block)`` of each block, in order, computed in threads.

    At most ``workers + 1`` results exist at a time, so that slow consumers do not
    make finished blocks pile up. After an error or Ctrl-C no other block is begun, and
    those that are being computed are waited for; with ``abandon`` they are left to end
    by themselves, for long blocks that write into no memory of the caller's.
    """
    if workers <= 1:
        return map(function, blocks)
    return _map_in_threads(function, blocks, workers, abandon)


def _map_in_threads(
    function: Callable[[Block], Result],
    blocks: Iterable[Block],
    workers: int,
    abandon: bool,
) -> Iterator[Result]:
    pending: deque[Future] = deque()
    pool = ThreadPoolExecutor(workers)
    with one_blas_thread():
        try:
            for block in blocks:
                pending.append(pool.submit(function, block))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(wait=not abandon, cancel_futures=True)


def reduce_blocks(
    function: Callable[[Block], Result],
    blocks: Iterable[Block],
    merge: Callable[[Result, Result], Result],
    *,
    workers: int,
) -> Result:
    """Return ``function`` of every block, merged from the first to the last."""
    return functools.reduce(merge, map_blocks(function, blocks, workers=workers))


def for_each_block(
    function: Callable[[Block], Any], blocks: Iterable[Block], *, workers: int
) -> None:
    """Call ``function`` on every block, for its effect on memory of the caller's."""
    for _ in map_blocks(function, blocks, workers=workers):
        pass


def in_threads(
    function: Callable[[int], Result], n_jobs: int, workers: int, stop: threading.Event
) -> list[Result]:
    """Return ``function(k)`` of each job; an error or Ctrl-C sets ``stop`` for all."""
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(function, k) for k in range(n_jobs)]
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---- calls that Ctrl-C can leave -----------------------------------------------------


# Windows notices Ctrl-C only between two waits; elsewhere a wait ends at once.
_WAIT_SECONDS = 0.1


def interruptible(function: Callable[..., Result], *args: Any) -> Result:
    """Return ``function(*args)``, from a thread that Ctrl-C does not wait for.

    The price: a call that was left goes on in its thread until it ends by itself, and
    takes a core and its memory until then; its result is dropped. So ``function`` must
    release Python's global lock for most of its time (NumPy does, SciPy's wrappers of
    LAPACK do not) and write into no memory that is used after an interrupt.

    In another thread than the main one, which alone learns of Ctrl-C, it is called as
    it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    outcome: list[tuple[bool, Any]] = []
    ended = threading.Event()
    context = contextvars.copy_context()  # NumPy's error state, for one

    def work() -> None:
        try:
            outcome.append((True, context.run(function, *args)))
        except BaseException as error:
            outcome.append((False, error))
        finally:
            ended.set()

    # A daemon: the end of the program does not wait for it either.
    threading.Thread(target=work, name="kaucus-interruptible", daemon=True).start()
    while not ended.wait(_WAIT_SECONDS):
        pass
    succeeded, value = outcome.pop()
    if not succeeded:
        raise value
    return value


# ----------------------------------------------------------------------------------
# How many bytes there are, and how many a piece of work may take.
# ----------------------------------------------------------------------------------

# Where Linux tells of control groups, and of those that this process is in.
_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
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
            "a string such as '4GiB' or '500MB', or None."
        )
    return n_bytes


def format_bytes(n_bytes: float | None) -> str:
    """Return bytes as text in powers of two; a dash for None.

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
        n_bytes = free_memory(like) * 3 // 4
        if n_bytes < 1:
            raise MemoryError(
                "No memory is free: this machine, its container or ulimit leaves none. "
                "Free some, raise the limit, or pass memory_budget, such as '1GiB', "
                "if more can be had than is reported."
            )
        return n_bytes
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
    """Return the bytes that malloc keeps for the threads that compute tiles.

    glibc gives each thread memory of its own, and does not give the end of it back
    (measured with two threads: 25 to 40 MiB, after tiles of 1 to 8 MiB).
    """
    workers = n_workers(like)
    return workers * _THREAD_BYTES if workers > 1 else 0


def free_memory(like: Array = None) -> int:
    """Return the free bytes of the host, or of the device of the tensor ``like``."""
    if like is not None and nx.is_torch(like):
        on_device = nx.torch_versions().free_memory(like)
        if on_device is not None:
            return on_device
    if like is not None and nx.is_cupy(like):
        return _cupy_free_memory(like)
    return _host_free_memory()


@functools.cache
def _malloc_trim():
    """Return glibc's function that gives freed memory back, or None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_freed_memory() -> None:
    """Return freed memory from the C allocator to the system.

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
    # Inside a container the limits of its control groups are what counts.
    left = [_system_free_memory(), *_left_in_groups(), *_left_to_address()]
    return max(min(left), 0)


def _left_in_groups() -> Iterator[int]:
    """Yield the free bytes of this process's control group and of its parents.

    The page cache counts as used there, but gives way to whoever needs memory.
    """
    try:
        own = _OWN_GROUPS.read_text()
    except OSError:  # not Linux
        return
    for limit_file, used_file, stat_file, prefix in _group_files(_GROUPS, own):
        limit, used = _read_int(limit_file), _read_int(used_file)
        # Version 1 writes a number of some 2⁶³ where there is no limit.
        if limit is not None and used is not None and limit < 2**60:
            yield limit - used + _page_cache(stat_file, prefix)


@functools.cache
def _group_files(root: Path, own: str) -> list[tuple[Path, Path, Path, str]]:
    """Return the files of limit, use and statistics of each group there is."""
    found = []
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, names, prefix = root, ("memory.max", "memory.current"), ""
        elif "memory" in controllers.split(","):
            top, prefix = root / "memory", "total_"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = top / path.strip("/")
        # Inside a container the path may be that outside: then only the top is there.
        for some in dict.fromkeys([group, *group.parents, top]):
            if some.is_relative_to(top) and (some / names[0]).exists():
                files = some / names[0], some / names[1], some / "memory.stat"
                found.append((*files, prefix))
    return found


def _page_cache(path: Path, prefix: str) -> int:
    kinds = prefix + "active_file", prefix + "inactive_file"
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return sum(int(line[1]) for line in lines if line[0] in kinds)
    except (OSError, ValueError, IndexError):
        return 0


def _left_to_address() -> Iterator[int]:
    """Yield the free bytes under RLIMIT_AS (``ulimit -v``); nothing without a limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # not Linux
        return


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
