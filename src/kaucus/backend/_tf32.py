"""torch's switch for tf32 products, turned on for one call and back.

torch has one switch for the process. It is read when a product is launched, so that it
need not stay on longer than that. Where several threads turn it on at a time, the first
to come does, and the last to go restores what it was.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

_holding = threading.Lock()
_holders: list[object] = []
_restore = contextlib.ExitStack()


def has_tf32(x) -> bool:
    """Tell whether products of such tensors can be in tf32."""
    return x.device.type == "cuda" and x.dtype == torch.float32


@contextlib.contextmanager
def tf32_products() -> Iterator[None]:
    """Let float32 products on CUDA be in tf32, and restore what was."""
    me = object()
    with _holding:
        if not _holders:
            _switch_on()
        _holders.append(me)
    try:
        yield
    finally:
        with _holding:
            _holders.remove(me)
            if not _holders:
                _restore.close()


def _switch_on() -> None:
    """Turn the switch on, by its newer name where torch has that."""
    switch = torch.backends.cuda.matmul
    name, on = (
        ("fp32_precision", "tf32")
        if hasattr(switch, "fp32_precision")
        else ("allow_tf32", True)
    )
    _restore.callback(setattr, switch, name, getattr(switch, name))
    setattr(switch, name, on)
