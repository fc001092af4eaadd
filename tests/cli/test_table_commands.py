"""fit, predict, evaluate and export, as a person uses them."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from kaucus import KMeansKernelRegressor
from kaucus.cli import main
from kaucus.persistence import describe, load, save

pandas = pytest.importorskip("pandas")
for package in ("typer", "skops", "pyarrow"):
    pytest.importorskip(package)


def make_frame(n, seed):
    rng = np.random.default_rng(seed)
    size, kind = rng.normal(size=n), rng.choice(["small", "large"], n)
    return pandas.DataFrame(
        {
            "name": [f"row {i}" for i in range(n)],
            "size": np.where(rng.random(n) < 0.1, np.nan, size).round(3),
            "kind": kind,
            "sold": pandas.date_range("2024-01-01", periods=n).astype(str),
            "weight": rng.integers(1, 4, n),
            "price": (size + 2 * (kind == "large") + 3).round(2),
            "class": np.where(size > 0, "dear", "cheap"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model of each task, fitted by the command."""
    folder = tmp_path_factory.mktemp("tables")
    train, test = make_frame(150, 0), make_frame(60, 1)
    train.drop(columns=["name", "weight", "class"]).to_csv(
        folder / "price.csv", index=False
    )
    train.drop(columns=["name", "price"]).to_parquet(folder / "class.parquet")
    test.to_csv(folder / "test.csv.gz", index=False)
    fit("price.csv", "price", folder, "--test", str(folder / "test.csv.gz"))
    fit("class.parquet", "class", folder, "--weights", "weight")
    return folder


def fit(table, target, folder, *more):
    files = [str(folder / table), "-o", str(folder / f"{target}.skops")]
    assert main(["fit", *files, "--target", target, "--time", "fast", *more]) == 0


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def one_line(capsys):
    [line] = capsys.readouterr().err.splitlines()
    return line


# ---- fit ---------------------------------------------------------------------------


def test_fit_says_what_came_of_it(capsys):
    command = ["fit", "price.csv", "--target", "price", "--time", "fast"]
    assert main([*command, "-o", "again.skops", "--test", "test.csv.gz"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^task +regression of price$", out, re.M)
    assert re.search(r"^rows +150$", out, re.M)
    assert re.search(r"^columns +1 number, 1 text, 1 date$", out, re.M)
    assert re.search(
        r"^chosen +RMSE .* on held-out rows: trees \d+ of 20 votes", out, re.M
    )
    assert re.search(r"^RMSE +[\d.]+ \(95 % .* to [\d.]+\), test.csv.gz$", out, re.M)
    assert re.search(r"^time +[\d.]+ m?s$", out, re.M)
    assert re.search(r"^memory +[\d.]+ (\wi)?B$", out, re.M)
    assert out.endswith("wrote again.skops\n")


def test_the_file_tells_what_the_model_is():
    told = describe("class.skops")
    assert told.estimator == "TableClassifier"
    assert told.columns == ("size", "kind", "sold")
    assert told.about["task"] == "classification"
    assert told.about["weights"] == "weight"
    name, error, low, high, n_rows = told.about["score"]
    assert (name, n_rows) == ("error", 30)
    assert 0 <= low <= error <= high < 40


def test_columns_have_their_names_in_the_model():
    model = load("class.skops")
    assert list(model.feature_names_in_) == ["size", "kind", "sold"]
    assert model.categories_["kind"].tolist() == ["large", "small"]


def test_the_model_is_good():
    test = pandas.read_csv("test.csv.gz")
    model = load("price.skops")
    rows = test[["size", "kind", "sold"]].astype({"kind": object, "sold": object})
    error = np.sqrt(np.mean((model.predict(rows) - test["price"]) ** 2))
    assert error < 0.5 * test["price"].std()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["price.csv", "--target", "Price"], "has no column 'Price'.*mean 'price'"),
        (["price.csv", "--target", "price", "--task", "magic"], "--task='magic' must"),
        (["price.csv", "--target", "price", "--time", "now"], "--time='now' must be"),
        (["price.csv", "--target", "price", "-o", "no/m.skops"], "no folder no; make"),
        (["price.csv", "--target", "price", "--weights", "w"], "has no column 'w'"),
        (["price.csv", "--target", "kind", "--task", "regression"], "row 1, column 'k"),
        (["price.csv", "--target", "price", "--device", "tpu"], "device='tpu'"),
        (["price.csv", "--target", "price", "--memory-budget", "x"], "memory_budget="),
        (["gaps.csv", "--target", "y"], r"gaps\.csv, row 2, column 'y'.*missing"),
        (["gaps.csv", "--target", "x", "--weights", "w"], "row 3, column 'w': -1"),
        (["one.csv", "--target", "y"], "every row is 'a'; there is nothing to learn"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(argv, message, capsys):
    Path("gaps.csv").write_text("x,y,w\n1,2,1\n2,,1\n3,4,-1\n")
    Path("one.csv").write_text("x,y\n1,a\n2,a\n3,a\n")
    assert main(["fit", *argv]) == 2
    assert re.search(message, one_line(capsys))


def test_a_missing_file_is_exit_code_3(capsys):
    assert main(["fit", "nothing.csv", "--target", "y"]) == 3
    assert one_line(capsys) == "kaucus: There is no file nothing.csv."


def test_true_and_false_are_predicted_as_words(capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40).round(2)
    pandas.DataFrame({"x": x, "up": x > 0}).to_csv("up.csv", index=False)
    command = ["fit", "up.csv", "--target", "up", "--time", "fast", "--no-holdout"]
    assert main([*command, "-o", "up.skops"]) == 0
    assert "not measured" in capsys.readouterr().out
    assert main(["predict", "up.skops", "up.csv"]) == 0
    lines = capsys.readouterr().out.split()
    assert lines[0] == "predicted_up"
    assert set(lines[1:]) == {"True", "False"}
    assert main(["evaluate", "up.skops", "up.csv"]) == 0


# ---- predict -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"])
def test_chunks_of_any_length_give_the_same(name, capsys):
    command = ["predict", "class.skops", "test.csv.gz", "--proba", "--keep", "name"]
    for chunk, file in ((25, name), (1000, f"whole-{name}")):
        assert main([*command, "-o", file, "--chunk", str(chunk)]) == 0
        assert one_line(capsys) == f"60 rows, wrote {file}"
    parts, whole = (
        pandas.read_parquet(f)
        if f.endswith("parquet")
        else pandas.read_csv(f, sep="\t" if "tsv" in f else ",")
        for f in (name, f"whole-{name}")
    )
    pandas.testing.assert_frame_equal(parts, whole, rtol=1e-4)
    assert list(whole) == ["name", "predicted_class", "p_cheap", "p_dear"]
    assert whole["name"].tolist() == [f"row {i}" for i in range(60)]
    np.testing.assert_allclose(whole["p_cheap"] + whole["p_dear"], 1, atol=1e-5)
    right = whole["predicted_class"] == pandas.read_csv("test.csv.gz")["class"]
    assert right.mean() > 0.8


def test_without_a_file_rows_go_to_the_terminal(capsys):
    assert main(["predict", "price.skops", "test.csv.gz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "predicted_price"
    assert len(lines) == 61


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["price.skops", "test.csv.gz", "--proba"], "--proba needs a classifier"),
        (["class.skops", "test.csv.gz", "--interval", "0.9"], "needs a regressor with"),
        (["class.skops", "price.csv", "--keep", "id"], "has no column 'id'"),
        (["price.csv", "test.csv.gz"], "is not a model that kaucus has saved"),
        (["price.skops", "bad.csv"], r"bad\.csv, row 2, column 'size': 'big' is not a"),
        (["plain.skops", "test.csv.gz"], "not written by `kaucus fit`"),
        (["price.skops", "test.csv.gz", "-o", "no/o.csv"], "no folder no"),
        (["price.skops", "test.csv.gz", "-o", "o.docx"], "is of no known kind"),
        (["price.skops", "test.csv.gz", "-o", "o.feather"], "cannot be written"),
        (["price.skops", "empty.csv"], r"empty\.csv has no rows"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(argv, message, capsys):
    Path("bad.csv").write_text("size,kind,sold\n1,small,2024-01-01\nbig,small,\n")
    Path("empty.csv").write_text("size,kind,sold\n")
    X = np.arange(8.0)[:, None]
    save(
        KMeansKernelRegressor(2, kernel="rbf", gamma=1, C=1).fit(X, X[:, 0]),
        "plain.skops",
    )
    assert main(["predict", *argv]) == 2
    assert re.search(message, one_line(capsys))


def test_no_half_file_is_left(capsys):
    Path("late.csv").write_text("size,kind,sold\n1,small,\n2,small,\nbig,small,\n")
    Path("kept.csv").write_text("old")
    command = ["predict", "price.skops", "late.csv", "--chunk", "1", "-o", "kept.csv"]
    assert main(command) == 2
    assert "row 3, column 'size'" in one_line(capsys)
    assert Path("kept.csv").read_text() == "old"
    assert not list(Path().glob(".part-*"))


def test_bounds_of_numbers_are_those_of_rows_held_out(capsys):
    command = ["predict", "price.skops", "test.csv.gz", "--interval", "0.8"]
    assert main([*command, "-o", "bounds.csv"]) == 0
    found = pandas.read_csv("bounds.csv")
    predicted, truth = found["predicted_price"], pandas.read_csv("test.csv.gz")["price"]
    assert (found["lower"] < predicted).all()
    assert np.ptp(found["upper"] - found["lower"]) < 1e-5
    within = (found["lower"] <= truth) & (truth <= found["upper"])
    assert 0.6 < within.mean() <= 1.0
    capsys.readouterr()
    assert main([*command[:-1], "90"]) == 2
    assert "must be between 0 and 1" in one_line(capsys)


# ---- evaluate, export --------------------------------------------------------------


def test_evaluate_prints_the_error_and_the_classes(capsys):
    assert main(["evaluate", "class.skops", "test.csv.gz"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"error +[\d.]+ % \(95 % interval [\d.]+ to [\d.]+\)", out)
    assert re.search(r"^cheap +\d+ +[\d.]+ %", out, re.M)


def test_evaluate_agrees_with_fit(capsys):
    """The error that fit printed for the test table is that of evaluate."""
    assert main(["evaluate", "price.skops", "test.csv.gz"]) == 0
    found = re.search(r"RMSE +([\d.]+) ", capsys.readouterr().out)
    expected = describe("price.skops").about["score"][1]
    assert float(found[1]) == pytest.approx(expected, rel=1e-3)


def test_export_writes_a_graph_or_says_why_not(capsys):
    pytest.importorskip("onnx")
    frame = pandas.read_csv("price.csv").drop(columns="sold")
    frame.to_csv("numbers.csv", index=False)
    command = ["fit", "numbers.csv", "--target", "price", "--time", "fast"]
    assert main([*command, "--no-holdout", "-o", "numbers.skops"]) == 0
    capsys.readouterr()
    assert main(["export", "numbers.skops", "-o", "numbers.onnx"]) == 0
    assert "size, kind to prediction" in capsys.readouterr().out
    assert Path("numbers.onnx").stat().st_size > 1000
    assert main(["export", "price.skops"]) == 2
    assert "'sold' has dates, which ONNX cannot express" in one_line(capsys)


def test_report_writes_a_page_and_a_card(capsys):
    pytest.importorskip("matplotlib")
    command = ["report", "class.skops", "test.csv.gz", "-o", "page.html"]
    assert main([*command, "--card", "card.md"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"wrote page\.html, [\d.]+ KiB", lines[0])
    assert lines[1] == "wrote card.md"
    page = Path("page.html").read_text("utf-8")
    assert "TableClassifier of class" in page
    assert "120 rows" in page or "150 rows" in page
    assert "# Model description" in Path("card.md").read_text("utf-8")


# ---- a terminal --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pexpect") is None or sys.platform == "win32",
    reason="pexpect drives a terminal",
)
def test_a_person_at_a_terminal_sees_a_bar_and_the_summary():
    import pexpect

    pandas.read_csv("price.csv")[:50].to_csv("few.csv", index=False)
    command = ["-m", "kaucus", "fit", "few.csv", "--target", "price", "-o", "t.skops"]
    command += ["--test", "test.csv.gz", "--time", "fast"]
    person = pexpect.spawn(
        sys.executable, command, dimensions=(40, 100), timeout=120, encoding="utf-8"
    )
    person.expect(r"\[kaucus\] [█·]+ ")  # the bar
    person.expect(r"task +regression of price")
    person.expect(r"RMSE +[\d.]+ .* test.csv.gz")
    person.expect("wrote t.skops")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 0
