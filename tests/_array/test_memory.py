"""Sizes in words and numbers, and what may be used of what is free."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from kaucus import KMeansKernelClassifier, KMeansKernelRegressor
from kaucus._array.blocks import (
    _group_files,
    budget_to_have,
    format_bytes,
    free_memory,
    parse_bytes,
    resolve_budget,
)
from tests.arrays import array

GOOD = [
    (1, 1),
    (2**40, 2**40),
    (1e9, 10**9),
    (np.int64(7), 7),
    (np.float32(8), 8),
    ("1", 1),
    ("17b", 17),
    ("2kb", 2000),
    ("2 KiB", 2048),
    ("500MB", 500 * 10**6),
    (" 1.5 GiB ", 3 * 2**29),
    ("4GiB", 4 * 2**30),
    ("1TB", 10**12),
    ("0.5tib", 2**39),
]
BAD = [0, -1, 0.5, "0", "0.1", "-4GiB", "", "GiB", "4 GiBB", "4,5GB", "1.2.3MB", "."]
BAD += [True, False, None, float("nan"), float("inf"), "inf", "nan", [4], "four"]


@pytest.mark.parametrize(("size", "expected"), GOOD)
def test_sizes(size, expected):
    n_bytes = parse_bytes(size)
    assert n_bytes == expected
    assert type(n_bytes) is int


@pytest.mark.parametrize("size", BAD, ids=repr)
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match="is not a size; pass a positive number") as e:
        parse_bytes(size)
    assert f"memory_budget={size!r}" in str(e.value)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 * 2**29, "1.5 GiB"),
        (5 * 2**40, "5.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
        (-(2**21), "-2.0 MiB"),
        (None, "–"),
    ],
)
def test_format_bytes(n_bytes, text):
    assert format_bytes(n_bytes) == text


def test_a_budget_that_is_given_is_taken(xp):
    assert resolve_budget("3MiB", array(xp, [1.0])) == 3 * 2**20


@pytest.mark.parametrize("workers", [1, 2, 16])
@pytest.mark.parametrize("mebibytes", [1, 8, 31, 32, 33, 100, 5000])
def test_a_budget_to_have_is_what_may_be_used(monkeypatch, workers, mebibytes):
    monkeypatch.setattr("kaucus._array.blocks.n_workers", lambda like: workers)
    n_bytes = mebibytes * 2**20
    assert resolve_budget(budget_to_have(n_bytes)) == n_bytes


def test_no_budget_means_three_quarters_of_what_is_free(xp, monkeypatch):
    monkeypatch.setattr("kaucus._array.blocks._host_free_memory", lambda: 4000)
    assert resolve_budget(None) == resolve_budget(None, array(xp, [1.0])) == 3000


def test_free_memory_is_a_number_of_bytes(xp):
    assert 2**20 < free_memory(array(xp, [1.0])) < 2**60


# The limit, what is used and the page cache, as the two versions name them.
NAMES = {
    "v2": ("memory.max", "memory.current", "active_file", "inactive_file"),
    "v1": (
        *("memory.limit_in_bytes", "memory.usage_in_bytes"),
        *("total_active_file", "total_inactive_file"),
    ),
}


@pytest.fixture(params=["v2", "v1"])
def groups(request, tmp_path, monkeypatch):
    """Simulated control groups: a function that writes the files of one of them."""
    memory = "kaucus._array.blocks."
    own = tmp_path / "own"
    line = "0::/a/b" if request.param == "v2" else "4:cpu,memory:/a/b\n0::/"
    own.write_text(f"9:name=systemd:/\n{line}\n")
    monkeypatch.setattr(memory + "_OWN_GROUPS", own)
    monkeypatch.setattr(memory + "_GROUPS", tmp_path)
    monkeypatch.setattr(memory + "_system_free_memory", lambda: 5000)
    root = tmp_path if request.param == "v2" else tmp_path / "memory"
    limit_name, used_name, *kinds = NAMES[request.param]

    def write(path, limit, used, cache=0):
        _group_files.cache_clear()
        group = root / path
        group.mkdir(parents=True, exist_ok=True)
        (group / limit_name).write_text(f"{limit}\n")
        (group / used_name).write_text(f"{used}\n")
        shares = cache // 2, cache - cache // 2
        lines = [f"{kind} {n}" for kind, n in zip(kinds, shares, strict=True)]
        (group / "memory.stat").write_text("\n".join(["anon 7", *lines]))

    return write


def test_the_tighter_of_machine_and_container_counts(groups, monkeypatch):
    groups("", 1000, 400)
    assert free_memory() == 600
    monkeypatch.setattr("kaucus._array.blocks._system_free_memory", lambda: 500)
    assert free_memory() == 500
    groups("", "max", 400)  # no limit
    assert free_memory() == 500
    groups("", 300, 400)  # more in use than allowed
    assert free_memory() == 0


def test_every_group_around_the_own_one_counts(groups):
    groups("a/b", 4000, 100)
    assert free_memory() == 3900
    groups("a", 2000, 500)
    assert free_memory() == 1500
    groups("", 1000, 500)
    assert free_memory() == 500
    groups("a/other", 10, 0)
    assert free_memory() == 500


def test_the_page_cache_gives_way(groups):
    groups("a/b", 1000, 1000, cache=901)
    assert free_memory() == 901


def test_a_limit_of_addresses_counts():
    resource = pytest.importorskip("resource")
    code = (
        "import resource; from kaucus._array.blocks import free_memory;"
        "pages = int(open('/proc/self/statm').read().split()[0]);"
        "limit = pages * resource.getpagesize() + 2**27;"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit));"
        "assert 2**25 < free_memory() <= 2**27, free_memory()"
    )
    if not hasattr(resource, "RLIMIT_AS") or not sys.platform.startswith("linux"):
        pytest.skip("no limit of addresses, or no count of them")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_memory_is_told_as_such(monkeypatch):
    monkeypatch.setattr("kaucus._array.blocks._host_free_memory", lambda: 0)
    with pytest.raises(MemoryError, match=r"No memory is free.*pass memory_budget"):
        KMeansKernelClassifier(5).fit(np.eye(20), np.arange(20) % 2)
    assert resolve_budget("1MiB") == 2**20


@pytest.mark.parametrize("kind", ["sets", "intervals"])
def test_sets_and_intervals_keep_to_the_memory_budget(kind, rng):
    X = rng.normal(size=(12_000, 10))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    options = {"kernel": "rbf", "gamma": 0.1, "C": 10.0, "random_state": 0}
    if kind == "sets":
        model = KMeansKernelClassifier(100, **options).fit(X, y > 0)
    else:
        model = KMeansKernelRegressor(200, **options).fit(X, y)
    ask = model.predict_set if kind == "sets" else model.predict_interval
    for budget in (40, 60):
        model.set_params(memory_budget=f"{budget}MiB")
        model._left_out = model._calibration = None  # made anew, in this budget
        tracemalloc.start()
        try:
            ask(X[:500])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 1.1 * budget * 2**20


@pytest.mark.parametrize(
    ("model", "budget"), [(KMeansKernelClassifier, 12), (KMeansKernelRegressor, 4)]
)
def test_small_fits_keep_to_the_memory_budget(model, budget, rng):
    X = rng.normal(size=(1800, 8))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    y = y > 0 if model is KMeansKernelClassifier else y
    fast = model("fast", memory_budget=f"{budget}MiB", random_state=0)
    clone(fast).fit(X[:300], y[:300])  # modules that are imported late
    tracemalloc.start()
    try:
        fast.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= budget * 2**20
