"""The benchmark of intervals and sets: what it measures, and its tables."""

import importlib.util

import numpy as np
import pytest

from benchmarks import intervals as bench
from benchmarks._runner import Settings
from benchmarks.tables import Split

GIVEN = {"C": 1.0, "kernel": "rbf", "gamma": 0.5}


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=200)
    return Split(X[:100], y[:100], X[100:], y[100:])


@pytest.fixture
def classes(numbers):
    cut = [np.digitize(y, [-0.5, 0.5]) for y in (numbers.y, numbers.y_test)]
    return numbers._replace(y=cut[0], y_test=cut[1])


def records(contenders, data, names):
    found = []
    for name in names:
        head = {"contender": name, "table": "made", "split": 0}
        found += [{**head, **r} for r in contenders[name](data, 0, **GIVEN)]
    return found


def test_one_fit_is_measured_in_several_ways(numbers, classes, tmp_path):
    ways = ["kaucus", "kaucus, split"]
    content = {
        "intervals": records(bench.REGRESSORS, numbers, ways),
        "sets": records(bench.CLASSIFIERS, classes, ways),
    }
    names = [r["contender"] for r in content["intervals"]]
    assert names == [f"kaucus, {way}" for way in ("plus", "naive", "minmax", "split")]
    for section in content.values():
        for record in section:
            assert np.diff(record["coverage"]).min() >= 0
            assert np.diff(record["size"]).min() >= 0
            assert record["coverage"][-1] > 0.8
    tables = bench.tables(content)
    assert len(tables) == 8
    for table in tables:
        assert all(len(row) == len(table.headers) for row in table.rows)
    pytest.importorskip("matplotlib")
    assert all(file.stat().st_size for file in bench.draw(content, tmp_path))


def test_a_fifth_of_the_rows_is_held_out():
    learning, held = bench._held_out(100, 0)
    assert len(held) == 20
    assert sorted([*learning, *held]) == list(range(100))


def test_times_have_a_table_without_mapie_too(numbers, monkeypatch):
    monkeypatch.setattr(bench._tables, "load_split", lambda *args: numbers)
    found = [{"rows": 100, **r} for r in bench.measure_times(100, None)]
    [table] = bench.tables({"times": found})
    if importlib.util.find_spec("mapie") is None:
        assert "skipped" in table.rows[-1][1]
    else:
        assert found[-1]["difference"] < 1e-9


def test_parts_are_known(monkeypatch):
    monkeypatch.setattr(bench._tables, "table_names", lambda home, group: ["kin8nm"])
    steps = bench.steps(Settings(quick=True, parts=["regression"]))
    assert {step.head["table"] for step in steps} == {"kin8nm"}
    assert len(bench.steps(Settings(parts=["time"]))) == 1
    with pytest.raises(FileNotFoundError, match="widths"):
        bench.steps(Settings(parts=["widths"]))
