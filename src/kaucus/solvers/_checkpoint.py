"""The state of a fit on disk, so that a killed one goes on where it was.

The file is written beside its place and moved there: it is whole, or the one before.
It holds a fingerprint of data and parameters; a fit with others does not use it.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import Array, HostRows, is_sparse, to_numpy

_FORMAT = 1


class Snapshot(NamedTuple):
    """All that a run needs to go on."""

    step: int
    states: list[dict[str, np.ndarray]]
    """One for each problem (see ``_randomized``)."""
    sampler: dict[str, Any]
    """Order and position of the blocks, and the generator's state."""
    history: list[tuple]


class CheckpointError(ValueError):
    """A checkpoint cannot be used for this fit."""


def digest(value: Any) -> str:
    """Return a short hash of an array, a CSR matrix or anything with a ``repr``."""
    hasher = hashlib.sha256()
    if is_sparse(value):
        for part in (value.data, value.indices, value.indptr):
            hasher.update(np.ascontiguousarray(part).tobytes())
    elif hasattr(value, "shape"):
        hasher.update(f"{value.shape} {value.dtype}".encode())
        host = value.values if isinstance(value, HostRows) else to_numpy(value)
        hasher.update(np.ascontiguousarray(host).data)  # no copy of a memory map
    else:
        hasher.update(repr(value).encode())
    return hasher.hexdigest()[:16]


def save_checkpoint(path: Path, fingerprint: dict[str, str], snap: Snapshot) -> None:
    """Write a snapshot so that it is there as a whole or not at all."""
    order = snap.sampler["order"]
    sampler = {k: v for k, v in snap.sampler.items() if k != "order"}
    head = {
        "format": _FORMAT,
        "fingerprint": fingerprint,
        "step": snap.step,
        "sampler": sampler,
        "history": snap.history,
    }
    arrays: dict[str, Any] = {
        f"{k}:{name}": value
        for k, state in enumerate(snap.states)
        for name, value in state.items()
    }
    part = path.with_name(path.name + ".part")
    with part.open("wb") as stream:
        content: dict[str, Any] = {"head": np.array(json.dumps(head)), "order": order}
        np.savez(stream, **content, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, path)


def load_checkpoint(path: Path, fingerprint: dict[str, str]) -> Snapshot | None:
    """Read a snapshot, or return None where there is no file.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, or one of another fit; the message names what
        differs.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
        head = json.loads(str(content.pop("head")))
        order = content.pop("order")
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"checkpoint={str(path)!r} cannot be read as a checkpoint ({error}); move "
            "the file away, or choose another path."
        ) from error
    _check_fingerprint(path, head, fingerprint)
    states: dict[int, dict[str, np.ndarray]] = {}
    for name, value in content.items():
        number, _, key = name.partition(":")
        states.setdefault(int(number), {})[key] = value
    return Snapshot(
        head["step"],
        [states[k] for k in sorted(states)],
        {**head["sampler"], "order": order},
        [tuple(row) for row in head["history"]],
    )


def _check_fingerprint(path: Path, head: dict, fingerprint: dict[str, str]) -> None:
    saved = head["fingerprint"] if head.get("format") == _FORMAT else {}
    keys = sorted(set(saved) | set(fingerprint))
    different = [key for key in keys if saved.get(key) != fingerprint.get(key)]
    if different:
        raise CheckpointError(
            f"checkpoint={str(path)!r} is of another fit: {', '.join(different)} "
            "differ. Choose another path, or remove the file to begin anew."
        )


def as_host_state(state: dict[str, Array]) -> dict[str, np.ndarray]:
    """Return a solver's state as NumPy arrays."""
    return {name: to_numpy(value) for name, value in state.items()}
