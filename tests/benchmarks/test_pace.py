"""Error over seconds: steps, rows, tables and figure."""

import numpy as np
import pytest

from benchmarks import pace
from benchmarks._runner import Settings


def record(contender, setting, seconds, error):
    head = {"contender": contender, "setting": setting, "table": "made"}
    return {**head, "rows": 10, "columns": 2, "fit_seconds": seconds, "error": error}


def test_a_setting_changes_what_sets_the_time():
    assert pace.make_model("kaucus", "fast", True).n_representatives == "fast"
    assert pace.make_model("HistGradientBoosting", 30, False).max_iter == 30
    steps = pace.steps(Settings())
    assert {step.section for step in steps} == set(pace.PARTS)
    with pytest.raises(FileNotFoundError, match="'some'"):
        pace.steps(Settings(parts=["some"]))
    assert all(
        step.section == "small" for step in pace.steps(Settings(parts=["small"]))
    )


def test_rows_that_are_made_have_the_noise_that_is_said():
    data = pace.made_rows(1000)
    assert data.X.shape == (1000, 20)
    X = data.X_test
    f = pace.made_signal(X)
    assert (data.y_test - f).std() / f.std() == pytest.approx(0.25, rel=0.03)


def test_tables_and_figure_are_made_of_what_is_done(tmp_path):
    pytest.importorskip("matplotlib")
    done = [record("kaucus", "fast", 2.0, 10.0), record("LightGBM", 30, 0.1, 12.0)]
    content = {"curves": [*done, {"skipped": "no such library"}], "small": []}
    [table] = pace.tables(content)
    assert [row[-1] for row in table.rows] == ["10.00", "12.00"]
    [file] = pace.draw(content, tmp_path)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert pace.draw({"curves": []}, tmp_path) == []


def test_growth_is_measured_over_rows_and_over_columns(tmp_path):
    pytest.importorskip("matplotlib")
    steps = pace.steps(Settings(parts=["growth"], sizes=(100, 200)))
    assert [step.args[1:] for step in steps[::3]] == [
        *((100, 20), (200, 20)),
        *((5000, d) for d in pace.GROWTH_COLUMNS),
    ]
    found = [
        {**steps[i].head, **pace.measure_growth("HistGradientBoosting", 100, d)}
        for i, d in ((0, 20), (6, 5))
    ]
    rows, columns = pace.tables({"growth": found})
    assert rows.headers == ("rows", "columns", "kaucus")
    assert rows.rows[0][:2] == ["100", "20"]
    assert columns.rows[0][:2] == ["100", "5"]
    [file] = pace.draw({"growth": found}, tmp_path)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_protein_judges_and_is_no_part_of_the_other_tables():
    steps = pace.steps(Settings(parts=["whole"]))
    groups = {step.head["table"]: step.args[1] for step in steps}
    assert groups == {"adult": "develop", "protein": "judge"}


def test_words_are_compared_with_the_word_before(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    split = pace.of_tables.Split(X[:900], X[:900, 0], X[900:], X[900:, 0])
    monkeypatch.setattr(pace.of_tables, "load_split", lambda *given: split)
    monkeypatch.setattr(pace, "make_model", lambda *given: Constant(given[1]))
    fast, balanced = pace.measure_words("pol", 900, None)
    assert (fast["change"], fast["rows"]) == (None, 900)
    losses = [(v - X[900:, 0]) ** 2 / np.var(X[900:, 0]) for v in (0.0, 1.0)]
    drop = losses[1] - losses[0]
    assert balanced["change"] == pytest.approx(drop.mean() / drop.std() * 300**0.5)
    [table] = pace.tables({"words": [{"table": "pol", **r} for r in (fast, balanced)]})
    assert [row[-1][:1] for row in table.rows] == ["", "+"]
    assert {len(row) for row in table.rows} == {len(table.headers)}


class Constant:
    """A model that predicts 0 by "fast", and else 1."""

    def __init__(self, word):
        self.word, self.C_, self.representatives_ = word, 1.0, [0]

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), float(self.word != "fast"))
