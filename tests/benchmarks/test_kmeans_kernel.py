"""The benchmark of the k-means kernel classifier; nothing is timed here."""

import json

import numpy as np
import pytest

from benchmarks import kmeans_kernel as bench
from benchmarks._runner import Settings, run_benchmark
from papers import Split
from tests.reference.kmeans_kernel import PlainKMeansKernel


def easy_split(n=300, **_):
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % 10
    X = 3 * np.eye(10)[y] @ rng.normal(size=(10, 784)) + rng.normal(size=(2 * n, 784))
    return Split(X[:n].astype("f"), y[:n], X[n:].astype("f"), y[n:])


@pytest.fixture
def tiny(monkeypatch):
    """Stand in for MNIST, and run in this process."""

    real = bench.steps

    def here(settings):
        return [step._replace(isolated=False) for step in real(settings)]

    monkeypatch.setattr(bench, "load_split", lambda *a, **k: easy_split())
    monkeypatch.setattr(bench, "load_digits", lambda *a: easy_split())
    monkeypatch.setattr(bench, "prepare", lambda settings: None)
    monkeypatch.setattr(bench, "steps", here)
    monkeypatch.setattr(
        bench, "contests", lambda quick: [(n, 10) for n in bench.CONTENDERS]
    )
    jobs = [(on, n, q) for on in ("representatives", "all") for n, q in GROWTH]
    monkeypatch.setattr(bench, "growth_jobs", lambda n, quick: jobs)
    monkeypatch.setattr(
        bench,
        "measure_clustering",
        lambda name, q, n, home: {"steps": 1, "seconds": 2.0, "mean_cosine": 0.5},
    )


GROWTH = [(100, 3), (300, 3), (300, 6)]


def test_every_contender_learns_and_the_files_are_written(tiny, tmp_path):
    content, files = run_benchmark(bench, tmp_path, Settings(quick=True))
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert all(r["error_percent"] < 30 for r in content["contenders"])
    assert json.loads((tmp_path / "bench.json").read_text())["growth"]
    text = (tmp_path / "bench.md").read_text()
    for part in ("Whole job", "Clustering alone", "How fit time grows", "Machine"):
        assert part in text
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_ratios_are_theirs_over_ours_at_the_same_points():
    ours = {
        "contender": bench.KAUCUS,
        "points": 1000,
        "fit_seconds": 1.0,
        "predict_seconds": 1.0,
        "error_percent": 2.0,
        "memory": 2**20,
        "model_bytes": 2**20,
    }
    theirs = {**ours, "contender": "x", "fit_seconds": 7.0}
    missing = {"contender": "y", "skipped": "No module named 'y'"}
    rows = bench.job_rows([ours, theirs, missing])
    assert [row[-1] for row in rows] == ["1.00", "4.00", ""]
    assert rows[2][2] == "skipped: No module named 'y'"
    assert all(len(row) == len(bench.HEADERS) for row in rows)


def test_clusterers_begin_alike_and_end_alike():
    X = easy_split().X_train
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    ours = bench._cluster_kaucus(X, X[:10])
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    theirs = bench._cluster_sklearn(X, X[:10])
    theirs = theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    assert (
        np.max(X @ ours.T, axis=1).mean() >= np.max(X @ theirs.T, axis=1).mean() - 0.01
    )


def test_the_plain_version_is_the_papers_classifier():
    """The reference that the benchmark runs against does what ours does."""
    split = easy_split()
    plain = PlainKMeansKernel(5).fit(split.X_train, split.y_train)
    ours = bench._ours("representatives")(5).fit(split.X_train, split.y_train)
    right = [np.mean(m.predict(split.X_test) == split.y_test) for m in (plain, ours)]
    assert abs(right[0] - right[1]) < 0.05
    assert min(right) > 0.8


def test_nystroem_is_not_asked_for_ten_thousand_points():
    asked = bench.contests(quick=False)
    assert ("Nystroem + RidgeClassifier", 300) in asked
    assert ("Nystroem + RidgeClassifier", 1000) not in asked
    assert ("plain NumPy, float64", 1000) in asked
