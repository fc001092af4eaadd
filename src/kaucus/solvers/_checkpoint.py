"""The state of a run on disk, so that a killed one goes on where it was.

The file is written under a private name beside its place, and moved there: it is whole,
or the one before. It is a zip archive of a text in JSON and of arrays as NumPy writes
them, none of them compressed, so that nothing in it can be larger than the file.

It holds a fingerprint of data and parameters; a fit with others does not use it. What
it says of itself is checked against what the fit expects before any of it is loaded.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import numbers
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kaucus.backend import (
    Array,
    HostRows,
    astype,
    is_sparse,
    product_epsilon,
    take_rows,
    to_numpy,
)
from kaucus.kernels import Kernel
from kaucus.solvers._systems import State

# Rows whose kernel is looked at.
_PROBED = 16


class Fingerprint(NamedTuple):
    """Hashes of data and parameters, and some values of the kernel."""

    marks: dict[str, str]
    probe: np.ndarray
    """k of some rows, float64: a function cannot be hashed, but asked."""
    rounding: float
    """What may lie between two computations of it, relative to its largest value."""

    def same_kernel(self, probe: np.ndarray) -> bool:
        """Tell whether another probe is of the same kernel, up to rounding."""
        size = float(np.max(np.abs(self.probe), initial=0.0))
        return bool(np.all(np.abs(probe - self.probe) <= self.rounding * size))


def fingerprint(kernel: Kernel, X: Array, **parameters: Any) -> Fingerprint:
    """Return the fingerprint of a fit of rows ``X`` with a kernel and parameters."""
    marks = {name: digest(value) for name, value in parameters.items()}
    marks |= {"X": digest(X), "kernel": digest(describe(kernel))}
    some = np.unique(np.linspace(0, X.shape[0] - 1, _PROBED).astype(np.int64))
    K = kernel(take_rows(X, some))
    probe = to_numpy(astype(K, "float64"))
    return Fingerprint(marks, probe, product_epsilon(X) ** 0.5)


def describe(value: Any) -> str:
    """Return a text that is the same for the same kernel in every process.

    Functions and objects of other kinds have an address in their ``repr``; they are
    described by name alone.

    >>> describe(("rbf", 0.5, len))
    "('rbf', 0.5, len)"
    """
    if isinstance(value, numbers.Real | str | None):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    if hasattr(value, "shape"):
        return digest(value)
    if isinstance(value, Kernel):
        known = dataclasses.is_dataclass(value)
        names = [f.name for f in dataclasses.fields(value)] if known else vars(value)
        parts = [f"{name}={describe(getattr(value, name))}" for name in sorted(names)]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return getattr(value, "__qualname__", type(value).__qualname__)


def digest(value: Any) -> str:
    """Return a short hash of an array, a CSR matrix or anything with a ``repr``."""
    hasher = hashlib.sha256()
    if is_sparse(value):
        hasher.update(f"{value.shape} {value.dtype}".encode())
        for part in (value.data, value.indices, value.indptr):
            hasher.update(np.ascontiguousarray(part).tobytes())
    elif hasattr(value, "shape"):
        hasher.update(f"{value.shape} {value.dtype}".encode())
        host = value.values if isinstance(value, HostRows) else to_numpy(value)
        hasher.update(np.ascontiguousarray(host).data)  # no copy of a memory map
    else:
        hasher.update(repr(value).encode())
    return hasher.hexdigest()[:16]


# ---- by what a checkpoint knows its fit again ----------------------------------------


_FORMAT = 2
_HEAD, _HEAD_BYTES = "head.json", 2**20
# What is kept of each step: see Taken.
_LOG_COLUMNS = 8


class Taken(NamedTuple):
    """What is remembered of one step."""

    row: tuple
    """Its row of the history (see ``_result``)."""
    residual: float
    """The largest of all problems, by which the run is judged."""
    fallback: bool
    """Whether a pseudo-inverse had to be found by eigenvalues."""


class Snapshot(NamedTuple):
    """All that a run needs to go on as if it had not been disturbed."""

    step: int
    states: list[State]
    """One for each problem (see ``_run``)."""
    best: list[State]
    """Those of the smallest residual, of which only ``"W"`` is kept; or ``states``."""
    sampler: dict[str, Any]
    """Order and position of the blocks, and the generator's state."""
    log: list[Taken]


class Layout(NamedTuple):
    """What a checkpoint of a run must look like."""

    shapes: list[dict[str, tuple[int, ...]]]
    """Of the arrays of each problem's state."""
    n_rows: int
    blocks_per_pass: int
    keeps_best: bool
    """Whether the solver keeps the states of the smallest residual."""

    def best_step(self, log: list[Taken]) -> int:
        """Return the step whose states are kept in the end, counted from 1."""
        if not self.keeps_best:
            return len(log)
        least = min(taken.residual for taken in log)
        return max(k for k, taken in enumerate(log, 1) if taken.residual == least)


class CheckpointError(ValueError):
    """A checkpoint cannot be used for this fit."""


# ---- writing -------------------------------------------------------------------------


def save_checkpoint(
    path: Path, fingerprint: Fingerprint, layout: Layout, snap: Snapshot
) -> None:
    """Write a snapshot so that it is there as a whole or not at all.

    One with numbers that are not finite, of an iteration that diverged, is not written.
    """
    sampler = {k: v for k, v in snap.sampler.items() if k != "order"}
    head = {
        "format": _FORMAT,
        "fingerprint": fingerprint.marks,
        "step": snap.step,
        "sampler": sampler,
    }
    arrays = _arrays_of(layout, snap) | {"probe": fingerprint.probe}
    if not all(_is_finite(name, values) for name, values in arrays.items()):
        return
    number, part = tempfile.mkstemp(".part", f".{path.name}.", path.parent)
    try:
        with os.fdopen(number, "wb") as stream:
            with zipfile.ZipFile(stream, "w") as archive:
                archive.writestr(_HEAD, json.dumps(head))
                for name, values in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(
                            member, np.ascontiguousarray(values), allow_pickle=False
                        )
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def remove_leftovers(path: Path) -> None:
    """Remove what a kill in the middle of :func:`save_checkpoint` has left behind."""
    ours = re.compile(re.escape(f".{path.name}.") + r"[a-z0-9_]{8}\.part")
    with contextlib.suppress(OSError):
        for found in os.listdir(path.parent):
            if ours.fullmatch(found):
                os.unlink(path.parent / found)


def _arrays_of(layout: Layout, snap: Snapshot) -> dict[str, np.ndarray]:
    states = {f"state{k}.": state for k, state in enumerate(snap.states)}
    if layout.best_step(snap.log) != snap.step:
        states |= {f"best{k}.": {"W": s["W"]} for k, s in enumerate(snap.best)}
    arrays = {
        prefix + name: to_numpy(values)
        for prefix, state in states.items()
        for name, values in state.items()
    }
    log = [(*taken.row, taken.residual, taken.fallback) for taken in snap.log]
    return {"order": snap.sampler["order"], "log": np.array(log, float), **arrays}


def _is_finite(name: str, values: np.ndarray) -> bool:
    if name == "log":  # the validation error is NaN where there are no such rows
        values = np.delete(values, 5, axis=1)
    return bool(np.all(np.isfinite(values)))


# ---- reading -------------------------------------------------------------------------


def load_checkpoint(
    path: Path, fingerprint: Fingerprint, layout: Layout
) -> Snapshot | None:
    """Read a snapshot, or return None where there is no file.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, is damaged, or is one of another fit; the message
        names what differs.
    """
    if not path.exists():
        return None
    try:
        if not path.is_file():
            raise ValueError("it is not a regular file")
        with zipfile.ZipFile(path) as archive:
            head = _read_head(archive)
            _check_fingerprint(path, head, fingerprint)
            return _read_snapshot(archive, path, head, fingerprint, layout)
    except CheckpointError:
        raise
    except Exception as error:  # anybody may have written it: anything can be wrong
        why = str(error) or type(error).__name__
        raise CheckpointError(
            f"checkpoint={str(path)!r} cannot be read as a checkpoint ({why}); nothing "
            "was loaded. Move the file away to begin anew, or choose another path."
        ) from error


def _read_head(archive: zipfile.ZipFile) -> dict[str, Any]:
    if archive.getinfo(_HEAD).file_size > _HEAD_BYTES:
        raise ValueError(f"{_HEAD} has more than {_HEAD_BYTES} bytes")
    head = json.loads(archive.read(_HEAD))
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT}, that of this version")
    return head


def _check_fingerprint(path: Path, head: dict, fingerprint: Fingerprint) -> None:
    saved, marks = head["fingerprint"], fingerprint.marks
    different = [k for k in sorted({*saved, *marks}) if saved.get(k) != marks.get(k)]
    if different:
        raise _of_another_fit(path, different)


def _of_another_fit(path: Path, different: list[str]) -> CheckpointError:
    return CheckpointError(
        f"checkpoint={str(path)!r} is of another fit: {', '.join(different)} "
        "differ. Choose another path, or remove the file to begin anew."
    )


def _read_snapshot(
    archive, path: Path, head: dict, fingerprint: Fingerprint, layout: Layout
) -> Snapshot:
    step, n = _whole_number(head["step"], 1, 2**53), layout.n_rows
    probe = _read_array(archive, "probe", fingerprint.probe.shape)
    if not fingerprint.same_kernel(probe):
        raise _of_another_fit(path, ["kernel"])
    log = _log_of(_read_array(archive, "log", (step, _LOG_COLUMNS)))
    order = _read_array(archive, "order", (n,), "int64")
    if not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError("order is no permutation of the rows")
    states, best = _read_states(archive, "state", layout.shapes), None
    if layout.best_step(log) != step:
        best = _read_states(archive, "best", [{"W": s["W"]} for s in layout.shapes])
    expected = 1 + 3 + sum(map(len, layout.shapes)) + len(best or [])
    if len(archive.namelist()) != expected:
        raise ValueError(f"it has {len(archive.namelist())} parts, not {expected}")
    sampler = {
        "order": order,
        "position": _whole_number(
            head["sampler"]["position"], 1, layout.blocks_per_pass
        ),
        "generator": _generator_state(head["sampler"]["generator"]),
    }
    return Snapshot(step, states, best or states, sampler, log)


def _read_states(archive, kind: str, shapes) -> list[State]:
    return [
        {name: _read_array(archive, f"{kind}{k}.{name}", s) for name, s in some.items()}
        for k, some in enumerate(shapes)
    ]


def _read_array(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: str = "float64"
) -> np.ndarray:
    """Return an array of the archive, if it is as expected; else nothing is read."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is not an array of NumPy's format 1.0")
        found = np.lib.format.read_array_header_1_0(stream)
        if found != (shape, False, np.dtype(dtype)):
            raise ValueError(
                f"{name} has shape {found[0]} and type {found[2]}, not {shape} and "
                f"{dtype}"
            )
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if n_bytes > member.file_size:
            raise ValueError(f"{name} is cut short")
        content = bytearray(stream.read(n_bytes))
        # At the end of the file its checksum is looked at.
        if len(content) != n_bytes or stream.read(1):
            raise ValueError(f"{name} is not as long as it says")
    values = np.frombuffer(content, dtype).reshape(shape)
    if not _is_finite(name, values):
        raise ValueError(f"{name} has numbers that are not finite")
    return values


def _log_of(rows: np.ndarray) -> list[Taken]:
    if not np.array_equal(rows[:, 1], np.arange(1, len(rows) + 1)):
        raise ValueError("log does not have one row for each step")
    return [
        Taken((int(run), int(step), *map(float, rest)), float(residual), bool(fallback))
        for run, step, *rest, residual, fallback in rows
    ]


def _whole_number(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} is no whole number from {least} to {most}")
    return value


def _generator_state(state: Any) -> dict[str, Any]:
    """Return a generator's state that can be set, checked on one that nobody uses."""
    unused = np.random.default_rng(0)
    unused.bit_generator.state = state
    return dict(unused.bit_generator.state)
