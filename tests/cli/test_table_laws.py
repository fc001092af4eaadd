"""The command line never destroys a file, and never lies about what it read."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from kaucus.cli import main

pandas = pytest.importorskip("pandas")
for package in ("typer", "skops", "pyarrow"):
    pytest.importorskip(package)

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, few_rounds):
    monkeypatch.chdir(tmp_path)


def run(capsys, *argv, code=0):
    """Run a command; return its output and its lines of errors and warnings."""
    found = main([str(word) for word in argv])
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err.splitlines()


FITTED = {}


def fit(capsys, *more, table="train.csv"):
    """Fit model.skops; once for tests that fit the same table in the same way."""
    key, model = (Path(table).read_bytes(), *more), Path("model.skops")
    if key in FITTED:
        told, content = FITTED[key]
        model.write_bytes(content)
        return told
    fast = ["--time", "fast", "--no-holdout", "-o", model]
    told = run(capsys, "fit", table, "--target", "y", *fast, *more)
    FITTED[key] = told, model.read_bytes()
    return told


def refusal(capsys, *argv):
    """Run what must fail; return the one line that says why."""
    _, [line] = run(capsys, *argv, code=2)
    assert line.startswith("kaucus: ")
    return line


def rows(n=60, seed=0):
    """Return a frame with two columns, and a target that follows from them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n).round(3), rng.normal(size=n).round(3)
    return pandas.DataFrame({"a": a, "b": b, "y": (2 * a - b).round(3)})


def write(frame, name="train.csv"):
    frame.to_csv(name, index=False)
    return name


def contents(folder="."):
    return {file: file.read_bytes() for file in Path(folder).iterdir()}


def predictions(name):
    return pandas.read_csv(name, dtype=str, keep_default_na=False)


# ---- files -----------------------------------------------------------------------

COMMANDS = {
    "fit": ["fit", "train.csv", "--target", "y", "--test", "test.csv", "--time=fast"],
    "predict": ["predict", "model.skops", "test.csv"],
    "report": ["report", "model.skops", "test.csv"],
    "card": ["report", "model.skops", "test.csv"],
    "export": ["export", "model.skops"],
}
READ = {
    "fit": ["train.csv", "test.csv"],
    "predict": ["model.skops", "test.csv"],
    "report": ["model.skops", "test.csv"],
    "card": ["model.skops", "test.csv", "report.html"],
    "export": ["model.skops"],
}


def same_name(file):
    return file


def other_path(file):
    return os.path.join("..", Path.cwd().name, file)


def symbolic_link(file):
    Path("link.csv").symlink_to(file)
    return "link.csv"


def hard_link(file):
    os.link(file, "link.csv")
    return "link.csv"


@posix
@pytest.mark.parametrize("alias", [same_name, other_path, symbolic_link, hard_link])
@pytest.mark.parametrize(
    ("command", "file"), [(c, file) for c in COMMANDS for file in READ[c]]
)
def test_a_file_that_is_read_is_never_the_output(command, file, alias, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnx")
    write(rows())
    write(rows(20, 1), "test.csv")
    fit(capsys)
    Path("report.html").write_text("old")
    option = "--card" if command == "card" else "-o"
    output = alias(file)
    before = contents()
    line = refusal(capsys, *COMMANDS[command], option, output)
    assert f"{output} would replace" in line
    assert contents() == before


@posix
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_files_that_look_like_temporary_ones_stay(name, fails, capsys):
    write(rows())
    fit(capsys)
    victim = Path("victim.txt")
    victim.write_text("precious")
    Path(f".part-{name}").symlink_to(victim)
    Path(f".{name}.part").write_text("mine")
    if fails:
        Path("train.csv").write_text("a,b\n1,2\nx,2\n")
    before = contents()
    command = ["predict", "model.skops", "train.csv", "-o", name, "--chunk", "1"]
    run(capsys, *command, code=2 if fails else 0)
    after = contents()
    assert (Path(name) in after) is not fails
    after.pop(Path(name), None)
    assert after == before


@posix
@pytest.mark.parametrize("command", ["fit", "predict", "report", "card", "export"])
@pytest.mark.parametrize("what", ["folder.csv", "fifo.csv", "fixed.csv", "."])
def test_what_is_no_file_is_refused_before_the_work(command, what, capsys):
    write(rows())
    write(rows(20, 1), "test.csv")
    fit(capsys)
    Path("folder.csv").mkdir()
    os.mkfifo("fifo.csv")
    Path("fixed.csv").write_text("old")
    Path("fixed.csv").chmod(0o444)
    option = "--card" if command == "card" else "-o"
    line = refusal(capsys, *COMMANDS[command], option, what)
    assert re.search(rf"{what} is (a folder|a device, a FIFO|read-only)", line)
    assert Path("fifo.csv").is_fifo()
    assert Path("fixed.csv").read_text() == "old"


# ---- labels ----------------------------------------------------------------------

LABELS = [
    ("TRUE", "FALSE"),
    ("true", "false"),
    ("True", "False"),
    ("0.50", "1.50"),
    ("01", "1"),
    ("1e3", "1000"),
    ("10000000000000001", "10000000000000000"),
    ("9007199254740993", "9007199254740992"),
    ("18446744073709551616", "18446744073709551617"),
    ("inf", "-inf"),
    ("None", "NA"),
    ("1.0", "1"),
    ("1e400", "nan"),
    ("+1", "-1"),
    ("a,b", 'say "a"'),
]


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_labels_come_back_as_they_are_in_the_file(labels, capsys):
    frame = rows()
    frame["y"] = np.where(frame["a"] > 0, *labels)
    write(frame)
    fit(capsys, "--task", "classification")
    run(capsys, "predict", "model.skops", "train.csv", "-o", "out.csv", "--proba")
    found = predictions("out.csv")
    assert set(found["predicted_y"]) == set(labels)
    assert set(found) == {"predicted_y", *(f"p_{label}" for label in labels)}
    assert (found["predicted_y"] == frame["y"]).mean() > 0.9
    out, warned = run(capsys, "evaluate", "model.skops", "train.csv")
    assert not warned
    wrong = float(re.search(r"^error +([\d.]+) %", out, re.M)[1])
    expected = 100 * (found["predicted_y"] != frame["y"]).mean()
    assert wrong == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("values", [(0, 1), (7, 10), (False, True)])
def test_labels_of_a_typed_file_keep_their_type(values, capsys):
    frame = rows()
    frame["y"] = np.where(frame["a"] > 0, *values)
    frame.to_parquet("train.parquet")
    fit(capsys, table="train.parquet")
    run(capsys, "predict", "model.skops", "train.parquet", "-o", "out.parquet")
    found = pandas.read_parquet("out.parquet")["predicted_y"]
    assert found.dtype == frame["y"].dtype
    assert (found == frame["y"]).mean() > 0.9
    write(frame, "same.csv")  # the same labels as texts
    assert "100 %" not in run(capsys, "evaluate", "model.skops", "same.csv")[0]


def test_labels_that_fit_has_not_seen_are_told_and_count_as_wrong(capsys):
    frame = rows()
    frame["y"] = np.where(frame["a"] > 0, "up", "down")
    write(frame)
    fit(capsys)
    run(capsys, "predict", "model.skops", "train.csv", "-o", "out.csv")
    right = (predictions("out.csv")["predicted_y"] == frame["y"]).to_numpy()
    changed = frame.assign(y=["sideways"] * 6 + frame["y"].tolist()[6:])
    write(changed, "test.csv")
    out, [warned] = run(capsys, "evaluate", "model.skops", "test.csv")
    assert re.search(
        r"column 'y': 6 values are each counted as wrong.*'sideways' in row 1", warned
    )
    wrong = float(re.search(r"^error +([\d.]+) %", out, re.M)[1])
    assert wrong == pytest.approx(100 * (1 - right[6:].sum() / 60), abs=1e-2)
    write(frame.assign(y="sideways"), "none.csv")
    for command in ("evaluate", "report"):
        line = refusal(capsys, command, "model.skops", "none.csv")
        assert "60 values are each counted as wrong" in line
    command = ["fit", "train.csv", "--target", "y", "--test", "none.csv"]
    assert "60 values are each counted as wrong" in refusal(
        capsys, *command, "-o", "m.skops"
    )
    assert not Path("m.skops").exists()


# ---- columns ---------------------------------------------------------------------


def with_end(text, end):
    header, *lines = text.splitlines()
    return "\n".join([header, *(line + end for line in lines)]) + "\n"


@pytest.mark.parametrize("name", ["odd.csv", "odd.tsv", "odd.txt"])
@pytest.mark.parametrize("rows_changed", [slice(0, None), slice(7, 8)])
@pytest.mark.parametrize("change", ["a field more", "a field less"])
def test_every_row_has_as_many_fields_as_there_are_names(
    name, rows_changed, change, capsys
):
    write(rows())
    fit(capsys)
    separator = "\t" if name == "odd.tsv" else ","
    header, *lines = rows().to_csv(index=False, sep=separator).splitlines()
    for i in range(len(lines))[rows_changed]:
        lines[i] = (
            lines[i] + separator
            if change == "a field more"
            else lines[i].rpartition(separator)[0]
        )
    Path(name).write_text("\n".join([header, *lines]))
    n = 4 if change == "a field more" else 2
    expected = f"row {rows_changed.start + 1} has {n} fields, expected 3"
    commands = [
        ["predict", "model.skops", name, "-o", "out.csv"],
        ["evaluate", "model.skops", name],
        ["fit", name, "--target", "y", "-o", "out.csv"],
    ]
    for command in commands:
        assert expected in refusal(capsys, *command)
    assert not Path("out.csv").exists()


def test_of_two_columns_of_one_name_none_is_taken(capsys):
    write(rows())
    fit(capsys)
    Path("twice.csv").write_text("a,b,a,y\n1,2,3,4\n5,6,7,8\n")
    for command in (
        ["predict", "model.skops", "twice.csv"],
        ["fit", "twice.csv", "--target", "y", "-o", "m.skops"],
        ["fit", "twice.csv", "--target", "a", "-o", "m.skops"],
    ):
        assert "has 2 columns of the name 'a'" in refusal(capsys, *command)
    # A name that the model does not use may be there twice.
    Path("other.csv").write_text("a,b,c,c\n1,2,3,4\n")
    out, _ = run(capsys, "predict", "model.skops", "other.csv")
    assert len(out.split()) == 2


def test_the_order_of_columns_and_other_columns_change_nothing(capsys):
    frame = rows()
    write(frame)
    fit(capsys)
    write(frame[["b", "y", "a"]].assign(c="x"), "other.csv")
    first, _ = run(capsys, "predict", "model.skops", "train.csv")
    second, _ = run(capsys, "predict", "model.skops", "other.csv")
    assert first == second


def categories(n=60):
    frame = rows(n)
    frame["kind"] = np.where(frame["b"] > 0, "x", "z")
    return frame


@pytest.mark.parametrize("command", ["predict", "evaluate", "fit"])
def test_spaces_around_categories_are_told(command, capsys):
    write(categories())
    fit(capsys)
    frame = categories()
    frame.loc[[4, 9], "kind"] = ["x ", " z"]
    write(frame, "spaced.csv")
    argv = [command, "model.skops", "spaced.csv"]
    if command == "fit":
        argv = ["fit", "spaced.csv", "--target", "y", "--time=fast", "--no-holdout"]
    _, lines = run(capsys, *argv, *(["-o", "o.csv"] * (command != "evaluate")))
    [line] = [line for line in lines if "spaces" in line]
    assert "column 'kind': 2 values are each another category" in line
    assert "'x ' in row 5" in line


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_warning_names_its_column_once_in_every_run(chunk, capsys):
    write(categories())
    fit(capsys)
    frame = categories()
    frame.loc[[4, 9, 30], "kind"] = ["new", "new", "newer"]
    write(frame, "new.csv")
    command = ["predict", "model.skops", "new.csv", "--chunk", chunk, "-o", "o.csv"]
    for _ in range(2):
        _, lines = run(capsys, *command)
        [line] = [line for line in lines if "warning" in line]
        assert "column 'kind': 3 values are each read as no category" in line
        assert "'new' in row 5" in line


def test_copied_columns_are_those_of_the_file(capsys):
    frame = rows(4)
    write(frame)
    fit(capsys)
    texts = ["007", " NA ", "1e400", 'a "b", c']
    frame = frame.assign(id=texts, a=["1.50", "+2", "03", "1e0"])
    write(frame, "new.csv")
    keep = ["--keep", "id", "--keep", "a"]
    run(capsys, "predict", "model.skops", "new.csv", *keep, "-o", "out.csv")
    assert predictions("out.csv")["id"].tolist() == texts
    assert predictions("out.csv")["a"].tolist() == ["1.50", "+2", "03", "1e0"]


# ---- numbers ---------------------------------------------------------------------


def held_out_error(capsys, frame, *more):
    write(frame[:300])
    write(frame[300:], "test.csv")
    out, _ = run(
        capsys, "fit", "train.csv", "--target", "y", "--test", "test.csv", *more
    )
    return float(re.search(r"^RMSE +([\d.e+-]+)", out, re.M)[1])


@pytest.mark.parametrize(
    ("unit", "start", "time"),
    [
        *((1, 1.7e9, "fast"), (1e3, 1.7e12, "fast"), (1e9, 1.7e18, "fast")),
        (1e9, 1.7e18, "balanced"),
    ],
)
def test_a_column_of_times_is_as_good_in_any_unit(unit, start, time, capsys):
    rng = np.random.default_rng(0)
    seconds = rng.uniform(0, 600, 450)
    y = np.sin(seconds / 60) + 0.05 * rng.normal(size=450)
    frame = pandas.DataFrame({"t": seconds, "y": y})
    expected = held_out_error(capsys, frame, "--time", time)
    stamps = (frame["t"] * unit + start).map(lambda t: f"{t:.6f}")
    found = held_out_error(capsys, frame.assign(t=stamps), "--time", time)
    assert found == pytest.approx(expected, rel=0.05)
    if unit == 1:
        stamps = pandas.to_datetime(frame["t"] + start, unit="s").astype(str)
        found = held_out_error(capsys, frame.assign(t=stamps), "--time", time)
        assert found < 2 * expected  # there are columns of years and hours, too


@pytest.mark.parametrize("columns", [["a", "y"], ["kind", "y"], ["day", "y"]], ids=str)
@pytest.mark.parametrize("chunk", [1, 17])
def test_the_size_of_a_chunk_changes_no_number(chunk, columns, capsys):
    write(categories())
    fit(capsys)
    numbers = []
    for size in (chunk, 1000):
        run(
            capsys,
            *COMMANDS["predict"][:2],
            "train.csv",
            "-o",
            "o.csv",
            "--chunk",
            size,
        )
        numbers.append(predictions("o.csv")["predicted_y"].astype(float))
    np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", ["inf", "-inf", "1e300", "1e400", "-1e101"])
@pytest.mark.parametrize("column", ["a", "y"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_number_that_overflows_is_named_with_its_row(value, column, kind, capsys):
    write(rows())
    fit(capsys)
    frame = rows()
    if kind == "csv":
        frame = frame.astype({column: str})
    frame.loc[8, column] = value if kind == "csv" else float(value)
    if kind == "csv":
        table = write(frame, "odd.csv")
    else:
        frame.to_parquet(table := "odd.parquet")
    commands = [["fit", table, "--target", "y", "-o", "m.skops"]]
    commands += [["evaluate", "model.skops", table]]
    if column == "a":
        commands += [["predict", "model.skops", table, "-o", "m.skops.csv"]]
    for command in commands:
        line = refusal(capsys, *command)
        assert re.search(rf"row 9, column '{column}': .* is not at most 1e\+100", line)
    assert not list(Path().glob("m.skops*"))


@pytest.mark.parametrize("value", ["18446744073709551616", "1e30", "-9e99"])
def test_large_numbers_are_numbers(value, capsys):
    frame = rows().astype({"a": str})
    frame.loc[8, "a"] = value
    write(frame)
    out, _ = fit(capsys)
    assert "2 numbers" in out
    run(capsys, "predict", "model.skops", "train.csv", "-o", "out.csv")
    assert len(predictions("out.csv")) == 60


@pytest.mark.parametrize("word", ["soon", "y", "1,5", "NA", "TRUE x"])
def test_a_word_among_numeric_targets_is_an_error_unless_asked_for(word, capsys):
    frame = rows().astype({"y": str})
    frame.loc[8, "y"] = word
    write(frame)
    command = ["fit", "train.csv", "--target", "y", "--time=fast", "--no-holdout"]
    for more in ([], ["--task", "regression"]):
        line = refusal(capsys, *command, *more)
        assert re.search(r"row 9, column 'y': ('.*' is not a number|.*missing)", line)
    assert not Path("model.skops").exists()
    if word == "soon":
        out, _ = run(capsys, *command, "--task", "classification")
        assert "classification of y" in out


def test_a_word_among_the_numbers_of_a_column_is_told(capsys):
    frame = rows().astype({"a": str})
    frame.loc[8, "a"] = "big"
    write(frame)
    _, [line] = fit(capsys)
    assert re.search(r"column 'a': 1 value is not a number.*'big' in row 9", line)


# ---- dates -----------------------------------------------------------------------


def days(n=80):
    """Return rows whose target is the day of the year, about."""
    day = pandas.date_range("2024-01-01", periods=n, freq="3D")
    return pandas.DataFrame({"day": day, "y": np.arange(n) * 0.1})


def dated(form, n=80):
    return days(n).assign(day=lambda frame: frame["day"].dt.strftime(form))


UNAMBIGUOUS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y-%m-%dT%H:%M:%S",
    "%Y%m%d",
    "%d %B %Y",
    "%d-%b-%Y",
    "%Y-%m-%d %H:%M:%S+00:00",
]


@pytest.mark.parametrize("form", UNAMBIGUOUS)
@pytest.mark.parametrize("fitted", ["%Y-%m-%d", "%d/%m/%Y", "%d %B %Y"])
def test_dates_in_another_format_are_the_same_dates(form, fitted, capsys):
    write(dated(fitted))
    fit(capsys)
    write(dated(fitted), "same.csv")
    write(dated(form), "other.csv")
    expected, first = run(capsys, "predict", "model.skops", "same.csv")
    found, second = run(capsys, "predict", "model.skops", "other.csv")
    assert found == expected
    assert first == second == ["80 rows"]


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y %H:%M"])
@pytest.mark.parametrize("chunk", [7, 1000])
def test_dates_that_may_be_two_days_are_gaps_and_counted(form, chunk, capsys):
    write(dated("%Y-%m-%d"))
    fit(capsys)
    write(dated(form), "other.csv")
    command = ["predict", "model.skops", "other.csv", "-o", "o.csv", "--chunk", chunk]
    _, [line, _] = run(capsys, *command)
    day = days()["day"].dt
    either = (day.day <= 12) & (day.day != day.month)
    first = int(np.argmax(either)) + 1
    assert f"column 'day': {either.sum()} values are each read as missing" in line
    assert f"in row {first}" in line
    run(capsys, "predict", "model.skops", "train.csv", "-o", "same.csv")
    first, second = (
        predictions(name)["predicted_y"].astype(float)[~either]
        for name in ("o.csv", "same.csv")
    )
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("fitted", "other"), [("%d/%m/%Y", "%m/%d/%Y"), ("%m/%d/%Y", "%d/%m/%Y")]
)
def test_the_order_of_day_and_month_is_that_of_fit(fitted, other, capsys):
    write(dated(fitted))
    fit(capsys)
    write(dated(fitted)[:4], "few.csv")  # alone they might be of either order
    all_rows, _ = run(capsys, "predict", "model.skops", "train.csv")
    few, _ = run(capsys, "predict", "model.skops", "few.csv")
    few, first = (np.array(out.split()[1:5], float) for out in (few, all_rows))
    np.testing.assert_allclose(few, first, rtol=1e-9, atol=1e-9)
    write(dated(other), "other.csv")
    line = refusal(capsys, "predict", "model.skops", "other.csv")
    assert re.search(r"row \d+, column 'day': '.*' is not a date, .* first", line)


def test_words_among_dates_are_gaps_and_counted(capsys):
    frame = dated("%Y-%m-%d")
    frame.loc[[5, 9], "day"] = ["garbage", "soon"]
    write(frame)
    out, [line] = fit(capsys)
    assert re.search(r"columns +1 date$", out, re.M)
    assert re.search(
        r"column 'day': 2 values are each read as missing.*'garbage' in row 6", line
    )
    _, [again, _] = run(capsys, "predict", "model.skops", "train.csv", "-o", "o.csv")
    assert again == line
    frame["day"] = frame["day"].where(~frame.index.isin([5, 9]), "")
    write(frame, "gaps.csv")
    run(capsys, "predict", "model.skops", "gaps.csv", "-o", "gaps-out.csv")
    assert Path("o.csv").read_bytes() == Path("gaps-out.csv").read_bytes()


@pytest.mark.parametrize("word", ["garbage", "12345", "01/02/2024", "3.5"])
@pytest.mark.parametrize("output", [[], ["-o", "out.csv"]])
def test_a_column_without_a_date_is_an_error(word, output, capsys):
    write(dated("%Y-%m-%d"))
    fit(capsys)
    write(days(5).assign(day=word), "odd.csv")
    command = ["predict", "model.skops", "odd.csv", *output]
    out, [line] = run(capsys, *command, code=2)
    assert out == ""
    assert re.search(
        r"column 'day': 5 values are each read as missing.*every value", line
    )
    assert not Path("out.csv").exists()
    write(days(5).assign(day=""), "gaps.csv")  # a gap is no wrong date
    run(capsys, "predict", "model.skops", "gaps.csv")


# ---- no traceback ----------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["", "\n\n", "a,b,y\n", "a,b,y\n\n", "a,b,y\n1,2,3"]
)
@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "report"])
def test_a_table_without_rows_is_one_line(content, command, capsys):
    write(rows())
    fit(capsys)
    Path("empty.csv").write_text(content)
    argv = [command, "model.skops", "empty.csv"]
    if command == "fit":
        argv = ["fit", "empty.csv", "--target", "y"]
    elif content.endswith("3"):
        return  # one row can be predicted
    if command != "evaluate":
        argv += ["-o", "out.csv"]
    line = refusal(capsys, *argv)
    assert re.search("has no rows|has [01] rows|is empty; expected", line)
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["fit", "train.csv", "--target", "y", "--seed", "-1"],
            "'--seed': Input should be",
        ),
        (["fit", "train.csv", "--target", "y", "--seed", 2**32], "'--seed': Input"),
        (["fit", "train.csv", "--target", "y", "--weights", "y"], "is the target"),
        (["predict", "--keep", "a", "--keep", "a"], "--keep='a' would be the second"),
        (["predict", "--keep", "predicted_y"], "'predicted_y' would be the second"),
        (["predict", "--keep", "lower", "--interval", "0.9"], "'lower' would be"),
        (["predict", "--keep", "upper", "--interval", "0.9"], "'upper' would be"),
        (["predict", "--interval", "nan"], "must be between 0 and 1"),
    ],
)
def test_options_that_cannot_be_are_one_line(argv, message, capsys):
    frame = rows().assign(predicted_y=1, lower=1, upper=1)
    write(frame, "test.csv")
    write(rows())
    command = ["fit", "train.csv", "--target", "y", "--test", "test.csv"]
    run(capsys, *command, "--time=fast", "-o", "model.skops")
    if argv[0] == "predict":
        argv = ["predict", "model.skops", "test.csv", *argv[1:]]
    line = refusal(capsys, *argv, "-o", "out.csv")
    assert message in line
    assert not Path("out.csv").exists()


def test_a_copied_column_is_no_column_of_probabilities(capsys):
    frame = rows()
    frame["y"] = np.where(frame["a"] > 0, "yes", "no")
    write(frame)
    fit(capsys)
    write(frame.assign(p_yes=1), "test.csv")
    command = ["predict", "model.skops", "test.csv", "--keep", "p_yes", "-o", "o.csv"]
    run(capsys, *command)
    assert "'p_yes' would be the second" in refusal(capsys, *command, "--proba")


def test_what_a_library_refuses_is_one_line(capsys, monkeypatch):
    from kaucus.export import tables

    def refuse(*_, **__):
        raise MemoryError("10 rows need 3.1 KiB, and 0 B are allowed")

    monkeypatch.setattr(tables, "judge_held_out", refuse)
    write(rows())
    _, [line] = run(capsys, "fit", "train.csv", "--target", "y", code=1)
    assert line == "kaucus: 10 rows need 3.1 KiB, and 0 B are allowed"
