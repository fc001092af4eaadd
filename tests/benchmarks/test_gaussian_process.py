"""The benchmark of Gaussian processes: what it measures."""

from benchmarks import gaussian_process as bench
from benchmarks._runner import Settings


def test_only_the_model_on_representatives_has_many_rows():
    names = [s.head["name"] for s in bench.steps(Settings()) if s.head["n"] > 2000]
    assert names == ["KMeansKernelRegressor"] * 2


def test_a_row_for_each_contender(monkeypatch):
    made = bench.make_rows
    monkeypatch.setattr(bench, "make_rows", lambda n, seed: made(min(n, 600), seed))
    names = bench.CONTENDERS[1:2]
    records = [{"name": name, "n": 80} | bench.measure(name, 80) for name in names]
    (table,) = bench.tables({"records": records})
    assert all(len(row) == len(table.headers) for row in table.rows)
    assert 0 < records[0]["error"] < 5
