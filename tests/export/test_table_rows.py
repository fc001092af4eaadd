"""Tables as people have them: every kind of file, errors with column and row."""

import gzip
import lzma
import zipfile

import numpy as np
import pytest

from kaucus.export.tables import (
    Remarks,
    TableError,
    as_kinds,
    kind_of,
    read_chunks,
    read_table,
    score_predictions,
    task_of,
)

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def frame():
    return pandas.DataFrame(
        {
            "n": [1.5, None, 3.0, 4.0],
            "code": ["7", "8", "x", "9"],
            "yes": [True, False, True, True],
            "day": pandas.to_datetime(["2024-01-01", "2024-02-29", None, "2025-01-01"]),
        }
    )


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        separator = "\t" if ".tsv" in path.name else ","
        frame.to_csv(path, index=False, sep=separator)
    return path


def converted(path, kinds, n_rows=None):
    """Return the chunks of a table with columns of these kinds."""
    remarks = Remarks(path)
    chunks = read_chunks(path, n_rows=n_rows)
    frames = [as_kinds(frame, kinds, remarks) for frame in chunks]
    remarks.check()
    remarks.warn()
    return frames


NAMES = ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.xz", "a.txt", "a.parquet", "a.feather"]
KINDS = {"n": "number", "code": "text", "yes": "number", "day": "date"}


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_file_has_the_same_rows(name, frame, tmp_path):
    path = write(frame, tmp_path / name)
    [whole] = converted(path, KINDS)
    assert whole["n"].tolist()[2:] == [3.0, 4.0]
    assert np.isnan(whole["n"][2])
    assert whole["code"].tolist() == ["7", "8", "x", "9"]
    assert whole["yes"].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert whole["day"].dt.year.tolist()[:2] == [2024, 2024]
    parts = converted(path, KINDS, n_rows=2)
    assert [len(part) for part in parts] == [2, 2]
    pandas.testing.assert_frame_equal(pandas.concat(parts), whole, check_dtype=False)


def test_a_chunk_of_digits_stays_text(frame, tmp_path):
    """Alone, the first two codes would be numbers."""
    path = write(frame, tmp_path / "a.csv")
    first = converted(path, KINDS, n_rows=2)[0]
    assert first["code"].tolist() == ["7", "8"]


def test_other_columns_are_left_out_and_order_does_not_matter(frame, tmp_path):
    path = write(frame[["day", "code", "n"]], tmp_path / "a.csv")
    kinds = {"n": "number", "code": "text"}
    assert list(converted(path, kinds)[0].columns) == ["n", "code"]


def test_kinds_as_they_look(frame):
    kinds = {name: kind_of(frame[name]) for name in frame.columns}
    assert kinds == KINDS
    assert kind_of(pandas.Series(["1", " 2.5", None])) == "number"
    assert kind_of(pandas.Series([None, None], dtype=object)) == "text"


def test_a_value_of_another_kind_is_named_with_its_row(frame, tmp_path):
    path = write(frame.assign(n=["1", "2", "three", "4"]), tmp_path / "a.csv")
    with pytest.raises(TableError, match="row 3, column 'n': 'three' is not a"):
        converted(path, KINDS, n_rows=2)


def test_a_missing_column_is_named(frame, tmp_path):
    path = write(frame.drop(columns="n"), tmp_path / "a.csv")
    with pytest.raises(TableError, match="has no column 'n'; it has code, yes, day"):
        converted(path, KINDS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\n1,2\n1,2,3\n"),
        ("a.csv", b""),
        ("a.csv.gz", b"not packed"),
        ("a.parquet", b"PAR1"),
        ("a.feather", b"FEA"),
        ("a.csv", b"a\n\xff\xfe\xfa\n"),
        ("a.csv", b'a,b\n1,"open\n2,3\n4,5\n'),
        ("a.csv", b'a,b\n1,2\n3,"open\n4,5'),
        ("a.csv", b'a,b\n"open,2\n3,4\n'),
        ("a.csv", b'a,b\n1,2\n3,"open\n' + b"4,5\n" * 2**21),
        ("a.csv.xz", b"not packed"),
        ("a.csv.zst", b"not packed"),
        ("a.csv.zip", b"not packed"),
    ],
)
def test_a_broken_file_is_one_line(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match="cannot be read") as caught:
        list(read_chunks(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", [["1", "2"]]),
        (b'\n\na,b\n\n1,"x\ny"\n\n', [["1", "x\ny"]]),
        (b'a,b\n5" pipe,"say ""a"", b"', [['5" pipe', 'say "a", b']]),
        (b'"a",b\n 1 ,NA\n,0x1f', [[" 1 ", "NA"], ["", "0x1f"]]),
        (b"a,b\r1,2\r3,4", [["1", "2"], ["3", "4"]]),
    ],
)
@pytest.mark.parametrize("pack", [None, "gz", "xz", "zst", "zip"])
def test_texts_are_those_of_the_file(content, expected, pack, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    if pack is not None:
        path = pack_as(pack, path, content)
    frame = read_table(path)
    assert list(frame.columns) == ["a", "b"]
    assert frame.astype(str).to_numpy().tolist() == expected
    assert list(frame.index) == list(range(1, len(expected) + 1))


def pack_as(pack, path, content):
    """Write bytes to a packed file, and return its path."""
    path = path.with_name(f"{path.name}.{pack}")
    if pack == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", content)
    elif pack == "zst":
        with pytest.importorskip("pyarrow").output_stream(path) as stream:
            stream.write(content)
    else:
        path.write_bytes({"gz": gzip, "xz": lzma}[pack].compress(content))
    return path


@pytest.mark.parametrize(
    ("header", "separator"), [("first name\tb", "\t"), ("a;b", ";"), ("a b,c", ",")]
)
def test_the_separator_of_a_txt_file_is_found(header, separator, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(f"{header}\n1{separator}2\n")
    assert list(read_table(path).columns) == header.split(separator)


def test_an_unknown_kind_of_file_lists_the_known(tmp_path):
    (tmp_path / "a.docx").write_text("")
    with pytest.raises(TableError, match=r"expected a name that ends in \.csv, \.tsv"):
        read_table(tmp_path / "a.docx")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        ([0.0, 1.0, 1.0], "classification"),
        ([0.5, 1.0], "regression"),
        (list(range(30)), "regression"),
        ([True, False], "classification"),
    ],
)
def test_what_a_target_asks_for(values, task):
    assert task_of(pandas.Series(values)) == task


@pytest.mark.parametrize("wrong", [0, 3, 100])
def test_the_interval_of_an_error_holds_it_and_is_never_empty(wrong):
    class Classifier:
        classes_ = (0, 1)

    y = (np.arange(100) < wrong).astype(int)
    score = score_predictions(Classifier(), y, np.zeros(100, dtype=int))
    assert score.value == pytest.approx(wrong)
    assert 0 <= score.low <= score.value <= score.high <= 100
    assert score.high - score.low > 2
    # Rows of weight 2 are two rows of the same error, of which one tells nothing new.
    twice = score_predictions(
        Classifier(), y, np.zeros(100, dtype=int), np.full(100, 2)
    )
    assert twice == pytest.approx(score)
