"""The benchmark's tables and records; nothing is timed here."""

import json

import numpy as np
import pytest

import kaucus.experiments._bench_lssvm as bench
from kaucus.evaluation import IsolatedRun
from kaucus.experiments import Split

RECORD = {
    "rows": 2000,
    "dtype": "float64",
    "fit_seconds": 2.0,
    "predict_seconds": 1.0,
    "error_percent": 5.0,
    "memory": 2**30,
}


def record(name, **changes):
    return {**RECORD, "contender": name, **changes}


def test_ratios_are_theirs_over_ours_of_the_same_rows_and_precision():
    rows = bench.contender_rows(
        [
            record("kaucus LSSVMClassifier, float64"),
            record("kaucus LSSVMClassifier, float32", dtype="float32", fit_seconds=9),
            record("SVC, float64", fit_seconds=8.0, memory=2**29),
            record("SVC, float64", rows=5000),
        ]
    )
    assert rows[0][-3:] == ["1.00", "1.00", "1.00"]
    assert rows[2][-3:] == ["4.00", "1.00", "0.50"]
    assert rows[3][-3:] == ["–", "–", "–"]


def test_a_missing_library_is_visibly_skipped(monkeypatch):
    contender = bench.Contender(dict, "float64", ("no_such_library",))
    monkeypatch.setitem(bench.CONTENDERS, "ghost", contender)
    skipped = bench.run_contender("ghost", 10, None)
    assert "no_such_library" in skipped["skipped"]
    [row] = bench.contender_rows([skipped])
    assert row[2].startswith("skipped: No module named 'no_such_library'")
    assert len(row) == len(bench.HEADERS)


def test_every_contender_separates_easy_rows(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = bench._unit(
        3 * np.eye(3)[y] @ rng.normal(size=(3, 8)) + rng.normal(size=(60, 8))
    )
    split = Split(X[:30], y[:30], X[30:], y[30:])
    monkeypatch.setattr(bench, "load_mnist_split", lambda *args: split)
    for name in ("KernelRidge, float64", "SVC, float64"):
        assert bench.measure_contender(name, 30, None)["error_percent"] < 40


def test_rows_have_mean_zero_and_norm_one(rng):
    X = bench._unit(rng.normal(size=(5, 7)))
    np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)


def test_the_files_hold_all_tables(tmp_path, monkeypatch):
    kernel = {
        "kernel": "poly",
        "dtype": "float32",
        "flops_per_second": 5e10,
        "gemm_flops_per_second": 1e11,
        "share": 0.5,
    }
    memory = {
        "rows": 60000,
        "budget": "2GiB",
        "memory": 2**31,
        "fit_seconds": 100.0,
        "error_percent": 1.2,
        "solver": "cg",
    }

    def fake(function, *args, **kwargs):
        results = {
            bench.measure_contender: RECORD,
            bench.measure_kernels: [kernel],
            bench.measure_memory: memory,
        }
        return IsolatedRun(results[function], 1.0, 0, 0)

    monkeypatch.setattr(bench, "run_isolated", fake)
    monkeypatch.setattr(bench, "load_mnist_split", lambda *args: None)
    content = bench.bench_lssvm(tmp_path, sizes=[2000, 3000], memory=True)
    assert len(content["contenders"]) == 2 * len(bench.CONTENDERS)
    assert json.loads((tmp_path / "bench.json").read_text()) == content
    text = (tmp_path / "bench.md").read_text()
    for part in ("50 % |", "2GiB |", "scikit-learn-intelex SVC", "- cpu: "):
        assert part in text


def test_missing_data_is_an_error_before_anything_runs(tmp_path, monkeypatch):
    def no_data(*args, **kwargs):
        raise FileNotFoundError("no MNIST")

    monkeypatch.setattr(bench, "load_split", no_data)
    with pytest.raises(FileNotFoundError, match="no MNIST"):
        bench.bench_lssvm(tmp_path, sizes=[10])
    assert not list(tmp_path.iterdir())
