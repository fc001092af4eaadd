"""The benchmark of kernel k-means: fair, and honest about what is missing."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks import kernel_kmeans as bench
from kaucus.kernels import Gaussian
from tests.reference import kernel_kmeans as naive

N = 300


@pytest.fixture(scope="module")
def content():
    """All tables, computed in this process: what runs apart is tested elsewhere."""
    contenders = []
    for name, contender in bench.CONTENDERS.items():
        head = {"rows": N, "contender": name, "dtype": contender.dtype}
        if name.startswith("tslearn"):
            contenders.append({**head, "skipped": "not installed: tslearn"})
        else:
            contenders.append({**head, **bench.measure_contender(name, N)})
    return {
        "about": bench.ABOUT,
        "machine": {"cpu": "some"},
        "contenders": contenders,
        "approximate": bench.measure_landmarks(N),
        "large": [bench.measure_large(2000, 50, None)],
    }


@pytest.mark.filterwarnings("ignore:Kernel k-means stopped")
@pytest.mark.parametrize("seed", [0, 1])
def test_kaucus_and_plain_numpy_take_the_same_steps(seed):
    X, start = bench.make_rows(N, "float64"), bench.first_labels(N, seed)
    ours, _ = bench._kaucus(X, seed)
    plain, _ = bench.plain_numpy(X, seed)
    assert_array_equal(ours, plain)
    K = Gaussian(bench.GAMMA)(X)
    expected = naive.lloyd(K, start, bench.N_CLUSTERS, n_iter=bench.N_STEPS)
    assert_array_equal(ours, expected)


def test_the_objective_is_the_full_one():
    X, labels = bench.make_rows(N, "float64"), bench.first_labels(N)
    expected = naive.objective(Gaussian(bench.GAMMA)(X), labels, bench.N_CLUSTERS)
    np.testing.assert_allclose(bench.true_objective(X, labels), expected, rtol=1e-9)


def test_tables_have_a_value_per_column_and_say_what_is_missing(content):
    for _, headers, rows in bench.tables(content):
        assert rows
        assert all(len(row) == len(headers) for row in rows)
    rows = bench.contender_rows(content["contenders"])
    (missing,) = [row for row in rows if row[1].startswith("tslearn")]
    assert missing[2] == "skipped: not installed: tslearn"
    (ours,) = [row for row in rows if row[1] == "kaucus KernelKMeans, float64"]
    assert ours[-2] == "1.00"
    (plain,) = [row for row in rows if row[1] == "plain NumPy, float64"]
    assert plain[-1] == "0 of 5, 5 tied"


def test_landmarks_never_beat_the_exact_fit_by_much(content):
    first, *rest = content["approximate"]
    assert first["centres"] == "exact"
    assert first["inertia"] == first["exact_inertia"]
    for record in rest:
        assert record["exact_inertia"] <= record["inertia"] * (1 + 1e-9)
        assert record["exact_inertia"] >= 0.98 * first["inertia"]
