"""The benchmark against SVMs; nothing is timed here."""

import json

import numpy as np
import pytest
import scipy.sparse

from benchmarks import _fast_contenders as who
from benchmarks import fast as bench
from benchmarks._runner import Settings, run_benchmark
from papers import Split


def easy_split(n=240, n_classes=3):
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % n_classes
    X = 3 * np.eye(n_classes)[y] @ rng.normal(size=(n_classes, 20))
    X = (X + rng.normal(size=X.shape)).astype("f")
    return Split(X[:n], y[:n], X[n:], y[n:])


@pytest.fixture
def tiny(monkeypatch):
    """Stand in for the data, with few representatives, in this process."""

    listed = bench.steps

    def here(settings):
        return [step._replace(isolated=False) for step in listed(settings)]

    def load(part, quick, dtype, data_home):
        split = easy_split()
        split = split._replace(X_train=split.X_train.astype(dtype))
        if part == "a9a":
            return split._replace(X_train=scipy.sparse.csr_matrix(split.X_train))
        return split

    monkeypatch.setattr(bench, "steps", here)
    monkeypatch.setattr(bench, "load_part", load)
    for name, value in {
        "DIGITS_FIRST": 4,
        "NYSTROEM_POINTS": 30,
        "QUICK_COVER_POINTS": (9, 18),
        "ADULT_POINTS": 5,
        "GRID": {"C": [1.0, 10.0]},
    }.items():
        monkeypatch.setattr(who, name, value)
    real = who._on_digits
    monkeypatch.setattr(who, "_on_digits", lambda n_added: real(12))


@pytest.mark.slow
def test_every_contender_learns_and_the_files_are_written(tiny, tmp_path):
    content, _ = run_benchmark(bench, tmp_path, Settings(quick=True))
    for part in bench.PARTS:
        ran = [r for r in content[part] if "skipped" not in r]
        assert ran[0]["contender"].startswith("kaucus")
        assert all(r["error_percent"] < 20 for r in ran)
    assert json.loads((tmp_path / "bench.json").read_text())["covtype"]
    text = (tmp_path / "bench.md").read_text()
    assert all(title in text for title in bench.TITLES.values())
    assert (tmp_path / "covtype.png").read_bytes().startswith(b"\x89PNG")


def test_one_part_alone(tiny, tmp_path):
    settings = Settings(quick=True, parts=["a9a"])
    content, _ = run_benchmark(bench, tmp_path, settings)
    assert "a9a" in content
    assert "mnist" not in content
    titles = [title for title, *_ in bench.tables(content)]
    assert titles == ["a9a, 240 training rows"]
    assert not (tmp_path / "covtype.png").exists()


def test_an_unknown_part_is_an_error_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'iris'.*mnist.*covtype.*a9a"):
        bench.prepare(Settings(parts=["iris"]))


def test_ratios_are_over_the_first_row():
    ours = {
        "contender": "kaucus",
        "points": 10,
        "fit_seconds": 2.0,
        "predict_seconds": 1.0,
        "error_percent": 1.0,
        "memory": 2**20,
    }
    theirs = {**ours, "contender": "x", "points": None, "fit_seconds": 7.0}
    missing = {"contender": "y", "points": None, "skipped": "No module named 'y'"}
    rows = bench.table_rows([ours, theirs, missing])
    assert [row[-2:] for row in rows[:2]] == [["1.00", "1.00"], ["3.50", "1.00"]]
    assert rows[2][2] == "skipped: No module named 'y'"
    assert all(len(row) == len(bench.HEADERS) for row in rows)
    assert bench.table_rows([missing, ours])[1][-2:] == ["–", "–"]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("part", bench.PARTS)
def test_labels_tell_contenders_apart(part, quick):
    labels = [bench._label(c) for c in who.contenders(part, quick)]
    assert len(set(labels)) == len(labels) > 2


def test_the_cover_types_are_standardised_by_the_training_rows(data_home):
    split = who.load_part("covtype", True, "float32", data_home)
    assert split.X_train.shape == (20_000, 54)
    assert split.X_test.shape == (116_202, 54)
    varying = split.X_train.std(axis=0) > 0
    assert np.allclose(split.X_train.mean(axis=0), 0, atol=1e-3)
    assert np.allclose(split.X_train.std(axis=0)[varying], 1, atol=1e-2)


def test_a_model_that_draws_rows_is_fitted_with_every_seed(tiny, monkeypatch):
    ours, seen = who.contenders("mnist", True)[0], []

    def fit_once(model, split):
        seen.append(model.random_state)
        times = {"fit_seconds": 2.0, "predict_seconds": 1.0, "memory": 1}
        return {**times, "error_percent": len(seen)}

    monkeypatch.setattr(bench, "fit_and_predict", fit_once)
    record = bench.measure("mnist", bench._label(ours), True, None)
    assert seen == list(who.SEEDS)
    assert record["error_percent"] == 2
    assert [fit["error_percent"] for fit in record["fits"]] == [1, 2, 3]
    row = bench.table_rows([{"contender": "a", "points": 1, **record}])[0]
    assert row[4] == "2.00 (1.00–3.00)"
