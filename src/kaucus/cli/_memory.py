"""Rise of this process's memory while a command works."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path


def start_peak() -> Callable[[], int | None]:
    """Return a function that tells by how many bytes memory rose since this call.

    Linux forgets the earlier peak here; elsewhere a rise below it shows as none.
    Windows tells nothing: None.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    return lambda: None if before is None else max(0, _peak_bytes() - before)


def _peak_bytes() -> int | None:
    """Return the largest number of resident bytes so far, None on Windows.

    Not ``ru_maxrss`` on Linux: a child inherits its parent's value through exec.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
