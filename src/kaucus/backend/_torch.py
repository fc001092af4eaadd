"""The torch versions of the primitives; imported only once a tensor is seen.

Each function here has a portable twin of the same name and meaning in
``_linalg`` or ``_blocks``, and a test that both agree.
"""

import numpy as np
import torch


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
    """Return torch's device of that name, or raise an error that says what to do."""
    try:
        target = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device={device!r} is not a device that torch knows; "
            "expected None, 'cpu', 'cuda' or 'cuda:1'."
        ) from error
    if target.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r}, but torch {torch.__version__} sees no CUDA device; "
            "use device=None, or install a CUDA build of torch."
        )
    return target


def is_here(device: str) -> bool:
    """Tell whether this machine has a device; what is not CUDA's is not asked for."""
    target = torch.device(device)
    if target.type != "cuda":
        return True
    return (target.index or 0) < torch.cuda.device_count()


def device_name(device: str) -> str:
    """Return what the maker calls the device."""
    target = known_device(device)
    return torch.cuda.get_device_name(target) if target.type == "cuda" else device


def from_numpy(x: np.ndarray):
    """Return a tensor that shares the memory of ``x`` where torch can."""
    # It can neither share a read-only array (a memory map, a pandas column) nor one
    # that runs backwards.
    shareable = x.flags.writeable and all(step >= 0 for step in x.strides)
    return torch.from_numpy(x if shareable else x.copy())


def cholesky(H):
    """Return the lower factor, or ``None`` where ``H`` is not positive definite."""
    L, info = torch.linalg.cholesky_ex(H)
    return None if int(info) else L


def cho_solve(L, B):
    """Solve ``L @ L.T @ X = B``."""
    return torch.cholesky_solve(B, L)


def solve_triangular(L, B, *, transpose: bool):
    """Solve ``L @ X = B`` or ``L.T @ X = B``."""
    if transpose:
        return torch.linalg.solve_triangular(L.mT, B, upper=True)
    return torch.linalg.solve_triangular(L, B, upper=False)


def add_to_diagonal(H, value):
    """Add a number or one value per row to the diagonal, in place."""
    H.diagonal().add_(value)
    return H


def set_diagonal(H, values):
    """Write the diagonal, in place."""
    H.diagonal().copy_(values)


def add_gram(G, A):
    """Add AᵀA to a float64 ``G``, in place.

    In float64 throughout, which data-centre GPUs multiply as fast as float32.
    """
    A = A.to(G.dtype)
    return G.addmm_(A.mT, A)


def segment_sum(values, labels, n_segments: int):
    """Sum the rows of ``values`` that share a label."""
    if values.device.type != "cpu":
        # index_add_ is not reproducible from run to run on CUDA; a product is.
        ids = torch.arange(n_segments, device=values.device)
        return (labels[None, :] == ids[:, None]).to(values.dtype) @ values
    out = torch.zeros((n_segments, values.shape[1]), dtype=values.dtype)
    return out.index_add_(0, labels, values)


def free_memory(x) -> int | None:
    """Return the free bytes of the tensor's CUDA device; ``None`` on the CPU.

    What torch holds in reserve from tensors that are gone is free for new ones.
    """
    if x.device.type != "cuda":
        return None
    held = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
    return torch.cuda.mem_get_info(x.device)[0] + held
