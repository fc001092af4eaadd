"""Read data files: one function per format, each of which checks what it reads.

A file that is damaged gives a ``ValueError`` with the path, what was found, what was
expected, and the remedy.
"""

import gzip
import io
import re
import zlib
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

IDX_UINT8 = b"\x00\x00\x08"
CIFAR10_PIXELS = 3 * 32 * 32
CIFAR10_CLASSES = 10
CSV_BLOCK_LINES = 20_000
_INT64_ENDS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


class Table(NamedTuple):
    """A table of numbers with one label per row."""

    X: np.ndarray  # (n_samples, n_features)
    y: np.ndarray  # (n_samples,), int64 or str
    feature_names: list[str]


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped IDX file of unsigned bytes, the format of MNIST.

    The result has the shape that the header of the file gives.
    """
    raw = _read_bytes(path)
    n_axes = raw[3] if len(raw) > 3 else 0
    start = 4 + 4 * n_axes
    if not raw.startswith(IDX_UINT8) or n_axes == 0 or len(raw) < start:
        raise _damaged(path, f"a header of {raw[:4]!r}", "IDX with unsigned bytes")
    shape = tuple(np.frombuffer(raw, ">u4", n_axes, offset=4).tolist())
    if len(raw) - start != prod(shape):
        found, expected = f"{len(raw) - start} values", f"{prod(shape)} for {shape}"
        raise _damaged(path, found, expected)
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def read_cifar10(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read one binary batch of CIFAR-10: rows of a label byte and 3072 pixels.

    Returns the pixels, (n, 3072), the 32 × 32 red plane, then green, then blue; and the
    labels, (n,), 0 to 9.
    """
    raw = _read_bytes(path)
    width = 1 + CIFAR10_PIXELS
    if not raw or len(raw) % width:
        raise _damaged(path, f"{len(raw)} bytes", f"a positive multiple of {width}")
    rows = np.frombuffer(raw, np.uint8).reshape(-1, width)
    if (largest := rows[:, 0].max()) >= CIFAR10_CLASSES:
        raise _damaged(path, f"label {largest}", f"labels below {CIFAR10_CLASSES}")
    return rows[:, 1:], rows[:, 0]


def read_csv(path: Path, dtype: str = "float64") -> Table:
    """Read numbers separated by commas, with a header and the label in the last column.

    Lines are parsed in blocks by ``numpy.fromstring``, as integers where there are only
    integers: on half a million rows several times as fast as ``numpy.loadtxt``.
    Labels are int64 if every one is an integer, else str. Numbers are finite, and no
    label is missing.
    """
    header, *lines = _read_lines(path).splitlines()
    names = header.decode("utf-8", "replace").split(",")
    if len(names) < 2 or not lines:
        found = f"{len(names)} column(s) and {len(lines)} row(s)"
        raise _damaged(path, found, "a header, rows, and two columns or more")
    _check_columns(path, lines, len(names))
    X = np.empty((len(lines), len(names) - 1), dtype=dtype)
    labels: list[bytes] = []
    for start in range(0, len(lines), CSV_BLOCK_LINES):
        stop = start + CSV_BLOCK_LINES
        block = [line.rpartition(b",") for line in lines[start:stop]]
        text = b",".join([features for features, _, _ in block])
        with np.errstate(over="ignore"):  # looked for below
            X[start:stop] = _parse_numbers(path, text, len(block))
        labels += [label for _, _, label in block]
    _check_finite(path, X, dtype)
    return Table(X, parse_labels(path, labels), names[:-1])


def read_text(path: Path, *, drop: tuple[int, ...] = ()) -> Table:
    """Read numbers separated by blanks or commas, without a header, the label last.

    The form of most files of UCI, and of ARFF. Lines that are empty, that begin with
    ``@`` or ``%``, or that have a missing value (``?``) are passed over, and so is a
    first line of names. ``drop`` has the numbers of columns that are no features, such
    as a number of the sample. Names are ``x1``, ``x2``, ...
    """
    lines = [line.strip() for line in _read_bytes(path).splitlines()]
    rows = [re.split(rb"[,\s]+", line) for line in lines if line[:1] not in b"@%"]
    rows = [row for row in rows if b"?" not in row]
    if rows and re.fullmatch(rb"[A-Za-z_]\w*", rows[0][0]):
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {1}:
        found = f"lines of {sorted(widths)} fields"
        raise _damaged(path, found, "as many fields in every line, two or more")
    kept = [i for i in range(widths.pop() - 1) if i not in drop]
    text = b",".join([row[i] for row in rows for i in kept])
    X = _parse_numbers(path, text, len(rows)).astype(np.float64)
    _check_finite(path, X, "float64")
    labels = parse_labels(path, [row[-1].strip(b"'\"") for row in rows])
    return Table(X, labels, [f"x{i + 1}" for i in range(len(kept))])


def read_libsvm(
    path: Path, n_features: int, dtype: str = "float64"
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Read features and labels from LIBSVM's sparse text, columns counted from 1.

    ``n_features`` is the width of the result: a part of a data set need not use the
    last columns.
    """
    raw = _read_lines(path)
    try:
        X, y = load_svmlight_file(
            io.BytesIO(raw), n_features=n_features, dtype=dtype, zero_based=False
        )
    except (ValueError, IndexError, OverflowError) as error:
        expected = f"'label column:value ...' with columns 1 to {n_features}"
        raise _damaged(path, f"a bad line ({error})", expected) from error
    _check_finite(path, X.data, dtype)
    # Beyond 2⁵³ two whole numbers may have been read as one.
    changed = ~(np.abs(y) <= 2**53) | (y != np.floor(y))
    if changed.any():
        found = f"the label {y[changed][0]:g}"
        raise _damaged(path, found, "whole numbers of at most 2**53")
    return X, y.astype(np.int64)


def _read_bytes(path: Path) -> bytes:
    """Return the whole content, unpacked if the name ends in ``.gz``."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, f"{error}", "a whole gzip file") from error


def _read_lines(path: Path) -> bytes:
    """Return the whole content, which must end with a whole line."""
    raw = _read_bytes(path)
    if not raw.endswith(b"\n"):
        raise _damaged(path, f"{raw[-20:]!r} as its end", "a line break there")
    return raw


def _check_columns(path: Path, lines: list[bytes], n_columns: int) -> None:
    """Raise for the first line that has not the header's number of columns."""
    if {line.count(b",") for line in lines} == {n_columns - 1}:
        return
    for number, line in enumerate(lines, start=2):
        if (found := line.count(b",") + 1) != n_columns:
            found = f"{found} column(s) in line {number}"
            raise _damaged(path, found, f"{n_columns}, as in the header")


def _check_finite(path: Path, X: np.ndarray, dtype: str) -> None:
    """Raise if a number is missing, infinite, or too large for the type."""
    if not np.isfinite(X).all():
        bad = X[~np.isfinite(X)][0]
        raise _damaged(path, f"the value {bad}", f"numbers that {dtype} can hold")


def _parse_numbers(path: Path, text: bytes, n_rows: int) -> np.ndarray:
    """Turn comma-separated numbers into an array of ``n_rows`` rows."""
    only_integers = not text.translate(None, b"0123456789,+- ")
    try:
        values = np.fromstring(text, np.int64 if only_integers else float, sep=",")
        # Larger integers than int64 holds are cut to its ends.
        if only_integers and np.isin(values, _INT64_ENDS).any():
            values = np.fromstring(text, float, sep=",")
    except (ValueError, DeprecationWarning) as error:
        raise _damaged(
            path, f"a field that is no number ({error})", "numbers"
        ) from error
    # Older NumPy stops at the bad field and returns what it has so far.
    if values.size != text.count(b",") + 1:
        raise _damaged(path, "a field that is no number", "numbers")
    return values.reshape(n_rows, -1)


def parse_labels(path: Path, labels: list[bytes]) -> np.ndarray:
    """Turn labels into int64 if all are integers of that type, else into str.

    Different labels stay different: "1" and "01" are texts.
    """
    names, codes = np.unique(np.array(labels), return_inverse=True)
    decoded = [name.decode("utf-8", "backslashreplace").strip() for name in names]
    if missing := [name for name in decoded if name.lower() in ("", "nan")]:
        raise _damaged(path, f"the label {missing[0]!r}", "a label in every row")
    whole = all(re.fullmatch(r"\+?(0|-?[1-9][0-9]*)", name) for name in decoded)
    if whole and all(abs(int(name)) < 2**63 for name in decoded):
        return np.array([int(name) for name in decoded], dtype=np.int64)[codes]
    return np.array(decoded)[codes]


def _damaged(path: Path, found: str, expected: str) -> ValueError:
    """Return the error for a file whose content is not what it should be."""
    return ValueError(
        f"{path}: found {found}, expected {expected}. The file is damaged or is not "
        "the one meant; delete it and fetch it again."
    )
