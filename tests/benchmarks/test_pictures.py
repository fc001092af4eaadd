"""The benchmark of pictures: what it runs, and what it leaves when a row fails."""

import json

import numpy as np
import pytest

from benchmarks import pictures as bench
from benchmarks._runner import Settings, run_benchmark
from papers import Split
from papers._store import rounded

SIZES = bench.QUICK._replace(
    n_train=40, n_test=10, product=64, gram=(50, 40), representatives=20
)


@pytest.fixture
def small(monkeypatch, rng):
    """Random pictures in place of the sets."""

    def load(name, sizes, data_home):
        n_columns = {"cifar10": 3072, "mnist": 784}[name]
        X = rng.integers(0, 256, size=(50, n_columns)).astype(np.uint8)
        y = np.arange(50) % 3
        return Split(X[:40], y[:40], X[40:], y[40:])

    monkeypatch.setattr(bench, "load", load)
    monkeypatch.setattr(bench, "QUICK", SIZES)
    monkeypatch.setattr(bench, "AUTO", {})


@pytest.mark.slow
def test_rows_are_written_and_the_best_way_is_run_again(small, tmp_path):
    settings = Settings(quick=True, parts=["rates", "mnist"])
    content, files = run_benchmark(bench, tmp_path, settings)
    assert [r["seed"] for r in content["mnist"]] == [0, 0, 0, 1, 2]
    ways = content["mnist"][:3]
    best = min(ways, key=lambda r: r["loo_percent"])["way"]
    assert {r["way"] for r in content["mnist"][3:]} == {best}
    assert {"product", "Gram products"} == {r["what"] for r in content["rates"]}
    assert json.loads(files[0].read_text())["mnist"] == rounded(content["mnist"])
    for table in bench.tables(content):
        assert all(len(row) == len(table.headers) for row in table.rows)


@pytest.mark.slow
def test_a_row_that_fails_leaves_the_others(small, tmp_path, monkeypatch, capsys):
    def fail(name, options, sizes, data_home):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(bench, "fit_row", fail)
    settings = Settings(quick=True, parts=["cifar", "mnist"])
    content, _ = run_benchmark(bench, tmp_path, settings)
    assert all("out of memory" in r["skipped"] for r in content["cifar"])
    assert content["mnist"][-1]["skipped"] == "no way to repeat"
    assert "Traceback" in capsys.readouterr().err
    for table in bench.tables(content):
        assert all(len(row) == len(table.headers) for row in table.rows)


def test_every_way_is_a_set_of_parameters():
    from kaucus import PatchKernelClassifier

    known = PatchKernelClassifier().get_params()
    for ways in (bench.cifar_ways(bench.Sizes()), bench.mnist_ways(bench.Sizes())):
        for options in ways.values():
            assert set(options) <= set(known)
    assert len(bench.cifar_ways(bench.Sizes())) >= 4
