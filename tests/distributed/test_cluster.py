"""On a cluster of processes: the same model, also where workers are lost."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from kaucus import KernelKMeans, KMeansKernelClassifier, SphericalKMeans
from kaucus.distributed import DaskRows, rows_of
from tests.arrays import assert_to_rounding
from tests.distributed.test_fits import assert_same_model, chunked

GIVEN = {
    "C": 10.0,
    "kernel": "rbf",
    "gamma": 0.3,
    "kmeans_params": {"tol": 0.02},  # few steps: each takes a message or two
    "random_state": 0,
}
# A cluster of processes closes its sockets when it likes, and minds a busy machine.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
]


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**options, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    return X, (X[:, 0] ** 2 + X[:, 1] > 1).astype(int)


def task_names(dask_scheduler):
    return set(dask_scheduler.task_prefixes)


@pytest.fixture(scope="module")
def expected(data):
    return KMeansKernelClassifier(40, **GIVEN, refine=30).fit(*data)


def test_the_current_client_is_used_and_the_model_is_that_of_numpy(
    client, data, expected
):
    X, y = data
    rows, labels = chunked(X, 6).persist(), chunked(y, 6).persist()
    model = KMeansKernelClassifier(40, **GIVEN, refine=30).fit(rows, labels)
    assert_same_model(model, expected)
    assert_array_equal(model.predict(rows).compute(), expected.predict(X))
    assert model.score(rows, labels) == pytest.approx(expected.score(X, y))
    names = client.run_on_scheduler(task_names)
    assert {"look-at-rows", "assign-rows", "add-normal-equations"} <= names


@pytest.mark.parametrize("n_workers", [1, 3, 7])
def test_any_number_of_workers_gives_the_model_of_numpy(data, expected, n_workers):
    options = {"n_workers": n_workers, "threads_per_worker": 1, "processes": False}
    X, y = data
    with (
        distributed.LocalCluster(**options, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        rows, labels = chunked(X, 9).persist(), chunked(y, 9).persist()
        distributed.wait([rows, labels])
        model = KMeansKernelClassifier(40, **GIVEN, refine=30).fit(rows, labels)
        assert len(client.scheduler_info()["workers"]) == n_workers
    assert_same_model(model, expected)


def place_of(block):
    return block.rows.sum(), distributed.get_worker().address


def test_partitions_of_one_worker_are_shared_out(client, data):
    """Dask looks for idle workers once a second, and a pass is shorter than that."""
    one = next(iter(client.scheduler_info()["workers"]))
    rows = client.persist(chunked(data[0], 8), workers=[one])
    distributed.wait(rows)
    source = rows_of(rows, (np.float64,), memory_budget=None, device=None, name="Model")
    for held in (source, source.attached(data[1])):
        sums, places = zip(*held.map(place_of, label="place"), strict=True)
        assert list(places) == list(source.homes)
        assert sorted(map(places.count, set(places))) == [4, 4]
        assert_allclose(sums, [part.sum() for part in np.split(data[0], 8)])


def copied_partitions(dask_scheduler):
    return [key for key in dask_scheduler.tasks if "move-rows" in str(key)]


def test_a_fitted_model_keeps_no_copies_of_partitions(client, data, expected):
    one = next(iter(client.scheduler_info()["workers"]))
    rows = client.persist(chunked(data[0], 8), workers=[one])
    distributed.wait(rows)
    model = KMeansKernelClassifier(40, **GIVEN, refine=30).fit(rows, data[1])
    assert_same_model(model, expected)
    assert "move-rows" in client.run_on_scheduler(task_names)
    end = time.monotonic() + 10
    while client.run_on_scheduler(copied_partitions):
        assert time.monotonic() < end
        time.sleep(0.05)
    found = model.predict_set(data[0][:20])  # reads the rows again
    assert_array_equal(found, expected.predict_set(data[0][:20]))


@pytest.fixture
def passes(client, monkeypatch):
    """Kill a worker between two steps of k-means; return the names of the passes."""
    reduce, passes = DaskRows.reduce, []

    def with_a_loss(self, *args, label, **options):
        passes.append(label)
        if passes.count("assign-rows") == 2 and label == "assign-rows":
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return reduce(self, *args, label=label, **options)

    monkeypatch.setattr(DaskRows, "reduce", with_a_loss)
    return passes


def test_a_lost_worker_changes_nothing(client, data, expected, passes):
    """Its tasks run again."""
    X, y = data
    rows = chunked(X, 6).persist()
    model = KMeansKernelClassifier(40, **GIVEN, refine=30).fit(rows, y)
    assert passes.count("assign-rows") > 2
    assert_same_model(model, expected)


def test_a_lost_worker_changes_no_clusters_of_a_kernel(client, data, passes):
    X = data[0]
    options = {"gamma": "scale", "n_landmarks": 40, "tol": 1e-3, "random_state": 0}
    model = KernelKMeans(4, approximation="nystrom", **options)
    expected = clone(model).fit(X)
    model.fit(chunked(X, 6).persist(), sample_weight=np.ones(len(X)))
    assert passes.count("assign-rows") > 2
    assert_allclose(model.transform(X), expected.transform(X), atol=1e-6)
    assert_allclose(model.inertia_, expected.inertia_)


def test_sums_do_not_depend_on_the_number_of_workers(client, data):
    X = data[0]
    rows = chunked(X, 7)
    options = {"tol": 1e-2, "random_state": 0}
    with_two = SphericalKMeans(20, **options).fit(rows.persist())
    client.cluster.scale(1)
    while len(client.scheduler_info()["workers"]) > 1:
        time.sleep(0.05)
    with_one = SphericalKMeans(20, **options).fit(rows.persist())
    client.cluster.scale(2)
    assert_to_rounding(with_one.cluster_centers_, with_two.cluster_centers_)


def test_ctrl_c_ends_a_fit_and_the_cluster_goes_on(client, data, expected, monkeypatch):
    """The signal comes while workers compute and the client waits for them."""
    reduce, passes = DaskRows.reduce, []

    def with_a_signal(self, *args, label, **options):
        passes.append(label)
        if passes.count("assign-rows") == 2:
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        return reduce(self, *args, label=label, **options)

    X, y = data
    rows = chunked(X, 6).persist()
    long = GIVEN | {"kmeans_params": {"tol": 1e-12, "max_iter": 300}}
    model = KMeansKernelClassifier(40, **long)
    with monkeypatch.context() as patch:
        patch.setattr(DaskRows, "reduce", with_a_signal)
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows, y)
    assert not hasattr(model, "dual_coef_")
    assert "add-normal-equations" not in passes
    again = KMeansKernelClassifier(40, **GIVEN, refine=30).fit(rows, y)
    assert_same_model(again, expected)


def test_rows_that_are_sent_anew_in_every_pass_are_told(client, data):
    X, y = data
    model = KMeansKernelClassifier(5, **GIVEN)
    with pytest.warns(UserWarning, match=r"X = X.persist\(\)"):
        model.fit(chunked(X[:300], 2), y[:300])


def test_a_worker_has_too_little_memory(client, data):
    X, y = data
    model = KMeansKernelClassifier(500, **GIVEN, memory_budget="2MiB")
    with pytest.raises(MemoryError, match="fewer representatives"):
        model.fit(chunked(X, 6).persist(), y)
