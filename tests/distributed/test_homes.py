"""Partitions and the workers that work on them: evenly, with as few moves as needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dask")

from kaucus.distributed import even_homes

WORKERS = ["a", "b", "c", "d"]
placed = st.lists(st.sampled_from(WORKERS), min_size=1, max_size=60)


def loads(homes, n_rows, threads):
    total = dict.fromkeys(threads, 0)
    for home, n in zip(homes, n_rows, strict=True):
        total[home] += n
    return {worker: rows / threads[worker] for worker, rows in total.items()}


@given(placed, st.integers(1, 4))
def test_equal_partitions_differ_by_one_at_most(places, n_workers):
    threads = dict.fromkeys(WORKERS[:n_workers] + places, 1)
    homes = even_homes(places, [7] * len(places), threads)
    counts = [homes.count(worker) for worker in threads]
    assert max(counts) - min(counts) <= 1
    moved = sum(a != b for a, b in zip(places, homes, strict=True))
    share = len(places) // len(threads)
    needed = sum(max(share - places.count(worker), 0) for worker in threads)
    assert needed <= moved <= needed + len(threads)


@given(placed, st.data())
def test_no_worker_has_a_partition_too_many(places, data):
    """Moving any one from the worker with the most to that with the least is no use."""
    n_rows = data.draw(st.lists(st.integers(0, 9), min_size=60, max_size=60))
    threads = {worker: data.draw(st.integers(1, 3)) for worker in WORKERS}
    n_rows = n_rows[: len(places)]
    homes = even_homes(places, n_rows, threads)
    found = loads(homes, n_rows, threads)
    most, least = max(found, key=found.get), min(found, key=found.get)
    own = [n for home, n in zip(homes, n_rows, strict=True) if home == most and n]
    if own:
        assert found[least] + min(own) / threads[least] >= found[most] - 1e-9
    assert max(found.values()) <= max(loads(places, n_rows, threads).values()) + 1e-9


def test_even_partitions_stay_and_threads_count():
    places = ["a", "b"] * 5
    assert even_homes(places, [3] * 10, {"a": 1, "b": 1}) == places
    homes = even_homes(["a"] * 8, [3] * 8, {"a": 1, "b": 3})
    assert (homes.count("a"), homes.count("b")) == (2, 6)


def test_a_worker_that_is_new_gets_its_share():
    homes = even_homes(["a", "a", "b", "b"], [5, 5, 5, 5], {"a": 1, "b": 1, "c": 2})
    assert np.unique(homes, return_counts=True)[1].tolist() == [1, 1, 2]
