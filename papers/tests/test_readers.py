"""Readers return what was written, and say what is wrong with a damaged file."""

import gzip
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from papers.datasets import _readers
from papers.datasets._readers import read_cifar10, read_csv, read_idx, read_libsvm


def idx_bytes(values):
    header = b"\x00\x00\x08" + bytes([values.ndim])
    return header + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write(path, content):
    packed = gzip.compress(content) if path.suffix == ".gz" else content
    path.write_bytes(packed)
    return path


def assert_damaged(read, path, found):
    """The message has the path, what was found, what was expected, and the remedy."""
    pattern = f"{re.escape(str(path))}: found .*{found}.*, expected .+fetch it again"
    with pytest.raises(ValueError, match=pattern):
        read(path)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (5, 2, 3)])
def test_idx_round_trip(tmp_path, rng, shape):
    values = rng.integers(0, 256, shape, dtype=np.uint8)
    path = write(tmp_path / "a.gz", idx_bytes(values))
    assert_array_equal(read_idx(path), values, strict=True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "a header of b''"),
        (b"\x00\x00\x08\x00", "a header of"),
        (b"\x00\x00\x08\x02\x00\x00\x00\x01", "a header of"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "a header of"),
        (idx_bytes(np.zeros((3, 4), np.uint8))[:-1], "11 values"),
        (idx_bytes(np.zeros((3, 4), np.uint8)) + b"\x00", "13 values"),
    ],
    ids=["empty", "no axes", "short header", "doubles", "short", "long"],
)
def test_idx_damaged(tmp_path, content, found):
    assert_damaged(read_idx, write(tmp_path / "a.gz", content), found)


def test_cifar10_round_trip(tmp_path, rng):
    pixels = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
    labels = np.array([0, 9, 3, 3], dtype=np.uint8)
    content = np.column_stack([labels, pixels]).tobytes()
    read_pixels, read_labels = read_cifar10(write(tmp_path / "a.bin", content))
    assert_array_equal(read_pixels, pixels, strict=True)
    assert_array_equal(read_labels, labels, strict=True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "0 bytes"),
        (bytes(3072), "3072 bytes"),
        (bytes(3073) + b"\x0a" + bytes(3072), "label 10"),
    ],
    ids=["empty", "short", "label"],
)
def test_cifar10_damaged(tmp_path, content, found):
    assert_damaged(read_cifar10, write(tmp_path / "a.bin", content), found)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_csv_gives_numbers_labels_and_names(tmp_path, dtype, name, line_break):
    lines = ["u,v,class", "1.5,-2e3,+1", "0.1,4,-1", ""]
    path = write(tmp_path / name, line_break.join(lines).encode())
    table = read_csv(path, dtype)
    assert_array_equal(table.X, np.array([[1.5, -2e3], [0.1, 4]], dtype), strict=True)
    assert_array_equal(table.y, np.array([1, -1]), strict=True)
    assert table.feature_names == ["u", "v"]


def test_csv_keeps_names_of_classes(tmp_path):
    path = write(tmp_path / "a.csv", b"u,class\n1,red soil\n2,7\n3,red soil\n")
    assert read_csv(path).y.tolist() == ["red soil", "7", "red soil"]


@pytest.mark.parametrize("n_rows", [1, 4, 5, 6, 23])
@pytest.mark.parametrize("kind", ["integers", "floats"])
def test_csv_does_not_depend_on_its_blocks(tmp_path, rng, monkeypatch, n_rows, kind):
    X = rng.integers(-999, 999, (n_rows, 3)).astype(float)
    X = X + rng.normal(size=X.shape) if kind == "floats" else X
    form = repr if kind == "floats" else lambda v: str(int(v))
    rows = [",".join([*map(form, row), str(i)]) for i, row in enumerate(X.tolist())]
    path = write(tmp_path / "a.csv", "\n".join(["a,b,c,y", *rows, ""]).encode())
    monkeypatch.setattr(_readers, "CSV_BLOCK_LINES", 5)
    table = read_csv(path)
    assert_array_equal(table.X, X)
    assert_array_equal(table.y, np.arange(n_rows))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "b'' as its end"),
        (b"u,v,y\n1,2,0\n1,2,1", "1,2,1' as its end"),
        (b"u,v,y\n", r"3 column\(s\) and 0 row\(s\)"),
        (b"y\n1\n", r"1 column\(s\) and 1 row\(s\)"),
        (b"u,v,y\n1,2,0\n1,2\n", r"2 column\(s\) in line 3"),
        (b"u,v,y\n1,2,0,4\n1,2\n", r"4 column\(s\) in line 2"),
        (b"u,v,y\n1,?,0\n", "a field that is no number"),
        (b"u,v,y\n1,,0\n", "a field that is no number"),
        (b"u,v,y\n1,2.5x,0\n", "a field that is no number"),
        (b"u,v,y\n1,nan,0\n", "the value nan"),
        (b"u,v,y\n1,-inf,0\n", "the value -inf"),
        (b"u,v,y\n1,1e400,0\n", "the value inf"),
        (b"u,v,y\n1,2,\n1,2,1\n", "the label ''"),
        (b"u,v,y\n1,2,NaN\n1,2,1\n", "the label 'NaN'"),
    ],
)
def test_csv_damaged(tmp_path, content, found):
    assert_damaged(read_csv, write(tmp_path / "a.csv", content), found)


def test_integers_beyond_int64_are_read_as_floats(tmp_path):
    path = write(tmp_path / "a.csv", b"u,v,y\n1,99999999999999999999,0\n2,-3,1\n")
    assert_array_equal(read_csv(path).X, [[1, 1e20], [2, -3]])


def test_numbers_beyond_float32_are_refused_as_such(tmp_path):
    path = write(tmp_path / "a.csv", b"u,v,y\n1,1e39,0\n")
    assert read_csv(path).X[0, 1] == 1e39
    assert_damaged(lambda p: read_csv(p, "float32"), path, "the value inf")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "-2", "+3", "0"], [1, -2, 3, 0]),
        (["1", "01"], ["1", "01"]),
        (["1_000", "5"], ["1_000", "5"]),
        (["9" * 30, "5"], ["9" * 30, "5"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["\u0663", "4"], ["\u0663", "4"]),
    ],
)
def test_different_labels_stay_different(tmp_path, labels, expected):
    rows = [f"1,{label}" for label in labels]
    path = write(tmp_path / "a.csv", "\n".join(["x,y", *rows, ""]).encode())
    assert_array_equal(read_csv(path).y, expected)


NEARLY_NUMBERS = st.text("0123456789.,:-+eENan \n_").map(str.encode)


@pytest.mark.parametrize("kind", ["csv", "libsvm", "idx"])
@settings(max_examples=100)
@given(content=st.binary(max_size=60) | NEARLY_NUMBERS)
def test_any_bytes_are_read_or_refused(tmp_path, kind, content):
    start = b"u,v,y\n" if kind == "csv" else b""
    path = write(tmp_path / ("a.gz" if kind == "idx" else "a"), start + content + b"\n")
    try:
        found = READERS[kind](path)
    except ValueError as error:
        message = str(error)
    else:
        X = found if kind == "idx" else found[0]
        finite = np.isfinite(X.data if kind == "libsvm" else X).all()
        message = "fetch it again" if finite else "not finite"
    assert "fetch it again" in message


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_libsvm_has_the_width_that_is_asked_for(tmp_path, dtype, name):
    path = write(tmp_path / name, b"-1 1:1 3:0.5 \n+1 2:4\n")
    X, y = read_libsvm(path, 5, dtype)
    assert X.format == "csr"
    assert X.dtype == dtype
    assert_array_equal(X.toarray(), [[1, 0, 0.5, 0, 0], [0, 4, 0, 0, 0]])
    assert_array_equal(y, np.array([-1, 1]), strict=True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "b'' as its end"),
        (b"1 1:1\n1 2:", "1 2:' as its end"),
        (b"1 1:1\n1 6:1\n", "a bad line"),
        (b"1 0:1\n", "a bad line"),
        (b"1 one:1\n", "a bad line"),
        (b"1 99999999999999999999:1\n", "a bad line"),
        (b"1 1:nan\n", "the value nan"),
        (b"1 1:1e400\n", "the value inf"),
        (b"1.5 1:1\n", "the label 1.5"),
        (b"1e30 1:1\n", "the label 1e.30"),
        (b"nan 1:1\n", "the label nan"),
    ],
)
def test_libsvm_damaged(tmp_path, content, found):
    path = write(tmp_path / "a.gz", content)
    assert_damaged(lambda path: read_libsvm(path, 5), path, found)


READERS = {
    "idx": read_idx,
    "csv": read_csv,
    "libsvm": lambda path: read_libsvm(path, 5),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip"])
def test_damaged_gzip(tmp_path, read, damage):
    whole = gzip.compress(bytes(range(256)) * 20)
    content = {
        "cut": whole[:-20],
        "flipped": whole[:40] + bytes([whole[40] ^ 255]) + whole[41:],
        "no gzip": b"<html>not found</html>",
    }[damage]
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    assert_damaged(read, path, "")
    with pytest.raises(ValueError, match="expected a whole gzip file"):
        read(path)
