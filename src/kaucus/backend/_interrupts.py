"""Long calls of compiled code that Ctrl-C can leave.

Python looks for Ctrl-C between its own instructions, in the main thread: a call of
LAPACK that takes twenty seconds answers after twenty seconds. Where such a call can be
cut into short ones, it is cut (``_linalg``, ``_gram``); where it cannot, it runs in a
thread, and the main thread waits for one of the two, its end or Ctrl-C.
"""

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

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
