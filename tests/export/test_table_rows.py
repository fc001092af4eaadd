"""Tables as people have them: every kind of file, errors with column and row."""

import numpy as np
import pytest

from kaucus.export.tables import (
    TableError,
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


NAMES = ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.xz", "a.txt", "a.parquet", "a.feather"]
KINDS = {"n": "number", "code": "text", "yes": "number", "day": "date"}


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_file_has_the_same_rows(name, frame, tmp_path):
    path = write(frame, tmp_path / name)
    whole = read_table(path, KINDS)
    assert whole["n"].tolist()[2:] == [3.0, 4.0]
    assert np.isnan(whole["n"][2])
    assert whole["code"].tolist() == ["7", "8", "x", "9"]
    assert whole["yes"].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert whole["day"].dt.year.tolist()[:2] == [2024, 2024]
    parts = list(read_chunks(path, KINDS, n_rows=2))
    assert [len(part) for part in parts] == [2, 2]
    pandas.testing.assert_frame_equal(pandas.concat(parts), whole, check_dtype=False)


def test_a_chunk_of_digits_stays_text(frame, tmp_path):
    """Alone, the first two codes would be numbers."""
    path = write(frame, tmp_path / "a.csv")
    first = next(read_chunks(path, KINDS, n_rows=2))
    assert first["code"].tolist() == ["7", "8"]


def test_other_columns_are_left_out_and_order_does_not_matter(frame, tmp_path):
    path = write(frame[["day", "code", "n"]], tmp_path / "a.csv")
    kinds = {"n": "number", "code": "text"}
    assert list(read_table(path, kinds).columns) == ["n", "code"]


def test_kinds_as_they_look(frame):
    kinds = {name: kind_of(frame[name]) for name in frame.columns}
    assert kinds == KINDS
    assert kind_of(pandas.Series(["1", " 2.5", None])) == "number"
    assert kind_of(pandas.Series([None, None], dtype=object)) == "text"


def test_a_value_of_another_kind_is_named_with_its_row(frame, tmp_path):
    path = write(frame.assign(n=["1", "2", "three", "4"]), tmp_path / "a.csv")
    with pytest.raises(TableError, match="row 3, column 'n': 'three' is not a"):
        list(read_chunks(path, KINDS, n_rows=2))
    path = write(frame.assign(day=["2024-01-01", "soon", "", ""]), tmp_path / "b.csv")
    with pytest.raises(TableError, match="row 2, column 'day': 'soon' is not a date"):
        read_table(path, KINDS)


def test_a_missing_column_is_named(frame, tmp_path):
    path = write(frame.drop(columns="n"), tmp_path / "a.csv")
    with pytest.raises(TableError, match="has no column 'n'; expected the columns n, "):
        read_table(path, KINDS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\n1,2\n1,2,3\n"),
        ("a.csv", b""),
        ("a.csv.gz", b"not packed"),
        ("a.parquet", b"PAR1"),
        ("a.feather", b"FEA"),
        ("a.csv", b"a\n\xff\xfe\xfa\n"),
    ],
)
def test_a_broken_file_is_one_line(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match="cannot be read") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


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
