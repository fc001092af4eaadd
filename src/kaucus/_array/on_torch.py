"""PyTorch's version of the primitives that the array standard lacks."""

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from kaucus._array.blocks import SharedSwitch

# ----------------------------------------------------------------------------------
# The torch versions of the primitives; imported only once a tensor is seen.
#
# The functions of the first part have a portable twin of the same name and meaning in
# ``linalg`` or ``segments``, and a test that both agree.
# ----------------------------------------------------------------------------------

# A CUDA matrix of more rows is factored in its own memory, so many columns at a time.
_IN_PLACE_ROWS, _PANEL = 8192, 768
# Rows of a system that are solved for at a time.
_SOLVE_ROWS = 512
# Rows of a Gram matrix that are multiplied at a time: of each, half of the first such
# square is computed in vain.
_GRAM_ROWS = 2048


def to_device(x, device: str):
    """Move a tensor or NumPy array to ``device``."""
    target = known_device(device)
    return (from_numpy(x) if isinstance(x, np.ndarray) else x).to(target)


def without_history(x):
    """Return a dense tensor that records no gradients, in the same memory."""
    if x.layout != torch.strided:
        raise ValueError(
            f"X is a sparse tensor ({x.layout}); pass X.to_dense(), or a SciPy CSR "
            "matrix, which is computed on the host."
        )
    return x.detach()


def known_device(device: str):
    """Return torch's device of a name, or raise an error with the remedy."""
    try:
        target = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device={device!r} is not a device that torch knows; "
            "expected None, 'cpu', 'cuda' or 'cuda:1'."
        ) from error
    # "meta" holds no values, and stands in for a GPU where there is none.
    if target.type not in ("cpu", "cuda", "meta"):
        raise ValueError(
            f"device={device!r} is not supported: float64 is needed, which not every "
            "device has. Use None, 'cpu', 'cuda' or 'cuda:1'."
        )
    if target.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r}, but torch {torch.__version__} sees no CUDA device; "
            "use device=None, or install a CUDA build of torch."
        )
    if target.type == "cuda" and not is_here(device):
        raise ValueError(
            f"device={device!r}, but torch sees {torch.cuda.device_count()} CUDA "
            "devices, counted from 0; use 'cuda:0'."
        )
    return target


def synchronize(x) -> None:
    """Wait until all work on the tensor's device is done."""
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)


def is_here(device: str) -> bool:
    """Return True if this machine has a device; True for all but CUDA's."""
    target = torch.device(device)
    if target.type != "cuda":
        return True
    return (target.index or 0) < torch.cuda.device_count()


def device_name(device: str) -> str:
    """Return the product name of the device."""
    target = known_device(device)
    return torch.cuda.get_device_name(target) if target.type == "cuda" else device


def from_numpy(x: np.ndarray):
    """Return a tensor that shares the memory of ``x`` where torch can."""
    # It can neither share a read-only array (a memory map, a pandas column) nor one
    # that runs backwards.
    shareable = x.flags.writeable and all(step >= 0 for step in x.strides)
    return torch.from_numpy(x if shareable else x.copy())


def product_into(out, X, Y):
    """Write X Yᵀ into a tensor; return the tensor."""
    return torch.mm(X, Y.mT, out=out)


def cholesky(H, *, overwrite: bool):
    """Return the lower factor, or ``None`` where ``H`` is not positive definite.

    With ``overwrite`` a large matrix on a GPU is factored in its own memory, and keeps
    its strict upper triangle.
    """
    if overwrite and H.device.type == "cuda" and H.shape[0] > _IN_PLACE_ROWS:
        return blocked_cholesky(H, _PANEL)
    L, info = torch.linalg.cholesky_ex(H)
    return None if int(info) else L


def blocked_cholesky(A, width: int):
    """Factor in place, ``width`` columns at a time; ``None`` if it is not possible.

    Left-looking: each panel takes in all columns to its left by one long product, so
    that nearly all work is matrix products, of the lower triangle only, and there is no
    second matrix.
    """
    n, failures = A.shape[0], []
    for start in range(0, n, width):
        panel = slice(start, min(start + width, n))
        if start:
            done = A[panel, :start]
            square = torch.addmm(A[panel, panel], done, done.mT, alpha=-1)
        else:
            square = A[panel, panel]
        L, info = torch.linalg.cholesky_ex(square)
        failures.append(info)  # looked at in the end: to look is to wait for the device
        A[panel, panel] = torch.triu(A[panel, panel], diagonal=1) + L
        if panel.stop < n:
            below = A[panel.stop :, panel]
            if start:
                below.addmm_(A[panel.stop :, :start], done.mT, alpha=-1)
            # By the inverse of the small factor: a product, not a slow substitution.
            below.copy_(below @ _inverse_triangles(L).mT)
    return None if bool(torch.stack(failures).any()) else A


def cho_solve(L, B):
    """Solve ``L @ L.T @ X = B``."""
    if L.shape[0] <= _IN_PLACE_ROWS:
        return torch.cholesky_solve(B, L)
    if L.device.type == "cuda":
        return blocked_cho_solve(L, B, _SOLVE_ROWS)
    # The library's own copies the factor.
    half = solve_triangular(L, B, transpose=False)
    return solve_triangular(L, half, transpose=True)


def blocked_cho_solve(L, B, width: int):
    """Solve ``L @ L.T @ X = B`` by products alone, ``width`` rows at a time.

    With the inverses of the squares on the diagonal: a substitution for few right-hand
    sides goes row after row and leaves a GPU idle.
    """
    panels = [slice(s, min(s + width, len(L))) for s in range(0, len(L), width)]
    inverses = _inverses([L[panel, panel] for panel in panels])
    X = B.clone()
    for panel, inverse in zip(panels, inverses, strict=True):
        X[panel] = inverse @ X[panel]
        X[panel.stop :].addmm_(L[panel.stop :, panel], X[panel], alpha=-1)
    for panel, inverse in zip(reversed(panels), reversed(inverses), strict=True):
        X[panel] = inverse.mT @ X[panel]
        X[: panel.start].addmm_(L[panel, : panel.start].mT, X[panel], alpha=-1)
    return X


def _inverses(squares: list) -> list:
    """Invert lower triangles, of which the last may be smaller than the others."""
    *full, last = squares
    return [
        inverse
        for batch in ([full] if full else []) + [[last]]
        for inverse in _inverse_triangles(torch.stack(batch))
    ]


def _inverse_triangles(L):
    """Return the inverse of a lower triangle, or of each of a stack of them."""
    identity = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, identity.expand_as(L), upper=False)


def solve_triangular(L, B, *, transpose: bool):
    """Solve ``L @ X = B`` or ``L.T @ X = B``."""
    if transpose:
        return torch.linalg.solve_triangular(L.mT, B, upper=True)
    return torch.linalg.solve_triangular(L, B, upper=False)


def add_to_diagonal(H, value):
    """Add a number or one value per row to the diagonal, in place."""
    H.diagonal().add_(value)
    return H


def add_gram(G, A):
    """Add the lower triangle of AᵀA to a float64 ``G``, in place.

    In float64 throughout, which data-centre GPUs multiply as fast as float32.
    """
    A, m = A.to(G.dtype), A.shape[1]
    height = min(_GRAM_ROWS, max(-(-m // 8), 64))
    for start in range(0, m, height):
        stop = min(start + height, m)
        G[start:stop, :stop].addmm_(A[:, start:stop].mT, A[:, :stop])
    return G


def segment_sum(values, labels, n_segments: int, left=None):
    """Return sums of ``values`` by label, less the rows that left a label."""
    if values.device.type != "cpu":
        return sorted_segment_sum(values, labels, n_segments, left)
    out = torch.zeros((n_segments, values.shape[1]), dtype=values.dtype)
    out.index_add_(0, labels, values)
    return out if left is None else out.index_add_(0, left, values, alpha=-1)


def sorted_segment_sum(values, labels, n_segments: int, left=None):
    """Sum segments after sorting by label: each sum has one order of addition.

    ``index_add_`` and sparse products are as fast on CUDA, and differ from run to run.
    """
    both = labels if left is None else torch.cat([labels, left])
    order = torch.sort(both, stable=True).indices
    n = labels.shape[0]
    rows = values.index_select(0, order if left is None else order % n)
    if left is not None:
        rows *= torch.where(order < n, 1, -1)[:, None]
    counts = count_labels(both, None, n_segments)
    offsets = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
    return torch.segment_reduce(rows, "sum", offsets=offsets, axis=0)


def count_labels(labels, which, n_segments: int):
    """Count the rows of each label among those where ``which`` is true."""
    # ``bincount`` would wait for the device; sums of integers have no order.
    ones = torch.ones_like(labels) if which is None else which.to(labels.dtype)
    return labels.new_zeros(n_segments).scatter_add_(0, labels, ones)


def best_two(scores):
    """Return the largest entry of each row, its column, and the second largest."""
    best, labels = torch.max(scores, dim=1)
    scores.scatter_(1, labels[:, None], -torch.inf)
    return best, labels, torch.amax(scores, dim=1)


def prefers_products(filters) -> bool:
    """Return True if responses are found by a product with all patches.

    On CUDA: a product does not care that pictures have one channel or three, and needs
    no second pass to scale the responses. 256 pictures, 2,048 filters, float16, one
    H200: 0.5 ms, and 4.1 ms by a convolution.
    """
    return filters.device.type == "cuda"


def convolve(images, filters, scale, bias):
    """Return the responses of pictures to filters, (n, positions, m)."""
    responses = torch.nn.functional.conv2d(images.to(filters.dtype), filters)
    responses = responses.flatten(2).mT
    if scale is not None:
        responses *= scale
    return responses if bias is None else responses.add_(bias)


def biased_product(X, Y, bias):
    """Return X Yᵀ, and ``bias`` added to each row."""
    if missing := -X.shape[1] % 8 if X.dtype == torch.float16 else 0:
        # Rows of whole 16 bytes: the units that multiply halves read no others.
        X, Y = (torch.nn.functional.pad(part, (0, missing)) for part in (X, Y))
    return X @ Y.mT if bias is None else torch.addmm(bias, X, Y.mT)


def add_product(out, X, Y):
    """Add X Yᵀ to a tensor, in place."""
    return out.addmm_(X, Y.mT)


def free_memory(x) -> int | None:
    """Return the free bytes of the tensor's CUDA device; ``None`` on the CPU.

    What torch holds in reserve from tensors that are gone is free for new ones.
    """
    if x.device.type != "cuda":
        return None
    held = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
    return torch.cuda.mem_get_info(x.device)[0] + held


# ---- products in tf32 ----------------------------------------------------------------


def has_tf32(x) -> bool:
    """Return True if products of such tensors can be in tf32."""
    return x.device.type == "cuda" and x.dtype == torch.float32


@contextlib.contextmanager
def _tf32_switch() -> Iterator[None]:
    """Context manager: torch's tf32 mode on, by the newer of two names if present.

    It is read when a product is launched, so that it need not stay on longer.
    """
    switch = torch.backends.cuda.matmul
    newer = hasattr(switch, "fp32_precision")
    name, on = ("fp32_precision", "tf32") if newer else ("allow_tf32", True)
    before = getattr(switch, name)
    setattr(switch, name, on)
    try:
        yield
    finally:
        setattr(switch, name, before)


tf32_products = SharedSwitch(_tf32_switch)
"""Let float32 products on CUDA be in tf32, and restore what was."""

# ----------------------------------------------------------------------------------
# Rows of the host on their way to a device, one block ahead of the work.
#
# Two lanes take turns. While the work on one block is under way, the next one is
# copied: by the processor into page-locked memory, from there by the GPU's own copy
# engine, in a stream of its own. A lane is loaded again only after the work on it has
# ended. On the host the same lanes are plain memory.
# ----------------------------------------------------------------------------------


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
        """Return the block once its copy is ordered before later work."""
        return self.rows[: self.n]

    def release(self) -> None:
        """Mark the block's buffer as free for the next copy."""

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
