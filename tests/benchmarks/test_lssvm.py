"""The benchmark's tables and records; nothing is timed here."""

import numpy as np
import pytest

from benchmarks import lssvm as bench
from benchmarks._runner import Settings, Step, run_step, unit_rows
from papers import Split

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


@pytest.mark.slow
def test_a_missing_library_is_visibly_skipped():
    head = {"rows": 10, "contender": "ghost", "dtype": "float64"}
    step = Step("contenders", "ghost", dict, (), head, ("no_such_library",))
    [skipped] = run_step(step, {})
    assert "no_such_library" in skipped["skipped"]
    [row] = bench.contender_rows([skipped])
    assert row[2].startswith("skipped: No module named 'no_such_library'")
    assert len(row) == len(bench.HEADERS)


def test_every_contender_separates_easy_rows(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = unit_rows(3 * np.eye(3)[y] @ rng.normal(size=(3, 8)) + rng.normal(size=(60, 8)))
    split = Split(X[:30], y[:30], X[30:], y[30:])
    monkeypatch.setattr(bench, "load_digits", lambda *args: split)
    for name in ("KernelRidge, float64", "SVC, float64"):
        assert bench.measure_contender(name, 30, None)["error_percent"] < 40


def test_rows_have_mean_zero_and_norm_one(rng):
    X = unit_rows(rng.normal(size=(5, 7)))
    np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)


def test_every_contender_runs_with_every_size():
    steps = bench.steps(Settings(sizes=[10, 20], large=True))
    asked = [step.args[:2] for step in steps if step.section == "contenders"]
    assert asked == [(name, n) for n in (10, 20) for name in bench.CONTENDERS]
    assert [step.section for step in steps[-2:]] == ["kernels", "memory"]
    assert len(bench.steps(Settings(quick=True))) == len(bench.CONTENDERS) + 1


def test_tables_have_a_value_for_every_column():
    kernel = {
        "kernel": "poly",
        "dtype": "float32",
        "flops_per_second": 5e10,
        "gemm_flops_per_second": 1e11,
        "share": 0.5,
    }
    memory = {**RECORD, "rows": 60000, "budget": "2GiB", "solver": "cg"}
    content = {"contenders": [], "kernels": [kernel], "memory": [memory]}
    for table in bench.tables(content):
        assert all(len(row) == len(table.headers) for row in table.rows)
