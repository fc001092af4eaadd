"""The comparison of the defaults with a tuned SVC."""

import json

import numpy as np
import pytest
from benchmarks._runner import Settings, run_benchmark

from benchmarks import defaults as bench


def record(name, contender, accuracy, seconds, scaled=True):
    return {
        "set": name,
        "contender": contender,
        "scaled": scaled,
        "rows": 100,
        "classes": 2,
        "accuracies": [accuracy],
        "seconds": seconds,
    }


RECORDS = [
    record("heart_statlog", "kaucus", 0.9, 0.1),
    record("heart_statlog", "SVC", 0.8, 1.0),
    record("splice_scale", "kaucus", 0.7, 0.1),
    record("splice_scale", "SVC", 0.8, 4.0),
    record("fourclass_scale", "kaucus", 1.0, 0.1),
    record("fourclass_scale", "SVC", 1.0, 2.0),
    record("climate_crashes", "kaucus", 1.0, 0.1),
]


def test_ranks_and_ratios():
    rows = {row[0]: row for row in bench.summary_rows(RECORDS)}
    assert rows["judging (2)"][2:4] == ["1.75", "1.25"]
    assert rows["all (3)"][2:4] == ["1.50", "1.50"]
    assert rows["all (3)"][4] == "86.67 against 86.67"
    assert rows["all (3)"][5] == "20.0 (10.0 at least)"


def test_a_set_that_one_has_not_done_is_not_shown():
    sets = [row[0] for row in bench.set_rows(RECORDS, scaled=True)]
    assert sets == ["heart_statlog ¹", "splice_scale", "fourclass_scale"]
    assert bench.set_rows(RECORDS, scaled=False) == []


def test_every_set_that_picked_the_defaults_is_measured():
    assert set(bench.PICKED_ON) <= {*bench.SMALL, *bench.LARGE}
    assert len(bench.GRID["C"]) * len(bench.GRID["gamma"]) == 25


@pytest.mark.slow
@pytest.mark.data
def test_a_quick_run(tmp_path, data_home, monkeypatch):
    monkeypatch.setattr(bench, "QUICK", ("heart_statlog",))
    settings = Settings(quick=True, data_home=data_home)
    content, _ = run_benchmark(bench, tmp_path, settings)
    assert [(r["contender"], r["scaled"]) for r in content["records"]] == [
        ("kaucus", True),
        ("SVC", True),
        ("kaucus", False),
        ("SVC", False),
    ]
    assert all(np.mean(r["accuracies"]) > 0.6 for r in content["records"])
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["records"] == content["records"]
    assert "heart_statlog" in (tmp_path / "bench.md").read_text()
