"""Work on many rows as work on blocks of rows, in threads, under a memory budget.

Blocks are computed in parallel but handed out in order, so that a sum over blocks
has one order of addition: the result depends on the size of the blocks (in the last
bits), never on the number of threads.

Why threads over blocks rather than BLAS's own: a kernel is a matrix product followed
by elementwise functions, and NumPy runs those on one core. With one BLAS thread per
worker both parts use all cores, and a block is still in cache when its elementwise
part begins. The kernels of this package spend part of that gain on distances that keep
their digits: ``benchmarks/blocks.py`` shows them beside one careless call.

Python looks for Ctrl-C between its own instructions, in the main thread: a call of
LAPACK that takes twenty seconds answers after twenty seconds. Where such a call can be
cut into short ones, it is cut (``_linalg``, ``_gram``); where it cannot, it runs in a
thread (:func:`interruptible`), and the main thread waits for its end or Ctrl-C.
"""

import contextlib
import contextvars
import functools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import threadpoolctl

from kaucus.backend._namespace import Array, is_numpy, is_sparse, itemsize, on_gpu

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
    gpu = on_gpu(X)
    wanted = _TILE_BYTES_GPU if gpu else _TILE_BYTES_CPU
    size = itemsize(X)
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
    """Return how many threads work on blocks of arrays such as ``like``.

    As many as BLAS would use, so that ``OMP_NUM_THREADS``, ``threadpool_limits`` and
    joblib's workers limit them too; one for torch, which runs every operation,
    elementwise ones included, in its own threads.
    """
    if like is not None and not (is_numpy(like) or is_sparse(like)):
        return 1
    return max((lib.num_threads or 1 for lib in _blas().lib_controllers), default=1)


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
        """Hold the setting."""
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
    """Hold BLAS to one thread for matrices too small to gain from more.

    BLAS threads wait for each other by spinning. On a busy machine that made a fit of
    898 rows take 2.7 s with two threads and 0.2 s with one; on an idle one, two threads
    would save some milliseconds.
    """
    return one_blas_thread() if n_rows <= _FEW_ROWS else contextlib.nullcontext()


class Scratch(threading.local):
    """Memory that each thread uses again for arrays that it needs for a moment.

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
