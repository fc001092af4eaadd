"""Rows of the host on their way to a device, one block ahead of the work.

Two lanes take turns. While the work on one block is under way, the next one is copied:
by the processor into page-locked memory, from there by the GPU's own copy engine, in a
stream of its own. A lane is loaded again only after the work on it has ended. On the
host the same lanes are plain memory.
"""

from collections.abc import Iterator

import numpy as np
import torch

from kaucus.backend._torch import from_numpy


class Lane:
    """Room for one block on the device."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device) -> None:
        self.rows = torch.empty(shape, dtype=dtype, device=device)
        self.n = 0

    def load(self, block: np.ndarray) -> None:
        """Begin to copy a block here."""
        self.n = len(block)
        self.rows[: self.n].copy_(from_numpy(block))

    def ready(self):
        """Return the block; work that is launched from now on sees it whole."""
        return self.rows[: self.n]

    def release(self) -> None:
        """Say that no more work on the block will be launched."""

    def close(self) -> None:
        """Let nothing be under way when the room is given back."""


class CudaLane(Lane):
    """Room for one block on a GPU, page-locked room on the host, and their order."""

    def __init__(self, shape, dtype, device, stream: torch.cuda.Stream) -> None:
        super().__init__(shape, dtype, device)
        self.stream = stream
        self.locked = torch.empty(shape, dtype=dtype, pin_memory=True)
        self.copied, self.free = torch.cuda.Event(), torch.cuda.Event()
        self.release()  # what used this memory before must end first

    def load(self, block: np.ndarray) -> None:
        self.copied.synchronize()  # the last copy may still read the locked memory
        self.n = len(block)
        np.copyto(self.locked[: self.n].numpy(), block)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.free)
            self.rows[: self.n].copy_(self.locked[: self.n], non_blocking=True)
            self.copied.record(self.stream)

    def ready(self):
        self._work().wait_event(self.copied)
        return super().ready()

    def release(self) -> None:
        self.free.record(self._work())

    def close(self) -> None:
        self._work().wait_event(self.copied)

    def _work(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self.rows.device)


Part = slice | np.ndarray
"""Which rows: a slice, or their numbers."""


def device_blocks(X: np.ndarray, blocks: list[Part], device) -> Iterator[tuple]:
    """Yield parts of the rows, and these rows on the device, copied one ahead."""
    lanes = make_lanes(X, blocks, device)
    if lanes:
        lanes[0].load(X[blocks[0]])
    try:
        for k, rows in enumerate(blocks):
            lane = lanes[k % 2]
            if k + 1 < len(blocks):
                lanes[(k + 1) % 2].load(X[blocks[k + 1]])
            yield rows, lane.ready()
            lane.release()
    finally:
        for lane in lanes:
            lane.close()


def make_lanes(X: np.ndarray, blocks: list[Part], device) -> list[Lane]:
    """Return two lanes for the highest block; one where there is one block."""
    height = max(map(_height, blocks), default=0)
    shape, dtype = (height, X.shape[1]), getattr(torch, X.dtype.name)
    n_lanes = min(len(blocks), 2)
    if torch.device(device).type != "cuda":
        return [Lane(shape, dtype, device) for _ in range(n_lanes)]
    stream = torch.cuda.Stream(device)
    return [CudaLane(shape, dtype, device, stream) for _ in range(n_lanes)]


def _height(part: Part) -> int:
    return part.stop - part.start if isinstance(part, slice) else len(part)
