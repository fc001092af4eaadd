"""The benchmark on clusters: its rows, its steps and its tables; not its times."""

import numpy as np
import pytest

from benchmarks import _cluster_data as data
from benchmarks import cluster as bench
from benchmarks._local_cluster import passes_since
from benchmarks._runner import Settings

pytest.importorskip("dask")


def test_nobody_errs_less_than_the_bayes_error():
    X, y = data.test_rows(100_000)
    best = data.probability(X) > 0.5
    error = 100 * np.mean(best != y)
    assert error == pytest.approx(data.bayes_error(), abs=0.5)
    assert 5 < error < 20
    others = np.random.default_rng(0).random((5, len(y))) < 0.02
    assert all(100 * np.mean((best ^ flipped) != y) > error for flipped in others)


def test_files_have_the_same_rows(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    files = data.write_files(tmp_path, 1000)
    frame = pd.concat([pd.read_parquet(file) for file in files.parquet])
    X, y = np.load(files.rows, mmap_mode="r"), np.load(files.labels)
    assert len(files.parquet) == 4
    np.testing.assert_array_equal(frame.drop(columns="label").to_numpy(), X)
    np.testing.assert_array_equal(frame["label"], y)
    assert data.write_files(tmp_path, 1000) == files


def test_steps_follow_the_options():
    steps = bench.steps(Settings(sizes=[10, 30], workers=[1, 3], parts=["workers"]))
    assert [step.args for step in steps] == [
        (30, 30, 1, None),
        (30, 30, 3, None),
        (30, 3),
    ]
    growth = bench.steps(Settings(sizes=[30, 10], parts=["growth"]))
    assert [step.args[:2] for step in growth] == [(10, 30), (30, 30)]
    both = bench.steps(Settings(sizes=[30, 10], parts=["fit", "growth"]))
    assert [step.args[:2] for step in both] == [(30, 30), (30, 2), (10, 30)]
    with pytest.raises(FileNotFoundError, match="there are"):
        bench.steps(Settings(parts=["other"]))


class Stream:
    """A client that has seen tasks of two passes, and one that is no partition's."""

    def get_task_stream(self, start):
        def task(key, *times):
            own = [
                {"action": action, "start": start + a, "stop": start + b}
                for action, a, b in times
            ]
            return {"key": key, "startstops": own}

        return [
            task(("assign-rows-b", 0), ("compute", 7, 8)),
            task(("assign-rows-a", 0), ("transfer", 0, 1), ("compute", 1, 3)),
            task(("assign-rows-a", 1), ("compute", 2, 6)),
            task("look-c", ("compute", 0, 9)),
        ]


def test_a_pass_is_from_its_first_task_to_its_last():
    found = passes_since(Stream(), 100.0)
    assert found == {"assign-rows": [(1.0, 6.0, 6.0), (7.0, 8.0, 1.0)]}


WAITED = {"workers": 8, "partitions": 80} | {
    f"{name}_seconds": 1.0
    for name in ("work", "fit", "start", "step", "equations", "end")
}


def test_tables_have_a_value_for_every_column():
    head = {"rows": 10, "workers": 2, "how": "Dask", "device": None}
    times = {f"{name}_seconds": 1.0 for name in ("read", "fit", "predict", "one")}
    errors = {"error_percent": 9.0, "bayes_percent": 8.0, "one_error_percent": 9.0}
    record = {**head, **times, **errors, "memory": 10**9}
    passes = {"look": [(0.0, 0.5, 0.25)], "assign": [(0.5, 1.0, 0.5), (1, 2, 0.25)]}
    busy = {**record, "passes": passes, "fit_seconds": 2.0}
    content = {
        "fit": [record, {**head, "skipped": "no dask"}, busy],
        "kills": [{"kills": 2, "rows": 10, "difference": 1e-12}],
        "covtype": [record],
        "overhead": [WAITED, {"workers": 4, "skipped": "no dask"}],
    }
    found = bench.tables(content)
    assert len(found) == 4
    share = found[0].headers.index("workers busy %")
    assert [row[share] for row in found[0].rows][::2] == ["", "25"]
    with_growth = bench.tables({**content, "growth": [{**record, "rows": 5}]})
    assert [row[0] for row in with_growth[1].rows] == ["5", "10", "10", "10"]
    for table in found:
        assert all(len(row) == len(table.headers) for row in table.rows)
