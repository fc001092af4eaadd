"""The benchmark for GPUs, on the host: what it times, and what it writes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from benchmarks import _gpu_jobs
from benchmarks import gpu as bench
from benchmarks._runner import Settings

pytest.importorskip("torch")

SIZES = bench.Sizes(400, 5, 5, 100, 2, 600, 8, 12, 200, 64)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = [_gpu_jobs.tensor(X[s], "cpu") for s in (slice(400), slice(400, 600))]
    return bench.Digits(X[0], y[:400], X[1], y[400:600], sides=(8, 8))


@pytest.fixture(scope="module")
def content(digits):
    jobs = bench.make_jobs(digits, "cpu", SIZES)
    return {
        "about": bench.ABOUT,
        "machine": {"gpu": "none"},
        "jobs": [bench.measure_job(job, digits.X_train) for job in jobs],
        "rates": bench.measure_rates(digits, "cpu", SIZES),
    }


def test_every_job_runs_and_classifiers_learn(content):
    assert len(content["jobs"]) == 6
    for record in content["jobs"]:
        assert record["seconds"] > 0
        assert np.median(record["runs"]) == record["seconds"]
    errors = [r["error_percent"] for r in content["jobs"]]
    assert all(e is None or e < 60 for e in errors)  # by chance: 90
    assert sum(e is not None for e in errors) == 4


def test_rates_are_shares_of_a_product(content):
    products = [r for r in content["rates"] if r["what"] == "product"]
    assert [r["share"] for r in products] == [1.0] * len(products)
    assert all(r["share"] > 0 for r in content["rates"])
    assert any(r["what"].startswith("factor") for r in content["rates"])


def test_tables_have_a_value_for_every_column(content):
    for table in bench.tables(content):
        assert all(len(row) == len(table.headers) for row in table.rows)


def test_a_missing_gpu_is_said_at_once(data_home):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="no CUDA device"):
        bench.steps(Settings(data_home=data_home, quick=True))
