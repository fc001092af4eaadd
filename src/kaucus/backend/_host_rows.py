"""Rows that stay on the host while the work on them is on a device.

To the core they look like a matrix on the device: they have a shape, and the library,
device and precision that their blocks will have there. What cannot be asked for is all
of them at once, but blocks (``stream_blocks``), and rows by number (``take_rows``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class HostRows:
    """A NumPy matrix whose rows are copied to a device in blocks.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Also a memory map; never changed.
    like : array
        Whose library, device and precision the blocks have.
    buffer_bytes : int
        Bytes that blocks being copied may take on the device, and as many again what
        is made of them on the spot.
    order : ndarray of shape (m,), default=None
        Which rows of ``values`` these are, in which order; None means all.
    function : callable, default=None
        What blocks are mapped by on the device, row by row, to ``width`` columns.
    width : int, default=None
    """

    values: np.ndarray
    like: Any
    buffer_bytes: int
    order: np.ndarray | None = None
    function: Callable[[Any], Any] | None = None
    width: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n = len(self.values) if self.order is None else len(self.order)
        return n, self.values.shape[1] if self.width is None else self.width

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> Any:
        """Precision of the blocks, in the terms of their library."""
        return self.like.dtype

    @property
    def device(self) -> Any:
        """Where the blocks will be, in the terms of their library."""
        return self.like.device

    def host(self) -> np.ndarray:
        """Return all rows as a NumPy array; a copy if in another order or mapped."""
        values = self.values if self.order is None else self.values[self.order]
        return self.of_block(values)

    def mapped(self, function: Callable[[Any], Any], width: int) -> "HostRows":
        """Return rows whose blocks are mapped where they are copied to."""
        return replace(self, function=function, width=width)

    def of_block(self, block: Any) -> Any:
        """Return a block of rows with ``function``, if there is one, applied to it."""
        return block if self.function is None else self.function(block)

    def part(self, rows: slice | np.ndarray) -> slice | np.ndarray:
        """Return what ``values`` is to be indexed with for these rows."""
        return rows if self.order is None else self.order[rows]

    def in_order(self, order: np.ndarray) -> "HostRows":
        """Return the rows with the given numbers; nothing is copied."""
        return replace(self, order=np.asarray(self.part(order)))

    def in_kind_of(self, like: Any) -> "HostRows":
        """Return the same rows, to be seen in another precision or place."""
        return replace(self, like=like)
